"""The state that is being built from facts, and the facts that wait to be learned."""

from __future__ import annotations

from collections import deque

from dyn.shapes.decide import decide
from dyn.shapes.expr import Atom, Dim, Monomial, Opaque, SymExpr, atom_dim
from dyn.shapes.models import Models
from dyn.shapes.relation import RelKind, Verdict, Why, truth
from dyn.shapes.retract import Fact, withdraw_broadcasts, withdraw_rows
from dyn.shapes.simplify import Simplifier
from dyn.shapes.state import BUDGET, Memo, OutOfBudgetError, State, Work

#: What is computed of bounds and divisors: neither sizes that fit nor equations that are not solved have a say in it.
BOUNDS = frozenset(("atom", "implied", "inner", "lower", "multiple", "naive", "nonzero", "plain", "under"))
#: The steps that all questions about new facts may take.
_STEPS = 3 * BUDGET


class ContradictionError(Exception):
    """The facts cannot all hold."""

    def __init__(self, why: Why) -> None:
        super().__init__(why)
        self.why = why


class Learner:
    """A state in the making, the queue of facts that it is to know, and what was computed under it.

    The rules (``equalities``, ``inequalities``, ``divisibility``, ``broadcasts``) keep facts in the state, and push
    what follows from them.
    """

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

    def simplifier(self) -> Simplifier:
        """Simplifier for one question about the state as it is now."""
        if self.asked is not None:
            self.steps -= self.asked.taken
        if self.steps <= 0:
            raise OutOfBudgetError
        self.asked = Work(self.memo, self.models, min(BUDGET, self.steps))
        return Simplifier(self.state, self.asked)

    def push(self, kind: RelKind, dim: Dim, why: Why, other: Dim = 0) -> None:
        """Have a fact learned after those that wait."""
        self.queue.append(Fact(kind, dim, why, other))

    def note(self, *dims: Dim) -> None:
        """A fact about these is kept."""
        around = self.state.occurrences
        for dim in dims:
            for atom in dim.atoms if isinstance(dim, SymExpr) else ():
                if isinstance(atom, Opaque):
                    for part in (atom, *atom_dim(atom).atoms):
                        if atom not in around.get(part, ()):
                            around[part] = (*around.get(part, ()), atom)

    def touch(self, *atoms: Atom) -> None:
        """More is known of these than before."""
        self.touched |= dict.fromkeys(atoms)

    def news(self, e: SymExpr) -> None:
        """A fact about ``e`` is kept that may decide others."""
        atoms = sorted(e.atoms, key=lambda atom: atom.key)
        self.note(e)
        self.touch(*atoms)
        self.changed(*atoms)

    def keep_bounds(self) -> None:
        """Forget what was computed but for bounds: the new fact says nothing of these.

        So they are computed once for many sizes that are joined, which all have to fit.
        """
        self.memo = {key: hit for key, hit in self.memo.items() if key[0] in BOUNDS}

    def changed(self, *atoms: Atom) -> None:
        """Forget what was computed; look again at what new bounds or divisors of these atoms may decide."""
        self.memo = {}
        for atom in atoms:
            self.queue.extend([*withdraw_rows(self.state, atom), *withdraw_broadcasts(self.state, atom)])

    def is_refuted(self, s: Simplifier, fact: Fact) -> bool:
        """Whether a new fact cannot hold. Where it does in a model of all that is known, nothing is looked for."""
        kind, a, b = relation_sides(fact.kind, fact.dim, fact.other)
        for model in self.models:
            left, right = model.value(a), model.value(b)
            if left is not None and right is not None and truth(kind, left, right):
                return False
        return decide(s, kind, a, b) is Verdict.REFUTED


def relation_sides(kind: RelKind, dim: Dim, other: Dim) -> tuple[RelKind, Dim, Dim]:
    """A fact as a relation's kind and sides."""
    return (kind, other, dim) if kind is RelKind.DIVIDES else (kind, dim, other)


def outer_atoms(e: SymExpr) -> list[Atom]:
    """The atoms of a sum's terms, each once, without those inside of opaque terms."""
    return list(dict.fromkeys([atom for mono, _ in e.terms for atom, _ in mono.factors]))


def join_why(why: Why, s: Simplifier) -> Why:
    """The reasons, and those of what a simplifier has used."""
    return why + tuple([reason for reason in s.work.why if reason not in why])
