"""The facts in solved form, and the budget and reasons of one question.

A :class:`State` is changed only by the learner that is building it (:mod:`dyn.shapes.learn`), and never again once a
``Facts`` holds it. Its invariant: no expression in it, values included, mentions an atom that has a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from dyn.shapes.expr import Atom, Dim, Monomial, Opaque, SymExpr
from dyn.shapes.models import Models
from dyn.shapes.relation import Reason, Why

T = TypeVar("T")


class AtomEquality(NamedTuple):
    """An atom is this dimension."""

    dim: Dim
    why: Why


class AtomRange(NamedTuple):
    """Bounds of an atom."""

    lo: int | None
    hi: int | None
    why_lo: Why
    why_hi: Why


class Multiple(NamedTuple):
    """A divisor of an atom or an expression."""

    k: int
    why: Why


class Inequality(NamedTuple):
    """``dim >= 0``"""

    dim: SymExpr
    why: Why


class Equation(NamedTuple):
    """A polynomial that is 0, by its greatest term (:mod:`dyn.shapes.order`), which is replaced by the others."""

    lead: Monomial
    coefficient: int
    why: Why


class State:
    """The facts, by kind. Copying is shallow: what the tables hold is immutable."""

    __slots__ = (
        "broadcasts", "broadcasts_into", "divisors", "multiples", "nonzeros", "occurrences", "orders", "ranges", "rows",
        "values",
    )  # fmt: skip

    def __init__(self) -> None:
        #: Atoms that are solved for.
        self.values: dict[Atom, AtomEquality] = {}
        #: Polynomials that are 0 and could not be solved for an atom; the coefficient of the greatest term is positive.
        self.rows: dict[SymExpr, Equation] = {}
        self.ranges: dict[Atom, AtomRange] = {}
        self.multiples: dict[Atom, Multiple] = {}
        #: Divisors of expressions that are not atoms.
        self.divisors: dict[SymExpr, Multiple] = {}
        #: Inequalities between atoms, by each outermost atom in them; those of a symbol that has but one and is bounded
        #: by nothing else, by that symbol alone.
        self.orders: dict[Atom, tuple[Inequality, ...]] = {}
        self.nonzeros: dict[SymExpr, Why] = {}
        #: Sizes that fit each of some others, and these that one: the two are equal or one is 1. What they are joined
        #: from fits too, and is not kept.
        self.broadcasts: dict[Dim, Mapping[Dim, Why]] = {}
        #: Sizes that broadcast with each of some others give that other: they are it or 1.
        self.broadcasts_into: dict[Dim, Mapping[Dim, Why]] = {}
        #: The opaque terms in the facts, and perhaps some that were in them, by each atom inside them.
        self.occurrences: dict[Atom, tuple[Opaque, ...]] = {}

    def add_broadcast(self, a: Dim, b: Dim, why: Why) -> None:
        """Keep that two sizes fit."""
        for one, other in ((a, b), (b, a)):
            self.broadcasts[one] = {**self.broadcasts.get(one, {}), other: why}

    def copy(self) -> State:
        new = State()
        for name in State.__slots__:
            setattr(new, name, getattr(self, name).copy())
        return new


class OutOfBudgetError(Exception):
    """A question took more steps than it may."""


#: Steps that one question may take: a step is an inequality that is looked at, or a value that is computed. Of all that
#: the tests ask, what is proved takes 370 at most.
BUDGET = 500

#: Reasons by identity: a question takes the reasons of thousands of others, and hashing texts and lines took a third of
#: its time.
Used = dict[int, Reason]
Memo = dict[tuple[str, Any], tuple[Any, Used]]


class Work:
    """The budget of one question, the reasons it has used, and the memory it shares with other questions.

    ``models`` are sizes that satisfy all that is known: what one of them contradicts is not looked for.
    """

    __slots__ = ("budget", "memo", "models", "steps", "used")

    def __init__(self, memo: Memo, models: Models = (), steps: int = BUDGET) -> None:
        self.memo = memo
        self.models = models
        self.budget = self.steps = steps
        self.used: Used = {}

    @property
    def taken(self) -> int:
        """The steps that were taken."""
        return self.budget - self.steps

    def step(self, count: int = 1) -> None:
        self.steps -= count
        if self.steps < 0:
            raise OutOfBudgetError

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Look at facts without making them reasons of the answer."""
        outer, self.used = self.used, {}
        try:
            yield
        finally:
            self.used = outer

    def use(self, why: Why) -> None:
        for reason in why:
            self.used[id(reason)] = reason

    @property
    def why(self) -> Why:
        """The reasons that were used, each once."""
        return tuple(dict.fromkeys(self.used.values()))

    def remember(self, key: tuple[str, Any], compute: Callable[[Any], T]) -> T:
        """``compute(key[1])``, once for a state; what it uses is remembered with it."""
        hit = self.memo.get(key)
        if hit is None:
            self.step()
            outer, self.used = self.used, {}
            try:
                hit = compute(key[1]), self.used
            finally:
                self.used = outer
            self.memo[key] = hit
        self.used.update(hit[1])
        return hit[0]
