"""UNROLL loops on x86: squares that are transposed in registers, at every edge, between guard pages."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dyn import dtypes
from dyn.backends.x86 import target_for
from dyn.dtypes import DType
from dyn.lower.x86.emit import emit_kernel
from dyn.lower.x86.memory import MOST_STACK
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import Buffer, Expr, Kernel, Loop, Ref, Role, Stmt, Store, scalar_fold
from dyn.shapes import Dim, Symbol, as_dim, dim_min, floordiv, symbol
from tests.guard_pages import GuardedMemory
from tests.lower.x86_run import F32, Compiled, ap, compile_kernels, const, grid, lane, load, runnable, serial

RNG = np.random.default_rng(0)
DTYPES = [
    dtypes.bool_, dtypes.int8, dtypes.uint16, dtypes.float16, dtypes.bfloat16, dtypes.int32, F32, dtypes.float64,
    dtypes.uint64,
]  # fmt: skip
#: Around every width of vectors and of squares.
EDGES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 130)


def unroll(var: Symbol, extent: Dim, *body: Stmt) -> Loop:
    return Loop(Role.UNROLL, var, extent, tuple(body))


def transposed(dtype: DType, most: int, *, stores: bool = False) -> Kernel:
    """``y[i, j] = x[j, i]``, n by m: copies along ``i`` go by squares where they load or, with ``stores``, store."""
    m, n, i, j, s = (symbol(c) for c in "mnijs")
    x, y = Buffer("x", dtype), Buffer("y", dtype)
    row = as_dim(s) * most + as_dim(i)
    near, far = row * as_dim(m) + as_dim(j), as_dim(j) * as_dim(n) + row
    store = Store(y, far, load(x, near)) if stores else Store(y, near, load(x, far))
    extent = dim_min(most, as_dim(n) - as_dim(s) * most)
    body = lane(j, as_dim(m), unroll(i, extent, store))
    kernel = serial(s, floordiv(as_dim(n) + most - 1, most), body)
    return Kernel(f"{'stored' if stores else 'loaded'}_{dtype.short}_{most}", (x, y), (m, n), (), (kernel,))


def mixed() -> Kernel:
    """``z[i, j] = x[j, i] + y[i, j]`` and ``t[j, i] = x[j, i] < u[j, i]``: three dtypes, squares loaded and stored."""
    m, n, i, j, s = (symbol(c) for c in "mnijs")
    x, y, u, z, t = (
        Buffer("x", F32), Buffer("y", dtypes.float64), Buffer("u", F32), Buffer("z", dtypes.float64),
        Buffer("t", dtypes.bool_),
    )  # fmt: skip
    row = as_dim(s) * 8 + as_dim(i)
    near, far = row * as_dim(m) + as_dim(j), as_dim(j) * as_dim(n) + row
    value = load(x, far)
    total = ap(Scalar.ADD, ap(Scalar.CAST, value, dtype=dtypes.float64), load(y, near))
    less = ap(Scalar.LT, value, load(u, far), dtype=dtypes.bool_)
    copies = unroll(i, dim_min(8, as_dim(n) - as_dim(s) * 8), Store(z, near, total), Store(t, far, less))
    body = serial(s, floordiv(as_dim(n) + 7, 8), lane(j, as_dim(m), copies))
    return Kernel("mixed", (x, y, u, z, t), (m, n), (), (body,))


def constant(n: int) -> Kernel:
    """``y[i, j] = 2 * x[j, i]`` for a number of ``i``, which may be no power of two, or more than lanes."""
    m, i, j = (symbol(c) for c in "mij")
    x, y = Buffer("x", F32), Buffer("y", F32)
    twice = ap(Scalar.MUL, load(x, as_dim(j) * n + as_dim(i)), const(2.0))
    body = lane(j, as_dim(m), unroll(i, n, Store(y, as_dim(i) * as_dim(m) + as_dim(j), twice)))
    return Kernel(f"constant_{n}", (x, y), (m,), (), (body,))


def batched() -> Kernel:
    """``y[b, i, j] = x[b, j, i] - r[i] * c[j]`` in a grid: what does not go by squares is loaded as it was."""
    B, m, n, b, i, j = (symbol(c) for c in ("B", "m", "n", "b", "i", "j"))
    x, r, c, y = (Buffer(name, F32) for name in "xrcy")
    s = symbol("s")
    row = as_dim(s) * 16 + as_dim(i)
    base = as_dim(b) * as_dim(m) * as_dim(n)
    product = ap(Scalar.MUL, load(r, row), load(c, j))
    value = ap(Scalar.SUB, load(x, base + as_dim(j) * as_dim(n) + row), product)
    copies = unroll(i, dim_min(16, as_dim(n) - as_dim(s) * 16), Store(y, base + row * as_dim(m) + as_dim(j), value))
    body = serial(s, floordiv(as_dim(n) + 15, 16), lane(j, as_dim(m), copies))
    return Kernel("batched", (x, r, c, y), (B, m, n), (), (grid(b, as_dim(B), body),))


def folded() -> Kernel:
    """``y[j]`` is the sum of ``x[j, :]``, and ``t[i, j] = x[j, i]``: what goes by squares is folded, too."""
    m, n, i, j, s = (symbol(c) for c in "mnijs")
    x, y, t = Buffer("x", F32), Buffer("y", F32), Buffer("t", F32)
    row = as_dim(s) * 8 + as_dim(i)
    value, some, all_ = load(x, as_dim(j) * as_dim(n) + row), Ref("some", F32), Ref("all", F32)
    copies = Loop(
        Role.UNROLL, i, dim_min(8, as_dim(n) - as_dim(s) * 8), (Store(t, row * as_dim(m) + as_dim(j), value),),
        (scalar_fold(some, Scalar.ADD, const(0.0), value),),
    )  # fmt: skip
    fold = scalar_fold(all_, Scalar.ADD, const(0.0), some)
    steps = Loop(Role.SERIAL, s, floordiv(as_dim(n) + 7, 8), (copies,), (fold,))
    return Kernel("folded", (x, y, t), (m, n), (), (lane(j, as_dim(m), steps, Store(y, as_dim(j), all_)),))


LOADED = {(d, k): transposed(d, k) for d in DTYPES for k in ((1, 4, 16) if d is F32 else (16,))}
STORED = {(d, k): transposed(d, k, stores=True) for d in DTYPES for k in ((1, 4, 16) if d is F32 else (16,))}
CONSTANT = {n: constant(n) for n in (1, 2, 3, 4, 7, 8, 16, 24, 32)}


@pytest.fixture(scope="module", params=runnable(), ids=lambda target: target.arch)
def compiled(request: pytest.FixtureRequest) -> dict[str, Compiled]:
    kernels = [*LOADED.values(), *STORED.values(), *CONSTANT.values(), mixed(), batched(), folded()]
    return {k.name: run for k, run in zip(kernels, compile_kernels(kernels, request.param), strict=True)}


def random(*shape: int, dtype: DType = F32) -> np.ndarray:
    return RNG.integers(0, 2 if dtype is dtypes.bool_ else 100, shape).astype(dtype.np)


def guarded(run: Compiled, dims: tuple[int, ...], inputs: list[np.ndarray], like: list[np.ndarray]) -> list[np.ndarray]:
    """What a kernel writes, its buffers at the end of memory and then at its start."""
    results: list[np.ndarray] = []
    for at_start in (False, True):
        memory = [GuardedMemory(a.nbytes, a.itemsize, at_start=at_start) for a in (*inputs, *like)]
        arrays = [room.array(a.shape, a.dtype) for room, a in zip(memory, (*inputs, *like), strict=True)]
        for array, value in zip(arrays, inputs, strict=False):
            array[...] = value
        for room in memory[: len(inputs)]:
            room.read_only()
        run(dims, arrays)
        for room in memory:
            room.check("a buffer")
        results = [np.array(array) for array in arrays[len(inputs) :]]
        for room in memory:
            room.free()
        for got, expected in zip(results, like, strict=True):
            np.testing.assert_array_equal(got.view(f"u{got.itemsize}"), expected.view(f"u{got.itemsize}"))
    return results


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.short)
def test_transposed(dtype: DType, compiled: dict[str, Compiled]) -> None:
    for kernel in (
        *(k for (d, _), k in LOADED.items() if d is dtype),
        *(k for (d, _), k in STORED.items() if d is dtype),
    ):
        run = compiled[kernel.name]
        for m in EDGES:
            for n in RNG.choice(EDGES, 6, replace=False):
                shape = (n, m) if kernel.name.startswith("stored") else (m, n)
                x = random(*shape, dtype=dtype)
                guarded(run, (m, int(n)), [x], [x.T.copy()])


def test_several_at_once(compiled: dict[str, Compiled]) -> None:
    for m in EDGES:
        for n in RNG.choice(EDGES, 8, replace=False):
            x, y, u = random(m, n), random(n, m, dtype=dtypes.float64), random(m, n)
            guarded(compiled["mixed"], (m, int(n)), [x, y, u], [x.T + y, x < u])


def test_folds_beside_squares(compiled: dict[str, Compiled]) -> None:
    for m in EDGES:
        for n in RNG.choice(EDGES, 8, replace=False):
            x = random(m, n)
            guarded(compiled["folded"], (m, int(n)), [x], [x.sum(axis=1, dtype=np.float32), x.T.copy()])


@pytest.mark.parametrize("n", CONSTANT)
def test_numbers_of_copies(n: int, compiled: dict[str, Compiled]) -> None:
    for m in EDGES:
        x = random(m, n)
        guarded(compiled[f"constant_{n}"], (m,), [x], [2 * x.T])


def test_in_a_grid(compiled: dict[str, Compiled]) -> None:
    for b, m, n in [(0, 5, 5), (2, 0, 3), (2, 3, 0), (3, 17, 33), (2, 40, 5), (5, 1, 70), (5, 70, 1), (2, 16, 16)]:
        x, r, c = random(b, m, n), random(n), random(m)
        guarded(compiled["batched"], (b, m, n), [x, r, c], [x.transpose(0, 2, 1) - r[:, None] * c])


def test_many_squares_take_little_stack() -> None:
    """Beyond a bound accesses are gathered, and results are the same."""
    m, n, i, j, s = (symbol(c) for c in "mnijs")
    y = Buffer("y", F32)
    inputs = tuple(Buffer(f"x{k}", F32) for k in range(24))
    row = as_dim(s) * 16 + as_dim(i)
    value: Expr = load(inputs[0], as_dim(j) * as_dim(n) + row)
    for x in inputs[1:]:
        value = ap(Scalar.ADD, value, load(x, as_dim(j) * as_dim(n) + row))
    copies = unroll(i, dim_min(16, as_dim(n) - as_dim(s) * 16), Store(y, row * as_dim(m) + as_dim(j), value))
    body = serial(s, floordiv(as_dim(n) + 15, 16), lane(j, as_dim(m), copies))
    (run,) = compile_kernels([Kernel("many", (*inputs, y), (m, n), (), (body,))])
    taken = sum(int(k) * 4 for k in re.findall(r"alloca \[(\d+) x float\]", run.text.text))
    assert 0 < taken <= MOST_STACK
    for m_, n_ in [(1, 1), (17, 33), (64, 16)]:
        arrays = [random(m_, n_) for _ in inputs]
        guarded(run, (m_, n_), arrays, [np.stack(arrays).sum(0, np.float32).T.copy()])


def test_nothing_is_gathered_where_masks_are_cheap() -> None:
    for cpu in ("x86-64-v4",):
        for kernel in (LOADED[F32, 16], STORED[F32, 16], LOADED[dtypes.int8, 16]):
            text = emit_kernel(kernel, target_for(cpu)).text
            assert "gather" not in text
            assert "scatter" not in text
