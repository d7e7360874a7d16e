"""Uniform integers with the arithmetic of literals done while compiling.

No LLVM pass folds constants, and the extents of a contraction are often literals, or at least multiples of a tile.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from dyn.lower.x86.llvm_text import FunctionText, vtype

I64 = vtype("i64")

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "slt": operator.lt,
    "sgt": operator.gt,
}


def is_literal(a: str) -> bool:
    """Whether an i64 is a literal rather than a name."""
    return not a.startswith("%")


class Ints:
    """Arithmetic on i64 names and literals, in the current place of a function."""

    def __init__(self, fn: FunctionText) -> None:
        self.fn = fn

    def add(self, a: str, b: str) -> str:
        if a == "0":
            return b
        return a if b == "0" else self._binary("add nsw", operator.add, a, b)

    def sub(self, a: str, b: str) -> str:
        return a if b == "0" else self._binary("sub nsw", operator.sub, a, b)

    def mul(self, a: str, b: str) -> str:
        if "0" in (a, b):
            return "0"
        if a == "1":
            return b
        return a if b == "1" else self._binary("mul nsw", operator.mul, a, b)

    def div(self, a: str, b: str) -> str:
        """The quotient of a number of at least 0 and a positive one, rounded down."""
        return a if b == "1" else self._binary("udiv", operator.floordiv, a, b)

    def least(self, a: str, b: str) -> str:
        return str(min(int(a), int(b))) if is_literal(a) and is_literal(b) else self.fn.intrinsic("smin", I64, a, b)

    def most(self, a: str, b: str) -> str:
        return str(max(int(a), int(b))) if is_literal(a) and is_literal(b) else self.fn.intrinsic("smax", I64, a, b)

    def _binary(self, opcode: str, function: Callable[[int, int], int], a: str, b: str) -> str:
        if is_literal(a) and is_literal(b):
            return str(function(int(a), int(b)))
        return self.fn.op(opcode, I64, a, b)

    def test(self, relation: str, a: str, b: str) -> str:
        """``eq``, ``ne``, ``slt`` or ``sgt``, as an i1."""
        if is_literal(a) and is_literal(b):
            return "true" if _COMPARE[relation](int(a), int(b)) else "false"
        return self.fn.op(f"icmp {relation}", I64, a, b)

    def pick(self, p: str, a: str, b: str) -> str:
        """``a`` where ``p`` holds, else ``b``."""
        return self._select(p, a, b, "i64")

    def choose(self, p: str, a: str, b: str) -> str:
        """Address ``a`` where ``p`` holds, else ``b``."""
        return self._select(p, a, b, "ptr")

    def _select(self, p: str, a: str, b: str, ty: str) -> str:
        if p in ("true", "false") or a == b:
            return b if p == "false" else a
        return self.fn.value(f"select i1 {p}, {ty} {a}, {ty} {b}")
