"""Adding facts to a state: each is brought into solved form, and what follows from it is added in turn.

A new value for an atom takes every stored fact that mentions the atom out of the state, and learns it again in terms of
what is left. The queue has a budget; facts that do not fit in it are dropped, which loses power and never soundness.

A fact about a minimum or maximum which only one of its arguments can satisfy says which one it is. Where opaque terms
become something simpler by what is learned, the facts about them become facts about that: little depends on the order
in which facts were learned.

This file is longer than most: its rules push facts to one another.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable

from dyn.shapes.case_proofs import cases, extrema
from dyn.shapes.decide import decide, refuted
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
    floordiv,
    mod,
    product,
)
from dyn.shapes.interval import Interval, highest, lowest
from dyn.shapes.joins import joined_from
from dyn.shapes.models import Models
from dyn.shapes.order import is_less, leading_term
from dyn.shapes.poly import common_factor, quotient, remove_factor, single
from dyn.shapes.relation import RelKind, Verdict, Why, truth
from dyn.shapes.relevant_inequalities import implied
from dyn.shapes.retract import Fact, withdraw, withdraw_broadcasts, withdraw_rows
from dyn.shapes.simplify import Simplifier
from dyn.shapes.state import (
    BUDGET,
    AtomEquality,
    AtomRange,
    Equation,
    Inequality,
    Memo,
    Multiple,
    OutOfBudgetError,
    State,
    Work,
)
from dyn.shapes.walk import last_data_dependent, mentions, split_linear

#: What is computed of bounds and divisors: neither sizes that fit nor equations that are not solved have a say in it.
_BOUNDS = frozenset(("atom", "implied", "inner", "lower", "multiple", "naive", "nonzero", "plain", "under"))
#: All that is computed of a state.
_COMPUTED = _BOUNDS | {"never negative", "replace", "simplify"}
#: So many results go on from one state to the next: more are forgotten, for each of them is copied every time.
_HANDED_ON = 2000

#: Facts that one new fact may lead to, and the steps that all questions about them may take.
_BUDGET = 500
_STEPS = 3 * BUDGET


class ContradictionError(Exception):
    """The facts cannot all hold."""

    def __init__(self, why: Why) -> None:
        super().__init__(why)
        self.why = why


def learn(state: State, facts: Iterable[Fact], models: Models, memo: Memo) -> tuple[State, Memo]:
    """A new state that also knows the facts, and what was computed under it. Raises :class:`ContradictionError`.

    ``models`` are sizes under which all holds that was known, and the new facts too. ``memo`` is what was computed
    under the old state, and goes on to hold until that is changed.
    """
    known = {key: hit for key, hit in memo.items() if key[0] in _COMPUTED} if len(memo) < _HANDED_ON else {}
    learner = _Learner(state.copy(), models, known)
    learner.run(facts)
    return learner.state, learner.memo


class _Learner:
    def __init__(self, state: State, models: Models, memo: Memo) -> None:
        self.state = state
        self.models = models
        #: The budget of all questions, and the one that was asked last.
        self.steps = _STEPS
        self.asked: Work | None = None
        self.queue: deque[Fact] = deque()
        self.memo = memo
        self.inferred: set[tuple[Monomial, int]] = set()
        #: Facts whose extrema were looked at.
        self.split: set[tuple[RelKind, Dim, Dim]] = set()
        #: How often an opaque term's arguments were propagated of its bounds.
        self.propagated: dict[Atom, int] = {}
        #: Atoms of which more is known than before.
        self.touched: dict[Atom, None] = {}
        self.rules: dict[RelKind, Callable[[Simplifier, Fact], None]] = {
            RelKind.EQ: self.equal,
            RelKind.GE: self.not_negative,
            RelKind.NONZERO: self.nonzero,
            RelKind.DIVIDES: self.divides,
            RelKind.BROADCASTS: self.broadcasts,
        }

    def run(self, facts: Iterable[Fact]) -> None:
        self.queue.extend(facts)
        for _ in range(_BUDGET):
            try:
                if not self.queue:
                    self._settle()
                if not self.queue:
                    break
                self._learn(self.queue.popleft())
            except OutOfBudgetError:
                if self.steps <= 0:
                    break

    def _learn(self, fact: Fact) -> None:
        s = self._simplifier()
        dim, other = s.simplify(fact.dim), s.simplify(fact.other)
        fact = Fact(fact.kind, dim, _join(fact.why, s), other)
        if any(isinstance(side, SymExpr) and side.is_large for side in (dim, other)):
            if fact.kind is RelKind.BROADCASTS:  # nothing follows from it, and it is found when it is asked for
                self.state.add_broadcast(dim, other, fact.why)
        elif not self._one_case(s, fact):
            self.rules[fact.kind](s, fact)

    def _simplifier(self) -> Simplifier:
        """Simplifier for one question about the state as it is now."""
        if self.asked is not None:
            self.steps -= self.asked.taken
        if self.steps <= 0:
            raise OutOfBudgetError
        self.asked = Work(self.memo, self.models, min(BUDGET, self.steps))
        return Simplifier(self.state, self.asked)

    def _settle(self) -> None:
        """Solve for the opaque terms in facts that have become something simpler: these facts are about that now."""
        touched, self.touched = self.touched, {}
        for opaque in dict.fromkeys([opaque for atom in touched for opaque in self.state.occurrences.get(atom, ())]):
            if opaque in self.state.values:
                continue
            try:
                s = self._simplifier()
                new = s.simplify(atom_dim(opaque))
                if is_less(new, opaque):
                    self._solve(s, opaque, new, tuple(s.work.used))
            except OutOfBudgetError:
                continue

    def _note(self, *dims: Dim) -> None:
        """A fact about these is kept."""
        around = self.state.occurrences
        for dim in dims:
            for atom in dim.atoms if isinstance(dim, SymExpr) else ():
                if isinstance(atom, Opaque):
                    for part in (atom, *atom_dim(atom).atoms):
                        if atom not in around.get(part, ()):
                            around[part] = (*around.get(part, ()), atom)

    def push(self, kind: RelKind, dim: Dim, why: Why, other: Dim = 0) -> None:
        self.queue.append(Fact(kind, dim, why, other))

    def _one_case(self, s: Simplifier, fact: Fact) -> bool:
        """Whether the fact holds only where an extremum in it is a certain one of its arguments.

        Then that one is the extremum, which is learned first, and the fact after it.
        """
        key = (fact.kind, fact.dim, fact.other)
        if key in self.split:
            return False
        for atom in extrema(fact.dim, fact.other):
            self.split.add(key)
            if self._is_several(atom):
                continue
            possible = [
                args
                for args, hypotheses in cases(s, (fact.dim, fact.other, atom_dim(atom)), atom)
                if not refuted(s, *_relation(fact.kind, *args[:2]), hypotheses)
            ]
            if not possible:
                raise ContradictionError(_join(fact.why, s))
            if len(possible) == 1:
                why, arg = _join(fact.why, s), possible[0][2]
                for other in atom.args:
                    if other != arg:
                        self.push(RelKind.GE, other - arg if atom.kind is OpaqueKind.MIN else arg - other, why)
                if fact.kind is RelKind.GE and isinstance(fact.dim, SymExpr) and len(fact.dim.terms) == 1:
                    self._bound_factors(s, fact.dim, why)  # which are multiplied out then
                self.push(fact.kind, fact.dim, why, fact.other)
                return True
        return False

    def _is_several(self, atom: Opaque) -> bool:
        """Whether an extremum is one argument in one model and another in another: in all models the facts hold."""
        alike: frozenset[int] | None = None
        for model in self.models:
            value = model.value(atom_dim(atom))
            chosen = frozenset([i for i, arg in enumerate(atom.args) if model.value(arg) == value])
            alike = chosen if alike is None else alike & chosen
        return alike is not None and not alike

    def _is_refuted(self, s: Simplifier, fact: Fact) -> bool:
        """Whether a new fact cannot hold. Where it does in a model of all that is known, nothing is looked for."""
        kind, a, b = _relation(fact.kind, fact.dim, fact.other)
        for model in self.models:
            left, right = model.value(a), model.value(b)
            if left is not None and right is not None and truth(kind, left, right):
                return False
        return decide(s, kind, a, b) is Verdict.REFUTED

    # --- one rule a kind -------------------------------------------------------------------------------------------

    def equal(self, s: Simplifier, fact: Fact) -> None:
        e, why = fact.dim, fact.why
        if s.bounds.nonzero(e):
            raise ContradictionError(_join(why, s))
        if isinstance(e, int):
            return
        e = self._without_factors(s, divide_exactly(e, content(e)))
        if isinstance(e, int):
            raise ContradictionError(_join(why, s))
        zeros = self._all_zero(s, e)
        why = _join(why, s)
        if zeros:
            for term in zeros:
                self.push(RelKind.EQ, term, why)
            return
        pivot = _pivot(e)
        if pivot is not None:
            self._solve(s, *pivot, why)
            return
        remainders = _as_remainders(e)
        if remainders is not e:
            self.push(RelKind.EQ, remainders, why)
            return
        if self._learn_divisors(s, e, why):
            self.push(RelKind.EQ, e, why)  # which the divisors may decide
            return
        lead, coefficient = leading_term(e)
        if coefficient < 0:
            e = -e
            assert isinstance(e, SymExpr)
        self.state.rows[e] = Equation(lead, abs(coefficient), why)
        self._note(e)
        self._keep_bounds()
        if len(e.terms) == 1:
            self._bound_factors(s, e, why)
            self._bound_factors(s, -e, why)

    def _all_zero(self, s: Simplifier, e: SymExpr) -> list[Dim]:
        """The terms of a sum that is 0, where none of them can be on the other side of 0: each is 0 then."""
        sign = 1 if e.terms[0][1] > 0 else -1
        terms = [single(dict(mono.factors), sign * coefficient) for mono, coefficient in e.terms]
        if len(terms) == 1 or e.constant or any(not s.bounds.at_least(term, 0) for term in terms):
            return []
        return terms

    def _learn_divisors(self, s: Simplifier, e: SymExpr, why: Why) -> bool:
        """Infer divisors of the terms of ``e`` from ``e == 0``; tells whether there are new ones."""
        news = False
        for mono, coefficient in e.terms:  # coefficient*mono == -rest, so what divides rest divides it
            term = single(dict(mono.factors), coefficient)
            k = s.bounds.multiple(e - term)
            k //= math.gcd(k, coefficient)
            if k > 1 and (mono, k) not in self.inferred and s.bounds.term_multiple(mono, 1) % k:
                self.inferred.add((mono, k))
                self.push(RelKind.DIVIDES, divide_exactly(term, coefficient), why, k)
                news = True
        return news

    def _without_factors(self, s: Simplifier, e: Dim) -> Dim:
        """``e`` without factors that are not 0: it is 0 exactly where ``e`` is."""
        if isinstance(e, int):
            return e
        shared = common_factor(e)
        if not shared:
            return e
        rest = remove_factor(e, shared)
        maybe_zero = [atom for atom in shared if not s.bounds.nonzero(atom_dim(atom))]
        factor = product([atom_dim(atom) for atom in maybe_zero])
        return factor if s.bounds.nonzero(rest) else factor * rest

    def not_negative(self, s: Simplifier, fact: Fact) -> None:
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
            raise ContradictionError(_join(why, s))
        if s.bounds.nonzero(e) and not s.bounds.at_least(e, 1):
            self.push(RelKind.GE, e - 1, _join(why, s))
            return
        mono, coefficient = e.terms[0]
        if len(e.terms) == 1 and abs(coefficient) == 1 and len(mono.factors) == 1 and mono.factors[0][1] == 1:
            lo, hi = (-e.constant, None) if coefficient > 0 else (None, e.constant)
            self._bound(mono.factors[0][0], lo, hi, why)
        elif not s.bounds.at_least(e, 0):
            self._order(s, e, why)
            if s.bounds.at_least(-e, 0):
                self.push(RelKind.EQ, e, _join(why, s))

    def _order(self, s: Simplifier, e: SymExpr, why: Why) -> None:
        outer = _outer_atoms(e)
        watched = [atom for atom in outer if isinstance(atom, Opaque) or self._is_waited_for(atom)]
        before = [s.bounds.atom(atom) for atom in watched]
        alone = [atom for atom in outer if self._is_only_lower_bound(e, atom)]
        self._keep(Inequality(e, why), alone if alone else outer)
        self._note(e)
        self._touch(*outer)
        self._changed()
        self._changed(*self._better(watched, before, why))
        if len(e.terms) == 1:
            self._bound_factors(s, e, why)
        else:
            self._bound_product(s, e, why)

    def _better(self, watched: list[Atom], before: list[Interval], why: Why) -> list[Atom]:
        """The watched atoms whose bounds have improved; bounds of their arguments follow."""
        better: list[Atom] = []
        for atom, (lo, hi) in zip(watched, before, strict=True):
            s = self._simplifier()
            new_lo, new_hi = s.bounds.atom(atom)
            if (new_lo, new_hi) == (lo, hi):
                continue
            better.append(atom)
            if isinstance(atom, Opaque):
                news = None if new_lo == lo else new_lo, None if new_hi == hi else new_hi
                self._bound_arguments(atom, *news, _join(why, s))
        return better

    def _is_only_lower_bound(self, e: SymExpr, atom: Atom) -> bool:
        """Whether ``e >= 0`` is the only inequality of a symbol, and says of it only that it is large.

        Then ``e`` tells nothing of its other atoms where the symbol is not asked about, and is not kept with them: a
        size that many are compared with has no long list of what they say.
        """
        if not isinstance(atom, Symbol) or self.state.orders.get(atom):
            return False
        known = self.state.ranges.get(atom)
        if known is not None and known.hi is not None:
            return False
        parts = split_linear(e, atom)
        return parts is not None and isinstance(parts[0], int) and parts[0] > 0

    def _keep(self, new: Inequality, atoms: Iterable[Atom]) -> None:
        """Keep an inequality with these atoms. Where that is an atom's second, the first goes to all of its own."""
        queue = deque([(new, list(atoms))])
        while queue:
            order, where = queue.popleft()
            for atom in where:
                known = self.state.orders.get(atom, ())
                if order not in known:
                    self.state.orders[atom] = (*known, order)
                    if len(known) == 1:
                        queue.append((known[0], _outer_atoms(known[0].dim)))

    def _is_waited_for(self, atom: Atom) -> bool:
        """Whether there is a fact that better bounds of the atom may decide."""
        return any(mentions(dim, atom) for dim in (*self.state.rows, *self.state.broadcasts))

    def _bound_factors(self, s: Simplifier, e: Dim, why: Why) -> None:
        """Infer bounds of the factors of ``M``, where they are sizes, from ``c*M + constant >= 0``."""
        assert isinstance(e, SymExpr)
        mono, coefficient = e.terms[0]
        factors = [atom_dim(atom) for atom, _ in mono.factors]
        if coefficient > 0 > e.constant and all(s.bounds.at_least(factor, 0) for factor in factors):
            for factor in factors:  # the product is not 0
                self.push(RelKind.GE, factor - 1, _join(why, s))
        elif coefficient < 0 and all(s.bounds.at_least(factor, 1) for factor in factors):
            for factor in factors:  # none is larger than the product
                self.push(RelKind.GE, e.constant // -coefficient - factor, _join(why, s))

    def _bound_product(self, s: Simplifier, e: SymExpr, why: Why) -> None:
        """Infer that no factor of ``M`` is 0 from ``c*M - rest >= 0``, where the rest is positive."""
        rising = [(mono, coefficient) for mono, coefficient in e.terms if coefficient > 0]
        if len(rising) == 1 and len(rising[0][0].factors) > 1:
            mono, coefficient = rising[0]
            rest = single(dict(mono.factors), coefficient) - e
            if s.bounds.at_least(rest, 1):
                self.push(RelKind.NONZERO, single(dict(mono.factors), 1), _join(why, s))

    def _bound(self, atom: Atom, lo: int | None, hi: int | None, why: Why) -> None:
        natural_lo = 0 if isinstance(atom, Symbol) else None
        old = self.state.ranges.get(atom, AtomRange(natural_lo, None, (), ()))
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
        self.state.ranges[atom] = new
        self._note(atom_dim(atom))
        self._touch(atom)
        orders = self.state.orders.get(atom, ())
        if old.hi is None and new_hi is not None and len(orders) == 1:
            self._keep(orders[0], _outer_atoms(orders[0].dim))
        self._changed(atom)
        self._look_again(atom)
        if new_lo is not None and new_lo == new_hi:
            self.push(RelKind.EQ, atom_dim(atom) - new_lo, new.why_lo + new.why_hi)
        if isinstance(atom, Opaque):
            self._bound_arguments(atom, lo, hi, why)

    def _bound_arguments(self, atom: Opaque, lo: int | None, hi: int | None, why: Why) -> None:
        """Infer bounds of an opaque term's arguments from its own: twice at most, as they may rise in circles."""
        self.propagated[atom] = self.propagated.get(atom, 0) + 1
        if self.propagated[atom] > 2:
            return
        a, b = atom.args[:2]
        s = self._simplifier()
        match atom.kind:
            case OpaqueKind.FLOORDIV if s.bounds.positive_divisor(b):
                why = _join(why, s)
                if lo is not None:
                    self.push(RelKind.GE, a - b * lo, why)
                if hi is not None:
                    self.push(RelKind.GE, b * hi + b - 1 - a, why)
            case OpaqueKind.MOD if lo is not None and lo > 0 and s.bounds.positive_divisor(b):
                self.push(RelKind.GE, b - 1 - lo, _join(why, s))
                if s.bounds.at_least(a, 0):
                    self.push(RelKind.GE, a - lo, _join(why, s))
            case OpaqueKind.MIN if lo is not None:
                for arg in atom.args:
                    self.push(RelKind.GE, arg - lo, why)
            case OpaqueKind.MAX if hi is not None:
                for arg in atom.args:
                    self.push(RelKind.GE, hi - arg, why)
            case _:
                pass

    def _look_again(self, atom: Atom) -> None:
        """Split bounded extrema that mention ``atom`` again: its new bound may decide which argument they are."""
        for other, known in self.state.ranges.items():
            if isinstance(other, Opaque) and other.kind in (OpaqueKind.MIN, OpaqueKind.MAX):
                whole = atom_dim(other)
                if atom is other or not mentions(whole, atom):
                    continue
                if other.kind is OpaqueKind.MAX and known.lo is not None:
                    self._split_again(whole - known.lo, known.why_lo)
                if other.kind is OpaqueKind.MIN and known.hi is not None:
                    self._split_again(known.hi - whole, known.why_hi)

    def _split_again(self, dim: Dim, why: Why) -> None:
        self.split.discard((RelKind.GE, dim, 0))
        self.push(RelKind.GE, dim, why)

    def nonzero(self, s: Simplifier, fact: Fact) -> None:
        e, why = fact.dim, fact.why
        if s.is_zero(e):
            raise ContradictionError(_join(why, s))
        if isinstance(e, int) or s.bounds.nonzero(e):
            return
        shared = common_factor(e)
        rest = remove_factor(e, shared)
        if shared and e.is_atom is None:
            for part in [*map(atom_dim, shared), rest]:
                self.push(RelKind.NONZERO, part, why)
        elif s.bounds.at_least(e, 0):
            self.push(RelKind.GE, e - 1, _join(why, s))
        elif s.bounds.at_least(-e, 0):
            self.push(RelKind.GE, -e - 1, _join(why, s))
        else:
            self.state.nonzeros[e] = why
            self._news(e)

    def divides(self, s: Simplifier, fact: Fact) -> None:
        k, e, why = fact.other, fact.dim, fact.why
        if self._is_refuted(s, fact):
            raise ContradictionError(_join(why, s))
        if not isinstance(k, int):
            if s.bounds.nonzero(k):
                self.push(RelKind.EQ, e % k, _join(why, s))
            return
        if k == 0:
            self.push(RelKind.EQ, e, why)
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
        why = _join(why, s)
        if e.is_atom is not None:
            old = self.state.multiples.get(e.is_atom, Multiple(1, ()))
            self.state.multiples[e.is_atom] = Multiple(math.lcm(old.k, k), old.why + why)
        else:
            old = self.state.divisors.get(e, Multiple(1, ()))
            self.state.divisors[e] = Multiple(math.lcm(old.k, k), old.why + why)
        self._news(e)
        self._divide_arguments(e)

    def _divide_arguments(self, e: SymExpr) -> None:
        """Infer divisors of opaque terms' arguments from those of the terms, where these share an atom with ``e``."""
        for atom, (k, why) in self.state.multiples.items():
            if not isinstance(atom, Opaque) or atom.kind not in (OpaqueKind.FLOORDIV, OpaqueKind.MOD):
                continue
            (a, b), s = atom.args, self._simplifier()
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
                self.push(RelKind.DIVIDES, a, _join(why, s), k)

    def broadcasts(self, s: Simplifier, fact: Fact) -> None:
        a, b, why = fact.dim, fact.other, fact.why
        if self._is_refuted(s, fact):
            raise ContradictionError(_join(why, s))
        if s.fits(a, b, as_parts=False):  # of a part of what fits more may follow
            return
        for joined, other in ((a, b), (b, a)):  # what is joined from sizes is 1 only where all are: each of them fits
            parts = joined_from(joined)
            for part in parts if len(parts) > 1 else ():
                # Elsewhere that is found when it is asked for, and nothing follows from it.
                if s.bounds.nonzero(other - 1) or s.bounds.nonzero(part - 1):
                    self.push(RelKind.BROADCASTS, part, _join(why, s), other)
        if s.bounds.nonzero(a - 1) and s.bounds.nonzero(b - 1):
            self.push(RelKind.EQ, a - b, _join(why, s))
            return
        self.state.add_broadcast(a, b, why)
        self._note(a, b)
        self._keep_bounds()
        for size, other in ((a, b), (b, a)):
            if s.bounds.at_least(other, 2):  # the size is 1 or the other
                self.push(RelKind.GE, size - 1, _join(why, s))
                self.push(RelKind.GE, other - size, _join(why, s))
            elif s.is_zero(other):
                self.push(RelKind.GE, 1 - size, _join(why, s))

    # --- solving -----------------------------------------------------------------------------------------------------

    def _solve(self, s: Simplifier, atom: Atom, value: Dim, why: Why) -> None:
        """Give ``atom`` a value, and say of the value what was known of the atom."""
        lo, hi = s.bounds.atom(atom)
        known = _join(why, s)
        if lo is not None:
            self.push(RelKind.GE, value - lo, known)
        if hi is not None:
            self.push(RelKind.GE, hi - value, known)
        if isinstance(atom, Opaque):
            self._solve_opaque(s, atom, value, known)
        self.queue.extend(withdraw(self.state, atom))
        self.state.values[atom] = AtomEquality(value, why)
        self._touch(atom)
        if isinstance(atom, Opaque) and atom.kind is OpaqueKind.BROADCAST:
            # Where the whole is 1 each part is, and elsewhere each is the whole or 1.
            into = self.state.broadcasts_into
            into.update({arg: {**into.get(arg, {}), value: why} for arg in atom.args if arg is not value})
        self._changed()
        for other, old in list(self.state.values.items()):
            if mentions(old.dim, atom):
                try:
                    new = self._simplifier().simplify(old.dim)
                except OutOfBudgetError:
                    continue  # the value stays true as it is, and is simplified when it is used
                reasons = old.why + tuple([r for r in why if r not in old.why])
                if isinstance(other, Symbol) or is_less(new, other):
                    self.state.values[other] = AtomEquality(new, reasons)
                else:  # another term of the equation is the greatest now
                    del self.state.values[other]
                    self.push(RelKind.EQ, atom_dim(other) - new, reasons)

    def _solve_opaque(self, s: Simplifier, atom: Opaque, value: Dim, why: Why) -> None:
        for dim in implied(s.bounds, atom):
            self.push(RelKind.GE, _replace_outer(dim, atom, value), why)
        if atom.kind is OpaqueKind.MOD and isinstance(atom.args[1], int):
            self.push(RelKind.DIVIDES, atom.args[0] - value, why, atom.args[1])
        if atom.kind in (OpaqueKind.FLOORDIV, OpaqueKind.MOD):
            self._divide_with_rest(s, atom, value, why)

    def _divide_with_rest(self, s: Simplifier, atom: Opaque, value: Dim, why: Why) -> None:
        """Infer ``a == b*floordiv(a, b) + mod(a, b)`` where one of them gets a value and the other has one."""
        a, b = atom.args
        if not s.bounds.nonzero(b):
            return
        is_quotient = atom.kind is OpaqueKind.FLOORDIV
        other = mod(a, b) if is_quotient else floordiv(a, b)
        known = s.simplify(other)
        if known != other:
            self.push(RelKind.EQ, a - b * value - known if is_quotient else a - b * known - value, _join(why, s))

    def _news(self, e: SymExpr) -> None:
        """A fact about ``e`` is kept that may decide others."""
        atoms = sorted(e.atoms, key=lambda atom: atom.key)
        self._note(e)
        self._touch(*atoms)
        self._changed(*atoms)

    def _touch(self, *atoms: Atom) -> None:
        self.touched |= dict.fromkeys(atoms)

    def _keep_bounds(self) -> None:
        """Forget what was computed but for bounds: the new fact says nothing of these.

        So they are computed once for many sizes that are joined, which all have to fit.
        """
        self.memo = {key: hit for key, hit in self.memo.items() if key[0] in _BOUNDS}

    def _changed(self, *atoms: Atom) -> None:
        """Forget what was computed; look again at what new bounds or divisors of these atoms may decide."""
        self.memo = {}
        for atom in atoms:
            self.queue.extend([*withdraw_rows(self.state, atom), *withdraw_broadcasts(self.state, atom)])


def _relation(kind: RelKind, dim: Dim, other: Dim) -> tuple[RelKind, Dim, Dim]:
    """A fact as a relation's kind and sides."""
    return (kind, other, dim) if kind is RelKind.DIVIDES else (kind, dim, other)


def _pivot(e: SymExpr) -> tuple[Atom, Dim] | None:
    """The atom to solve ``e == 0`` for, and its value: the youngest symbol, or else the greatest term if it is opaque.

    A symbol that has a value is in no value and in no other fact, so to replace it comes to an end. Of opaque terms
    that is only sure where the value is smaller. What is known when a program starts is not said in terms of what it
    measures later.
    """
    found: list[tuple[Atom, Dim]] = []
    for mono, coefficient in e.terms:
        atom, n = mono.factors[0]
        if abs(coefficient) != 1 or len(mono.factors) > 1 or n > 1 or isinstance(atom, Opaque):
            continue
        parts = split_linear(e, atom)
        if parts is not None and isinstance(parts[0], int):
            found.append((atom, parts[1] * -coefficient))
    mono, coefficient = leading_term(e)
    atom, n = mono.factors[0]
    if abs(coefficient) == 1 and len(mono.factors) == n == 1:
        found.append((atom, atom_dim(atom) - coefficient * e))
    possible = [
        (atom, value) for atom, value in found if last_data_dependent(value) <= last_data_dependent(atom_dim(atom))
    ]
    return max(possible, key=lambda item: (isinstance(item[0], Symbol), item[0].key), default=None)


def _as_remainders(e: SymExpr) -> Dim:
    """``n - k*floordiv(n, k)`` is ``mod(n, k)``, where that makes the sum a shorter one."""
    for mono, coefficient in e.terms:
        for atom, _ in mono.factors:
            if isinstance(atom, Opaque) and atom.kind is OpaqueKind.FLOORDIV:
                a, b = atom.args
                rest = quotient(mono, coefficient, atom, b)
                if rest is not None:
                    shorter = e - single(dict(mono.factors), coefficient) + rest * (a - a % b)
                    if isinstance(shorter, int) or len(shorter.terms) < len(e.terms):
                        return shorter
    return e


def _outer_atoms(e: SymExpr) -> list[Atom]:
    return list(dict.fromkeys([atom for mono, _ in e.terms for atom, _ in mono.factors]))


def _replace_outer(dim: Dim, atom: Atom, value: Dim) -> Dim:
    parts = split_linear(dim, atom) if isinstance(dim, SymExpr) and mentions(dim, atom) else None
    return dim if parts is None else parts[0] * value + parts[1]


def _join(why: Why, s: Simplifier) -> Why:
    return why + tuple([reason for reason in s.work.used if reason not in why])
