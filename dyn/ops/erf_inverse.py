"""The inverse of the error function: exact to a few units, and as XLA rounds it.

M. Giles, "Approximating the erfinv function", GPU Computing Gems, Jade edition, 2011: ``x`` times a polynomial in
``w = -log(1 - x**2)`` while that is small, in its square root beyond. The two ops differ in ``w``:

- ``erf_inv`` has ``-log((1 - x) * (1 + x))``. Its absolute error is a few roundings everywhere, and no other counts,
  for the polynomials are not 0 where ``w`` is. That is what users of ``dyn.lax``, PyTorch and TensorFlow ask for.
- ``xla_erf_inv`` has ``-log1p(-(x * x))``, where next to -1 and 1 the rounding of ``x * x`` shows: 65 units at 0.9997.
  XLA draws its normally distributed numbers by it, and so does JAX. ``dyn.random``, and programs that are read from
  StableHLO, JAX's among them, draw the same ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import dtypes
from dyn.ops import derivatives
from dyn.ops.formula import Num, formula_op
from dyn.ops.pointwise import draw
from dyn.ops.rules import FLOAT, same_type
from dyn.ops.scalar import Scalar as S
from dyn.requirements import scipy_module

Array = np.ndarray[Any, Any]

#: P(w - 2.5), w < 5.
_NEAR = (
    1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06, -3.5233877e-06,
    3.43273939e-07, 2.81022636e-08,
)  # fmt: skip
#: P(sqrt(w) - 3), w >= 5.
_FAR = (
    2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322,
    0.000100950558, -0.000200214257,
)  # fmt: skip
#: P(w - 3.125), w < 6.25.
_NEAR64 = (
    1.6536545626831027356, 0.24015818242558961693, -0.0060336708714301490533, -0.00074070253416626697512,
    0.0001867342080340571352, -1.3882523362786468719e-05, -1.3654692000834678645e-06, 4.2347877827932403518e-07,
    -2.9070369957882005086e-08, -4.1126339803469836976e-09, 1.051212273321532285e-09, -5.4154120542946279317e-11,
    -1.2975133253453532498e-11, 2.6335093153082322977e-12, -8.1519341976054721522e-14, -4.0545662729752068639e-14,
    6.6376381343583238325e-15, 2.0972767875968561637e-17, -1.333171662854620906e-16, 1.115787767802518096e-17,
    1.2858480715256400167e-18, -1.685059138182016589e-19, -3.6444120640178196996e-21,
)  # fmt: skip
#: P(sqrt(w) - 3.25), 6.25 <= w < 16.
_MIDDLE64 = (
    3.0838856104922207635, 1.0052589676941592334, 0.005370914553590063617, -0.0037512085075692412107,
    0.0024914420961078508066, -0.0016882755560235047313, 0.00095328937973738049703, -0.0003550375203628474796,
    2.4031110387097893999e-05, 6.8284851459573175448e-05, -4.7318229009055733981e-05, 1.2475304481671778723e-05,
    2.9234449089955446044e-06, -4.013867526981545969e-06, 1.5027403968909827627e-06, 1.8239629214389227755e-08,
    -2.7517406297064545428e-07, 9.0756561938885390979e-08, 2.2137376921775787049e-09,
)  # fmt: skip
#: P(sqrt(w) - 5), w >= 16.
_FAR64 = (
    4.8499064014085844221, 1.0103004648645343977, -0.00013871931833623122026, -0.00021503011930044477347,
    7.5995277030017761139e-05, -1.9681778105531670567e-05, 4.5260625972231537039e-06, -9.9298272942317002539e-07,
    2.2900482228026654717e-07, -6.7711997758452339498e-08, 2.9147953450901080826e-08, -1.4960026627149240478e-08,
    7.6157012080783393804e-09, -3.7894654401267369937e-09, 1.5076572693500548083e-09, -2.5556418169965252055e-10,
    -2.7109920616438573243e-11,
)  # fmt: skip


def _polynomial(x: Num, coefficients: tuple[float, ...]) -> Num:
    """By Horner's rule with fused multiply-adds, as XLA has it."""
    total = x.like(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = total.f(S.FMA, x, c)
    return total


def _inverse(x: Num, w: Num) -> Num:
    """Infinite at -1 and 1, NaN beyond."""
    root = w.f(S.SQRT)
    if x.dtype is dtypes.float64:
        p = w.is_(S.LT, 16.0).where(_polynomial(root - 3.25, _MIDDLE64), _polynomial(root - 5.0, _FAR64))
        p = w.is_(S.LT, 6.25).where(_polynomial(w - 3.125, _NEAR64), p)
    else:
        p = w.is_(S.LT, 5.0).where(_polynomial(w - 2.5, _NEAR), _polynomial(root - 3.0, _FAR))
    # At the ends w and its root are infinite, and the polynomial's terms may cancel to NaN.
    return x.f(S.ABS).is_(S.EQ, 1.0).where(x * np.inf, x * p)


def _reference(x: Array) -> Array:
    plain = scipy_module("special", "erf_inv").erfinv(x)
    return np.where(x == 0, x, plain).astype(x.dtype)  # SciPy loses the sign of a zero


def erf_inv_formula(x: Num) -> Num:
    return _inverse(x, -((x.like(1.0) - x) * (x + 1.0)).f(S.LOG))


def xla_erf_inv_formula(x: Num) -> Num:
    return _inverse(x, -(-(x * x)).f(S.LOG1P))


_inside, _FLOAT = draw(1, low=-1.0, high=1.0), same_type(FLOAT)
erf_inv = formula_op("erf_inv", erf_inv_formula, _reference, _inside, _FLOAT, grad=derivatives.erf_inv)
xla_erf_inv = formula_op("xla_erf_inv", xla_erf_inv_formula, _reference, _inside, _FLOAT, grad=derivatives.erf_inv)
