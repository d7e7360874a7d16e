"""Shifts, counts of bits, and what is made of a float's bits: its sign, its neighbours."""

from __future__ import annotations

from dyn import dtypes
from dyn.dtypes import Kind
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

_PATTERNS = {16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}


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
    """``x << y`` of integers. By as many bits as there are or more, or less than 0, it is 0."""
    return emit("shift_left", *_integers("left_shift", x, y))


@public
def right_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x >> y`` of integers, rounded down. By as many bits as there are or more, or less than 0, it is 0 or -1."""
    a, b = _integers("right_shift", x, y)
    signed = a.element_type.kind is Kind.INT
    return emit("shift_right_arithmetic" if signed else "shift_right_logical", a, b)


bitwise_left_shift = left_shift
bitwise_right_shift = right_shift


@public
def bitwise_count(x: ArrayLike, /) -> Array:
    """How many bits of the absolute value are set, as uint8."""
    (value,) = _integers("bitwise_count", x)
    if value.element_type.kind is Kind.INT:
        value = emit("abs", value)
    return cast(emit("popcnt", value), dtypes.uint8)


# ---- floats ----------------------------------------------------------------------------------------------------------


def pattern(x: Tracer) -> Tracer:
    """The bits of a float as a signed integer."""
    return emit("bitcast_convert", x, dtype=_PATTERNS[x.element_type.bits])


def _is_negative(x: Tracer) -> Tracer:
    return flag("LT", pattern(x), 0)


def with_sign(x: Tracer, sign: Tracer) -> Tracer:
    """``x`` with the sign of ``sign``: both floats of one dtype and shape. Bits choose, so that derivatives pass."""
    return emit("select", emit("xor", _is_negative(x), _is_negative(sign)), emit("negate", x), x)


def size_of_number(x: Tracer) -> Tracer:
    """``x`` without its sign. Unlike that of ``abs``, its derivative times the sign's is 1 at zeros too."""
    return emit("select", _is_negative(x), emit("negate", x), x)


@public
def signbit(x: ArrayLike, /) -> Array:
    """Tell whether the sign is negative, of -0.0 and NaN too."""
    (value,) = promote("signbit", x)
    if value.element_type.is_float:
        return flag("LT", pattern(value), 0)
    if value.element_type.kind is Kind.BOOL:
        return emit("compare", value, value, direction="NE")
    return flag("LT", value, 0)


@public
def copysign(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The size of ``x`` with the sign of ``y``, as a float."""
    a, b = align("copysign", real_float("copysign", x, y))
    return with_sign(a, b)


@public
def nextafter(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The next float after ``x`` towards ``y``; ``y`` where they are equal, NaN where either is."""
    a, b = align("nextafter", real_float("nextafter", x, y))
    bits = pattern(a)
    # A step away from zero adds 1 to the bits, on either side; from zero it is the smallest number there is.
    away = emit("compare", emit("compare", b, a, direction="GT"), flag("GT", a, 0), direction="EQ")
    step = emit("select", away, filled(bits, 1), filled(bits, -1))
    moved = emit("bitcast_convert", emit("add", bits, step), dtype=a.element_type)
    least = emit("bitcast_convert", filled(bits, 1), dtype=a.element_type)
    result = emit("select", flag("EQ", a, 0), with_sign(least, b), moved)
    result = emit("select", emit("compare", a, b, direction="EQ"), b, result)
    ordered = emit("and", *(emit("compare", v, v, direction="EQ") for v in (a, b)))
    return emit("select", ordered, result, emit("add", a, b))
