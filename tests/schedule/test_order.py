"""The order of float reductions: one tree for a size, whatever stride, address or number of threads there is."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes
from dyn.backends.families import host_target
from dyn.errors import IRError
from dyn.ops.scalar import Scalar
from dyn.pipeline import CompilationRecord, optimize
from dyn.schedule.accumulation import accumulation
from dyn.schedule.kernel import Apply, Buffer, Const, Fold, Kernel, Load, Loop, Ref, Role, Store, scalar_fold
from dyn.schedule.kernel_text import kernel_text
from dyn.schedule.kernel_verifier import check
from dyn.schedule.launch import Launch
from dyn.schedule.order import Order
from dyn.schedule.target import Target
from dyn.schedule.x86.tables import SIZES as SIZES_OF_CPUS
from dyn.shapes import as_dim, symbol
from dyn.trace.function import LeafSpec, trace_function
from tests.lower.x86_run import compile_kernels, runnable

Array = np.ndarray[Any, Any]
#: Around vectors, four of them, parts of rows and parts of columns.
SIZES = (0, 1, 15, 64, 65, 1000, 4097, 32768, 32769, 100_001)


def softmax(x: Any) -> Any:
    e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True, initial=0))
    return e / dnp.sum(e, axis=-1, keepdims=True)


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: dnp.sum(x, axis=-1),
    "sum of all": dnp.sum,
    "columns": lambda x: dnp.sum(x, axis=0),
    "variance": lambda x: dnp.var(x, axis=-1),
    "variance of all": dnp.var,
    "softmax": softmax,
    "heavy": lambda x: dnp.sum(dnp.sin(dnp.exp(-x * x)) * dnp.tanh(x) + dnp.log1p(dnp.abs(x)), axis=-1),
}


def draw(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


def layouts(x: Array) -> Iterator[Array]:
    """The same elements elsewhere: at another address, transposed, reversed, every other one of more."""
    moved = np.empty(x.size + 3, x.dtype)[3:].reshape(x.shape)
    moved[...] = x
    yield moved
    yield np.ascontiguousarray(x.T).T
    yield np.ascontiguousarray(x[:, ::-1])[:, ::-1]
    wide = np.zeros((x.shape[0], 2 * x.shape[1]), x.dtype)
    wide[:, ::2] = x
    yield wide[:, ::2]


def bits(result: Any) -> bytes:
    return np.asarray(result).tobytes()


@pytest.mark.parametrize("name", PROGRAMS)
def test_strides_and_addresses_change_no_bit(name: str) -> None:
    run = dyn.jit(PROGRAMS[name])
    for size in SIZES:
        for x in (draw(3, size), draw(size, 3)):
            if x.size:
                wanted = bits(run(x))
                assert all(bits(run(same)) == wanted for same in layouts(x)), x.shape


_RUN = """
import hashlib, sys
import dyn
from tests.schedule.test_order import PROGRAMS, bits, draw
found = hashlib.sha256()
for program in PROGRAMS.values():
    run = dyn.jit(program)
    for shape in ((7, 40_000), (40_000, 7), (1, 300_000)):
        found.update(bits(run(draw(*shape))))
print(found.hexdigest())
"""


def test_threads_change_no_bit() -> None:
    found: set[str] = set()
    for count in (1, 2, 5):
        env = {**os.environ, "DYN_NUM_THREADS": str(count)}
        found.add(
            subprocess.run([sys.executable, "-c", _RUN], env=env, text=True, capture_output=True, check=True).stdout
        )
    assert len(found) == 1


# --- forms ------------------------------------------------------------------------------------------------------------


def launches(program: Callable[..., Any], *shapes: str) -> tuple[Launch, ...]:
    leaves = [LeafSpec(f"x{i}", dtypes.float32, tuple(shape.split())) for i, shape in enumerate(shapes)]
    traced = trace_function(lambda xs: program(*xs), "program", leaves)
    return optimize(traced, Target("x86", "x86-64-v4", vector_bytes=64, registers=32), CompilationRecord()).launches


def _normal(x: Any, axis: int) -> Any:
    """A row or a column by its moments."""
    d = x - dnp.mean(x, axis=axis, keepdims=True)
    return d / dnp.sqrt(dnp.mean(d * d, axis=axis, keepdims=True) + 1)


#: Programs of a matrix whose launches in parts come later: each pass over rows, over columns, over all.
_IN_PARTS: dict[str, Callable[[Any], Any]] = {
    **PROGRAMS,
    "normal rows": lambda x: _normal(x, -1),
    "normal columns": lambda x: _normal(x, 0),
    "argmax": lambda x: dnp.argmax(x, axis=-1),
    "dot": lambda x: dnp.vdot(x, x + 1),
    "half": lambda x: softmax(dnp.astype(x, dtypes.float16)),
    "stretched": lambda x: dnp.sum(x * x[:1, :], axis=(0, 1)),
}


@pytest.mark.parametrize("name", _IN_PARTS)
def test_launches_in_parts_fold_as_one_kernel_does(name: str) -> None:
    """Sizes below a part, of one and a bit, of more parts than one run has; few rows, and more than are cut."""
    shapes = [(2, 7), (1, 32768), (3, 32769), (1, 2_200_000), (9, 40_000), (100_003, 1), (70_001, 3), (5000, 600)]
    found: list[list[bytes]] = []
    for when in ("none", "all"):
        with dyn.config.override(variants=when):
            run = dyn.jit(_IN_PARTS[name])
            found.append([bits(run(draw(*shape))) for shape in shapes])
    for shape, alone, in_parts in zip(shapes, *found, strict=True):
        assert alone == in_parts, shape


@pytest.mark.parametrize("name", ["sum", "minimum"])
def test_a_result_of_sizes_that_agree_folds_as_a_single_run_does(name: str) -> None:
    """Few elements, one more than a part, many parts; axes that are stretched; nothing at all."""
    sides = [(2, 7), (1, 32768), (64, 513), (300, 1100), (2100, 1100), (3, 40_000), (0, 5)]
    cases = [(shape, shape) for shape in sides]
    cases += [(shape, small) for shape in sides for small in ((1, shape[1]), (shape[0], 1), (1, 1)) if small != shape]
    cases += [((300, 1), (1, 1100)), ((1, 1), (1, 1))]

    def program(x: Any, y: Any) -> Any:
        return dnp.sum(x * y) if name == "sum" else dnp.min(dnp.minimum(x, y), initial=1)

    found: list[list[bytes]] = []
    for when in ("none", "all"):
        with dyn.config.override(variants=when):
            run = dyn.jit(program)
            found.append([bits(run(draw(*a), draw(*b))) for a, b in cases])
    for case, alone, in_parts in zip(cases, *found, strict=True):
        assert alone == in_parts, case
    declared = dyn.jit(program, shapes="n m, n m")
    assert [bits(declared(draw(*a), draw(*b))) for a, b in cases[: len(sides)]] == found[0][: len(sides)]


def test_one_column_none_and_several() -> None:
    """A column alone is a row, of which there are kernels of their own; no column is nothing to read."""
    programs: tuple[Callable[[Any], Any], ...] = (
        lambda x: dnp.sum(x, axis=0),
        lambda x: _normal(x, 0),
        lambda x: dnp.sum(x.reshape(x.shape[0], x.shape[1], 1), axis=(0, 2)),
    )
    for program in programs:
        shapes = [(0, 1), (1, 1), (5, 1), (5, 0), (70_001, 0), (70_001, 1), (70_001, 2)]
        found: list[list[bytes]] = []
        for when in ("none", "all"):
            with dyn.config.override(variants=when):
                run = dyn.jit(program)
                results = [run(draw(*shape)) for shape in shapes]
            found.append([bits(result) for result in results])
        assert found[0] == found[1]
    (whole, *_) = launches(lambda x: dnp.sum(x, axis=0), "n m")
    assert [v.note for v in whole.variants] == [
        "reduce, parts one by one", "stitch reduce", "stitch reduce, one column", "stitch reduce",
    ]  # fmt: skip
    assert len({kernel_text(v.kernel) for v in whole.variants}) == 3
    assert len(whole.unless) == 2


def test_whole_and_parts() -> None:
    """One kernel is right for every size; those of parts run in its place where they pay, once they are there."""
    whole, parts, joined = launches(dnp.sum, "n")
    assert whole.when is None
    assert whole.unless == (parts.when,) == (joined.when,)
    assert [[v.deferred for v in launch.variants] for launch in (whole, parts, joined)] == [
        [False, False], [True], [True],
    ]  # fmt: skip
    assert (whole.variants[0].condition,) == whole.unless


def test_moments_in_parts() -> None:
    """A variance is one pass where there are parts, and two passes elsewhere."""
    whole, *parts = launches(dnp.var, "n")
    one_by_one, plain = (kernel_text(v.kernel) for v in whole.variants)
    assert (one_by_one.count("lane"), plain.count("lane")) == (1, 2)
    assert all(v.deferred for launch in parts for v in launch.variants)


def test_forms_of_a_launch() -> None:
    """Axes that may be stretched apart are two loops, and one where they are not: two trees, for different sizes."""
    (launch,) = launches(lambda x, y: dnp.sum(x * y, axis=(1, 2)), "a b c", "d e f")[:1]
    assert [v.deferred for v in launch.variants] == [False, False, False]
    assert (launch.variants[0].condition,) == launch.unless
    (rows, *_) = launches(lambda x, y: softmax(x + y), "a b", "c d")
    assert [v.deferred for v in rows.variants] == [False, True, False]


# --- kernels ----------------------------------------------------------------------------------------------------------


def _total(name: str, *, heavy: bool, stride: bool, order: Order | None) -> Kernel:
    """A sum of a vector; with more in the loop that changes nothing, or at a stride that is known at last."""
    f32 = dtypes.float32
    n, step, i = symbol("n"), symbol("step"), symbol("i")
    x, y, out = Buffer("x", f32), Buffer("y", f32), Buffer("out", f32)
    element = Load(x, as_dim(i) * as_dim(step) if stride else as_dim(i))
    stores: list[Store] = []
    if heavy:
        value: Any = element
        for _ in range(6):
            value = Apply(Scalar.SIN, (value,), f32)
        stores.append(Store(y, as_dim(i), value))
    total = Ref("total", f32)
    folds = [scalar_fold(total, Scalar.ADD, Const(f32, 0.0), element)]
    top = Ref("top", f32)
    folds.append(scalar_fold(top, Scalar.MAX, Const(f32, -np.inf), element))
    loop = Loop(Role.LANE, i, as_dim(n), tuple(stores), tuple(folds), order=order)
    return Kernel(name, (x, y, out), (n, step), (), (loop, Store(out, 0, total), Store(out, 1, top)))


@pytest.mark.parametrize("target", runnable(), ids=lambda target: target.arch)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_an_order_is_kept_whatever_else_a_loop_does(target: Target, count: int) -> None:
    order = Order(0, target.lanes(4), count)
    shapes = [(heavy, stride) for heavy in (False, True) for stride in (False, True)]
    kernels = compile_kernels([_total("t", heavy=h, stride=s, order=order) for h, s in shapes], target)
    for size in SIZES[:-3]:
        x = draw(size)
        x[: size // 100] = np.nan if size == 1000 else -0.0
        found: set[bytes] = set()
        for kernel in kernels:
            y, out = np.empty(size, "f4"), np.empty(2, "f4")
            kernel((size, 1), (x, y, out))
            found.add(out.tobytes())
            np.testing.assert_allclose(out, [x.sum(), x.max(initial=-np.inf)], rtol=1e-4, atol=1e-4)
        assert len(found) == 1, size


def _columns(order: Order | None) -> Kernel:
    """Sums and products of columns, each lane its own, beside one sum of all that no lane has to itself."""
    f32 = dtypes.float32
    n, m, i, j, k = (symbol(name) for name in "nmijk")
    x, total, times, all_of = (Buffer(name, f32) for name in ("x", "total", "times", "all"))
    element = Load(x, as_dim(j) * as_dim(m) + as_dim(i))
    refs = [Ref(name, f32) for name in ("total", "times", "all")]
    folds = (
        scalar_fold(refs[0], Scalar.ADD, Const(f32, 0.0), element),
        scalar_fold(refs[1], Scalar.MUL, Const(f32, 1.0), element),
    )
    inner = Loop(Role.SERIAL, j, as_dim(n), (), folds, order=order)
    stores = [Store(b, as_dim(i), ref) for b, ref in zip((total, times), refs, strict=False)]
    first = scalar_fold(refs[2], Scalar.ADD, Const(f32, 0.0), Load(x, as_dim(k) * as_dim(m)))
    alone = Loop(Role.SERIAL, k, as_dim(n), (), (first,), order=order)
    body = (Loop(Role.LANE, i, as_dim(m), (inner, *stores)), alone, Store(all_of, 0, refs[2]))
    return Kernel("columns", (x, total, times, all_of), (n, m), (), body)


def _pairwise(states: list[Array], fold: Callable[[Any, Any], Any]) -> Array:
    while len(states) > 1:
        odd = states[-1:] if len(states) % 2 else []
        states = [fold(a, b) for a, b in zip(states[::2], states[1::2], strict=False)] + odd
    return states[0]


def _in_steps(x: Array, step: int, fold: Callable[[Any, Any], Any], start: float) -> Array:
    """A column's elements by steps of a few, joined two by two, in turn to one state; what is left over one by one."""
    state, whole = np.full(x.shape[1], start, x.dtype), len(x) - len(x) % step
    for row in range(0, whole, step):
        state = fold(state, _pairwise(list(x[row : row + step]), fold))
    for row in x[whole:]:
        state = fold(state, row)
    return state


def _by_runs(steps: list[Array], rest: list[Array], runs: tuple[int, ...]) -> tuple[Array, Array]:
    """The sum of steps and of what is left over after them, in runs of runs: what full ones come to in float64, and
    what is not in that."""
    nothing = np.zeros_like((steps or rest)[0])
    levels, total = [nothing for _ in runs], nothing.astype("f8")
    for count, step in enumerate(steps, 1):
        levels[0] = levels[0] + step
        size = 1
        for number, run in enumerate(runs):
            size *= run
            if count % size:
                break
            if number + 1 < len(runs):
                levels[number + 1] = levels[number + 1] + levels[number]
            else:
                total = total + levels[number].astype("f8")
            levels[number] = nothing
    left = levels[0]
    for each in rest:
        left = left + each
    for level in levels[1:]:
        left = level + left
    return total, left


def _column_sums(x: Array, order: Order) -> Array:
    whole = len(x) - len(x) % order.step
    steps = [_pairwise(list(x[row : row + order.step]), np.add) for row in range(0, whole, order.step)]
    total, left = _by_runs(steps, list(x[whole:]), order.runs)
    return (total + left.astype("f8")).astype("f4")


def _row_sum(x: Array, order: Order) -> Array:
    wide = order.lanes * order.unroll
    whole = len(x) - len(x) % wide
    vectors = np.concatenate([x, np.zeros(-len(x) % wide, x.dtype)]).reshape(-1, order.unroll, order.lanes)
    steps = [_pairwise(list(step), np.add) for step in vectors[: whole // wide]]
    total, left = _by_runs(steps, list(vectors[whole // wide :].reshape(-1, order.lanes)), order.runs)
    lanes = total + left.astype("f8") if whole >= wide * np.prod(order.runs) else left
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return lanes[0].astype("f4")


@pytest.mark.parametrize("target", runnable(), ids=lambda target: target.arch)
@pytest.mark.parametrize("step", [1, 2, 4])
def test_steps_of_lanes(target: Target, step: int) -> None:
    (kernel,) = compile_kernels([_columns(Order(0, target.lanes(4), 4, step))], target)
    for rows in (0, 1, 2, 3, 4, 5, 7, 8, 9, 30):
        for columns in (0, 1, 3, 16, 17, 128, 150):
            x = draw(rows, columns) + np.float32(1)
            if columns:
                x[rows // 2 :, 0] = -0.0
            total, times, first = np.empty(columns, "f4"), np.empty(columns, "f4"), np.empty(1, "f4")
            kernel((rows, columns), (x, total, times, first))
            assert bits(total) == bits(_in_steps(x, step, np.add, 0.0))
            assert bits(times) == bits(_in_steps(x, step, np.multiply, 1.0))
            assert not columns or bits(first) == bits(_in_steps(x[:, :1], step, np.add, 0.0))


def _in_runs(order: Order) -> list[Kernel]:
    """A sum of columns, each lane its own, and one of a row beside a maximum, both in runs."""
    f32 = dtypes.float32
    made = accumulation(Scalar.ADD, Const(f32, 0.0))
    n, m, i, j = (symbol(name) for name in "nmij")
    x, total, top = (Buffer(name, f32) for name in ("x", "total", "top"))
    ref, most = Ref("acc", dtypes.float64), Ref("most", f32)
    element = Load(x, as_dim(j) * as_dim(m) + as_dim(i))
    fold = Fold((ref,), made.monoid, (element,), made.block)
    inner = Loop(Role.SERIAL, j, as_dim(n), (), (fold,), order=order)
    narrow = Apply(Scalar.CAST, (ref,), f32)
    columns = Kernel(
        "columns", (x, total), (n, m), (), (Loop(Role.LANE, i, as_dim(m), (inner, Store(total, as_dim(i), narrow))),)
    )
    row = Load(x, as_dim(i))
    folds = (
        Fold((ref,), made.monoid, (row,), made.block),
        scalar_fold(most, Scalar.MAX, Const(f32, -np.inf), row),
    )
    body = (Loop(Role.LANE, i, as_dim(m), (), folds, order=order), Store(total, 0, narrow), Store(top, 0, most))
    return [columns, Kernel("row", (x, total, top), (n, m), (), body)]


@pytest.mark.parametrize("target", runnable(), ids=lambda target: target.arch)
@pytest.mark.parametrize("runs", [(1,), (4,), (2, 4), (4, 4, 4)], ids=str)
def test_runs_are_of_runs_of_steps(target: Target, runs: tuple[int, ...]) -> None:
    order = Order(0, target.lanes(4), 4, 2, runs)
    columns, row = compile_kernels(_in_runs(order), target)
    for rows in (0, 1, 2, 3, 8, 9, 31, 127, 128, 129, 300):
        x = draw(rows, 21) + np.float32(1)
        total = np.empty(21, "f4")
        columns((rows, 21), (x, total))
        assert bits(total) == bits(_column_sums(x, order) if rows else np.zeros(21, "f4")), rows
    for size in (0, 1, 15, 16, 64, 100, 511, 512, 2047, 2048, 2049, 4096, 9000):
        x = draw(1, size)[0] + np.float32(1)
        total, top = np.empty(1, "f4"), np.empty(1, "f4")
        row((1, size), (x, total, top))
        assert bits(total) == bits(_row_sum(x, order) if size else np.zeros(1, "f4")), size
        assert top == x.max(initial=-np.inf)


def test_sums_of_columns_go_in_steps_of_two() -> None:
    """Sums of columns of up to a part of rows, with few columns and many, alone and beside other sums."""
    two = dyn.jit(lambda x: (dnp.sum(x, axis=0), dnp.sum(x * x, axis=0)))
    order = SIZES_OF_CPUS.order([dtypes.float32], host_target())
    assert order is not None
    for shape in ((1, 5), (2, 5), (511, 8), (512, 3), (9, 300), (100, 700)):
        x = draw(*shape)
        for result, elements in zip(two(x), (x, x * x), strict=True):
            assert bits(result) == bits(_column_sums(elements, order)), shape


def test_orders_are_of_lanes_and_chains_that_fold() -> None:
    kernel = _total("k", heavy=False, stride=False, order=Order(0, 16, 4))
    (loop, *stores) = kernel.body
    assert isinstance(loop, Loop)
    for wrong in (replace(loop, role=Role.GRID), replace(loop, folds=(), extent=1)):
        with pytest.raises(IRError, match=r"^kernel k: loop i has an order, and folds nothing in lanes or chains$"):
            check(replace(kernel, body=(wrong, *stores) if wrong.role is Role.LANE else (replace(wrong, folds=()),)))
