"""Learning facts one by one, each by the rule for its kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from dyn.shapes.case_proofs import cases, extrema
from dyn.shapes.decide import refuted
from dyn.shapes.expr import Opaque, OpaqueKind, SymExpr, atom_dim
from dyn.shapes.learn.broadcasts import broadcasts
from dyn.shapes.learn.divisibility import divides
from dyn.shapes.learn.equalities import equal, solve
from dyn.shapes.learn.inequalities import bound_factors, nonzero, not_negative
from dyn.shapes.learn.learner import BOUNDS, ContradictionError, Learner, join_why, relation_sides
from dyn.shapes.models import Models
from dyn.shapes.order import is_less
from dyn.shapes.relation import RelKind
from dyn.shapes.retract import Fact
from dyn.shapes.simplify import Simplifier
from dyn.shapes.state import Memo, OutOfBudgetError, State

#: All that is computed of a state.
_COMPUTED = BOUNDS | {"never negative", "replace", "simplify"}
#: So many results go on from one state to the next: more are forgotten, for each of them is copied every time.
_HANDED_ON = 2000
#: Facts that one new fact may lead to.
_BUDGET = 500
_RULES: Mapping[RelKind, Callable[[Learner, Simplifier, Fact], None]] = MappingProxyType({
    RelKind.EQ: equal,
    RelKind.GE: not_negative,
    RelKind.NONZERO: nonzero,
    RelKind.DIVIDES: divides,
    RelKind.BROADCASTS: broadcasts,
})  # fmt: skip


def learn(state: State, facts: Iterable[Fact], models: Models, memo: Memo) -> tuple[State, Memo]:
    """A new state that also knows the facts, and what was computed under it. Raises :class:`ContradictionError`.

    ``models`` are sizes under which all holds that was known, and the new facts too. ``memo`` is what was computed
    under the old state, and goes on to hold until that is changed.
    """
    known = {key: hit for key, hit in memo.items() if key[0] in _COMPUTED} if len(memo) < _HANDED_ON else {}
    learner = Learner(state.copy(), models, known)
    _run(learner, facts)
    return learner.state, learner.memo


def _run(learner: Learner, facts: Iterable[Fact]) -> None:
    learner.queue.extend(facts)
    for _ in range(_BUDGET):
        try:
            if not learner.queue:
                _settle(learner)
            if not learner.queue:
                break
            _learn(learner, learner.queue.popleft())
        except OutOfBudgetError:
            if learner.steps <= 0:
                break


def _learn(learner: Learner, fact: Fact) -> None:
    s = learner.simplifier()
    dim, other = s.simplify(fact.dim), s.simplify(fact.other)
    fact = Fact(fact.kind, dim, join_why(fact.why, s), other)
    if any(isinstance(side, SymExpr) and side.is_large for side in (dim, other)):
        if fact.kind is RelKind.BROADCASTS:  # nothing follows from it, and it is found when it is asked for
            learner.state.add_broadcast(dim, other, fact.why)
    elif not _one_case(learner, s, fact):
        _RULES[fact.kind](learner, s, fact)


def _settle(learner: Learner) -> None:
    """Solve for the opaque terms in facts that have become something simpler: these facts are about that now."""
    touched, learner.touched = learner.touched, {}
    for opaque in dict.fromkeys([opaque for atom in touched for opaque in learner.state.occurrences.get(atom, ())]):
        if opaque in learner.state.values:
            continue
        try:
            s = learner.simplifier()
            new = s.simplify(atom_dim(opaque))
            if is_less(new, opaque):
                solve(learner, s, opaque, new, s.work.why)
        except OutOfBudgetError:
            continue


def _one_case(learner: Learner, s: Simplifier, fact: Fact) -> bool:
    """Whether the fact holds only where an extremum in it is a certain one of its arguments.

    Then that one is the extremum, which is learned first, and the fact after it.
    """
    key = (fact.kind, fact.dim, fact.other)
    if key in learner.split:
        return False
    for atom in extrema(fact.dim, fact.other):
        learner.split.add(key)
        if _is_several(learner, atom):
            continue
        possible = [
            args
            for args, hypotheses in cases(s, (fact.dim, fact.other, atom_dim(atom)), atom)
            if not refuted(s, *relation_sides(fact.kind, *args[:2]), hypotheses)
        ]
        if not possible:
            raise ContradictionError(join_why(fact.why, s))
        if len(possible) == 1:
            why, arg = join_why(fact.why, s), possible[0][2]
            for other in atom.args:
                if other != arg:
                    learner.push(RelKind.GE, other - arg if atom.kind is OpaqueKind.MIN else arg - other, why)
            if fact.kind is RelKind.GE and isinstance(fact.dim, SymExpr) and len(fact.dim.terms) == 1:
                bound_factors(learner, s, fact.dim, why)  # which are multiplied out then
            learner.push(fact.kind, fact.dim, why, fact.other)
            return True
    return False


def _is_several(learner: Learner, atom: Opaque) -> bool:
    """Whether an extremum is one argument in one model and another in another: in all models the facts hold."""
    alike: frozenset[int] | None = None
    for model in learner.models:
        value = model.value(atom_dim(atom))
        chosen = frozenset([i for i, arg in enumerate(atom.args) if model.value(arg) == value])
        alike = chosen if alike is None else alike & chosen
    return alike is not None and not alike
