"""Powers: of float32 vectors in float64, of float64 vectors in pairs of float64s, of integers by squaring."""

from __future__ import annotations

import math

from dyn.lower.x86 import double_math
from dyn.lower.x86.approx import clamp, horner
from dyn.lower.x86.branches import libm
from dyn.lower.x86.llvm_text import VType, constant, vtype
from dyn.lower.x86.machine import Machine

#: log2((1 + s) / (1 - s)) = s * P(s**2), |s| <= 0.1716, 8e-14.
_LOG2 = (
    2.8853900817778486, 0.9617966941153756, 0.5770779417536315, 0.4122093162145374, 0.31990299451815496,
    0.28293994991202626,
)  # fmt: skip
#: 2**r, |r| <= 1/2, 8e-13.
_EXP2 = (
    0.9999999999997622, 0.6931471805465149, 0.24022650698881465, 0.055504109393397456, 0.009618128542664209,
    0.0013333452063938114, 0.00015403851870344522, 1.530973700456916e-05, 1.3175834581886925e-06,
)  # fmt: skip


#: log((1 + s) / (1 - s)) = 2*s + 2/3 * s**3 + s**5 * P(s**2), |s| <= 0.1716, 1e-20.
_LOG64 = (
    0.4, 0.28571428571429364, 0.22222222221655943, 0.18181818335379513, 0.153845949639382, 0.1333480461663011,
    0.11706238407260777, 0.11723157001190189,
)  # fmt: skip
#: Constants in two float64 parts.
_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
_INV_LN2 = (1.4426950408889634, 2.0355273740931033e-17)
_LN2 = (0.6931471805599453, 2.3190468138462996e-17)
_Pair = tuple[str, str]


def power(m: Machine, ty: VType, x: str, y: str) -> str:
    """The special cases are C's (ISO/IEC 9899 annex F.10.4.4)."""
    size_of = _double_power if ty.elem == "double" else _float_power

    def build(inner: Machine, args: list[str]) -> str:
        base, exponent = args
        size = inner.fn.intrinsic("fabs", ty, base)
        return _with_sign(inner, ty, base, exponent, size, size_of(inner, ty, size, exponent))

    return m.helper("pow", ty, [(ty, x), (ty, y)], build)


def _float_power(m: Machine, ty: VType, size: str, y: str) -> str:
    """``size ** y`` for ``size`` not negative, by way of log2, but for 1 ** y and size ** 0."""
    fn, wide, bits = m.fn, ty.of("double"), ty.of("i64")
    d = fn.cast("fpext", ty, size, wide)  # float32's denormals are normal here
    pattern = fn.cast("bitcast", wide, d, bits)
    k = fn.op("ashr", bits, fn.op("sub", bits, pattern, constant(0x3FE6A09E667F3BCD, bits)), constant(52, bits))
    rest = fn.op("sub", bits, pattern, fn.op("shl", bits, k, constant(52, bits)))
    mantissa = fn.cast("bitcast", bits, rest, wide)
    one = constant(1.0, wide)
    s = fn.op("fdiv", wide, fn.op("fsub", wide, mantissa, one), fn.op("fadd", wide, mantissa, one))
    p = horner(m, wide, fn.op("fmul", wide, s, s), _LOG2)
    log2 = m.fma(wide, s, p, fn.cast("sitofp", bits, k, wide))
    zero = fn.op("fcmp oeq", ty, size, constant(0.0, ty))
    log2 = fn.select(zero, wide, constant(-math.inf, wide), log2)
    log2 = fn.select(fn.op("fcmp oeq", ty, size, constant(math.inf, ty)), wide, constant(math.inf, wide), log2)
    log2 = fn.select(fn.op("fcmp uno", ty, size, size), wide, d, log2)
    exponent = fn.op("fmul", wide, log2, fn.cast("fpext", ty, y, wide))
    exponent = clamp(m, wide, exponent, -200.0, 200.0)
    n = fn.intrinsic("roundeven", wide, exponent)
    e = horner(m, wide, fn.op("fsub", wide, exponent, n), _EXP2)
    shift = fn.op("shl", bits, fn.cast("fptosi", wide, n, bits), constant(52, bits))
    scaled = fn.cast("bitcast", bits, fn.op("add", bits, fn.cast("bitcast", wide, e, bits), shift), wide)
    not_a_number = fn.op("fcmp uno", wide, exponent, exponent)
    return fn.cast("fptrunc", wide, fn.select(not_a_number, wide, exponent, scaled), ty)


def _product(m: Machine, ty: VType, a: str, b: str) -> _Pair:
    """``a * b`` exactly, as a sum."""
    high = m.fn.op("fmul", ty, a, b)
    return high, m.fn.fma(ty, a, b, m.fn.neg(ty, high))


def _times(m: Machine, ty: VType, a: _Pair, b: _Pair) -> _Pair:
    """``a * b`` to about 2**-104."""
    high, low = _product(m, ty, a[0], b[0])
    return high, m.fma(ty, a[0], b[1], m.fma(ty, a[1], b[0], low))


def _sum(m: Machine, ty: VType, large: str, small: str) -> _Pair:
    """``large + small`` exactly, where the first is not the less."""
    high = m.fn.op("fadd", ty, large, small)
    return high, m.fn.op("fsub", ty, small, m.fn.op("fsub", ty, high, large))


def _constants(ty: VType, pair: tuple[float, float]) -> _Pair:
    return constant(pair[0], ty), constant(pair[1], ty)


def _log2(m: Machine, ty: VType, size: str) -> _Pair:
    """log2 of a finite size > 0, to 2**-65: multiplied by up to 1024 / log2, the error still is below 2**-54."""
    fn, one = m.fn, constant(1.0, ty)
    k, mantissa = double_math.split(m, ty, size)
    f = fn.op("fsub", ty, mantissa, one)
    d = fn.op("fadd", ty, mantissa, one)
    d_low = fn.op("fsub", ty, mantissa, fn.op("fsub", ty, d, one))
    s = fn.op("fdiv", ty, f, d)
    rest = fn.fma(ty, fn.neg(ty, s), d, f)
    rest = fn.fma(ty, fn.neg(ty, s), d_low, rest)
    s_pair = (s, fn.op("fdiv", ty, rest, d))
    z = _times(m, ty, s_pair, s_pair)
    cube = _times(m, ty, s_pair, z)
    third = _times(m, ty, _constants(ty, _THIRDS), cube)
    tail = fn.op("fmul", ty, fn.op("fmul", ty, cube[0], z[0]), horner(m, ty, z[0], _LOG64))
    twice = [fn.op("fadd", ty, v, v) for v in s_pair]
    high, low = _sum(m, ty, twice[0], third[0])
    low = fn.op("fadd", ty, low, fn.op("fadd", ty, twice[1], fn.op("fadd", ty, third[1], tail)))
    scaled = _times(m, ty, _sum(m, ty, high, low), _constants(ty, _INV_LN2))
    total, lost = _sum(m, ty, k, scaled[0])
    nothing = fn.op("fcmp oeq", ty, k, constant(0.0, ty))
    total = fn.select(nothing, ty, scaled[0], total)
    lost = fn.select(nothing, ty, constant(0.0, ty), lost)
    return _sum(m, ty, total, fn.op("fadd", ty, lost, scaled[1]))


def _double_power(m: Machine, ty: VType, size: str, y: str) -> str:
    """``size ** y`` for ``size`` not negative, but for 1 ** y and size ** 0."""
    fn = m.fn
    log2, low = _log2(m, ty, size)
    log2 = fn.select(fn.op("fcmp oeq", ty, size, constant(0.0, ty)), ty, constant(-math.inf, ty), log2)
    log2 = fn.select(fn.op("fcmp ueq", ty, size, constant(math.inf, ty)), ty, size, log2)  # infinity, and NaN
    exponent, rest = _product(m, ty, log2, y)
    rest = m.fma(ty, y, low, rest)
    far = fn.op("fcmp ogt", ty, fn.intrinsic("fabs", ty, exponent), constant(1100.0, ty))
    rest = fn.select(far, ty, constant(0.0, ty), rest)
    exponent = clamp(m, ty, exponent, -1100.0, 1100.0)
    n = fn.intrinsic("roundeven", ty, exponent)
    r, r_low = _product(m, ty, fn.op("fsub", ty, exponent, n), constant(_LN2[0], ty))
    r_low = m.fma(ty, rest, constant(_LN2[0], ty), r_low)
    r_low = m.fma(ty, fn.op("fsub", ty, exponent, n), constant(_LN2[1], ty), r_low)
    r, r_low = _sum(m, ty, r, r_low)
    e = m.fma(ty, fn.op("fmul", ty, r, r), horner(m, ty, r, double_math.EXP), r_low)
    e = fn.op("fadd", ty, constant(1.0, ty), fn.op("fadd", ty, r, e))
    return double_math.scale(m, ty, e, n)


def _with_sign(m: Machine, ty: VType, x: str, y: str, size: str, result: str) -> str:
    """``x ** y`` from ``|x| ** y``."""
    fn, i1, bits = m.fn, ty.of("i1"), ty.of("i64" if ty.elem == "double" else "i32")
    # The sign: negative bases have a power when y is an integer, which is negative when y is odd.
    whole = fn.op("fcmp oeq", ty, fn.intrinsic("trunc", ty, y), y)
    half = fn.op("fmul", ty, y, constant(0.5, ty))
    odd = fn.op("and", i1, whole, fn.op("fcmp one", ty, fn.intrinsic("trunc", ty, half), half))
    sign_bits = fn.cast("bitcast", ty, x, bits)
    negative = fn.op("icmp slt", bits, sign_bits, constant(0, bits))
    flipped = fn.select(fn.op("and", i1, negative, odd), ty, fn.neg(ty, result), result)
    below = fn.op(
        "and", i1, fn.op("fcmp olt", ty, x, constant(0.0, ty)), fn.op("fcmp one", ty, size, constant(math.inf, ty))
    )
    no_power = fn.op("and", i1, below, fn.op("xor", i1, whole, constant(True, i1)))
    flipped = fn.select(no_power, ty, constant(math.nan, ty), flipped)
    minus_one = fn.op(
        "and",
        i1,
        fn.op("fcmp oeq", ty, size, constant(1.0, ty)),
        fn.op("fcmp oeq", ty, fn.intrinsic("fabs", ty, y), constant(math.inf, ty)),
    )
    always_one = fn.op(
        "or", i1, fn.op("fcmp oeq", ty, x, constant(1.0, ty)), fn.op("fcmp oeq", ty, y, constant(0.0, ty))
    )
    always_one = fn.op("or", i1, always_one, minus_one)
    return fn.select(always_one, ty, constant(1.0, ty), flipped)


def integer_power(m: Machine, ty: VType, x: str, y: str, *, signed: bool) -> str:
    """Powers of integers, by squaring, wrapping. A negative exponent gives 0, but for the bases 1 and -1."""
    name = "ipow.s" if signed else "ipow.u"
    return m.helper(name, ty, [(ty, x), (ty, y)], lambda inner, args: _integer_power(inner, ty, *args, signed=signed))


def _integer_power(m: Machine, ty: VType, x: str, y: str, *, signed: bool) -> str:
    fn, i1 = m.fn, ty.of("i1")
    zero, one = constant(0, ty), constant(1, ty)
    loop, done = fn.label("square"), fn.label("done")
    fn.branch(loop)
    fn.start(loop)
    names = [fn.fresh() for _ in range(3)]
    phis = fn.chunk()
    result, base, exponent = names
    odd = fn.cast("trunc", ty, exponent, i1)
    new_result = fn.select(odd, ty, fn.op("mul", ty, result, base), result)
    new_base = fn.op("mul", ty, base, base)
    new_exponent = fn.op("lshr", ty, exponent, one)
    more = fn.op("icmp ne", ty, new_exponent, zero)
    if ty.lanes > 1:
        more = fn.call(f"llvm.vector.reduce.or.{i1.mangled}", vtype("i1"), [(i1, more)])
    for phi, start, following in zip(names, (one, x, y), (new_result, new_base, new_exponent), strict=True):
        phis.append(f"  {phi} = phi {ty} [ {start}, %entry ], [ {following}, %{loop} ]")
    fn.branch_if(more, loop, done)
    fn.start(done)
    if not signed:
        return new_result
    unit = fn.op("icmp eq", ty, x, one)
    minus = fn.op("icmp eq", ty, x, constant(-1, ty))
    sign = fn.select(fn.cast("trunc", ty, y, i1), ty, x, one)
    inverse = fn.select(fn.op("or", i1, unit, minus), ty, sign, zero)
    return fn.select(fn.op("icmp slt", ty, y, zero), ty, inverse, new_result)


def remainder(m: Machine, ty: VType, a: str, b: str) -> str:
    """C's ``fmod``, exact."""
    return libm(m, ty, "fmod", a, b)
