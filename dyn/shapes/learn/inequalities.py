"""Learning inequalities: bounds of atoms, orders between sums, and what is not 0."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from dyn.shapes.expr import Atom, Dim, Opaque, OpaqueKind, Symbol, SymExpr, atom_dim, divide_exactly
from dyn.shapes.interval import Interval, highest, lowest
from dyn.shapes.learn.learner import ContradictionError, Learner, join_why, outer_atoms
from dyn.shapes.poly import common_factor, remove_factor, single
from dyn.shapes.relation import RelKind, Why
from dyn.shapes.retract import Fact
from dyn.shapes.simplify import Simplifier
from dyn.shapes.state import AtomRange, Inequality
from dyn.shapes.walk import mentions, split_linear


def not_negative(learner: Learner, s: Simplifier, fact: Fact) -> None:
    e, why = fact.dim, fact.why
    if not isinstance(e, SymExpr):
        if e < 0:
            raise ContradictionError(why)
        return
    k = math.gcd(*[c for _, c in e.terms])
    if k > 1:
        constant = e.constant // k
        e = divide_exactly(e - e.constant, k) + constant
        assert isinstance(e, SymExpr)
    if s.bounds.at_least(-e, 1):
        raise ContradictionError(join_why(why, s))
    if s.bounds.nonzero(e) and not s.bounds.at_least(e, 1):
        learner.push(RelKind.GE, e - 1, join_why(why, s))
        return
    mono, coefficient = e.terms[0]
    if len(e.terms) == 1 and abs(coefficient) == 1 and len(mono.factors) == 1 and mono.factors[0][1] == 1:
        lo, hi = (-e.constant, None) if coefficient > 0 else (None, e.constant)
        _bound(learner, mono.factors[0][0], lo, hi, why)
    elif not s.bounds.at_least(e, 0):
        _order(learner, s, e, why)
        if s.bounds.at_least(-e, 0):
            learner.push(RelKind.EQ, e, join_why(why, s))


def _order(learner: Learner, s: Simplifier, e: SymExpr, why: Why) -> None:
    outer = outer_atoms(e)
    watched = [atom for atom in outer if isinstance(atom, Opaque) or _is_waited_for(learner, atom)]
    before = [s.bounds.atom(atom) for atom in watched]
    alone = [atom for atom in outer if _is_only_lower_bound(learner, e, atom)]
    _keep(learner, Inequality(e, why), alone if alone else outer)
    learner.note(e)
    learner.touch(*outer)
    learner.changed()
    learner.changed(*_better(learner, watched, before, why))
    if len(e.terms) == 1:
        bound_factors(learner, s, e, why)
    else:
        _bound_product(learner, s, e, why)


def _better(learner: Learner, watched: list[Atom], before: list[Interval], why: Why) -> list[Atom]:
    """The watched atoms whose bounds have improved; bounds of their arguments follow."""
    better: list[Atom] = []
    for atom, (lo, hi) in zip(watched, before, strict=True):
        s = learner.simplifier()
        new_lo, new_hi = s.bounds.atom(atom)
        if (new_lo, new_hi) == (lo, hi):
            continue
        better.append(atom)
        if isinstance(atom, Opaque):
            news = None if new_lo == lo else new_lo, None if new_hi == hi else new_hi
            _bound_arguments(learner, atom, *news, join_why(why, s))
    return better


def _is_only_lower_bound(learner: Learner, e: SymExpr, atom: Atom) -> bool:
    """Whether ``e >= 0`` is the only inequality of a symbol, and says of it only that it is large.

    Then ``e`` tells nothing of its other atoms where the symbol is not asked about, and is not kept with them: a
    size that many are compared with has no long list of what they say.
    """
    if not isinstance(atom, Symbol) or learner.state.orders.get(atom):
        return False
    known = learner.state.ranges.get(atom)
    if known is not None and known.hi is not None:
        return False
    parts = split_linear(e, atom)
    return parts is not None and isinstance(parts[0], int) and parts[0] > 0


def _keep(learner: Learner, new: Inequality, atoms: Iterable[Atom]) -> None:
    """Keep an inequality with these atoms. Where that is an atom's second, the first goes to all of its own."""
    queue = deque([(new, list(atoms))])
    while queue:
        order, where = queue.popleft()
        for atom in where:
            known = learner.state.orders.get(atom, ())
            if order not in known:
                learner.state.orders[atom] = (*known, order)
                if len(known) == 1:
                    queue.append((known[0], outer_atoms(known[0].dim)))


def _is_waited_for(learner: Learner, atom: Atom) -> bool:
    """Whether there is a fact that better bounds of the atom may decide."""
    return any(mentions(dim, atom) for dim in (*learner.state.rows, *learner.state.broadcasts))


def bound_factors(learner: Learner, s: Simplifier, e: Dim, why: Why) -> None:
    """Infer bounds of the factors of ``M``, where they are sizes, from ``c*M + constant >= 0``."""
    assert isinstance(e, SymExpr)
    mono, coefficient = e.terms[0]
    factors = [atom_dim(atom) for atom, _ in mono.factors]
    if coefficient > 0 > e.constant and all(s.bounds.at_least(factor, 0) for factor in factors):
        for factor in factors:  # the product is not 0
            learner.push(RelKind.GE, factor - 1, join_why(why, s))
    elif coefficient < 0 and all(s.bounds.at_least(factor, 1) for factor in factors):
        for factor in factors:  # none is larger than the product
            learner.push(RelKind.GE, e.constant // -coefficient - factor, join_why(why, s))


def _bound_product(learner: Learner, s: Simplifier, e: SymExpr, why: Why) -> None:
    """Infer that no factor of ``M`` is 0 from ``c*M - rest >= 0``, where the rest is positive."""
    rising = [(mono, coefficient) for mono, coefficient in e.terms if coefficient > 0]
    if len(rising) == 1 and len(rising[0][0].factors) > 1:
        mono, coefficient = rising[0]
        rest = single(dict(mono.factors), coefficient) - e
        if s.bounds.at_least(rest, 1):
            learner.push(RelKind.NONZERO, single(dict(mono.factors), 1), join_why(why, s))


def _bound(learner: Learner, atom: Atom, lo: int | None, hi: int | None, why: Why) -> None:
    natural_lo = 0 if isinstance(atom, Symbol) else None
    old = learner.state.ranges.get(atom, AtomRange(natural_lo, None, (), ()))
    new_lo, new_hi = highest(old.lo, lo), lowest(old.hi, hi)
    if (new_lo, new_hi) == (old.lo, old.hi):
        return
    new = AtomRange(
        new_lo,
        new_hi,
        old.why_lo if new_lo == old.lo else why,
        old.why_hi if new_hi == old.hi else why,
    )
    if new_lo is not None and new_hi is not None and new_lo > new_hi:
        raise ContradictionError(new.why_lo + new.why_hi)
    learner.state.ranges[atom] = new
    learner.note(atom_dim(atom))
    learner.touch(atom)
    orders = learner.state.orders.get(atom, ())
    if old.hi is None and new_hi is not None and len(orders) == 1:
        _keep(learner, orders[0], outer_atoms(orders[0].dim))
    learner.changed(atom)
    _look_again(learner, atom)
    if new_lo is not None and new_lo == new_hi:
        learner.push(RelKind.EQ, atom_dim(atom) - new_lo, new.why_lo + new.why_hi)
    if isinstance(atom, Opaque):
        _bound_arguments(learner, atom, lo, hi, why)


def _bound_arguments(learner: Learner, atom: Opaque, lo: int | None, hi: int | None, why: Why) -> None:
    """Infer bounds of an opaque term's arguments from its own: twice at most, as they may rise in circles."""
    learner.propagated[atom] = learner.propagated.get(atom, 0) + 1
    if learner.propagated[atom] > 2:
        return
    a, b = atom.args[:2]
    s = learner.simplifier()
    match atom.kind:
        case OpaqueKind.FLOORDIV if s.bounds.positive_divisor(b):
            why = join_why(why, s)
            if lo is not None:
                learner.push(RelKind.GE, a - b * lo, why)
            if hi is not None:
                learner.push(RelKind.GE, b * hi + b - 1 - a, why)
        case OpaqueKind.MOD if lo is not None and lo > 0 and s.bounds.positive_divisor(b):
            learner.push(RelKind.GE, b - 1 - lo, join_why(why, s))
            if s.bounds.at_least(a, 0):
                learner.push(RelKind.GE, a - lo, join_why(why, s))
        case OpaqueKind.MIN if lo is not None:
            for arg in atom.args:
                learner.push(RelKind.GE, arg - lo, why)
        case OpaqueKind.MAX if hi is not None:
            for arg in atom.args:
                learner.push(RelKind.GE, hi - arg, why)
        case _:
            pass


def _look_again(learner: Learner, atom: Atom) -> None:
    """Split bounded extrema that mention ``atom`` again: its new bound may decide which argument they are."""
    for other, known in learner.state.ranges.items():
        if isinstance(other, Opaque) and other.kind in (OpaqueKind.MIN, OpaqueKind.MAX):
            whole = atom_dim(other)
            if atom is other or not mentions(whole, atom):
                continue
            if other.kind is OpaqueKind.MAX and known.lo is not None:
                _split_again(learner, whole - known.lo, known.why_lo)
            if other.kind is OpaqueKind.MIN and known.hi is not None:
                _split_again(learner, known.hi - whole, known.why_hi)


def _split_again(learner: Learner, dim: Dim, why: Why) -> None:
    learner.split.discard((RelKind.GE, dim, 0))
    learner.push(RelKind.GE, dim, why)


def nonzero(learner: Learner, s: Simplifier, fact: Fact) -> None:
    e, why = fact.dim, fact.why
    if s.is_zero(e):
        raise ContradictionError(join_why(why, s))
    if isinstance(e, int) or s.bounds.nonzero(e):
        return
    shared = common_factor(e)
    rest = remove_factor(e, shared)
    if shared and e.is_atom is None:
        for part in [*map(atom_dim, shared), rest]:
            learner.push(RelKind.NONZERO, part, why)
    elif s.bounds.at_least(e, 0):
        learner.push(RelKind.GE, e - 1, join_why(why, s))
    elif s.bounds.at_least(-e, 0):
        learner.push(RelKind.GE, -e - 1, join_why(why, s))
    else:
        learner.state.nonzeros[e] = why
        learner.news(e)
