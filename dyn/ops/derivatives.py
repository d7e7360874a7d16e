"""Derivatives of elementwise ops, as formulas: ``f(a, ct, y, *x)`` gives the cotangents of the operands ``x``.

``a`` is arithmetic on values, ``ct`` the cotangent of the result ``y``. Where a function has a kink the convention is
JAX's: equal operands of a maximum share, ``abs`` has the slope 0 at 0.
"""

from __future__ import annotations

import math

from dyn.dtypes import Kind
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ops.arithmetic import Arithmetic

One = tuple[Value]
Two = tuple[Value, Value]
Three = tuple[Value, Value, Value]


def negate(a: Arithmetic, ct: Value, y: Value, x: Value) -> One:
    return (a.neg(ct),)


def abs_(a: Arithmetic, ct: Value, y: Value, x: Value) -> One:
    """Derivative of ``abs``: the sign; of a complex number the conjugate of its direction."""
    if x.dtype.kind is not Kind.COMPLEX:
        return (a.mul(ct, a.f("sign", x)),)
    real, imag = _direction(a, y, x)
    return (a.f("complex", a.mul(ct, real), a.neg(a.mul(ct, imag))),)


def _direction(a: Arithmetic, y: Value, x: Value) -> Two:
    """The parts of ``x / y``, where y is the size of x, and 0 where that is: not ``sign``, which has no derivative."""
    size = a.where(a.cmp(y, "EQ", 0), 1, y)
    return a.div(a.f("real", x), size), a.div(a.f("imag", x), size)


def abs_tangent(b: Builder, op: Op, tangents: tuple[Value]) -> One:
    """Tangent of ``abs``, which is no holomorphic function: the factor is not that of its cotangent."""
    a, (x,), (t,) = Arithmetic(b), op.operands, tangents
    if x.dtype.kind is not Kind.COMPLEX:
        return (a.mul(t, a.f("sign", x)),)
    real, imag = _direction(a, op.result, x)
    return (a.add(a.mul(a.f("real", t), real), a.mul(a.f("imag", t), imag)),)


# --- exponentials and roots ---------------------------------------------------------------------------------------


def exponential(a: Arithmetic, ct: Value, y: Value, x: Value) -> One:
    return (a.mul(ct, y),)


def exponential_minus_one(a: Arithmetic, ct: Value, y: Value, x: Value) -> One:
    return (a.mul(ct, a.add(y, 1)),)


def log(a: Arithmetic, ct: Value, y: Value, x: Value) -> One:
    return (a.div(ct, x),)


def log_plus_one(a: Arithmetic, ct: Value, y: Value, x: Value) -> One:
    return (a.div(ct, a.add(x, 1)),)


def tanh(a: Arithmetic, ct: Value, y: Value, x: Value) -> One:
    """``1 - y*y``, as ``(1 + y) * (1 - y)``, which is exact next to ±1."""
    return (a.mul(a.mul(ct, a.add(y, 1)), a.sub(a.fill(y, 1), y)),)


def logistic(a: Arithmetic, ct: Value, y: Value, x: Value) -> One:
    return (a.mul(ct, a.mul(y, a.sub(a.fill(y, 1), y))),)


def erf(a: Arithmetic, ct: Value, y: Value, x: Value) -> One:
    return (a.mul(ct, a.mul(a.f("exponential", a.neg(a.mul(x, x))), 2 / math.sqrt(math.pi))),)


def erf_inv(a: Arithmetic, ct: Value, y: Value, x: Value) -> One:
    return (a.mul(ct, a.mul(a.f("exponential", a.mul(y, y)), math.sqrt(math.pi) / 2)),)


def sqrt(a: Arithmetic, ct: Value, y: Value, x: Value) -> One:
    return (a.div(a.mul(ct, 0.5), y),)


def rsqrt(a: Arithmetic, ct: Value, y: Value, x: Value) -> One:
    return (a.mul(ct, a.div(a.mul(y, -0.5), x)),)


def cbrt(a: Arithmetic, ct: Value, y: Value, x: Value) -> One:
    """``y**-2 / 3``, by the inverse of y: infinite at 0, and 0 at infinity, where ``y / x`` is NaN."""
    inverse = a.div(a.fill(y, 1), y)
    return (a.mul(ct, a.mul(a.mul(inverse, inverse), 1 / 3)),)


# --- trigonometry -------------------------------------------------------------------------------------------------


def sine(a: Arithmetic, ct: Value, y: Value, x: Value) -> One:
    return (a.mul(ct, a.f("cosine", x)),)


def cosine(a: Arithmetic, ct: Value, y: Value, x: Value) -> One:
    return (a.neg(a.mul(ct, a.f("sine", x))),)


def tan(a: Arithmetic, ct: Value, y: Value, x: Value) -> One:
    return (a.mul(ct, a.add(a.mul(y, y), 1)),)


def atan2(a: Arithmetic, ct: Value, y: Value, up: Value, right: Value) -> Two:
    share = a.div(ct, a.add(a.mul(up, up), a.mul(right, right)))
    return a.mul(share, right), a.neg(a.mul(share, up))


# --- of two operands ----------------------------------------------------------------------------------------------


def add(a: Arithmetic, ct: Value, y: Value, left: Value, right: Value) -> Two:
    return ct, ct


def subtract(a: Arithmetic, ct: Value, y: Value, left: Value, right: Value) -> Two:
    return ct, a.neg(ct)


def multiply(a: Arithmetic, ct: Value, y: Value, left: Value, right: Value) -> Two:
    return a.mul(ct, right), a.mul(ct, left)


def fused_multiply_add(a: Arithmetic, ct: Value, y: Value, left: Value, right: Value, more: Value) -> Three:
    return a.mul(ct, right), a.mul(ct, left), ct


def divide(a: Arithmetic, ct: Value, y: Value, left: Value, right: Value) -> Two:
    share = a.div(ct, right)
    return share, a.neg(a.mul(share, y))


def remainder(a: Arithmetic, ct: Value, y: Value, left: Value, right: Value) -> Two:
    """Derivatives of the remainder ``left - trunc(left / right) * right``."""
    ratio = a.div(left, right)
    whole = a.mul(a.f("sign", ratio), a.f("floor", a.f("abs", ratio)))
    return ct, a.neg(a.mul(ct, whole))


def power(a: Arithmetic, ct: Value, y: Value, base: Value, exponent: Value) -> Two:
    """``r * b**(r - 1)``, which is 0 for ``b**0``, and ``log(b) * b**r``, which is 0 for ``0**r``.

    Of ``b**0`` the product is 0 too where ``1 / b`` is a number, and there it stays the product: its derivative by r is
    ``1 / b``. Elsewhere it is NaN, which the 0 takes the place of.
    """
    size = a.f("abs", base)
    inverted = a.cmp(size, "GE", 2.0 ** (1 - size.dtype.floating.bias))
    constant = a.f("and", a.cmp(exponent, "EQ", 0), a.f("not", inverted))
    slope = a.mul(exponent, a.f("power", base, a.where(constant, 1, a.sub(exponent, 1))))
    growth = a.mul(a.f("log", a.where(a.cmp(base, "EQ", 0), 1, base)), y)
    return a.mul(ct, a.where(constant, 0, slope)), a.mul(ct, growth)


def extreme(a: Arithmetic, ct: Value, y: Value, left: Value, right: Value) -> Two:
    """To the operand that was chosen; half to each of two equal ones."""
    own = a.where(a.cmp(left, "EQ", right), a.mul(ct, 0.5), ct)
    return a.where(a.cmp(left, "EQ", y), own, 0), a.where(a.cmp(right, "EQ", y), own, 0)
