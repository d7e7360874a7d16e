"""Ops that a library computes, as launches: the host program hands over its operands and results as tensors.

What measures a dim is a launch of the same form: the host program reads it itself.
"""

from __future__ import annotations

from dyn.errors import IRError
from dyn.ir.core import Value
from dyn.schedule.elements import ElementReader
from dyn.schedule.launch import Launch
from dyn.schedule.target import Target
from dyn.stitch.groups import Group, Plan


def lower_library(plan: Plan, group: Group, target: Target) -> Launch:
    """The launch of a LIBRARY or a MEASURE group: its buffers are where the op's operands lie, and then its results."""
    return Launch(group, memory_of(plan, group), ())


def memory_of(plan: Plan, group: Group) -> tuple[Value, ...]:
    """Stored values of a library call: the operands of the group's only op, and then its results."""
    (op,) = group.ops
    elements = ElementReader(plan, group)

    def stored(value: Value) -> Value:
        found = elements.storage(value)
        if found is None:
            raise IRError(f"{value!r}, which {op.opdef.name} at {op.loc} reads, does not lie in memory")
        return found

    return (*(stored(v) for v in op.operands), *op.results)
