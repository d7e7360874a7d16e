"""Trigonometry and hyperbolas: what the ops have, and what is made of them.

The formulas are precise near 0 and at the ends of their ranges (W. Kahan, "Branch cuts for complex elementary
functions", 1987). Bounds are in ``docs/numerics.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dyn.dtypes import Kind
from dyn.numpy import _inverse as _inverse_functions
from dyn.numpy._broadcast import align
from dyn.numpy._operands import emit, promote, to_float
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._unary import filled, one_op, real_float
from dyn.trace.tracer import Tracer

__all__ = [
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin", "asinh", "atan",
    "atan2", "atanh", "cos", "cosh", "deg2rad", "degrees", "rad2deg", "radians", "sin", "sinh", "tan", "tanh",
]  # fmt: skip


def _scaled(x: Tracer, factor: float) -> Tracer:
    return emit("multiply", x, filled(x, factor))


sin = one_op(
    __name__, "sin", "sine", "Sine of angles in radians, element by element: NaN of infinities.",
    example=">>> dnp.sin(np.array([0.0, 1.0]))\narray([0.        , 0.84147098])",
)  # fmt: skip
cos = one_op(
    __name__, "cos", "cosine", "Cosine of angles in radians, element by element: NaN of infinities.",
    example=">>> dnp.cos(np.array([0.0, 1.0]))\narray([1.        , 0.54030231])",
)  # fmt: skip
tan = one_op(
    __name__, "tan", "tan", "Tangent of angles in radians, element by element: NaN of infinities.",
    example=">>> dnp.tan(np.array([0.0, 1.0]))\narray([0.        , 1.55740772])",
)  # fmt: skip
tanh = one_op(
    __name__, "tanh", "tanh", "Hyperbolic tangent, element by element, between -1 and 1.",
    example=">>> dnp.tanh(np.array([0.0, 1.0]))\narray([0.        , 0.76159416])",
)  # fmt: skip


# ---- hyperbolas ------------------------------------------------------------------------------------------------------


def _turned(z: Tracer) -> Tracer:
    """``i * z``"""
    return emit("complex", emit("negate", emit("imag", z)), emit("real", z))


@public
def sinh(x: ArrayLike, /) -> Array:
    """Hyperbolic sine, element by element, precise near 0 too: infinite where it overflows.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Example:
        >>> dnp.sinh(np.array([0.0, 1.0]))
        array([0.        , 1.17520119])
    """
    (value,) = promote("sinh", x, choose=to_float)
    if value.element_type.kind is Kind.COMPLEX:
        w = emit("sine", _turned(value))
        return emit("complex", emit("imag", w), emit("negate", emit("real", w)))
    return emit("sinh", value)


@public
def cosh(x: ArrayLike, /) -> Array:
    """Hyperbolic cosine, element by element: infinite where it overflows.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Example:
        >>> dnp.cosh(np.array([0.0, 1.0]))
        array([1.        , 1.54308063])
    """
    (value,) = promote("cosh", x, choose=to_float)
    if value.element_type.kind is Kind.COMPLEX:
        return emit("cosine", _turned(value))
    return emit("cosh", value)


# ---- angles ----------------------------------------------------------------------------------------------------------


def _inverse(what: str, op: str, x: ArrayLike, of_complex: Callable[[Tracer], Tracer]) -> Tracer:
    (value,) = promote(what, x, choose=to_float)
    return of_complex(value) if value.element_type.kind is Kind.COMPLEX else emit(op, value)


@public
def arcsin(x: ArrayLike, /) -> Array:
    """Angle in [-pi/2, pi/2] whose sine is ``x``, element by element.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype. NaN of real
        numbers outside of [-1, 1].

    Example:
        >>> dnp.arcsin(np.array([0.5, 1.0]))
        array([0.52359878, 1.57079633])
    """
    return _inverse("arcsin", "asin", x, _inverse_functions.asin)


@public
def arccos(x: ArrayLike, /) -> Array:
    """Angle in [0, pi] whose cosine is ``x``, element by element.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype. NaN of real
        numbers outside of [-1, 1].

    Example:
        >>> dnp.arccos(np.array([0.5, 1.0]))
        array([1.04719755, 0.        ])
    """
    return _inverse("arccos", "acos", x, _inverse_functions.acos)


@public
def arctan(x: ArrayLike, /) -> Array:
    """Angle in [-pi/2, pi/2] whose tangent is ``x``, element by element.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Example:
        >>> dnp.arctan(np.array([1.0, np.inf]))
        array([0.78539816, 1.57079633])
    """
    return _inverse("arctan", "atan", x, _inverse_functions.atan)


@public
def arctan2(y: ArrayLike, x: ArrayLike, /) -> Array:
    """Angle of the point (``x``, ``y``) from the first axis, element by element.

    Args:
        y: array of any real dtype: second coordinates.
        x: array of any real dtype that broadcasts with ``y``: first coordinates.

    Returns:
        An array of the shape that both broadcast to, in [-pi, pi], in their common dtype; of integers and booleans in
        the default float dtype. The signs of zeros count, as in C.

    Raises:
        UnsupportedOpError: if one of them is complex.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.

    Example:
        >>> dnp.arctan2(np.array([1.0, -1.0]), np.array([1.0, -1.0]))
        array([ 0.78539816, -2.35619449])
    """
    return emit("atan2", *align("arctan2", real_float("arctan2", y, x)))


@public
def arcsinh(x: ArrayLike, /) -> Array:
    """Inverse of the hyperbolic sine, element by element, precise near 0 too.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Example:
        >>> dnp.arcsinh(np.array([0.0, 1.0]))
        array([0.        , 0.88137359])
    """
    return _inverse("arcsinh", "asinh", x, _inverse_functions.asinh)


@public
def arccosh(x: ArrayLike, /) -> Array:
    """Inverse of the hyperbolic cosine, element by element, the one that is not negative.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype. NaN of real
        numbers below 1.

    Example:
        >>> dnp.arccosh(np.array([1.0, 2.0]))
        array([0.       , 1.3169579])
    """
    return _inverse("arccosh", "acosh", x, _inverse_functions.acosh)


@public
def arctanh(x: ArrayLike, /) -> Array:
    """Inverse of the hyperbolic tangent, element by element.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype. Of real
        numbers infinite at -1 and 1, and NaN beyond.

    Example:
        >>> dnp.arctanh(np.array([0.0, 0.5]))
        array([0.        , 0.54930614])
    """
    return _inverse("arctanh", "atanh", x, _inverse_functions.atanh)


asin, acos, atan, atan2 = arcsin, arccos, arctan, arctan2
asinh, acosh, atanh = arcsinh, arccosh, arctanh


@public
def deg2rad(x: ArrayLike, /) -> Array:
    """Degrees as radians, element by element: ``x * (pi / 180)``.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Example:
        >>> dnp.deg2rad(np.array([180.0]))
        array([3.14159265])
    """
    (value,) = promote("deg2rad", x, choose=to_float)
    return _scaled(value, math.pi / 180)


@public
def rad2deg(x: ArrayLike, /) -> Array:
    """Radians as degrees, element by element: ``x * (180 / pi)``.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Example:
        >>> dnp.rad2deg(np.array([np.pi]))
        array([180.])
    """
    (value,) = promote("rad2deg", x, choose=to_float)
    return _scaled(value, 180 / math.pi)


radians = deg2rad
degrees = rad2deg
