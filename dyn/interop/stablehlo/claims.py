"""Claims of a program about its sizes: the relations, and the reason, of an assertion that it makes."""

from __future__ import annotations

import re

from dyn.interop.stablehlo.elements import Open, opaque
from dyn.shapes import Dim, OpaqueKind, RelKind

#: Where a message has the values of sizes, which are told beside it: ``(= {0})``, ``, but found {0}``, ``{0}``.
_VALUES = re.compile(r" \(= \{\d+\}\)|, but found \{\d+\}| \{\d+\}")


def reason_of(message: str) -> str:
    """The text of an assertion, without what only its producer knows; of dyn's own, why it was demanded."""
    own = re.fullmatch(r".+ is required, but .*\{\d+\}: (.*)\.", message, re.DOTALL)
    if own is not None:
        return own[1]
    text = message.removeprefix("Input shapes do not match the polymorphic shapes specification. ")
    return _VALUES.sub("", text.split(" Using the following", 1)[0]).rstrip(". ")


def relations(truth: Open) -> list[tuple[RelKind, Dim, Dim]] | None:
    """The relations that hold where an open question is answered with yes; None where one of several does."""
    if not truth.any or len(truth.relations) == 1:
        return [_divisible(*r) for r in truth.relations]
    sides = [(lhs, rhs) for kind, lhs, rhs in truth.relations if kind is RelKind.EQ]
    if len(sides) == len(truth.relations):
        pairs = [(a, b) for a, b in sides if a != 1 and b != 1]
        ones = {a if b == 1 else b for a, b in sides if a == 1 or b == 1}
        # That a number is 1 is not asked.
        if len(pairs) == 1 and ones <= {*pairs[0]} and all(isinstance(d, int) for d in {*pairs[0]} - ones):
            return [(RelKind.BROADCASTS, *pairs[0])]
    return None


def _divisible(kind: RelKind, lhs: Dim, rhs: Dim) -> tuple[RelKind, Dim, Dim]:
    """``mod(n, 2) == 0`` is that 2 divides n."""
    atom = opaque(lhs)
    if kind is RelKind.EQ and rhs == 0 and atom is not None and atom.kind is OpaqueKind.MOD:
        dividend, divisor = atom.args
        return RelKind.DIVIDES, divisor, dividend
    return kind, lhs, rhs
