"""Sums of dimensions: sizes of joined arrays, of which pieces of one array make that array's size again."""

from __future__ import annotations

from collections.abc import Iterable

from dyn.shapes.expr import Atom, Dim, Monomial, Opaque, OpaqueKind, SymExpr, atom_dim, polynomial
from dyn.shapes.joins import dim_max, dim_min
from dyn.shapes.poly import single

_OPPOSITE = {OpaqueKind.MIN: dim_max, OpaqueKind.MAX: dim_min}


def dim_sum(dims: Iterable[Dim]) -> Dim:
    """The sum; 0 for none. Of many, no sum on the way is made. ``min(n, k) + max(n - k, 0)`` is ``n``."""
    constant = 0
    terms: dict[Monomial, int] = {}
    for dim in dims:
        if isinstance(dim, SymExpr):
            constant += dim.constant
            for mono, coefficient in dim.terms:
                terms[mono] = terms.get(mono, 0) + coefficient
        else:
            constant += dim
    return without_complements(polynomial(terms, constant))


def dim_difference(a: Dim, b: Dim) -> Dim:
    """``a - b``, what is left of ``a``: of ``n`` without its first ``min(n, k)`` that is ``max(n - k, 0)``."""
    return remainder(dim_sum([a, -b]))


def remainder(dim: Dim) -> Dim:
    """A sum with one minimum (or maximum) taken from one of its arguments, as one maximum (or minimum)."""
    if isinstance(dim, int) or not dim.height:
        return dim
    extrema = [
        (mono, c)
        for mono, c in dim.terms
        for atom, _ in mono.factors
        if isinstance(atom, Opaque) and atom.kind in _OPPOSITE
    ]
    if len(extrema) != 1 or extrema[0][1] != -1 or len(extrema[0][0].factors) != 1:
        return dim
    atom, power = extrema[0][0].factors[0]
    assert isinstance(atom, Opaque)
    rest = dim + atom_dim(atom)
    if power != 1 or isinstance(rest, int) or not any(isinstance(rest - arg, int) for arg in atom.args):
        return dim
    return _OPPOSITE[atom.kind](*[rest - arg for arg in atom.args])


def without_complements(dim: Dim) -> Dim:
    """A sum in which no minimum stands beside the maximum that makes it up to one of its arguments.

    ``min(a, b) + max(c, d)`` is ``a + d`` where ``a - b`` is ``c - d``: from ``max(c, d) == d + max(c - d, 0)`` and
    ``min(a, b) == a - max(a - b, 0)``. So it is for all integers, and nothing has to be known of the sizes. A slice up
    to ``k`` and the one from ``k`` on are such: without this, what is cut and joined again in each layer, as by a roll,
    has a size that grows by a level with each.
    """
    while isinstance(dim, SymExpr) and dim.height and len(dim.terms) > 1:
        shorter = _without_one(dim)
        if shorter is None:
            return dim
        dim = shorter
    return dim


def _without_one(dim: SymExpr) -> Dim | None:
    """The sum without one pair of complements; None where it has none."""
    least, greatest = _extrema(dim, OpaqueKind.MIN), _extrema(dim, OpaqueKind.MAX)
    for mono, coefficient, atom, rest in least:
        for other, factor, partner, remainder in greatest:
            if factor != coefficient or remainder != rest:
                continue
            whole = _whole(atom, partner)
            if whole is not None:
                left = {m: c for m, c in dim.terms if m is not mono and m is not other}
                scale = single(dict(rest), coefficient)
                return polynomial(left, dim.constant) + scale * whole
    return None


def _extrema(dim: SymExpr, kind: OpaqueKind) -> list[tuple[Monomial, int, Opaque, tuple[tuple[Atom, int], ...]]]:
    """The terms with a minimum (or maximum) of two: the monomial, its coefficient, the extremum, and other factors."""
    return [
        (mono, coefficient, atom, tuple([factor for factor in mono.factors if factor[0] is not atom]))
        for mono, coefficient in dim.terms
        for atom, power in mono.factors
        if power == 1 and isinstance(atom, Opaque) and atom.kind is kind and len(atom.args) == 2
    ]


def _whole(least: Opaque, greatest: Opaque) -> Dim | None:
    """The sum of a minimum and a maximum that make up for each other; None for others."""
    (a, b), (c, d) = least.args, greatest.args
    gap, other = a - b, c - d
    if gap is other or (isinstance(gap, int) and gap == other):
        return a + d
    negated = d - c
    return a + c if gap is negated or (isinstance(gap, int) and gap == negated) else None
