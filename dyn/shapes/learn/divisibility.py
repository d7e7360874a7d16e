"""Learning divisors of sums, of terms and of what opaque terms are about."""

from __future__ import annotations

import math

from dyn.shapes.expr import Opaque, OpaqueKind, SymExpr, atom_dim, content, divide_exactly
from dyn.shapes.learn.learner import ContradictionError, Learner, join_why
from dyn.shapes.poly import single
from dyn.shapes.relation import RelKind, Why
from dyn.shapes.retract import Fact
from dyn.shapes.simplify import Simplifier
from dyn.shapes.state import Multiple


def divides(learner: Learner, s: Simplifier, fact: Fact) -> None:
    k, e, why = fact.other, fact.dim, fact.why
    if learner.is_refuted(s, fact):
        raise ContradictionError(join_why(why, s))
    if not isinstance(k, int):
        if s.bounds.nonzero(k):
            learner.push(RelKind.EQ, e % k, join_why(why, s))
        return
    if k == 0:
        learner.push(RelKind.EQ, e, why)
        return
    k = abs(k)
    if isinstance(e, int) or s.bounds.multiple(e) % k == 0:
        return
    e = single({}, e.constant if e.constant % k else 0) + sum(
        [single(dict(m.factors), c) for m, c in e.terms if s.bounds.term_multiple(m, c) % k]
    )
    assert isinstance(e, SymExpr)
    shared = math.gcd(k, content(e))
    k, e = k // shared, divide_exactly(e, shared)
    assert isinstance(e, SymExpr)
    if len(e.terms) == 1 and not e.constant:  # k divides c*M: what it does not share with c divides M
        k //= math.gcd(k, e.terms[0][1])
        e = divide_exactly(e, e.terms[0][1])
        assert isinstance(e, SymExpr)
    if e.terms[0][1] < 0:
        e = -e
        assert isinstance(e, SymExpr)
    why = join_why(why, s)
    if e.is_atom is not None:
        old = learner.state.multiples.get(e.is_atom, Multiple(1, ()))
        learner.state.multiples[e.is_atom] = Multiple(math.lcm(old.k, k), old.why + why)
    else:
        old = learner.state.divisors.get(e, Multiple(1, ()))
        learner.state.divisors[e] = Multiple(math.lcm(old.k, k), old.why + why)
    learner.news(e)
    _divide_arguments(learner, e)


def _divide_arguments(learner: Learner, e: SymExpr) -> None:
    """Infer divisors of opaque terms' arguments from those of the terms, where these share an atom with ``e``."""
    for atom, (k, why) in learner.state.multiples.items():
        if not isinstance(atom, Opaque) or atom.kind not in (OpaqueKind.FLOORDIV, OpaqueKind.MOD):
            continue
        (a, b), s = atom.args, learner.simplifier()
        if not isinstance(b, int) or isinstance(a, int) or e.atoms.isdisjoint(atom_dim(atom).atoms):
            continue
        known = s.bounds.multiple(a)
        if atom.kind is OpaqueKind.MOD:
            k = math.gcd(k, b)
        elif known % b:  # what is left over when dividing has no say
            continue
        else:
            k *= b
        if known % k:
            learner.push(RelKind.DIVIDES, a, join_why(why, s), k)


def learn_divisors(learner: Learner, s: Simplifier, e: SymExpr, why: Why) -> bool:
    """Infer divisors of the terms of ``e`` from ``e == 0``; tells whether there are new ones."""
    news = False
    for mono, coefficient in e.terms:  # coefficient*mono == -rest, so what divides rest divides it
        term = single(dict(mono.factors), coefficient)
        k = s.bounds.multiple(e - term)
        k //= math.gcd(k, coefficient)
        if k > 1 and (mono, k) not in learner.inferred and s.bounds.term_multiple(mono, 1) % k:
            learner.inferred.add((mono, k))
            learner.push(RelKind.DIVIDES, divide_exactly(term, coefficient), why, k)
            news = True
    return news
