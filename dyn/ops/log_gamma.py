"""The logarithm of the absolute value of the gamma function, to less than two units in the last place, or of 1 below 0;
next to the poles from -9 to -18 to six of these.

Around the roots, 1 and 2, it is a distance times a polynomial; by the recurrence 6.1.15 of M. Abramowitz and I. Stegun,
"Handbook of Mathematical Functions", 1964, smaller and greater numbers come to these; from 8 on it is Stirling's series
(6.1.41), whose product with the logarithm is added up from parts; below 0 there is the reflection (6.1.17). A product
of several factors is kept with what its multiplications round away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dyn import dtypes
from dyn.frozen import record
from dyn.ops.formula import Num, by_fma
from dyn.ops.scalar import Scalar as S

#: ``lgamma(1 + t) / t`` for t from -0.31 to 0.42, and ``lgamma(2 + t) / t`` from -0.76 to 0.51: the interpolating
#: polynomials of degree 22 through 60 Chebyshev nodes, from 60 digits.
_NEAR_1 = (
    -0.5772156649015329, 0.8224670334241132, -0.4006856343865316, 0.27058080842780663, -0.20738555102864123,
    0.16955717699297124, -0.14404989676946525, 0.12550966993401957, -0.1113342661754514, 0.10009943682898384,
    -0.09095398712419638, 0.08335446102973164, -0.07693381078612005, 0.07142163608121242, -0.06663757441135174,
    0.06262171046993258, -0.05926584506056421, 0.05492734496834309, -0.04901204850494663, 0.049935043011426296,
    -0.0626281534433663, 0.06084859596746856, -0.026700771642212854,
)  # fmt: skip
_NEAR_2 = (
    0.42278433509846713, 0.3224670334241132, -0.06735230105319799, 0.020580808427784553, -0.007385551028685073,
    0.0028905103307374736, -0.0011927539112190865, 0.0005096695250710277, -0.0002231547692108826,
    9.945750220777288e-05, -4.492609992789964e-05, 2.0507389532575865e-05, -9.440531536600673e-06,
    4.373164828842798e-06, -2.034497333385924e-06, 9.649426443437128e-07, -4.606126570284374e-07,
    1.7877051275612793e-07, -9.266767131351826e-08, 1.090089671809876e-07, -1.0409437384404945e-09,
    -3.531107086430682e-08, -4.167702557633308e-08,
)  # fmt: skip
#: The same to 1e-9, of degree 11: all that a result that is rounded to 32 bits can show.
_NEAR_1_SHORT = (
    -0.5772156649141983, 0.8224670388279891, -0.40068563114071665, 0.27057981722400276, -0.20738503531697985,
    0.16960810616997737, -0.14411090519681563, 0.12445568981011143, -0.10947019104540452, 0.10905104862296944,
    -0.11242579120832126, 0.06533868329925277,
)  # fmt: skip
_NEAR_2_SHORT = (
    0.42278433504985763, 0.32246703278151645, -0.0673522920548594, 0.020580848856659582, -0.007385807821291364,
    0.0028897325391094206, -0.0011902691293535841, 0.000516216013471791, -0.00023239785874129963,
    7.410518034946656e-05, -3.6024136026666926e-05, 5.8360434598433105e-05,
)  # fmt: skip
#: ``sin(pi * r) / (pi * r)`` in powers of ``r * r`` for r up to 1/2, to 1.2e-17, and to 2.7e-11: the interpolating
#: polynomials through Chebyshev nodes, from 60 digits.
_SINE = (
    1.0, -1.6449340668482264, 0.8117424252833536, -0.19075182412208255, 0.026147847817611935, -0.002346081034815316,
    0.0001484287872033628, -6.975840829271595e-06, 2.5300985563134005e-07, -7.0931258816238045e-09,
)  # fmt: skip
_SINE_SHORT = (
    0.9999999999829191, -1.64493406192812, 0.8117421954830587, -0.19074789529025588, 0.02611743763397087,
    -0.002237178600214795,
)  # fmt: skip
#: B(2k) / (2k * (2k - 1)): of the series in powers of 1 / x**2, after 1 / x.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400, 43867 / 244188)
#: From here on the series is exact to the last bits of float64.
_FAR = 8.0
#: log(2) to 33 bits, so that its product with an exponent is exact, and the rest of it.
_LOG_2 = 0.6931471803691238
_REST_OF_LOG_2 = 1.9082149292705877e-10
#: The bits of sqrt(1/2), and how many of a float's are its fraction.
_ROOT = {dtypes.float64: (0x3FE6A09E667F3BCD, 52), dtypes.float32: (0x3F3504F3, 23)}


@record()
class _Series:
    near_1: Sequence[float]
    near_2: Sequence[float]
    sine: Sequence[float]
    stirling: Sequence[float]
    #: Whether products are kept with what they round away.
    exact: bool


_WHOLE = _Series(_NEAR_1, _NEAR_2, _SINE, _STIRLING, exact=True)
_SHORT = _Series(_NEAR_1_SHORT, _NEAR_2_SHORT, _SINE_SHORT, _STIRLING[:5], exact=False)


@record()
class _Product:
    """A product of factors as it is rounded, and what is missing from it; None where nobody keeps that."""

    value: Num
    lost: Num | None

    def times(self, factor: Num) -> _Product:
        value = self.value * factor
        if self.lost is None:
            return _Product(value, None)
        return _Product(value, self.lost.f(S.FMA, factor, self.value.f(S.FMA, factor, -value)))

    def unless(self, condition: Num) -> _Product:
        """1 where the condition is true, else this."""
        lost = None if self.lost is None else condition.where(self.value.like(0.0), self.lost)
        return _Product(condition.where(self.value.like(1.0), self.value), lost)

    def log_of_lost(self) -> Num:
        """The difference that the lost part makes to the logarithm of the product."""
        return self.value.like(0.0) if self.lost is None else self.lost / self.value


def lgamma(x: Num) -> Num:
    """As exact as float64 is; of narrow floats in float32."""
    return _lgamma(x, _WHOLE if x.dtype is dtypes.float64 else _SHORT)


def lgamma_rounded(x: Num) -> Num:
    """In float64, as exact as a result of 32 bits."""
    return _lgamma(x, _SHORT)


def _lgamma(x: Num, series: _Series) -> Num:
    size = x.f(S.ABS)
    small, little = size.is_(S.LT, 0.25), size.is_(S.LT, 0.7)
    far = size.is_(S.GE, _FAR)
    rest, steps = _steps_down(size, _Product(x.like(1.0), x.like(0.0) if series.exact else None))
    by_1 = small | (size.is_(S.GE, 0.7) & size.is_(S.LT, 1.41))
    # The distance from 1 or 2, of a number, or of the one after it where it is little; exact in each case.
    t = small.where(x, by_1.where(size - 1.0, little.where(size - 1.0, rest - 2.0)))
    near = _chosen(t, by_1, series.near_1, series.near_2)
    power, mantissa = _parts(far.where(size, 1.0))
    log = far.where(mantissa, little.where(size, steps.value)).f(S.LOG)
    from_8 = _stirling(far.where(size, _FAR), power, log, series)
    positive = far.where(_sum(from_8), little.where(-log, log) + t.f(S.FMA, near, steps.log_of_lost()))
    # The logarithms of both sides of the reflection as one, as long as that is no more than a few products. The sine of
    # a distance is that distance times a polynomial.
    away = (size - size.f(S.ROUND_EVEN)).f(S.ABS)
    both = steps.unless(far | little)
    for factor in (little.where(x.like(1.0), size), away, by_fma(away * away, series.sine)):
        both = both.times(factor)
    # Next to poles both logarithms are great and nearly equal: the greater part of each is subtracted first.
    power, mantissa = _parts(both.value)
    rest = power.f(S.FMA, _REST_OF_LOG_2, mantissa.f(S.LOG)) + both.log_of_lost()
    whole = -power * _LOG_2 - far.where(from_8[0], 0.0)
    negative = whole - far.where(from_8[1] + rest, t.f(S.FMA, near, rest))
    negative = small.where(positive, negative)
    negative = (away.is_(S.EQ, 0.0) & size.is_(S.GE, 0.25)).where(x.like(math.inf), negative)
    result = x.is_(S.LT, 0.0).where(negative, positive)
    return size.is_(S.EQ, math.inf).where(size, result)


def _steps_down(x: Num, product: _Product) -> tuple[Num, _Product]:
    """A number from 1.5 on as many steps lower that it is below 2.5, and the product of all that it was lowered to.

    Each difference is exact. Other numbers stay, with the product that was given, of 1.
    """
    rest = x
    for i in range(1, int(_FAR) - 1):
        step = x - float(i)
        passed = step.is_(S.GE, 1.5)
        rest, product = passed.where(step, rest), product.times(passed.where(step, 1.0))
    return rest, product


def _chosen(t: Num, first: Num, a: Sequence[float], b: Sequence[float]) -> Num:
    """A polynomial with one of two sequences of coefficients, the constant first."""
    total = first.where(t.like(a[-1]), b[-1])
    for one, other in zip(reversed(a[:-1]), reversed(b[:-1]), strict=True):
        total = total.f(S.FMA, t, first.where(t.like(one), other))
    return total


def _parts(x: Num) -> tuple[Num, Num]:
    """An exponent of 2, and what a positive number is of that power: between the roots of 1/2 and of 2."""
    bits, (root, fraction) = x.bits(), _ROOT[x.dtype]
    power = (bits - root).f(S.SHRA, fraction)
    return power.to(x.dtype), (bits - power.f(S.SHL, fraction)).as_float(x.dtype)


def _stirling(x: Num, power: Num, log: Num, series: _Series) -> tuple[Num, Num]:
    """``(x - 1/2) * (log(x) - 1) + (log(2 pi) - 1) / 2 + series``, where ``log`` is that of x without a power of 2.

    The greater part of the logarithm, that power's less 1, is exact, and so is its product as a sum of two. The result
    is a sum of two as well.
    """
    inverse = x.like(1.0) / x
    total = by_fma(inverse * inverse, series.stirling)
    factor, great = x - 0.5, power * _LOG_2 - 1.0
    whole = factor * great
    lost = factor.f(S.FMA, great, -whole)
    little = factor * power.f(S.FMA, _REST_OF_LOG_2, log) + total.f(S.FMA, inverse, 0.5 * math.log(2 * math.pi) - 0.5)
    return whole, little + lost


def _sum(parts: tuple[Num, Num]) -> Num:
    """The sum of a number and of a lesser one, which is NaN where the first is infinite."""
    whole, little = parts
    return whole.is_(S.LT, math.inf).where(whole + little, whole)
