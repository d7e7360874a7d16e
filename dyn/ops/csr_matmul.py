"""Products of sparse matrices in compressed rows (CSR) and dense arrays: sums over rows of different lengths.

Sums of segments that follow one another, and bags of rows of a table, are such products with ones for values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.differentiate import zeros
from dyn.ir.opdef import Attrs, Get, OpDef, OpKind, Sample, ScalarBuilder, TypeContext, WindowFold
from dyn.ir.types import TensorType
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.complex_parts import Real
from dyn.ops.indexing.along import add_along
from dyn.ops.indexing.dimension_numbers import Windows, as_int64, clamped
from dyn.ops.indexing.gather import take_attrs
from dyn.ops.indexing.places import clipped, counted, scatter_numbers, sized
from dyn.ops.scalar import Scalar
from dyn.ops.transform_rules import again, bilinear
from dyn.shapes import Dim, RelKind, dim_max, product

Array = np.ndarray[Any, Any]


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    values, indices, row_starts, dense = operands
    if any(x.rank != 1 for x in (values, indices, row_starts)) or dense.rank == 0:
        ranks = ", ".join(str(x.rank) for x in operands)
        raise ctx.fail(f"values, indices and row starts have one axis each and the dense array some, not {ranks}")
    if not indices.dtype.is_integer or not row_starts.dtype.is_integer:
        raise ctx.unsupported(f"indices and row starts of {indices.dtype.name} and {row_starts.dtype.name}")
    if values.dtype is not dense.dtype or values.dtype.kind is Kind.BOOL:
        raise ctx.unsupported(f"values of {values.dtype.name} and a dense array of {dense.dtype.name}")
    ctx.require(RelKind.EQ, values.shape[0], indices.shape[0], "there is an index for each value")
    ctx.require(RelKind.GE, row_starts.shape[0], 1, "there is a row start more than rows")
    return (TensorType(dense.dtype, (row_starts.shape[0] - 1, *dense.shape[1:]), values.weak and dense.weak),)


def _row_start(k: ScalarBuilder, op: Op, row: Dim, get: Get) -> Dim:
    values, _, row_starts, _ = op.operands
    return k.bind(clamped(k, as_int64(k, get(2, (row,)), row_starts.dtype), values.shape[0]))


def _length(k: ScalarBuilder, op: Op, index: tuple[Dim, ...], get: Get) -> Dim:
    return dim_max(0, _row_start(k, op, index[0] + 1, get) - _row_start(k, op, index[0], get))


def _at(k: ScalarBuilder, op: Op, index: tuple[Dim, ...], taps: tuple[Dim, ...], get: Get, wide: DType) -> Any:
    _, indices, _, dense = op.operands
    place = _row_start(k, op, index[0], get) + taps[0]
    at = as_int64(k, get(1, (place,)), indices.dtype)
    above = k.apply(Scalar.GE, [at, k.const(dtypes.int64, 0)], dtypes.bool_)
    below = k.apply(Scalar.LT, [at, k.index(dtypes.int64, dense.shape[0])], dtypes.bool_)
    inside = k.apply(Scalar.AND, [above, below], dtypes.bool_)
    element = get(3, (k.bind(at), *index[1:]), inside, k.const(dense.dtype, 0))
    value, element = (k.apply(Scalar.CAST, [x], wide) for x in (get(0, (place,)), element))
    value = k.apply(Scalar.SELECT, [inside, value, k.const(wide, 0)], wide)  # infinity times nothing is nothing here
    return k.apply(Scalar.MUL, [value, element], wide)


def _reference(values: Array, indices: Array, row_starts: Array, dense: Array) -> Array:
    wide = dtypes.widened(dense)
    result = np.zeros((len(row_starts) - 1, *dense.shape[1:]), wide.dtype)
    starts = [min(max(int(start), 0), len(values)) for start in row_starts]
    with np.errstate(all="ignore"):
        for row in range(len(result)):
            for place in range(starts[row], starts[row + 1]):
                if 0 <= int(indices[place]) < len(dense):
                    result[row] += dtypes.widened(values[place : place + 1])[0] * wide[int(indices[place])]
    return result.astype(dense.dtype)


def _samples() -> list[Sample]:
    """Rows of no elements at the front, in the middle and at the end; no rows, no columns; indices and starts that lie
    outside."""
    rng = np.random.default_rng(0)
    calls: list[Sample] = []

    def add(starts: list[int], shape: tuple[int, ...], dtype: Any = np.float32, integer: Any = np.int64) -> None:
        count, unsigned = max([*starts, 0]), dtypes.dtype(dtype).kind is Kind.UINT
        values, dense = (rng.integers(0 if unsigned else -3, 4, s).astype(dtype) for s in ((count,), shape))
        indices = rng.integers(0, max(shape[0], 1), count).astype(integer)
        calls.append(Sample((values, indices, np.asarray(starts).astype(integer), dense)))

    for size in (0, 1, 2, 7, 64):
        add([0, 0, 3, 3, 4, 9, 9], (5, size))
    for dtype in (d.np for d in (dtypes.float64, dtypes.bfloat16, dtypes.int8, dtypes.uint32, dtypes.complex64)):
        add([0, 2, 2, 5], (3, 2), dtype)
    for integer in (np.int8, np.uint64, np.int32):
        add([0, 2, 2, 5], (4,), integer=integer)
    for starts, shape in (([0], (3, 2)), ([0, 0], (0, 2)), ([0, 4], (2, 0)), ([0, 2], (2, 2, 3)), ([1, 3], (2,))):
        add(starts, shape)
    outside = np.array([0, -1, 9, 1, 2])
    calls.append(Sample((np.arange(1.0, 6), outside, np.array([-2, 2, 2, 99]), np.arange(6.0).reshape(3, 2))))
    return calls


# --- derivatives and batches ------------------------------------------------------------------------------------------


def _rows(b: Builder, op: Op) -> Value:
    """The row of each element, of those in no row the number of rows: the ends of rows up to there are counted."""
    values, _, starts, _ = op.operands
    a, (count, ends) = Arithmetic(b), (values.shape[0], starts.shape[0] - 1)
    starts = clipped(b, counted(b, starts, 0, False), 0, count)
    end = b.op("slice", starts, start=(1,), limit=(ends + 1,), strides=(1,))
    ended = add_along(b, a.fill(end, 1), end, 0, count + 1)
    ended = b.op("cumulative", ended, dimension=0, combine="add", reverse=False)
    row = b.op("slice", ended, start=(0,), limit=(count,), strides=(1,))
    first = b.op("reshape", b.op("slice", starts, start=(0,), limit=(1,), strides=(1,)), shape=())
    first = b.op("broadcast_in_dim", first, shape=row.shape, dims=())
    place = b.op("iota", shape=row.shape, dimension=0, dtype=dtypes.int64)
    return a.where(a.cmp(place, "LT", first), sized(b, row, ends), row)


def _taken(b: Builder, x: Value, at: Value) -> Value:
    """Slices of the first axis at int64 places, zeros for those outside."""
    a, size = Arithmetic(b), x.shape[0]
    x = b.op("concatenate", x, zeros(b, TensorType(x.dtype, (1, *x.shape[1:]))), dimension=0)
    outside = b.op("or", a.cmp(at, "LT", 0), a.cmp(at, "GE", sized(b, at, size)))
    return b.op("gather", x, a.where(outside, sized(b, at, size), at), **take_attrs(x.shape, 0, 1))


def _vjp(b: Builder, op: Op, cts: tuple[Value]) -> tuple[Value | None, ...]:
    values, indices, _, dense = op.operands
    a, at, given = Arithmetic(b), counted(b, indices, 0, False), _taken(b, cts[0], _rows(b, op))
    products, axes = a.mul(given, _taken(b, dense, at)), tuple(range(1, len(dense.shape)))
    summed = b.op("reduce", products, axes=axes, combine="add", nonempty=False) if axes else products
    spread = b.op("broadcast_in_dim", values, shape=given.shape, dims=(0,)) if axes else values
    windows = Windows.of_gather({**take_attrs(dense.shape, 0, 1), "wrap": False}, len(dense.shape))
    updates = a.mul(spread, given)
    made = b.op("scatter", zeros(b, dense.type), at, updates, **scatter_numbers(windows, "add"))
    return summed, None, None, made


def _batch(b: Builder, op: Op, operands: tuple[Value, ...], batched: tuple[bool, ...], size: Dim) -> tuple[Value, ...]:
    """One matrix: the examples are columns. Several: their rows follow one another, each example's with a row more
    between its end and the next one's beginning, which is left out."""
    *matrix, dense = operands
    if not any(batched[:3]):
        order = (1, 0, *range(2, len(dense.shape)))
        (made,) = again(b, op, [*matrix, b.op("transpose", dense, permutation=order)])
        return (b.op("transpose", made, permutation=order),)
    each: list[Value] = []
    for x, is_batched in zip(matrix, batched, strict=False):
        each.append(x if is_batched else b.op("broadcast_in_dim", x, shape=(size, *x.shape), dims=(1,)))
    values, indices, starts = each
    a, count, ends = Arithmetic(b), values.shape[1], starts.shape[1]

    def moved(x: Value, step: Dim, limit: Dim) -> Value:
        """Places of each example behind those of the examples before; those outside of it stay outside."""
        whole = counted(b, x, 0, False)
        example = b.op("iota", shape=whole.shape, dimension=0, dtype=dtypes.int64)
        return a.add(clipped(b, whole, 0, limit), a.mul(example, sized(b, whole, step)))

    at, rows = counted(b, indices, 0, False), dense.shape[1 if batched[3] else 0]
    if batched[3]:
        outside = b.op("or", a.cmp(at, "LT", 0), a.cmp(at, "GE", sized(b, at, rows)))
        at = a.where(outside, -1, moved(at, rows, rows))
        dense = b.op("reshape", dense, shape=(size * rows, *dense.shape[2:]))
    starts = b.op("reshape", moved(starts, count, count), shape=(size * ends,))
    end = b.op("dim_size", size=size * count, dtype=dtypes.int64)
    starts = b.op("concatenate", starts, b.op("reshape", end, shape=(1,)), dimension=0)
    flat = [b.op("reshape", x, shape=(size * count,)) for x in (values, at)]
    (made,) = again(b, op, [*flat, starts, dense])
    made = b.op("reshape", made, shape=(size, ends, *made.shape[1:]))
    limit = (size, ends - 1, *made.shape[2:])
    return (b.op("slice", made, start=(0,) * len(limit), limit=limit, strides=(1,) * len(limit)),)


def _parts(b: Builder, op: Op, operands: tuple[Any, ...]) -> Any:
    (va, vb), indices, starts, (da, db) = operands
    r, rest = Real(b), (indices, starts)
    re = r.sub(again(b, op, (va, *rest, da))[0], again(b, op, (vb, *rest, db))[0])
    return re, r.add(again(b, op, (va, *rest, db))[0], again(b, op, (vb, *rest, da))[0])


#: ``result[i, …] = sum over e in [row_starts[i], row_starts[i + 1]) of values[e] * dense[indices[e], …]``, in that
#: order: a matrix of compressed sparse rows, of as many columns as ``dense`` has rows, times ``dense``. Starts are
#: brought into [0, len(values)] and do not decrease; elements of columns that there are not count as nothing.
csr_matmul = OpDef(
    "csr_matmul",
    OpKind.WINDOW,
    types=_types,
    loops=WindowFold(
        combine=lambda attrs: Scalar.ADD,
        identity=lambda attrs, dtype: 0,
        extents=lambda op: (0,),
        at=_at,
        length=_length,
    ),
    flops=lambda op: 2 * product((op.operands[0].shape[0], *op.operands[3].shape[1:])),
    reference=_reference,
    samples=_samples,
    vjp=_vjp, jvp=bilinear, batch=_batch,
    parts=_parts,
)  # fmt: skip
