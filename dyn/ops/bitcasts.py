"""Bitcasts: bits as numbers of another dtype (https://openxla.org/stablehlo/spec#bitcast_convert).

``bitcast_convert`` keeps the width, and with it the shape. ``bitcast_regroup`` changes it: elements are cut into
several along a new last axis, or the last axis is joined into one element; the part of the lowest bits comes first, as
in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.opdef import NOT_CONTINUOUS, Attrs, ElementLoops, Get, OpDef, OpKind, Sample, ScalarBuilder, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.pointwise import REALS, draw
from dyn.ops.rules import pointwise
from dyn.ops.scalar import Scalar
from dyn.ops.transform_rules import again, pointwise_batch
from dyn.shapes import Dim, RelKind

Array = np.ndarray[Any, Any]


def _require_bits(ctx: TypeContext, *types: DType) -> None:
    for dtype in types:
        if dtype.kind in (Kind.BOOL, Kind.COMPLEX):
            raise ctx.unsupported(
                f"{dtype.name} has no bits to reinterpret: only integers and floats have",
                "take the real and imaginary parts" if dtype.kind is Kind.COMPLEX else "convert it with .astype first",
            )


# --- of one width -----------------------------------------------------------------------------------------------------


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,), to = operands, attrs["dtype"]
    _require_bits(ctx, x.dtype, to)
    if x.dtype.bits != to.bits:
        raise ctx.unsupported(f"{x.dtype.name} and {to.name} are not of one width", "regroup the bits")
    return (TensorType(to, x.shape),)


def _same_bits(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """A bitcast to the type that is there, or of a bitcast."""
    (x,) = op.operands
    inner = b.producer(x, op.opdef)
    source = x if inner is None else inner.operands[0]
    if source.type == op.result.type:
        return (source,)
    return None if inner is None else (b.op("bitcast_convert", source, **op.attrs),)


def _samples() -> list[Sample]:
    def casts(source: DType) -> list[Sample]:
        targets = [to for to in REALS if to.bits == source.bits]
        return [Sample(s.operands, {"dtype": to}) for to in targets for s in draw(1, (source,))()]

    moved = casts(dtypes.float8_e5m2) + casts(dtypes.float8_e4m3fnuz)
    return [*moved, *[sample for source in REALS for sample in casts(source)]]


#: The same bits as numbers of another dtype of that width.
bitcast_convert = OpDef(
    "bitcast_convert",
    OpKind.POINTWISE,
    types=_types,
    loops=pointwise(Scalar.BITCAST),
    reference=lambda x, dtype: np.asarray(x).view(dtype.np),
    samples=_samples,
    vjp=NOT_CONTINUOUS, jvp=NOT_CONTINUOUS, batch=pointwise_batch,
    simplify=_same_bits,
)  # fmt: skip


# --- between widths ---------------------------------------------------------------------------------------------------


def _regroup_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,), to = operands, attrs["dtype"]
    _require_bits(ctx, x.dtype, to)
    if x.dtype.bits == to.bits:
        raise ctx.unsupported(f"{x.dtype.name} and {to.name} are of one width", "convert the bits")
    if x.dtype.bits > to.bits:
        return (TensorType(to, (*x.shape, x.dtype.bits // to.bits)),)
    count = to.bits // x.dtype.bits
    if x.rank == 0:
        raise ctx.fail(f"{x} has no axis of {count} elements to join into one {to.name}")
    ctx.require(RelKind.EQ, x.shape[-1], count, f"{count} elements of {x.dtype.name} are joined into one {to.name}")
    return (TensorType(to, x.shape[:-1]),)


def _regroup_at(k: ScalarBuilder, op: Op, index: tuple[Dim, ...], get: Get) -> Any:
    source, to = op.operands[0].dtype, op.result.dtype
    if source.bits > to.bits:
        wide, narrow = dtypes.UNSIGNED[source.bits], dtypes.UNSIGNED[to.bits]
        bits = k.apply(Scalar.BITCAST, [get(0, index[:-1])], wide)
        lowest = k.apply(Scalar.SHRL, [bits, k.index(wide, index[-1] * to.bits)], wide)
        return k.apply(Scalar.BITCAST, [k.apply(Scalar.CAST, [lowest], narrow)], to)
    wide, narrow = dtypes.UNSIGNED[to.bits], dtypes.UNSIGNED[source.bits]
    joined: Any = None
    for i in range(to.bits // source.bits):
        bits = k.apply(Scalar.CAST, [k.apply(Scalar.BITCAST, [get(0, (*index, i))], narrow)], wide)
        if i > 0:
            bits = k.apply(Scalar.SHL, [bits, k.const(wide, i * source.bits)], wide)
        joined = bits if joined is None else k.apply(Scalar.OR, [joined, bits], wide)
    return k.apply(Scalar.BITCAST, [joined], to)


def _regroup(x: Array, dtype: DType) -> Array:
    ratio = x.dtype.itemsize // dtype.itemsize
    shape = (*x.shape, ratio) if ratio else x.shape[:-1]
    little = np.ascontiguousarray(x).reshape(-1)
    return little.view(dtype.np).reshape(shape)


def _regroup_back(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """Cancel a regrouping of a regrouping: what was cut is joined again, or what was joined is cut."""
    inner = b.producer(op.operands[0], op.opdef)
    source = None if inner is None else inner.operands[0]
    return (source,) if source is not None and source.type == op.result.type else None


#: Every pair of widths, with floats and signed numbers on either side.
_PAIRS = (
    (dtypes.float32, dtypes.uint8), (dtypes.float64, dtypes.float32), (dtypes.int64, dtypes.int8),
    (dtypes.bfloat16, dtypes.int8), (dtypes.uint64, dtypes.float16), (dtypes.int32, dtypes.bfloat16),
    (dtypes.float16, dtypes.uint8), (dtypes.float64, dtypes.uint8), (dtypes.uint64, dtypes.int32),
    (dtypes.float32, dtypes.float8_e4m3fn),
)  # fmt: skip


def _regroup_samples() -> list[Sample]:
    calls: list[Sample] = []
    for place, (one, other) in enumerate(_PAIRS):
        shape: tuple[int, ...] = ((7,), (2, 3), (), (64,), (1,), (0,), (2, 0))[place % 7]
        for source, to in ((one, other), (other, one)):
            whole = (*shape, to.itemsize // source.itemsize) if to.bits > source.bits else shape
            raw = np.random.default_rng(place).integers(0, 256, (*whole, source.itemsize), np.uint8)
            calls.append(Sample((raw.view(source.np).reshape(whole),), {"dtype": to}))
    return calls


#: The same bits in elements of another width: narrower ones along a new last axis, or wider ones of the last axis,
#: which has as many elements as go into one.
bitcast_regroup = OpDef(
    "bitcast_regroup",
    OpKind.INDEXED,
    types=_regroup_types,
    loops=ElementLoops(_regroup_at),
    reference=_regroup,
    samples=_regroup_samples,
    vjp=NOT_CONTINUOUS, jvp=NOT_CONTINUOUS,
    batch=lambda b, op, operands, batched, size: again(b, op, operands),
    simplify=_regroup_back,
)  # fmt: skip
