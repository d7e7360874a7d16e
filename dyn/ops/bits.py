"""Elementwise ops on the bits of numbers: shifts and counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn.ir.opdef import NOT_CONTINUOUS
from dyn.ops.pointwise import INTS, draw, pointwise_op
from dyn.ops.rules import INTEGER, same_type
from dyn.ops.scalar import Scalar

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
    """Number of leading zeros: of all shifts to the right by less than the width, so many leave nothing."""
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
