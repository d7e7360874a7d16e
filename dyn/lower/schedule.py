"""The sizes that a target family's schedules are made of."""

from __future__ import annotations

from dataclasses import dataclass

from dyn.lower.target import Target


@dataclass(frozen=True, slots=True)
class LoopSchedule:
    """How loop nests are cut for a family.

    ``elements`` is how many elements of a one-dimensional nest make a GRID iteration, ``columns`` how many columns of a
    reduction over rows.
    """

    elements: int
    columns: int


def loop_schedule(target: Target) -> LoopSchedule:
    """x86 wants iterations long enough to hide a loop's start; a GPU wants a block's worth of threads, a few each."""
    if target.family == "x86":
        return LoopSchedule(elements=8192, columns=256)
    return LoopSchedule(elements=1024, columns=128)
