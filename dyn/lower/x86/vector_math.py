"""Elementary functions of float32 vectors, as inline polynomials.

The bounds are maximal errors in units in the last place of the float32 result, over all arguments; ``bounds.py`` has
them, and the tests check them. ±0, infinities, NaN and denormal arguments and results are as in C. float64 is in
``double_math.py``; what goes through float64 or needs branches is in ``trigonometry.py`` and ``powers.py``.

The polynomials are minimax fits of this file's own reductions (Lawson iteration in float64), and each reduction is
the usual one: J.-M. Muller, "Elementary Functions", 3rd ed., chapters 11 and 12.
"""

from __future__ import annotations

from collections.abc import Sequence

from dyn.lower.x86 import double_math, powers, table_math, trigonometry
from dyn.lower.x86.approx import at_most, clamp, cube_root, horner, odd_extremes, vanishing
from dyn.lower.x86.llvm_text import VType, constant, vtype
from dyn.lower.x86.machine import Machine

LOG2E = 1.4426950408889634
#: ln 2 in two parts; the first has few bits, so that its product with an exponent is exact.
LN2_HIGH, LN2_LOW = 0.693145751953125, 1.428606820309417e-06
INFINITY = float("inf")
#: exp(r) = 1 + r + r**2 * P(r), |r| <= ln(2)/2, 3e-9 relative.
_EXP = (0.4999999305071228, 0.16666514791278364, 0.041668456789811986, 0.008369418846514048, 0.0013813144392583136)
#: expm1(r) = r + r**2 * P(r), |r| <= ln(2)/2, 1.4e-8 relative to expm1.
_EXPM1 = (0.49999998041790716, 0.16666538682484827, 0.041667221269731894, 0.008367180866808781, 0.0013882395638355818)
#: log1p(f) = f - f**2/2 + f**3 * P(f), 1/sqrt(2) <= 1 + f <= sqrt(2), 5.8e-9 relative to log1p.
_LOG = (
    0.33333331657503207, -0.25000822716188686, 0.20001233387709955, -0.1662329829570729, 0.14201552918715482,
    -0.13160583087645522, 0.12763328441504387, -0.0763565543930219,
)  # fmt: skip
#: tanh(x) = x * P(x**2) / Q(x**2), |x| <= 8.3, 1.8e-8 relative; with float32 coefficients, as are the next.
_TANH_P = (1.0, 0.13428354263305664, 0.003552084555849433, 2.1555302737397142e-05, 1.4711430296188155e-08)
_TANH_Q = (1.0, 0.46761682629585266, 0.02609112486243248, 0.0003378666297066957, 8.321276254719123e-07)
#: erf(x) = x * P(x**2) / Q(x**2), |x| <= 3.75, 5.5e-8 relative.
_ERF_P = (
    1.128379225730896, 0.1610482931137085, 0.04946634918451309, 0.0026603457517921925, 0.0002878025406971574,
    2.654758418429992e-06,
)  # fmt: skip
_ERF_Q = (
    1.0, 0.4760601222515106, 0.10251836478710175, 0.012746285647153854, 0.0009452104568481445, 4.446554521564394e-05,
)  # fmt: skip
#: cbrt(m) = P(m), 1 <= m < 2, 9.2e-6 relative; one Newton step follows.
_CBRT = (0.5069794126581824, 0.7181538387632918, -0.30061145419035573, 0.08609129902761331, -0.010603888537231931)


def _is_zmm(m: Machine, ty: VType) -> bool:
    return m.avx512 and ty is vtype("float", 16)


def scale(m: Machine, ty: VType, x: str, n: str) -> str:
    """``x * 2**n`` for an integral ``n`` in [-252, 254]. NaN stays NaN."""
    fn = m.fn
    if _is_zmm(m, ty):
        name = "llvm.x86.avx512.mask.scalef.ps.512"
        return fn.call(name, ty, [(ty, x), (ty, n), (ty, x)], tail="i16 -1, i32 4")
    bits = ty.of("i32")
    k = fn.cast("fptosi", ty, n, bits)
    half = fn.op("ashr", bits, k, constant(1, bits))
    for part in (half, fn.op("sub", bits, k, half)):  # in two steps: 2**n itself may not be a float32
        x = fn.op("fmul", ty, x, _power_of_two(m, ty, part))
    return x


def _power_of_two(m: Machine, ty: VType, k: str) -> str:
    """``2**k`` for integers in [-126, 127]."""
    fn, bits = m.fn, ty.of("i32")
    biased = fn.op("add", bits, k, constant(127, bits))
    return fn.cast("bitcast", bits, fn.op("shl", bits, biased, constant(23, bits)), ty)


def _reduce_exp(m: Machine, ty: VType, x: str) -> tuple[str, str]:
    """``(n, r)`` with ``x == n*ln(2) + r``, n integral and ``|r| <= ln(2)/2``."""
    n = m.fn.intrinsic("roundeven", ty, m.fn.op("fmul", ty, x, constant(LOG2E, ty)))
    r = m.fma(ty, n, constant(-LN2_HIGH, ty), x)
    return n, m.fma(ty, n, constant(-LN2_LOW, ty), r)


def exp(m: Machine, ty: VType, x: str) -> str:
    """1 ulp."""
    if ty.elem == "double":
        return double_math.exp(m, ty, x)

    def exp_above(x: str) -> str:
        n, r = _reduce_exp(m, ty, at_most(m, ty, x, 89.0))
        return scale(m, ty, horner(m, ty, r, (1.0, 1.0, *_EXP)), n)

    return vanishing(m, ty, x, -104.0, exp_above)


def expm1(m: Machine, ty: VType, x: str) -> str:
    """2 ulp. ``2**n * expm1(r) + (2**n - 1)``, halved while 2**n may overflow."""
    if ty.elem == "double":
        return m.helper("expm1", ty, [(ty, x)], lambda inner, args: double_math.expm1(inner, ty, args[0]))
    fn = m.fn
    n, r = _reduce_exp(m, ty, clamp(m, ty, x, -18.0, 89.0))
    p = m.fma(ty, fn.op("fmul", ty, r, r), horner(m, ty, r, _EXPM1), r)
    k = fn.cast("fptosi", ty, n, ty.of("i32"))
    half = _power_of_two(m, ty, fn.op("sub", ty.of("i32"), k, constant(1, ty.of("i32"))))
    y = m.fma(ty, p, half, fn.op("fadd", ty, half, constant(-0.5, ty)))
    y = fn.op("fadd", ty, y, y)
    tiny = fn.op("fcmp olt", ty, fn.intrinsic("fabs", ty, x), constant(2.0**-30, ty))
    return fn.select(tiny, ty, x, y)


def _split_log(m: Machine, ty: VType, x: str) -> tuple[str, str]:
    """``(e, f)`` with ``x == 2**e * (1 + f)`` and ``1/sqrt(2) <= 1 + f < sqrt(2)``, both floats, for positive x.

    With AVX-512 ``e`` is infinite for 0 and infinity, and ``f`` is NaN for what is negative.
    """
    fn = m.fn
    if _is_zmm(m, ty):
        name = "llvm.x86.avx512.mask.getmant.ps.512"  # in [1, 2); 12: NaN for what is negative, 1 for -0
        fn.declare(f"declare {ty} @{name}({ty}, i32, {ty}, i16, i32)")
        mantissa = fn.value(f"call {ty} @{name}({ty} {x}, i32 12, {ty} {x}, i16 -1, i32 4)")
        e = fn.call("llvm.x86.avx512.mask.getexp.ps.512", ty, [(ty, x), (ty, x)], tail="i16 -1, i32 4")
        large = fn.op("fcmp ogt", ty, mantissa, constant(2**0.5, ty))
        mantissa = fn.select(large, ty, fn.op("fmul", ty, mantissa, constant(0.5, ty)), mantissa)
        e = fn.select(large, ty, fn.op("fadd", ty, e, constant(1.0, ty)), e)
    else:
        bits = ty.of("i32")
        tiny = fn.op("fcmp olt", ty, x, constant(2.0**-126, ty))
        normal = fn.select(tiny, ty, fn.op("fmul", ty, x, constant(2.0**23, ty)), x)
        pattern = fn.cast("bitcast", ty, normal, bits)
        offset = fn.op("sub", bits, pattern, constant(0x3F3504F3, bits))
        k = fn.op("ashr", bits, offset, constant(23, bits))
        rest = fn.op("sub", bits, pattern, fn.op("shl", bits, k, constant(23, bits)))
        mantissa = fn.cast("bitcast", bits, rest, ty)
        shift = fn.select(tiny, ty, constant(-23.0, ty), constant(0.0, ty))
        e = fn.op("fadd", ty, fn.cast("sitofp", bits, k, ty), shift)
    return e, fn.op("fadd", ty, mantissa, constant(-1.0, ty))


def _join_log(m: Machine, ty: VType, e: str, f: str) -> str:
    """``e*ln(2) + log1p(f)``, the small terms first."""
    fn = m.fn
    square = fn.op("fmul", ty, f, f)
    y = fn.op("fmul", ty, fn.op("fmul", ty, f, square), horner(m, ty, f, _LOG))
    y = m.fma(ty, e, constant(LN2_LOW, ty), y)
    y = m.fma(ty, square, constant(-0.5, ty), y)
    y = fn.op("fadd", ty, y, f)
    return m.fma(ty, e, constant(LN2_HIGH, ty), y)


def _log_specials(m: Machine, ty: VType, x: str, y: str) -> str:
    """The logarithm of zero, infinity, NaN and what is negative; ``y`` for the rest."""
    if _is_zmm(m, ty):
        return y
    fn = m.fn
    y = fn.select(fn.op("fcmp olt", ty, x, constant(INFINITY, ty)), ty, y, x)  # infinity and NaN stay
    y = fn.select(fn.op("fcmp oeq", ty, x, constant(0.0, ty)), ty, constant(-INFINITY, ty), y)
    return fn.select(fn.op("fcmp olt", ty, x, constant(0.0, ty)), ty, constant(float("nan"), ty), y)


def log(m: Machine, ty: VType, x: str) -> str:
    """1 ulp."""
    if ty.elem == "double":
        return double_math.log(m, ty, x)
    return _log_specials(m, ty, x, _join_log(m, ty, *_split_log(m, ty, x)))


def log1p(m: Machine, ty: VType, x: str) -> str:
    """2 ulp. The logarithm of ``u = 1 + x``, where what the sum lost is put back into the mantissa."""
    if ty.elem == "double":
        return m.helper("log1p", ty, [(ty, x)], lambda inner, args: double_math.log1p(inner, ty, args[0]))
    fn = m.fn
    one = constant(1.0, ty)
    u = fn.op("fadd", ty, x, one)
    lost = fn.op("fsub", ty, x, fn.op("fadd", ty, u, constant(-1.0, ty)))
    big = fn.op("fcmp oge", ty, x, constant(1.0, ty))  # then the larger summand is x
    lost = fn.select(big, ty, fn.op("fsub", ty, one, fn.op("fsub", ty, u, x)), lost)
    e, f = _split_log(m, ty, u)
    ordinary = fn.op("fcmp ogt", ty, u, constant(0.0, ty))
    ordinary = fn.op("and", ty.of("i1"), ordinary, fn.op("fcmp olt", ty, u, constant(2.0**64, ty)))
    exponent = fn.select(ordinary, ty, fn.op("fsub", ty, constant(0.0, ty), e), constant(0.0, ty))
    lost = fn.select(ordinary, ty, lost, constant(0.0, ty))
    f = fn.op("fadd", ty, f, scale(m, ty, lost, exponent))
    y = _log_specials(m, ty, u, _join_log(m, ty, e, f))
    tiny = fn.op("fcmp olt", ty, fn.intrinsic("fabs", ty, x), constant(2.0**-30, ty))
    return fn.select(tiny, ty, x, y)


def logistic(m: Machine, ty: VType, x: str) -> str:
    """3 ulp. ``1 / (1 + e)`` or ``e / (1 + e)`` with ``e = exp(-|x|)``."""
    fn = m.fn
    e = exp(m, ty, fn.neg(ty, fn.intrinsic("fabs", ty, x)))
    one = constant(1.0, ty)
    numerator = fn.select(fn.op("fcmp olt", ty, x, constant(0.0, ty)), ty, e, one)
    return fn.op("fdiv", ty, numerator, fn.op("fadd", ty, e, one))


def _odd_rational(m: Machine, ty: VType, x: str, p: Sequence[float], q: Sequence[float], limit: float) -> str:
    """``x * P(x**2) / Q(x**2)``, within [-1, 1]. Beyond the limit the quotient grows past 1, and is cut off."""
    fn = m.fn
    u = fn.op("fmul", ty, x, x)
    most = constant(limit * limit, ty)
    u = fn.select(fn.op("fcmp olt", ty, most, u), ty, most, u)
    y = fn.op("fdiv", ty, fn.op("fmul", ty, x, horner(m, ty, u, p)), horner(m, ty, u, q))
    return clamp(m, ty, y, -1.0, 1.0)


def tanh(m: Machine, ty: VType, x: str) -> str:
    """5 ulp."""
    if ty.elem == "double":
        return m.helper("tanh", ty, [(ty, x)], lambda inner, args: double_math.tanh(inner, ty, args[0]))
    return _odd_rational(m, ty, x, _TANH_P, _TANH_Q, 8.3)


def erf(m: Machine, ty: VType, x: str) -> str:
    """6 ulp; 3 with AVX-512."""
    if ty.elem == "double":
        return m.helper("erf", ty, [(ty, x)], lambda inner, args: double_math.erf(inner, ty, args[0]))
    if _is_zmm(m, ty):
        return table_math.erf(m, ty, x)
    return _odd_rational(m, ty, x, _ERF_P, _ERF_Q, 3.75)


def rsqrt(m: Machine, ty: VType, x: str) -> str:
    """2 ulp, float64 too."""
    return m.fn.op("fdiv", ty, constant(1.0, ty), m.fn.intrinsic("sqrt", ty, x))


def cbrt(m: Machine, ty: VType, x: str) -> str:
    """1 ulp."""
    root = double_math.cbrt if ty.elem == "double" else _cbrt
    return m.helper("cbrt", ty, [(ty, x)], lambda inner, args: root(inner, ty, args[0]))


def _cbrt(m: Machine, ty: VType, x: str) -> str:
    """``x == m * 2**(3q + r)``: a polynomial in m, times the root of 2**r, one Newton step, times 2**q."""
    fn, bits = m.fn, ty.of("i32")
    size = fn.intrinsic("fabs", ty, x)
    tiny = fn.op("fcmp olt", ty, size, constant(2.0**-126, ty))
    normal = fn.select(tiny, ty, fn.op("fmul", ty, size, constant(2.0**24, ty)), size)
    pattern = fn.cast("bitcast", ty, normal, bits)
    biased = fn.op("lshr", bits, pattern, constant(23, bits))
    # 127 = 3*42 + 1: with two more, biased + 2 = 3*(q + 43) + r.
    shifted = fn.op("add", bits, biased, constant(2, bits))
    third = fn.op("lshr", bits, fn.op("mul", bits, shifted, constant(0x5556, bits)), constant(16, bits))
    r = fn.op("sub", bits, shifted, fn.op("mul", bits, third, constant(3, bits)))
    fraction = fn.op("and", bits, pattern, constant(0x007FFFFF, bits))
    mantissa = fn.cast("bitcast", bits, fn.op("or", bits, fraction, constant(0x3F800000, bits)), ty)
    y = cube_root(m, ty, bits, mantissa, r, _CBRT, steps=1)
    offset = fn.select(tiny, bits, constant(-43 - 8, bits), constant(-43, bits))
    y = fn.op("fmul", ty, y, _power_of_two(m, ty, fn.op("add", bits, third, offset)))
    return odd_extremes(m, ty, x, size, y)


sin, cos, tan, atan2 = trigonometry.sin, trigonometry.cos, trigonometry.tan, trigonometry.atan2
pow_, integer_pow, remainder = powers.power, powers.integer_power, powers.remainder
