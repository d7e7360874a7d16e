"""Whole kernels, of the kinds that schedules make, at many sizes against NumPy; and parts of their grids."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

from dyn import dtypes
from dyn.backends.x86 import host_target
from dyn.dtypes import DType
from dyn.errors import NotYetError
from dyn.lower.x86.emit import emit_kernel
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import Buffer, Expr, Fold, Index, Kernel, Load, Ref, Space, Store, scalar_fold
from dyn.schedule.monoids import extreme_and_place, moments, sum_of_exponentials
from dyn.shapes import Dim, Symbol, as_dim, dim_max, dim_min, evaluate, floordiv, mod, symbol
from tests.lower import gpu_kernels
from tests.lower.x86_run import F32, SIZES, Compiled, ap, compile_kernels, const, grid, lane, load, runnable, serial

Arrays = list[np.ndarray]
RNG = np.random.default_rng(0)
INF = float("inf")


@dataclass(frozen=True)
class Case:
    """A kernel; the dims to run it at for a size; inputs for dims; what the outputs, the last buffers, must be."""

    kernel: Kernel
    dims: Callable[[int], tuple[int, ...]]
    inputs: Callable[..., Arrays]
    expected: Callable[..., Arrays]
    tolerance: float = 0.0


def random(*shape: int, dtype: DType = F32) -> np.ndarray:
    if dtype is dtypes.bool_:
        return RNG.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        return RNG.integers(0, 100, shape).astype(dtype.np)
    return RNG.standard_normal(shape).astype(dtype.np)


def bias_relu() -> Case:
    m, n, r, i = (symbol(c) for c in "mnri")
    x, b, y = (Buffer(c, F32) for c in "xby")
    index = as_dim(r) * as_dim(n) + as_dim(i)
    value = ap(Scalar.MAX, ap(Scalar.ADD, load(x, index), load(b, i)), const(0.0))
    kernel = Kernel(
        "bias_relu", (x, b, y), (m, n), (), (grid(r, as_dim(m), lane(i, as_dim(n), Store(y, index, value))),)
    )
    return Case(kernel, lambda n: (3, n), lambda m, n: [random(m, n), random(n)], lambda x, b: [np.maximum(x + b, 0)])


def transposed(dtype: DType) -> Case:
    m, n, r, i = (symbol(c) for c in "mnri")
    x, y = Buffer("x", dtype), Buffer("y", dtype)
    source = as_dim(i) * as_dim(m) + as_dim(r)
    body = lane(i, as_dim(n), Store(y, as_dim(r) * as_dim(n) + as_dim(i), load(x, source)))
    kernel = Kernel(f"transposed_{dtype.short}", (x, y), (m, n), (), (grid(r, as_dim(m), body),))
    return Case(kernel, lambda n: (5, n), lambda m, n: [random(n, m, dtype=dtype)], lambda x: [x.T.copy()])


def scattered() -> Case:
    """The transposition with a strided store."""
    m, n, r, i = (symbol(c) for c in "mnri")
    x, y = Buffer("x", F32), Buffer("y", F32)
    body = lane(i, as_dim(n), Store(y, as_dim(i) * as_dim(m) + as_dim(r), load(x, as_dim(r) * as_dim(n) + as_dim(i))))
    kernel = Kernel("scattered", (x, y), (m, n), (), (grid(r, as_dim(m), body),))
    return Case(kernel, lambda n: (5, n), lambda m, n: [random(m, n)], lambda x: [x.T.copy()])


def flipped(dtype: DType) -> Case:
    """Loads backwards, and stores backwards what came forwards."""
    n, i = symbol("n"), symbol("i")
    x, y, z = Buffer("x", dtype), Buffer("y", dtype), Buffer("z", dtype)
    last = as_dim(n) - 1 - as_dim(i)
    stores = Store(y, as_dim(i), load(x, last)), Store(z, last, load(x, i))
    kernel = Kernel(f"flipped_{dtype.short}", (x, y, z), (n,), (), (lane(i, as_dim(n), *stores),))
    return Case(kernel, lambda n: (n,), lambda n: [random(n, dtype=dtype)], lambda x: [x[::-1].copy(), x[::-1].copy()])


def gathered() -> Case:
    """``y[r, i] = table[ids[r], i] + other[ids2[i]]``: a uniform row and a varying element."""
    m, n, v, r, i, row, col = (symbol(c) for c in ("m", "n", "v", "r", "i", "row", "col"))
    table, ids, other, ids2, y = (
        Buffer("table", F32), Buffer("ids", dtypes.int64), Buffer("other", F32), Buffer("ids2", dtypes.int32),
        Buffer("y", F32),
    )  # fmt: skip
    first = Load(table, as_dim(row) * as_dim(n) + as_dim(i), ((row, load(ids, r)),))
    second = Load(other, as_dim(col), ((col, ap(Scalar.CAST, load(ids2, i), dtype=dtypes.int64)),))
    store = Store(y, as_dim(r) * as_dim(n) + as_dim(i), ap(Scalar.ADD, first, second))
    body = (grid(r, as_dim(m), lane(i, as_dim(n), store)),)
    kernel = Kernel("gathered", (table, ids, other, ids2, y), (m, n, v), (), body)

    def inputs(m: int, n: int, v: int) -> Arrays:
        ids = RNG.integers(0, v, m)
        return [random(v, n), ids, random(v), RNG.integers(0, v, n).astype(np.int32)]

    return Case(kernel, lambda n: (4, n, 11), inputs, lambda t, a, o, b: [t[a] + o[b]])


_LENGTHS = np.array([3, 0, 70, 1, 33, 0, 0, 129, 2])
_OFFSETS = np.cumsum([0, *_LENGTHS])
_RUNS = [slice(begin, end) for begin, end in pairwise(_OFFSETS)]


def ragged() -> Case:
    """Bags of rows, of different lengths; small whole numbers, so that no sum rounds."""

    def inputs(m: int, n: int) -> Arrays:
        return [_OFFSETS, RNG.integers(0, 6, _OFFSETS[-1]).astype(np.int32), np.rint(random(6, n))]

    def expected(_: np.ndarray, ids: np.ndarray, table: np.ndarray) -> Arrays:
        return [np.array([table[ids[run]].sum(0) for run in _RUNS])]

    return Case(gpu_kernels.ragged(), lambda n: (len(_RUNS), n), inputs, expected)


def ragged_sums() -> Case:
    """Rows of different lengths, lanes along each."""

    def inputs(m: int) -> Arrays:
        return [_OFFSETS, np.rint(random(int(_OFFSETS[-1])))]

    def expected(_: np.ndarray, x: np.ndarray) -> Arrays:
        return [np.array([x[run].sum() for run in _RUNS])]

    return Case(gpu_kernels.ragged_sums(), lambda n: (len(_RUNS),), inputs, expected)


def softmax(dtype: DType) -> Case:
    m, n, r, i, j, k = (symbol(c) for c in "mnrijk")
    x, y = Buffer("x", dtype), Buffer("y", dtype)
    s = Buffer("s", dtype, Space.SCRATCH, as_dim(n))
    top, total = Ref("top", dtype), Ref("total", dtype)
    row = as_dim(r) * as_dim(n)
    e = ap(Scalar.EXP, ap(Scalar.SUB, load(x, row + as_dim(j)), top))
    scaled = ap(Scalar.MUL, load(s, k), ap(Scalar.DIV, const(1.0, dtype), total))
    body = (
        lane(i, as_dim(n), folds=[scalar_fold(top, Scalar.MAX, const(-INF, dtype), load(x, row + as_dim(i)))]),
        lane(j, as_dim(n), Store(s, as_dim(j), e), folds=[scalar_fold(total, Scalar.ADD, const(0.0, dtype), e)]),
        lane(k, as_dim(n), Store(y, row + as_dim(k), scaled)),
    )
    kernel = Kernel(f"softmax_{dtype.short}", (x, y), (m, n), (s,), (grid(r, as_dim(m), *body),))

    def expected(x: np.ndarray) -> Arrays:
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True, initial=-np.inf))
        return [e / e.sum(1, keepdims=True)]

    return Case(kernel, lambda n: (3, n), lambda m, n: [random(m, n, dtype=dtype)], expected, 4e-6)


def layer_norm() -> Case:
    m, n, r, i, j, k = (symbol(c) for c in "mnrijk")
    x, g, b, y = (Buffer(c, F32) for c in "xgby")
    total, squares = Ref("total", F32), Ref("squares", F32)
    row = as_dim(r) * as_dim(n)
    count = ap(Scalar.CAST, Index(dtypes.int64, as_dim(n)), dtype=F32)
    mean = ap(Scalar.DIV, total, count)
    d = ap(Scalar.SUB, load(x, row + as_dim(j)), mean)
    scale = ap(Scalar.RSQRT, ap(Scalar.ADD, ap(Scalar.DIV, squares, count), const(1e-5)))
    d2 = ap(Scalar.SUB, load(x, row + as_dim(k)), mean)
    value = ap(Scalar.ADD, ap(Scalar.MUL, ap(Scalar.MUL, d2, scale), load(g, k)), load(b, k))
    body = (
        lane(i, as_dim(n), folds=[scalar_fold(total, Scalar.ADD, const(0.0), load(x, row + as_dim(i)))]),
        lane(j, as_dim(n), folds=[scalar_fold(squares, Scalar.ADD, const(0.0), ap(Scalar.MUL, d, d))]),
        lane(k, as_dim(n), Store(y, row + as_dim(k), value)),
    )
    kernel = Kernel("layer_norm", (x, g, b, y), (m, n), (), (grid(r, as_dim(m), *body),))

    def expected(x: np.ndarray, g: np.ndarray, b: np.ndarray) -> Arrays:
        x = x.astype(np.float64)
        x = x - x.sum(1, keepdims=True) / max(x.shape[1], 1)
        variance = (x * x).sum(1, keepdims=True) / max(x.shape[1], 1)
        return [x / np.sqrt(variance + 1e-5) * g + b]

    return Case(kernel, lambda n: (3, n), lambda m, n: [random(m, n), random(n), random(n)], expected, 1e-5)


def column_folds(dtype: DType) -> Case:
    """Sum, maximum and minimum of columns: lanes over columns, serial over rows."""
    m, n, i, j = (symbol(c) for c in "mnij")
    x, s, hi, lo = (Buffer(c, dtype) for c in ("x", "s", "hi", "lo"))
    total, top, low = Ref("total", dtype), Ref("top", dtype), Ref("low", dtype)
    element = load(x, as_dim(j) * as_dim(n) + as_dim(i))
    ends = (-INF, INF) if dtype.is_float else (np.iinfo(dtype.np).min, np.iinfo(dtype.np).max)
    folds = [
        scalar_fold(total, Scalar.ADD, const(0, dtype), element),
        scalar_fold(top, Scalar.MAX, const(ends[0], dtype), element),
        scalar_fold(low, Scalar.MIN, const(ends[1], dtype), element),
    ]
    stores = [Store(b, as_dim(i), ref) for b, ref in ((s, total), (hi, top), (lo, low))]
    body = lane(i, as_dim(n), serial(j, as_dim(m), folds=folds), *stores)
    kernel = Kernel(f"columns_{dtype.short}", (x, s, hi, lo), (m, n), (), (body,))

    def expected(x: np.ndarray) -> Arrays:
        wide = x.astype(np.float64) if dtype.is_float else x
        low, high = (dtype.np.type(end) for end in ends)
        return [wide.sum(0).astype(x.dtype), x.max(0, initial=low), x.min(0, initial=high)]

    return Case(kernel, lambda n: (n % 9, n), lambda m, n: [random(m, n, dtype=dtype)], expected, 1e-5)


def total_of_all() -> Case:
    """A fold of a serial loop around a fold of a lane loop."""
    m, n, i, j = (symbol(c) for c in "mnij")
    x, y = Buffer("x", F32), Buffer("y", F32)
    row, total = Ref("row", F32), Ref("total", F32)
    inner = lane(
        i, as_dim(n), folds=[scalar_fold(row, Scalar.ADD, const(0.0), load(x, as_dim(j) * as_dim(n) + as_dim(i)))]
    )
    outer = serial(j, as_dim(m), inner, folds=[scalar_fold(total, Scalar.ADD, const(0.0), row)])
    kernel = Kernel("total", (x, y), (m, n), (), (outer, Store(y, 0, total)))
    expected = lambda x: [np.array([x.astype(np.float64).sum()])]  # noqa: E731
    return Case(kernel, lambda n: (5, n), lambda m, n: [random(m, n)], expected, 1e-4)


def any_and_all() -> Case:
    n, i = symbol("n"), symbol("i")
    x, y = Buffer("x", dtypes.bool_), Buffer("y", dtypes.bool_)
    some, every = Ref("some", dtypes.bool_), Ref("every", dtypes.bool_)
    folds = [
        scalar_fold(some, Scalar.OR, const(False, dtypes.bool_), load(x, i)),
        scalar_fold(every, Scalar.AND, const(True, dtypes.bool_), load(x, i)),
    ]
    body = (lane(i, as_dim(n), folds=folds), Store(y, 0, some), Store(y, 1, every))
    kernel = Kernel("any_and_all", (x, y), (n,), (), body)
    return Case(
        kernel, lambda n: (n,), lambda n: [random(n, dtype=dtypes.bool_)], lambda x: [np.array([x.any(), x.all()])]
    )


def concatenated() -> Case:
    """Two arrays by masked loads, whose masks vary; the second is offset."""
    m, n, i = (symbol(c) for c in "mni")
    a, b, y = (Buffer(c, F32) for c in "aby")
    number = Index(dtypes.int64, as_dim(i))
    split = Index(dtypes.int64, as_dim(m))
    in_a = ap(Scalar.LT, number, split, dtype=dtypes.bool_)
    in_b = ap(Scalar.GE, number, split, dtype=dtypes.bool_)
    value = Load(a, as_dim(i), mask=in_a, other=Load(b, as_dim(i) - as_dim(m), mask=in_b, other=const(0.0)))
    body = lane(i, as_dim(m) + as_dim(n), Store(y, as_dim(i), value))
    kernel = Kernel("concatenated", (a, b, y), (m, n), (), (body,))
    expected = lambda a, b: [np.concatenate([a, b])]  # noqa: E731
    return Case(kernel, lambda n: (n // 3, n), lambda m, n: [random(m), random(n)], expected)


def padded_rows() -> Case:
    """A mask that is uniform: rows outside are not read."""
    m, n, r, i = (symbol(c) for c in "mnri")
    x, y = Buffer("x", F32), Buffer("y", F32)
    inside = ap(Scalar.GT, Index(dtypes.int64, as_dim(r)), const(0, dtypes.int64), dtype=dtypes.bool_)
    value = Load(x, (as_dim(r) - 1) * as_dim(n) + as_dim(i), mask=inside, other=const(-1.0))
    body = grid(r, as_dim(m) + 1, lane(i, as_dim(n), Store(y, as_dim(r) * as_dim(n) + as_dim(i), value)))
    kernel = Kernel("padded_rows", (x, y), (m, n), (), (body,))
    expected = lambda x: [np.concatenate([np.full((1, x.shape[1]), -1, np.float32), x])]  # noqa: E731
    return Case(kernel, lambda n: (2, n), lambda m, n: [random(m, n)], expected)


def opaque_indices() -> Case:
    """Division and remainder of the lane: a flat index taken apart, ``y[i] = x[i % n, i // n] + i``."""
    m, n, i = (symbol(c) for c in "mni")
    x, y, z = Buffer("x", F32), Buffer("y", F32), Buffer("z", dtypes.int32)
    flat = as_dim(i)
    value = load(x, mod(flat, as_dim(n)) * as_dim(m) + floordiv(flat, as_dim(n)))
    stored: Expr = Index(dtypes.int32, flat * 3 + dim_min(flat, 5) + dim_max(as_dim(n), floordiv(flat, 7)))
    body = lane(i, as_dim(m) * as_dim(n), Store(y, flat, value), Store(z, flat, stored))
    kernel = Kernel("opaque", (x, y, z), (m, n), (), (body,))

    def expected(x: np.ndarray) -> Arrays:
        n, m = x.shape
        i = np.arange(n * m)
        return [x.T.copy().reshape(-1), (3 * i + np.minimum(i, 5) + np.maximum(n, i // 7)).astype(np.int32)]

    return Case(kernel, lambda n: (3, n), lambda m, n: [random(n, m)], expected)


def three_grids() -> Case:
    """Carries of a grid of three loops: ``y[c, a, b] = x[a, b, c]``, one element an iteration."""
    a, b, c, i, j, k = (symbol(s) for s in "abcijk")
    x, y = Buffer("x", dtypes.int16), Buffer("y", dtypes.int16)
    A, B, C = as_dim(a), as_dim(b), as_dim(c)
    store = Store(y, (as_dim(k) * A + as_dim(i)) * B + as_dim(j), load(x, (as_dim(i) * B + as_dim(j)) * C + as_dim(k)))
    kernel = Kernel("three_grids", (x, y), (a, b, c), (), (grid(i, A, grid(j, B, grid(k, C, store))),))
    return Case(
        kernel,
        lambda n: (3, n, 4),
        lambda a, b, c: [random(a, b, c, dtype=dtypes.int16)],
        lambda x: [x.transpose(2, 0, 1).copy()],
    )


def clipped_blocks() -> Case:
    """A long axis in blocks, the last one short; mixed dtypes."""
    n, g, i = symbol("n"), symbol("g"), symbol("i")
    x, mask, y = Buffer("x", dtypes.int64), Buffer("mask", dtypes.bool_), Buffer("y", F32)
    block = 96
    index = as_dim(g) * block + as_dim(i)
    value = ap(Scalar.SELECT, load(mask, index), ap(Scalar.CAST, load(x, index), dtype=F32), const(-1.0))
    extent: Dim = dim_min(as_dim(n) - as_dim(g) * block, block)
    body = grid(g, floordiv(as_dim(n) + block - 1, block), lane(i, extent, Store(y, index, value)))
    kernel = Kernel("blocks", (x, mask, y), (n,), (), (body,))
    return Case(
        kernel,
        lambda n: (n,),
        lambda n: [random(n, dtype=dtypes.int64), random(n, dtype=dtypes.bool_)],
        lambda x, p: [np.where(p, x.astype(np.float32), -1)],
    )


def extrema() -> Case:
    """Maximum and minimum of rows, with NaNs and both zeros in all places."""
    m, n, r, i = (symbol(c) for c in "mnri")
    x, hi, lo = (Buffer(c, F32) for c in ("x", "hi", "lo"))
    top, low = Ref("top", F32), Ref("low", F32)
    element = load(x, as_dim(r) * as_dim(n) + as_dim(i))
    folds = [scalar_fold(top, Scalar.MAX, const(-INF), element), scalar_fold(low, Scalar.MIN, const(INF), element)]
    body = grid(r, as_dim(m), lane(i, as_dim(n), folds=folds), Store(hi, as_dim(r), top), Store(lo, as_dim(r), low))
    kernel = Kernel("extrema", (x, hi, lo), (m, n), (), (body,))

    def inputs(m: int, n: int) -> Arrays:
        x = RNG.choice(np.array([0.0, -0.0], np.float32), (m, n))
        x[m // 4 : m // 2] = -0.0
        x[m // 2 :] = random(m - m // 2, n)
        for row in range(3 * m // 4, m):
            if n:
                x[row, RNG.integers(n)] = np.nan
        return [x]

    def expected(x: np.ndarray) -> Arrays:
        hi, lo = x.max(1, initial=-np.inf), x.min(1, initial=np.inf)
        signs = np.signbit(x)
        hi = np.where(hi == 0, np.where((signs | (x < 0)).all(1), -0.0, 0.0), hi)
        lo = np.where(lo == 0, np.where((signs & (x == 0)).any(1), -0.0, 0.0), lo)
        return [hi.astype(np.float32), lo.astype(np.float32)]

    return Case(kernel, lambda n: (24, n), inputs, expected)


def serial_folds() -> Case:
    """No lanes at all: scalar folds of every kind, the extrema of floats among them."""
    n, i = symbol("n"), symbol("i")
    x, y = Buffer("x", F32), Buffer("y", F32)
    refs = [Ref(c, F32) for c in "shlp"]
    element = load(x, i)
    starts = ((Scalar.ADD, 0.0), (Scalar.MAX, -INF), (Scalar.MIN, INF), (Scalar.MUL, 1.0))
    folds = [scalar_fold(ref, fn, const(init), element) for ref, (fn, init) in zip(refs, starts, strict=True)]
    body = (serial(i, as_dim(n), folds=folds), *[Store(y, k, ref) for k, ref in enumerate(refs)])
    kernel = Kernel("serial_folds", (x, y), (n,), (), body)

    def expected(x: np.ndarray) -> Arrays:
        wide = x.astype(np.float64)
        return [np.array([wide.sum(), wide.max(initial=-INF), wide.min(initial=INF), wide.prod()])]

    def inputs(n: int) -> Arrays:
        return [(random(n) * 0.01 + 1).astype(np.float32)]

    return Case(kernel, lambda n: (n,), inputs, expected, 1e-4)


def extreme_places(dtype: DType, *, nan_wins: bool) -> Case:
    """Maximum of rows with its place, in lanes; and of columns, each lane for itself. Ties, zeros and NaNs."""
    m, n, r, i, j, s = (symbol(c) for c in "mnrijs")
    place = dtypes.int64
    x, hi, at, down, row = (
        Buffer("x", dtype),
        Buffer("hi", dtype),
        Buffer("at", place),
        Buffer("d", dtype),
        Buffer("r", place),
    )
    monoid = extreme_and_place("maximum", dtype, place, nan_wins=nan_wins)

    def fold(var: Symbol, index: Dim) -> Fold:
        return Fold((Ref("top", dtype), Ref("at", place)), monoid, (load(x, index), Index(place, as_dim(var))))

    along, across = fold(i, as_dim(r) * as_dim(n) + as_dim(i)), fold(s, as_dim(s) * as_dim(n) + as_dim(j))
    rows = (
        lane(i, as_dim(n), folds=[along]),
        *[Store(b, as_dim(r), e) for b, e in zip((hi, at), along.refs, strict=True)],
    )
    columns = [Store(b, as_dim(j), e) for b, e in zip((down, row), across.refs, strict=True)]
    body = (serial(r, as_dim(m), *rows), lane(j, as_dim(n), serial(s, as_dim(m), folds=[across]), *columns))
    kernel = Kernel(f"places_{dtype.short}_{nan_wins}", (x, hi, at, down, row), (m, n), (), body)

    def inputs(m: int, n: int) -> Arrays:
        made = RNG.integers(-3, 4, (m, n)).astype(dtype.np)
        if dtype.is_float:
            made[1::4] = -INF
            for line in range(2, m, 4):
                made[line, RNG.integers(n, size=2 if n else 0)] = np.nan
        return [made]

    def greatest(x: np.ndarray, axis: int) -> Arrays:
        low = -INF if dtype.is_float else np.iinfo(dtype.np).min
        if not x.shape[axis]:
            shape = x.shape[1 - axis]
            return [np.full(shape, low, dtype.np), np.full(shape, np.iinfo(np.int64).max)]
        if nan_wins:
            return [x.max(axis), x.argmax(axis)]
        top = np.where(np.isnan(x), low, x).astype(dtype.np).max(axis, keepdims=True)
        places = np.arange(x.shape[axis])[None if axis else slice(None), None if not axis else slice(None)]
        return [top.squeeze(axis), np.where(x == top, places, np.iinfo(np.int64).max).min(axis)]

    return Case(kernel, lambda n: (7, n), inputs, lambda x: [*greatest(x, 1), *greatest(x, 0)])


def statistics(dtype: DType) -> Case:
    """Count, mean and squares of rows around 10,000; and the sum of exponentials, where some rows are -inf in part."""
    m, n, r, i, j = (symbol(c) for c in "mnrij")
    x, z = Buffer("x", dtype), Buffer("z", dtype)
    outputs = [Buffer(c, dtype) for c in ("count", "mean", "squares", "top", "total")]
    one, zero = const(1.0, dtype), const(0.0, dtype)
    refs = [Ref(b.name, dtype) for b in outputs]
    place = as_dim(r) * as_dim(n)
    pooled = Fold(tuple(refs[:3]), moments(dtype), (one, load(x, place + as_dim(i)), zero))
    shifted = Fold(tuple(refs[3:]), sum_of_exponentials(dtype), (load(z, place + as_dim(j)), one))
    loops = lane(i, as_dim(n), folds=[pooled]), lane(j, as_dim(n), folds=[shifted])
    stores = [Store(b, as_dim(r), ref) for b, ref in zip(outputs, refs, strict=True)]
    kernel = Kernel(f"statistics_{dtype.short}", (x, z, *outputs), (m, n), (), (grid(r, as_dim(m), *loops, *stores),))

    def inputs(m: int, n: int) -> Arrays:
        z = random(m, n, dtype=dtype) * 10
        z[1, ::2], z[2], z[3, 1::2] = -INF, -INF, 80
        return [(random(m, n, dtype=dtype) + 10_000).astype(dtype.np), z]

    def expected(x: np.ndarray, z: np.ndarray) -> Arrays:
        wide, z = x.astype(np.float64), z.astype(np.float64)
        count = np.full(len(x), x.shape[1], np.float64)
        mean = wide.sum(1) / np.maximum(count, 1)
        top = z.max(1, initial=-INF)
        total = np.exp(z - np.where(np.isfinite(top), top, 0)[:, None]).sum(1)
        return [count, mean, ((wide - mean[:, None]) ** 2).sum(1), top, total]

    return Case(kernel, lambda n: (5, n), inputs, expected, 2e-3 if dtype is F32 else 1e-10)


def bordered() -> Case:
    """A uniform element under a uniform mask, beside a varying alternative."""
    m, n, r, i = (symbol(c) for c in "mnri")
    x, b, y = (Buffer(c, F32) for c in "xby")
    inside = ap(Scalar.LT, Index(dtypes.int64, as_dim(r)), const(2, dtypes.int64), dtype=dtypes.bool_)
    index = as_dim(r) * as_dim(n) + as_dim(i)
    value = Load(b, as_dim(r), mask=inside, other=load(x, index))
    body = grid(r, as_dim(m), lane(i, as_dim(n), Store(y, index, value)))
    kernel = Kernel("bordered", (x, b, y), (m, n), (), (body,))

    def expected(x: np.ndarray, b: np.ndarray) -> Arrays:
        y = x.copy()
        y[:2] = b[:, None]
        return [y]

    return Case(kernel, lambda n: (4, n), lambda m, n: [random(m, n), random(2)], expected)


def scratch_twice() -> Case:
    """Scratch that is read, written again and read again, also inside one loop: no old value may survive."""
    n, i, j, k = (symbol(c) for c in "nijk")
    x, y = Buffer("x", F32), Buffer("y", F32)
    s = Buffer("s", F32, Space.SCRATCH, as_dim(n) + 1)
    read = load(s, j)
    doubled = ap(Scalar.ADD, read, read)
    last = as_dim(n) - 1 - as_dim(k)
    body = (
        lane(i, as_dim(n), Store(s, as_dim(i), load(x, i))),
        lane(j, as_dim(n), Store(s, as_dim(j), doubled), Store(s, as_dim(j), ap(Scalar.ADD, load(s, j), const(1.0)))),
        lane(k, as_dim(n), Store(y, as_dim(k), load(s, last))),
    )
    kernel = Kernel("scratch_twice", (x, y), (n,), (s,), body)
    return Case(kernel, lambda n: (n,), lambda n: [random(n)], lambda x: [(x + x + 1)[::-1].copy()])


def nested_gather() -> Case:
    """``y[i] = a[b[c[i]]]``."""
    n, v, i, p, q = (symbol(c) for c in "nvipq")
    a, b, c, y = (
        Buffer("a", dtypes.uint8), Buffer("b", dtypes.int64), Buffer("c", dtypes.int64), Buffer("y", dtypes.uint8)
    )  # fmt: skip
    inner = Load(b, as_dim(p), ((p, load(c, i)),))
    store = Store(y, as_dim(i), Load(a, as_dim(q), ((q, inner),)))
    kernel = Kernel("nested_gather", (a, b, c, y), (n, v), (), (lane(i, as_dim(n), store),))

    def inputs(n: int, v: int) -> Arrays:
        return [random(v, dtype=dtypes.uint8), RNG.integers(0, v, v), RNG.integers(0, v, n)]

    return Case(kernel, lambda n: (n, 13), inputs, lambda a, b, c: [a[b[c]]])


def teams() -> Case:
    """Teams of lanes are loops here."""

    def expected(x: np.ndarray) -> Arrays:
        total = x.sum(axis=1)
        return [x[:, ::-1] - total[:, None], total]

    kernel = gpu_kernels.teams()
    return Case(kernel, lambda n: (13, n), lambda m, n: [random(m, n).round()], expected)


CASES = [
    bias_relu(), *[transposed(d) for d in (dtypes.bool_, dtypes.int8, dtypes.int16, F32, dtypes.float64)], scattered(),
    *[flipped(d) for d in (dtypes.bool_, dtypes.uint8, dtypes.float16, F32, dtypes.int64)], gathered(),
    ragged(), ragged_sums(), softmax(F32), softmax(dtypes.float64), layer_norm(),
    *[column_folds(d) for d in (F32, dtypes.float64, dtypes.int32, dtypes.uint8, dtypes.int64)],
    total_of_all(), any_and_all(), concatenated(), padded_rows(), opaque_indices(), three_grids(), clipped_blocks(),
    *[extreme_places(d, nan_wins=w) for d in (F32, dtypes.float64) for w in (True, False)],
    *[extreme_places(d, nan_wins=True) for d in (dtypes.int8, dtypes.int32)],
    statistics(F32), statistics(dtypes.float64),
    extrema(), serial_folds(), bordered(), scratch_twice(), nested_gather(), teams(),
]  # fmt: skip


@pytest.fixture(scope="module", params=runnable(), ids=lambda target: target.arch)
def compiled(request: pytest.FixtureRequest) -> dict[str, Compiled]:
    kernels = compile_kernels([case.kernel for case in CASES], request.param)
    return {case.kernel.name: kernel for case, kernel in zip(CASES, kernels, strict=True)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kernel.name)
def test_against_numpy(case: Case, compiled: dict[str, Compiled]) -> None:
    run = compiled[case.kernel.name]
    for size in SIZES:
        dims = case.dims(size)
        inputs = case.inputs(*dims)
        outputs = case.expected(*inputs)
        declared = case.kernel.buffers[len(inputs) :]
        got = [_filled(o, b.dtype) for o, b in zip(outputs, declared, strict=True)]
        run(dims, [*inputs, *got])
        for a, b in zip(got, outputs, strict=True):
            _assert_equal(a, b, case.tolerance)
        total = _grid_size(case.kernel, dims)
        if total > 1:  # the same in three parts, one of them empty
            again = [_filled(o, b.dtype) for o, b in zip(outputs, declared, strict=True)]
            cut = total // 3
            for span in ((cut, total), (cut, cut), (0, cut)):
                run(dims, [*inputs, *again], span)
            for a, b in zip(got, again, strict=True):
                np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))


def _filled(like: np.ndarray, dtype: DType) -> np.ndarray:
    """An output whose elements are all nonsense."""
    return np.full(like.size * dtype.itemsize, 0x5A, np.uint8).view(dtype.np).reshape(like.shape)


def _grid_size(kernel: Kernel, dims: tuple[int, ...]) -> int:
    env = dict(zip(kernel.dims, dims, strict=True))
    return int(np.prod([evaluate(loop.extent, env) for loop in kernel.grid()[0]]))


def _assert_equal(got: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    if tolerance:
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(got, expected)
        if got.dtype.kind == "f":
            zero = got == 0
            np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))


def test_folds_do_not_depend_on_alignment(compiled: dict[str, Compiled]) -> None:
    run = compiled["total"]
    data = random(1, 1000)
    results: list[bytes] = []
    for offset in range(0, 64, 4):
        room = np.empty(data.nbytes + 128, np.uint8)
        start = -room.ctypes.data % 64 + offset
        x = room[start : start + data.nbytes].view(np.float32).reshape(data.shape)
        x[:] = data
        y = np.empty(1, np.float32)
        run([1, 1000], [x, y])
        results.append(y.tobytes())
    assert len(set(results)) == 1


def test_the_extent_of_a_serial_loop_is_uniform() -> None:
    n, i, j = (symbol(c) for c in "nij")
    x, y = Buffer("x", F32), Buffer("y", F32)
    total = Ref("total", F32)
    inner = serial(j, as_dim(i) + 1, folds=[scalar_fold(total, Scalar.ADD, const(0.0), load(x, j))])
    kernel = Kernel("ragged", (x, y), (n,), (), (lane(i, as_dim(n), inner, Store(y, as_dim(i), total)),))
    with pytest.raises(NotYetError) as error:
        emit_kernel(kernel, host_target())
    assert str(error.value) == (
        "kernel ragged: a serial loop whose extent differs between lanes is not generated for x86 yet."
    )
