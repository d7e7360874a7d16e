"""Division of integers: without a trap, and in vectors, for which there is no instruction.

Results are those of ``dyn.integers``. A divisor of 0 divides by 1 instead, which cannot trap, and the result is put
right afterwards.
"""

from __future__ import annotations

from dyn.lower.x86.llvm_text import VType, constant
from dyn.lower.x86.machine import Machine


def divide(m: Machine, ty: VType, a: str, b: str, *, signed: bool, rest: bool) -> str:
    """The quotient towards 0, or the remainder with the sign of ``a``."""
    fn = m.fn
    is_zero = fn.op("icmp eq", ty, b, constant(0, ty))
    divisor = fn.select(is_zero, ty, constant(1, ty), b)
    if ty.lanes == 1 or (ty.bits == 64 and not m.avx512):
        result = _by_instruction(m, ty, a, divisor, signed=signed, rest=rest)
        return fn.select(is_zero, ty, a if rest else constant(-1, ty), result)
    quotient = (_in_steps if ty.bits == 64 else _through_float)(m, ty, a, divisor, signed=signed)
    if rest:  # of x by 0 it is x
        return fn.op("sub", ty, a, fn.op("mul", ty, quotient, b))
    return fn.select(is_zero, ty, constant(-1, ty), quotient)


def _by_instruction(m: Machine, ty: VType, a: str, b: str, *, signed: bool, rest: bool) -> str:
    fn, opcode = m.fn, "rem" if rest else "div"
    if not signed:
        return fn.op(f"u{opcode}", ty, a, b)
    lowest = fn.op("icmp eq", ty, a, constant(-(1 << (ty.bits - 1)), ty))
    overflow = fn.op("and", ty.of("i1"), lowest, fn.op("icmp eq", ty, b, constant(-1, ty)))
    return fn.op(f"s{opcode}", ty, a, fn.select(overflow, ty, constant(1, ty), b))


def _through_float(m: Machine, ty: VType, a: str, b: str, *, signed: bool) -> str:
    """A float whose precision exceeds the integer's width gives the quotient exactly after truncation: a/b is an
    integer or at least 1/|b| away from the next, and the rounding error is less."""
    fn = m.fn
    wide = ty.of("double" if ty.bits == 32 else "float")
    to = "sitofp" if signed else "uitofp"
    quotient = fn.op("fdiv", wide, fn.cast(to, ty, a, wide), fn.cast(to, ty, b, wide))
    if ty.bits < 32:
        number = ty.of("i32")
        return fn.cast("trunc", number, fn.cast("fptosi", wide, quotient, number), ty)
    if not signed:
        return fn.cast("fptoui", wide, quotient, ty)
    # MIN / -1 is 2**31, whose conversion is MIN on this machine; keep it defined
    low = fn.op("fcmp oeq", wide, quotient, constant(2.0**31, wide))
    return fn.cast("fptosi", wide, fn.select(low, wide, constant(-(2.0**31), wide), quotient), ty)


def _in_steps(m: Machine, ty: VType, a: str, b: str, *, signed: bool) -> str:
    """A quotient of 64 bits in float64, by long division: each digit is rounded down, so that no remainder is negative.

    With sizes u and v, a first digit of at least ``u/v * (1 - 2**-49) - 1`` leaves a quotient below 2**15 + 2; the
    second digit is its whole part, or 1 less.
    """
    fn = m.fn
    u = fn.call(f"llvm.abs.{ty.mangled}", ty, [(ty, a)], tail="i1 false") if signed else a
    v = fn.call(f"llvm.abs.{ty.mangled}", ty, [(ty, b)], tail="i1 false") if signed else b
    wide = ty.of("double")
    divisor = fn.cast("uitofp", ty, v, wide)
    quotient = constant(0, ty)
    for _ in range(2):
        digit = fn.op("fdiv", wide, fn.cast("uitofp", ty, u, wide), divisor)
        # The two conversions and the quotient are each off by up to 2**-53.
        digit = fn.op("fmul", wide, digit, constant(1 - 2.0**-50, wide))
        whole = fn.cast("fptoui", wide, digit, ty)
        u = fn.op("sub", ty, u, fn.op("mul", ty, whole, v))
        quotient = fn.op("add", ty, quotient, whole)
    more = fn.cast("zext", ty.of("i1"), fn.op("icmp uge", ty, u, v), ty)
    quotient = fn.op("add", ty, quotient, more)
    if not signed:
        return quotient
    sign = fn.op("ashr", ty, fn.op("xor", ty, a, b), constant(63, ty))
    return fn.op("sub", ty, fn.op("xor", ty, quotient, sign), sign)
