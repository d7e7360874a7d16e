"""Trigonometry and hyperbolas: what the ops have, and what is made of them.

The formulas are precise near 0 and at the ends of their ranges (W. Kahan, "Branch cuts for complex elementary
functions", 1987). Bounds are in ``docs/numerics.md``.
"""

from __future__ import annotations

import math

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import NotYetError
from dyn.numpy._bits import with_sign
from dyn.numpy._broadcast import align, elementwise
from dyn.numpy._operands import emit, promote, to_float
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._unary import composed, filled, flag, real_float
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = [
    "acos", "acosh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "asin", "asinh", "atan",
    "atan2", "atanh", "cos", "cosh", "deg2rad", "degrees", "rad2deg", "radians", "sin", "sinh", "tan", "tanh",
]  # fmt: skip

_LN2 = math.log(2.0)


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


def _large(x: Tracer, size: Tracer) -> tuple[Tracer, Tracer]:
    """Where ``exp(size)`` may overflow and half of it may not, and that half, from the root."""
    root = emit("exponential", _scaled(size, 0.5))
    limit = 700.0 if x.element_type is dtypes.float64 else 80.0
    return flag("GT", size, limit), emit("multiply", _scaled(root, 0.5), root)


@public
def sinh(x: ArrayLike, /) -> Array:
    """The hyperbolic sine."""
    (value,) = promote("sinh", x, choose=to_float)
    if value.element_type.kind is Kind.COMPLEX:
        w = emit("sine", _turned(value))
        return emit("complex", emit("imag", w), emit("negate", emit("real", w)))

    def formula(v: Tracer) -> Tracer:
        # With t = exp(|x|) - 1 it is (t + t / (t + 1)) / 2: precise near 0.
        size = emit("abs", v)
        t = emit("exponential_minus_one", size)
        half = _scaled(emit("add", t, emit("divide", t, _plus(t, 1.0))), 0.5)
        return with_sign(emit("select", *_large(v, size), half), v)

    return composed(formula, value)


@public
def cosh(x: ArrayLike, /) -> Array:
    """The hyperbolic cosine."""
    (value,) = promote("cosh", x, choose=to_float)
    if value.element_type.kind is Kind.COMPLEX:
        return emit("cosine", _turned(value))

    def formula(v: Tracer) -> Tracer:
        size = emit("abs", v)
        up = emit("exponential", size)
        half = emit("add", _scaled(up, 0.5), emit("divide", filled(v, 0.5), up))
        return emit("select", *_large(v, size), half)

    return composed(formula, value)


# ---- angles ----------------------------------------------------------------------------------------------------------


def _real_operand(what: str, x: ArrayLike) -> Tracer:
    (value,) = promote(what, x, choose=to_float)
    if value.element_type.kind is Kind.COMPLEX:
        raise NotYetError(f"{what} of complex arrays comes later.", loc=user_loc())
    return value


def _leg(x: Tracer) -> Tracer:
    """``sqrt(1 - x*x)``, precise near 1, and NaN beyond."""
    one = filled(x, 1.0)
    return emit("sqrt", emit("multiply", emit("subtract", one, x), emit("add", one, x)))


@public
def arcsin(x: ArrayLike, /) -> Array:
    """The angle in [-pi/2, pi/2] whose sine is ``x``; NaN outside of [-1, 1]."""
    return composed(lambda v: emit("atan2", v, _leg(v)), _real_operand("arcsin", x))


@public
def arccos(x: ArrayLike, /) -> Array:
    """The angle in [0, pi] whose cosine is ``x``; NaN outside of [-1, 1]."""
    return composed(lambda v: emit("atan2", _leg(v), v), _real_operand("arccos", x))


@public
def arctan(x: ArrayLike, /) -> Array:
    """The angle in [-pi/2, pi/2] whose tangent is ``x``."""
    value = _real_operand("arctan", x)
    return emit("atan2", value, filled(value, 1.0))


@public
def arctan2(y: ArrayLike, x: ArrayLike, /) -> Array:
    """The angle of the point (``x``, ``y``) from the first axis, in [-pi, pi]."""
    return emit("atan2", *align("arctan2", real_float("arctan2", y, x)))


@public
def arcsinh(x: ArrayLike, /) -> Array:
    """The number whose hyperbolic sine is ``x``."""

    def formula(v: Tracer) -> Tracer:
        size = emit("abs", v)
        large = flag("GT", size, 1e10)  # then the square of 1 / x is below every precision
        part = emit("select", large, filled(v, 0.0), size)
        square = emit("multiply", part, part)
        root = _plus(emit("sqrt", _plus(square, 1.0)), 1.0)
        near = emit("log_plus_one", emit("add", part, emit("divide", square, root)))
        return with_sign(emit("select", large, _plus(emit("log", size), _LN2), near), v)

    return composed(formula, _real_operand("arcsinh", x))


@public
def arccosh(x: ArrayLike, /) -> Array:
    """The number, not negative, whose hyperbolic cosine is ``x``; NaN below 1."""

    def formula(v: Tracer) -> Tracer:
        large = flag("GT", v, 1e10)
        t = _plus(emit("select", large, filled(v, 1.0), v), -1.0)
        root = emit("sqrt", emit("multiply", t, _plus(t, 2.0)))
        near = emit("log_plus_one", emit("add", t, root))
        result = emit("select", large, _plus(emit("log", v), _LN2), near)
        return emit("select", flag("LT", v, 1.0), filled(v, math.nan), result)

    return composed(formula, _real_operand("arccosh", x))


@public
def arctanh(x: ArrayLike, /) -> Array:
    """The number whose hyperbolic tangent is ``x``; infinite at -1 and 1, NaN beyond."""

    def formula(v: Tracer) -> Tracer:
        size = emit("abs", v)
        ratio = emit("divide", emit("add", size, size), emit("subtract", filled(v, 1.0), size))
        return with_sign(_scaled(emit("log_plus_one", ratio), 0.5), v)

    return composed(formula, _real_operand("arctanh", x))


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
