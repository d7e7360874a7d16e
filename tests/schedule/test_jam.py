"""Unroll and jam: neighbours of folds that go together, what they keep in registers, and where they may not."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import dyn
from dyn import config, dtypes, nn
from dyn.errors import IRError
from dyn.ops.scalar import Scalar
from dyn.schedule.jam import jam
from dyn.schedule.kernel import Apply, Buffer, Carry, Const, Expr, Load, Loop, Ref, Role, Stmt, Store
from dyn.schedule.loops import Loops, ScheduleError
from dyn.schedule.nests import loop_nest, stitch_nest
from dyn.schedule.order import Order
from dyn.schedule.sweeps import Sweeps
from dyn.shapes import Dim, as_dim, symbol
from tests.canary import compile_traced, run_compiled
from tests.numpy.differential import same, trace
from tests.stitch.models import Model, optimized

Array = np.ndarray[Any, Any]
NHWC, NCHW = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")
#: Around how many go together, and around what makes a GRID iteration.
WIDTHS = (0, 1, 2, 5, 6, 7, 35, 36, 37, 43, 73)


def _convolve(x: Any, w: Any, groups: int, numbers: Any, **options: Any) -> Any:
    given: dict[str, Any] = {"window_strides": (1, 1), "padding": "SAME", **options}
    return nn.conv(x, w, dimension_numbers=numbers, feature_group_count=groups, **given)


@pytest.mark.parametrize(
    "options",
    [
        {}, {"padding": ((2, 0), (0, 3))}, {"window_strides": (1, 2)}, {"rhs_dilation": (1, 2)},
        {"lhs_dilation": (1, 2), "padding": ((1, 1), (0, 2))}, {"padding": ((3, 3), (3, 3))},
    ],
    ids=str,
)  # fmt: skip
def test_widths_around_the_blocks(options: dict[str, Any]) -> None:
    """Nothing outside of the arrays is touched; what lies outside of the image is 0, however much of it there is."""
    specs = ("float32 b h w 5", "float32 3 3 1 5")
    traced = trace(lambda xp, x, w: _convolve(x, w, 5, NHWC, **options), *specs)
    program = compile_traced(traced, [])
    rng = np.random.default_rng(0)
    for batch, height, width in [(1, 3, width) for width in WIDTHS] + [(0, 3, 8), (2, 0, 8), (2, 1, 8)]:
        x = rng.integers(-3, 4, (batch, height, width, 5)).astype("f4")
        w = rng.integers(-3, 4, (3, 3, 1, 5)).astype("f4")
        for at_start in (False, True):
            (result,) = run_compiled(program, [x, w], at_start=at_start)
            same(result, dyn.numpy.asarray(_by_terms(x, w, options)), 1e-6)


def _by_terms(x: Array, w: Array, options: dict[str, Any]) -> Array:
    """The convolution tap by tap."""
    lhs, rhs = options.get("lhs_dilation", (1, 1)), options.get("rhs_dilation", (1, 1))
    strides, pads = options.get("window_strides", (1, 1)), options.get("padding")
    batch, height, width, channels = x.shape
    spread = np.zeros((batch, max((height - 1) * lhs[0] + 1, 0), max((width - 1) * lhs[1] + 1, 0), channels), "f4")
    spread[:, :: lhs[0], :: lhs[1]] = x
    window = [(n - 1) * d + 1 for n, d in zip(w.shape[:2], rhs, strict=True)]
    if pads is None:
        sizes = [(-(-n // s), s) for n, s in zip(spread.shape[1:3], strides, strict=True)]
        whole = [max((n - 1) * s + k - m, 0) for (n, s), k, m in zip(sizes, window, spread.shape[1:3], strict=True)]
        pads = [(p // 2, p - p // 2) for p in whole]
    padded = np.pad(spread, ((0, 0), *pads, (0, 0)))
    counts = [max((m - k) // s + 1, 0) for m, k, s in zip(padded.shape[1:3], window, strides, strict=True)]
    total = np.zeros((batch, *counts, channels), "f4")
    for i, j in product(*map(range, w.shape[:2])):
        rows, columns = (
            slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip((i, j), rhs, counts, strides, strict=True)
        )
        if total.size:
            total += padded[:, rows, columns] * w[i, j, 0]
    return total


@pytest.mark.parametrize("numbers", [NHWC, NCHW], ids=["channels last", "channels first"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32"])
def test_declared_and_undeclared_give_the_same_bits(numbers: Any, dtype: str) -> None:
    rng = np.random.default_rng(1)
    element = dtypes.dtype(dtype)
    last = numbers is NHWC
    plain = dyn.jit(lambda x, w: _convolve(x, w, 12, numbers))
    for size, taps in product((1, 6, 8, 43), (1, 3, 4)):
        shape, kernel = ((2, 5, size, 12), (2, taps, 1, 12)) if last else ((2, 12, 5, size), (12, 1, 2, taps))
        x, w = (rng.normal(0, 2, s).astype(element.np) for s in (shape, kernel))
        shapes = ", ".join(" ".join(map(str, s)) for s in (shape, kernel))
        declared = dyn.jit(lambda x, w: _convolve(x, w, 12, numbers), shapes=shapes)
        with config.override(variants="all"):
            one, other = plain(x, w), declared(x, w)
        assert one.tobytes() == other.tobytes()
        image, window = (x, w) if last else (x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0))
        want = _by_terms(image.astype("f4"), window.astype("f4"), {})
        got = one.astype("f4") if last else one.astype("f4").transpose(0, 2, 3, 1)
        np.testing.assert_allclose(got, want, rtol=1e-2, atol=1e-1 if dtype == "bfloat16" else 1e-4)


def test_rows_of_one_place() -> None:
    """What is one run over memory is cut into chunks for lanes, which do not go together."""
    for shape in ((1, 1, 1, 9), (3, 1, 1, 9), (1, 7, 1, 9), (1, 1, 7, 9)):
        spec = " ".join(map(str, shape))
        x, w = np.full(shape, 2.0, "f4"), np.full((1, 1, 1, 9), 3.0, "f4")
        declared = dyn.jit(lambda x, w: _convolve(x, w, 9, NHWC), shapes=f"{spec}, 1 1 1 9")
        np.testing.assert_array_equal(declared(x, w), np.full(shape, 6.0, "f4"))


def test_infinities_of_what_is_not_there() -> None:
    """An element of the padding is a 0 that is multiplied, as everywhere: an infinite weight gives NaN there."""
    w = np.full((3, 3, 1, 8), np.inf, "f4")
    result = dyn.jit(lambda x, w: _convolve(x, w, 8, NHWC))(np.ones((1, 4, 9, 8), "f4"), w)
    assert np.isnan(result[:, 0]).all()
    assert np.isposinf(result[:, 1:-1, 1:-1]).all()


# --- the transformation -----------------------------------------------------------------------------------------------


def _windows(index: Dim, extent: Dim) -> tuple[tuple[Stmt, ...], Any]:
    """Sums of windows of x, place after place."""
    var, tap = symbol("i"), symbol("t")
    x, y = Buffer("x", dtypes.float32), Buffer("y", dtypes.float32)
    state, ref = Ref("state", x.dtype), Ref("sum", x.dtype)
    place = as_dim(var) * index + as_dim(tap)
    value = Apply(Scalar.ADD, (state, Load(x, place)), x.dtype)
    carry = Carry(ref, state, Const(x.dtype, 0.0), value)
    return (Loop(Role.SERIAL, tap, extent, (), (), (carry,)), Store(y, as_dim(var), ref)), var


def _loads(body: tuple[Stmt, ...]) -> int:
    (loop, *_) = body
    assert isinstance(loop, Loop)
    found: list[Expr] = []
    for carry in loop.carries:
        found += [carry.value, *(carry.value.args if isinstance(carry.value, Apply) else ())]
    return len({id(expr) for expr in found if isinstance(expr, Load)})


def test_what_the_next_one_reads_next_is_kept() -> None:
    body, var = _windows(1, 3)
    places: list[Dim] = [as_dim(var) * 4 + n for n in range(4)]
    jammed = jam(body, var, places, lambda extent: True)
    assert len(jammed) == 5  # one loop, and four stores
    assert _loads(jammed) == 1
    # A window that moves by two reads nothing that its neighbour has read in the step before.
    body, var = _windows(2, 3)
    assert _loads(jam(body, var, places, lambda extent: True)) == 4


def test_nothing_is_read_before_a_loop_that_may_be_empty() -> None:
    body, var = _windows(1, as_dim(symbol("n")))
    places: list[Dim] = [as_dim(var) * 2 + n for n in range(2)]
    jammed = jam(body, var, places, lambda extent: isinstance(extent, int) and extent > 0)
    assert _loads(jammed) == 2
    assert isinstance(jammed[0], Loop)
    assert all(isinstance(carry.init, Const) for carry in jammed[0].carries)


def test_loops_of_different_lengths_stay_apart() -> None:
    body, var = _windows(1, 3)
    (loop, store) = body
    assert isinstance(loop, Loop)
    longer = Loop(Role.SERIAL, loop.var, as_dim(var) + 1, (), (), loop.carries)
    with pytest.raises(IRError) as error:
        jam((longer, store), var, [as_dim(var), as_dim(var) + 1], lambda extent: True)
    assert str(error.value) == "several iterations of i do not go together through what is inside"


# --- steps that may not be taken --------------------------------------------------------------------------------------


def test_only_the_axis_in_front_of_the_lanes_is_jammed() -> None:
    m = Model("plain")
    plan = optimized(m.function(m.op("negate", m.param("x", "a", "b", "c")))).plan
    loops = Loops(loop_nest(plan, plan.groups[0]))
    first, second, third = loops.shared
    with pytest.raises(ScheduleError) as error:
        loops.jam(second, 4)
    assert str(error.value) == f"{second.name} is not the axis in front of the lanes"
    loops.bind_lane(third)
    with pytest.raises(ScheduleError):
        loops.jam(first, 4)
    loops.jam(second, 4)
    assert [str(step) for step in loops.steps][-1] == f"jam {second.name} by 4"


def test_what_lanes_fold_is_not_carried() -> None:
    m = Model("sums")
    plan = optimized(m.function(m.reduce(m.param("x", "a", "b"), 1))).plan
    group = plan.groups[0]
    loops = Loops(stitch_nest(plan, group, Sweeps(plan, group, scratch=True), Order(64, 4, 4)))
    phase = loops.phases[0]
    loops.bind_lanes(phase)
    with pytest.raises(ScheduleError) as error:
        loops.carry(phase)
    assert str(error.value) == f"{phase.axes[0].name} have lanes or chains, or fold more than scalars"
