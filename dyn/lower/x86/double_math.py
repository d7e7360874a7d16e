"""Elementary functions of float64 vectors, as inline polynomials.

As in ``vector_math.py``: the bounds, in ``bounds.py``, hold for all arguments; ±0, infinities, NaN and denormals are as
in C. The polynomials interpolate at Chebyshev's nodes, with 60 digits; each states its error relative to the function.
"""

from __future__ import annotations

from dyn.lower.x86.approx import at_most, clamp, cube_root, horner, odd_extremes, vanishing
from dyn.lower.x86.llvm_text import VType, constant, vtype
from dyn.lower.x86.machine import Machine

LOG2E = 1.4426950408889634
#: ln 2 in two parts; the first has 32 bits, so that its product with an exponent is exact.
LN2_HIGH, LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
INFINITY = float("inf")
#: exp(r) = 1 + r + r**2 * P(r), |r| <= ln(2)/2, 1e-18, relative to expm1 as well.
EXP = (
    0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326136, 0.0013888888888883748, 0.00019841269874820627,
    2.4801587325547743e-05, 2.7557255400206422e-06, 2.75572736431103e-07, 2.5105217004720745e-08,
    2.0914686968086876e-09,
)  # fmt: skip
#: log((1 + s) / (1 - s)) = 2*s + s * z * P(z), z = s**2 <= 0.02944, 5e-18.
_LOG = (
    0.666666666666667, 0.39999999999899455, 0.2857142862599856, 0.2222221113102852, 0.1818288939967772,
    0.15331712479381301, 0.14616562422104645,
)  # fmt: skip
#: erf(x) = x * (2/sqrt(pi) + z * P(z)), z = x**2 <= 1, 4e-17.
_ERF = (
    -0.3761263890318375, 0.11283791670954388, -0.026866170644835378, 0.005223977620813342, -0.0008548326651491142,
    0.00012055315509827725, -1.4925137231361603e-05, 1.6452392414414235e-06, -1.624658795725963e-07,
    1.3884625209147687e-08, -8.101869549660952e-10,
)  # fmt: skip
#: 2/sqrt(pi) - 1
_ERF_SLOPE = 0.1283791670955126
#: erfc(x) = exp(-x**2) * P((x - 2) / (x + 2)), 1 <= x <= 6, 2e-17 absolute.
_ERFC = (
    0.2553956763105057, -0.4271858474139585, 0.24165819424248763, -0.07897858101571269, 0.0037328924016564484,
    0.006997461739200575, -0.0008471431229415333, -0.0009819771114740715, 4.355265359817883e-05,
    0.00017436477257256738, 2.7560352756678313e-05, -2.7640727821912852e-05, -1.4166339069117108e-05,
    1.859427387429402e-06, 4.146302183268488e-06, -2.2281295763723517e-07,
)  # fmt: skip
#: cbrt(m) = P(m), 1 <= m < 2, 9.2e-6 relative; two Newton steps follow.
_CBRT = (0.5069794126581824, 0.7181538387632918, -0.30061145419035573, 0.08609129902761331, -0.010603888537231931)
#: Added to an integral number below 2**51, this leaves it in the lowest bits.
MAGIC = 6755399441055744.0


def is_zmm(m: Machine, ty: VType) -> bool:
    return m.avx512 and ty is vtype("double", 8)


def power_of_two(m: Machine, ty: VType, n: str) -> str:
    """``2**n`` for an integral double in [-1022, 1023]."""
    fn, bits = m.fn, ty.of("i64")
    number = fn.cast("bitcast", ty, fn.op("fadd", ty, n, constant(MAGIC, ty)), bits)
    biased = fn.op("add", bits, number, constant(1023, bits))
    return fn.cast("bitcast", bits, fn.op("shl", bits, biased, constant(52, bits)), ty)


def scale(m: Machine, ty: VType, x: str, n: str) -> str:
    """``x * 2**n`` for an integral ``n`` in [-2044, 2046]. NaN stays NaN."""
    fn = m.fn
    if is_zmm(m, ty):
        name = "llvm.x86.avx512.mask.scalef.pd.512"
        return fn.call(name, ty, [(ty, x), (ty, n), (ty, x)], tail="i8 -1, i32 4")
    half = fn.intrinsic("roundeven", ty, fn.op("fmul", ty, n, constant(0.5, ty)))
    for part in (half, fn.op("fsub", ty, n, half)):  # in two steps: 2**n itself may not be a float64
        x = fn.op("fmul", ty, x, power_of_two(m, ty, part))
    return x


def _reduce_exp(m: Machine, ty: VType, x: str) -> tuple[str, str]:
    """``(n, r)`` with ``x == n*ln(2) + r``, n integral and ``|r| <= ln(2)/2``."""
    n = m.fn.intrinsic("roundeven", ty, m.fn.op("fmul", ty, x, constant(LOG2E, ty)))
    r = m.fma(ty, n, constant(-LN2_HIGH, ty), x)
    return n, m.fma(ty, n, constant(-LN2_LOW, ty), r)


def exp(m: Machine, ty: VType, x: str) -> str:
    def exp_above(x: str) -> str:
        n, r = _reduce_exp(m, ty, at_most(m, ty, x, 710.5))
        return scale(m, ty, horner(m, ty, r, (1.0, 1.0, *EXP)), n)

    return vanishing(m, ty, x, -746.0, exp_above)


def expm1(m: Machine, ty: VType, x: str) -> str:
    """``2**n * expm1(r) + (2**n - 1)``, halved while 2**n may overflow."""
    fn = m.fn
    n, r = _reduce_exp(m, ty, clamp(m, ty, x, -40.0, 709.9))
    p = m.fma(ty, fn.op("fmul", ty, r, r), horner(m, ty, r, EXP), r)
    half = power_of_two(m, ty, fn.op("fadd", ty, n, constant(-1.0, ty)))
    y = m.fma(ty, p, half, fn.op("fadd", ty, half, constant(-0.5, ty)))
    y = fn.op("fadd", ty, y, y)
    tiny = fn.op("fcmp olt", ty, fn.intrinsic("fabs", ty, x), constant(2.0**-54, ty))
    return fn.select(tiny, ty, x, y)


def split(m: Machine, ty: VType, x: str) -> tuple[str, str]:
    """``(e, mantissa)`` with ``x == 2**e * mantissa`` and ``1/sqrt(2) <= mantissa < sqrt(2)``, for finite x > 0."""
    fn, bits = m.fn, ty.of("i64")
    tiny = fn.op("fcmp olt", ty, x, constant(2.0**-1022, ty))
    normal = fn.select(tiny, ty, fn.op("fmul", ty, x, constant(2.0**54, ty)), x)
    pattern = fn.cast("bitcast", ty, normal, bits)
    offset = fn.op("sub", bits, pattern, constant(0x3FE6A09E667F3BCD, bits))
    k = fn.op("ashr", bits, offset, constant(52, bits))
    rest = fn.op("sub", bits, pattern, fn.op("shl", bits, k, constant(52, bits)))
    shift = fn.select(tiny, ty, constant(-54.0, ty), constant(0.0, ty))
    e = fn.op("fadd", ty, fn.cast("sitofp", bits, k, ty), shift)
    return e, fn.cast("bitcast", bits, rest, ty)


def _join_log(m: Machine, ty: VType, e: str, f: str) -> str:
    """``e*ln(2) + log1p(f)``: with ``s = f / (2 + f)`` the latter is ``f - f*f/2 + s * (f*f/2 + z*P(z))``."""
    fn = m.fn
    s = fn.op("fdiv", ty, f, fn.op("fadd", ty, f, constant(2.0, ty)))
    z = fn.op("fmul", ty, s, s)
    half_square = fn.op("fmul", ty, fn.op("fmul", ty, f, f), constant(0.5, ty))
    rest = m.fma(ty, z, horner(m, ty, z, _LOG), half_square)
    y = m.fma(ty, s, rest, fn.op("fmul", ty, e, constant(LN2_LOW, ty)))
    y = fn.op("fsub", ty, fn.op("fsub", ty, half_square, y), f)
    return fn.op("fsub", ty, fn.op("fmul", ty, e, constant(LN2_HIGH, ty)), y)


def _log_specials(m: Machine, ty: VType, x: str, y: str) -> str:
    """The logarithm of zero, infinity, NaN and what is negative; ``y`` for the rest."""
    fn = m.fn
    y = fn.select(fn.op("fcmp olt", ty, x, constant(INFINITY, ty)), ty, y, x)  # infinity and NaN stay
    y = fn.select(fn.op("fcmp oeq", ty, x, constant(0.0, ty)), ty, constant(-INFINITY, ty), y)
    return fn.select(fn.op("fcmp olt", ty, x, constant(0.0, ty)), ty, constant(float("nan"), ty), y)


def log(m: Machine, ty: VType, x: str) -> str:
    e, mantissa = split(m, ty, x)
    f = m.fn.op("fadd", ty, mantissa, constant(-1.0, ty))
    return _log_specials(m, ty, x, _join_log(m, ty, e, f))


def log1p(m: Machine, ty: VType, x: str) -> str:
    """The logarithm of ``u = 1 + x``, where what the sum lost is put back into the mantissa."""
    fn = m.fn
    one = constant(1.0, ty)
    u = fn.op("fadd", ty, x, one)
    lost = fn.op("fsub", ty, x, fn.op("fadd", ty, u, constant(-1.0, ty)))
    big = fn.op("fcmp oge", ty, x, one)  # then the larger summand is x
    lost = fn.select(big, ty, fn.op("fsub", ty, one, fn.op("fsub", ty, u, x)), lost)
    e, mantissa = split(m, ty, u)
    ordinary = fn.op("fcmp ogt", ty, u, constant(0.0, ty))
    ordinary = fn.op("and", ty.of("i1"), ordinary, fn.op("fcmp olt", ty, u, constant(2.0**128, ty)))
    exponent = fn.select(ordinary, ty, fn.op("fsub", ty, constant(0.0, ty), e), constant(0.0, ty))
    lost = fn.select(ordinary, ty, lost, constant(0.0, ty))
    f = fn.op("fadd", ty, fn.op("fadd", ty, mantissa, constant(-1.0, ty)), scale(m, ty, lost, exponent))
    y = _log_specials(m, ty, u, _join_log(m, ty, e, f))
    tiny = fn.op("fcmp olt", ty, fn.intrinsic("fabs", ty, x), constant(2.0**-54, ty))
    return fn.select(tiny, ty, x, y)


def tanh(m: Machine, ty: VType, x: str) -> str:
    """``-t / (t + 2)`` with ``t = expm1(-2|x|)``."""
    fn = m.fn
    t = expm1(m, ty, fn.op("fmul", ty, fn.intrinsic("fabs", ty, x), constant(-2.0, ty)))
    y = fn.op("fdiv", ty, t, fn.op("fadd", ty, t, constant(2.0, ty)))
    return fn.intrinsic("copysign", ty, y, x)


def erf(m: Machine, ty: VType, x: str) -> str:
    """A polynomial below 1, ``1 - erfc(|x|)`` above."""
    fn = m.fn
    size = fn.intrinsic("fabs", ty, x)
    six = constant(6.0, ty)
    size = fn.select(fn.op("fcmp olt", ty, six, size), ty, six, size)
    square = fn.op("fmul", ty, size, size)
    slope = m.fma(ty, square, horner(m, ty, square, _ERF), constant(_ERF_SLOPE, ty))
    small = m.fma(ty, size, slope, size)
    two = constant(2.0, ty)
    t = fn.op("fdiv", ty, fn.op("fsub", ty, size, two), fn.op("fadd", ty, size, two))
    tail = fn.op("fmul", ty, exp(m, ty, fn.neg(ty, square)), horner(m, ty, t, _ERFC))
    large = fn.op("fsub", ty, constant(1.0, ty), tail)
    y = fn.select(fn.op("fcmp olt", ty, size, constant(1.0, ty)), ty, small, large)
    return fn.intrinsic("copysign", ty, y, x)


def cbrt(m: Machine, ty: VType, x: str) -> str:
    """``x == m * 2**(3q + r)``: a polynomial in m, times the root of 2**r, two Newton steps, times 2**q."""
    fn, bits = m.fn, ty.of("i64")
    size = fn.intrinsic("fabs", ty, x)
    tiny = fn.op("fcmp olt", ty, size, constant(2.0**-1022, ty))
    normal = fn.select(tiny, ty, fn.op("fmul", ty, size, constant(2.0**54, ty)), size)
    pattern = fn.cast("bitcast", ty, normal, bits)
    biased = fn.op("lshr", bits, pattern, constant(52, bits))  # 1023 = 3 * 341
    third = fn.op("lshr", bits, fn.op("mul", bits, biased, constant(0x5556, bits)), constant(16, bits))
    r = fn.op("sub", bits, biased, fn.op("mul", bits, third, constant(3, bits)))
    fraction = fn.op("and", bits, pattern, constant((1 << 52) - 1, bits))
    mantissa = fn.cast("bitcast", bits, fn.op("or", bits, fraction, constant(0x3FF0000000000000, bits)), ty)
    y = cube_root(m, ty, bits, mantissa, r, _CBRT, steps=2)
    offset = fn.select(tiny, bits, constant(1023 - 341 - 18, bits), constant(1023 - 341, bits))
    exponent = fn.op("shl", bits, fn.op("add", bits, third, offset), constant(52, bits))
    y = fn.op("fmul", ty, y, fn.cast("bitcast", bits, exponent, ty))
    return odd_extremes(m, ty, x, size, y)
