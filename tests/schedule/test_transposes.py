"""Transposes and permutations: tiles of two axes, the rules of UNROLL loops, and every element at its place."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dyn
import dyn.numpy as dnp
from dyn import dtypes
from dyn.errors import IRError
from dyn.ir.core import Function
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import Buffer, Const, Kernel, Load, Loop, Ref, Role, Stmt, Store, scalar_fold
from dyn.schedule.kernel_text import kernel_text
from dyn.schedule.kernel_verifier import check
from dyn.schedule.loops import Loops, ScheduleError
from dyn.schedule.nests import loop_nest
from dyn.schedule.target import Target
from dyn.shapes import Dim, as_dim, dim_min, symbol
from tests.canary import fenced, watched
from tests.stitch.models import Model, optimized

Array = np.ndarray[Any, Any]
DTYPES = [
    np.bool_, np.int8, np.uint16, np.float16, ml_dtypes.bfloat16, np.float32, np.int32, np.float64, np.int64,
    np.complex64,
]  # fmt: skip
#: Around the edges of squares, vectors and tiles.
SIZES = st.sampled_from([0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 127, 129, 257])


# --- schedules --------------------------------------------------------------------------------------------------------


def _transposed() -> Function:
    m = Model("transposed")
    x = m.param("x", "n", "m")
    return m.function(m.add(m.transpose(x, 1, 0), 1.0))


def _both_ways() -> Function:
    """One operand as it lies and one transposed, of two dtypes, in the middle of a batch."""
    m = Model("both_ways")
    x, y = m.param("x", "b", "n", "m"), m.param("y", "b", "m", "n", dtype=dtypes.float64)
    return m.function(m.mul(y, m.op("convert", m.transpose(x, 0, 2, 1), dtype=dtypes.float64)))


def _few() -> Function:
    """Images of three channels, which become the last axis."""
    m = Model("few")
    return m.function(m.op("negate", m.transpose(m.param("x", "n", 3, "p"), 0, 2, 1)))


def _rows() -> Function:
    """A permutation that keeps the last axis: no tiles."""
    m = Model("rows")
    return m.function(m.op("negate", m.transpose(m.param("x", "a", "b", "c"), 1, 0, 2)))


PROGRAMS = {"transposed": _transposed, "both_ways": _both_ways, "few": _few, "rows": _rows}


def _kernels(function: Function, target: Target | None = None) -> str:
    done = optimized(function) if target is None else optimized(function, target)
    return "\n".join(kernel_text(v.kernel) for launch in done.launches for v in launch.variants)


@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"transposes_{name}.txt", _kernels(PROGRAMS[name]()))


def test_tiles_of_gpus_go_through_scratch() -> None:
    """A tile's rows lie an element further apart than they are long."""
    text = _kernels(_transposed(), Target("cuda", "sm_90a", warp=32))
    assert "scratch s0: f32[1056]" in text
    assert "s0[t1 + 33*i1]" in text


def test_only_the_last_axes_make_a_tile() -> None:
    plan = optimized(_transposed()).plan
    loops = Loops(loop_nest(plan, plan.groups[0]))
    first, second = loops.shared
    outer, inner = loops.split(first, 16)
    with pytest.raises(ScheduleError) as error:
        loops.bind_tile(outer, second, inner)
    assert (
        str(error.value) == f"{outer.name}, {second.name}, {inner.name} are not the last shared axes, or make no tile"
    )


# --- what UNROLL loops keep to ----------------------------------------------------------------------------------------


def _unrolled(extent: Dim, *, role: Role = Role.LANE, fold: bool = False, inside: bool = False) -> Kernel:
    n, i, j = symbol("n"), symbol("i"), symbol("j")
    x, y = Buffer("x", dtypes.float32), Buffer("y", dtypes.float32)
    folds = (scalar_fold(Ref("r", x.dtype), Scalar.ADD, Const(x.dtype, 0.0), Load(x, as_dim(i))),) if fold else ()
    extent = as_dim(n) if extent == -1 else dim_min(16, as_dim(n)) if extent == -2 else extent
    body: tuple[Stmt, ...] = (Store(y, as_dim(i), Load(x, as_dim(i))),)
    if inside:
        body = (Loop(Role.SERIAL, symbol("k"), 2, body),)
    copies = Loop(Role.UNROLL, i, extent, body, folds)
    return Kernel("k", (x, y), (n,), (), (Loop(role, j, as_dim(n), (copies,)),))


def test_numbers_and_what_they_bound_are_extents() -> None:
    for extent in (0, 3, 64, -2):
        check(_unrolled(extent))
        check(_unrolled(extent, fold=True))


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (_unrolled(-1), "kernel k: unroll loop i has n iterations, not 64 at most by its form"),
        (_unrolled(65), "kernel k: unroll loop i has 65 iterations, not 64 at most by its form"),
        (_unrolled(4, role=Role.SERIAL), "kernel k: unroll loop i stands outside of a lane loop"),
        (_unrolled(4, inside=True), "kernel k: unroll loop i has more in it than stores and folds"),
    ],
)
def test_other_unroll_loops_are_refused(kernel: Kernel, text: str) -> None:
    with pytest.raises(IRError) as error:
        check(kernel)
    assert str(error.value) == text


# --- elements ---------------------------------------------------------------------------------------------------------


def numbers(shape: tuple[int, ...], dtype: Any) -> Array:
    rng = np.random.default_rng(sum(shape))
    return rng.integers(0, 2 if dtype is np.bool_ else 100, shape).astype(dtype)


def _guarded(function: Callable[..., Any], arrays: list[Array], wanted: Array) -> None:
    for at_start in (False, True):
        with watched(at_start=at_start) as guard:
            found = np.array(function(*[guard.copy(a) for a in arrays]))
        assert found.shape == wanted.shape
        assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_transposes_of_every_dtype(dtype: Any) -> None:
    with fenced():
        function = dyn.jit(lambda x: x.T)

    @given(m=SIZES, n=SIZES)
    @settings(max_examples=40)
    def run(m: int, n: int) -> None:
        x = numbers((m, n), dtype)
        _guarded(function, [x], np.ascontiguousarray(x.T))

    run()


@pytest.mark.parametrize("order", [(0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1), (1, 0, 2)])
def test_permutations(order: tuple[int, ...]) -> None:
    with fenced():
        function = dyn.jit(lambda x, y: dnp.transpose(x, order) * y)

    @given(sizes=st.tuples(SIZES, st.sampled_from([0, 1, 2, 3, 5]), SIZES), turn=st.integers(0, 2))
    @settings(max_examples=30)
    def run(sizes: tuple[int, ...], turn: int) -> None:
        x = numbers((*sizes[turn:], *sizes[:turn]), np.float32)
        y = numbers(tuple(x.shape[a] for a in order), np.float32)
        _guarded(function, [x, y], np.transpose(x, order) * y)

    run()


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 16, 64])
def test_channels_whose_number_is_known(channels: int) -> None:
    shapes = (f"n {channels} p", f"n p {channels}")
    for shape, at in zip(shapes, (1, 2), strict=True):
        with fenced():
            function = dyn.jit(lambda x: dnp.transpose(x, (0, 2, 1)), shapes=shape)
        for n, p in [(0, 3), (1, 1), (2, 17), (3, 64), (1, 300), (2, 0)]:
            x = numbers((n, channels, p) if at == 1 else (n, p, channels), np.float32)
            _guarded(function, [x], np.ascontiguousarray(x.transpose(0, 2, 1)))


def test_an_array_and_its_transpose() -> None:
    """What is stored transposed beside what is not; and both read in one loop."""
    function = dyn.jit(lambda x: ((y := x * 2), y.T, x + x.T))
    for n in (0, 1, 3, 16, 17, 130):
        x = numbers((n, n), np.float32)
        for found, wanted in zip(function(x), (x * 2, (x * 2).T, x + x.T), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_broadcasts_that_are_not_decided() -> None:
    function = dyn.jit(lambda x, y: x.T + y)
    for x, y in [
        ((5, 7), (7, 5)),
        ((1, 7), (7, 5)),
        ((5, 1), (7, 5)),
        ((5, 7), (1, 5)),
        ((5, 7), (7, 1)),
        ((1, 1), (3, 4)),
    ]:
        a, b = numbers(x, np.float32), numbers(y, np.float32)
        np.testing.assert_array_equal(function(a, b), a.T + b)


def test_a_donated_operand_beside_a_transposed_one() -> None:
    function = dyn.jit(lambda x, y: x.T * 3 + y, shapes="n m, m n", donate_argnums=1)
    for shape in [(1, 1), (17, 33), (64, 130)]:
        x, y = numbers(shape, np.float32), numbers(shape[::-1], np.float32)
        wanted = x.T * 3 + y
        np.testing.assert_array_equal(function(x, y), wanted)


def test_short_runs_go_together() -> None:
    """Around the number of elements that one GRID iteration copies, and of runs that are none and longer than that."""
    swap = dyn.jit(lambda x: (dnp.transpose(x, (0, 2, 1, 3)), dnp.transpose(x, (0, 2, 1, 3)) * 2))
    for length, depth in product((0, 1, 409, 410, 1000), (0, 1, 5, 2048, 2049)):
        x = np.arange(2 * length * 3 * depth, dtype=np.int32).reshape(2, length, 3, depth)
        for view in (x, x[::-1, ::2]):
            moved, doubled = swap(view)
            np.testing.assert_array_equal(moved, view.transpose(0, 2, 1, 3))
            np.testing.assert_array_equal(doubled, 2 * view.transpose(0, 2, 1, 3))
    assert swap.cache_info().compiles == 1
