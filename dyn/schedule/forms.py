"""Forms: the kernels that a nest has, each with the schedule of its loops and the condition under which it is chosen.

A launch has a general form, right for all shapes, and in front of it those that are quicker where a condition holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dyn.schedule.launch import Condition, Launch
from dyn.schedule.loops import Loops

#: A function that gives the loops of a kernel their order and their roles.
Schedule = Callable[[Loops], None]


@dataclass(frozen=True, slots=True)
class Form:
    """A kernel that is right where ``condition`` holds, and quicker than the general one.

    Where ``gain`` is given, it says how well loops turned out, and the form is left out unless its own did better.
    """

    note: str
    condition: Condition
    loops: Callable[[], Loops]
    schedule: Schedule
    gain: Callable[[Loops], int] | None = None


def launch_nest(
    general: Loops, schedule: Schedule, forms: Sequence[Form], note: str, prefix: str | None = None
) -> Launch:
    """The launch of a nest: the general form, and in front of it ``forms``, in their order.

    Notes of forms begin with ``prefix``, or as the general one's does.
    """
    prefix = f"{note}, " if prefix is None else prefix
    nest = general.nest
    schedule(general)
    buffers = tuple(general.buffers())
    variants = [general.variant(note)]
    for form in reversed(forms):
        decided = form.condition.decided(nest.plan.function.facts)
        if decided is False:
            continue
        loops = form.loops()
        form.schedule(loops)
        if form.gain is not None and form.gain(loops) <= form.gain(general):
            continue
        if tuple(loops.buffers()) == buffers:
            variant = loops.variant(f"{prefix}{form.note}", None if decided else form.condition)
            variants = [variant] if decided else [variant, *variants]
    return Launch(nest.group, buffers, tuple(variants))


def unstretched_forms(general: Loops, schedule: Schedule, fused: Callable[[Loops], int]) -> list[Form]:
    """The form for sizes that agree, where a broadcast is undecided: for loops that are better then, as ``fused``
    counts it.

    An axis that may be stretched is read as quickly as one that may not, but in tiles.
    """
    unstretched, nest = general.unstretched(), general.nest
    if unstretched is None:
        return []
    loops = Loops(nest, keep=general.keep, equal=unstretched.equal, aligned=True)
    return [Form("nothing stretched", unstretched.condition, lambda: loops, schedule, fused)]
