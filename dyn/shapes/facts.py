"""Facts about dimensions: an immutable snapshot that answers questions with reasons.

This file is longer than most: it is one class, whose questions and additions share the memory of a snapshot.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import ClassVar

from dyn.errors import ShapeError
from dyn.shapes.assumptions import facts_of, impossible, relation_key
from dyn.shapes.decide import decide_relation
from dyn.shapes.declarations import Declaration
from dyn.shapes.expr import Dim, Symbol, as_dim, content, natural_bounds
from dyn.shapes.interval import Interval
from dyn.shapes.learn import ContradictionError, learn
from dyn.shapes.models import Assignment, Models, first_models, satisfying, turning_points
from dyn.shapes.questions import UNKNOWN, DimQuestions
from dyn.shapes.relation import Answer, Reason, Relation, RelKind, Verdict, Why
from dyn.shapes.retract import Fact
from dyn.shapes.simplify import Simplifier
from dyn.shapes.stack import on_enough_stack
from dyn.shapes.state import BUDGET, Memo, OutOfBudgetError, State, Work
from dyn.shapes.walk import last_data_dependent

#: Steps after which more models are made, before the rest of a question's budget is spent.
_FEW_STEPS = 60
#: Steps for a claim about all sizes.
_ALWAYS_STEPS = 200
#: How many sizes are tried for a question, in how many models, and how many models that gives are kept.
_TURNS, _TURNED, _KEPT = 12, 2, 8


class KeptFacts:
    """Counts what is kept with facts that remember what was assumed of them: an entry of a table each."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries = 0


class Facts(DimQuestions):
    """Declarations and relations, and what follows from them. Adding makes a new snapshot; this one never changes.

    Every symbol is a size, at least 0, declared or not. PROVED and REFUTED hold for every assignment of integers that
    satisfies the declarations and the relations and under which the expressions asked about have values; integers are
    unbounded. What is said of dims rests on no relation about dims that are measured after them: when a program
    computes with them, that has not been checked yet. Each question has a budget of steps, and is UNKNOWN where it
    runs out.
    """

    __slots__ = (
        "_about",
        "_assumed",
        "_declarations",
        "_decided",
        "_earlier",
        "_kept",
        "_last_measured",
        "_levels",
        "_memo",
        "_models",
        "_parts",
        "_relations",
        "_root",
        "_settled",
        "_state",
        "_tried",
    )
    EMPTY: ClassVar[Facts]

    def __init__(self, state: State, memo: Memo, models: Models, older: Facts | None = None) -> None:
        self._state = state
        #: What was computed under this state. Of no facts at all nothing is kept: they live as long as the process.
        self._memo = memo
        self._relations: tuple[Relation, ...] = () if older is None else older._relations
        self._declarations: dict[Symbol, Declaration] = {} if older is None else older._declarations
        self._assumed: dict[tuple[object, ...], Why] = {} if older is None else older._assumed
        #: The age of the youngest measured symbol that a relation is about; -1 where there is none.
        self._last_measured: int = -1 if older is None else older._last_measured
        #: The snapshots before a relation was about dims measured later than those of all others, oldest first.
        self._earlier: tuple[Facts, ...] = () if older is None else older._earlier
        #: What is known up to an age (:meth:`known_by`), with how many of these relations were looked at for that.
        self._levels: dict[int, tuple[int, Facts]] = {} if older is None else older._levels.copy()
        #: The relations that mention a symbol.
        self._about: dict[Symbol, tuple[Relation, ...]] = {} if older is None else older._about
        #: What was proved or refuted under fewer facts is so under more.
        self._decided: dict[tuple[object, ...], Answer] = {} if older is None else older._decided.copy()
        #: What holds in parts of the program, by what they demand, when as much or less was known around them.
        self._parts: dict[tuple[Relation, ...], Facts] = {} if older is None else older._parts.copy()
        self._models = models
        #: Sizes that were tried in a model, and that something known forbids there.
        self._tried: set[tuple[Symbol, int]] = set() if older is None else older._tried.copy()
        #: No facts, with the memory of the same program; None of such facts themselves.
        self._root: Facts | None = None if older is None else older._free()
        #: What was assumed, and is known to add nothing, as kind and sides.
        self._settled: set[tuple[RelKind, Dim, Dim]] = set()
        #: What counts the facts that are kept with these: with a relation, what they become by it.
        self._kept: KeptFacts | None = None if older is None else older._kept

    @staticmethod
    def none(kept: KeptFacts | None = None) -> Facts:
        """No facts, for a program that begins: what is computed under them lives as long as they do.

        With ``kept``, which counts it, so does all that they become: who assumes the same relations of them in the same
        order is given the same facts, with all that was proved under them. ``EMPTY``, which lives as long as the
        process, remembers nothing.
        """
        facts = Facts(State(), {}, first_models())
        facts._kept = kept
        return facts

    def apart(self) -> Facts:
        """These facts, for other use: what is asked and assumed of them is not kept with these."""
        if self._kept is None:
            return self
        facts = Facts(self._state, self._memo.copy(), self._models, self)
        facts._kept = None
        return facts

    def _free(self) -> Facts:
        """No facts, with the memory of this program."""
        return self if self._root is None else self._root

    def _begun(self) -> Facts:
        """These facts; of those that live as long as the process, no facts that remember, for what is asked now."""
        return Facts.none() if self is Facts.EMPTY else self

    # --- adding ------------------------------------------------------------------------------------------------------

    def declare(
        self,
        sym: Symbol,
        *,
        min: int = 0,
        max: int | None = None,
        multiple_of: int = 1,
        likely: Iterable[int] = (),
        reason: Reason,
    ) -> Facts:
        """These facts and bounds of a symbol; what was declared of it before still holds.

        Raises :class:`~dyn.errors.ShapeError` where no size is left.
        """
        declaration = Declaration(sym, min, max, multiple_of, tuple(likely), reason)
        return self._begun()._declared(declaration)

    def _declared(self, declaration: Declaration) -> Facts:
        sym = declaration.symbol
        state, memo, models = self._learn(
            declaration.facts(),
            lambda: declaration.models(self._models, self._check),
            declaration.describe,
            declaration.reason,
        )
        new = Facts(state, memo, models, self)
        known = self._declarations.get(sym)
        new._declarations = self._declarations | {sym: declaration if known is None else known.joined(declaration)}
        return new

    def _check(self, model: Assignment, sym: Symbol) -> bool:
        """Whether what is known of a symbol holds in a model."""
        declared = self._declarations.get(sym)
        if declared is not None and not declared.holds(model.size(sym)):
            return False
        return all(model.outcome(relation) for relation in self._about.get(sym, ()))

    def assume(self, relation: Relation) -> Facts:
        """These facts and a relation; the same object where the relation is proved already.

        What a relation says of dims by what they are equal to, and those are known earlier, is kept too: it is checked
        when they are known, before anything is computed with them.

        Raises :class:`~dyn.errors.ShapeError` where it cannot hold.
        """
        if self is Facts.EMPTY:
            begun = Facts.none()
            known = begun.assume(relation)
            return self if known is begun else known
        if relation_key(relation) in self._assumed:
            return self
        hit = None if self._kept is None else self._memo.get(("assume", relation))
        new = self._with(relation) if hit is None else hit[0]
        if new is self:
            if relation.lhs_shape is None:
                self._settled.add((relation.kind, relation.lhs, relation.rhs))
        elif hit is None and self._kept is not None:
            self._memo["assume", relation] = new, {}
            self._kept.entries += len(self._memo) + len(self._decided) + len(self._assumed)
        return new

    def is_settled(self, kind: RelKind, lhs: Dim, rhs: Dim) -> bool:
        """Whether it is known already that to assume this relation adds nothing. Nothing is looked for."""
        return (kind, lhs, rhs) in self._settled

    def _with(self, relation: Relation) -> Facts:
        """These facts and a relation that they do not have."""
        if relation.last_data_dependent() >= 0:
            plain = replace(relation, lhs=self.simplify(relation.lhs), rhs=self.simplify(relation.rhs))
            if plain.last_data_dependent() < relation.last_data_dependent() and plain.lhs_shape is None:
                return self.assume(plain)
        answer = self.ask(relation)
        if answer.proved:
            return self
        if answer.refuted:
            raise impossible(relation.describe(), relation, relation.reason, answer.why, self)
        facts = facts_of(relation, self)
        state, memo, models = self._learn(
            facts,
            lambda: satisfying(self._models, relation, self._check),
            relation.describe,
            relation.reason,
            relation,
        )
        return self._and(relation, state, memo, models)

    def restate(self, relation: Relation) -> Facts:
        """These facts and a relation that they imply, by a proof that the solver may not find.

        It is checked as the others are, so nothing hangs on that it was implied. Nothing is learned from it: a dim
        stays simplified as it was. Facts that contradict one another imply what is refuted, too: the check then fails.
        """
        if self.ask(relation).proved:
            return self
        begun = self._begun()
        return begun._and(relation, begun._state, {}, begun._models)

    def _and(self, relation: Relation, state: State, memo: Memo, models: Models) -> Facts:
        """These facts with one more relation, under the state in which it is known."""
        new = Facts(state, memo, models, self)
        new._relations = (*self._relations, relation)
        new._assumed = {**self._assumed, relation_key(relation): (relation.reason,)}
        new._decided.pop(relation_key(relation), None)  # for another reason
        age = relation.last_data_dependent()
        if age > self._last_measured:
            new._last_measured, new._earlier = age, (*self._earlier, self)
        about = {sym: (*self._about.get(sym, ()), relation) for sym in relation.symbols()}
        new._about = {**self._about, **about}
        return new

    def known_by(self, age: int) -> Facts:
        """These facts without those about dims that are measured after the ones of an age (``last_data_dependent``)."""
        if self._last_measured <= age:
            return self
        seen, facts = self._levels.get(age, (0, None))
        if facts is None:
            facts = next(f for f in reversed(self._earlier) if f._last_measured <= age)
            seen = len(facts._relations)
        for relation in self._relations[seen:]:
            if relation.last_data_dependent() <= age:
                with contextlib.suppress(ShapeError):  # it contradicts the others: no call satisfies these facts
                    facts = facts.assume(relation)
        self._levels[age] = len(self._relations), facts
        return facts

    def within(self, relations: tuple[Relation, ...], older: Facts | None = None) -> Facts:
        """These facts and what is demanded in a part of the program besides: the facts that hold there.

        They are kept with these facts, so that what is proved there once is known whenever it is asked for again, under
        more facts too, from which another proof may not be found. ``older`` are the facts of that part, or of a part
        that demands less, from when less was known around it, where these facts do not know them.
        Raises :class:`~dyn.errors.ShapeError` where that part could never run.
        """
        if not relations:
            return self
        if self is Facts.EMPTY:
            return Facts.none().within(relations, older)
        key = ("within", relations)
        hit = self._memo.get(key)
        if hit is None:
            facts = self
            for relation in relations:
                facts = facts.assume(relation)
            for known in (older, self._parts.get(relations)):
                if known is not None:
                    facts._know(known)
            hit = self._memo[key] = facts, {}
            self._parts[relations] = facts
        return hit[0]

    def _know(self, older: Facts) -> None:
        """Keep what was decided under some of these facts."""
        self._decided = older._decided | self._decided
        self._parts = older._parts | self._parts

    def keep_within(self, relations: tuple[Relation, ...], facts: Facts) -> None:
        """Keep what :meth:`within` gives for the relations, where they were assumed one by one."""
        if self is not Facts.EMPTY:
            self._memo["within", relations] = facts, {}
            self._parts[relations] = facts

    def _learn(
        self,
        facts: list[Fact],
        models: Callable[[], Models],
        describe: Callable[[], str],
        reason: Reason,
        relation: Relation | None = None,
    ) -> tuple[State, Memo, Models]:
        """The state that also knows the facts, what was computed under it, and the models of both."""

        def learned() -> tuple[State, Memo, Models]:
            found = models()
            return *learn(self._state, facts, found, self._memo), found

        try:
            return on_enough_stack(learned)
        except ContradictionError as error:
            raise impossible(describe(), relation, reason, error.why, self) from None

    # --- asking ------------------------------------------------------------------------------------------------------

    def ask(self, relation: Relation) -> Answer:
        """Whether the relation holds."""
        if self is Facts.EMPTY:
            return Facts.none().ask(relation)
        key = relation_key(relation)
        hit = self._decided.get(key)
        if hit is None and self._last_measured >= 0:
            age = relation.last_data_dependent()
            if age < self._last_measured:
                return self.known_by(age).ask(relation)
        if hit is None:
            asked = self._memo.get(("ask", key))
            hit = None if asked is None else asked[0]
        if hit is None:
            hit = on_enough_stack(lambda: self._ask(relation))
            if hit.unknown:
                self._memo["ask", key] = hit, {}
            else:
                self._decided[key] = hit
        return hit

    def same(self, a: Dim, b: Dim) -> bool:
        """Whether ``a == b`` is proved.

        Quicker than ``eq``, for it need not tell what is false from what is unknown: sizes that differ in a model of
        the facts are not looked at further.
        """
        if a is b or a == b:
            return True
        if isinstance(a, int) and isinstance(b, int):
            return False
        if self is Facts.EMPTY:
            return Facts.none().same(a, b)
        for model in self._models:
            left, right = model.value(a), model.value(b)
            if left is not None and right is not None and left != right:
                return False
        return self.eq(a, b).proved

    def _work(self, models: Models, steps: int = BUDGET) -> Work:
        return Work(self._memo, models, steps)

    def _ask(self, relation: Relation, budget: int = BUDGET) -> Answer:
        why = self._assumed.get(relation_key(relation))
        if why is not None:
            return Answer(Verdict.PROVED, why)
        models = self._models
        if _disagree(models, relation):
            return UNKNOWN
        for steps in (min(_FEW_STEPS, budget), budget):
            work = self._work(models, steps)
            try:
                verdict = decide_relation(Simplifier(self._state, work), relation)
                if verdict is not Verdict.UNKNOWN:
                    return Answer(verdict, work.why)
                break
            except OutOfBudgetError:
                if steps == budget:
                    break
            models = self._more_models(relation)
            if _disagree(models, relation):
                return UNKNOWN
        return UNKNOWN if self._root is None else self._always(relation, self._root)

    def _more_models(self, relation: Relation) -> Models:
        """The models, and one with a size at which a side of the relation takes another course, if there is one."""
        models = self._models
        outcomes = {model.outcome(relation) for model in models}
        for sym, size in itertools.islice(turning_points((relation.lhs, relation.rhs)), _TURNS):
            for model in models[:_TURNED] if (sym, size) not in self._tried else ():
                changed = model.but(sym, size)
                if {changed.outcome(relation)} <= {None, *outcomes}:
                    continue
                if self._check(changed, sym):
                    self._models = (*models[:_TURNED], *[*models[_TURNED:], changed][-_KEPT:])
                    return (*models, changed)
                self._tried.add((sym, size))
        return models

    def _always(self, relation: Relation, root: Facts) -> Answer:
        """Prove the relation of all sizes: then it holds under any facts, even if they make the question a harder one.

        Few questions that are undecided come this far: nearly all are false of some of the sizes that are tried.
        """
        if any(model.outcome(relation) is False for model in root._models):
            return UNKNOWN
        if relation.symbols().isdisjoint(self._about) and relation.symbols().isdisjoint(self._declarations):
            return UNKNOWN  # nothing that is known has made it any harder
        key = "always", relation_key(relation)
        hit = root._memo.get(key)
        if hit is None:
            hit = root._memo[key] = root._ask(relation, _ALWAYS_STEPS), {}
        return hit[0] if hit[0].proved else UNKNOWN

    def implies(self, premise: Relation, claim: Relation) -> bool:
        """Whether a claim is proved wherever a premise holds besides these facts."""
        if self is Facts.EMPTY:
            return Facts.none().implies(premise, claim)

        def contradicted() -> bool:
            models = satisfying(self._models, premise, self._check)
            return any(model.outcome(claim) is False for model in models)

        if on_enough_stack(contradicted):
            return False
        try:
            return self.assume(premise).ask(claim).proved
        except ShapeError:  # it holds nowhere
            return True

    def simplify(self, dim: Dim) -> Dim:
        """The canonical representative: equal dimensions that the facts solve for become one object.

        Opaque terms are resolved where bounds, divisors and equalities decide them.
        """
        if isinstance(dim, int):
            return dim
        if not dim.height and not self._state.values and not self._state.rows:
            return dim
        if self is Facts.EMPTY:
            return Facts.none().simplify(dim)
        if self._last_measured > last_data_dependent(dim):
            return self.known_by(last_data_dependent(dim)).simplify(dim)
        hit = self._memo.get(("simplify", dim))
        if hit is not None:
            return hit[0]
        work = self._work(self._models)
        try:
            return on_enough_stack(lambda: Simplifier(self._state, work).simplify(dim))
        except OutOfBudgetError:
            return dim

    def bounds(self, dim: Dim) -> Interval:
        """``(lo, hi)``, inclusive; None where no bound is known."""
        if self is Facts.EMPTY:
            return Facts.none().bounds(dim)
        if self._last_measured > last_data_dependent(dim):
            return self.known_by(last_data_dependent(dim)).bounds(dim)
        s = Simplifier(self._state, self._work(self._models))
        try:
            return on_enough_stack(lambda: s.bounds.interval(s.simplify(dim)))
        except OutOfBudgetError:
            return natural_bounds(dim)

    def multiple(self, dim: Dim) -> int:
        """The largest known divisor, at least 1; 1 for 0, which everything divides."""
        if self is Facts.EMPTY:
            return Facts.none().multiple(dim)
        if self._last_measured > last_data_dependent(dim):
            return self.known_by(last_data_dependent(dim)).multiple(dim)
        s = Simplifier(self._state, self._work(self._models))
        try:
            return on_enough_stack(lambda: max(s.bounds.multiple(s.simplify(dim)), 1))
        except OutOfBudgetError:
            return max(content(dim), 1)

    def likely(self, sym: Symbol) -> tuple[int, ...]:
        """Sizes that the user expects of a symbol, or of one that is known to be equal: hints, no promises."""
        declaration = self._declarations.get(sym)
        if declaration is not None and declaration.likely:
            return declaration.likely
        hinted = [other for other in self._declarations.values() if other.likely]
        if hinted:
            dim = self.simplify(as_dim(sym))
            for other in hinted:
                if self.simplify(as_dim(other.symbol)) is dim:
                    return other.likely
        return ()

    # --- telling -----------------------------------------------------------------------------------------------------

    def includes(self, others: Facts) -> bool:
        """Whether all that was declared and assumed of other facts was of these too: they imply whatever those do.

        By what was said, and not by what follows from it: facts that say as much in other words do not include them.
        """
        if self is others:
            return True
        declared = self._declarations
        if any(declared.get(symbol) != declaration for symbol, declaration in others._declarations.items()):
            return False
        return others._assumed.keys() <= self._assumed.keys()

    @property
    def relations(self) -> tuple[Relation, ...]:
        """Every relation that was assumed, in order. They, and the declarations, are what a call has to satisfy."""
        return self._relations

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        """The declarations, a record a symbol, in order."""
        return tuple(self._declarations.values())

    def describe(self) -> list[str]:
        """A line for each declaration and relation, with its reason."""
        lines: list[str] = []
        for declaration in self._declarations.values():
            likely = f", likely {', '.join(map(str, declaration.likely))}" if declaration.likely else ""
            lines.append(f"{declaration.describe()}{likely}: {declaration.reason}")
        return lines + [f"{relation.describe()}: {relation.reason}" for relation in self._relations]

    def __repr__(self) -> str:
        return f"<Facts: {'; '.join(self.describe())}>"


Facts.EMPTY = Facts(State(), {}, ())


def _disagree(models: Models, relation: Relation) -> bool:
    """Whether the relation is true in one model and false in another."""
    outcomes = {model.outcome(relation) for model in models}
    return True in outcomes and False in outcomes
