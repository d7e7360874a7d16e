"""Sines, cosines, tangents and angles of float32 and float64 vectors.

float32 is computed in float64, which makes the reduction easy. An argument of float64 is reduced to two float64s, exact
enough below 2**30; what is larger is libm's, an element at a time: that it occurs at all is one test for a vector.
"""

from __future__ import annotations

import math

from dyn.lower.x86.approx import horner
from dyn.lower.x86.branches import either, elementwise
from dyn.lower.x86.llvm_text import VType, constant
from dyn.lower.x86.machine import Machine

#: pi/2 in three float64 parts.
PIO2 = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
#: Short ones, for results in float32: sin(r) = r * P(r**2), cos(r) = P(r**2), |r| <= pi/4, 4.4e-12 and 5.6e-14.
_SIN32 = (0.9999999999956383, -0.16666666631354604, 0.008333328758765246, -0.0001983919489563779, 2.717276903221877e-06)
_COS32 = (
    0.9999999999999437, -0.4999999999934491, 0.041666666542988035, -0.0013888880345986898, 2.479891877858048e-05,
    -2.717270929201987e-07,
)  # fmt: skip
#: sin(r) = r + r**3 * P(r**2), cos(r) = 1 - r**2 / 2 + r**4 * P(r**2), |r| <= pi/4, 2e-17 and 1e-18.
_SIN64 = (
    -0.16666666666666666, 0.008333333333330946, -0.0001984126983675497, 2.755731610068303e-06, -2.5051131455427946e-08,
    1.591810123027412e-10,
)  # fmt: skip
_COS64 = (
    0.041666666666666664, -0.0013888888888887395, 2.4801587298763433e-05, -2.7557317270560326e-07,
    2.0876146024689747e-09, -1.1382614868556325e-11,
)  # fmt: skip
#: atan(t) = t + t**3 * P(t**2), |t| <= tan(pi/8), 3e-18 and 2.4e-9.
_ATAN64 = (
    -0.3333333333333333, 0.19999999999999804, -0.14285714285659779, 0.11111111105150588, -0.09090908753259112,
    0.07692296368042296, -0.0666642476020052, 0.05878927554473807, -0.05230443640686948, 0.045515447340221615,
    -0.03456931506332609, 0.016284375050043393,
)  # fmt: skip
_ATAN32 = (-0.33333331760434554, 0.1999954031495797, -0.14263949753605723, 0.10743668324830098, -0.06451718869358958)


def sin(m: Machine, ty: VType, x: str) -> str:
    return _circular(m, ty, "sin", x)


def cos(m: Machine, ty: VType, x: str) -> str:
    return _circular(m, ty, "cos", x)


def tan(m: Machine, ty: VType, x: str) -> str:
    return _circular(m, ty, "tan", x)


def _circular(m: Machine, ty: VType, name: str, x: str) -> str:
    wide = ty.elem == "double"

    def build(inner: Machine, args: list[str]) -> str:
        limit = constant(2.0**30 if wide else 2.0**40, ty)
        large = inner.fn.op("fcmp oge", ty, inner.fn.intrinsic("fabs", ty, args[0]), limit)
        return either(
            inner,
            ty,
            large,
            lambda: elementwise(inner, ty, name, args),
            lambda: (_of_double if wide else _of_float)(inner, ty, name, args[0]),
        )

    return m.helper(name, ty, [(ty, x)], build)


def _pick(m: Machine, ty: VType, name: str, n: str, s: str, c: str) -> str:
    """The function of ``n*pi/2 + r`` from the sine and cosine of r: which, and its sign, say the last bits of n."""
    fn, bits, i1 = m.fn, ty.of("i64"), ty.of("i1")
    quadrant = fn.cast("bitcast", ty, fn.op("fadd", ty, n, constant(6755399441055744.0, ty)), bits)
    if name == "cos":
        quadrant = fn.op("add", bits, quadrant, constant(1, bits))
    odd = fn.cast("trunc", bits, quadrant, i1)
    if name == "tan":
        y = fn.op("fdiv", ty, fn.select(odd, ty, c, s), fn.select(odd, ty, s, c))
        return fn.select(odd, ty, fn.neg(ty, y), y)
    y = fn.select(odd, ty, c, s)
    negative = fn.cast("trunc", bits, fn.op("lshr", bits, quadrant, constant(1, bits)), i1)
    return fn.select(negative, ty, fn.neg(ty, y), y)


def _of_float(m: Machine, ty: VType, name: str, x: str) -> str:
    """``x == n*pi/2 + r`` in float64, exact enough for |x| < 2**40."""
    fn, wide = m.fn, ty.of("double")
    d = fn.cast("fpext", ty, x, wide)
    n = fn.intrinsic("roundeven", wide, fn.op("fmul", wide, d, constant(2 / math.pi, wide)))
    r = d
    for part in PIO2[:2]:
        r = fn.fma(wide, n, constant(-part, wide), r)
    square = fn.op("fmul", wide, r, r)
    s = fn.op("fmul", wide, r, horner(m, wide, square, _SIN32))
    c = horner(m, wide, square, _COS32)
    y = fn.cast("fptrunc", wide, _pick(m, wide, name, n, s, c), ty)
    return y if name == "cos" else _keep_zero(m, ty, x, y)


def _keep_zero(m: Machine, ty: VType, x: str, y: str) -> str:
    return m.fn.select(m.fn.op("fcmp oeq", ty, x, constant(0.0, ty)), ty, x, y)


def _of_double(m: Machine, ty: VType, name: str, x: str) -> str:
    """``x == n*pi/2 + r + low``. The first product with a part of pi/2 leaves an exact difference, as all its bits are
    above 2**-52 and it is below 1; of the second what the product and the difference lose is kept."""
    fn = m.fn
    n = fn.intrinsic("roundeven", ty, fn.op("fmul", ty, x, constant(2 / math.pi, ty)))
    first = fn.fma(ty, n, constant(-PIO2[0], ty), x)
    second = fn.op("fmul", ty, n, constant(PIO2[1], ty))
    second_low = fn.fma(ty, n, constant(PIO2[1], ty), fn.neg(ty, second))
    r = fn.op("fsub", ty, first, second)
    # What the difference lost, whichever is larger (D. E. Knuth, TAOCP 2, 4.2.2).
    back = fn.op("fsub", ty, r, first)
    lost = fn.op("fsub", ty, first, fn.op("fsub", ty, r, back))
    lost = fn.op("fsub", ty, lost, fn.op("fadd", ty, second, back))
    low = fn.op("fsub", ty, lost, second_low)
    low = m.fma(ty, n, constant(-PIO2[2], ty), low)
    z = fn.op("fmul", ty, r, r)
    # sin(r + low) = r + (r**3 * P(z) + low * (1 - z/2)), and the like for the cosine.
    half = fn.op("fmul", ty, z, constant(0.5, ty))
    s = m.fma(ty, fn.op("fmul", ty, r, z), horner(m, ty, z, _SIN64), m.fma(ty, fn.neg(ty, low), half, low))
    s = fn.op("fadd", ty, r, s)
    one = constant(1.0, ty)
    head = fn.op("fsub", ty, one, half)
    tail = fn.op("fsub", ty, fn.op("fsub", ty, one, head), half)
    rest = m.fma(ty, fn.op("fmul", ty, z, z), horner(m, ty, z, _COS64), m.fma(ty, fn.neg(ty, r), low, tail))
    c = fn.op("fadd", ty, head, rest)
    y = _pick(m, ty, name, n, s, c)
    return y if name == "cos" else _keep_zero(m, ty, x, y)


def atan2(m: Machine, ty: VType, y: str, x: str) -> str:
    """The quotient of the smaller by the larger has an angle in [0, pi/4], which is mirrored into place."""
    return m.helper("atan2", ty, [(ty, y), (ty, x)], lambda inner, args: _atan2(inner, ty, args[0], args[1]))


def _atan2(m: Machine, ty: VType, y: str, x: str) -> str:
    fn, one = m.fn, constant(1.0, ty)
    wide = ty.elem == "double"
    ay, ax = fn.intrinsic("fabs", ty, y), fn.intrinsic("fabs", ty, x)
    steep = fn.op("fcmp ogt", ty, ay, ax)
    high, low = fn.select(steep, ty, ay, ax), fn.select(steep, ty, ax, ay)
    q = fn.op("fdiv", ty, low, high)
    q = fn.select(fn.op("fcmp oeq", ty, high, constant(0.0, ty)), ty, constant(0.0, ty), q)
    q = fn.select(fn.op("fcmp oeq", ty, low, constant(math.inf, ty)), ty, one, q)
    # Beyond tan(pi/8): atan(q) = pi/4 + atan((q - 1) / (q + 1)).
    far = fn.op("fcmp ogt", ty, q, constant(math.sqrt(2) - 1, ty))
    turned = fn.op("fdiv", ty, fn.op("fsub", ty, q, one), fn.op("fadd", ty, q, one))
    t = fn.select(far, ty, turned, q)
    z = fn.op("fmul", ty, t, t)
    a = m.fma(ty, fn.op("fmul", ty, t, z), horner(m, ty, z, _ATAN64 if wide else _ATAN32), t)
    a = fn.select(far, ty, _shifted(m, ty, a, 0.5), a)
    a = fn.select(steep, ty, _shifted(m, ty, fn.neg(ty, a), 1.0), a)
    bits = ty.of("i64" if wide else "i32")
    left = fn.op("icmp slt", bits, fn.cast("bitcast", ty, x, bits), constant(0, bits))
    a = fn.select(left, ty, _shifted(m, ty, fn.neg(ty, a), 2.0), a)
    a = fn.intrinsic("copysign", ty, a, y)
    return fn.select(fn.op("fcmp uno", ty, y, x), ty, fn.op("fadd", ty, y, x), a)


def _shifted(m: Machine, ty: VType, a: str, quarters: float) -> str:
    """``a + quarters * pi/2``, by a constant in two parts."""
    if ty.elem == "double":
        high, low = PIO2[0] * quarters, PIO2[1] * quarters
    else:  # pi/2 rounded to float32, and the rest
        high, low = 1.5707963705062866 * quarters, -4.3711390001862426e-08 * quarters
    return m.fn.op("fadd", ty, constant(high, ty), m.fn.op("fadd", ty, a, constant(low, ty)))
