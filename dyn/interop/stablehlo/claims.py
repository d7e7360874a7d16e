"""Claims of a program about its sizes: the relations, and the reason, of an assertion that it makes."""

from __future__ import annotations

import re

from dyn.interop.sizes.conditions import Comparison, Condition, Junction
from dyn.interop.sizes.elements import Fact, conjuncts, opaque
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


def relations(truth: Condition) -> list[Fact] | None:
    """The relations that hold where a condition does; None where one of several does."""
    every = conjuncts(truth)
    if every is not None:
        return [_divisible(*fact) for fact in every]
    assert isinstance(truth, Junction), "a comparison is a conjunct of its own"
    if truth.every:
        parts = [relations(part) for part in truth.parts]
        found = [part for part in parts if part is not None]
        return [fact for part in found for fact in part] if len(found) == len(parts) else None
    asked = [part.yes for part in truth.parts if isinstance(part, Comparison) and part.yes.kind is RelKind.EQ]
    if len(asked) == len(truth.parts):
        pairs = [(one.lhs, one.rhs) for one in asked if one.lhs != 1 and one.rhs != 1]
        ones = {one.lhs if one.rhs == 1 else one.rhs for one in asked if one.lhs == 1 or one.rhs == 1}
        # That a number is 1 is not asked.
        if len(pairs) == 1 and ones <= {*pairs[0]} and all(isinstance(d, int) for d in {*pairs[0]} - ones):
            return [(RelKind.BROADCASTS, *pairs[0])]
    return None


def _divisible(kind: RelKind, lhs: Dim, rhs: Dim) -> Fact:
    """``mod(n, 2) == 0`` is that 2 divides n."""
    atom = opaque(lhs)
    if kind is RelKind.EQ and rhs == 0 and atom is not None and atom.kind is OpaqueKind.MOD:
        dividend, divisor = atom.args
        return RelKind.DIVIDES, divisor, dividend
    return kind, lhs, rhs
