"""The sizes that a call has stretched: dims that are 1 in it, and are broadcast to others that are not."""

from __future__ import annotations

from collections.abc import Mapping

from dyn.errors import ShapeError
from dyn.shapes import Dim, Facts, RelKind, Symbol, SymExpr, evaluate, joined_from


def stretched_ones(facts: Facts, sizes: Mapping[Symbol, int]) -> frozenset[Symbol]:
    """The dims of size 1 that undecided broadcasts stretch, where the call's ``sizes`` are known."""
    found: set[Symbol] = set()
    for relation in facts.relations if sizes else ():
        if relation.kind is not RelKind.BROADCASTS:
            continue
        lhs, rhs = (_size(dim, sizes) for dim in (relation.lhs, relation.rhs))
        if lhs == rhs or lhs is None or rhs is None:
            continue
        for part in joined_from(relation.lhs if lhs == 1 else relation.rhs):
            symbol = part.is_symbol if isinstance(part, SymExpr) else None
            if symbol is not None:
                found.add(symbol)
    return frozenset(found)


def _size(dim: Dim, sizes: Mapping[Symbol, int]) -> int | None:
    try:
        return evaluate(dim, sizes)
    except (KeyError, ShapeError):
        return None
