"""Comparisons of sizes as pairs of relations: the one that is asked for, and the one that holds where it does not."""

from __future__ import annotations

from typing import Literal

from dyn.shapes import Dim, Reason, Relation, RelKind
from dyn.source import user_loc

OrderSymbol = Literal[">=", "<=", ">", "<"]


def equality(a: Dim, b: Dim) -> tuple[Relation, Relation]:
    """``a == b``, and ``a != b``."""
    yes, no = _reasons("==", a, b)
    return Relation(RelKind.EQ, a, b, yes), Relation(RelKind.NONZERO, a - b, 0, no)


def inequality(symbol: OrderSymbol, a: Dim, b: Dim) -> tuple[Relation, Relation]:
    """``a >= b`` and ``a < b``, or another comparison by its ``symbol`` and its opposite."""
    yes, no = _reasons(symbol, a, b)
    match symbol:
        case ">=":
            high, low = a, b
        case "<=":
            high, low = b, a
        case ">":
            high, low = a, b + 1
        case "<":
            high, low = b, a + 1
    return Relation(RelKind.GE, high, low, yes), Relation(RelKind.GE, low - 1, high, no)


def _reasons(symbol: str, a: Dim, b: Dim) -> tuple[Reason, Reason]:
    """The reasons of a branch on a comparison, and of the other way that it may go."""
    loc, text = user_loc(), f"{{}} {symbol} {{}}"
    return Reason.about(f"the branch on {text}", (a, b), loc), Reason.about(f"the branch on not {text}", (a, b), loc)
