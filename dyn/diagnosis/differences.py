"""Differences between arrays that should be one another, within what rounding explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.frozen import record

Array = np.ndarray[Any, Any]

#: Units in the last place that floats may differ by: sums of many elements in another order, and functions of a few
#: units. Narrow floats are computed with in float32 and rounded once.
_WIDE_UNITS, _NARROW_UNITS = 256, 4


def tolerance_of(dtype: DType) -> float:
    """Largest difference that rounding explains, relative to the largest element; 0 for integers and booleans."""
    if not dtype.is_inexact:
        return 0.0
    units = _NARROW_UNITS if dtype.bits <= 16 else _WIDE_UNITS
    return units * float(ml_dtypes.finfo(dtype.np).eps)


@record()
class Difference:
    """The elements of an array in which it differs from another.

    Attributes:
        count: how many they are, of ``size``.
        place: index of the first one.
        made: its value.
        wanted: the other array's value there.
        result: number of the result that the array is, where there are several; else None.
    """

    count: int
    size: int
    place: tuple[int, ...]
    made: str
    wanted: str
    result: int | None = None

    def __str__(self) -> str:
        which = "" if self.result is None else f" of result {self.result}"
        where = f", the first at {list(self.place)}" if self.place else ""
        return f"{self.count} of the {self.size} elements{which}{where}: {self.made}, and not {self.wanted}"


def difference(
    made: Array, wanted: Array, tolerance: float | None = None, rounding: Array | None = None
) -> Difference | None:
    """The difference of an array from another of its dtype and shape; None where rounding explains it.

    NaN is NaN. An infinity is itself, and within rounding the greatest number. ``tolerance`` is relative to the largest
    finite element of ``wanted``; None: :func:`tolerance_of` the dtype. ``rounding`` is how far rounding may move each
    element besides (``dyn.diagnosis.rounding``).
    """
    dtype = dtypes.dtype(wanted.dtype)
    if made.dtype != wanted.dtype or made.shape != wanted.shape:
        own, other = (f"{one.dtype}{list(one.shape)}" for one in (made, wanted))
        return Difference(made.size, made.size, (), own, other)
    if not dtype.is_inexact:
        unlike = made != wanted
        if rounding is not None:
            unlike &= np.isfinite(rounding)
    else:
        limit = tolerance_of(dtype) if tolerance is None else tolerance
        greatest = float(ml_dtypes.finfo(dtype.np).max)
        unlike = _unlike(dtypes.widened(made), dtypes.widened(wanted), limit, _largest(wanted), greatest)
        if rounding is not None:
            moved = np.abs(dtypes.widened(made) - dtypes.widened(wanted)).astype(np.float64)
            unlike &= ~((moved <= rounding) | np.isinf(rounding))
    if not unlike.any():
        return None
    place = tuple([int(i) for i in np.unravel_index(int(np.argmax(unlike)), unlike.shape)])
    return Difference(int(unlike.sum()), unlike.size, place, str(made[place]), str(wanted[place]))


def _largest(x: Array) -> float:
    """Size of the largest finite element, of parts of complex numbers; 0 of none."""
    wide = dtypes.widened(x)
    parts = (wide.real, wide.imag) if wide.dtype.kind == "c" else (wide,)
    return max([float(np.abs(part, where=np.isfinite(part), out=np.zeros_like(part)).max(initial=0)) for part in parts])


def _unlike(made: Array, wanted: Array, limit: float, scale: float, greatest: float) -> Array:
    if made.dtype.kind == "c":
        real, imag = ((made.real, wanted.real), (made.imag, wanted.imag))
        return _unlike(*real, limit, scale, greatest) | _unlike(*imag, limit, scale, greatest)
    with np.errstate(all="ignore"):
        gap = np.abs(made.astype(np.float64).clip(-greatest, greatest) - wanted.clip(-greatest, greatest))
    # Numbers that are less than the least normal one have fewer digits, or are 0 on some machines.
    near = gap <= max(limit * scale, float(np.finfo(wanted.dtype).tiny))
    overflow = np.isinf(made) != np.isinf(wanted)
    same = (made == wanted) | (np.isnan(made) & np.isnan(wanted))
    return ~same & ~np.where(overflow, gap <= limit * greatest, near)


def first_difference(
    made: Sequence[Array], wanted: Sequence[Array], tolerance: float | None = None, rounding: Sequence[Array] = ()
) -> Difference | None:
    """The first difference among results; ``rounding`` has for each, if for any, what :func:`difference` takes."""
    for number, (one, other) in enumerate(zip(made, wanted, strict=True)):
        moved = rounding[number] if rounding else None
        found = difference(np.asarray(one), np.asarray(other), tolerance, moved)
        if found is not None:
            return replace(found, result=number) if len(wanted) > 1 else found
    return None
