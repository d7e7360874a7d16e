"""Reductions: many elements to one, over some axes or all.

``axis`` is a number, a tuple or None for all. ``keepdims`` keeps reduced axes with size 1. Sums and products of
integers are computed in int64 (uint64), as NumPy does on 64-bit machines; those of 16-bit floats are accumulated in
float32. ``max`` and ``min`` of nothing are a ShapeError when called, unless ``initial`` is given.
"""

from __future__ import annotations

from typing import Any

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import UnsupportedOpError
from dyn.numpy._axes import all_axes, one_axis
from dyn.numpy._binary import maximum, minimum, subtract
from dyn.numpy._broadcast import align, expand
from dyn.numpy._logic import truth
from dyn.numpy._manipulation import view
from dyn.numpy._operands import cast, emit, made, operand, shape_of
from dyn.numpy._public import Array, ArrayLike, Axis, DTypeLike, public
from dyn.numpy._unary import filled
from dyn.ops.reduce import identity
from dyn.shapes import product
from dyn.source import user_loc
from dyn.trace.lift import dtype_of
from dyn.trace.tracer import Tracer

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "max", "min", "prod", "ptp", "sum",
]  # fmt: skip


def fold(x: Tracer, combine: str, axes: tuple[int, ...], keepdims: bool, *, nonempty: bool = False) -> Tracer:
    """``x`` with ``axes`` folded."""
    result = emit("reduce", x, axes=axes, combine=combine, nonempty=nonempty) if axes else x
    if keepdims:
        result = view(result, tuple(1 if a in axes else d for a, d in enumerate(shape_of(x))))
    return result


def masked(x: Tracer, where: ArrayLike | None, combine: str, what: str) -> Tracer:
    """``x`` with what ``where`` leaves out replaced by the value that changes nothing."""
    if where is None:
        return x
    mask, value = align(what, [truth(operand(what, where, x)), x])
    return emit("select", mask, value, filled(value, identity(combine, value.element_type)))


def sum_dtype(dtype: DType) -> DType:
    """The dtype that integers are added up in: NumPy's own on 64-bit machines."""
    if dtype.kind is Kind.UINT:
        return dtypes.uint64
    return dtypes.int64 if dtype.kind in (Kind.BOOL, Kind.INT) else dtype


def _accumulate(
    what: str, combine: str, x: ArrayLike, axis: Axis, dtype: DTypeLike, keepdims: bool, initial: Any, where: Any
) -> Tracer:
    value = operand(what, x, where, initial)
    value = cast(value, sum_dtype(value.element_type) if dtype is None else dtype_of(dtype), weak=value.weak)
    axes = all_axes(what, axis, value.ndim)
    result = fold(masked(value, where, combine, what), combine, axes, keepdims)
    if initial is None:
        return result
    return emit(combine, *align(what, [result, cast(operand(what, initial, value), result.element_type)]))


@public
def sum(
    x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, keepdims: bool = False, *,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Sum of the elements along axes.

    Args:
        x: array of any dtype.
        axis: axis or axes to reduce; None: all.
        dtype: dtype to compute in and of the result; None: int64 for signed integers and booleans, uint64 for unsigned
            ones, that of ``x`` for others (16-bit floats are accumulated in float32).
        keepdims: whether these axes stay, with size 1.
        initial: value to start from.
        where: mask that broadcasts with ``x``: elements to take.

    Returns:
        An array of the shape of ``x`` without the axes; 0 where there are no elements.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice.
    """
    return _accumulate("sum", "add", x, axis, dtype, keepdims, initial, where)


@public
def prod(
    x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, keepdims: bool = False, *,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Product of the elements along axes.

    Args:
        x: array of any dtype.
        axis: axis or axes to reduce; None: all.
        dtype: dtype to compute in and of the result; None: int64 for signed integers and booleans, uint64 for unsigned
            ones, that of ``x`` for others (16-bit floats are accumulated in float32).
        keepdims: whether these axes stay, with size 1.
        initial: value to start from.
        where: mask that broadcasts with ``x``: elements to take.

    Returns:
        An array of the shape of ``x`` without the axes; 1 where there are no elements.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice.
    """
    return _accumulate("prod", "multiply", x, axis, dtype, keepdims, initial, where)


@public
def count_nonzero(x: ArrayLike, /, axis: Axis = None, keepdims: bool = False) -> Array:
    """Count the elements that are not 0.

    Args:
        x: array of any dtype.
        axis: axis or axes to count along; None: all.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array of int64; 0 where there are no elements.
    """
    return _accumulate("count_nonzero", "add", truth(operand("count_nonzero", x)), axis, None, keepdims, None, None)


# ---- extremes --------------------------------------------------------------------------------------------------------


def _extreme(
    what: str, combine: str, x: ArrayLike, axis: Axis, keepdims: bool, initial: Any, where: ArrayLike | None
) -> Tracer:
    value = operand(what, x, where, initial)
    axes = all_axes(what, axis, value.ndim)
    if where is not None and initial is None:
        raise UnsupportedOpError(
            f"{what} with where= needs initial=: it may leave nothing over.",
            loc=user_loc(),
            remedy=f"pass initial=, for example {'-' if combine == 'maximum' else ''}dyn.numpy.inf.",
        )
    if value.element_type.kind is Kind.BOOL:
        combine = "or" if combine == "maximum" else "and"
    result = fold(masked(value, where, combine, what), combine, axes, keepdims, nonempty=initial is None)
    if initial is None:
        return result
    if isinstance(initial, float) and initial == identity(combine, result.element_type.wide):
        return result
    return (maximum if combine in ("maximum", "or") else minimum)(result, initial)


@public
def max(
    x: ArrayLike, /, axis: Axis = None, keepdims: bool = False, *,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Greatest element along axes; NaN where there is one.

    Args:
        x: array of any real dtype.
        axis: axis or axes to reduce; None: all.
        keepdims: whether these axes stay, with size 1.
        initial: value to compare with, too: needed where there may be no elements.
        where: mask that broadcasts with ``x``: elements to take; it needs ``initial``.

    Returns:
        An array of the shape of ``x`` without the axes, in its dtype.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice; when called, if an axis is empty and ``initial``
            is not given.
        UnsupportedOpError: if ``x`` is complex, or ``where`` is given without ``initial``.
    """
    return _extreme("max", "maximum", x, axis, keepdims, initial, where)


@public
def min(
    x: ArrayLike, /, axis: Axis = None, keepdims: bool = False, *,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Least element along axes; NaN where there is one.

    Args:
        x: array of any real dtype.
        axis: axis or axes to reduce; None: all.
        keepdims: whether these axes stay, with size 1.
        initial: value to compare with, too: needed where there may be no elements.
        where: mask that broadcasts with ``x``: elements to take; it needs ``initial``.

    Returns:
        An array of the shape of ``x`` without the axes, in its dtype.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice; when called, if an axis is empty and ``initial``
            is not given.
        UnsupportedOpError: if ``x`` is complex, or ``where`` is given without ``initial``.
    """
    return _extreme("min", "minimum", x, axis, keepdims, initial, where)


amax = max
amin = min


@public
def ptp(x: ArrayLike, /, axis: Axis = None, keepdims: bool = False) -> Array:
    """Range along axes: the greatest element less the least.

    Args:
        x: array of any real dtype but bool.
        axis: axis or axes to reduce; None: all.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array of the shape of ``x`` without the axes, in its dtype; NaN where there is one.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice; when called, if an axis is empty.
        UnsupportedOpError: if ``x`` is complex or of booleans.
    """
    return subtract(*(_extreme("ptp", combine, x, axis, keepdims, None, None) for combine in ("maximum", "minimum")))


def _arg_extreme(what: str, combine: str, x: ArrayLike, axis: int | None, keepdims: bool) -> Tracer:
    """The first place where an element is the extreme, or NaN where the extreme is."""
    value = operand(what, x)
    rank = value.ndim
    if value.element_type.kind is Kind.BOOL:
        value = cast(value, dtypes.int8)
    if axis is None:
        value = view(value, (product(shape_of(value)),))
    number = 0 if axis is None else one_axis(what, axis, rank)
    extreme = expand(fold(value, combine, (number,), True, nonempty=True), shape_of(value))
    found = emit("compare", value, extreme, direction="EQ")
    if value.element_type.is_float:
        found = emit("or", found, emit("compare", value, value, direction="NE"))
    places = made(value._trace, "iota", shape=shape_of(value), dimension=number, dtype=dtypes.int64)
    nowhere = filled(places, identity("minimum", dtypes.int64))
    result = fold(emit("select", found, places, nowhere), "minimum", (number,), keepdims)
    return view(result, (1,) * rank) if axis is None and keepdims else result


@public
def argmax(x: ArrayLike, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """Place of the greatest element along an axis.

    Args:
        x: array of any real dtype.
        axis: axis to search along; None: all elements in their order.
        keepdims: whether the axis stays, with size 1.

    Returns:
        An array of int64, of the shape of ``x`` without the axis: the first of several such places, and that of the
        first NaN where there is one.

    Raises:
        ShapeError: if ``axis`` is not one of ``x``; when called, if it is empty.
        UnsupportedOpError: if ``x`` is complex.
    """
    return _arg_extreme("argmax", "maximum", x, axis, keepdims)


@public
def argmin(x: ArrayLike, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """Place of the least element along an axis.

    Args:
        x: array of any real dtype.
        axis: axis to search along; None: all elements in their order.
        keepdims: whether the axis stays, with size 1.

    Returns:
        An array of int64, of the shape of ``x`` without the axis: the first of several such places, and that of the
        first NaN where there is one.

    Raises:
        ShapeError: if ``axis`` is not one of ``x``; when called, if it is empty.
        UnsupportedOpError: if ``x`` is complex.
    """
    return _arg_extreme("argmin", "minimum", x, axis, keepdims)


# ---- truth -----------------------------------------------------------------------------------------------------------


@public
def all(x: ArrayLike, /, axis: Axis = None, keepdims: bool = False, *, where: ArrayLike | None = None) -> Array:
    """Tell whether no element along axes is 0.

    Args:
        x: array of any dtype.
        axis: axis or axes to reduce; None: all.
        keepdims: whether these axes stay, with size 1.
        where: mask that broadcasts with ``x``: elements to look at.

    Returns:
        An array of booleans, of the shape of ``x`` without the axes; true where there are no elements.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice.
    """
    value = truth(operand("all", x, where))
    return fold(masked(value, where, "and", "all"), "and", all_axes("all", axis, value.ndim), keepdims)


@public
def any(x: ArrayLike, /, axis: Axis = None, keepdims: bool = False, *, where: ArrayLike | None = None) -> Array:
    """Tell whether some element along axes is not 0.

    Args:
        x: array of any dtype.
        axis: axis or axes to reduce; None: all.
        keepdims: whether these axes stay, with size 1.
        where: mask that broadcasts with ``x``: elements to look at.

    Returns:
        An array of booleans, of the shape of ``x`` without the axes; false where there are no elements.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice.
    """
    value = truth(operand("any", x, where))
    return fold(masked(value, where, "or", "any"), "or", all_axes("any", axis, value.ndim), keepdims)
