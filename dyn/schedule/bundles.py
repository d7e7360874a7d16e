"""Joins launches of one kernel over different arrays, such as the products for queries, keys and values.

A launch takes some microseconds on a device, and one of few blocks leaves multiprocessors idle. What is joined has the
same variants under the same conditions, for the same sizes, so that iterations of all of them are dealt to blocks
together: each computes what it computed alone, to the last bit. Launches join those before them, if all that they read
is there by then.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dyn.ir.core import Value
from dyn.schedule.kernel import Kernel
from dyn.schedule.kernel_text import kernel_name
from dyn.schedule.launch import Launch, Variant, aliases, walk_launches
from dyn.shapes import Dim, SymExpr

#: A group joins one that is at most so many groups before it: its results take memory from there on.
_NEAR = 8


def bundled(launches: Sequence[Launch], most: int, taken: Mapping[Value, Value]) -> tuple[Launch, ...]:
    """Launches in an order in which each finds what it reads, of which up to ``most`` that are alike are one.

    Those of a group stay together: several groups are joined launch by launch. A result that is a key of ``taken`` may
    lie in the memory of that argument: it is written no sooner than others have read that, and than functions outside
    of the program, which may raise, have been called. Nothing is joined in regions.
    """
    if most < 2:
        return tuple(launches)
    runs: list[list[tuple[Launch, ...]]] = []
    #: The numbers of the run that makes a value, of the last one that reads it, and of the last one with a key.
    made: dict[Value, int] = {}
    reads: dict[Value, int] = {}
    last: dict[object, int] = {}
    #: That of the last run that calls a function outside.
    called = -1
    same = aliases(launches)
    for _, some in itertools.groupby(launches, key=lambda launch: launch.group):
        unit = tuple(some)
        own = {value for launch in unit for value in (*launch.written(), *launch.group.outputs)}
        read = [value for launch in unit for value in launch.buffers if value not in own]
        overwritten = [taken[value] for value in own if value in taken]
        key = _key(unit)
        run = None if key is None else last.get(key)
        least = max(_latest(made, read), _latest(reads, overwritten), called if overwritten else -1) + 1
        if run is None or run < max(least, len(runs) - _NEAR) or len(runs[run]) == most:
            run = len(runs)
            runs.append([])
            if key is not None:
                last[key] = run
        runs[run].append(unit)
        made.update(dict.fromkeys(own, run))
        for value in [same.get(value, value) for value in read]:
            reads[value] = max(run, reads.get(value, run))
        if any(one.callee is not None for one in walk_launches(unit)):
            called = run
    kernels: dict[tuple[Kernel, int], Kernel] = {}
    return tuple([launch for run in runs for launch in (_joined(run, kernels) if len(run) > 1 else run[0])])


def _latest(runs: Mapping[Value, int], values: Sequence[Value]) -> int:
    """The greatest number that some value has; -1 where none has one."""
    return max([runs.get(value, -1) for value in values], default=-1)


def _key(unit: Sequence[Launch]) -> object:
    """Equal for groups whose launches can be joined; None for one that stays alone."""
    for launch in unit:
        if not launch.variants or launch.bodies or any(v.in_place is not None for v in launch.variants):
            return None
        if any(_is_measured(dim) for dim in launch.dims()):
            return None
    temporaries = [value for launch in unit for value in launch.temporaries]
    return tuple([(_launch_key(launch), _places(launch, temporaries)) for launch in unit])


def _launch_key(launch: Launch) -> object:
    variants = [(kernel_name(v.kernel), v.dims, v.grid, v.condition, v.deferred) for v in launch.variants]
    demands = [(relation.kind, relation.lhs, relation.rhs) for relation in launch.demands]
    return launch.when, launch.unless, tuple(demands), tuple(variants)


def _places(launch: Launch, temporaries: Sequence[Value]) -> tuple[int | None, ...]:
    """For each buffer the number of the group's temporary that it is, or None."""
    numbers = {value: number for number, value in enumerate(temporaries)}
    return tuple([numbers.get(value) for value in launch.buffers])


def _is_measured(dim: Dim) -> bool:
    """Whether a dim is found out while the program runs: launches before that do not know it."""
    return isinstance(dim, SymExpr) and any(symbol.data_dependent for symbol in dim.symbols)


def _joined(run: Sequence[Sequence[Launch]], kernels: dict[tuple[Kernel, int], Kernel]) -> list[Launch]:
    """The launches of several groups as those of one."""
    count, groups = len(run), [unit[0].group for unit in run]
    ops, outputs = ([x for group in groups for x in getattr(group, name)] for name in ("ops", "outputs"))
    group = replace(groups[0], ops=tuple(ops), outputs=tuple(outputs))

    def variant(own: Variant) -> Variant:
        kernel = kernels.get((own.kernel, count))
        if kernel is None:
            kernel = kernels[own.kernel, count] = copies_of(own.kernel, count)
        steps = (*own.steps, f"{count} sets of arrays in one launch")
        return replace(own, kernel=kernel, grid=own.grid * count, steps=steps)

    return [
        replace(
            alike[0],
            group=group,
            buffers=tuple([value for launch in alike for value in launch.buffers]),
            variants=tuple(map(variant, alike[0].variants)),
            temporaries=tuple([value for launch in alike for value in launch.temporaries]),
        )
        for alike in zip(*run, strict=True)
    ]


def copies_of(kernel: Kernel, count: int) -> Kernel:
    """A kernel that does what another one does, for ``count`` sets of buffers."""
    others = [replace(buffer) for _ in range(1, count) for buffer in kernel.buffers]
    return replace(kernel, buffers=(*kernel.buffers, *others), copies=count)
