"""Joins launches of one kernel over different arrays, such as the products for queries, keys and values.

A launch takes some microseconds on a device, and one of few blocks leaves multiprocessors idle. What is joined has the
same variants under the same conditions, for the same sizes, so that iterations of all of them are dealt to blocks
together: each computes what it computed alone, to the last bit. Launches join those before them, if all that they read
is there by then.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from dyn.ir.core import Value
from dyn.schedule.kernel import Kernel
from dyn.schedule.kernel_text import kernel_name
from dyn.schedule.launch import Launch, Variant
from dyn.shapes import Dim, SymExpr

#: A group joins one that is at most so many groups before it: its results take memory from there on.
_NEAR = 8


def bundled(launches: Sequence[Launch], most: int, fixed: Collection[Value] = ()) -> tuple[Launch, ...]:
    """Launches in an order in which each finds what it reads, of which up to ``most`` that are alike are one.

    Those of a group stay together: several groups are joined launch by launch. What reads or writes a ``fixed`` value
    stays where it is: one that lies in another's memory. Nothing is joined in regions.
    """
    if most < 2:
        return tuple(launches)
    runs: list[list[tuple[Launch, ...]]] = []
    #: The number of the run that makes a value, and of the last run with a key.
    made: dict[Value, int] = {}
    last: dict[object, int] = {}
    for _, some in itertools.groupby(launches, key=lambda launch: launch.group):
        unit = tuple(some)
        own = {value for launch in unit for value in (*launch.written(), *launch.group.outputs)}
        read = [value for launch in unit for value in launch.buffers if value not in own]
        key = None if any(value in fixed for value in (*own, *read)) else _key(unit)
        run = None if key is None else last.get(key)
        if run is None or run < len(runs) - _NEAR or len(runs[run]) == most or _latest(made, read) >= run:
            run = len(runs)
            runs.append([])
            if key is not None:
                last[key] = run
        runs[run].append(unit)
        made.update(dict.fromkeys(own, run))
    kernels: dict[tuple[Kernel, int], Kernel] = {}
    return tuple([launch for run in runs for launch in (_joined(run, kernels) if len(run) > 1 else run[0])])


def _latest(made: Mapping[Value, int], read: Sequence[Value]) -> int:
    """The number of the last run that makes something of what is read; -1 where all of it is there from the start."""
    return max([made.get(value, -1) for value in read], default=-1)


def _key(unit: Sequence[Launch]) -> object:
    """What launches of groups that can be one have in common; None of those that stay alone."""
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
        return replace(own, kernel=kernel, grid=own.grid * count)

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
