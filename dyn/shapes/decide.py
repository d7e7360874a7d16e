"""Questions and their verdicts, from one state."""

from __future__ import annotations

import math
from collections.abc import Callable

from dyn.shapes.expr import Dim, Opaque, OpaqueKind, SymExpr, product
from dyn.shapes.poly import exact_quotient
from dyn.shapes.relation import Relation, RelKind, Verdict
from dyn.shapes.simplify import Simplifier
from dyn.shapes.walk import split_linear

_CHOICES = (OpaqueKind.MIN, OpaqueKind.MAX, OpaqueKind.BROADCAST)
#: How many terms that are "one of their arguments" a proof may split into cases.
_SPLITS = 2


def verdict(proved: bool, refuted: bool) -> Verdict:
    return Verdict.PROVED if proved else Verdict.REFUTED if refuted else Verdict.UNKNOWN


def eq(s: Simplifier, a: Dim, b: Dim) -> Verdict:
    """``a == b``"""
    left = s.residue(a - b)
    if isinstance(left, int):
        return verdict(left == 0, left != 0)
    if s.bounds.nonzero(left):
        return Verdict.REFUTED
    return verdict(_never_negative(s, left, _SPLITS) and _never_negative(s, -left, _SPLITS), False)


def ge(s: Simplifier, a: Dim, b: Dim) -> Verdict:
    """``a >= b``"""
    left = s.simplify(a - b)
    if isinstance(left, int):
        return verdict(left >= 0, left < 0)
    return verdict(_never_negative(s, left, _SPLITS), _never_negative(s, -1 - left, _SPLITS))


def _never_negative(s: Simplifier, e: Dim, splits: int) -> bool:
    e = s.simplify(e)
    if s.bounds.at_least(e, 0):
        return True
    if splits and isinstance(e, SymExpr):
        for atom in dict.fromkeys([a for m, _ in e.terms for a, _ in m.factors]):
            if isinstance(atom, Opaque) and atom.kind in _CHOICES:
                parts = split_linear(e, atom)
                if parts is not None:
                    factor, rest = parts
                    return all(_never_negative(s, factor * arg + rest, splits - 1) for arg in atom.args)
    return False


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
        varying = math.gcd(k, *[s.bounds.term_multiple(m, c) for m, c in a.terms])
        remainder = s.simplify(a % k)
        return verdict(remainder == 0, a.constant % varying != 0 or s.bounds.nonzero(remainder))
    quotient = exact_quotient(a, k)
    return verdict(quotient is not None, False)


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


def decide(s: Simplifier, kind: RelKind, a: Dim, b: Dim) -> Verdict:
    """The verdict on a relation between two dimensions."""
    return _DECIDE[kind](s, a, b)


def decide_relation(s: Simplifier, relation: Relation) -> Verdict:
    """The verdict on a relation, with the shapes of a SAME_NUMEL."""
    if relation.lhs_shape is not None and relation.rhs_shape is not None:
        return same_numel(s, relation.lhs_shape, relation.rhs_shape)
    return decide(s, relation.kind, relation.lhs, relation.rhs)
