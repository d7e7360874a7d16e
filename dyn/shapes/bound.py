"""Bounds, divisors and non-zero proofs of simplified expressions.

There are three levels, each of which uses those before it, so that nothing is asked in circles and no answer depends on
the order of the questions:

- :meth:`Bounds.plain`: an atom's declared range, and interval arithmetic over the arguments of opaque terms;
- :meth:`Bounds.inner`: the same with the best bounds of the arguments, which are smaller expressions;
- :meth:`Bounds.lower`: interval arithmetic over the polynomial, improved by the best combination of the known
  inequalities that :mod:`dyn.shapes.relevant_inequalities` finds around it and :mod:`dyn.shapes.linear` weighs.
  Whatever these say, the bound is computed here: from ``rows >= 0`` follows ``scale*e >= scale*e -
  sum(multiplier*row)``.

All numbers are integers, so a bound is rounded up.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TypeGuard

from dyn.shapes import interval as iv
from dyn.shapes.expr import (
    Atom,
    Dim,
    Monomial,
    Opaque,
    OpaqueKind,
    Symbol,
    SymExpr,
    atom_dim,
    content,
    divide_exactly,
    natural_bounds,
)
from dyn.shapes.interval import ANY, Interval
from dyn.shapes.linear import Combination, Row, best_combination
from dyn.shapes.poly import common_factor, divide, exact_quotient, remove_factor, single
from dyn.shapes.relevant_inequalities import relevant_inequalities
from dyn.shapes.state import State, Work
from dyn.shapes.symbols import bounds_by_definition

#: Steps of the simplex method that one bound may take.
_PIVOTS = 60

Hypotheses = tuple[SymExpr, ...]


class Bounds:
    """Answers from one state, within one budget."""

    __slots__ = ("state", "work")

    def __init__(self, state: State, work: Work) -> None:
        self.state = state
        self.work = work

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
        """Bounds of an atom, the best that can be found."""
        return self.plain(atom) if is_large(atom) else self.work.remember(("atom", atom), self._atom)

    def least(self, atom: Opaque) -> int | None:
        """The lower one of :meth:`atom`'s bounds."""
        return self.plain(atom)[0] if is_large(atom) else self._rounded(atom, (self.lower(atom_dim(atom)), None))[0]

    def _atom(self, atom: Atom) -> Interval:
        e = atom_dim(atom)
        upper = self.lower(-e)
        return self._rounded(atom, (self.lower(e), None if upper is None else -upper))

    def _rounded(self, atom: Atom, bounds: Interval) -> Interval:
        step = self._atom_multiple(atom)
        if step == 1:
            return bounds
        lo, hi = bounds
        return None if lo is None else -(-lo // step) * step, None if hi is None else hi // step * step

    def plain(self, atom: Atom) -> Interval:
        """Bounds of an atom without looking at inequalities."""
        if isinstance(atom, Symbol) and atom not in self.state.ranges and atom not in self.state.multiples:
            return 0, None
        return self.work.remember(("plain", atom), self._plain)

    def _plain(self, atom: Atom) -> Interval:
        natural: Interval = (0, None)
        if is_large(atom):
            natural = atom.natural
        elif isinstance(atom, Opaque):
            natural = bounds_by_definition(atom.kind, [self.plain_terms(arg) for arg in atom.args])
        return self._rounded(atom, self._in_range(atom, natural))

    def inner(self, atom: Atom) -> Interval:
        """Bounds of an atom, looking at inequalities for its arguments."""
        if isinstance(atom, Symbol) or is_large(atom):
            return self.plain(atom)
        return self.work.remember(("inner", atom), self._inner)

    def _inner(self, atom: Opaque) -> Interval:
        natural = bounds_by_definition(atom.kind, [self.interval(arg) for arg in atom.args])
        return self._rounded(atom, self._in_range(atom, natural))

    def _in_range(self, atom: Atom, natural: Interval) -> Interval:
        known = self.state.ranges.get(atom)
        if known is None:
            return natural
        if known.lo is not None and (natural[0] is None or known.lo > natural[0]):
            self.work.use(known.why_lo)
        if known.hi is not None and (natural[1] is None or known.hi < natural[1]):
            self.work.use(known.why_hi)
        return iv.meet(natural, (known.lo, known.hi))

    def plain_terms(self, e: Dim) -> Interval:
        """Interval arithmetic over the terms with :meth:`plain` bounds."""
        return self._terms(e, frozenset())

    def plain_monomial(self, mono: Monomial) -> Interval:
        result: Interval = (1, 1)
        for atom, n in mono.factors:
            bounds = self.plain(atom)
            result = iv.times(result, bounds if n == 1 else iv.power(bounds, n))
        return result

    def own_monomial(self, mono: Monomial) -> Interval:
        """Bounds of a monomial of the expression in question."""
        if len(mono.factors) == 1 and mono.factors[0][1] == 1:
            return self.inner(mono.factors[0][0])
        result: Interval = (1, 1)
        for atom, n in mono.factors:
            bounds = self.atom(atom) if isinstance(atom, Opaque) or atom in self.state.orders else self.plain(atom)
            result = iv.times(result, bounds if n == 1 else iv.power(bounds, n))
        return result

    def _terms(self, e: Dim, own: frozenset[Monomial]) -> Interval:
        if isinstance(e, int):
            return e, e
        result: Interval = (e.constant, e.constant)
        for mono, coefficient in e.terms:
            bounds = self.own_monomial(mono) if mono in own else self.plain_monomial(mono)
            result = iv.plus(result, iv.scale(bounds, coefficient))
            if result == ANY:
                break
        return result

    def _naive(self, e: Dim) -> Interval:
        """Interval arithmetic: over the terms, and with the most frequent atom factored out."""
        self.work.step()
        result = self._terms(e, _monomials(e))
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
        if e.is_large:
            return self.plain_terms(e)[0]
        return self.work.remember(("lower", e), self._lower)

    def at_least(self, e: Dim, bound: int) -> bool:
        """Whether ``e >= bound``: by interval arithmetic where that is enough."""
        if isinstance(e, int):
            return e >= bound
        natural = natural_bounds(e)[0]
        if natural is not None and natural >= bound:
            return True
        for model in self.work.models:
            value = model.value(e)
            if value is not None and value < bound:
                return False
        if e.is_large:
            lo = self.lower(e)
            return lo is not None and lo >= bound
        lo = self.work.remember(("naive", e), self._naive)[0]
        if lo is None or lo < bound:
            lo = self.lower(e)
        return lo is not None and lo >= bound

    def never_negative(self, e: Dim, hypotheses: Hypotheses) -> bool:
        """Whether ``e >= 0`` wherever the hypotheses are; so it is where they contradict the facts."""
        if not hypotheses or isinstance(e, int):
            return self.at_least(e, 0)
        if self.at_least(e, 0):
            return True
        if e.is_large or self.has_counterexample(e, hypotheses):
            return False
        return self.work.remember(("under", (e, hypotheses)), self._never_negative)

    def has_counterexample(self, e: SymExpr, hypotheses: Hypotheses) -> bool:
        """Whether in some model ``e`` is negative, and the hypotheses are not."""
        for model in self.work.models:
            value = model.value(e)
            if value is not None and value < 0:
                if all((model.value(row) or 0) >= 0 for row in hypotheses):
                    return True
        return False

    def _never_negative(self, key: tuple[SymExpr, Hypotheses]) -> bool:
        lo, impossible = self._combined(*key)
        return impossible or (lo is not None and lo >= 0)

    def _lower(self, e: SymExpr) -> int | None:
        shared = math.gcd(*[c for _, c in e.terms])
        if shared > 1:  # a bound is rounded up to a multiple
            lo = self.lower(divide_exactly(e - e.constant, shared))
            return None if lo is None else lo * shared + e.constant
        best = self.work.remember(("naive", e), self._naive)[0]
        if best is not None and self._is_reached(e, best):
            return best
        improved, _ = self._combined(e, ())
        return iv.highest(best, improved)

    def _is_reached(self, e: SymExpr, bound: int) -> bool:
        """Whether ``e`` is no more than a lower bound in some model: then there is no better one."""
        for model in self.work.models:
            value = model.value(e)
            if value is not None and value <= bound:
                return True
        return False

    def _combined(self, e: SymExpr, hypotheses: Hypotheses) -> tuple[int | None, bool]:
        """The bound that the best combination of inequalities gives, and whether they contradict one another."""
        with self.work.aside():  # of what is looked at, only what is used is a reason
            rows = relevant_inequalities(self, e, hypotheses)
            if not rows:
                return None, False
            own = _monomials(e)
            found = self._combination(e, list(rows), own)
        if found is None:
            return None, False
        rest: Dim = e * found.scale
        for (row, why), multiplier in [(list(rows.items())[i], k) for i, k in found.multipliers.items()]:
            rest = rest - multiplier * row
            self.work.use(why)
        bound = self._terms(rest, own)[0]
        return None if bound is None else -(-bound // found.scale), found.impossible

    def _combination(self, e: SymExpr, rows: list[SymExpr], own: frozenset[Monomial]) -> Combination | None:
        columns: dict[Monomial, int] = {}
        for dim in (e, *rows):
            for mono, _ in dim.terms:
                columns.setdefault(mono, len(columns))
        objective = [0] * len(columns)
        for mono, coefficient in e.terms:
            objective[columns[mono]] = coefficient
        ranges = [self.own_monomial(mono) if mono in own else self.plain_monomial(mono) for mono in columns]
        lines = [Row({columns[mono]: c for mono, c in row.terms}, row.constant) for row in rows]
        found, pivots = best_combination(objective, lines, ranges, _PIVOTS)
        self.work.step(1 + pivots * len(columns) // 4)
        return found

    def positive_divisor(self, b: Dim) -> bool:
        """Whether ``b > 0`` wherever a division by it has a value."""
        lo = self.plain_terms(b)[0]
        return lo is not None and lo >= 0

    # --- divisors --------------------------------------------------------------------------------------------------

    def multiple(self, e: Dim) -> int:
        """The largest known divisor of ``e``; 0 for 0."""
        if isinstance(e, int):
            return abs(e)
        result = math.gcd(e.constant, *[self.term_multiple(m, c) for m, c in e.terms])
        for p, (k, why) in self.state.divisors.items():
            if p.symbols <= e.symbols and not e.is_large and p.atoms <= e.atoms:
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
        if is_large(atom):
            known = self.state.multiples.get(atom)
            if known is not None:
                self.work.use(known.why)
            return 1 if known is None else known.k
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
        for model in self.work.models:
            if model.value(e) == 0:
                return False
        if e.is_large:
            return self.at_least(e, 1) or self.at_least(-e, 1)
        return self.work.remember(("nonzero", e), self._nonzero)

    def _nonzero(self, e: SymExpr) -> bool:
        if e.constant and e.constant % math.gcd(*[self.term_multiple(m, c) for m, c in e.terms]):
            return True  # a multiple of g, and something that is none
        for fact, why in self.state.nonzeros.items():
            if not fact.symbols.isdisjoint(e.symbols) and exact_quotient(fact, e) is not None:
                self.work.use(why)  # fact == q*e
                return True
        if self._leaves_a_rest(e):
            return True
        shared = common_factor(e)
        if shared and (len(e.terms) > 1 or len(shared) > 1 or content(e) > 1):
            rest = remove_factor(e, shared)
            return all(self.nonzero(atom_dim(atom)) for atom in shared) and self.nonzero(rest)
        if self.at_least(e, 1):
            return True
        return not self.at_least(e, 0) and self.at_least(-e, 1)

    def _leaves_a_rest(self, e: SymExpr) -> bool:
        """Whether a divisor of something says that ``e`` is not 0: ``k`` divides ``q*e + rest`` and not ``rest``."""
        for fact, (k, why) in self.state.divisors.items():
            if fact.symbols == e.symbols and fact.atoms == e.atoms:
                quotient, rest = divide(fact, e)
                if isinstance(quotient, int) and isinstance(rest, int) and rest % k:
                    self.work.use(why)
                    return True
        return False


def is_large(atom: Atom) -> TypeGuard[Opaque]:
    """Whether an atom is taken as it stands, as a symbol is: what is inside is too much to look at."""
    return isinstance(atom, Opaque) and atom_dim(atom).is_large


def _monomials(e: Dim) -> frozenset[Monomial]:
    return frozenset() if isinstance(e, int) else frozenset([mono for mono, _ in e.terms])
