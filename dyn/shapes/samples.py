"""Sizes to try a claim with: what one of them contradicts needs no search for a proof that it always holds."""

from __future__ import annotations

from collections.abc import Iterator

from dyn.shapes.expr import Atom, Symbol, SymExpr
from dyn.shapes.relation import Outcome, Relation


def may_always_hold(relation: Relation) -> bool:
    """Whether no sizes that are tried contradict the relation; those for which a side has no value do not."""
    atoms: set[Atom] = set()
    for dim in (relation.lhs, relation.rhs):
        if isinstance(dim, SymExpr):
            atoms |= dim.atoms
    symbols = sorted([atom for atom in atoms if isinstance(atom, Symbol)], key=lambda symbol: symbol.uid)
    return not any(relation.outcome(env) is Outcome.NO for env in _assignments(symbols))


def _assignments(symbols: list[Symbol]) -> Iterator[dict[Symbol, int]]:
    """Far apart in either order, which most claims about two sizes fall to; then small ones, in turn and all alike."""
    count = len(symbols)
    yield {symbol: 37 ** (i + 1) + i for i, symbol in enumerate(symbols)}
    yield {symbol: 41 ** (count - i) - i for i, symbol in enumerate(symbols)}
    yield {symbol: i % 2 for i, symbol in enumerate(symbols)}
    yield {symbol: 1 - i % 2 for i, symbol in enumerate(symbols)}
    yield dict.fromkeys(symbols, 0)
    yield dict.fromkeys(symbols, 1)
    yield {symbol: 2 + i for i, symbol in enumerate(symbols)}
    yield {symbol: 2 + count - i for i, symbol in enumerate(symbols)}
