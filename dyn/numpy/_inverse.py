"""The inverse functions of sines and hyperbolas, of complex numbers.

W. Kahan, "Branch cuts for complex elementary functions", 1987; special values and cuts are those of C99, annex G.
A zero's sign says on which side of a cut a number is, so that parts are put together and never subtracted.
"""

from __future__ import annotations

import math

from dyn.numpy._bits import size_of_number, with_sign
from dyn.numpy._operands import emit
from dyn.numpy._unary import filled, flag
from dyn.trace.tracer import Tracer

_LN2 = math.log(2.0)

__all__ = ["acos", "acosh", "asin", "asinh", "atan", "atanh"]


def _parts(z: Tracer) -> tuple[Tracer, Tracer]:
    return emit("real", z), emit("imag", z)


def _plus(x: Tracer, y: float) -> Tracer:
    return emit("add", x, filled(x, y))


def far_log(size: Tracer, large: Tracer) -> Tracer:
    """``log(2 * size)`` where that is large; elsewhere, where nobody takes it, a number with a finite derivative."""
    return _plus(emit("log", emit("select", large, size, filled(size, 1.0))), _LN2)


def real_asinh(v: Tracer) -> Tracer:
    """The number whose hyperbolic sine is ``v``, a real one."""
    size = size_of_number(v)
    large = flag("GT", size, 1e10)  # then the square of 1 / x is below every precision
    part = emit("select", large, filled(v, 0.0), size)
    square = emit("multiply", part, part)
    root = _plus(emit("sqrt", _plus(square, 1.0)), 1.0)
    near = emit("log_plus_one", emit("add", part, emit("divide", square, root)))
    return with_sign(emit("select", large, far_log(size, large), near), v)


def _times(x: Tracer, y: Tracer) -> Tracer:
    return emit("multiply", x, y)


def _roots(x: Tracer, y: Tracer) -> tuple[Tracer, Tracer, Tracer, Tracer]:
    """The parts of ``sqrt(1 - z)`` and of ``sqrt(1 + z)``."""
    below = emit("complex", emit("subtract", filled(x, 1.0), x), emit("negate", y))
    above = emit("complex", _plus(x, 1.0), y)
    return *_parts(emit("sqrt", below)), *_parts(emit("sqrt", above))


def _endless(x: Tracer, y: Tracer) -> Tracer:
    return emit("or", *(flag("EQ", emit("abs", part), math.inf) for part in (x, y)))


def _lost(x: Tracer, y: Tracer) -> Tracer:
    """Mark where the real part is a zero, and the imaginary part is NaN."""
    return emit("and", flag("EQ", x, 0.0), emit("compare", y, y, direction="NE"))


def _acos_parts(z: Tracer) -> tuple[Tracer, Tracer]:
    x, y = _parts(z)
    a, b, c, d = _roots(x, y)
    angle = emit("atan2", a, c)
    endless = _endless(x, y)
    real = emit("select", endless, emit("atan2", emit("abs", y), x), emit("add", angle, angle))
    real = emit("select", _lost(x, y), filled(x, math.pi / 2), real)
    imag = real_asinh(emit("subtract", _times(c, b), _times(d, a)))
    return real, emit("select", endless, emit("negate", with_sign(filled(x, math.inf), y)), imag)


def _asin_parts(x: Tracer, y: Tracer) -> tuple[Tracer, Tracer]:
    a, b, c, d = _roots(x, y)
    endless = _endless(x, y)
    real = emit("atan2", x, emit("subtract", _times(a, c), _times(b, d)))
    real = emit("select", endless, emit("atan2", x, emit("abs", y)), real)
    real = emit("select", _lost(x, y), x, real)
    imag = real_asinh(emit("subtract", _times(a, d), _times(b, c)))
    return real, emit("select", endless, with_sign(filled(x, math.inf), y), imag)


def _atanh_parts(x: Tracer, y: Tracer) -> tuple[Tracer, Tracer]:
    """A quarter of ``log1p(4x / ((1 - x)**2 + y**2))``, and half of the angle of ``(1 - x)(1 + x) - y**2 + 2yi``."""
    size = size_of_number(x)
    rest, square = emit("subtract", filled(x, 1.0), size), _times(y, y)
    share = emit("divide", _times(size, filled(x, 4.0)), emit("add", _times(rest, rest), square))
    quarter = _times(emit("log_plus_one", share), filled(x, 0.25))
    angle = emit("atan2", emit("add", y, y), emit("subtract", _times(rest, _plus(size, 1.0)), square))
    endless = _endless(x, y)
    nothing = emit("or", endless, _lost(x, y))
    real = with_sign(emit("select", nothing, filled(x, 0.0), quarter), x)
    straight = emit("and", endless, emit("compare", y, y, direction="EQ"))
    half = _times(angle, filled(x, 0.5))
    return real, emit("select", straight, with_sign(filled(x, math.pi / 2), y), half)


def acos(z: Tracer) -> Tracer:
    """The principal inverse of the cosine; cut along the real axis outside of [-1, 1]."""
    return emit("complex", *_acos_parts(z))


def acosh(z: Tracer) -> Tracer:
    """The principal inverse of the hyperbolic cosine, whose real part is not negative; cut below 1."""
    real, imag = _acos_parts(z)
    return emit("complex", size_of_number(imag), with_sign(real, emit("imag", z)))


def asin(z: Tracer) -> Tracer:
    """The principal inverse of the sine; cut along the real axis outside of [-1, 1]."""
    return emit("complex", *_asin_parts(*_parts(z)))


def asinh(z: Tracer) -> Tracer:
    """``-i asin(iz)``; cut along the imaginary axis outside of [-i, i]."""
    x, y = _parts(z)
    real, imag = _asin_parts(emit("negate", y), x)
    return emit("complex", imag, emit("negate", real))


def atanh(z: Tracer) -> Tracer:
    """The principal inverse of the hyperbolic tangent; cut along the real axis outside of [-1, 1]."""
    return emit("complex", *_atanh_parts(*_parts(z)))


def atan(z: Tracer) -> Tracer:
    """``-i atanh(iz)``; cut along the imaginary axis outside of [-i, i]."""
    x, y = _parts(z)
    real, imag = _atanh_parts(emit("negate", y), x)
    return emit("complex", imag, emit("negate", real))
