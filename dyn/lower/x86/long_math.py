"""Functions that are called rather than inlined: long ones, ones with branches, and libm's.

float32 sines and powers are computed in float64 vectors, which makes the reductions easy. float64 functions are
libm's, an element at a time; the loader finds them in the process. Their errors are libm's, below 1 ulp with glibc.
"""

from __future__ import annotations

import math

from dyn.lower.x86.approx import clamp, horner
from dyn.lower.x86.llvm_text import VType, constant, vtype
from dyn.lower.x86.machine import Machine

#: pi/2 in three float64 parts.
PIO2 = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
#: sin(r) = r * P(r**2) and cos(r) = P(r**2), |r| <= pi/4, 4.4e-12 and 5.6e-14.
_SIN = (0.9999999999956383, -0.16666666631354604, 0.008333328758765246, -0.0001983919489563779, 2.717276903221877e-06)
_COS = (
    0.9999999999999437, -0.4999999999934491, 0.041666666542988035, -0.0013888880345986898, 2.479891877858048e-05,
    -2.717270929201987e-07,
)  # fmt: skip
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


def libm(m: Machine, ty: VType, name: str, *args: str) -> str:
    """A function of libm's, an element at a time."""

    def build(inner: Machine, names: list[str]) -> str:
        return _elementwise(inner, ty, name, names)

    return m.helper(f"libm.{name}", ty, [(ty, a) for a in args], build)


def _elementwise(m: Machine, ty: VType, name: str, args: list[str]) -> str:
    fn, scalar = m.fn, vtype(ty.elem)
    symbol = name + "f" if ty.elem == "float" else name
    result = "poison"
    for lane in range(ty.lanes):
        value = fn.call(symbol, scalar, [(scalar, fn.extract(ty, a, lane)) for a in args])
        if ty.lanes == 1:
            return value
        result = fn.value(f"insertelement {ty} {result}, {scalar} {value}, i64 {lane}")
    return result


def sin(m: Machine, ty: VType, x: str) -> str:
    """1 ulp for every argument."""
    return _sine(m, ty, "sin", x)


def cos(m: Machine, ty: VType, x: str) -> str:
    """1 ulp for every argument."""
    return _sine(m, ty, "cos", x)


def _sine(m: Machine, ty: VType, name: str, x: str) -> str:
    if ty.elem == "double":
        return libm(m, ty, name, x)

    def build(inner: Machine, args: list[str]) -> str:
        large = inner.fn.op("fcmp oge", ty, inner.fn.intrinsic("fabs", ty, args[0]), constant(2.0**40, ty))
        return _either(
            inner,
            ty,
            large,
            lambda: _elementwise(inner, ty, name, args),
            lambda: _reduced_sine(inner, ty, name, args[0]),
        )

    return m.helper(name, ty, [(ty, x)], build)


def _either(m: Machine, ty: VType, rare: str, slow: object, quick: object) -> str:
    """``slow()`` if ``rare`` holds in any lane, else ``quick()``."""
    fn = m.fn
    assert callable(slow)
    assert callable(quick)
    any_rare = rare
    if ty.lanes > 1:
        mask = ty.of("i1")
        any_rare = fn.call(f"llvm.vector.reduce.or.{mask.mangled}", vtype("i1"), [(mask, rare)])
    then, otherwise, done = fn.label("slow"), fn.label("quick"), fn.label("done")
    fn.branch_if(any_rare, then, otherwise)
    results: list[tuple[str, str]] = []
    for label, compute in ((then, slow), (otherwise, quick)):
        fn.start(label)
        value = str(compute())
        results.append((value, fn.block))
        fn.branch(done)
    fn.start(done)
    return fn.value(f"phi {ty} " + ", ".join([f"[ {value}, %{block} ]" for value, block in results]))


def _reduced_sine(m: Machine, ty: VType, name: str, x: str) -> str:
    """``x == n*pi/2 + r`` in float64, exact enough for |x| < 2**40; then a sine or a cosine of r, by n's last bits."""
    fn, wide, bits = m.fn, ty.of("double"), ty.of("i64")
    d = fn.cast("fpext", ty, x, wide)
    n = fn.intrinsic("roundeven", wide, fn.op("fmul", wide, d, constant(2 / math.pi, wide)))
    r = d
    for part in PIO2[:2]:
        r = fn.fma(wide, n, constant(-part, wide), r)
    quadrant = fn.cast("fptosi", wide, n, bits)
    if name == "cos":
        quadrant = fn.op("add", bits, quadrant, constant(1, bits))
    square = fn.op("fmul", wide, r, r)
    s = fn.op("fmul", wide, r, horner(m, wide, square, _SIN))
    c = horner(m, wide, square, _COS)
    odd = fn.cast("trunc", bits, quadrant, ty.of("i1"))
    y = fn.select(odd, wide, c, s)
    negative = fn.cast("trunc", bits, fn.op("lshr", bits, quadrant, constant(1, bits)), ty.of("i1"))
    y = fn.cast("fptrunc", wide, fn.select(negative, wide, fn.neg(wide, y), y), ty)
    if name == "sin":  # a zero keeps its sign
        return fn.select(fn.op("fcmp oeq", ty, x, constant(0.0, ty)), ty, x, y)
    return y


def power(m: Machine, ty: VType, x: str, y: str) -> str:
    """1 ulp; the special cases are C's (ISO/IEC 9899 annex F.10.4.4)."""
    if ty.elem == "double":
        return libm(m, ty, "pow", x, y)
    return m.helper("pow", ty, [(ty, x), (ty, y)], lambda inner, args: _power(inner, ty, args[0], args[1]))


def _power(m: Machine, ty: VType, x: str, y: str) -> str:
    fn, wide, bits, i1 = m.fn, ty.of("double"), ty.of("i64"), ty.of("i1")
    size = fn.intrinsic("fabs", ty, x)
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
    log2 = fn.select(fn.op("fcmp uno", ty, x, x), wide, d, log2)
    exponent = fn.op("fmul", wide, log2, fn.cast("fpext", ty, y, wide))
    exponent = clamp(m, wide, exponent, -200.0, 200.0)
    n = fn.intrinsic("roundeven", wide, exponent)
    e = horner(m, wide, fn.op("fsub", wide, exponent, n), _EXP2)
    shift = fn.op("shl", bits, fn.cast("fptosi", wide, n, bits), constant(52, bits))
    scaled = fn.cast("bitcast", bits, fn.op("add", bits, fn.cast("bitcast", wide, e, bits), shift), wide)
    not_a_number = fn.op("fcmp uno", wide, exponent, exponent)
    result = fn.cast("fptrunc", wide, fn.select(not_a_number, wide, exponent, scaled), ty)
    # The sign: negative bases have a power when y is an integer, which is negative when y is odd.
    whole = fn.op("fcmp oeq", ty, fn.intrinsic("trunc", ty, y), y)
    half = fn.op("fmul", ty, y, constant(0.5, ty))
    odd = fn.op("and", i1, whole, fn.op("fcmp one", ty, fn.intrinsic("trunc", ty, half), half))
    sign_bits = fn.cast("bitcast", ty, x, ty.of("i32"))
    negative = fn.op("icmp slt", ty.of("i32"), sign_bits, constant(0, ty.of("i32")))
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
    """By squaring, wrapping. A negative exponent gives 0, but for the bases 1 and -1."""
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
    """C's ``fmod``, exact. Division where the quotient is small, libm otherwise."""
    return libm(m, ty, "fmod", a, b)
