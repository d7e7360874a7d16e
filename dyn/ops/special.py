"""CHLO's elementwise functions that are formulas: hyperbolas and angles, the gamma function and its kin, bits.

Sources: W. Kahan, "Branch cuts for complex elementary functions", 1987, for the hyperbolas near 0; M. Abramowitz and
I. Stegun, "Handbook of Mathematical Functions", 1964, for the gamma function: Stirling's series (6.1.41), its
derivatives (6.3.18, 6.4.12), the recurrences (6.3.6, 6.4.6) and reflections (6.1.17, 6.3.7, 6.4.7). Bounds are tested
in ``tests/ops/test_special.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.ir.core import Value
from dyn.ir.opdef import NOT_CONTINUOUS, PIECEWISE_CONSTANT
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.formula import Num, by_fma, double, formula_op, unchanged
from dyn.ops.log_gamma import lgamma as lgamma_in_double
from dyn.ops.log_gamma import lgamma_rounded
from dyn.ops.pointwise import draw
from dyn.ops.rules import FLOAT, predicate, same_type
from dyn.ops.scalar import Scalar as S
from dyn.requirements import scipy_module

Array = np.ndarray[Any, Any]
_FLOAT = same_type(FLOAT)
_PI = math.pi


def _polynomial(x: Num, coefficients: Sequence[float]) -> Num:
    """A polynomial by Horner's rule, the constant first."""
    total = x.like(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total * x + c
    return total


# --- hyperbolas and angles ----------------------------------------------------------------------------------------


def _large(x: Num, size: Num) -> tuple[Num, Num]:
    """Mask of where ``exp(size)`` may overflow and half of it may not; and that half, from the root."""
    root = (size * 0.5).f(S.EXP)
    return size.is_(S.GT, 700.0 if x.dtype is dtypes.float64 else 80.0), root * 0.5 * root


def _sinh(x: Num) -> Num:
    """sinh: with ``t = exp(|x|) - 1`` it is ``(t + t / (t + 1)) / 2``."""
    size = x.f(S.ABS)
    t = size.f(S.EXPM1)
    large, half = _large(x, size)
    return large.where(half, (t + t / (t + 1.0)) * 0.5).with_sign(x)


def _cosh(x: Num) -> Num:
    size = x.f(S.ABS)
    up = size.f(S.EXP)
    large, half = _large(x, size)
    return large.where(half, up * 0.5 + up.like(0.5) / up)


def _leg(x: Num) -> Num:
    """``sqrt(1 - x*x)``, precise near 1."""
    return ((x.like(1.0) - x) * (x + 1.0)).f(S.SQRT)


def _asinh(x: Num) -> Num:
    size = x.f(S.ABS)
    large = size.is_(S.GT, 1e10)  # then the square of 1 / x is below every precision
    part = large.where(size.like(0.0), size)
    square = part * part
    near = (part + square / ((square + 1.0).f(S.SQRT) + 1.0)).f(S.LOG1P)
    return large.where(size.f(S.LOG) + math.log(2.0), near).with_sign(x)


def _acosh(x: Num) -> Num:
    large = x.is_(S.GT, 1e10)
    t = large.where(x.like(1.0), x) - 1.0
    near = (t + (t * (t + 2.0)).f(S.SQRT)).f(S.LOG1P)
    return x.is_(S.LT, 1.0).where(x.like(math.nan), large.where(x.f(S.LOG) + math.log(2.0), near))


def _atanh(x: Num) -> Num:
    size = x.f(S.ABS)
    return (((size + size) / (size.like(1.0) - size)).f(S.LOG1P) * 0.5).with_sign(x)


_any = draw(1)
_unit = draw(1, low=-0.99, high=0.99)
sinh = formula_op("sinh", _sinh, np.sinh, _any, _FLOAT, grad=lambda a, ct, y, x: (a.mul(ct, a.f("cosh", x)),))
cosh = formula_op("cosh", _cosh, np.cosh, _any, _FLOAT, grad=lambda a, ct, y, x: (a.mul(ct, a.f("sinh", x)),))


def _square_of_leg(a: Arithmetic, x: Value) -> Value:
    """``1 - x*x``, rounded once, so that it is precise near 1; its own derivative is finite there."""
    return a.f("fused_multiply_add", a.neg(x), x, a.fill(x, 1.0))


def _over_leg(a: Arithmetic, ct: Value, x: Value, sign: float) -> tuple[Value]:
    return (a.mul(ct, a.mul(a.f("rsqrt", _square_of_leg(a, x)), sign)),)


asin = formula_op(
    "asin", lambda x: x.f(S.ATAN2, _leg(x)), np.arcsin, _unit, _FLOAT,
    grad=lambda a, ct, y, x: _over_leg(a, ct, x, 1.0),
)  # fmt: skip
acos = formula_op(
    "acos", lambda x: _leg(x).f(S.ATAN2, x), np.arccos, _unit, _FLOAT,
    grad=lambda a, ct, y, x: _over_leg(a, ct, x, -1.0),
)  # fmt: skip
atan = formula_op(
    "atan", lambda x: x.f(S.ATAN2, 1.0), np.arctan, _any, _FLOAT,
    grad=lambda a, ct, y, x: (a.div(ct, a.add(a.mul(x, x), 1.0)),),
)  # fmt: skip
asinh = formula_op(
    "asinh", _asinh, np.arcsinh, _any, _FLOAT,
    grad=lambda a, ct, y, x: (a.mul(ct, a.f("rsqrt", a.add(a.mul(x, x), 1.0))),),
)  # fmt: skip
acosh = formula_op(
    "acosh", _acosh, np.arccosh, draw(1, low=1.1, high=9.0), _FLOAT,
    grad=lambda a, ct, y, x: (a.mul(ct, a.f("rsqrt", a.f("fused_multiply_add", x, x, a.fill(x, -1.0)))),),
)  # fmt: skip
atanh = formula_op(
    "atanh", _atanh, np.arctanh, _unit, _FLOAT,
    grad=lambda a, ct, y, x: (a.div(ct, _square_of_leg(a, x)),),
)  # fmt: skip


# --- the gamma function -------------------------------------------------------------------------------------------

#: From here on the series below are exact to the last bits of float64.
_FAR = 8
#: B(2k) / 2k: of the derivative of log(gamma) in powers of 1 / x**2, after 1 / x**2.
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160, 43867 / 14364)
#: B(2k): of the derivative of that in powers of 1 / x**2, after 1 / x**3.
_TRIGAMMA = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)


def _shifted(x: Num) -> tuple[Num, Num]:
    """Whether a positive number is near 0, and the same or one that is ``_FAR`` further."""
    near = x.is_(S.LT, float(_FAR))
    return near, near.where(x + float(_FAR), x)


def _off_integer(x: Num) -> Num:
    """Distance of a number from the nearest integer, times pi."""
    return (x - x.f(S.ROUND_EVEN)) * _PI


def _digamma(x: Num) -> Num:
    size = x.f(S.ABS)
    near, far = _shifted(size)
    inverse = far.like(1.0) / far
    square = inverse * inverse
    positive = far.f(S.LOG) - inverse * 0.5 - _polynomial(square, _DIGAMMA) * square
    steps = size.like(0.0)
    for i in reversed(range(1, _FAR)):
        steps = steps + size.like(1.0) / (size + float(i))
    # Of a number near 0 that of the next one, so that below 0 no infinity is taken from another.
    later, first = positive - near.where(steps, 0.0), size.like(1.0) / size
    positive = size.is_(S.EQ, math.inf).where(size, later - near.where(first, 0.0))
    negative = later + near.where(size.like(0.0), first) + size.like(_PI) / _off_integer(size).f(S.TAN)
    pole = x.is_(S.LE, 0.0) & x.is_(S.EQ, x.f(S.FLOOR))
    return pole.where(x.like(math.nan), x.is_(S.LT, 0.0).where(negative, positive))


def _trigamma(x: Num) -> Num:
    size = x.f(S.ABS)
    near, far = _shifted(size)
    inverse = far.like(1.0) / far
    square = inverse * inverse
    positive = inverse + square * 0.5 + _polynomial(square, _TRIGAMMA) * square * inverse
    steps = size.like(0.0)
    for i in reversed(range(1, _FAR)):
        step = size.like(1.0) / (size + float(i))
        steps = steps + step * step
    later, first = positive + near.where(steps, 0.0), size.like(1.0) / size
    square = first * first
    positive = later + near.where(square, 0.0)
    sine = size.like(_PI) / _off_integer(size).f(S.SIN)
    negative = sine * sine - later + near.where(size.like(0.0), square)
    pole = x.is_(S.LE, 0.0) & x.is_(S.EQ, x.f(S.FLOOR))
    return pole.where(x.like(math.inf), x.is_(S.LT, 0.0).where(negative, positive))


def _lgamma_array(x: Array) -> Array:
    wide = x.astype(np.float64)
    size = np.abs(wide)
    with np.errstate(all="ignore"):
        # C's lgamma of both infinities is inf, SciPy's of the lower one is not; near 0 SciPy's is.
        plain = np.where(np.isinf(size), np.inf, scipy_module("special", "lgamma").gammaln(wide))
        return np.where(size < 1e-300, -np.log(size), plain).astype(x.dtype)


def _digamma_array(x: Array) -> Array:
    pole = (x <= 0) & (x == np.floor(x))
    plain = scipy_module("special", "digamma").psi(np.where(pole, 1, x))
    return np.where(pole, np.nan, plain).astype(x.dtype)


def _trigamma_array(x: Array) -> Array:
    """Trigamma function by NumPy: by its reflection below 0, where SciPy's is wrong."""
    polygamma = scipy_module("special", "trigamma").polygamma
    wide = x.astype(np.float64)
    pole = (wide <= 0) & (wide == np.floor(wide))
    sine = np.sin(np.pi * (wide - np.round(wide)))
    negative = (np.pi / np.where(pole, 1, sine)) ** 2 - polygamma(1, 1 - np.minimum(wide, 0))
    positive = polygamma(1, np.where(wide > 0, wide, 1))
    return np.where(pole, np.inf, np.where(wide < 0, negative, positive)).astype(x.dtype)


#: (2k + 1) B(2k): of the derivative of that in turn, negative, in powers of 1 / x**2, after 1 / x**4. Two more terms.
_TETRAGAMMA = tuple((2 * k + 3) * number for k, number in enumerate((*_TRIGAMMA, -174611 / 330, 854513 / 138)))


def _trigamma_grad(a: Arithmetic, ct: Value, y: Value, x: Value) -> tuple[Value]:
    """The second derivative of digamma, as a series in float64. Written out, it has all derivatives itself."""
    wide = a.b.op("convert", x, dtype=dtypes.float64)
    slope = _tetragamma(a, wide)
    return (a.mul(ct, a.b.op("convert", slope, dtype=x.dtype)),)


def _tetragamma(a: Arithmetic, x: Value) -> Value:
    """Tetragamma function: of positive numbers by steps to where the series is exact, of others by reflection."""

    def inverse(v: Value) -> Value:
        return a.div(a.fill(v, 1.0), v)

    size = a.f("abs", x)
    near = a.cmp(size, "LT", float(_FAR))
    far = inverse(a.where(near, a.add(size, float(_FAR)), size))
    square = a.mul(far, far)
    series = a.fill(x, 0.0)
    for number in reversed(_TETRAGAMMA):
        series = a.add(a.mul(series, square), number)
    # -1/x**2 - 1/x**3 - (series) / x**4
    positive = a.mul(a.neg(square), a.add(a.add(a.mul(series, square), far), 1.0))
    steps = a.fill(x, 0.0)
    for i in reversed(range(_FAR)):
        step = inverse(a.add(size, float(i)))
        steps = a.add(steps, a.mul(step, a.mul(step, step)))
    positive = a.sub(positive, a.mul(a.where(near, steps, 0.0), 2.0))
    pole = a.f("and", a.cmp(x, "LE", 0.0), a.cmp(x, "EQ", a.f("floor", x)))
    below = a.f("and", a.cmp(x, "LT", 0.0), a.f("not", pole))
    # Of the others any number, so that no derivative is that of what is not chosen.
    off = a.where(below, a.mul(a.sub(x, a.f("round_nearest_even", x)), _PI), 1.0)
    sine = inverse(a.f("sine", off))
    turn = a.mul(a.mul(a.f("cosine", off), -2 * _PI**3), a.mul(sine, a.mul(sine, sine)))
    own = inverse(size)
    negative = a.add(a.add(turn, positive), a.mul(a.mul(own, a.mul(own, own)), 2.0))
    return a.where(pole, math.nan, a.where(below, negative, positive))


_gamma = draw(1, low=-4.6, high=20.0)
#: The logarithm of the absolute value of the gamma function; infinite at 0, -1, -2, …
lgamma = formula_op(
    "lgamma", lgamma_in_double, _lgamma_array, _gamma, _FLOAT, wide=double, rounded=lgamma_rounded,
    grad=lambda a, ct, y, x: (a.mul(ct, a.f("digamma", x)),),
)  # fmt: skip
#: The derivative of lgamma; NaN at 0, -1, -2, …
digamma = formula_op(
    "digamma", _digamma, _digamma_array, _gamma, _FLOAT, wide=double,
    grad=lambda a, ct, y, x: (a.mul(ct, a.f("trigamma", x)),),
)  # fmt: skip
#: The derivative of digamma; infinite at 0, -1, -2, …
trigamma = formula_op("trigamma", _trigamma, _trigamma_array, _gamma, _FLOAT, wide=double, grad=_trigamma_grad)


# --- erfc ---------------------------------------------------------------------------------------------------------

#: ``log(erfc(x) * exp(x*x) / t)`` for ``t = 2 / (2 + x)`` in powers of ``2 * t - 1``: the Chebyshev polynomial of
#: degree 27 through its values at 40 nodes, from 60 digits. The form is that of W. Press and others, "Numerical
#: Recipes", 2007, chapter 6.2.
_ERFC = (
    -0.6717940840566923, 0.6726432239776567, 0.04734330684190443, -0.0468956102311753, -0.009872689366389959,
    0.008824938557060623, 0.001758933557799016, -0.002345812500482853, -0.00014624686337800336, 0.000673678795580235,
    -9.37350311709817e-05, -0.0001743029472030762, 7.14010141275703e-05, 3.17451797494374e-05,
    -3.0187884551394246e-05, 1.3772664134464886e-07, 8.562623420121286e-06, -2.947986876998268e-06,
    -1.2723119048688706e-06, 1.2500276612569864e-06, -1.6849800720653234e-07, -2.495832761719764e-07,
    1.533434592090814e-07, 1.4448658046307654e-09, -3.917182051027173e-08, 1.1172352263621929e-08,
    4.0608821469697e-09, -1.8902306008941833e-09,
)  # fmt: skip


def _erfc(x: Num) -> Num:
    """``t * exp(-x*x + p(t))``, with what the square of x loses to rounding put back."""
    size = x.f(S.ABS).f(S.MIN, 30.0)  # where it is 0, so that nothing is infinite
    t = size.like(2.0) / (size + 2.0)
    series = _polynomial(t * 2.0 - 1.0, _ERFC)
    square = size * size
    lost = size.f(S.FMA, size, -square)
    result = t * (-square).f(S.EXP) * (series - lost).f(S.EXP)
    return x.is_(S.LT, 0.0).where(result.like(2.0) - result, result)


#: The same logarithm for ``x`` up to 10.5, to 2.9e-9: all that a result that is rounded to 32 bits can show.
_ERFC_SHORT = (
    -0.6717940821826, 0.6726431921063, 0.04734310917525, -0.04689442205678, -0.009869573788281, 0.008811745201273,
    0.001743388567704, -0.002282379405932, -0.0001238975630537, 0.0005308853264485, -6.934468893264e-05,
    -3.862325260608e-05,
)  # fmt: skip


def _erfc_rounded(x: Num) -> Num:
    """Complementary error function in float64, as exact as a result of 32 bits: the square of its ``x`` is exact."""
    size = x.f(S.ABS).f(S.MIN, 10.5)  # where it is 0 in 32 bits
    t = size.like(2.0) / (size + 2.0)
    v = t * 2.0 - 1.0
    square = v * v
    odd, even = by_fma(square, _ERFC_SHORT[1::2]), by_fma(square, _ERFC_SHORT[::2])
    result = t * _exp_short((-size).f(S.FMA, size, odd.f(S.FMA, v, even)))
    return x.is_(S.LT, 0.0).where(result.like(2.0) - result, result)


#: Taylor's coefficients of exp: for up to half of log(2), the rest is 2e-10 of it.
_EXP_SHORT = tuple([1 / math.factorial(k) for k in range(9)])


def _exp_short(x: Num) -> Num:
    """``exp(x)`` in float64 for sizes of x below 700, to 2e-10: ``2**n * exp(x - n * log(2))``."""
    magic = 1.5 * 2.0**52  # added to a number, it leaves what that is rounded to in the lowest bits
    shifted = x.f(S.FMA, 1 / math.log(2.0), magic)
    r = (shifted - magic).f(S.FMA, -math.log(2.0), x)
    square = r * r
    odd, even = by_fma(square, _EXP_SHORT[1::2]), by_fma(square, _EXP_SHORT[::2])
    power = (shifted.bits() + 1023).f(S.SHL, 52).as_float(x.dtype)
    return odd.f(S.FMA, r, even) * power


def _erfc_array(x: Array) -> Array:
    return np.asarray(scipy_module("special", "erfc").erfc(x)).astype(x.dtype)


def _erfc_grad(a: Arithmetic, ct: Value, y: Value, x: Value) -> tuple[Value]:
    bell = a.f("exponential", a.neg(a.mul(x, x)))
    return (a.mul(ct, a.mul(bell, -2 / math.sqrt(_PI))),)


#: ``1 - erf(x)``, precise where that is near 0.
erfc = formula_op(
    "erfc", _erfc, _erfc_array, draw(1, low=-4.0, high=9.0), _FLOAT, wide=double, rounded=_erfc_rounded, grad=_erfc_grad
)


# --- bits of floats -----------------------------------------------------------------------------------------------


def _next_after(x: Num, y: Num) -> Num:
    """A step away from zero adds 1 to the bits, on either side; from zero it is the smallest number there is."""
    bits = x.bits()
    away = y.is_(S.GT, x).is_(S.EQ, x.is_(S.GT, 0.0))
    moved = (bits + away.where(bits.like(1), -1)).as_float(x.dtype)
    least = bits.like(1).as_float(x.dtype).with_sign(y)
    result = x.is_(S.EQ, 0.0).where(least, moved)
    result = x.is_(S.EQ, y).where(y, result)
    ordered = x.is_(S.EQ, x) & y.is_(S.EQ, y)
    return ordered.where(result, x + y)


#: The next float after the first operand towards the second one, which it is where they are equal; NaN where either is.
next_after = formula_op(
    "next_after", _next_after, np.nextafter, draw(2), _FLOAT, wide=unchanged, grad=PIECEWISE_CONSTANT,
    plain=np.nextafter,
)  # fmt: skip


def _is_infinite(x: Num) -> Num:
    return x.f(S.ABS).is_(S.EQ, math.inf)


_infinite = draw(1)
is_inf = formula_op("is_inf", _is_infinite, np.isinf, _infinite, predicate(FLOAT), grad=NOT_CONTINUOUS)
is_pos_inf = formula_op(
    "is_pos_inf", lambda x: x.is_(S.EQ, math.inf), np.isposinf, _infinite, predicate(FLOAT), grad=NOT_CONTINUOUS
)
is_neg_inf = formula_op(
    "is_neg_inf", lambda x: x.is_(S.EQ, -math.inf), np.isneginf, _infinite, predicate(FLOAT), grad=NOT_CONTINUOUS
)
