"""A region of scalars, applied element by element (https://openxla.org/stablehlo/spec#map)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.ir.builder import Builder
from dyn.ir.core import Dense, Op, Region, Value
from dyn.ir.evaluate import RegionFunction
from dyn.ir.opdef import Attrs, ElementLoops, Get, OpDef, OpKind, Sample, ScalarBuilder, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.decomposed_rules import jvp_by_parts, vjp_by_parts
from dyn.ops.regions import check_scalar_region, region_values, scalar_region
from dyn.ops.rules import ELEMENT_SHAPES, numbers
from dyn.ops.transform_rules import pointwise_batch
from dyn.shapes import Dim, RelKind

Array = np.ndarray[Any, Any]


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    if not operands or len(ctx.regions) != 1 or len(ctx.regions[0].results) != 1:
        raise ctx.fail(
            f"{len(operands)} operands with {len(ctx.regions)} regions are no arrays and a body of one result"
        )
    first = operands[0]
    for x in operands[1:]:
        if x.rank != first.rank:
            raise ctx.fail(f"operands {first} and {x} differ in rank", "map arrays of one shape.")
        for axis, (a, b) in enumerate(zip(first.shape, x.shape, strict=True)):
            ctx.require(RelKind.EQ, a, b, f"arrays that are mapped together agree on axis {axis}")
    result = ctx.regions[0].results[0].dtype
    check_scalar_region(ctx, ctx.regions[0], "its body", [x.dtype for x in operands], [result])
    return (TensorType(result, first.shape),)


def _at(k: ScalarBuilder, op: Op, index: tuple[Dim, ...], get: Get) -> Any:
    (value,) = region_values(k, op.regions[0], [get(i, index) for i in range(len(op.operands))])
    return value


def _reference(*arrays: Array, regions: tuple[RegionFunction]) -> Array:
    with np.errstate(all="ignore"):
        (result,) = regions[0](*arrays)
    return np.array(np.broadcast_to(result, arrays[0].shape))


def whole_arrays(b: Builder, region: Region, operands: Sequence[Value]) -> tuple[Value, ...]:
    """The results of a region of scalar ops for each element of arrays of one shape: its ops on whole arrays.

    What is one number there is broadcast.
    """
    shape = operands[0].shape
    values: dict[Value, Value] = dict(zip(region.params, operands, strict=True))
    for inner in region.ops:
        if inner.opdef.kind is OpKind.VIEW:  # of a scalar: the same
            values[inner.result] = values[inner.operands[0]]
            continue
        (made,) = b.emit(inner.opdef, [values[v] for v in inner.operands], **inner.attrs)
        if inner.opdef.kind is OpKind.GENERATE and shape:
            made = b.op("broadcast_in_dim", made, shape=shape, dims=())
        values[inner.result] = made
    return tuple(values[v] for v in region.results)


def _inlined(b: Builder, op: Op) -> tuple[Value, ...]:
    return whole_arrays(b, op.regions[0], op.operands)


def _parts(b: Builder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...]:
    return whole_arrays(b, op.regions[0], operands)


def _samples() -> list[Sample]:
    def scaled(b: Builder, x: Value, y: Value) -> Value:
        two = b.op("constant", value=Dense(np.asarray(2).astype(x.dtype.np)))
        return b.op("subtract", b.op("multiply", x, two), y)

    def less(b: Builder, x: Value, y: Value) -> Value:
        return b.op("compare", x, y, direction="LT")

    def seven(b: Builder, x: Value) -> Value:
        return b.op("constant", value=Dense(np.asarray(7, np.int16)))

    calls: list[Sample] = []

    def add(types: tuple[DType, ...], build: Any) -> None:
        for shape in ELEMENT_SHAPES:
            calls.append(Sample(tuple(numbers(shape, t.np) for t in types), {}, (scalar_region(types, build),)))

    for dtype in (dtypes.float32, dtypes.bfloat16, dtypes.int8, dtypes.uint64, dtypes.complex64):
        add((dtype, dtype), scaled)
    add((dtypes.int32, dtypes.int32), less)
    add((dtypes.float64,), seven)
    return calls


#: The region's result for the elements of the operands at each index: in programs, its ops on whole arrays.
map_ = OpDef(
    "map",
    OpKind.POINTWISE,
    types=_types,
    loops=ElementLoops(_at),
    reference=_reference,
    samples=_samples,
    vjp=vjp_by_parts(_parts), jvp=jvp_by_parts(_parts), batch=pointwise_batch,
    simplify=_inlined,
)  # fmt: skip
