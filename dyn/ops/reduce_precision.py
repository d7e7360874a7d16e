"""Floats as a narrower format would have them (https://openxla.org/stablehlo/spec#reduce_precision).

On the bits: the fraction is rounded to nearest, ties to even, which may carry into the exponent; then exponents that
the narrower format does not have become infinity, or zero. It has no denormal numbers. NaN stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.ir.opdef import Attrs, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.formula import BITS, Num, formula_op, unchanged
from dyn.ops.pointwise import FLOATS, draw
from dyn.ops.rules import FLOAT, same_type
from dyn.ops.scalar import Scalar as S

Array = np.ndarray[Any, Any]


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    if attrs["exponent_bits"] < 1 or attrs["mantissa_bits"] < 0:
        raise ctx.fail(
            f"there are no floats with {attrs['exponent_bits']} bits of exponent, {attrs['mantissa_bits']} of mantissa",
            "an exponent has at least one bit.",
        )
    return same_type(FLOAT)(ctx, operands, attrs)


def _limits(dtype: DType, exponent_bits: int) -> tuple[int, int, int]:
    """The mask of the exponent, the greatest exponent that stays, and the greatest that becomes zero, as bits."""
    fraction = dtype.floating.fraction
    own = dtype.bits - 1 - fraction
    bias, narrow = (1 << (own - 1)) - 1, (1 << (exponent_bits - 1)) - 1
    return ((1 << own) - 1) << fraction, (bias + narrow) << fraction, (bias - narrow) << fraction


def _formula(x: Num, exponent_bits: int, mantissa_bits: int) -> Num:
    dtype, fraction = x.dtype, x.dtype.floating.fraction
    bits = x.bits()
    lost = fraction - mantissa_bits
    if lost > 0:
        last = bits.f(S.SHRL, lost) & 1
        bits = (bits + last + ((1 << (lost - 1)) - 1)) & -(1 << lost)
    exponents, most, least = _limits(dtype, exponent_bits)
    if exponent_bits < dtype.bits - 1 - fraction:
        size = bits & exponents
        sign = bits & -(1 << (dtype.bits - 1))
        bits = size.is_(S.GT, most).where(sign | exponents, bits)
        bits = size.is_(S.LE, least).where(sign, bits)
    return x.is_(S.NE, x).where(x, bits.as_float(dtype))


def _array(x: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    dtype = dtypes.dtype(x.dtype)
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    bits, lost = np.asarray(x).view(unsigned), max(dtype.floating.fraction - mantissa_bits, 0)
    one = unsigned.type(1)
    with np.errstate(over="ignore"):
        if lost:
            rest = (bits >> unsigned.type(lost) & one) + unsigned.type((1 << (lost - 1)) - 1)
            bits = (bits + rest) >> unsigned.type(lost) << unsigned.type(lost)
    exponents, most, least = _limits(dtype, exponent_bits)
    if exponent_bits < BITS[dtype.bits].bits - 1 - dtype.floating.fraction:
        size, sign = bits & unsigned.type(exponents), bits & unsigned.type(1 << (dtype.bits - 1))
        bits = np.where(size > most, sign | unsigned.type(exponents), np.where(size <= least, sign, bits))
    return np.where(x != x, x, bits.astype(unsigned).view(x.dtype))


def _samples() -> list[Sample]:
    formats = ((5, 10), (8, 7), (2, 1), (1, 0), (11, 52))
    calls = [s for e, m in formats for s in draw(1, FLOATS, exponent_bits=e, mantissa_bits=m)()]
    odd = [np.nan, np.inf, -np.inf, -0.0, 65519.0, 65520.0, -65520.0, 6.2e-5, 6.09e-5, 3.0, 1.1, 1e-30, 1e30]
    special = np.array(odd, np.float32)
    return [*calls, *(Sample((special,), {"exponent_bits": e, "mantissa_bits": m}) for e, m in formats)]


#: The nearest float with so many bits of exponent and mantissa. Its derivative is that of the number itself.
reduce_precision = formula_op(
    "reduce_precision", _formula, _array, _samples, _types, wide=unchanged, plain=_array,
    grad=lambda a, ct, y, x: (ct,),
)  # fmt: skip
