"""The inequalities that may bear on a lower bound of an expression.

A search from what is wanted: a term ``c*M`` of the expression calls for inequalities with a term of the same sign that
divides ``M`` with a size as quotient, as taking away a multiple cancels it; what else these bring calls for more. Then
those that bring what nothing bounds are struck out, again and again: for most questions without an answer nothing is
left, and no more work is done.

The definitions of opaque terms come first, then what was learnt first, so that a limit that is reached cuts off the
newest: a question answered under few facts is answered under more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from dyn.shapes.expr import Atom, Dim, Monomial, Opaque, OpaqueKind, SymExpr, atom_dim
from dyn.shapes.interval import Interval
from dyn.shapes.poly import over, single
from dyn.shapes.relation import Why
from dyn.shapes.state import State, Work
from dyn.shapes.walk import mentions

#: How many inequalities may be combined, and how many of one atom are looked at: an atom that takes part in more has
#: most of them by accident.
_ROWS = 32
_BREADTH = 24
#: How many inequalities away from the expression products are still looked at.
_PRODUCTS = 1

_Sign = bool
_Want = tuple[Monomial, _Sign]


class Ranges(Protocol):
    """The part of :class:`~dyn.shapes.bound.Bounds` that is needed here."""

    state: State
    work: Work

    def plain(self, atom: Atom) -> Interval: ...

    def plain_terms(self, e: Dim) -> Interval: ...

    def plain_monomial(self, mono: Monomial) -> Interval: ...

    def own_monomial(self, mono: Monomial) -> Interval: ...

    def atom(self, atom: Atom) -> Interval: ...

    def positive_divisor(self, b: Dim) -> bool: ...


def relevant_inequalities(ranges: Ranges, e: SymExpr, hypotheses: tuple[SymExpr, ...]) -> dict[SymExpr, Why]:
    """Each inequality ``row >= 0`` that may bear on a lower bound of ``e``, with its reasons.

    None where they cannot bound it. The hypotheses are inequalities too.
    """
    return _InequalitySearch(ranges, e, hypotheses).rows()


class _InequalitySearch:
    def __init__(self, ranges: Ranges, e: SymExpr, hypotheses: tuple[SymExpr, ...]) -> None:
        self.ranges = ranges
        self.state = ranges.state
        self.e = e
        self.own = frozenset([mono for mono, _ in e.terms])
        self.hypotheses = hypotheses
        self.found: dict[SymExpr, Why] = {}
        self.loose: dict[_Want, bool] = {}
        #: The terms of the expression, with their signs: a row of the same sign takes from them.
        self.there = dict.fromkeys([(mono, c > 0) for mono, c in e.terms])

    def rows(self) -> dict[SymExpr, Why]:
        wanted: dict[_Want, int] = dict.fromkeys(self.there, 0)  # and how many inequalities away
        for row in self.hypotheses:
            self.found[row] = ()
            wanted |= {(mono, c < 0): 1 for mono, c in row.terms}
        queue = deque(wanted)
        while queue:
            want = queue.popleft()
            distance = wanted[want]
            for row, why in self._candidates(*want, distance):
                self.ranges.work.step()
                if row in self.found or self._is_dead_end(row, want[0]):
                    continue
                self.found[row] = why
                if len(self.found) >= _ROWS:
                    return self._bounded()
                for other, c in row.terms:
                    if (other, c < 0) not in wanted:
                        wanted[other, c < 0] = distance + 1
                        queue.append((other, c < 0))
        return self._bounded()

    def _is_dead_end(self, row: SymExpr, mono: Monomial) -> bool:
        """Whether a row brings a symbol that nothing bounds and no other inequality mentions."""
        for other, c in row.terms:
            atom, n = other.factors[0]
            if other is mono or n > 1 or len(other.factors) > 1 or isinstance(atom, Opaque):
                continue
            if len(self.state.orders.get(atom, ())) > 1 or self.hypotheses or (other, c > 0) in self.there:
                continue
            if self._is_loose((other, c < 0)):
                return True
        return False

    def _is_loose(self, want: _Want) -> bool:
        """Whether the range of a term is open on the side that matters."""
        hit = self.loose.get(want)
        if hit is None:
            mono, sign = want
            bounds = self.ranges.own_monomial(mono) if mono in self.own else self.ranges.plain_monomial(mono)
            hit = self.loose[want] = bounds[0 if sign else 1] is None
        return hit

    def _bounded(self) -> dict[SymExpr, Why]:
        """The rows but for those that bring what nothing bounds; none where that is true of the expression."""
        kept = self.found
        while kept:
            given = {(mono, c > 0) for row in kept for mono, c in row.terms}
            left = {
                row: why
                for row, why in kept.items()
                if not any(
                    (m, c < 0) not in given and (m, c > 0) not in self.there and self._is_loose((m, c < 0))
                    for m, c in row.terms
                )
            }
            if len(left) == len(kept):
                break
            kept = left
        given = {(mono, c > 0) for row in kept for mono, c in row.terms}
        if any(want not in given and self._is_loose(want) for want in self.there):
            if not self.hypotheses:  # which may contradict one another, and then all is said
                return {}
        return kept

    # --- where they come from --------------------------------------------------------------------------------------

    def _candidates(self, mono: Monomial, sign: _Sign, distance: int) -> Iterator[tuple[SymExpr, Why]]:
        for p, why in self._about(mono, distance):
            for lead, k in p.terms:
                if (k > 0) is not sign:
                    continue
                if lead is mono:
                    yield p, why
                elif distance <= _PRODUCTS:
                    powers = over(mono, lead)
                    if powers is not None and all(self._is_size(a) for a, n in powers.items() if n % 2):
                        product = single(powers) * p
                        if isinstance(product, SymExpr):
                            yield product, why

    def _about(self, mono: Monomial, distance: int) -> Iterator[tuple[SymExpr, Why]]:
        for atom, _ in mono.factors:
            if isinstance(atom, Opaque):
                for dim in self._implied(atom):
                    if isinstance(dim, SymExpr):
                        yield dim, ()
        for row in self.hypotheses:
            yield row, ()
        if distance <= _PRODUCTS and sum([n for _, n in mono.factors]) == 2:
            yield from self._corners(mono)
        orders = self.state.orders
        for atom, _ in mono.factors:
            known = orders.get(atom, ())
            for order in known[:_BREADTH]:
                yield order.dim, order.why
            if len(known) > _BREADTH:  # of the others, those that lead straight to the expression
                for other in dict.fromkeys([a for m in self.own for a, _ in m.factors]):
                    for order in orders.get(other, ())[:_BREADTH] if other is not atom else ():
                        if mentions(order.dim, atom):
                            yield order.dim, order.why

    def _implied(self, atom: Opaque) -> list[Dim]:
        """:func:`implied`, once for a state. These are no steps: they are counted where they are looked at."""
        memo = self.ranges.work.memo
        hit = memo.get(("implied", atom))
        if hit is None:
            hit = memo["implied", atom] = implied(self.ranges, atom), {}
        return hit[0]

    def _corners(self, mono: Monomial) -> Iterator[tuple[SymExpr, Why]]:
        """``(x - lo)*(y - lo) >= 0`` and its kin: what the ranges of two factors say of their product.

        McCormick, *Computability of global solutions to factorable nonconvex programs*, 1976. Of ``x*x`` more is known:
        no integer lies between ``lo`` and ``lo + 1``.
        """
        (first, n), (second, _) = mono.factors[0], mono.factors[-1]
        x, y = atom_dim(first), atom_dim(second)
        range_of = self.ranges.atom if mono in self.own else self.ranges.plain
        for a, b in ((0, 0), (1, 1), (0, 1), (1, 0)) if n == 1 else ((0, 0), (1, 1)):
            left, right = range_of(first)[a], range_of(second)[b]
            if left is None or right is None:
                continue
            if n == 2:
                right += 1 if a == 0 else -1
            corner = (x - left) * (y - right) * (1 if a == b else -1)
            if isinstance(corner, SymExpr) and len(corner.terms) > 1:
                yield corner, ()

    def _is_size(self, atom: Atom) -> bool:
        lo = self.ranges.plain(atom)[0]
        return lo is not None and lo >= 0


def implied(ranges: Ranges, atom: Opaque) -> list[Dim]:
    """Expressions that are at least 0 by the definition of an opaque term."""
    t = atom_dim(atom)
    match atom.kind:
        case OpaqueKind.FLOORDIV:
            a, b = atom.args
            if not ranges.positive_divisor(b):
                return []
            below = [a - t] if _at_least(ranges, a, 0) else []
            return [a - b * t, b * t + b - 1 - a, *([] if isinstance(b, int) else below)]
        case OpaqueKind.MOD:
            a, b = atom.args
            if not ranges.positive_divisor(b):
                return []
            return [t, b - 1 - t, a - t] if _at_least(ranges, a, 0) else [t, b - 1 - t]
        case OpaqueKind.MIN:
            return [arg - t for arg in atom.args]
        case OpaqueKind.MAX:
            return [t - arg for arg in atom.args]
        case OpaqueKind.BROADCAST:
            positive = all(_at_least(ranges, arg, 1) for arg in atom.args)
            return [t - arg for arg in atom.args] if positive else []


def _at_least(ranges: Ranges, e: Dim, bound: int) -> bool:
    lo = ranges.plain_terms(e)[0]
    return lo is not None and lo >= bound
