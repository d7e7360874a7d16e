"""A plan's groups as launches. Groups that compute the same from other arrays are lowered once.

The layers of a model differ in their weights alone, so a model costs what one of its layers costs. What a group
computes is written down as a *shape*: its ops and the inlined ones behind them, with values numbered as they are met.
Two groups of equal shapes have equal kernels, and their arrays correspond number by number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dyn.ir.core import Op, Value, attrs_key
from dyn.ir.types import TensorType
from dyn.lower.contract import lower_contract
from dyn.lower.launch import Launch
from dyn.lower.library import lower_library
from dyn.lower.loops import lower_loops
from dyn.lower.scatter import lower_scatter
from dyn.lower.target import Target
from dyn.stitch.groups import Group, GroupKind, Plan

_LOWER: dict[GroupKind, Callable[[Plan, Group, Target], Launch]] = {
    GroupKind.LOOP: lower_loops,
    GroupKind.STITCH: lower_loops,
    GroupKind.COPY: lower_loops,
    GroupKind.CONTRACT: lower_contract,
    GroupKind.LIBRARY: lower_library,
    GroupKind.SCATTER: lower_scatter,
}


def lower_plan(plan: Plan, target: Target) -> tuple[Launch, ...]:
    """The launches of a plan's groups, in its order. Leaves kernels that check."""
    known: dict[tuple[object, ...], tuple[Launch, dict[Value, int]]] = {}
    launches: list[Launch] = []
    for group in plan.groups:
        shape, numbers = group_shape(plan, group)
        found = known.get(shape)
        if found is None:
            launch = _LOWER[group.kind](plan, group, target)
            known[shape] = launch, numbers
        else:
            first, theirs = found
            values = list(numbers)
            launch = replace(first, group=group, buffers=tuple(values[theirs[v]] for v in first.buffers))
        launches.append(launch)
    return tuple(launches)


def group_shape(plan: Plan, group: Group) -> tuple[tuple[object, ...], dict[Value, int]]:
    """What a group computes, free of which arrays it reads; and the number of each value in it."""
    members = group.members()
    numbers: dict[Value, int] = {}
    shape: list[object] = []

    def add(value: Value, *what: object) -> None:
        numbers[value] = len(numbers)
        shape.append((*what, _type_key(value.type)))

    def add_op(op: Op) -> None:
        for number, result in enumerate(op.results):
            add(result, op.opdef.name, number, attrs_key(op.attrs), tuple([numbers[v] for v in op.operands]))

    def add_operands(op: Op) -> None:
        stack = list(reversed(op.operands))
        while stack:
            value = stack[-1]
            if value in numbers:
                stack.pop()
            elif value in plan.stored and value not in members:
                add(value, "stored")
            else:
                inner = plan.producers[value]
                missing = [v for v in reversed(inner.operands) if v not in numbers]
                if missing:
                    stack.extend(missing)
                else:
                    add_op(inner)

    for op in group.ops:
        add_operands(op)
        add_op(op)
    outputs = tuple([numbers[v] for v in group.outputs])
    return (group.kind, group.space, group.reduced, outputs, *shape), numbers


def _type_key(type: TensorType) -> tuple[object, ...]:
    return type.dtype, type.shape
