"""Bounds, divisors and non-zero proofs of simplified expressions.

Bounds come from interval arithmetic over the polynomial; what that leaves open is tried with at most two known
inequalities: from ``P >= 0`` and a size ``M >= 0`` follows ``e >= e - c*M*P``, where ``c*M`` is chosen to cancel a
term. An opaque term brings the inequalities of its definition (``0 <= a - k*floordiv(a, k) <= k-1``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from dyn.shapes import interval as iv
from dyn.shapes.expr import Atom, Dim, Monomial, Opaque, OpaqueKind, Symbol, SymExpr, atom_dim, content
from dyn.shapes.interval import ANY, Interval
from dyn.shapes.poly import common_factor, exact_quotient, over, remove_factor, single
from dyn.shapes.relation import Why
from dyn.shapes.state import State, Work

#: How many known inequalities one bound may combine.
_DEPTH = 2
#: How many known inequalities of one atom are looked at: an atom that takes part in more has most of them by accident.
_BREADTH = 16


class Bounds:
    """Answers from one state, within one budget."""

    __slots__ = ("_active", "state", "work")

    def __init__(self, state: State, work: Work) -> None:
        self.state = state
        self.work = work
        self._active: set[Atom] = set()

    # --- intervals -----------------------------------------------------------------------------------------------

    def interval(self, e: Dim) -> Interval:
        """Bounds of ``e``, the best that can be found."""
        if isinstance(e, int):
            return e, e
        atom = e.is_atom
        if atom is not None:
            return self.atom(atom)
        upper = self.lower(-e)
        return self.lower(e), None if upper is None else -upper

    def atom(self, atom: Atom) -> Interval:
        """Bounds of an atom, from its own range and, one step, from inequalities with others."""
        return self.work.remember(("atom", atom), self._atom)

    def _atom(self, atom: Atom) -> Interval:
        lo, hi = self._own_range(atom)
        if atom in self.state.orders and atom not in self._active:
            self._active.add(atom)
            for _, why, k, rest in self.state.orders[atom][:_BREADTH]:  # k*atom + rest >= 0
                if k == 0:
                    continue
                self.work.step()
                most = self._by_terms(rest)[1]
                if most is None:
                    continue
                if k > 0 and (lo is None or -(most // k) > lo):
                    lo = -(most // k)
                    self.work.use(why)
                elif k < 0 and (hi is None or most // -k < hi):
                    hi = most // -k
                    self.work.use(why)
            self._active.discard(atom)
        step = self._atom_multiple(atom)
        if step > 1:
            lo = None if lo is None else -(-lo // step) * step
            hi = None if hi is None else hi // step * step
        return lo, hi

    def _own_range(self, atom: Atom) -> Interval:
        natural: Interval = (0, None) if isinstance(atom, Symbol) else self._opaque(atom)
        known = self.state.ranges.get(atom)
        if known is None:
            return natural
        if known.lo is not None and (natural[0] is None or known.lo > natural[0]):
            self.work.use(known.why_lo)
        if known.hi is not None and (natural[1] is None or known.hi < natural[1]):
            self.work.use(known.why_hi)
        return iv.meet(natural, (known.lo, known.hi))

    def _opaque(self, atom: Opaque) -> Interval:
        args = [self.interval(arg) for arg in atom.args]
        los, his = [lo for lo, _ in args], [hi for _, hi in args]
        result: Interval
        match atom.kind:
            case OpaqueKind.FLOORDIV:
                return iv.quotient(args[0], args[1])
            case OpaqueKind.MOD:
                return iv.remainder(args[0], args[1])
            case OpaqueKind.MIN:
                return None if None in los else iv.lowest(*los), iv.lowest(*his)
            case OpaqueKind.MAX:
                return iv.highest(*los), None if None in his else iv.highest(*his)
            case OpaqueKind.BROADCAST:  # one of the arguments; the largest where none can be 0
                result = args[0]
                for arg in args[1:]:
                    result = iv.hull(result, arg)
                positive = all(lo is not None and lo >= 1 for lo in los)
                return (iv.highest(*los), result[1]) if positive else result

    def _by_terms(self, e: Dim) -> Interval:
        if isinstance(e, int):
            return e, e
        result: Interval = (e.constant, e.constant)
        for mono, coefficient in e.terms:
            result = iv.plus(result, iv.scale(self._monomial(mono), coefficient))
            if result == ANY:
                break
        return result

    def _monomial(self, mono: Monomial) -> Interval:
        result: Interval = (1, 1)
        for atom, n in mono.factors:
            bounds = self._own_range(atom) if atom in self._active else self.atom(atom)
            result = iv.times(result, bounds if n == 1 else iv.power(bounds, n))
        return result

    def _naive(self, e: Dim) -> Interval:
        """Interval arithmetic: over the terms, and with the most frequent atom factored out."""
        self.work.step()
        result = self._by_terms(e)
        if isinstance(e, int) or None not in result or len(e.terms) < 2:
            return result
        counts = Counter([atom for mono, _ in e.terms for atom, _ in mono.factors])
        atom, times_seen = counts.most_common(1)[0]
        if times_seen < 2:
            return result
        inside: Dim = 0
        outside: Dim = e.constant
        for mono, coefficient in e.terms:
            powers = dict(mono.factors)
            if atom in powers:
                powers[atom] -= 1
                inside = inside + single(powers, coefficient)
            else:
                outside = outside + single(powers, coefficient)
        return iv.meet(result, iv.plus(iv.times(self.atom(atom), self._naive(inside)), self._naive(outside)))

    # --- with known inequalities -----------------------------------------------------------------------------------

    def lower(self, e: Dim) -> int | None:
        """A lower bound of ``e``; None where none is found."""
        if isinstance(e, int):
            return e
        return self.work.remember(("lower", e), self._lower)

    def _lower(self, e: SymExpr) -> int | None:
        mono = e.terms[0][0]
        if len(e.terms) == 1 and len(mono.factors) == 1:  # the atom's bounds have looked at inequalities already
            return self._by_terms(e)[0]
        return self._combine(e, _DEPTH)

    def at_least(self, e: Dim, bound: int) -> bool:
        lo = self.lower(e)
        return lo is not None and lo >= bound

    def _combine(self, e: Dim, depth: int) -> int | None:
        best = self._naive(e)[0]
        if depth == 0 or isinstance(e, int):
            return best
        # Terms without a lower bound must go; where there are none, any may.
        coefficients = dict(e.terms)
        loose = {m: c for m, c in e.terms if self._is_loose(m, c)}
        if len(loose) > depth:
            return best
        targets = loose if loose else coefficients
        seen: set[tuple[int, Dim]] = set()
        for p, why in self._inequalities(e, targets):
            for scaling, factor in self._cancelling(targets, p):
                if (scaling, product := factor * p) in seen:
                    continue
                seen.add((scaling, product))
                self.work.step()
                if isinstance(product, SymExpr):
                    new = [m for m, c in product.terms if m not in coefficients and self._is_loose(m, -c)]
                    if len(new) >= depth:  # each would take one more inequality
                        continue
                bound = self._combine(e * scaling - product, depth - 1)
                if bound is not None:
                    bound = -(-bound // scaling)
                    if best is None or bound > best:
                        best = bound
                        self.work.use(why)
        return best

    def _cancelling(self, targets: dict[Monomial, int], p: SymExpr) -> Iterator[tuple[int, Dim]]:
        """``(k, f)``, ``k > 0`` and ``f >= 0``, for which ``k*e - f*p`` lacks one of the target terms of ``e``."""
        for mono, coefficient in targets.items():
            for lead, k in p.terms:
                powers = over(mono, lead) if coefficient * k > 0 else None
                if powers is not None and all(self._is_size(a) for a, n in powers.items() if n % 2):
                    shared = math.gcd(coefficient, k)
                    yield abs(k) // shared, single(powers, abs(coefficient) // shared)

    def _is_loose(self, mono: Monomial, coefficient: int) -> bool:
        return self._monomial(mono)[0 if coefficient > 0 else 1] is None

    def _is_size(self, atom: Atom) -> bool:
        lo = self.atom(atom)[0]
        return lo is not None and lo >= 0

    def _inequalities(self, e: SymExpr, targets: Iterable[Monomial]) -> Iterator[tuple[SymExpr, Why]]:
        for atom in dict.fromkeys([atom for mono in targets for atom, _ in mono.factors]):
            for order in self.state.orders.get(atom, ())[:_BREADTH]:
                yield order.dim, order.why
        for atom in dict.fromkeys([atom for mono, _ in e.terms for atom, _ in mono.factors]):
            if isinstance(atom, Opaque):
                for dim in self.implied(atom):
                    if isinstance(dim, SymExpr):
                        yield dim, ()

    def implied(self, atom: Opaque) -> list[Dim]:
        """What the definition of an opaque term says is at least 0."""
        t = atom_dim(atom)
        match atom.kind:
            case OpaqueKind.FLOORDIV:
                a, b = atom.args
                return [a - b * t, b * t + b - 1 - a] if self.positive_divisor(b) else []
            case OpaqueKind.MOD:
                a, b = atom.args
                if not self.positive_divisor(b):
                    return []
                return [t, b - 1 - t, a - t] if self._plainly_at_least(a, 0) else [t, b - 1 - t]
            case OpaqueKind.MIN:
                return [arg - t for arg in atom.args]
            case OpaqueKind.MAX:
                return [t - arg for arg in atom.args]
            case OpaqueKind.BROADCAST:
                positive = all(self._plainly_at_least(arg, 1) for arg in atom.args)
                return [t - arg for arg in atom.args] if positive else []

    def positive_divisor(self, b: Dim) -> bool:
        """Whether ``b > 0`` wherever a division by it has a value."""
        return self._plainly_at_least(b, 0)

    def _plainly_at_least(self, e: Dim, bound: int) -> bool:
        lo = self._by_terms(e)[0]
        return lo is not None and lo >= bound

    # --- divisors --------------------------------------------------------------------------------------------------

    def multiple(self, e: Dim) -> int:
        """The largest known divisor of ``e``; 0 for 0."""
        if isinstance(e, int):
            return abs(e)
        result = math.gcd(e.constant, *[self.term_multiple(m, c) for m, c in e.terms])
        for p, (k, why) in self.state.divisors.items():
            if p.atoms <= e.atoms:
                lead, pc = p.terms[0]
                for mono, coefficient in e.terms:
                    if mono is lead and coefficient % pc == 0:
                        rest = e - coefficient // pc * p
                        other = math.gcd(coefficient // pc * k, self._plain_multiple(rest))
                        if other and result % other:
                            result = math.lcm(result, other)
                            self.work.use(why)
        return result

    def _plain_multiple(self, e: Dim) -> int:
        if isinstance(e, int):
            return abs(e)
        return math.gcd(e.constant, *[self.term_multiple(m, c) for m, c in e.terms])

    def term_multiple(self, mono: Monomial, coefficient: int) -> int:
        """A divisor of one term."""
        result = abs(coefficient)
        for atom, n in mono.factors:
            result *= self._atom_multiple(atom) ** n
        return result

    def _atom_multiple(self, atom: Atom) -> int:
        if isinstance(atom, Symbol) and atom not in self.state.multiples:
            return 1
        return self.work.remember(("multiple", atom), self._find_atom_multiple)

    def _find_atom_multiple(self, atom: Atom) -> int:
        result = 1
        if isinstance(atom, Opaque):
            a, b = atom.args[0], atom.args[1]
            if atom.kind is OpaqueKind.FLOORDIV:
                if isinstance(b, int) and self.multiple(a) % b == 0:
                    result = self.multiple(a) // b
            else:  # mod(a, b) == a - b*q; the others are one of their arguments
                result = math.gcd(*[self.multiple(arg) for arg in atom.args])
        known = self.state.multiples.get(atom)
        if known is not None and result % known.k:
            self.work.use(known.why)
            result = math.lcm(result, known.k)
        return result

    # --- not zero --------------------------------------------------------------------------------------------------

    def nonzero(self, e: Dim) -> bool:
        """Whether ``e`` is known not to be 0."""
        if isinstance(e, int):
            return e != 0
        return self.work.remember(("nonzero", e), self._nonzero)

    def _nonzero(self, e: SymExpr) -> bool:
        if e.constant and e.constant % math.gcd(*[self.term_multiple(m, c) for m, c in e.terms]):
            return True  # a multiple of g, and something that is none
        for fact, why in self.state.nonzeros.items():
            if not fact.atoms.isdisjoint(e.atoms) and exact_quotient(fact, e) is not None:
                self.work.use(why)  # fact == q*e
                return True
        shared = common_factor(e)
        if shared and (len(e.terms) > 1 or len(shared) > 1 or content(e) > 1):
            rest = remove_factor(e, shared)
            return all(self.nonzero(atom_dim(atom)) for atom in shared) and self.nonzero(rest)
        return self.at_least(e, 1) or self.at_least(-e, 1)
