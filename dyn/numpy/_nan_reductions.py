"""Reductions that leave NaNs out. Arrays that have none, such as integers, are reduced as they are."""

from __future__ import annotations

from dyn import dtypes
from dyn.numpy._axes import all_axes
from dyn.numpy._indexing.selection import where
from dyn.numpy._logic import isnan, less_equal, logical_not
from dyn.numpy._moments import mean, var, variance
from dyn.numpy._operands import cast, operand
from dyn.numpy._public import Array, ArrayLike, Axis, DTypeLike, public
from dyn.numpy._reductions import all, argmax, argmin, max, min, prod, sum
from dyn.numpy._unary import sqrt
from dyn.trace.tracer import Tracer

__all__ = ["nanargmax", "nanargmin", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum", "nanvar"]


def _parts(what: str, x: ArrayLike) -> tuple[Tracer, Tracer | None]:
    """The array, and where it is NaN: None where it cannot be."""
    value = operand(what, x)
    return value, isnan(value) if value.element_type.is_inexact else None


@public
def nansum(x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, keepdims: bool = False) -> Array:
    """Sum of elements along axes, in which NaN counts as 0.

    Args:
        x: array of any dtype, of any shape.
        axis: axis or axes to reduce; None: all.
        dtype: dtype of the result; None: as for :func:`sum`.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array of the shape of ``x`` without the axes; 0 where there are no numbers.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice.

    Example:
        >>> dnp.nansum(np.array([1.0, np.nan, 2.0]))
        array(3.)
    """
    value, missing = _parts("nansum", x)
    return sum(value if missing is None else where(missing, 0, value), axis, dtype, keepdims)


@public
def nanprod(x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, keepdims: bool = False) -> Array:
    """Product of elements along axes, in which NaN counts as 1.

    Args:
        x: array of any dtype, of any shape.
        axis: axis or axes to reduce; None: all.
        dtype: dtype of the result; None: as for :func:`prod`.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array of the shape of ``x`` without the axes; 1 where there are no numbers.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice.
    """
    value, missing = _parts("nanprod", x)
    return prod(value if missing is None else where(missing, 1, value), axis, dtype, keepdims)


@public
def nanmax(x: ArrayLike, /, axis: Axis = None, keepdims: bool = False) -> Array:
    """Greatest number along axes, NaN left out.

    Args:
        x: array of any real dtype, of any shape.
        axis: axis or axes to reduce; None: all.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array of the shape of ``x`` without the axes, in its dtype; NaN where all elements are.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice; when called, if an axis is empty.
        UnsupportedOpError: if ``x`` is complex.

    Example:
        >>> dnp.nanmax(np.array([1.0, np.nan, 2.0]))
        array(2.)
    """
    value, missing = _parts("nanmax", x)
    if missing is None:
        return max(value, axis, keepdims)
    found = max(where(missing, -float("inf"), value), axis, keepdims)
    return where(all(missing, axis, keepdims), float("nan"), found)


@public
def nanmin(x: ArrayLike, /, axis: Axis = None, keepdims: bool = False) -> Array:
    """Least number along axes, NaN left out.

    Args:
        x: array of any real dtype, of any shape.
        axis: axis or axes to reduce; None: all.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array of the shape of ``x`` without the axes, in its dtype; NaN where all elements are.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice; when called, if an axis is empty.
        UnsupportedOpError: if ``x`` is complex.
    """
    value, missing = _parts("nanmin", x)
    if missing is None:
        return min(value, axis, keepdims)
    found = min(where(missing, float("inf"), value), axis, keepdims)
    return where(all(missing, axis, keepdims), float("nan"), found)


@public
def nanargmax(x: ArrayLike, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """Place of the greatest number along an axis, NaN left out.

    Args:
        x: array of any real dtype, of any shape.
        axis: axis to search along; None: all elements in their order.
        keepdims: whether the axis stays, with size 1.

    Returns:
        An array of int64, of the shape of ``x`` without the axis; -1 where all elements are NaN, as in JAX (NumPy
        raises).

    Raises:
        ShapeError: if ``axis`` is not one of ``x``; when called, if it is empty.
        UnsupportedOpError: if ``x`` is complex.

    Example:
        >>> dnp.nanargmax(np.array([1.0, np.nan, 2.0]))
        array(2)
    """
    value, missing = _parts("nanargmax", x)
    if missing is None:
        return argmax(value, axis, keepdims=keepdims)
    found = argmax(where(missing, -float("inf"), value), axis, keepdims=keepdims)
    return where(all(missing, axis, keepdims), -1, found)


@public
def nanargmin(x: ArrayLike, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """Place of the least number along an axis, NaN left out.

    Args:
        x: array of any real dtype, of any shape.
        axis: axis to search along; None: all elements in their order.
        keepdims: whether the axis stays, with size 1.

    Returns:
        An array of int64, of the shape of ``x`` without the axis; -1 where all elements are NaN, as in JAX (NumPy
        raises).

    Raises:
        ShapeError: if ``axis`` is not one of ``x``; when called, if it is empty.
        UnsupportedOpError: if ``x`` is complex.
    """
    value, missing = _parts("nanargmin", x)
    if missing is None:
        return argmin(value, axis, keepdims=keepdims)
    found = argmin(where(missing, float("inf"), value), axis, keepdims=keepdims)
    return where(all(missing, axis, keepdims), -1, found)


@public
def nanmean(x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, keepdims: bool = False) -> Array:
    """Arithmetic mean along axes, NaN left out.

    Args:
        x: array of any dtype, of any shape.
        axis: axis or axes to reduce; None: all.
        dtype: dtype to compute in and of the result; None: as for :func:`mean`.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array of the shape of ``x`` without the axes; NaN where there are no numbers.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice.

    Example:
        >>> dnp.nanmean(np.array([1.0, np.nan, 2.0]))
        array(1.5)
    """
    value, missing = _parts("nanmean", x)
    return mean(value, axis, dtype, keepdims, where=None if missing is None else logical_not(missing))


@public
def nanvar(
    x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, ddof: float = 0, keepdims: bool = False
) -> Array:
    """Variance along axes, NaN left out.

    Args:
        x: array of any dtype, of any shape.
        axis: axis or axes to reduce; None: all.
        dtype: dtype to compute in and of the result; None: as for :func:`var`.
        ddof: number to take from the number of elements, by which the sum is divided.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array of the shape of ``x`` without the axes; NaN where there are no more than ``ddof`` numbers.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice.
    """
    value, missing = _parts("nanvar", x)
    if missing is None:
        return var(value, axis, dtype, ddof, keepdims)
    there = logical_not(missing)
    found = variance("nanvar", value, axis, dtype, ddof, keepdims, there, is_told=True)
    count = sum(cast(there, dtypes.int64), all_axes("nanvar", axis, value.ndim), None, keepdims)
    return where(less_equal(count, ddof), float("nan"), found)


@public
def nanstd(
    x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, ddof: float = 0, keepdims: bool = False
) -> Array:
    """Standard deviation along axes, NaN left out.

    Args:
        x: array of any dtype, of any shape.
        axis: axis or axes to reduce; None: all.
        dtype: dtype to compute in and of the result; None: as for :func:`std`.
        ddof: number to take from the number of elements, by which the sum is divided.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array of the shape of ``x`` without the axes; NaN where there are no more than ``ddof`` numbers.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice.

    Example:
        >>> dnp.nanstd(np.array([1.0, np.nan, 3.0]))
        array(1.)
    """
    return sqrt(nanvar(x, axis, dtype, ddof, keepdims))
