"""Elements of an array where a mask is true, one behind the other along an axis: what ``nonzero`` and ``x[mask]`` are
made of.

The mask is counted and gone through again, a run at a time, so that it takes no memory for each element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.differentiate import zeros
from dyn.ir.opdef import Attrs, CompactionLoops, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.complex_parts import componentwise
from dyn.ops.indexing.along import add_along, along_numbers
from dyn.ops.rules import ALL_DTYPES, numbers, require_same_shapes
from dyn.ops.transform_rules import one_later, shifted
from dyn.shapes import Dim, RelKind

Array = np.ndarray[Any, Any]


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (mask, values), axis, size = operands, attrs["dimension"], attrs["size"]
    if not 0 <= axis < mask.rank:
        raise ctx.fail(f"{axis} is no axis of {mask}")
    if mask.dtype.kind is not Kind.BOOL:
        raise ctx.unsupported(f"the mask is of booleans, and this is {mask}", "compare it with 0")
    require_same_shapes(ctx, operands, "the mask has the sizes of the values")
    ctx.require(RelKind.GE, size, 0, "there is no negative number of elements")
    return (TensorType(values.dtype, _along(values.shape, axis, size)),)


def _along(shape: tuple[Dim, ...], axis: int, size: Dim) -> tuple[Dim, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])


def _reference(mask: Array, values: Array, dimension: int, size: int) -> Array:
    rows, marks = (np.moveaxis(x, dimension, -1) for x in (values, mask))
    result = np.zeros((*rows.shape[:-1], size), values.dtype)
    for place in np.ndindex(rows.shape[:-1]):
        found = rows[place][marks[place]][:size]
        result[place][: found.size] = found
    return np.moveaxis(result, -1, dimension)


def _places(b: Builder, op: Op) -> tuple[Value, Value]:
    """The place along the axis of each element of the result, 0 where it is none, and whether it is one."""
    (mask, _), axis, shape = op.operands, op.attrs["dimension"], op.result.shape
    along = b.op("iota", shape=mask.shape, dimension=axis, dtype=dtypes.int64)
    number = b.op("iota", shape=shape, dimension=axis, dtype=dtypes.int64)
    found = b.emit(op.opdef, (mask, along), **op.attrs)[0]
    count = b.op("convert", mask, dtype=dtypes.int64)
    count = b.op("reduce", count, axes=(axis,), combine="add", nonempty=False)
    others = tuple(a for a in range(len(shape)) if a != axis)
    counts = b.op("broadcast_in_dim", count, shape=shape, dims=others)
    return found, Arithmetic(b).cmp(number, "LT", counts)


def _vjp(b: Builder, op: Op, cts: tuple[Value]) -> tuple[Value | None, ...]:
    """Each cotangent to the element that it is of."""
    (ct,), (_, values), axis = cts, op.operands, op.attrs["dimension"]
    places, there = _places(b, op)
    own = b.op("select", there, ct, zeros(b, ct.type))
    return None, add_along(b, own, places, axis, values.shape[axis])


def _jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    tangent = tangents[1]
    return (None if tangent is None else b.emit(op.opdef, (op.operands[0], tangent), **op.attrs)[0],)


def by_scatter(b: Builder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...]:
    """The results in ops that StableHLO has: the elements scattered to where a running sum of the mask says."""
    (mask, values), axis, a = operands, op.attrs["dimension"], Arithmetic(b)
    marks = b.op("convert", mask, dtype=dtypes.int64)
    rank = b.op("cumulative", marks, dimension=axis, combine="add", reverse=False)
    target = a.where(mask, a.sub(rank, a.fill(rank, 1)), -1)
    type = TensorType(values.dtype, _along(values.shape, axis, op.attrs["size"]))
    return (b.op("scatter", zeros(b, type), target, values, **along_numbers(len(type.shape), axis, "replace")),)


def _samples() -> list[Sample]:
    found: list[Sample] = []
    for dtype in ALL_DTYPES:
        for shape, axis in (
            ((0,), 0),
            ((1,), 0),
            ((7,), 0),
            ((64,), 0),
            ((3, 0), 0),
            ((3, 0), 1),
            ((4, 9), 0),
            ((4, 9), 1),
        ):
            mask = np.random.default_rng(len(found)).random(shape) < 0.5
            found += [
                Sample((mask, numbers(shape, dtype)), {"dimension": axis, "size": size})
                for size in (0, 2, int(mask.sum()))
            ]
    for full in (True, False):
        found.append(Sample((np.full((2, 5, 3), full), numbers((2, 5, 3))), {"dimension": 1, "size": 5}))
    return found


#: Along ``dimension`` the elements at which the mask is true, in their order: the first ``size`` of them, and zeros
#: where there are fewer.
compact = OpDef(
    "compact",
    OpKind.RUNNING,
    types=_types,
    loops=CompactionLoops(),
    reference=_reference,
    samples=_samples,
    vjp=_vjp, jvp=_jvp, batch=shifted(dimension=one_later),
    parts=componentwise,
)  # fmt: skip
