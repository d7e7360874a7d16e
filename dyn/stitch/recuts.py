"""Parts of a function that plans under an assumption cut otherwise than the general one.

Groups of all plans that share ops are a part. Where an assumed plan has fewer groups for a part, or folds fewer axes in
it, both are kept; everywhere else the general plan is the only one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dyn.frozen import record
from dyn.ir.core import Function, Op, Value
from dyn.ir.effects import has_effect
from dyn.ir.opdef import OpKind
from dyn.shapes import Relation, Symbol, free_symbols
from dyn.stitch.assumed_plans import Assumed
from dyn.stitch.groups import Group, GroupKind, Plan, values_read
from dyn.stitch.order import GroupOrder
from dyn.stitch.scalar_work import is_heavy

#: The kinds of groups that are looked at: the others have the same ops in every plan.
_KINDS = frozenset({GroupKind.LOOP, GroupKind.STITCH, GroupKind.COPY})
#: A group of an assumed plan has at most so many ops of costly functions, unless one of the general plan's has: while a
#: processor goes through the instructions of more, it looks too short a way ahead to go through several vectors at
#: once, and that costs more than it takes to write and read an array in cache (black-scholes: 1.5 times the time).
_MOST_HEAVY = 3


@record(eq=False)
class Recut:
    """Groups of a general plan, and for each assumed plan its groups of the same ops: none where it has no fewer, and
    folds as many axes."""

    general: tuple[Group, ...]
    assumed: tuple[tuple[Group, ...], ...]


@dataclass(eq=False)
class _Part:
    """Groups of all plans that have ops in common."""

    general: list[Group] = field(default_factory=list[Group])
    assumed: dict[int, list[Group]] = field(default_factory=dict[int, list[Group]])


def recuts(plan: Plan, assumed: Sequence[Assumed]) -> list[Recut]:
    """The parts of a function that some assumed plan cuts into fewer groups than the general one does."""
    own = {op: n for n, op in enumerate(plan.function.ops)}
    numbers = [own, *[{op: own[origin] for op, origin in one.origins.items()} for one in assumed]]
    roots = list(range(len(plan.function.ops)))

    def root(n: int) -> int:
        while roots[n] != n:
            roots[n] = n = roots[roots[n]]
        return n

    plans = (plan, *[a.plan for a in assumed])
    grouped = {of[op] for of, one in zip(numbers, plans, strict=True) for group in one.groups for op in group.ops}
    for of, one in zip(numbers, plans, strict=True):
        for group in one.groups:
            first, *others = [of[op] for op in (*group.ops, *group.recomputed, *_views(one, group))]
            for n in others:
                if n in grouped:
                    roots[root(n)] = root(first)
    for one, of in zip(assumed, numbers[1:], strict=True):
        for value in plan.function.results:
            memory, views = memory_of(one.plan, one.own[value])
            made = one.plan.producers.get(memory)
            if made is not None and of[made] in grouped:
                for op in views:
                    if of[op] in grouped:  # a reduction in another plan
                        roots[root(of[op])] = root(of[made])
    for a, b in _circles(plan, [root(own[group.ops[0]]) for group in plan.groups]):
        roots[root(a)] = root(b)
    parts: dict[int, _Part] = {}
    for which, (of, one) in enumerate(zip(numbers, plans, strict=True)):
        for group in one.groups:
            part = parts.setdefault(root(of[group.ops[0]]), _Part())
            (part.general if which == 0 else part.assumed.setdefault(which - 1, [])).append(group)
    found: list[Recut] = []
    for part in parts.values():
        fewer = [part.assumed.get(n, []) for n in range(len(assumed))]
        fewer = [
            groups if 0 < len(groups) < len(part.general) or _folds_less(one, groups) else []
            for one, groups in zip(assumed, fewer, strict=True)
        ]
        most = max(_MOST_HEAVY, *map(_heavy, part.general))
        fewer = [groups if all(_heavy(group) <= most for group in groups) else [] for groups in fewer]
        # A plan for short axes is for parts in which they are folded within loops: the others are as without it.
        fewer = [groups if not one.short or _inner(groups) else [] for one, groups in zip(assumed, fewer, strict=True)]
        if any(fewer) and _may_be_chosen([*part.general, *[group for groups in fewer for group in groups]]):
            found.append(Recut(tuple(part.general), tuple([tuple(groups) for groups in fewer])))
    return found


def memory_of(plan: Plan, value: Value) -> tuple[Value, list[Op]]:
    """The value in whose memory another one lies, in its order, and the views through which it does: itself, and none,
    where it has its own or lies in none so."""
    base, views = value, list[Op]()
    while base not in plan.stored:
        op = plan.producers.get(base)
        if op is None or not op.opdef.keeps_order:
            return value, []
        views.append(op)
        base = op.operands[0]
    return base, views


def _circles(plan: Plan, parts: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Pairs of parts that wait for one another: what lies between groups of a part belongs to it.

    ``parts`` are those of the plan's groups.
    """
    order, makers = GroupOrder(), dict[Value, int]()
    for number, group in enumerate(plan.groups):
        order.add(number)
        waited = {v for op in group.ops for v in plan.waits.get(op, ())}
        for value in sorted({makers[v] for v in (*_read(plan, group), *waited) if v in makers}):
            order.edge(value, number)
        makers.update((v, number) for v in group.outputs)
    into: dict[int, int] = {}
    for number, part in enumerate(parts):
        first = into.setdefault(part, number)
        if first == number:
            continue
        while between := order.first_between(first, number):
            other = min(between, key=order.place)
            yield part, parts[other]
            order.merge(first, other)
            for known, node in into.items():
                into[known] = first if node == other else node
        order.merge(first, number)


def _read(plan: Plan, group: Group) -> set[Value]:
    """The stored values that a group reads."""
    return values_read(group, plan.producers, plan.stored) & plan.stored


def _views(plan: Plan, group: Group) -> list[Op]:
    """The views through which a group reads what is stored: some are reductions, or copies, in another plan."""
    through = values_read(group, plan.producers, plan.stored) - plan.stored
    return [op for value in through if (op := plan.producers[value]).opdef.kind is OpKind.VIEW]


def _may_be_chosen(groups: Iterable[Group]) -> bool:
    """Whether groups are loops and reductions over sizes that are there when a call begins, without effects."""
    return all(
        group.kind in _KINDS
        and not any(has_effect(op) for op in group.ops)
        and not any(s.data_dependent for op in group.ops for v in (*op.operands, *op.results) for s in _symbols(v))
        for group in groups
    )


def _folds_less(one: Assumed, groups: Sequence[Group]) -> bool:
    """Whether some reduction of an assumed plan's groups folds fewer axes than it does in the general plan."""
    ops = [op for group in groups for op in (*group.reductions, *group.column_reductions)]
    axes = [(op.attrs["axes"], one.origins[op].attrs["axes"]) for op in ops]
    return any(len(mine) < len(theirs) for mine, theirs in axes)


def _inner(groups: Iterable[Group]) -> bool:
    """Whether some group has loops within its loops."""
    return any(group.inner for group in groups)


def _heavy(group: Group) -> int:
    return sum(op.opdef.kind is OpKind.POINTWISE and is_heavy(op) for op in group.ops)


def _symbols(value: Value) -> Iterable[Symbol]:
    return (s for dim in value.shape for s in free_symbols(dim))


def relations_about(function: Function, relations: Sequence[Relation], groups: Iterable[Group]) -> list[Relation]:
    """Those of some relations that have to do with the sizes of some groups, by the facts of the function."""
    known = {s for group in groups for op in group.ops for v in (*op.operands, *op.results) for s in _symbols(v)}
    links = [relation.symbols() for relation in (*function.facts.relations, *relations)]
    growing = True
    while growing:
        before = len(known)
        for link in links:
            if not known.isdisjoint(link):
                known |= link
        growing = len(known) > before
    return [relation for relation in relations if not known.isdisjoint(relation.symbols())]
