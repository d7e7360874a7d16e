"""Launches of groups that earlier programs of this process have had: equal groups are lowered once.

The graphs of a model, and the programs that a function has for its branches, differ in few of their groups. What a
group is lowered to depends on what it computes, on the target, and on the answers to what lowering asks of the facts.
All of these are kept with the launches, over the dims of the group that was lowered. A group of another program takes
them if it computes the same over dims of its own, which correspond to those by age, and if its program's facts give the
same answers about these. The texts that people read are as they would be: where they name a dim, it has one name.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from dyn.fork_safety import lock
from dyn.frozen import record
from dyn.ir.core import Value
from dyn.ir.types import TensorType
from dyn.schedule.launch import Condition, Launch, Variant
from dyn.schedule.target import Target
from dyn.shapes import Answer, Dim, Facts, Relation, Symbol, SymExpr, as_dim, exact_text, substitute
from dyn.stitch.groups import Group, Plan

#: So many groups are kept, those that were asked for last, and of one group the launches for so many sets of answers.
_MOST_GROUPS, _MOST_ANSWERS = 1024, 4


class AskedFacts:
    """The facts of a program as lowering a group sees them: each question is noted, with its answer."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.asked: dict[tuple[str, tuple[Dim, ...]], object] = {}

    def eq(self, a: Dim, b: Dim) -> Answer:
        return self._noted("eq", a, b)

    def same(self, a: Dim, b: Dim) -> bool:
        return self._noted("same", a, b)

    def divides(self, k: Dim, a: Dim) -> Answer:
        return self._noted("divides", k, a)

    def bounds(self, dim: Dim) -> tuple[int | None, int | None]:
        return self._noted("bounds", dim)

    def multiple(self, dim: Dim) -> int:
        return self._noted("multiple", dim)

    def _noted(self, what: str, *dims: Dim) -> Any:
        answer = getattr(self._facts, what)(*dims)
        self.asked[what, dims] = _plain(answer)
        return answer


def _plain(answer: object) -> object:
    """An answer without the reasons for it."""
    return answer.verdict if isinstance(answer, Answer) else answer


@record()
class _CachedLaunch:
    """A launch without its group. Buffers are numbers of the group's values, or of temporaries, which come after."""

    buffers: tuple[int, ...]
    variants: tuple[Variant, ...]
    temporaries: tuple[int, ...]
    when: Condition | None
    unless: tuple[Condition, ...]
    demands: tuple[Relation, ...]


@record()
class _Lowered:
    """The launches of a group over ``symbols``, under facts that have answered so."""

    symbols: tuple[Symbol, ...]
    asked: Mapping[tuple[str, tuple[Dim, ...]], object]
    launches: tuple[_CachedLaunch, ...]
    #: The types of the temporaries of all launches.
    temporaries: tuple[TensorType, ...]
    #: Whether texts for people name dims.
    names_dims: bool

    def is_for(self, symbols: Sequence[Symbol], facts: Facts, dim: Callable[[Dim], Dim]) -> bool:
        """Whether a group over these symbols, with ``dim`` for each of its own dims, is lowered to this under these
        facts."""
        if self.names_dims and [s.name for s in symbols] != [s.name for s in self.symbols]:
            return False
        return all(
            _plain(getattr(facts, what)(*map(dim, args))) == answer for (what, args), answer in self.asked.items()
        )

    def launches_of(self, group: Group, values: Sequence[Value], dim: Callable[[Dim], Dim]) -> tuple[Launch, ...]:
        """The launches for a group with these values, and ``dim`` for each dim of its own."""

        def condition(own: Condition) -> Condition:
            return replace(own, dim=dim(own.dim))

        def variant(own: Variant) -> Variant:
            return replace(
                own, dims=tuple(map(dim, own.dims)), grid=dim(own.grid), cost=dim(own.cost),
                condition=None if own.condition is None else condition(own.condition),
                folds=tuple([order.rewritten(dim) for order in own.folds]),
            )  # fmt: skip

        def demand(own: Relation) -> Relation:
            reason = replace(own.reason, loc=group.ops[0].loc)
            return replace(own, lhs=dim(own.lhs), rhs=dim(own.rhs), reason=reason)

        temporaries = [Value(type.with_shape(tuple(map(dim, type.shape)))) for type in self.temporaries]
        all_ = [*values, *temporaries]
        return tuple(
            [
                Launch(
                    group, tuple([all_[n] for n in one.buffers]), tuple(map(variant, one.variants)),
                    tuple([all_[n] for n in one.temporaries]), None if one.when is None else condition(one.when),
                    unless=tuple(map(condition, one.unless)), demands=tuple(map(demand, one.demands)),
                )
                for one in self.launches
            ]
        )  # fmt: skip


def _renaming(own: Sequence[Symbol], others: Sequence[Symbol]) -> Callable[[Dim], Dim]:
    """Puts other symbols into dims, into each once: variants have most of theirs in common."""
    symbols = {symbol: as_dim(other) for symbol, other in zip(own, others, strict=True) if symbol is not other}
    made: dict[Dim, Dim] = {}

    def dim(own: Dim) -> Dim:
        if isinstance(own, int) or not symbols:
            return own
        found = made.get(own)
        if found is None:
            found = made[own] = substitute(own, symbols)
        return found

    return dim


class KnownGroups:
    """A table of lowered groups, bounded. Every method may be called from many threads."""

    def __init__(self) -> None:
        self._lock = lock()
        self._known: OrderedDict[object, tuple[_Lowered, ...]] = OrderedDict()

    def lower(
        self, plan: Plan, group: Group, target: Target, shape: tuple[object, ...], values: Sequence[Value],
        make: Callable[[Plan], tuple[Launch, ...]],
    ) -> tuple[Launch, ...]:  # fmt: skip
        """The launches of a group of this ``shape`` with these values, made by ``make(plan)`` where none are known."""
        symbols = _symbols(shape)
        names = {symbol: f"d{number}" for number, symbol in enumerate(symbols)}
        hints = tuple([(symbol.data_dependent, symbol in plan.ones) for symbol in symbols])
        key = target, hints, _Written(names).of(shape)
        with self._lock:
            known = self._known.get(key, ())
            if known:
                self._known.move_to_end(key)
        facts = plan.function.facts
        for one in known:
            dim = _renaming(one.symbols, symbols)
            if one.is_for(symbols, facts, dim):
                return one.launches_of(group, values, dim)
        asked = AskedFacts(facts)
        # Lowering knows no more of the facts than these questions: another one is an AttributeError in the tests.
        launches = make(replace(plan, function=replace(plan.function, facts=cast(Facts, asked))))
        lowered = _lowered(launches, symbols, asked.asked, values)
        if lowered is not None:
            with self._lock:
                self._known[key] = (lowered, *self._known.get(key, ()))[:_MOST_ANSWERS]
                self._known.move_to_end(key)
                while len(self._known) > _MOST_GROUPS:
                    self._known.popitem(last=False)
        return launches


def _lowered(
    launches: Sequence[Launch], symbols: tuple[Symbol, ...], asked: Mapping[tuple[str, tuple[Dim, ...]], object],
    values: Sequence[Value],
) -> _Lowered | None:  # fmt: skip
    """What is kept of a group's launches; None of those that nobody else can have."""
    numbers = {value: number for number, value in enumerate(values)}
    temporaries = list(dict.fromkeys(value for launch in launches for value in launch.temporaries))
    numbers.update({value: len(values) + number for number, value in enumerate(temporaries)})
    if any(launch.bodies or not launch.variants for launch in launches):
        return None  # what a library computes, or the host program runs, knows its op
    made = [
        _CachedLaunch(
            tuple([numbers[v] for v in launch.buffers]), launch.variants,
            tuple([numbers[v] for v in launch.temporaries]), launch.when, launch.unless, launch.demands,
        )
        for launch in launches
    ]  # fmt: skip
    own = set(symbols)
    conditions = [
        c for launch in launches for c in (launch.when, *launch.unless, *[v.condition for v in launch.variants])
    ]
    dims = [condition.dim for condition in conditions if condition is not None]
    dims += [d for launch in launches for v in launch.variants for d in (*v.dims, v.grid, v.cost)]
    dims += [d for value in temporaries for d in value.shape]
    dims += [d for launch in launches for relation in launch.demands for d in (relation.lhs, relation.rhs)]
    dims += [d for _, args in asked for d in args]
    if any(isinstance(d, SymExpr) and not d.symbols <= own for d in dims):
        return None  # it has dims that its ops do not mention
    names = {symbol.name for symbol in symbols}
    texts = [text for launch in launches for v in launch.variants for text in (v.note, v.kernel.note, *v.steps)]
    named = any(not names.isdisjoint(_WORDS.findall(text)) for text in texts)
    return _Lowered(symbols, dict(asked), tuple(made), tuple([v.type for v in temporaries]), named)


_WORDS = re.compile(r"\w+")


def _symbols(shape: tuple[object, ...]) -> tuple[Symbol, ...]:
    """The symbols in a structural key, by age."""
    found: set[Symbol] = set()
    seen: set[SymExpr] = set()
    stack: list[object] = [shape]
    while stack:
        one = stack.pop()
        if isinstance(one, tuple):
            stack.extend(cast(tuple[object, ...], one))
        elif isinstance(one, SymExpr):
            if one not in seen:
                seen.add(one)
                found |= one.symbols
        elif isinstance(one, TensorType):
            stack.append(one.shape)
    return tuple(sorted(found, key=lambda symbol: symbol.uid))


class _Written:
    """Structural keys with dims as texts over other names."""

    def __init__(self, names: Mapping[Symbol, str]) -> None:
        self._names = names
        self._texts: dict[SymExpr, _Text] = {}

    def of(self, one: object) -> object:
        if isinstance(one, tuple):
            return tuple([self.of(part) for part in cast(tuple[object, ...], one)])
        if isinstance(one, SymExpr):
            text = self._texts.get(one)
            if text is None:
                text = self._texts[one] = _Text(exact_text(one, self._names))
            return text
        if isinstance(one, TensorType):
            return one.dtype, self.of(one.shape), one.weak
        return one


@record()
class _Text:
    """A dim as text: equal to no string of an attribute's."""

    text: str


KNOWN = KnownGroups()
