"""Forms: the kernels that a nest has, each with the schedule of its loops and the condition under which it is chosen.

A launch has a general form, right for all shapes, and in front of it those that are quicker where a condition holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from dyn.frozen import record
from dyn.ir.opdef import OpKind
from dyn.schedule.accesses import operation_counts
from dyn.schedule.kernel import Role
from dyn.schedule.launch import Condition, Launch
from dyn.schedule.loops import Loops
from dyn.schedule.phases import Phase
from dyn.schedule.unstretched import unstretched
from dyn.shapes import SymExpr, as_dim, substitute, symbol

#: A function that gives the loops of a kernel their order and their roles.
Schedule = Callable[[Loops], None]


@record()
class SpecializedKernel:
    """A kernel that is right where ``condition`` holds, and quicker than the general one.

    It is deferred (``Variant.deferred``), for no first call should wait for what only others gain by; unless it folds
    in another order than the general one, for then a result would follow from when it was compiled.

    Where ``gain`` is given, it says how well loops turned out, and the form is left out unless its own did better.
    ``same_order`` says in which order it folds where the loops do not tell.
    """

    note: str
    condition: Condition
    loops: Callable[[], Loops]
    schedule: Schedule
    gain: Callable[[Loops], int] | None = None
    same_order: bool | None = None


def launch_nest(
    general: Loops, schedule: Schedule, forms: Sequence[SpecializedKernel], note: str, prefix: str | None = None
) -> Launch:
    """The launch of a nest: the general form, and in front of it ``forms``, in their order.

    Notes of forms begin with ``prefix``, or as the general one's does.
    """
    prefix = f"{note}, " if prefix is None else prefix
    nest = general.nest
    schedule(general)
    buffers = tuple(general.code.buffers())
    variants = [general.variant(note)]
    for form in reversed(forms):
        decided = form.condition.decided(nest.plan.function.facts)
        if decided is False:
            continue
        loops = form.loops()
        form.schedule(loops)
        if form.gain is not None and form.gain(loops) <= form.gain(general):
            continue
        if tuple(loops.code.buffers()) == buffers:
            variant = loops.variant(f"{prefix}{form.note}", None if decided else form.condition)
            alike = _same_order(general, loops) if form.same_order is None else form.same_order
            variants = [variant] if decided else [replace(variant, deferred=alike), *variants]
    return Launch(nest.group, buffers, tuple(variants))


def _same_order(general: Loops, loops: Loops) -> bool:
    """Whether what one kernel folds it folds in the order of the other, for the sizes that both are for.

    The order follows from the loops around a fold and their roles, and from how many lanes a team has; and where lanes
    go along one of them, from the nest's ``Order``, or where it has none from what is done for each element. Elements
    that are carried keep their order, unless a running reduction goes in pieces; and so do updates of a place. Tiles of
    a contraction add up in orders of their own.
    """
    if any(op.opdef.kind is OpKind.CONTRACT for op in general.nest.group.ops):
        return False
    equal = loops.equal
    depth = max((len(phase.axes) for phase in (*general.phases, *loops.phases)), default=0)
    variables = [as_dim(symbol(f"i{number}", "a loop variable")) for number in range(depth)]

    def order(of: Loops) -> list[object]:
        found: list[object] = []
        for phase in of.phases:
            if phase.pieces and phase.carries[0].ref.dtype.is_float:
                found.append(phase.pieces)
            if phase.folds:
                named = {a.var: variable for a, variable in zip(phase.axes, variables, strict=False)}
                extents = [substitute(substitute(a.extent, equal), named) for a in phase.axes]
                found.append((extents, phase.inner, phase.outer, phase.width or of.team_lanes, lanes(of, phase)))
        return found

    def lanes(of: Loops, phase: Phase) -> object:
        if phase.inner is phase.outer is Role.SERIAL and not phase.chained:
            return None
        return operation_counts(of, phase) if phase.order is None else phase.order

    return order(general) == order(loops)


def unstretched_forms(
    general: Loops, schedule: Schedule, gain: Callable[[Loops], int], most_ones: int = 0
) -> list[SpecializedKernel]:
    """The forms for cases of undecided broadcasts: for sizes that agree; and with ``most_ones`` for those of the first
    call that were 1 where the others agree, and unless those are several at most so many for one that is; for loops
    that are better then, as ``gain`` counts it.

    An axis that may be stretched is read as quickly as one that may not, but in tiles, and but for what it takes to
    spread the one element anew for each row.
    """
    forms: list[SpecializedKernel] = []
    # Axes of size 1 are there to be stretched (x + b[1, m], x * c[n, 1]) in arrays that have others.
    sizes = dict.fromkeys(size for (size, _), rank in general.code.elements.stretched.items() if rank > 1)
    symbols = {size: size.is_symbol for size in sizes if isinstance(size, SymExpr)} if most_ones else {}
    first = tuple([size for size, symbol in symbols.items() if symbol in general.nest.plan.ones])
    ones = [(size,) for size, symbol in symbols.items() if symbol is not None and len(first) < 2][:most_ones]
    for case in dict.fromkeys([(), first, *ones]):
        found = unstretched(general, *case)
        if found is not None:
            loops = Loops(general.nest, keep=general.keep, equal=found.equal, aligned=True, ones=found.ones)
            note = "nothing stretched"
            if case:
                note = f"{', '.join(map(str, case))} {'is' if len(case) == 1 else 'are'} 1"
            forms.append(SpecializedKernel(note, found.condition, partial(_given, loops), schedule, gain))
    return forms


def _given(loops: Loops) -> Loops:
    return loops
