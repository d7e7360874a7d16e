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
from dyn.numpy._broadcast import align, elementwise
from dyn.numpy._inverse import far_log, real_asinh
from dyn.numpy._operands import emit, promote, to_float
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._unary import composed, filled, flag, real_float
from dyn.trace.tracer import Tracer

__all__ = [
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin", "asinh", "atan",
    "atan2", "atanh", "cos", "cosh", "deg2rad", "degrees", "rad2deg", "radians", "sin", "sinh", "tan", "tanh",
]  # fmt: skip


def _float(name: str, what: str, x: ArrayLike) -> Tracer:
    return elementwise(name, what, x, choose=to_float)


def _scaled(x: Tracer, factor: float) -> Tracer:
    return emit("multiply", x, filled(x, factor))


def _plus(x: Tracer, y: float) -> Tracer:
    return emit("add", x, filled(x, y))


@public
def sin(x: ArrayLike, /) -> Array:
    """The sine of radians."""
    return _float("sine", "sin", x)


@public
def cos(x: ArrayLike, /) -> Array:
    """The cosine of radians."""
    return _float("cosine", "cos", x)


@public
def tan(x: ArrayLike, /) -> Array:
    """The tangent of radians."""
    return _float("tan", "tan", x)


@public
def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent."""
    return _float("tanh", "tanh", x)


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
    """The hyperbolic sine."""
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
    """The hyperbolic cosine."""
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
    """The angle in [-pi/2, pi/2] whose sine is ``x``; NaN outside of [-1, 1]."""
    return _inverse("arcsin", x, lambda v: emit("atan2", v, _leg(v)), _inverse_functions.asin)


@public
def arccos(x: ArrayLike, /) -> Array:
    """The angle in [0, pi] whose cosine is ``x``; NaN outside of [-1, 1]."""
    return _inverse("arccos", x, lambda v: emit("atan2", _leg(v), v), _inverse_functions.acos)


@public
def arctan(x: ArrayLike, /) -> Array:
    """The angle in [-pi/2, pi/2] whose tangent is ``x``."""
    return _inverse("arctan", x, lambda v: emit("atan2", v, filled(v, 1.0)), _inverse_functions.atan)


@public
def arctan2(y: ArrayLike, x: ArrayLike, /) -> Array:
    """The angle of the point (``x``, ``y``) from the first axis, in [-pi, pi]."""
    return emit("atan2", *align("arctan2", real_float("arctan2", y, x)))


@public
def arcsinh(x: ArrayLike, /) -> Array:
    """The number whose hyperbolic sine is ``x``."""
    return _inverse("arcsinh", x, real_asinh, _inverse_functions.asinh)


@public
def arccosh(x: ArrayLike, /) -> Array:
    """The number, not negative, whose hyperbolic cosine is ``x``; NaN below 1."""

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
    """The number whose hyperbolic tangent is ``x``; infinite at -1 and 1, NaN beyond."""

    def formula(v: Tracer) -> Tracer:
        size = size_of_number(v)
        ratio = emit("divide", emit("add", size, size), emit("subtract", filled(v, 1.0), size))
        return with_sign(_scaled(emit("log_plus_one", ratio), 0.5), v)

    return _inverse("arctanh", x, formula, _inverse_functions.atanh)


asin, acos, atan, atan2 = arcsin, arccos, arctan, arctan2
asinh, acosh, atanh = arcsinh, arccosh, arctanh


@public
def deg2rad(x: ArrayLike, /) -> Array:
    """Degrees as radians."""
    (value,) = promote("deg2rad", x, choose=to_float)
    return _scaled(value, math.pi / 180)


@public
def rad2deg(x: ArrayLike, /) -> Array:
    """Radians as degrees."""
    (value,) = promote("rad2deg", x, choose=to_float)
    return _scaled(value, 180 / math.pi)


radians = deg2rad
degrees = rad2deg
