"""Elementwise ops on the bits of numbers: shifts, counts, reinterpretation."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn.dtypes import DType, Kind
from dyn.ir.opdef import NOT_CONTINUOUS, Attrs, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.codecs import elementwise
from dyn.ops.pointwise import INTS, REALS, draw, pointwise_op
from dyn.ops.rules import INTEGER, pointwise, same_type
from dyn.ops.scalar import Scalar
from dyn.ops.transform_rules import pointwise_batch

Array = np.ndarray[Any, Any]


def _unsigned(x: Array) -> Array:
    return np.asarray(x).view(np.dtype(f"u{x.dtype.itemsize}"))


def _shift_right_arithmetic(x: Array, y: Array) -> Array:
    signed = np.dtype(f"i{x.dtype.itemsize}")
    return np.asarray(np.right_shift(np.asarray(x).view(signed), np.asarray(y).view(signed))).view(x.dtype)


def _shift_right_logical(x: Array, y: Array) -> Array:
    return np.asarray(np.right_shift(_unsigned(x), _unsigned(y))).view(x.dtype)


def _popcnt(x: Array) -> Array:
    return np.bitwise_count(_unsigned(x)).astype(x.dtype)


def _count_leading_zeros(x: Array) -> Array:
    """In how many ways the number can be shifted to nothing."""
    bits, u = 8 * x.dtype.itemsize, _unsigned(x)
    return np.sum([u >> u.dtype.type(k) == 0 for k in range(bits)], axis=0).astype(x.dtype)


_shifts = draw(2, INTS, low=-9, high=70)
shift_left = pointwise_op("shift_left", Scalar.SHL, np.left_shift, _shifts, same_type(INTEGER), grad=NOT_CONTINUOUS)
#: The sign comes in from the left, of unsigned integers the highest bit.
shift_right_arithmetic = pointwise_op(
    "shift_right_arithmetic", Scalar.SHRA, _shift_right_arithmetic, _shifts, same_type(INTEGER), grad=NOT_CONTINUOUS
)
#: Zeros come in from the left.
shift_right_logical = pointwise_op(
    "shift_right_logical", Scalar.SHRL, _shift_right_logical, _shifts, same_type(INTEGER), grad=NOT_CONTINUOUS
)
popcnt = pointwise_op(
    "popcnt", Scalar.POPCNT, _popcnt, draw(1, INTS, low=-99, high=99), same_type(INTEGER), grad=NOT_CONTINUOUS
)
count_leading_zeros = pointwise_op(
    "count_leading_zeros", Scalar.CLZ, _count_leading_zeros, draw(1, INTS, low=-99, high=99), same_type(INTEGER),
    grad=NOT_CONTINUOUS,
)  # fmt: skip


# --- bitcast_convert --------------------------------------------------------------------------------------------------


def _bitcast_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,), to = operands, attrs["dtype"]
    if x.dtype.bits != to.bits or any(d.kind in (Kind.BOOL, Kind.COMPLEX) for d in (x.dtype, to)):
        raise ctx.unsupported(
            f"{x.dtype.name} and {to.name} are not integers or floats of one width", "convert it with .astype first"
        )
    return (TensorType(to, x.shape),)


def _same_bits(b: Any, op: Any) -> tuple[Any, ...] | None:
    """A bitcast to the type that is there, or of a bitcast."""
    (x,) = op.operands
    inner = b.producer(x, op.opdef)
    source = x if inner is None else inner.operands[0]
    if source.type == op.result.type:
        return (source,)
    return None if inner is None else (b.op("bitcast_convert", source, **op.attrs),)


def _bitcast_samples() -> list[Sample]:
    def casts(source: DType) -> list[Sample]:
        targets = [to for to in REALS if to.bits == source.bits]
        return [Sample(s.operands, {"dtype": to}) for to in targets for s in draw(1, (source,))()]

    return [sample for source in REALS for sample in casts(source)]


#: The same bits as numbers of another dtype of that width.
bitcast_convert = OpDef(
    "bitcast_convert",
    OpKind.POINTWISE,
    types=_bitcast_types,
    loops=pointwise(Scalar.BITCAST),
    reference=lambda x, dtype: np.asarray(x).view(dtype.np),
    samples=_bitcast_samples,
    vjp=NOT_CONTINUOUS, jvp=NOT_CONTINUOUS, batch=pointwise_batch, stablehlo=elementwise.bitcast_convert,
    simplify=_same_bits,
)  # fmt: skip
