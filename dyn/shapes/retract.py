"""Taking facts out of a state, to be learned again: those that mention an atom of which more is known now."""

from __future__ import annotations

from typing import NamedTuple

from dyn.shapes.expr import Atom, Dim, SymExpr, atom_dim
from dyn.shapes.joins import broadcast
from dyn.shapes.relation import RelKind, Why
from dyn.shapes.state import State
from dyn.shapes.walk import mentions


class Fact(NamedTuple):
    """EQ: ``dim == 0``. GE: ``dim >= 0``. NONZERO: ``dim != 0``. DIVIDES: ``other`` divides. BROADCASTS: the two."""

    kind: RelKind
    dim: Dim
    why: Why
    other: Dim = 0


def withdraw(state: State, atom: Atom) -> list[Fact]:
    """Remove every fact that mentions an atom from the state. Only the value of the atom itself stays."""
    facts: list[Fact] = []
    for other, value in list(state.values.items()):
        if other is not atom and mentions(atom_dim(other), atom):
            del state.values[other]
            facts.append(Fact(RelKind.EQ, atom_dim(other) - value.dim, value.why))
    facts += withdraw_rows(state, atom)
    facts += withdraw_broadcasts(state, atom)
    for part, wholes in list(state.broadcasts_into.items()):
        gone = (
            wholes if mentions(part, atom) else {whole: why for whole, why in wholes.items() if mentions(whole, atom)}
        )
        if gone:
            state.broadcasts_into[part] = {whole: why for whole, why in wholes.items() if whole not in gone}
            facts += [Fact(RelKind.EQ, broadcast(part, whole) - whole, why) for whole, why in gone.items()]
    for dim, why in list(state.nonzeros.items()):
        if mentions(dim, atom):
            del state.nonzeros[dim]
            facts.append(Fact(RelKind.NONZERO, dim, why))
    facts += _withdraw_divisors(state, atom)
    facts += _withdraw_inequalities(state, atom)
    return facts


def withdraw_rows(state: State, atom: Atom) -> list[Fact]:
    """Remove the equations that mention an atom."""
    facts: list[Fact] = []
    for row, equation in list(state.rows.items()):
        if mentions(row, atom):
            del state.rows[row]
            facts.append(Fact(RelKind.EQ, row, equation.why))
    return facts


def withdraw_broadcasts(state: State, atom: Atom) -> list[Fact]:
    """Remove the pairs that are known to broadcast and mention an atom."""
    facts: list[Fact] = []
    for a, others in list(state.broadcasts.items()):
        if mentions(a, atom):
            del state.broadcasts[a]
            for b, why in others.items():
                if b in state.broadcasts:
                    state.broadcasts[b] = {dim: why for dim, why in state.broadcasts[b].items() if dim is not a}
                facts.append(Fact(RelKind.BROADCASTS, a, why, b))
    return facts


def _withdraw_divisors(state: State, atom: Atom) -> list[Fact]:
    facts: list[Fact] = []
    for dim, (k, why) in list(state.divisors.items()):
        if mentions(dim, atom):
            del state.divisors[dim]
            facts.append(Fact(RelKind.DIVIDES, dim, why, k))
    for other, (k, why) in list(state.multiples.items()):
        if mentions(atom_dim(other), atom):
            del state.multiples[other]
            facts.append(Fact(RelKind.DIVIDES, atom_dim(other), why, k))
    return facts


def _withdraw_inequalities(state: State, atom: Atom) -> list[Fact]:
    facts: list[Fact] = []
    for other, known in list(state.ranges.items()):
        if mentions(atom_dim(other), atom):
            del state.ranges[other]
            if known.lo is not None:
                facts.append(Fact(RelKind.GE, atom_dim(other) - known.lo, known.why_lo))
            if known.hi is not None:
                facts.append(Fact(RelKind.GE, known.hi - atom_dim(other), known.why_hi))
    gone: dict[SymExpr, Why] = {}
    for other, orders in list(state.orders.items()):
        kept = tuple([order for order in orders if not mentions(order.dim, atom)])
        if len(kept) < len(orders):
            gone |= {order.dim: order.why for order in orders if mentions(order.dim, atom)}
            state.orders[other] = kept
    facts += [Fact(RelKind.GE, dim, why) for dim, why in gone.items()]
    return facts
