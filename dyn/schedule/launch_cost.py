"""Costs of launches: bytes of memory that they read and write, and operations, as formulas of sizes.

Bytes are those that kernels touch of each buffer, once; operations are those of the group's ops, however kernels are
scheduled.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from dyn.ir.core import Value
from dyn.ops.work import OpWork, work_of
from dyn.schedule.cost import traffic
from dyn.schedule.kernel import Update
from dyn.schedule.kernel_walks import walk_stmts
from dyn.schedule.launch import Condition, Dispatch, Launch
from dyn.shapes import Dim, Facts, Symbol, dim_min, evaluate
from dyn.stitch.groups import Group, GroupKind


def buffer_bytes(dispatch: Dispatch) -> list[tuple[Dim, Dim]]:
    """For each buffer, the bytes that a dispatch reads and writes, each access counted, and those that there are.

    A kernel that keeps to its caches moves the lesser of the two.
    """
    buffers, variant = dispatch.launch.buffers, dispatch.variant
    if variant is None:
        return [(value.type.nbytes, value.type.nbytes) for value in buffers]
    kernel = variant.kernel
    updated = {id(stmt.buffer) for stmt in walk_stmts(kernel.body) if isinstance(stmt, Update)}
    found: list[tuple[Dim, Dim]] = []
    for value, buffer, count in zip(buffers, kernel.buffers, traffic(kernel, variant.dims), strict=True):
        most = value.type.nbytes * (2 if id(buffer) in updated else 1)
        found.append((count * value.dtype.itemsize, most))
    return found


def bytes_at(buffers: Sequence[tuple[Dim, Dim]], sizes: Mapping[Symbol, int]) -> int:
    """The bytes that a dispatch moves at some sizes, of what ``buffer_bytes`` gives.

    Raises:
        KeyError: where a size is missing.
        ShapeError: where a formula has no value.
    """
    return sum([min(evaluate(accessed, sizes), evaluate(held, sizes)) for accessed, held in buffers])


def bytes_formula(buffers: Sequence[tuple[Dim, Dim]], facts: Facts) -> Dim:
    """The bytes that a dispatch moves, of what ``buffer_bytes`` gives: with minima where ``facts`` leave them open."""
    total: Dim = 0
    for accessed, held in buffers:
        if facts.ge(accessed, held).proved:
            total = total + held
        elif facts.ge(held, accessed).proved:
            total = total + accessed
        else:
            total = total + dim_min(accessed, held)
    return total


def general_way(launches: Sequence[Launch]) -> tuple[tuple[Launch, Dim], ...]:
    """Of a group's launches those of the way that is right for all sizes, each with how often it runs, 0 or 1.

    Where every launch has a condition, as those of a sort that merges as often as it has to, they all count.
    """
    always = [launch for launch in launches if launch.when is None]
    if always:
        return tuple([(launch, 1) for launch in always])
    return tuple([(launch, launch.when.indicator()) for launch in launches if launch.when is not None])


def group_work(group: Group) -> OpWork:
    """The operations of a group; those of regions, and of ways to run that are chosen among, are those of others."""
    if group.kind in (GroupKind.CONTROL, GroupKind.ALTERNATIVES):
        return OpWork()
    return OpWork.sum(map(work_of, (*group.recomputed, *group.ops)))


def leading_launches(launches: Sequence[Launch]) -> frozenset[Launch]:
    """Of the launches that a group takes the first, of every way to run it: the operations are counted with it.

    Those that follow run under the same condition, or read what launches before hand on.
    """
    found: set[Launch] = set()
    for _, run in itertools.groupby(launches, key=lambda launch: launch.group):
        ways: set[Condition | None] = set()
        handed: set[Value] = set()
        for launch in run:
            if launch.when not in ways and handed.isdisjoint(launch.buffers):
                ways.add(launch.when)
                found.add(launch)
            handed.update(launch.temporaries)
            for body in launch.bodies:
                found |= leading_launches(body.launches)
    return frozenset(found)
