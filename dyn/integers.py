"""Integer arithmetic as dyn defines it, in Python's exact integers: one function an operation.

Everything that computes with integers does as this page says: the NumPy reference, the emitters of machine code and of
C++, constant folding, the evaluator of sizes and the host program. ``tests/integers`` runs each of them against it at
the edges of every integer type. ``docs/numerics.md`` says it in words.

There are three arithmetics:

- *elements* of arrays wrap: a result is what is left of it in the type's bits. Every operation has a result for all
  operands. They are XLA's; ``dyn.numpy`` makes NumPy's out of them where NumPy differs (``NUMPY``).
- *sizes* are exact: what passes 64 bits is an error, and a division by 0 has no value.
- *indices*, in loops over sizes that have been checked: they stand also where a loop does not run and its sizes say
  nothing, and so have some value for all operands.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IntegerType:
    """Two's complement integers of ``bits`` bits, or unsigned ones."""

    bits: int
    signed: bool

    @property
    def least(self) -> int:
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def most(self) -> int:
        return (1 << (self.bits - self.signed)) - 1

    def wrap(self, value: int) -> int:
        """The number of this type that is equal modulo ``2**bits``."""
        value &= (1 << self.bits) - 1
        return value - (1 << self.bits) if value > self.most else value


INT64 = IntegerType(64, True)


# ---- elements of arrays ----------------------------------------------------------------------------------------------


def divide(t: IntegerType, x: int, y: int) -> int:
    """Rounded towards 0. By 0 it is -1, all bits set, and ``least / -1`` is ``least``."""
    if y == 0:
        return t.wrap(-1)
    quotient = abs(x) // abs(y)
    return t.wrap(quotient if (x < 0) == (y < 0) else -quotient)


def remainder(t: IntegerType, x: int, y: int) -> int:
    """Remainder of :func:`divide`, with the sign of ``x``. By 0 it is ``x``, and ``least % -1`` is 0."""
    return x if y == 0 else t.wrap(x - y * divide(t, x, y))


def power(t: IntegerType, x: int, y: int) -> int:
    """Wraps. A negative exponent gives ``1 / x**-y`` rounded towards 0, and 0 where ``x`` is."""
    if y >= 0:
        return t.wrap(pow(x, y, 1 << t.bits))
    return t.wrap({1: 1, -1: -1 if y % 2 else 1}.get(x, 0))


def shift_left(t: IntegerType, x: int, by: int) -> int:
    """``x << by``, wrapping: by less than 0, or by ``bits`` or more, all bits leave."""
    return t.wrap(x << by) if 0 <= by < t.bits else 0


def shift_right_logical(t: IntegerType, x: int, by: int) -> int:
    """Zeros come in from the left. By less than 0, or by ``bits`` or more, all bits leave."""
    return t.wrap((x & ((1 << t.bits) - 1)) >> by) if 0 <= by < t.bits else 0


def shift_right_arithmetic(t: IntegerType, x: int, by: int) -> int:
    """The highest bit comes in from the left, of unsigned numbers too.

    By less than 0, or by ``bits`` or more, all other bits leave.
    """
    signed = IntegerType(t.bits, True)
    return t.wrap(signed.wrap(x) >> (by if 0 <= by < t.bits else t.bits - 1))


def count_leading_zeros(t: IntegerType, x: int) -> int:
    return t.wrap(t.bits - (x & ((1 << t.bits) - 1)).bit_length())


#: By the name of the op (``dyn.ops``).
BINARY: Mapping[str, Callable[[IntegerType, int, int], int]] = {
    "add": lambda t, x, y: t.wrap(x + y),
    "subtract": lambda t, x, y: t.wrap(x - y),
    "multiply": lambda t, x, y: t.wrap(x * y),
    "divide": divide,
    "remainder": remainder,
    "power": power,
    "maximum": lambda t, x, y: max(x, y),
    "minimum": lambda t, x, y: min(x, y),
    "and": lambda t, x, y: x & y,
    "or": lambda t, x, y: x | y,
    "xor": lambda t, x, y: x ^ y,
    "shift_left": shift_left,
    "shift_right_logical": shift_right_logical,
    "shift_right_arithmetic": shift_right_arithmetic,
}
UNARY: Mapping[str, Callable[[IntegerType, int], int]] = {
    "negate": lambda t, x: t.wrap(-x),
    "abs": lambda t, x: t.wrap(abs(x)),
    "sign": lambda t, x: (x > 0) - (x < 0),
    "not": lambda t, x: t.wrap(~x),
    "popcnt": lambda t, x: t.wrap((x & ((1 << t.bits) - 1)).bit_count()),
    "count_leading_zeros": count_leading_zeros,
}


def converted(t: IntegerType, x: int | float) -> int:
    """``x`` as a number of the type.

    Of integers the upper bits are lost; of floats the fraction is cut off, what is out of range becomes the nearest
    number, and NaN becomes 0.
    """
    if isinstance(x, int):
        return t.wrap(x)
    if x != x:
        return 0
    if x in (float("inf"), float("-inf")):
        return t.most if x > 0 else t.least
    return min(max(int(x), t.least), t.most)


# ---- dyn.numpy -------------------------------------------------------------------------------------------------------


#: Where NumPy differs: quotient and remainder by 0 are 0, and ``//`` and ``%`` round down.
NUMPY: Mapping[str, Callable[[IntegerType, int, int], int]] = {
    "floor_divide": lambda t, x, y: 0 if y == 0 else t.wrap(x // y),
    "remainder": lambda t, x, y: 0 if y == 0 else x % y,
    "fmod": lambda t, x, y: 0 if y == 0 else remainder(t, x, y),
}


# ---- sizes -----------------------------------------------------------------------------------------------------------


def sized(value: int) -> int:
    """A size, or what is computed on the way to one: OverflowError where it passes 64 bits."""
    if INT64.least <= value <= INT64.most:
        return value
    raise OverflowError(f"{value} passes 64 bits")


#: By the name of the function in size expressions (``dyn.shapes.OpaqueKind``); ZeroDivisionError where there is no
#: value. Results are exact: :func:`sized` says which are errors in compiled code.
SIZES: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "multiply": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "min": min,
    "max": max,
    "broadcast": lambda a, b: b if a == 1 else a,
}


# ---- indices ---------------------------------------------------------------------------------------------------------


#: Functions of indices. A divisor of 0 counts as 1. Vectors of indices are divided as float64: they stay within 52
#: bits.
INDICES: Mapping[str, Callable[[int, int], int]] = {
    **SIZES,
    "floordiv": lambda a, b: INT64.wrap(a // (b or 1)),
    "mod": lambda a, b: a % (b or 1),
}
