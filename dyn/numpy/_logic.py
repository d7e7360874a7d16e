"""Comparisons, logic and bits, element by element.

This file is longer than most: half of it says what each function takes and gives.
"""

from __future__ import annotations

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import UnsupportedOpError
from dyn.numpy._broadcast import align, elementwise
from dyn.numpy._operands import cast, emit, promote, trace_of, tracer
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._unary import filled
from dyn.source import user_loc
from dyn.trace.dims import SymbolicDim
from dyn.trace.tracer import Tracer

__all__ = [
    "bitwise_and", "bitwise_invert", "bitwise_not", "bitwise_or", "bitwise_xor", "equal", "greater", "greater_equal",
    "invert", "isclose", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "less", "less_equal", "logical_and",
    "logical_not", "logical_or", "logical_xor", "not_equal",
]  # fmt: skip


# ---- comparisons -----------------------------------------------------------------------------------------------------


#: Each direction, with the operands in the other order.
_MIRRORED = {"EQ": "EQ", "NE": "NE", "LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}


def _compare(what: str, direction: str, x: ArrayLike, y: ArrayLike) -> Tracer:
    """Compare by value: an integer that an array's dtype does not have is not brought to that dtype, as in NumPy 2."""
    for a, b, way in ((x, y, direction), (y, x, _MIRRORED[direction])):
        if isinstance(a, Tracer) and a.element_type.is_integer:
            if type(b) is int and not has(a.element_type, b):
                # Every element is on the same side of it.
                true = way in (("NE", "LT", "LE") if b > 0 else ("NE", "GT", "GE"))
                return emit("compare", a, a, direction="EQ" if true else "NE")
            if isinstance(b, SymbolicDim) and a.element_type.bits < 64:
                return elementwise("compare", what, cast(a, dtypes.int64), b, direction=way)
            if a.element_type.is_integer and isinstance(b, Tracer | np.ndarray | np.generic):
                trace = trace_of(a, b)
                a, b = tracer(trace, a, what), tracer(trace, b, what)
                if a.element_type.kind is Kind.INT and b.element_type is dtypes.uint64:
                    return _compare_signed(what, way, a, b)
                if b.element_type.kind is Kind.INT and a.element_type is dtypes.uint64:
                    return _compare_signed(what, _MIRRORED[way], b, a)
    return elementwise("compare", what, x, y, direction=direction)


def _compare_signed(what: str, direction: str, x: Tracer, y: Tracer) -> Tracer:
    """Compare signed integers with uint64, whose common dtype, float64, has not all of either."""
    bits = elementwise("compare", what, cast(x, dtypes.uint64), y, direction=direction)
    if direction in ("NE", "LT", "LE"):
        return elementwise("or", what, elementwise("compare", what, x, 0, direction="LT"), bits)
    return elementwise("and", what, elementwise("compare", what, x, 0, direction="GE"), bits)


def has(dtype: DType, number: int) -> bool:
    """Tell whether an integer dtype has a number."""
    info = np.iinfo(dtype.np)
    return int(info.min) <= number <= int(info.max)


@public
def equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x == y``, element by element; false where either is NaN.

    Args:
        x: array of any dtype, or a Python number, which need not fit in the dtype of ``y``.
        y: array of any dtype, or a Python number, that broadcasts with ``x``.

    Returns:
        An array of booleans, of the shape that both broadcast to. Both are compared in their common dtype.

    Raises:
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _compare("equal", "EQ", x, y)


@public
def not_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x != y``, element by element; true where either is NaN.

    Args:
        x: array of any dtype, or a Python number, which need not fit in the dtype of ``y``.
        y: array of any dtype, or a Python number, that broadcasts with ``x``.

    Returns:
        An array of booleans, of the shape that both broadcast to. Both are compared in their common dtype.

    Raises:
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _compare("not_equal", "NE", x, y)


@public
def less(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x < y``, element by element; false where either is NaN.

    Args:
        x: array of any real dtype, or a Python number, which need not fit in the dtype of ``y``.
        y: array of any real dtype, or a Python number, that broadcasts with ``x``.

    Returns:
        An array of booleans, of the shape that both broadcast to. Both are compared in their common dtype.

    Raises:
        UnsupportedOpError: if one of them is complex, which has no order.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _compare("less", "LT", x, y)


@public
def less_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x <= y``, element by element; false where either is NaN.

    Args:
        x: array of any real dtype, or a Python number, which need not fit in the dtype of ``y``.
        y: array of any real dtype, or a Python number, that broadcasts with ``x``.

    Returns:
        An array of booleans, of the shape that both broadcast to. Both are compared in their common dtype.

    Raises:
        UnsupportedOpError: if one of them is complex, which has no order.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _compare("less_equal", "LE", x, y)


@public
def greater(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x > y``, element by element; false where either is NaN.

    Args:
        x: array of any real dtype, or a Python number, which need not fit in the dtype of ``y``.
        y: array of any real dtype, or a Python number, that broadcasts with ``x``.

    Returns:
        An array of booleans, of the shape that both broadcast to. Both are compared in their common dtype.

    Raises:
        UnsupportedOpError: if one of them is complex, which has no order.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _compare("greater", "GT", x, y)


@public
def greater_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x >= y``, element by element; false where either is NaN.

    Args:
        x: array of any real dtype, or a Python number, which need not fit in the dtype of ``y``.
        y: array of any real dtype, or a Python number, that broadcasts with ``x``.

    Returns:
        An array of booleans, of the shape that both broadcast to. Both are compared in their common dtype.

    Raises:
        UnsupportedOpError: if one of them is complex, which has no order.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _compare("greater_equal", "GE", x, y)


# ---- kinds of numbers ------------------------------------------------------------------------------------------------


@public
def isnan(x: ArrayLike, /) -> Array:
    """Mark the elements that are NaN.

    Args:
        x: array of any dtype; a complex number is NaN where one of its parts is.

    Returns:
        An array of booleans, of the shape of ``x``: false throughout for integers and booleans.
    """
    (value,) = promote("isnan", x)
    return emit("compare", value, value, direction="NE")


@public
def isfinite(x: ArrayLike, /) -> Array:
    """Mark the elements that are neither NaN nor infinite.

    Args:
        x: array of any dtype; of a complex number both parts have to be finite.

    Returns:
        An array of booleans, of the shape of ``x``: true throughout for integers and booleans.
    """
    (value,) = promote("isfinite", x)
    if value.element_type.kind is Kind.COMPLEX:
        return emit("and", *(emit("is_finite", emit(part, value)) for part in ("real", "imag")))
    if not value.element_type.is_float:
        return emit("compare", value, value, direction="EQ")
    return emit("is_finite", value)


def _is_infinity(what: str, x: ArrayLike, sign: int) -> Tracer:
    (value,) = promote(what, x)
    if value.element_type.kind is Kind.COMPLEX and sign == 0:
        return emit("or", *(_is_infinity(what, emit(part, value), 0) for part in ("real", "imag")))
    if value.element_type.kind is Kind.COMPLEX:
        raise UnsupportedOpError(
            f"{what} does not take complex arrays.", loc=user_loc(), remedy="ask for their real and imaginary parts."
        )
    if not value.element_type.is_float:
        return emit("compare", value, value, direction="NE")
    if sign == 0:
        value = emit("abs", value)
    return emit("compare", value, filled(value, float("-inf") if sign < 0 else float("inf")), direction="EQ")


@public
def isinf(x: ArrayLike, /) -> Array:
    """Mark the elements that are infinite.

    Args:
        x: array of any dtype; a complex number is infinite where one of its parts is.

    Returns:
        An array of booleans, of the shape of ``x``: false throughout for integers and booleans.
    """
    return _is_infinity("isinf", x, 0)


@public
def isposinf(x: ArrayLike, /) -> Array:
    """Mark the elements that are +inf.

    Args:
        x: array of any real dtype.

    Returns:
        An array of booleans, of the shape of ``x``: false throughout for integers and booleans.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
    """
    return _is_infinity("isposinf", x, 1)


@public
def isneginf(x: ArrayLike, /) -> Array:
    """Mark the elements that are -inf.

    Args:
        x: array of any real dtype.

    Returns:
        An array of booleans, of the shape of ``x``: false throughout for integers and booleans.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
    """
    return _is_infinity("isneginf", x, -1)


@public
def isclose(x: ArrayLike, y: ArrayLike, /, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Array:
    """Mark the elements with ``|x - y| <= atol + rtol * |y|``; infinities are close to themselves only.

    Args:
        x: array of any dtype.
        y: array of any dtype that broadcasts with ``x``: what ``x`` is measured by.
        rtol: tolerance relative to ``|y|``, a number.
        atol: absolute tolerance, a number.
        equal_nan: whether NaN is close to NaN.

    Returns:
        An array of booleans, of the shape that both broadcast to. The distance is computed in their common dtype, that
        of integers and booleans in float64.

    Raises:
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    a, b = align("isclose", promote("isclose", x, y, choose=_float_or_default))
    gap, size = emit("abs", emit("subtract", a, b)), emit("abs", b)
    bound = emit("add", filled(size, atol), emit("multiply", filled(size, rtol), size))
    near = emit("and", emit("compare", gap, bound, direction="LE"), isfinite(b))
    result = emit("or", near, emit("compare", a, b, direction="EQ"))
    if equal_nan:
        both = emit("and", emit("compare", a, a, direction="NE"), emit("compare", b, b, direction="NE"))
        result = emit("or", result, both)
    return result


def _float_or_default(dtype: DType) -> DType:
    return dtype if dtype.is_inexact else dtypes.float64


# ---- logic -----------------------------------------------------------------------------------------------------------


def truth(x: Tracer) -> Tracer:
    """Mark the elements that are not 0."""
    if x.element_type.kind is Kind.COMPLEX:
        return emit("compare", x, filled(x, 0), direction="NE")
    return cast(x, dtypes.bool_)


def _logical(name: str, what: str, x: ArrayLike, y: ArrayLike) -> Tracer:
    return emit(name, *align(what, [truth(promote(what, v)[0]) for v in (x, y)]))


@public
def logical_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Logical and, element by element: true where neither is 0.

    Args:
        x: array of any dtype; true where it is not 0.
        y: array of any dtype that broadcasts with ``x``.

    Returns:
        An array of booleans, of the shape that both broadcast to.

    Raises:
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _logical("and", "logical_and", x, y)


@public
def logical_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Logical or, element by element: true where one or both are not 0.

    Args:
        x: array of any dtype; true where it is not 0.
        y: array of any dtype that broadcasts with ``x``.

    Returns:
        An array of booleans, of the shape that both broadcast to.

    Raises:
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _logical("or", "logical_or", x, y)


@public
def logical_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Logical exclusive or, element by element: true where one is 0 and the other is not.

    Args:
        x: array of any dtype; true where it is not 0.
        y: array of any dtype that broadcasts with ``x``.

    Returns:
        An array of booleans, of the shape that both broadcast to.

    Raises:
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _logical("xor", "logical_xor", x, y)


@public
def logical_not(x: ArrayLike, /) -> Array:
    """Logical negation, element by element: true where ``x`` is 0.

    Args:
        x: array of any dtype.

    Returns:
        An array of booleans, of the shape of ``x``.
    """
    return emit("not", truth(promote("logical_not", x)[0]))


# ---- bits ------------------------------------------------------------------------------------------------------------


def _bits(name: str, what: str, *values: ArrayLike) -> Tracer:
    operands = promote(what, *values)
    if operands[0].element_type.kind not in (Kind.BOOL, Kind.INT, Kind.UINT):
        raise UnsupportedOpError(
            f"{what} takes integers or booleans, not {operands[0].element_type.name}.",
            loc=user_loc(),
            remedy="convert the array with .astype first, or use logical_and, logical_or, logical_not.",
        )
    return emit(name, *align(what, operands))


@public
def bitwise_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x & y``, bit by bit; of booleans the logical operation.

    Args:
        x: array of integers or booleans.
        y: array of integers or booleans that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype.

    Raises:
        UnsupportedOpError: if that dtype is not an integer's or bool: that of int64 and uint64 is float64.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _bits("and", "bitwise_and", x, y)


@public
def bitwise_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x | y``, bit by bit; of booleans the logical operation.

    Args:
        x: array of integers or booleans.
        y: array of integers or booleans that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype.

    Raises:
        UnsupportedOpError: if that dtype is not an integer's or bool: that of int64 and uint64 is float64.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _bits("or", "bitwise_or", x, y)


@public
def bitwise_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x ^ y``, bit by bit; of booleans the logical operation.

    Args:
        x: array of integers or booleans.
        y: array of integers or booleans that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype.

    Raises:
        UnsupportedOpError: if that dtype is not an integer's or bool: that of int64 and uint64 is float64.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _bits("xor", "bitwise_xor", x, y)


@public
def bitwise_not(x: ArrayLike, /) -> Array:
    """``~x``, bit by bit; of booleans the logical negation.

    Args:
        x: array of integers or booleans.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        UnsupportedOpError: if ``x`` is of neither integers nor booleans.
    """
    return _bits("not", "bitwise_not", x)


invert = bitwise_not
bitwise_invert = bitwise_not
