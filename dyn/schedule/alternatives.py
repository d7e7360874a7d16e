"""Alternatives: launches of several plans for the same ops, of which a call runs those of one.

Under an assumption about sizes a function is cut into fewer groups (``dyn.stitch.assumed_plans``). Where it is, the
launches of the general plan and those of the others become one launch with a body for each: the first runs whose
condition on sizes holds and whose kernels are there. Values inside a body are its own; what is read and made outside
lies where it lies.

Elementwise arithmetic gives the same bits in every plan; so do groups that fold floats, if they fold them alike in
both, which ``Variant.folds`` tells. Kernels of such a plan are deferred: it does not matter which one runs. Where the
plan for sizes that agree folds otherwise than the general one, it runs whenever they do: its kernels are compiled with
the program, and the bits of a result follow from the sizes of a call alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from dyn.ir.core import Op, Value
from dyn.ir.opdef import OpKind
from dyn.schedule.donate import stored_results
from dyn.schedule.launch import Body, Condition, FoldOrder, Launch
from dyn.shapes import Dim, Facts, Relation, RelKind, Symbol, dim_max
from dyn.stitch.assumed_plans import Assumed, assumed_plans
from dyn.stitch.groups import Group, GroupKind, Plan
from dyn.stitch.recuts import Recut, memory_of, recuts, relations_about

#: The launches of a plan's group.
Lower = Callable[[Plan, Group], tuple[Launch, ...]]


@dataclass(eq=False)
class _LaunchRun:
    """Launches that follow one another, those of the groups."""

    groups: tuple[Group, ...]
    launches: tuple[Launch, ...]

    def made(self) -> set[Value]:
        return {v for group in self.groups for v in group.outputs}

    def read(self) -> dict[Value, None]:
        """What the launches read of others, in order."""
        own = self.made() | {v for launch in self.launches for v in launch.temporaries}
        return dict.fromkeys(v for launch in self.launches for v in launch.buffers if v not in own)


def with_alternatives(
    plan: Plan, launches: Sequence[tuple[Launch, ...]], ones: Collection[Symbol], lower: Lower
) -> tuple[Launch, ...]:
    """The launches of a plan, given by group, with the alternatives to some of them."""
    assumed = assumed_plans(plan, ones)
    runs = [_LaunchRun((group,), made) for group, made in zip(plan.groups, launches, strict=True)]
    for recut in recuts(plan, assumed) if assumed else ():
        together = None if plan.waits else _together(runs, frozenset(recut.general))
        if together is None:
            continue
        before, run, after = together
        others = {v for other in (*before, *after) for v in other.read()} | {*stored_results(plan)}
        outputs = [v for group in run.groups for v in group.outputs if v in others]
        late = {v for other in after for v in other.made()}
        choice = _choice(plan, run, outputs, late, assumed, recut, lower)
        if choice is not None:
            runs = [*before, _LaunchRun(run.groups, (choice,)), *after]
    return tuple([launch for run in runs for launch in run.launches])


def _together(
    runs: Sequence[_LaunchRun], groups: frozenset[Group]
) -> tuple[list[_LaunchRun], _LaunchRun, list[_LaunchRun]] | None:
    """Some groups as one run, with what runs before and after it; None where something between waits for one of them
    and is waited for by another."""
    places = [n for n, run in enumerate(runs) if not groups.isdisjoint(run.groups)]
    before, after = [*runs[: places[0]]], list[_LaunchRun]()
    inside, made, late = list[_LaunchRun](), set[Value](), set[Value]()
    for number in range(places[0], places[-1] + 1):
        run = runs[number]
        if number in places:
            if not late.isdisjoint(run.read()):
                return None
            inside.append(run)
            made |= run.made()
        elif not (made | late).isdisjoint(run.read()) or any(group.kind not in _MOVED for group in run.groups):
            after.append(run)
            late |= run.made()
        else:
            before.append(run)
    whole = _LaunchRun(tuple(g for run in inside for g in run.groups), tuple(x for run in inside for x in run.launches))
    return before, whole, [*after, *runs[places[-1] + 1 :]]


#: The kinds of groups that may come before others than those that they followed: they only compute.
_MOVED = frozenset({GroupKind.LOOP, GroupKind.STITCH, GroupKind.COPY, GroupKind.CONTRACT, GroupKind.WINDOW})


def _choice(
    plan: Plan,
    run: _LaunchRun,
    outputs: Sequence[Value],
    late: Collection[Value],
    assumed: Sequence[Assumed],
    recut: Recut,
    lower: Lower,
) -> Launch | None:
    """The launch that is one of several; None where no other than the general one computes the same. ``late`` is what
    is made after it."""
    found: list[tuple[Assumed, _LaunchRun]] = []
    required: list[Assumed] = []
    for one, groups in zip(assumed, recut.assumed, strict=True):
        if not groups:
            continue
        other = _LaunchRun(groups, tuple([launch for group in groups for launch in lower(one.plan, group)]))
        if not _makes(plan, one, run, other, outputs, late):
            continue
        if _folds_alike(one, run, other):
            found.append((one, other))
        elif not one.ones:  # which of them there are the first call has said
            found.insert(len(required), (one, other))
            required.append(one)
    if not found:
        return None
    read = run.read()
    for one, other in found:
        theirs = _outer(one)
        read |= dict.fromkeys(theirs[v] for v in other.read())
    bodies: list[Body] = []
    for one, other in found:
        relations = relations_about(plan.function, one.relations, (*recut.general, *other.groups))
        apart = [0, *[d for relation in relations for d in _distances(relation)]]
        params, results = [one.own[v] for v in read], [_memory(one, v) for v in outputs]
        when = Condition(dim_max(*apart), 0, 0)
        launches = other.launches if one in required else tuple(map(_deferred, other.launches))
        deferred = one not in required
        bodies.append(Body(tuple(params), launches, tuple(results), conditional=True, when=when, deferred=deferred))
    bodies.append(Body(tuple(read), run.launches, tuple(outputs)))
    first, ops = run.groups[0], tuple(op for g in run.groups for op in g.ops)
    group = Group(first.name, GroupKind.ALTERNATIVES, ops, first.space, frozenset(), tuple(outputs))
    return Launch(group, (*read, *outputs), (), bodies=tuple(bodies))


def _distances(relation: Relation) -> tuple[Dim, ...]:
    """Dims that are at most 0 where a relation holds."""
    below = relation.rhs - relation.lhs
    return (below, -below) if relation.kind is RelKind.EQ else (below,)


def _outer(one: Assumed) -> dict[Value, Value]:
    """The function's value of each of a plan's."""
    return {theirs: value for value, theirs in one.own.items()}


def _deferred(launch: Launch) -> Launch:
    """A launch with the variants that it cannot do without, which are made when somebody wants them; one that runs in
    place of another, which can do without it, as it is."""
    if launch.when is not None and any(v.deferred for v in launch.variants):
        return launch
    return replace(launch, variants=tuple([replace(v, deferred=True) for v in launch.variants if not v.deferred]))


def _makes(
    plan: Plan, one: Assumed, run: _LaunchRun, other: _LaunchRun, outputs: Sequence[Value], late: Collection[Value]
) -> bool:
    """Whether launches of another plan make what others read, of what lies in memory before them."""
    theirs, lacking = _outer(one), {*run.made(), *late}
    there = all(v in theirs and theirs[v] in plan.stored and theirs[v] not in lacking for v in other.read())
    made = {_memory(one, v) for v in outputs}
    return there and made <= other.made() and len(made) == len(outputs)


def _memory(one: Assumed, value: Value) -> Value:
    """The value of an assumed plan in whose memory one of the function lies."""
    return memory_of(one.plan, one.own[value])[0]


# Folds --------------------------------------------------------------------------------------------------------------


def _folds_alike(one: Assumed, run: _LaunchRun, other: _LaunchRun) -> bool:
    """Whether each group of a run that folds floats does so in the other one in the same order, with the same folds
    beside it."""
    facts = one.plan.function.facts
    theirs = {frozenset(one.origins[op] for op in _float_folds(group)): group for group in other.groups}
    for group in run.groups:
        folds = frozenset(_float_folds(group))
        if group.inner:  # which have an order of their own
            return False
        if folds:
            match = theirs.get(folds)
            if match is None or _orders(run, group, facts) != _orders(other, match, facts):
                return False
    return True


def _float_folds(group: Group) -> list[Op]:
    """The reductions of a group that fold floats, those within its loops too."""
    return [op for op in group.ops if op.opdef.kind is OpKind.REDUCE and any(v.dtype.is_float for v in op.results)]


def _orders(run: _LaunchRun, group: Group, facts: Facts) -> list[object]:
    """The orders in which the launches of a group fold floats, each with its conditions, as the facts know them.

    Deferred variants fold as the others do.
    """
    found: list[object] = []
    for launch in run.launches:
        if launch.group is not group:
            continue
        when = _known(launch.when, facts), [_known(condition, facts) for condition in launch.unless]
        variants: list[tuple[object, list[FoldOrder]]] = []
        for variant in launch.variants:
            condition = _known(variant.condition, facts)
            if condition is False or variant.deferred:
                continue
            variants.append((condition, [order.under(facts) for order in variant.folds]))
            if condition is True:
                break
        if when[0] is not False and any(folds for _, folds in variants):
            found.append((when, variants))
    return found


def _known(condition: Condition | None, facts: Facts) -> object:
    """A condition by what the facts say of it: True or False where they decide it."""
    if condition is None:
        return True
    known = Condition(facts.simplify(condition.dim), condition.low, condition.high)
    decided = known.decided(facts)
    return known if decided is None else decided
