"""Conversions between dtypes, as the documentation of ``Scalar.CAST`` says."""

from __future__ import annotations

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.lower.x86 import float8
from dyn.lower.x86.llvm_text import VType, constant
from dyn.lower.x86.machine import Machine


def cast(m: Machine, source: DType, result: DType, ty: VType, to: VType, a: str) -> str:
    """``a`` of dtype ``source`` as a ``result``; ``ty`` and ``to`` are their types in registers."""
    fn = m.fn
    if source is result:
        return a
    if source.is_narrow:
        wide = ty.of("float")
        return cast(m, dtypes.float32, result, wide, to, _from_narrow(m, source, ty, a))
    if result.is_narrow:
        if source is dtypes.float64:
            a, source = round_to_odd(m, ty, a), dtypes.float32
            ty = ty.of("float")
        wide = ty.of("float")
        return _to_narrow(m, result, wide, cast(m, source, dtypes.float32, ty, wide, a))
    if result is dtypes.bool_:
        return fn.op("fcmp une" if ty.is_float else "icmp ne", ty, a, constant(0, ty))
    if to.is_float:
        if ty.is_float:
            return fn.cast("fpext" if to.bits > ty.bits else "fptrunc", ty, a, to)
        return fn.cast("sitofp" if source.kind is Kind.INT else "uitofp", ty, a, to)
    if ty.is_float:
        return float_to_integer(m, result, ty, to, a)
    if to.bits == ty.bits:
        return a
    if to.bits < ty.bits:
        return fn.cast("trunc", ty, a, to)
    return fn.cast("sext" if source.kind is Kind.INT else "zext", ty, a, to)


def float_to_integer(m: Machine, result: DType, ty: VType, to: VType, a: str) -> str:
    """Truncating and saturating; NaN gives 0."""
    sign = "s" if result.kind is Kind.INT else "u"
    return m.fn.call(f"llvm.fpto{sign}i.sat.{to.mangled}.{ty.mangled}", to, [(ty, a)])


def _from_narrow(m: Machine, dtype: DType, ty: VType, a: str) -> str:
    return float8.decode(m, dtype, ty, a) if dtype.bits == 8 else from_half(m, dtype, ty, a)


def _to_narrow(m: Machine, dtype: DType, ty: VType, a: str) -> str:
    return float8.encode(m, dtype, ty, a) if dtype.bits == 8 else to_half(m, dtype, ty, a)


def from_half(m: Machine, dtype: DType, ty: VType, a: str) -> str:
    """The bits of a float16 or bfloat16 (``ty`` is i16) as float32. Exact."""
    fn = m.fn
    if dtype is dtypes.bfloat16:
        wide = ty.of("i32")
        shifted = fn.op("shl", wide, fn.cast("zext", ty, a, wide), constant(16, wide))
        return fn.cast("bitcast", wide, shifted, ty.of("float"))
    if m.has_f16c:
        half = ty.of("half")
        return fn.cast("fpext", half, fn.cast("bitcast", ty, a, half), ty.of("float"))
    return _half_to_float(m, ty, a)


def to_half(m: Machine, dtype: DType, ty: VType, a: str) -> str:
    """A float32 as the bits of a float16 or bfloat16, rounded to nearest, ties to even; NaN stays NaN."""
    fn = m.fn
    if dtype is dtypes.float16 and not m.has_f16c:
        return _float_to_half(m, ty, a)
    if dtype is dtypes.float16:
        half = ty.of("half")
        return fn.cast("bitcast", half, fn.cast("fptrunc", ty, a, half), ty.of("i16"))
    wide = ty.of("i32")
    bits = fn.cast("bitcast", ty, a, wide)
    odd = fn.op("and", wide, fn.op("lshr", wide, bits, constant(16, wide)), constant(1, wide))
    rounded = fn.op("add", wide, fn.op("add", wide, bits, constant(0x7FFF, wide)), odd)
    quiet = fn.op("or", wide, bits, constant(0x00400000, wide))
    rounded = fn.select(fn.op("fcmp uno", ty, a, a), wide, quiet, rounded)
    return fn.cast("trunc", wide, fn.op("lshr", wide, rounded, constant(16, wide)), ty.of("i16"))


def _half_to_float(m: Machine, ty: VType, a: str) -> str:
    """float16 to float32 without the instruction: exponent and fraction in place, times 2**112, which is exact."""
    fn, bits, single = m.fn, ty.of("i32"), ty.of("float")
    wide = fn.cast("zext", ty, a, bits)
    size = fn.op("shl", bits, fn.op("and", bits, wide, constant(0x7FFF, bits)), constant(13, bits))
    scaled = fn.op("fmul", single, fn.cast("bitcast", bits, size, single), constant(2.0**112, single))
    number = fn.cast("bitcast", single, scaled, bits)
    special = fn.op("icmp uge", bits, size, constant(0x7C00 << 13, bits))  # infinity and NaN keep their fraction
    number = fn.select(special, bits, fn.op("or", bits, size, constant(0x7F800000, bits)), number)
    sign = fn.op("shl", bits, fn.op("and", bits, wide, constant(0x8000, bits)), constant(16, bits))
    return fn.cast("bitcast", bits, fn.op("or", bits, number, sign), single)


def _float_to_half(m: Machine, ty: VType, a: str) -> str:
    """float32 to float16 without the instruction. Adding 0.5 to what will be denormal rounds it at its last bit."""
    fn, bits = m.fn, ty.of("i32")
    pattern = fn.cast("bitcast", ty, a, bits)
    size = fn.intrinsic("fabs", ty, a)
    number = fn.cast("bitcast", ty, size, bits)
    odd = fn.op("and", bits, fn.op("lshr", bits, number, constant(13, bits)), constant(1, bits))
    rounded = fn.op("add", bits, fn.op("add", bits, number, constant(0xFFF - (112 << 23), bits)), odd)
    normal = fn.op("lshr", bits, rounded, constant(13, bits))
    small = fn.cast("bitcast", ty, fn.op("fadd", ty, size, constant(0.5, ty)), bits)
    denormal = fn.op("sub", bits, small, constant(0x3F000000, bits))
    result = fn.select(fn.op("fcmp olt", ty, size, constant(2.0**-14, ty)), bits, denormal, normal)
    result = fn.select(fn.op("fcmp oge", ty, size, constant(65520.0, ty)), bits, constant(0x7C00, bits), result)
    result = fn.select(fn.op("fcmp uno", ty, a, a), bits, constant(0x7E00, bits), result)
    sign = fn.op("and", bits, fn.op("lshr", bits, pattern, constant(16, bits)), constant(0x8000, bits))
    return fn.cast("trunc", bits, fn.op("or", bits, result, sign), ty.of("i16"))


def round_to_odd(m: Machine, ty: VType, a: str) -> str:
    """A float64 as a float32 whose last bit is set when it is inexact: rounding that once more rounds right.

    (S. Boldo, G. Melquiond, "When double rounding is odd", 2005.)
    """
    fn = m.fn
    single, bits = ty.of("float"), ty.of("i32")
    near = fn.cast("fptrunc", ty, a, single)
    back = fn.cast("fpext", single, near, ty)
    pattern = fn.cast("bitcast", single, near, bits)
    too_far = fn.op("fcmp ogt", ty, fn.intrinsic("fabs", ty, back), fn.intrinsic("fabs", ty, a))
    towards = fn.select(too_far, bits, fn.op("sub", bits, pattern, constant(1, bits)), pattern)
    inexact = fn.op("fcmp one", ty, back, a)
    odd = fn.select(inexact, bits, fn.op("or", bits, towards, constant(1, bits)), pattern)
    return fn.cast("bitcast", bits, odd, single)
