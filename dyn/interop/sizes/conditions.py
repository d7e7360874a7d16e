"""Truth values of symbolic sizes in a front end's hands: comparisons, and their ``and``, ``or`` and ``not``.

Front ends ask in three ways, and each has an answer that is right for every size that the program is used for:

- *is it known?* (PyTorch's ``guard_or_false``): the proof, or the answer that PyTorch says is as good
  (:class:`dyn.interop.torch.sym_nodes.Environment`);
- *which is it?* (``bool``): the proof, or the way of this call's sizes and a guard;
- *it has to be* (``torch._check``): as the second; of sizes that are known at run time only, a check there.

Of ``a or b`` no more is guarded than makes it true: ``s == 1 or s <= 512`` at 7 assumes ``s <= 512``, and a call of
size 1 is one for the same program.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NoReturn

from dyn.errors import ShapeError, UndecidedDimError
from dyn.shapes import Dim, Facts, Relation, RelKind, Symbol, free_symbols
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.data_dependent import dim_from_value
from dyn.trace.size_comparisons import ComparisonSymbol, OrderSymbol, branch, comparison

#: Guards that are made here answer questions of other libraries and of their users, not of dyn's own code.
ASKS_FOR_OTHERS = True


@dataclass(frozen=True, slots=True)
class Comparison:
    """A relation of sizes that is undecided, with its opposite: one of them holds wherever they have a value.

    ``asked`` is the comparison that they are of, which ``yes`` is the opposite of where it ``is_negated``.
    """

    yes: Relation
    no: Relation
    asked: tuple[ComparisonSymbol, Dim, Dim]
    is_negated: bool = False

    @staticmethod
    def of(symbol: ComparisonSymbol, a: Dim, b: Dim) -> Comparison:
        """``a == b``, or another comparison by its ``symbol``."""
        return Comparison(*comparison(symbol, a, b), (symbol, a, b))

    def negated(self) -> Condition:
        return Comparison(self.no, self.yes, self.asked, not self.is_negated)

    def _branch(self) -> tuple[Relation, Relation]:
        """Both relations with the reasons of a branch at this line."""
        yes, no = branch(*self.asked)
        return (no, yes) if self.is_negated else (yes, no)

    def proved(self, facts: Facts) -> bool | None:
        answer = facts.ask(self.yes)
        if answer.proved or answer.refuted:
            return answer.proved
        return False if facts.ask(self.no).proved else None

    def holds(self, sizes: dict[Symbol, int]) -> bool:
        return self.yes.decided(sizes)

    def symbols(self) -> frozenset[Symbol]:
        return self.yes.symbols() | self.no.symbols()

    def assume(self, trace: Trace) -> None:
        """Guard that it holds, as it does for the sizes of this call."""
        trace.decide(*self._branch())

    def require(self, trace: Trace) -> None:
        """Demand that it holds: proved, or checked at each call."""
        trace.require(self._branch()[0])

    def computed(self, trace: Trace) -> Any:
        """The truth value as the program finds it out."""
        yes, here = self.yes, trace.here
        left, right = (here.dim_value(dim).astype("int64") for dim in (yes.lhs, yes.rhs))
        match yes.kind:
            case RelKind.EQ:
                return left == right
            case RelKind.NONZERO:
                return left != 0
            case _:
                return left >= right

    @property
    def strictness(self) -> int:
        """How few sizes it leaves: equality leaves fewer than an inequality."""
        return {RelKind.EQ: 2, RelKind.GE: 1}.get(self.yes.kind, 0)

    def __str__(self) -> str:
        return self.yes.describe()


@dataclass(frozen=True, slots=True)
class Junction:
    """The conjunction (``every``) or the disjunction of conditions."""

    every: bool
    parts: tuple[Condition, ...]

    def negated(self) -> Condition:
        return Junction(not self.every, tuple([part.negated() for part in self.parts]))

    def proved(self, facts: Facts) -> bool | None:
        answers = [part.proved(facts) for part in self.parts]
        if (not self.every) in answers:
            return not self.every
        return None if None in answers else self.every

    def holds(self, sizes: dict[Symbol, int]) -> bool:
        return (all if self.every else any)(part.holds(sizes) for part in self.parts)

    def symbols(self) -> frozenset[Symbol]:
        return frozenset[Symbol]().union(*[part.symbols() for part in self.parts])

    def assume(self, trace: Trace) -> None:
        if self.every:
            for part in self.parts:
                part.assume(trace)
            return
        true = [part for part in self.parts if part.holds(trace.sizes)]
        min(true, key=lambda part: part.strictness).assume(trace)

    def require(self, trace: Trace) -> None:
        if self.every:
            for part in self.parts:
                part.require(trace)
            return
        unsettled = [part for part in self.parts if part.proved(trace.facts) is not False]
        if len(unsettled) == 1:
            unsettled[0].require(trace)
            return
        # A demand is one relation: of several that may hold the program finds out whether one does.
        count = self.computed(trace).astype("int64")._value
        trace.demand(
            RelKind.EQ, dim_from_value(trace, count, "truth", f"whether {self}"), 1, f"this has to hold: {self}"
        )

    def computed(self, trace: Trace) -> Any:
        """The truth value as the program finds it out."""
        parts = [part.computed(trace) for part in self.parts]
        return functools.reduce(trace.namespace.logical_and if self.every else trace.namespace.logical_or, parts)

    @property
    def strictness(self) -> int:
        return max(part.strictness for part in self.parts)

    def __str__(self) -> str:
        return f" {'and' if self.every else 'or'} ".join([f"({part})" for part in self.parts])


Condition = Comparison | Junction


def equal(a: Dim, b: Dim) -> Condition | bool:
    """``a == b``."""
    if a is b or (isinstance(a, int) and isinstance(b, int)):
        return a == b
    return Comparison.of("==", a, b)


def ordered(symbol: OrderSymbol, a: Dim, b: Dim) -> Condition | bool:
    """``a >= b``, or with another ``symbol`` of Python's."""
    if isinstance(a, int) and isinstance(b, int):
        return {">=": a >= b, "<=": a <= b, ">": a > b, "<": a < b}[symbol]
    return Comparison.of(symbol, a, b)


def negated(condition: Condition | bool) -> Condition | bool:
    """``not condition``."""
    return not condition if isinstance(condition, bool) else condition.negated()


def joined(every: bool, a: Condition | bool, b: Condition | bool) -> Condition | bool:
    """``a and b``, or ``a or b`` without ``every``."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, bool):
            return other if one is every else one
    parts: list[Condition] = []
    for one in (a, b):
        assert not isinstance(one, bool), "bools are gone"
        parts += one.parts if isinstance(one, Junction) and one.every is every else (one,)
    parts = list(dict.fromkeys(parts))
    return parts[0] if len(parts) == 1 else Junction(every, tuple(parts))


def known(condition: Condition | bool, trace: Trace) -> bool | None:
    """The truth value that is proved; None where none is."""
    return condition if isinstance(condition, bool) else condition.proved(trace.facts)


def for_this_call(condition: Condition | bool, trace: Trace) -> bool | None:
    """The truth value for the sizes of this call; None where they do not tell."""
    if isinstance(condition, bool):
        return condition
    if not condition.symbols() <= trace.sizes.keys():
        return None
    try:
        return condition.holds(trace.sizes)
    except ShapeError:  # sizes for which it has no value
        return None


def decide(condition: Condition | bool, trace: Trace) -> bool:
    """The truth value for all calls of this program: proved, or that of this call's sizes, guarded.

    Raises UndecidedDimError for sizes that are known at run time only, and ShapeError where it has no value.
    """
    answer = known(condition, trace)
    if answer is not None:
        return answer
    assert not isinstance(condition, bool), "a bool is known"
    unknown = condition.symbols() - trace.sizes.keys()
    if unknown:
        follows = trace.here.by_emptiness(condition.proved, condition.symbols())
        if follows is None:
            _raise_undecided(condition, trace, unknown)
        return follows
    answer = condition.holds(trace.sizes)
    (condition if answer else condition.negated()).assume(trace)
    return answer


def _raise_undecided(condition: Condition, trace: Trace, unknown: frozenset[Symbol]) -> NoReturn:
    origins = ", ".join([f"{s.name} is {s.origin}" for s in sorted(unknown, key=lambda s: s.uid)])
    raise UndecidedDimError(
        f"whether {condition} cannot be decided: {origins}.",
        loc=user_loc(),
        remedy="it is known when the program runs, and not while it is traced: demand it by torch._check, or compute "
        "with torch.where.",
    )


def require(condition: Condition | bool, trace: Trace) -> bool:
    """Whether it holds for this call, as PyTorch demands: its own error follows where it does not.

    Sizes that only the running program knows are checked there.
    """
    answer = known(condition, trace)
    if answer is not None:
        return answer
    assert not isinstance(condition, bool), "a bool is known"
    if condition.symbols() <= trace.sizes.keys():
        return decide(condition, trace)
    condition.require(trace)
    return True


def is_measured(dim: Dim, trace: Trace) -> bool:
    """Whether a size is known to the running program only."""
    return not free_symbols(dim) <= trace.sizes.keys()
