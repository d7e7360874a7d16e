"""Questions and their verdicts, from one state."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from dyn.shapes.bound import Hypotheses
from dyn.shapes.case_proofs import cases, extrema, never_negative
from dyn.shapes.expr import Dim, SymExpr, atom_dim, content, divide_exactly, product
from dyn.shapes.joins import joined_from
from dyn.shapes.poly import exact_quotient, single
from dyn.shapes.relation import Relation, RelKind, Verdict
from dyn.shapes.simplify import Simplifier

#: How many combinations of remainders are tried for the divisibility of a polynomial.
_REMAINDERS = 256


def verdict(proved: bool, refuted: bool) -> Verdict:
    return Verdict.PROVED if proved else Verdict.REFUTED if refuted else Verdict.UNKNOWN


def eq(s: Simplifier, a: Dim, b: Dim) -> Verdict:
    """``a == b``"""
    left = s.residue(a - b)
    if _joins_more(left):
        return Verdict.UNKNOWN
    if isinstance(left, int):
        return verdict(left == 0, left != 0)
    if s.bounds.nonzero(left):
        return Verdict.REFUTED
    if never_negative(s, left) and never_negative(s, -left):
        return Verdict.PROVED
    if isinstance(left, SymExpr) and left.height:  # else bounds have said it
        return verdict(False, never_negative(s, left - 1) or never_negative(s, -1 - left))
    return Verdict.UNKNOWN


def _joins_more(gap: Dim) -> bool:
    """Whether ``gap`` is what an axis has more than one that it was broadcast from: ``broadcast(a, b) - a``.

    Where ``b`` is known to be 1 or ``a``, simplification has left it out; otherwise there is no proof to look for.
    """
    if isinstance(gap, int) or gap.constant or len(gap.terms) != 2:
        return False
    dims = [single(dict(mono.factors), 1) for mono, _ in gap.terms]
    if gap.terms[0][1] * gap.terms[1][1] != -1:
        return False
    left, right = (frozenset(joined_from(dim)) for dim in dims)
    return left < right or right < left


def ge(s: Simplifier, a: Dim, b: Dim) -> Verdict:
    """``a >= b``"""
    if s.bounds.at_least(a - b, 0):  # as it stands: what is put in place of a size may hide that it is one
        return Verdict.PROVED
    left = s.simplify(a - b)
    if isinstance(left, int):
        return verdict(left >= 0, left < 0)
    return verdict(never_negative(s, left), never_negative(s, -1 - left))


def nonzero(s: Simplifier, a: Dim, _: Dim = 0) -> Verdict:
    """``a != 0``"""
    left = s.residue(a)
    return verdict(s.bounds.nonzero(left), isinstance(left, int) and left == 0)


def divides(s: Simplifier, k: Dim, a: Dim) -> Verdict:
    """``a`` is a multiple of ``k``; of 0 only 0 is."""
    k, a = s.simplify(k), s.simplify(a)
    if s.is_zero(a):
        return Verdict.PROVED
    if isinstance(k, int):
        if k == 0:
            return verdict(False, s.bounds.nonzero(a))
        if s.bounds.multiple(a) % k == 0:
            return Verdict.PROVED
        if isinstance(a, int):
            return Verdict.REFUTED
        found = _by_remainders(s, k, a)
        if found is not Verdict.UNKNOWN:
            return found
        varying = math.gcd(k, *[s.bounds.term_multiple(m, c) for m, c in a.terms])
        remainder = s.simplify(a % k)
        return verdict(remainder == 0, a.constant % varying != 0 or s.bounds.nonzero(remainder))
    # k is c times a primitive polynomial p: where a is p times q, it is a multiple of k if q is one of c.
    shared = content(k)
    quotient = exact_quotient(a, divide_exactly(k, shared))
    if quotient is None:
        return verdict(s.bounds.nonzero(k) and s.simplify(a % k) == 0, False)
    return verdict(divides(s, shared, quotient) is Verdict.PROVED, False)


def _by_remainders(s: Simplifier, k: int, a: SymExpr) -> Verdict:
    """Whether ``k`` divides a polynomial that is not linear, from the remainders that its atoms may have."""
    k = abs(k)
    if all(len(m.factors) == 1 and m.factors[0][1] == 1 for m, _ in a.terms):
        return Verdict.UNKNOWN
    atoms = list(dict.fromkeys([atom for m, _ in a.terms for atom, _ in m.factors]))
    steps = [math.gcd(s.bounds.multiple(atom_dim(atom)), k) for atom in atoms]
    count = math.prod([k // step for step in steps])
    if count > _REMAINDERS:
        return Verdict.UNKNOWN
    s.work.step(count)
    divided: set[bool] = set()
    for remainders in itertools.product(*[range(0, k, step) for step in steps]):
        value = dict(zip(atoms, remainders, strict=True))
        total = a.constant + sum([c * math.prod([value[atom] ** n for atom, n in m.factors]) for m, c in a.terms])
        divided.add(total % k == 0)
        if len(divided) > 1:
            return Verdict.UNKNOWN
    return verdict(divided == {True}, divided == {False})


def broadcasts(s: Simplifier, a: Dim, b: Dim) -> Verdict:
    """``a == b or a == 1 or b == 1``"""
    a, b = s.simplify(a), s.simplify(b)
    if s.fits(a, b):
        return Verdict.PROVED
    refuted = s.bounds.nonzero(a - 1) and s.bounds.nonzero(b - 1) and eq(s, a, b) is Verdict.REFUTED
    return verdict(False, refuted)


def same_numel(s: Simplifier, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> Verdict:
    """Whether two shapes have as many elements: equal factors on both sides need not be known to be non-zero."""
    left, right = [s.simplify(dim) for dim in a], [s.simplify(dim) for dim in b]
    whole = product(left), product(right)
    for dim in tuple(left):
        if dim in right:
            left.remove(dim)
            right.remove(dim)
    if eq(s, product(left), product(right)) is Verdict.PROVED:
        return Verdict.PROVED
    return eq(s, *whole)


_DECIDE: dict[RelKind, Callable[[Simplifier, Dim, Dim], Verdict]] = {
    RelKind.EQ: eq,
    RelKind.GE: ge,
    RelKind.NONZERO: nonzero,
    RelKind.DIVIDES: divides,
    RelKind.SAME_NUMEL: eq,
    RelKind.BROADCASTS: broadcasts,
}


#: What :func:`never_negative` does not take apart already.
_SPLIT = (RelKind.NONZERO, RelKind.DIVIDES, RelKind.BROADCASTS)


def decide(s: Simplifier, kind: RelKind, a: Dim, b: Dim, splits: int = 2) -> Verdict:
    """The verdict on a relation between two dimensions.

    ``splits`` extrema, one inside another, are taken to be each of their arguments in turn.
    """
    found = _DECIDE[kind](s, a, b)
    if found is not Verdict.UNKNOWN or not splits or kind not in _SPLIT:
        return found
    a, b = s.simplify(a), s.simplify(b)
    for atom in extrema(a, b)[:1]:
        verdicts = {decide(s, kind, left, right, splits - 1) for (left, right), _ in cases(s, (a, b), atom)}
        return verdicts.pop() if len(verdicts) == 1 else Verdict.UNKNOWN
    return Verdict.UNKNOWN


def refuted(s: Simplifier, kind: RelKind, a: Dim, b: Dim, hypotheses: Hypotheses) -> bool:
    """Whether a relation holds nowhere where the hypotheses do."""
    if kind is RelKind.GE:
        return s.bounds.never_negative(s.simplify(b - a - 1), hypotheses)
    if kind is RelKind.EQ:
        gap = s.simplify(a - b)
        return s.bounds.never_negative(gap - 1, hypotheses) or s.bounds.never_negative(-1 - gap, hypotheses)
    return decide(s, kind, a, b, 0) is Verdict.REFUTED


def decide_relation(s: Simplifier, relation: Relation) -> Verdict:
    """The verdict on a relation, with the shapes of a SAME_NUMEL."""
    if relation.lhs_shape is not None and relation.rhs_shape is not None:
        return same_numel(s, relation.lhs_shape, relation.rhs_shape)
    return decide(s, relation.kind, relation.lhs, relation.rhs)
