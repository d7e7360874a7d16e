"""Conversions between dtypes, as the documentation of ``Scalar.CAST`` says."""

from __future__ import annotations

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.lower.x86.llvm_text import VType, constant
from dyn.lower.x86.machine import Machine

_HALVES = (dtypes.float16, dtypes.bfloat16)


def cast(m: Machine, source: DType, result: DType, ty: VType, to: VType, a: str) -> str:
    """``a`` of dtype ``source`` as a ``result``; ``ty`` and ``to`` are their types in registers."""
    fn = m.fn
    if source is result:
        return a
    if source in _HALVES:
        wide = ty.of("float")
        return cast(m, dtypes.float32, result, wide, to, from_half(m, source, ty, a))
    if result in _HALVES:
        if source is dtypes.float64:
            a, source = round_to_odd(m, ty, a), dtypes.float32
            ty = ty.of("float")
        wide = ty.of("float")
        return to_half(m, result, wide, cast(m, source, dtypes.float32, ty, wide, a))
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


def from_half(m: Machine, dtype: DType, ty: VType, a: str) -> str:
    """The bits of a float16 or bfloat16 (``ty`` is i16) as float32. Exact."""
    fn = m.fn
    if dtype is dtypes.bfloat16:
        wide = ty.of("i32")
        shifted = fn.op("shl", wide, fn.cast("zext", ty, a, wide), constant(16, wide))
        return fn.cast("bitcast", wide, shifted, ty.of("float"))
    half = ty.of("half")
    return fn.cast("fpext", half, fn.cast("bitcast", ty, a, half), ty.of("float"))


def to_half(m: Machine, dtype: DType, ty: VType, a: str) -> str:
    """A float32 as the bits of a float16 or bfloat16, rounded to nearest, ties to even; NaN stays NaN."""
    fn = m.fn
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
