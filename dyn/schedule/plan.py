"""A plan's groups as launches. Groups that compute the same from other arrays are lowered once.

The layers of a model differ in their weights alone, so a model costs what one of its layers costs. What a group
computes is written down as a *shape*: its ops and the inlined ones behind them, with values numbered as they are met.
Two groups of equal shapes have equal kernels, and their arrays correspond number by number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from dyn.ir.core import Op, Value, attrs_key, region_key
from dyn.ir.opdef import OpKind, OrderedWindows, Pieces, WindowFold
from dyn.ir.region_passes import body_of, carries, unchanged
from dyn.ir.types import TensorType
from dyn.schedule.alternatives import with_alternatives
from dyn.schedule.contractions import lower_contraction
from dyn.schedule.donate import stored_results, update_in_place
from dyn.schedule.families import schedules_of
from dyn.schedule.launch import Body, Launch, may_lack_value
from dyn.schedule.launch_cache import KNOWN
from dyn.schedule.library import lower_library, memory_of
from dyn.schedule.loops import Loops
from dyn.schedule.nests import window_nest
from dyn.schedule.orderings import ordering_of
from dyn.schedule.specialized_kernels import launch_nest
from dyn.schedule.target import Target
from dyn.shapes import Symbol
from dyn.stitch.groups import Group, GroupKind, Plan


def _single(lower: Callable[[Plan, Group, Target], Launch]) -> Callable[[Plan, Group, Target], tuple[Launch, ...]]:
    return lambda plan, group, target: (lower(plan, group, target),)


def _lower_control(plan: Plan, group: Group, target: Target, ones: Collection[Symbol]) -> Launch:
    """The launch of a loop or a choice, with those of its regions."""
    (op,) = group.ops
    bodies: list[Body] = []
    for region, inner in zip(op.regions, group.bodies, strict=True):
        launches, in_place = lower_plan(inner, target, ones), frozenset[int]()
        if carries(op) and region is body_of(op):
            changing = [i for i, same in enumerate(unchanged(op)) if not same]
            launches, in_place = update_in_place(inner, launches, changing)
        asked = tuple([r for r in region.demands if not plan.function.facts.ask(r).proved])
        conditional = bool(asked) or may_lack_value(dim for launch in launches for dim in launch.dims())
        bodies.append(Body(inner.function.params, launches, stored_results(inner), in_place, asked, conditional))
    return Launch(group, memory_of(plan, group), (), bodies=tuple(bodies))


def _lower_loop(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launches of a group of loops: where that is one op that puts pieces together, a loop each."""
    alone = len(group.ops) == 1 and isinstance(group.ops[0].opdef.loops, Pieces)
    schedules = schedules_of(target)
    return (schedules.join if alone else schedules.loops)(plan, group, target)


def _lower_windows(plan: Plan, group: Group, target: Target) -> Launch:
    """The launch of a group around an op that folds windows."""
    (op,) = (op for op in group.ops if op.opdef.kind is OpKind.WINDOW)
    windows = op.opdef.loops
    assert isinstance(windows, WindowFold | OrderedWindows)
    loops = Loops(window_nest(plan, group, op, windows))
    return launch_nest(loops, schedules_of(target).folds(target), (), f"{group.kind.value} {group.name}, folded")


def _lower_library(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launches of an op that a library computes, unless the target has kernels for it."""
    sort, ordering = schedules_of(target).sort, ordering_of(group.ops[0])
    if sort is not None and ordering is not None:
        return sort(plan, group, target, ordering)
    return (lower_library(plan, group, target),)


_LOWER: dict[GroupKind, Callable[[Plan, Group, Target], tuple[Launch, ...]]] = {
    GroupKind.LOOP: _lower_loop,
    GroupKind.STITCH: lambda plan, group, target: schedules_of(target).reductions(plan, group, target),
    GroupKind.COPY: lambda plan, group, target: schedules_of(target).loops(plan, group, target),
    GroupKind.JOIN: lambda plan, group, target: schedules_of(target).join(plan, group, target),
    GroupKind.WINDOW: _single(_lower_windows),
    GroupKind.CONTRACT: lower_contraction,
    GroupKind.LIBRARY: _lower_library,
    GroupKind.DATA_DEPENDENT_SIZE: _single(lower_library),
    GroupKind.SCATTER: lambda plan, group, target: schedules_of(target).scatter(plan, group, target),
    GroupKind.RUNNING: lambda plan, group, target: schedules_of(target).running(plan, group, target),
}


def lower_plan(plan: Plan, target: Target, ones: Collection[Symbol] = ()) -> tuple[Launch, ...]:
    """The launches of a plan's groups, in its order, with alternatives for sizes that agree, or are 1 as ``ones`` were
    in the first call. Leaves kernels that check."""
    plan = replace(plan, ones=frozenset(ones))
    #: By plan, for what is known of sizes under an assumption is not known without it.
    known: dict[tuple[Plan, tuple[object, ...]], tuple[tuple[Launch, ...], dict[Value, int]]] = {}

    def lower(plan: Plan, group: Group) -> tuple[Launch, ...]:
        # The groups in regions share kernels all the same, which are keyed by content.
        if group.kind is GroupKind.CONTROL:
            return (_lower_control(plan, group, target, ones),)
        if group.kind is GroupKind.DATA_DEPENDENT_SIZE:
            return _LOWER[group.kind](plan, group, target)
        shape, numbers = group_shape(plan, group)
        found = known.get((plan, shape))
        if found is not None:
            return _for_other_arrays(group, found[0], found[1], list(numbers))
        make = partial(_lowered, _LOWER[group.kind], group, target)
        made = KNOWN.lower(plan, group, target, shape, list(numbers), make)
        known[plan, shape] = made, numbers
        return made

    return with_alternatives(plan, [lower(plan, group) for group in plan.groups], ones, lower)


def _lowered(
    lower: Callable[[Plan, Group, Target], tuple[Launch, ...]], group: Group, target: Target, plan: Plan
) -> tuple[Launch, ...]:
    return lower(plan, group, target)


def _for_other_arrays(
    group: Group, launches: tuple[Launch, ...], numbers: dict[Value, int], values: list[Value]
) -> tuple[Launch, ...]:
    """The launches of a group of equal shape, over the arrays of this one: ``numbers`` says which of ``values``."""
    own = {value: values[number] for value, number in numbers.items()}
    own |= {value: Value(value.type) for launch in launches for value in launch.temporaries}
    return tuple(
        replace(
            launch, group=group, buffers=tuple(own[v] for v in launch.buffers),
            temporaries=tuple(own[v] for v in launch.temporaries),
        )
        for launch in launches
    )  # fmt: skip


def group_shape(plan: Plan, group: Group) -> tuple[tuple[object, ...], dict[Value, int]]:
    """Structural key of a group's computation, whichever arrays it reads; and the number of each value in it."""
    members = group.members()
    numbers: dict[Value, int] = {}
    shape: list[object] = []

    def add(value: Value, *what: object) -> None:
        numbers[value] = len(numbers)
        shape.append((*what, _type_key(value.type)))

    def add_op(op: Op) -> None:
        for number, result in enumerate(op.results):
            regions = tuple([region_key(region, numbers) for region in op.regions])
            operands = tuple([numbers[v] for v in op.operands])
            add(result, op.opdef, number, attrs_key(op.attrs), operands, regions)
        if not op.results:
            shape.append((op.opdef, attrs_key(op.attrs), tuple([numbers[v] for v in op.operands])))

    def add_operands(op: Op) -> None:
        stack = list(reversed([*op.reads()]))
        while stack:
            value = stack[-1]
            if value in numbers:
                stack.pop()
            elif value in plan.stored and value not in members:
                add(value, "stored")
            else:
                inner = plan.producers[value]
                missing = [v for v in reversed([*inner.reads()]) if v not in numbers]
                if missing:
                    stack.extend(missing)
                else:
                    add_op(inner)

    for op in group.ops:
        add_operands(op)
        add_op(op)
    parts = group.outputs, *[[op.result for op in ops] for ops in (group.inner, group.columns)]
    numbered = tuple([tuple([numbers[value] for value in part]) for part in parts])
    return (group.kind, group.space, group.reduced, *numbered, *shape), numbers


def _type_key(type: TensorType) -> tuple[object, ...]:
    return type.dtype, type.shape
