"""Comparisons of whole arrays, and predicates on the kind of numbers in them."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.numpy._broadcast import join_shapes
from dyn.numpy._indexing.take import size_of
from dyn.numpy._logic import equal, has, isclose, isnan, logical_and, logical_or
from dyn.numpy._operands import cast, constant, emit, promote, shape_of
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._reductions import all as all_of
from dyn.numpy._sorting.search import array_of
from dyn.numpy._unary import filled, imag
from dyn.shapes import dim_min
from dyn.trace.dims import SymbolicDim
from dyn.trace.tracer import Tracer

__all__ = [
    "allclose", "array_equal", "array_equiv", "iscomplex", "iscomplexobj", "isreal", "isrealobj", "isscalar",
]  # fmt: skip


@public
def allclose(
    x: ArrayLike, y: ArrayLike, /, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Array:
    """Tell whether ``|x - y| <= atol + rtol * |y|`` for all elements: :func:`isclose` of each.

    Args:
        x: array of any dtype.
        y: array of any dtype that broadcasts with ``x``: what ``x`` is measured by.
        rtol: tolerance relative to ``|y|``, a number.
        atol: absolute tolerance, a number.
        equal_nan: whether NaN is close to NaN.

    Returns:
        A boolean array of shape ``()``; true of no elements.

    Raises:
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return all_of(isclose(x, y, rtol, atol, equal_nan))


def _equal(x: Tracer, y: Tracer, equal_nan: bool) -> Tracer:
    same = equal(x, y)
    if equal_nan and x.element_type.is_inexact and y.element_type.is_inexact:
        same = logical_or(same, logical_and(isnan(x), isnan(y)))
    return all_of(same)


def _operands(what: str, a1: ArrayLike, a2: ArrayLike) -> tuple[Tracer, Tracer | None]:
    """Both as arrays; None for a Python integer that the dtype of the other one does not have: no element is it."""
    for number, array in ((a1, a2), (a2, a1)):
        if type(number) is int and isinstance(array, Tracer) and array.element_type.is_integer:
            dtype = array.element_type
            return array, constant(array._trace, number, dtype) if has(dtype, number) else None
    return array_of(what, a1, a1, a2), array_of(what, a2, a1, a2)


@public
def array_equal(a1: ArrayLike, a2: ArrayLike, /, equal_nan: bool = False) -> Array:
    """Tell whether two arrays have the same shape and elements.

    Sizes that are not known are compared when the program runs: that they differ is an answer, not an error.

    Args:
        a1: array of any dtype, or nested lists.
        a2: array of any dtype, or nested lists; the dtypes may differ.
        equal_nan: whether NaN equals NaN; of integers and booleans it changes nothing.

    Returns:
        A boolean array of shape ``()``; true of two arrays of the same shape without elements.
    """
    x, y = _operands("array_equal", a1, a2)
    trace = x._trace
    if y is None:
        return constant(trace, False, dtypes.bool_)
    if x.ndim != y.ndim or any(trace.facts.eq(a, b).refuted for a, b in zip(shape_of(x), shape_of(y), strict=True)):
        return constant(trace, False, dtypes.bool_)
    result = constant(trace, True, dtypes.bool_)
    for axis, (a, b) in enumerate(zip(shape_of(x), shape_of(y), strict=True)):
        if a is b or trace.facts.eq(a, b).proved:
            continue
        # Both cut to the shorter size, which decides the rest of the question.
        result = emit("and", result, emit("compare", size_of(x, a), size_of(x, b), direction="EQ"))
        x, y = _cut(x, y, axis)
    return logical_and(result, _equal(x, y, equal_nan))


def _cut(x: Tracer, y: Tracer, axis: int) -> tuple[Tracer, Tracer]:
    from_both = x._trace.facts.simplify(dim_min(shape_of(x)[axis], shape_of(y)[axis]))

    def short(v: Tracer) -> Tracer:
        limit = tuple(from_both if a == axis else d for a, d in enumerate(shape_of(v)))
        return emit("slice", v, start=(0,) * v.ndim, limit=limit, strides=(1,) * v.ndim)

    return short(x), short(y)


@public
def array_equiv(a1: ArrayLike, a2: ArrayLike, /) -> Array:
    """Tell whether two arrays broadcast to each other and have the same elements then.

    Args:
        a1: array of any dtype, or nested lists.
        a2: array of any dtype, or nested lists; the dtypes may differ.

    Returns:
        A boolean array of shape ``()``: false where shapes that are known while tracing do not broadcast.

    Raises:
        ShapeError: when called, if sizes that are undecided until then do not broadcast; NumPy answers False.
    """
    x, y = _operands("array_equiv", a1, a2)
    if y is None:
        return all_of(filled(cast(x, dtypes.bool_), False))
    facts = x._trace.facts
    pairs = zip(shape_of(x)[::-1], shape_of(y)[::-1], strict=False)
    if any(facts.broadcasts(a, b).refuted for a, b in pairs):
        return constant(x._trace, False, dtypes.bool_)
    join_shapes("array_equiv", x._trace, [shape_of(x), shape_of(y)])
    return _equal(x, y, False)


# ---- kinds of numbers ------------------------------------------------------------------------------------------------


@public
def iscomplex(x: ArrayLike, /) -> Array:
    """Mark the elements whose imaginary part is not 0.

    Args:
        x: array of any dtype.

    Returns:
        An array of booleans, of the shape of ``x``: false throughout for real dtypes.
    """
    (value,) = promote("iscomplex", x)
    if value.element_type.kind is not Kind.COMPLEX:
        return filled(cast(value, dtypes.bool_), False)
    part = imag(value)
    return emit("compare", part, filled(part, 0), direction="NE")


@public
def isreal(x: ArrayLike, /) -> Array:
    """Mark the elements whose imaginary part is 0.

    Args:
        x: array of any dtype.

    Returns:
        An array of booleans, of the shape of ``x``: true throughout for real dtypes.
    """
    (value,) = promote("isreal", x)
    if value.element_type.kind is not Kind.COMPLEX:
        return filled(cast(value, dtypes.bool_), True)
    part = imag(value)
    return emit("compare", part, filled(part, 0), direction="EQ")


def iscomplexobj(x: Any) -> bool:
    """Tell whether an array's dtype is complex, whatever its elements are.

    Args:
        x: array, Python number, dimension, or nested lists of numbers.

    Returns:
        A Python bool.
    """
    if isinstance(x, bool | int | float | complex):
        return isinstance(x, complex)
    if isinstance(x, list | tuple):
        return bool(np.iscomplexobj(x))
    return not isinstance(x, SymbolicDim) and dtypes.dtype(x.dtype).kind is Kind.COMPLEX


def isrealobj(x: Any) -> bool:
    """Tell whether an array has a real dtype, from its dtype alone.

    Args:
        x: array, Python number, dimension, or nested lists of numbers.

    Returns:
        A Python bool.

    Example:
        >>> dnp.isrealobj(np.zeros(2, np.complex64))
        False
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Tell whether something is a number: a Python number, a NumPy scalar, a dimension or an array without axes.

    Args:
        element: any object.

    Returns:
        A Python bool: false for strings and None too, where NumPy says that a string is a scalar.

    Example:
        >>> dnp.isscalar(3.0), dnp.isscalar(np.zeros(1))
        (True, False)
    """
    if isinstance(element, numbers.Number | SymbolicDim | np.generic):
        return True
    return hasattr(element, "dtype") and getattr(element, "ndim", None) == 0
