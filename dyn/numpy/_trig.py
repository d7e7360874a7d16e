"""Trigonometry and hyperbolas: what the ops have, and what is made of them.

The formulas are precise near 0 and at the ends of their ranges (W. Kahan, "Branch cuts for complex elementary
functions", 1987). Bounds are in ``docs/numerics.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.numpy import _inverse as _inverse_functions
from dyn.numpy._bits import size_of_number, with_sign
from dyn.numpy._broadcast import align
from dyn.numpy._inverse import far_log, real_asinh
from dyn.numpy._operands import emit, promote, to_float
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._unary import composed, filled, flag, one_op, real_float
from dyn.trace.tracer import Tracer

__all__ = [
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin", "asinh", "atan",
    "atan2", "atanh", "cos", "cosh", "deg2rad", "degrees", "rad2deg", "radians", "sin", "sinh", "tan", "tanh",
]  # fmt: skip


def _scaled(x: Tracer, factor: float) -> Tracer:
    return emit("multiply", x, filled(x, factor))


def _plus(x: Tracer, y: float) -> Tracer:
    return emit("add", x, filled(x, y))


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


def _large(size: Tracer) -> tuple[Tracer, Tracer, Tracer]:
    """Mark where ``exp(size)`` may overflow and half of it may not; that half, from the root; and the sizes elsewhere.

    Where nobody takes what is made of those they are 0, and its derivative is finite.
    """
    root = emit("exponential", _scaled(size, 0.5))
    large = flag("GT", size, 700.0 if size.element_type is dtypes.float64 else 80.0)
    return large, emit("multiply", _scaled(root, 0.5), root), emit("select", large, filled(size, 0.0), size)


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

    def formula(v: Tracer) -> Tracer:
        # With t = exp(|x|) - 1 it is (t + t / (t + 1)) / 2: precise near 0.
        large, far, size = _large(size_of_number(v))
        t = emit("exponential_minus_one", size)
        half = _scaled(emit("add", t, emit("divide", t, _plus(t, 1.0))), 0.5)
        return with_sign(emit("select", large, far, half), v)

    return composed(formula, value)


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

    def formula(v: Tracer) -> Tracer:
        large, far, size = _large(emit("abs", v))
        up = emit("exponential", size)
        half = emit("add", _scaled(up, 0.5), emit("divide", filled(v, 0.5), up))
        return emit("select", large, far, half)

    return composed(formula, value)


# ---- angles ----------------------------------------------------------------------------------------------------------


def _inverse(
    what: str, x: ArrayLike, of_real: Callable[[Tracer], Tracer], of_complex: Callable[[Tracer], Tracer]
) -> Tracer:
    (value,) = promote(what, x, choose=to_float)
    return of_complex(value) if value.element_type.kind is Kind.COMPLEX else composed(of_real, value)


def _leg(x: Tracer) -> Tracer:
    """``sqrt(1 - x*x)``, precise near 1, and NaN beyond."""
    one = filled(x, 1.0)
    return emit("sqrt", emit("multiply", emit("subtract", one, x), emit("add", one, x)))


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
    return _inverse("arcsin", x, lambda v: emit("atan2", v, _leg(v)), _inverse_functions.asin)


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
    return _inverse("arccos", x, lambda v: emit("atan2", _leg(v), v), _inverse_functions.acos)


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
    return _inverse("arctan", x, lambda v: emit("atan2", v, filled(v, 1.0)), _inverse_functions.atan)


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
    return _inverse("arcsinh", x, real_asinh, _inverse_functions.asinh)


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

    def formula(v: Tracer) -> Tracer:
        large = flag("GT", v, 1e10)
        t = _plus(emit("select", large, filled(v, 2.0), v), -1.0)
        root = emit("sqrt", emit("multiply", t, _plus(t, 2.0)))
        near = emit("log_plus_one", emit("add", t, root))
        result = emit("select", large, far_log(v, large), near)
        return emit("select", flag("LT", v, 1.0), filled(v, math.nan), result)

    return _inverse("arccosh", x, formula, _inverse_functions.acosh)


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

    def formula(v: Tracer) -> Tracer:
        size = size_of_number(v)
        ratio = emit("divide", emit("add", size, size), emit("subtract", filled(v, 1.0), size))
        return with_sign(_scaled(emit("log_plus_one", ratio), 0.5), v)

    return _inverse("arctanh", x, formula, _inverse_functions.atanh)


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
