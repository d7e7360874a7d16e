"""What polynomial approximations are written with."""

from __future__ import annotations

from collections.abc import Sequence

from dyn.lower.x86.llvm_text import VType, constant
from dyn.lower.x86.machine import Machine


def horner(m: Machine, ty: VType, x: str, coefficients: Sequence[float]) -> str:
    """``c0 + c1*x + c2*x**2 + …``"""
    result = constant(coefficients[-1], ty)
    for c in reversed(coefficients[:-1]):
        result = m.fma(ty, result, x, constant(c, ty))
    return result


def clamp(m: Machine, ty: VType, x: str, low: float, high: float) -> str:
    """``min(max(x, low), high)``, two instructions; NaN stays NaN."""
    fn = m.fn
    lo, hi = constant(low, ty), constant(high, ty)
    x = fn.select(fn.op("fcmp ogt", ty, lo, x), ty, lo, x)
    return fn.select(fn.op("fcmp olt", ty, hi, x), ty, hi, x)


def odd_extremes(m: Machine, ty: VType, x: str, size: str, y: str) -> str:
    """``y`` with the sign of ``x``; ``x`` itself where its ``size`` is 0, infinite or NaN."""
    fn = m.fn
    y = fn.intrinsic("copysign", ty, y, x)
    same = fn.op("fcmp oeq", ty, size, constant(0.0, ty))
    same = fn.op("or", ty.of("i1"), same, fn.op("fcmp ueq", ty, size, constant(float("inf"), ty)))
    return fn.select(same, ty, x, y)
