"""Schedules of memory-bound nests on GPUs, by class of nest; and the launches that come of them."""

from __future__ import annotations

from dyn.ir.opdef import OrderedReduction
from dyn.schedule.axes import axis
from dyn.schedule.forms import launch_nest, unstretched_forms
from dyn.schedule.join import join_launches
from dyn.schedule.launch import Launch
from dyn.schedule.loops import Loops
from dyn.schedule.nest import Nest
from dyn.schedule.nests import loop_nest, running_nest, stitch_nest
from dyn.schedule.scatter import scatter_launch
from dyn.schedule.sizes import Limits, LoopSchedule
from dyn.schedule.sweeps import Sweeps
from dyn.schedule.target import Target
from dyn.shapes import free_symbols
from dyn.stitch.groups import Group, Plan

#: A GRID iteration is a block's worth of threads, with a few elements each.
SIZES = LoopSchedule(elements=1024, columns=128, scattered=128)


def limits(target: Target) -> Limits:
    """What a block has room for: shared memory that every device of the family gives without being asked."""
    return Limits(registers=255, scratch_bytes=48 << 10, threads=256, warp=target.warp)


# Loops --------------------------------------------------------------------------------------------------------------


def elementwise(loops: Loops) -> None:
    """Lanes along the last axis; what is a single run over memory is cut into chunks."""
    axes = loops.fuse(loops.shared)
    if len(axes) == 1:
        axes = loops.split(axes[0], SIZES.elements)
    if axes:
        loops.bind_lane(axes[-1])


def lower_loops(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launch of a LOOP or a COPY group."""
    general = Loops(loop_nest(plan, group))
    forms = unstretched_forms(general, elementwise, lambda loops: loops.fused)
    return (launch_nest(general, elementwise, forms, f"{group.kind.value} {group.name}"),)


def chunked(loops: Loops) -> None:
    """Lanes along the last axis, in chunks."""
    if loops.fuse(loops.shared):
        _, lanes = loops.split(loops.shared[-1], SIZES.elements)
        loops.bind_lane(lanes)


def lower_join(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launches of a concatenation, a piece each."""
    return join_launches(plan, group, chunked)


def fold_windows(nest: Nest, target: Target) -> Launch:
    """The launch of a nest of window folds: a window a lane."""
    loops, group = Loops(nest), nest.group
    if not loops.shared:
        loops.shared.append(axis("i", 1))
    elementwise(loops)
    return loops.launch(f"{group.kind.value} {group.name}, folded")


def lower_scatter(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launch of a scatter."""
    return (scatter_launch(plan, group, SIZES),)


# Stitched reductions ------------------------------------------------------------------------------------------------


def along_rows(loops: Loops) -> None:
    """The last axis is reduced: a GRID iteration a row, lanes along it in each phase."""
    for phase in loops.phases:
        if phase.axes:
            loops.fuse(phase.axes, phase)
            loops.bind_lanes(phase)
    loops.fuse(loops.shared)


def columns(loops: Loops) -> None:
    """The last axis is kept, or the order counts: lanes along it, each going through all phases."""
    for phase in loops.phases:
        loops.fuse(phase.axes, phase)
    if not loops.shared:
        return
    if loops.nest.group.space[-1] == 1:
        loops.shared.append(axis("i", 1))
    _, lanes = loops.split(loops.shared[-1], SIZES.columns)
    loops.bind_lane(lanes)


def lower_reductions(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launch of a group with reductions."""
    ordered = any(isinstance(op.opdef.loops, OrderedReduction) for op in group.ops)
    by_rows = len(group.space) - 1 in group.reduced
    sweeps = Sweeps(plan, group, scratch=by_rows and not ordered)
    nest = stitch_nest(plan, group, sweeps)
    keep = {number: sweep.kept for number, sweep in enumerate(s for s in sweeps.sweeps if s) if sweep.kept}
    general, note = Loops(nest, keep=keep), f"{group.kind.value} {group.name}"
    schedule = columns if ordered or not by_rows else along_rows
    forms = unstretched_forms(general, schedule, lambda loops: loops.fused_inside)
    return (launch_nest(general, schedule, forms, note),)


# Running reductions -------------------------------------------------------------------------------------------------


def lower_running(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launch of a running reduction: a run a lane, where there are several side by side."""
    nest = running_nest(plan, group)
    loops, (stage,) = Loops(nest), nest.stages
    along = next(n for n, place in enumerate(stage.index) if stage.axes[0].var in free_symbols(place))
    behind = {symbol for place in stage.index[along + 1 :] for symbol in free_symbols(place)}
    inner = [a for a in loops.shared if a.var in behind]
    loops.fuse([a for a in loops.shared if a.var not in behind])
    if loops.fuse(inner):
        _, lanes = loops.split(loops.shared[-1], SIZES.columns)
        loops.bind_lane(lanes)
    return (loops.launch(f"running {group.name}"),)
