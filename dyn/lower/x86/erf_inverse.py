"""The inverse of the error function, of float32 and float64 vectors.

M. Giles, "Approximating the erfinv function", GPU Computing Gems, Jade edition, 2011: a polynomial in
``w = -log(1 - x**2)`` while that is small, in its square root beyond. XLA computes the same with the same
coefficients, which makes normally distributed numbers the same as JAX's, but for what the logarithms differ in. Where
``1 - x**2`` cancels, as XLA has it too, the result is off by more than a few units; see ``bounds.py``.
"""

from __future__ import annotations

from dyn.lower.x86 import vector_math
from dyn.lower.x86.approx import horner
from dyn.lower.x86.llvm_text import VType, constant
from dyn.lower.x86.machine import Machine

#: x * P(w - 2.5), w < 5.
_NEAR = (
    1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06, -3.5233877e-06,
    3.43273939e-07, 2.81022636e-08,
)  # fmt: skip
#: x * P(sqrt(w) - 3), w >= 5.
_FAR = (
    2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322,
    0.000100950558, -0.000200214257,
)  # fmt: skip
#: x * P(w - 3.125), w < 6.25.
_NEAR64 = (
    1.6536545626831027356, 0.24015818242558961693, -0.0060336708714301490533, -0.00074070253416626697512,
    0.0001867342080340571352, -1.3882523362786468719e-05, -1.3654692000834678645e-06, 4.2347877827932403518e-07,
    -2.9070369957882005086e-08, -4.1126339803469836976e-09, 1.051212273321532285e-09, -5.4154120542946279317e-11,
    -1.2975133253453532498e-11, 2.6335093153082322977e-12, -8.1519341976054721522e-14, -4.0545662729752068639e-14,
    6.6376381343583238325e-15, 2.0972767875968561637e-17, -1.333171662854620906e-16, 1.115787767802518096e-17,
    1.2858480715256400167e-18, -1.685059138182016589e-19, -3.6444120640178196996e-21,
)  # fmt: skip
#: x * P(sqrt(w) - 3.25), 6.25 <= w < 16.
_MIDDLE64 = (
    3.0838856104922207635, 1.0052589676941592334, 0.005370914553590063617, -0.0037512085075692412107,
    0.0024914420961078508066, -0.0016882755560235047313, 0.00095328937973738049703, -0.0003550375203628474796,
    2.4031110387097893999e-05, 6.8284851459573175448e-05, -4.7318229009055733981e-05, 1.2475304481671778723e-05,
    2.9234449089955446044e-06, -4.013867526981545969e-06, 1.5027403968909827627e-06, 1.8239629214389227755e-08,
    -2.7517406297064545428e-07, 9.0756561938885390979e-08, 2.2137376921775787049e-09,
)  # fmt: skip
#: x * P(sqrt(w) - 5), w >= 16.
_FAR64 = (
    4.8499064014085844221, 1.0103004648645343977, -0.00013871931833623122026, -0.00021503011930044477347,
    7.5995277030017761139e-05, -1.9681778105531670567e-05, 4.5260625972231537039e-06, -9.9298272942317002539e-07,
    2.2900482228026654717e-07, -6.7711997758452339498e-08, 2.9147953450901080826e-08, -1.4960026627149240478e-08,
    7.6157012080783393804e-09, -3.7894654401267369937e-09, 1.5076572693500548083e-09, -2.5556418169965252055e-10,
    -2.7109920616438573243e-11,
)  # fmt: skip


def erf_inv(m: Machine, ty: VType, x: str) -> str:
    """Infinite at -1 and 1, NaN beyond."""
    return m.helper("erf_inv", ty, [(ty, x)], lambda inner, args: _erf_inv(inner, ty, args[0]))


def _erf_inv(m: Machine, ty: VType, x: str) -> str:
    fn = m.fn
    w = fn.neg(ty, vector_math.log1p(m, ty, fn.neg(ty, fn.op("fmul", ty, x, x))))
    root = fn.intrinsic("sqrt", ty, w)
    if ty.elem == "double":
        p = horner(m, ty, fn.op("fadd", ty, root, constant(-5.0, ty)), _FAR64)
        middle = horner(m, ty, fn.op("fadd", ty, root, constant(-3.25, ty)), _MIDDLE64)
        near = horner(m, ty, fn.op("fadd", ty, w, constant(-3.125, ty)), _NEAR64)
        p = fn.select(fn.op("fcmp olt", ty, w, constant(16.0, ty)), ty, middle, p)
        p = fn.select(fn.op("fcmp olt", ty, w, constant(6.25, ty)), ty, near, p)
    else:
        p = horner(m, ty, fn.op("fadd", ty, root, constant(-3.0, ty)), _FAR)
        near = horner(m, ty, fn.op("fadd", ty, w, constant(-2.5, ty)), _NEAR)
        p = fn.select(fn.op("fcmp olt", ty, w, constant(5.0, ty)), ty, near, p)
    y = fn.op("fmul", ty, x, p)
    # At the ends w and its root are infinite, and the polynomial's terms may cancel to NaN.
    end = fn.op("fcmp oeq", ty, fn.intrinsic("fabs", ty, x), constant(1.0, ty))
    return fn.select(end, ty, fn.op("fmul", ty, x, constant(float("inf"), ty)), y)
