"""Shifts, counts of bits, and functions of a float's bits: its sign, its neighbours."""

from __future__ import annotations

from dyn import dtypes
from dyn.dtypes import Kind, Special
from dyn.errors import UnsupportedOpError
from dyn.numpy._broadcast import align
from dyn.numpy._operands import cast, emit, promote
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._unary import filled, flag, real_float, small_int
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = [
    "bitwise_count", "bitwise_left_shift", "bitwise_right_shift", "copysign", "left_shift", "nextafter", "right_shift",
    "signbit",
]  # fmt: skip

_PATTERNS = {8: dtypes.int8, 16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}


def _integers(what: str, *values: ArrayLike) -> list[Tracer]:
    operands = promote(what, *values, choose=small_int)
    if not operands[0].element_type.is_integer:
        raise UnsupportedOpError(
            f"{what} takes integers or booleans, not {operands[0].element_type.name}.",
            loc=user_loc(),
            remedy="convert the array with .astype first.",
        )
    return align(what, operands)


@public
def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x << y`` of integers, element by element.

    Args:
        x: array of integers or booleans.
        y: array of integers or booleans that broadcasts with ``x``: how many bits to shift by.

    Returns:
        An array of the shape that both broadcast to, in their common dtype, int8 of two of booleans. 0 where ``y`` is
        negative, or no less than the bits of the dtype.

    Raises:
        UnsupportedOpError: if the dtype that both promote to is not an integer's: that of int64 and uint64 is float64.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return emit("shift_left", *_integers("left_shift", x, y))


@public
def right_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x >> y`` of integers, element by element: ``x / 2**y``, rounded down.

    Args:
        x: array of integers or booleans.
        y: array of integers or booleans that broadcasts with ``x``: how many bits to shift by.

    Returns:
        An array of the shape that both broadcast to, in their common dtype, int8 of two of booleans. 0, or -1 of
        negative numbers, where ``y`` is negative, or no less than the bits of the dtype.

    Raises:
        UnsupportedOpError: if the dtype that both promote to is not an integer's: that of int64 and uint64 is float64.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    a, b = _integers("right_shift", x, y)
    signed = a.element_type.kind is Kind.INT
    return emit("shift_right_arithmetic" if signed else "shift_right_logical", a, b)


bitwise_left_shift = left_shift
bitwise_right_shift = right_shift


@public
def bitwise_count(x: ArrayLike, /) -> Array:
    """Number of bits that are set in the absolute value of each element.

    Args:
        x: array of integers or booleans.

    Returns:
        An array of uint8, of the shape of ``x``.

    Raises:
        UnsupportedOpError: if ``x`` is of neither integers nor booleans.
    """
    (value,) = _integers("bitwise_count", x)
    if value.element_type.kind is Kind.INT:
        value = emit("abs", value)
    return cast(emit("popcnt", value), dtypes.uint8)


# ---- floats ----------------------------------------------------------------------------------------------------------


def pattern(x: Tracer) -> Tracer:
    """The bits of a float as a signed integer."""
    return emit("bitcast_convert", x, dtype=_PATTERNS[x.element_type.bits])


def _is_negative(x: Tracer) -> Tracer:
    """Mark the floats whose sign is negative, -0.0 and NaN too. Powers of two (float8_e8m0fnu) have no sign."""
    bits = pattern(x)
    if x.element_type.floating.special is Special.POWERS:
        return emit("compare", bits, bits, direction="NE")
    return flag("LT", bits, 0)


def with_sign(x: Tracer, sign: Tracer) -> Tracer:
    """``x`` with the sign of ``sign``: both floats of one dtype and shape. Bits choose, so that derivatives pass."""
    return emit("select", emit("xor", _is_negative(x), _is_negative(sign)), emit("negate", x), x)


def size_of_number(x: Tracer) -> Tracer:
    """``x`` without its sign. Unlike that of ``abs``, its derivative times the sign's is 1 at zeros too."""
    return emit("select", _is_negative(x), emit("negate", x), x)


@public
def signbit(x: ArrayLike, /) -> Array:
    """Mark the elements whose sign is negative, those of -0.0 and NaN too.

    Args:
        x: array of any real dtype.

    Returns:
        An array of booleans, of the shape of ``x``.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
    """
    (value,) = promote("signbit", x)
    if value.element_type.is_float:
        return _is_negative(value)
    if value.element_type.kind is Kind.BOOL:
        return emit("compare", value, value, direction="NE")
    return flag("LT", value, 0)


@public
def copysign(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Absolute value of ``x`` with the sign of ``y``, element by element.

    Args:
        x: array of any real dtype.
        y: array of any real dtype that broadcasts with ``x``; its -0.0 and NaN have signs too.

    Returns:
        An array of the shape that both broadcast to, in their common dtype; of integers and booleans in the default
        float dtype.

    Raises:
        UnsupportedOpError: if one of them is complex.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    a, b = align("copysign", real_float("copysign", x, y))
    return with_sign(a, b)


@public
def nextafter(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The next float after ``x`` towards ``y``, element by element.

    Args:
        x: array of any real dtype.
        y: array of any real dtype that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype; of integers and booleans in the default
        float dtype. ``y`` where both are equal, NaN where either is.

    Raises:
        UnsupportedOpError: if one of them is complex.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    a, b = align("nextafter", real_float("nextafter", x, y))
    bits = pattern(a)
    # A step away from zero adds 1 to the bits, on either side; from zero it is the smallest number there is.
    away = emit("xor", emit("compare", b, a, direction="GT"), _is_negative(a))
    step = emit("select", away, filled(bits, 1), filled(bits, -1))
    following = emit("add", bits, step)
    if a.element_type.floating.special is Special.NAN_AT_MINUS_ZERO:  # 0 follows the greatest negative number
        nan = flag("EQ", following, -(1 << (a.element_type.bits - 1)))
        following = emit("select", nan, filled(bits, 0), following)
    moved = emit("bitcast_convert", following, dtype=a.element_type)
    least = emit("bitcast_convert", filled(bits, 1), dtype=a.element_type)
    result = emit("select", flag("EQ", a, 0), with_sign(least, b), moved)
    result = emit("select", emit("compare", a, b, direction="EQ"), b, result)
    ordered = emit("and", *(emit("compare", v, v, direction="EQ") for v in (a, b)))
    return emit("select", ordered, result, emit("add", a, b))
