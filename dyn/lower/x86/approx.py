"""Arithmetic that polynomial approximations are written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dyn.lower.x86.llvm_text import VType, constant
from dyn.lower.x86.machine import Machine


def horner(m: Machine, ty: VType, x: str, coefficients: Sequence[float]) -> str:
    """``c0 + c1*x + c2*x**2 + …``"""
    result = constant(coefficients[-1], ty)
    for c in reversed(coefficients[:-1]):
        result = m.fma(ty, result, x, constant(c, ty))
    return result


def vanishing(m: Machine, ty: VType, x: str, low: float, function: Callable[[str], str]) -> str:
    """``function(x)``, which rounds to 0 below ``low`` and is not computed there: a product whose result is subnormal,
    or rounds to 0, takes a hundred times as long as others on most processors. NaN goes through."""
    fn = m.fn
    gone = fn.op("fcmp olt", ty, x, constant(low, ty))
    zero = constant(0.0, ty)
    return fn.select(gone, ty, zero, function(fn.select(gone, ty, zero, x)))


def clamp(m: Machine, ty: VType, x: str, low: float, high: float) -> str:
    """``min(max(x, low), high)``, two instructions; NaN stays NaN."""
    lo = constant(low, ty)
    return at_most(m, ty, m.fn.select(m.fn.op("fcmp ogt", ty, lo, x), ty, lo, x), high)


def at_most(m: Machine, ty: VType, x: str, high: float) -> str:
    """``min(x, high)``; NaN stays NaN."""
    hi = constant(high, ty)
    return m.fn.select(m.fn.op("fcmp olt", ty, hi, x), ty, hi, x)


def odd_extremes(m: Machine, ty: VType, x: str, size: str, y: str) -> str:
    """``y`` with the sign of ``x``; ``x`` itself where its ``size`` is 0, infinite or NaN."""
    fn = m.fn
    y = fn.intrinsic("copysign", ty, y, x)
    same = fn.op("fcmp oeq", ty, size, constant(0.0, ty))
    same = fn.op("or", ty.of("i1"), same, fn.op("fcmp ueq", ty, size, constant(float("inf"), ty)))
    return fn.select(same, ty, x, y)


def cube_root(
    m: Machine, ty: VType, bits: VType, mantissa: str, r: str, coefficients: Sequence[float], steps: int
) -> str:
    """The cube root of ``mantissa * 2**r`` for a mantissa in [1, 2) and an integer r of type ``bits`` in 0, 1, 2.

    A polynomial in the mantissa, times the root of 2**r, and Newton steps with the square in two parts.
    """
    fn = m.fn
    first = fn.op("icmp eq", bits, r, constant(1, bits))
    second = fn.op("icmp eq", bits, r, constant(2, bits))
    root = fn.select(second, ty, constant(4.0 ** (1 / 3), ty), constant(1.0, ty))
    root = fn.select(first, ty, constant(2.0 ** (1 / 3), ty), root)
    power = fn.select(second, ty, constant(4.0, ty), constant(1.0, ty))
    power = fn.select(first, ty, constant(2.0, ty), power)
    y = fn.op("fmul", ty, horner(m, ty, mantissa, coefficients), root)
    a = fn.op("fmul", ty, mantissa, power)
    for _ in range(steps):
        square = fn.op("fmul", ty, y, y)
        lost = m.fma(ty, y, y, fn.neg(ty, square))
        residue = m.fma(ty, fn.neg(ty, square), y, a)
        residue = fn.op("fsub", ty, residue, fn.op("fmul", ty, lost, y))
        step = fn.op("fdiv", ty, residue, fn.op("fmul", ty, square, constant(3.0, ty)))
        y = fn.op("fadd", ty, y, step)
    return y
