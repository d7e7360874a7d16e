"""Reductions that leave NaNs out. Arrays that have none, such as integers, are reduced as they are."""

from __future__ import annotations

from dyn import dtypes
from dyn.numpy._axes import all_axes
from dyn.numpy._logic import isnan, less_equal, logical_not
from dyn.numpy._moments import mean, var
from dyn.numpy._operands import cast, operand
from dyn.numpy._public import Array, ArrayLike, Axis, DTypeLike, public
from dyn.numpy._reductions import all, argmax, argmin, max, min, prod, sum
from dyn.numpy._selection import where
from dyn.numpy._unary import sqrt
from dyn.trace.tracer import Tracer

__all__ = ["nanargmax", "nanargmin", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar"]


def _parts(what: str, x: ArrayLike) -> tuple[Tracer, Tracer | None]:
    """The array, and where it is NaN: None where it cannot be."""
    value = operand(what, x)
    return value, isnan(value) if value.element_type.is_inexact else None


@public
def nansum(x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, keepdims: bool = False) -> Array:
    """The sum of what is not NaN; 0 of nothing."""
    value, missing = _parts("nansum", x)
    return sum(value if missing is None else where(missing, 0, value), axis, dtype, keepdims)


@public
def nanprod(x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, keepdims: bool = False) -> Array:
    """The product of what is not NaN; 1 of nothing."""
    value, missing = _parts("nanprod", x)
    return prod(value if missing is None else where(missing, 1, value), axis, dtype, keepdims)


@public
def nanmax(x: ArrayLike, /, axis: Axis = None, keepdims: bool = False) -> Array:
    """The greatest element that is not NaN; NaN where all are. Of no elements a ShapeError."""
    value, missing = _parts("nanmax", x)
    if missing is None:
        return max(value, axis, keepdims)
    found = max(where(missing, -float("inf"), value), axis, keepdims)
    return where(all(missing, axis, keepdims), float("nan"), found)


@public
def nanmin(x: ArrayLike, /, axis: Axis = None, keepdims: bool = False) -> Array:
    """The least element that is not NaN; NaN where all are. Of no elements a ShapeError."""
    value, missing = _parts("nanmin", x)
    if missing is None:
        return min(value, axis, keepdims)
    found = min(where(missing, float("inf"), value), axis, keepdims)
    return where(all(missing, axis, keepdims), float("nan"), found)


@public
def nanargmax(x: ArrayLike, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """The first place of the greatest element that is not NaN; -1 where all are NaN, as in JAX (NumPy raises)."""
    value, missing = _parts("nanargmax", x)
    if missing is None:
        return argmax(value, axis, keepdims=keepdims)
    found = argmax(where(missing, -float("inf"), value), axis, keepdims=keepdims)
    return where(all(missing, axis, keepdims), -1, found)


@public
def nanargmin(x: ArrayLike, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """The first place of the least element that is not NaN; -1 where all are NaN, as in JAX (NumPy raises)."""
    value, missing = _parts("nanargmin", x)
    if missing is None:
        return argmin(value, axis, keepdims=keepdims)
    found = argmin(where(missing, float("inf"), value), axis, keepdims=keepdims)
    return where(all(missing, axis, keepdims), -1, found)


@public
def nanmean(x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, keepdims: bool = False) -> Array:
    """The mean of what is not NaN; NaN of nothing."""
    value, missing = _parts("nanmean", x)
    return mean(value, axis, dtype, keepdims, where=None if missing is None else logical_not(missing))


@public
def nanvar(
    x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, ddof: float = 0, keepdims: bool = False
) -> Array:
    """The variance of what is not NaN, over their number less ``ddof``; NaN where that is not positive."""
    value, missing = _parts("nanvar", x)
    if missing is None:
        return var(value, axis, dtype, ddof, keepdims)
    there = logical_not(missing)
    found = var(value, axis, dtype, ddof, keepdims, where=there)
    count = sum(cast(there, dtypes.int64), all_axes("nanvar", axis, value.ndim), None, keepdims)
    return where(less_equal(count, ddof), float("nan"), found)


@public
def nanstd(
    x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, ddof: float = 0, keepdims: bool = False
) -> Array:
    """The square root of :func:`nanvar`."""
    return sqrt(nanvar(x, axis, dtype, ddof, keepdims))
