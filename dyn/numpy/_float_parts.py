"""Parts of floats: fractions and exponents, the distance to the next one."""

from __future__ import annotations

from typing import Any

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import UnsupportedOpError
from dyn.numpy._bits import with_sign
from dyn.numpy._broadcast import align
from dyn.numpy._operands import cast, emit, promote
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._unary import filled, flag, real_float, trunc
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = ["frexp", "ldexp", "modf", "spacing"]


#: Integers of the width of what is computed with.
_PATTERNS = {dtypes.float32: dtypes.int32, dtypes.float64: dtypes.int64}


def _exponent(x: Tracer) -> Tracer:
    """The least e with ``|x| < 2**e``, as integers of the width of ``x``; 0 of 0 and of what is not finite."""
    layout = x.element_type.floating
    shift = float(layout.fraction + 1)
    tiny = flag("LT", emit("abs", x), 2.0 ** (1 - layout.bias))
    normal = emit("select", tiny, emit("multiply", x, filled(x, 2.0**shift)), x)
    bits = emit("bitcast_convert", normal, dtype=_PATTERNS[x.element_type])
    stored = emit("shift_right_logical", bits, filled(bits, layout.fraction))
    stored = emit("and", stored, filled(bits, 2 * layout.bias + 1))
    less = emit("select", tiny, filled(bits, layout.bias - 1 + int(shift)), filled(bits, layout.bias - 1))
    ordinary = emit("and", emit("is_finite", x), flag("NE", x, 0.0))
    return emit("select", ordinary, emit("subtract", stored, less), filled(bits, 0))


def _power_of_two(exponent: Tracer, dtype: DType) -> Tracer:
    """``2.0**exponent``, which has to be a normal number of the dtype."""
    layout, whole = dtype.floating, cast(exponent, _PATTERNS[dtype])
    stored = emit("add", whole, filled(whole, layout.bias))
    return emit("bitcast_convert", emit("shift_left", stored, filled(stored, layout.fraction)), dtype=dtype)


def _scaled(x: Tracer, exponent: Tracer) -> Tracer:
    """``x * 2**exponent`` in two steps, the first of which is exact where the result is no smaller than ``x``'s own."""
    half = emit("shift_right_arithmetic", exponent, filled(exponent, 1))
    rest = emit("subtract", exponent, half)
    once = emit("multiply", x, _power_of_two(half, x.element_type))
    return emit("multiply", once, _power_of_two(rest, x.element_type))


def _parts(x: Tracer) -> tuple[Tracer, Tracer]:
    exponent = _exponent(x)
    return _scaled(x, emit("negate", exponent)), exponent


def _wide(x: Tracer) -> Tracer:
    return cast(x, x.element_type.wide)


@public
def frexp(x: ArrayLike, /) -> tuple[Array, Array]:
    """Split numbers into fractions and exponents of 2: ``x == fraction * 2**exponent``, with 0.5 <= abs(fraction) < 1.

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        The fractions, of the shape and dtype of ``x`` (integers and booleans: the default float dtype), and the
        exponents, of int32. Of 0, infinity and NaN the fraction is the number itself, the exponent 0.

    Raises:
        UnsupportedOpError: if ``x`` is complex.

    Example:
        >>> dnp.frexp(np.array([8.0, 0.0]))
        (array([0.5, 0. ]), array([4, 0], dtype=int32))
    """
    (value,) = real_float("frexp", x)
    fraction, exponent = _parts(_wide(value))
    return cast(fraction, value.element_type), cast(exponent, dtypes.int32)


@public
def ldexp(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x * 2**y``, element by element, without overflow in between: the inverse of :func:`frexp`.

    Args:
        x: array of any real dtype.
        y: array of integers or booleans that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in the dtype of ``x``; of integers and booleans in the default
        float dtype.

    Raises:
        UnsupportedOpError: if ``x`` is complex, or ``y`` not of integers.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.

    Example:
        >>> dnp.ldexp(np.array([0.5, 3.0]), np.array([4, -1]))
        array([8. , 1.5])
    """
    (value,) = real_float("ldexp", x)
    (steps,) = promote("ldexp", y)
    if not steps.element_type.is_integer and steps.element_type.kind is not Kind.BOOL:
        raise UnsupportedOpError(
            f"ldexp takes integers for exponents, not {steps.element_type.name}.",
            loc=user_loc(),
            remedy="convert them with .astype('int32').",
        )
    element = value.element_type
    wide, steps = align("ldexp", [_wide(value), cast(steps, dtypes.int64)])
    fraction, exponent = _parts(wide)
    layout = wide.element_type.floating
    # What is far out of range is zero or infinite all the same; the sum of the two cannot overflow then.
    most = 4 * layout.bias
    near = emit("minimum", emit("maximum", steps, filled(steps, -most)), filled(steps, most))
    target = emit("add", cast(exponent, dtypes.int64), near)
    limit = layout.bias + layout.fraction + 4
    target = emit("minimum", emit("maximum", target, filled(target, -limit)), filled(target, limit))
    return cast(_scaled(fraction, target), element)


@public
def modf(x: ArrayLike, /) -> tuple[Array, Array]:
    """Split numbers into the part behind the point and the whole part, both with the sign of ``x``.

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        Two arrays of the shape of ``x``: the fractions, ±0 of infinities, and the whole parts; in its dtype, of
        integers and booleans in the default float dtype.

    Raises:
        UnsupportedOpError: if ``x`` is complex.

    Example:
        >>> dnp.modf(np.array([-1.5, 2.0]))
        (array([-0.5,  0. ]), array([-1.,  2.]))
    """
    (value,) = real_float("modf", x)
    whole = trunc(value)
    infinite = flag("EQ", emit("abs", value), float("inf"))
    rest = emit("remainder", value, filled(value, 1.0))
    return emit("select", infinite, with_sign(filled(value, 0.0), value), rest), _signed_zero(whole, value)


def _signed_zero(whole: Tracer, x: Tracer) -> Tracer:
    """``whole`` with the sign of ``x`` where it is 0."""
    return emit("select", flag("EQ", whole, 0.0), with_sign(filled(x, 0.0), x), whole)


@public
def spacing(x: ArrayLike, /) -> Array:
    """Distance to the next number of the dtype away from 0, with the sign of ``x``.

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype. NaN of
        infinities and NaN; the least number there is of 0.

    Raises:
        UnsupportedOpError: if ``x`` is complex.

    Example:
        >>> dnp.spacing(np.array([1.0, 0.0]))
        array([2.22044605e-016, 4.94065646e-324])
    """
    (value,) = real_float("spacing", x)
    wide = _wide(value)
    digits, least = value.element_type.floating.digits, value.element_type.floating.least
    exponent = emit("subtract", _exponent(wide), filled(_exponent(wide), digits))
    exponent = emit("maximum", exponent, filled(exponent, least))
    exponent = emit("select", flag("EQ", wide, 0.0), filled(exponent, least), exponent)
    size: Any = _scaled(filled(wide, 1.0), exponent)
    distance = emit("select", flag("EQ", wide, 0.0), size, with_sign(size, wide))
    return cast(emit("select", emit("is_finite", wide), distance, filled(wide, float("nan"))), value.element_type)
