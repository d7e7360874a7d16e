"""Launches in parts: what those of reductions and of contractions have in common.

One launch folds parts of an axis, another one folds the parts' results. Where the family says that states are joined
``in_turn``, the parts' states combine one after the other in runs of ``RUN``, and the runs' states one after the other.
That is what nested loops do, so a single kernel folds in the same order (``cut_in_turn``): the launches in parts are
made in the background, and until they are there that kernel runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dyn.frozen import record
from dyn.ir.core import Value
from dyn.schedule.axes import Axis
from dyn.schedule.elements import ElementReader
from dyn.schedule.kernel import Buffer, Ref, Stmt, Store
from dyn.schedule.launch import Condition, Launch, Variant
from dyn.schedule.loops import Loops
from dyn.schedule.nest import Write
from dyn.schedule.phases import Phase
from dyn.shapes import Dim, dim_max, floordiv, product
from dyn.stitch.groups import Plan

#: Parts whose states combine before those of others do.
RUN = 64


def steps_of_part(axes: Sequence[Axis], elements: int) -> Dim:
    """The steps of the outermost of some axes that make a part of about so many elements."""
    inner = product(a.extent for a in axes[1:])
    return elements if inner == 1 else dim_max(floordiv(elements, dim_max(inner, 1)), 1)


def cut_in_turn(loops: Loops, phase: Phase, elements: int) -> None:
    """Fold parts of a phase one after the other, in the order in which launches in parts do."""
    if not phase.folds or phase.axes[0].extent == 1:
        return
    steps = steps_of_part(phase.axes, elements)
    extent = phase.axes[0].extent
    if isinstance(extent, int) and isinstance(steps, int) and extent <= steps:
        return
    part, _ = loops.split(phase.axes[0], steps, phase, name="p")
    _runs(loops, phase, part)


def join_in_turn(loops: Loops, phase: Phase) -> None:
    """Fold the states of parts, along a phase's axis, one after the other."""
    _runs(loops, phase, phase.axes[0])


def _runs(loops: Loops, phase: Phase, part: Axis) -> None:
    if not isinstance(part.extent, int) or part.extent > RUN:
        loops.split(part, RUN, phase, name="q")


@record()
class InParts:
    """Launches that together do what one does: the condition that they pay, and their maker."""

    condition: Condition | None
    launches: Callable[[Condition | None], tuple[Launch, ...]]
    plan: Plan

    @property
    def undecided(self) -> bool:
        """Whether there are sizes for which they pay and others."""
        return self.condition is not None and self.condition.decided(self.plan.function.facts) is None


def in_parts(
    whole: Launch, parts: InParts, alike: Variant | None = None, *, any_order: bool = False
) -> tuple[Launch, ...]:
    """A launch for few elements, and launches in parts for many: those that may be needed.

    ``alike`` is a kernel over the same memory as the whole that folds in the order of the parts, if there is one. It
    runs for many elements until the launches in parts are made, which are deferred then. The whole itself does where
    results are the same in ``any_order``. Sizes for which they do not pay take none of their memory.
    """
    when = parts.condition
    decided = None if when is None else when.decided(parts.plan.function.facts)
    if when is None or decided is False:
        return (whole,)
    if decided:
        return parts.launches(None)
    made = _conditional_memory(parts.launches(when), when)
    if alike is not None or any_order:
        made = tuple(replace(la, variants=tuple(replace(v, deferred=True) for v in la.variants)) for la in made)
    if alike is not None:
        whole = replace(whole, variants=(replace(alike, condition=when), *whole.variants))
    return (replace(whole, unless=(*whole.unless, when)), *made)


def _conditional_memory(launches: Sequence[Launch], when: Condition) -> tuple[Launch, ...]:
    """Launches whose temporaries take memory only where ``when`` holds: nothing else reads or writes them."""
    some = when.indicator()
    sized = {
        value: Value(value.type.with_shape((*value.shape, some))) for launch in launches for value in launch.temporaries
    }
    return tuple(
        [
            replace(
                launch,
                buffers=tuple([sized.get(value, value) for value in launch.buffers]),
                temporaries=tuple([sized[value] for value in launch.temporaries]),
            )
            for launch in launches
        ]
    )


def folded(value: Value, place: Dim, ref: Ref) -> Write:
    """A write of a fold's result, as an element of a temporary."""

    def statements(elements: ElementReader, buffer: Buffer) -> tuple[Stmt, ...]:
        return (Store(buffer, place, ref),)

    return Write(value, statements)
