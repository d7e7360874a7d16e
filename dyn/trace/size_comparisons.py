"""Comparisons of sizes (``n < m``) as pairs of relations: what is asked, and its negation."""

from __future__ import annotations

from typing import Literal

from dyn.shapes import Dim, Reason, Relation, RelKind
from dyn.source import user_loc

OrderSymbol = Literal[">=", "<=", ">", "<"]
ComparisonSymbol = Literal["==", ">=", "<=", ">", "<"]

#: The reason of what is asked and not kept: a walk of the stack and a text take longer than most answers.
_ASKED = Reason("asked")


def comparison(symbol: ComparisonSymbol, a: Dim, b: Dim) -> tuple[Relation, Relation]:
    """``a == b`` and ``a != b``, or another comparison by its ``symbol`` and its opposite, to be asked."""
    return _relations(symbol, a, b, _ASKED, _ASKED)


def branch(symbol: ComparisonSymbol, a: Dim, b: Dim) -> tuple[Relation, Relation]:
    """The relations of a :func:`comparison` as a branch at the user's line takes them for granted."""
    loc, text = user_loc(), f"{{}} {symbol} {{}}"
    yes = Reason.about(f"the branch on {text}", (a, b), loc)
    no = Reason.about(f"the branch on not {text}", (a, b), loc)
    return _relations(symbol, a, b, yes, no)


def _relations(symbol: ComparisonSymbol, a: Dim, b: Dim, yes: Reason, no: Reason) -> tuple[Relation, Relation]:
    match symbol:
        case "==":
            return Relation(RelKind.EQ, a, b, yes), Relation(RelKind.NONZERO, a - b, 0, no)
        case ">=":
            high, low = a, b
        case "<=":
            high, low = b, a
        case ">":
            high, low = a, b + 1
        case "<":
            high, low = b, a + 1
    return Relation(RelKind.GE, high, low, yes), Relation(RelKind.GE, low - 1, high, no)
