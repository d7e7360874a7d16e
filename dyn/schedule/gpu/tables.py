"""Schedules of memory-bound nests on GPUs, by class of nest; and the launches that come of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dyn.ir.core import Value
from dyn.ir.opdef import OrderedReductionLoops
from dyn.ops.complex_parts import part_dtype
from dyn.schedule.accesses import accesses_of, crossed_loads, neighbours_together, widest
from dyn.schedule.axes import Axis, axis
from dyn.schedule.compaction import running_nests, running_phase
from dyn.schedule.join import join_launches
from dyn.schedule.kernel import Role
from dyn.schedule.launch import Condition, Launch
from dyn.schedule.loops import Loops
from dyn.schedule.nests import loop_nest, stitch_nest
from dyn.schedule.parts import InParts, in_parts
from dyn.schedule.reduction_parts import ReductionParts
from dyn.schedule.rows_and_columns import RowsAndColumns, by_runs
from dyn.schedule.sizes import Limits, LoopSchedule
from dyn.schedule.specialized_kernels import Schedule, SpecializedKernel, launch_nest, unstretched_forms
from dyn.schedule.sweeps import Sweeps
from dyn.schedule.target import Target
from dyn.shapes import dim_min, product
from dyn.stitch.groups import Group, Plan

#: Columns are few to a block, so that there are many blocks. Parts keep all threads busy for a few rounds.
SIZES = LoopSchedule(
    elements=1024,
    columns=64,
    scattered=64,
    part=16384,
    part_rows=64,
    many_rows=256,
    few_columns=16384,
    run_rows=128,
    row_runs=256,
    few_long_rows=128,
    few_long_columns=16384,
    long=2048,
    part_steps=1024,
    few_results=1 << 18,
    divided=True,
)
#: Threads of a block, and how often they go round.
THREADS, ROUNDS = 256, 4
#: Bytes of the widest access, and the most elements that a lane takes with it.
ACCESS_BYTES, MOST_TOGETHER = 16, 8
#: The side of a tile that goes through scratch: a tile's rows are whole lines of memory.
TILE = 32
#: Rows of up to so many elements are reduced by a few lanes, or a warp, each.
SHORT, PART_OF_WARP, ROW_OF_WARP = 32, 8, 512
#: The most elements of a row that a lane takes with an access: a block then has work for all of its threads in a row of
#: 1,024.
TOGETHER_IN_ROWS = 4
#: Bytes of shared memory that every device gives without being asked; and for what warps exchange in them.
SCRATCH_BYTES, SLOTS = 48 << 10, 1024
#: Pieces and elements of a concatenation up to which one launch that looks for them takes less than a launch each.
FEW_PIECES, FEW_ELEMENTS = 8, 1 << 20
#: Elements of a chunk that a lane scans, and of a run that a warp does. Runs of more elements than a part has are cut,
#: if they are not many.
EACH, RUN_OF_WARP, PART_OF_RUN, MANY_RUNS = 8, 512, 16384, 1024


def limits(target: Target) -> Limits:
    """The limits of a block: shared memory that every device of the family gives without being asked."""
    return Limits(registers=255, scratch_bytes=SCRATCH_BYTES, threads=THREADS, warp=target.warp)


# Loops --------------------------------------------------------------------------------------------------------------


def elementwise(target: Target) -> Schedule:
    """Lanes along the last axis, each with a few neighbours where these go together.

    What is a single run over memory is cut into chunks for blocks; otherwise warps take rows, so that short ones fill a
    block too, and long ones are cut. What lies in order along different axes goes through tiles.
    """

    def schedule(loops: Loops) -> None:
        axes = loops.fuse(loops.shared)
        crossed = _crossed(loops)
        if crossed is not None:
            _transpose(loops, *crossed)
        elif axes:
            _neighbours(loops, _together(loops), target.warp)

    return schedule


def _neighbours(loops: Loops, together: int, warp: int) -> None:
    """Lanes along the last axis, ``together`` neighbours each."""
    *rest, last = loops.shared
    roles = [Role.LANE]
    outer: list[Axis] = []
    if rest:
        row_chunks, rows = loops.split(rest.pop(), THREADS // warp, name="r")
        chunks, inside = loops.split(last, warp * together * ROUNDS)
        outer, roles, rest = [rows], [Role.TEAM, Role.LANE], [*rest, row_chunks]
    else:
        chunks, inside = loops.split(last, THREADS * together)
    inner = [inside]
    if together > 1:
        inner, roles = list(loops.split(inside, together, name="v")), [*roles, Role.UNROLL]
    loops.reorder([*rest, chunks, *outer, *inner])
    loops.bind_last(roles, warp)


def _together(loops: Loops) -> int:
    """Number of neighbours along the last axis for each lane: as many as an access has room for, if there are some."""
    if not loops.is_flat() or not any(access.stride(loops.shared[-1]) == 1 for access in accesses_of(loops)):
        return 1
    return max(min(ACCESS_BYTES // widest(loops), MOST_TOGETHER), 1)


def divided(loops: Loops) -> None:
    """All axes as one, by division: for rows too short to fill a warp."""
    axes = loops.fuse(loops.shared)
    _, lanes = loops.split(loops.flatten(axes), THREADS * ROUNDS)
    loops.bind_lane(lanes)


def _crossed(loops: Loops) -> tuple[Axis, Axis] | None:
    """The axis for lanes and another one, where stores are contiguous along the one and some loads along the other."""
    if not loops.is_flat() or len(loops.shared) < 2:
        return None
    stores = [access for access in accesses_of(loops) if access.stores]
    lanes = max(loops.shared, key=lambda a: sum(store.stride(a) == 1 for store in stores))
    others = [a for a in loops.shared if a is not lanes]
    other = max(others, key=lambda a: len(crossed_loads(loops, lanes, a)))
    bytes_ = sum(load.dtype.itemsize for load in crossed_loads(loops, lanes, other)) * TILE * (TILE + 1)
    return (lanes, other) if 0 < bytes_ <= SCRATCH_BYTES else None


def _transpose(loops: Loops, lanes: Axis, other: Axis) -> None:
    """Tiles of two axes in scratch: filled with lanes along the one, and read with lanes along the other."""
    rest = [a for a in loops.shared if a is not lanes and a is not other]
    down, rows = loops.split(other, TILE, name="t")
    columns, across = loops.split(lanes, TILE, name="u")
    loops.reorder([*rest, down, columns, rows, across])
    loops.sink([rows, across])
    loops.stage(across, rows, TILE)


def lower_loops(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launch of a LOOP or a COPY group."""
    nest, schedule = loop_nest(plan, group), elementwise(target)
    general = Loops(nest)
    forms = unstretched_forms(general, schedule, lambda loops: loops.fused)
    forms += _short_rows(general, target)
    return (launch_nest(general, schedule, forms, f"{group.kind.value} {group.name}"),)


def _short_rows(general: Loops, target: Target) -> list[SpecializedKernel]:
    """The form for rows that fill no warp; none of a nest of one axis, or where tiles are turned."""
    axes = general.fuse(general.shared)
    if len(axes) < 2 or _crossed(general) is not None:
        return []
    few = Condition(axes[-1].extent, 0, target.warp // 2)
    return [SpecializedKernel("short rows", few, lambda: Loops(general.nest), divided)]


def chunked(loops: Loops) -> None:
    """Lanes along the last axis, each with a few neighbours, in chunks."""
    if loops.fuse(loops.shared):
        together = _together(loops)
        _, lanes = loops.split(loops.shared[-1], THREADS * together)
        if together > 1:
            loops.split(lanes, together, name="v")
        loops.bind_last([Role.LANE, Role.UNROLL][: 1 + (together > 1)])


def lower_join(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launches of a concatenation: one that looks for each element's piece, or of many elements or pieces a launch
    for each piece, which moves neighbours together."""

    def forms(loops: Loops, schedule: Schedule) -> list[SpecializedKernel]:
        return _short_rows(loops, target)

    pieces = join_launches(plan, group, chunked, chunked, forms, forms)
    if not 2 <= len(pieces) <= FEW_PIECES:
        return pieces
    (whole,) = lower_loops(plan, group, target)
    many = Condition(product(group.space) - (FEW_ELEMENTS + 1), 0, None)

    def launches(when: Condition | None) -> tuple[Launch, ...]:
        return tuple([replace(piece, when=when) for piece in pieces])

    return in_parts(whole, InParts(many, launches, plan), any_order=True)


def folds(target: Target) -> Schedule:
    """A fold a lane, such as that of a window."""

    def schedule(loops: Loops) -> None:
        if not loops.shared:
            loops.shared.append(axis("i", 1))
        elementwise(target)(loops)

    return schedule


# Stitched reductions ------------------------------------------------------------------------------------------------


def along_rows(width: int = 0, *, long: bool = False, short: bool = False) -> Schedule:
    """The last axis is reduced: a block a row, or with a ``width`` a team of so many lanes; lanes along it in each
    phase, with a few neighbours each where these lie together, unless rows are ``short``.

    Axes that are no single run are one by division; with ``long`` lanes go along the last one instead, each through all
    others.
    """

    def schedule(loops: Loops) -> None:
        for phase in loops.all_phases:
            if phase.axes:
                axes = loops.fuse(phase.axes, phase)
                if not long:
                    loops.flatten(axes, phase)
                together = 1
                if not (long or short):
                    together = neighbours_together(loops, phase, ACCESS_BYTES, TOGETHER_IN_ROWS)
                if together > 1:
                    loops.bind_neighbours(phase, together)
                else:
                    loops.bind_lanes(phase, outermost=long)
        loops.fuse(loops.shared)
        if width:
            loops.split(loops.shared[-1], THREADS // width)
            loops.bind_last([Role.TEAM], width)

    return schedule


def columns(loops: Loops) -> None:
    """The last axis is kept, or the order counts: lanes along it, each going through all phases."""
    for phase in loops.phases:
        loops.fuse(phase.axes, phase)
    if not loops.fuse(loops.shared):
        return
    _, lanes = loops.split(loops.shared[-1], SIZES.columns)
    loops.bind_lane(lanes)


def lower_reductions(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launches of a group with reductions: one; or in parts, where there are many elements for few results; or two
    for rows and columns."""
    if group.columns:
        return _rows_and_columns(plan, group)
    by_rows = len(group.space) - 1 in group.reduced
    sweeps = Sweeps(plan, group, scratch=False)
    nest, note = stitch_nest(plan, group, sweeps), f"{group.kind.value} {group.name}"
    general = Loops(nest)
    ordered = any(isinstance(op.opdef.loops, OrderedReductionLoops) for op in group.ops)
    schedule = columns if ordered or not by_rows else along_rows()
    forms = unstretched_forms(general, schedule, lambda loops: loops.fused_inside)
    if ordered:
        return (launch_nest(general, schedule, forms, note),)
    if by_rows:
        forms = [*_row_forms(plan, group, target, general), *forms]
    return in_parts(launch_nest(general, schedule, forms, note), ReductionParts(plan, group, SIZES).choice())


def _rows_and_columns(plan: Plan, group: Group) -> tuple[Launch, ...]:
    """The launches of reductions of rows with reductions of columns beside them: a block a run of rows."""
    both = RowsAndColumns(plan, group, SIZES)
    general, schedule = Loops(both.pass_over_rows(scratch=False)[0]), by_runs(along_rows())
    forms = unstretched_forms(general, schedule, lambda loops: loops.fused_inside)
    nest, keep = both.pass_over_rows(scratch=True)
    if keep:
        fitting = _fitting(keep)
        length = product(group.space[a] for a in sorted(group.reduced))
        kept = SpecializedKernel(
            "rows in shared memory", Condition(length, 0, fitting), lambda: Loops(nest, keep=keep), schedule
        )
        forms.insert(0, kept)
    over_rows = launch_nest(general, schedule, forms, f"{group.kind.value} {group.name}, rows")
    return replace(over_rows, group=group, temporaries=both.temporaries), both.joined(columns)


def _fitting(kept: Mapping[int, Sequence[Value]], rows: int = 1) -> int:
    """The length of so many rows of which what is kept fits into shared memory."""
    bytes_ = sum(part_dtype(value.dtype).itemsize for values in kept.values() for value in values)
    return (SCRATCH_BYTES - SLOTS) // (max(bytes_, 1) * rows)


def _row_forms(plan: Plan, group: Group, target: Target, general: Loops) -> list[SpecializedKernel]:
    """Forms for rows that are short, that fit into scratch, and that are of several axes, the last of them long.

    The general form has a block a row, and computes again what several sweeps need.
    """
    keeping = Sweeps(plan, group, scratch=True)
    kept = {number: sweep.kept for number, sweep in enumerate(s for s in keeping.sweeps if s) if sweep.kept}
    nest = stitch_nest(plan, group, keeping)
    length = product(group.space[a] for a in sorted(group.reduced))

    def form(note: str, most: int, width: int = 0, *, short: bool = False) -> SpecializedKernel:
        fitting = min(most, _fitting(kept, max(THREADS // width if width else 1, 1)))
        schedule = along_rows(width, short=short)
        return SpecializedKernel(note, Condition(length, 0, fitting), lambda: Loops(nest, keep=kept), schedule)

    forms: list[SpecializedKernel] = []
    if general.shared:
        forms += [form("short rows", SHORT, PART_OF_WARP, short=True), form("a warp a row", ROW_OF_WARP, target.warp)]
    if kept:
        forms.append(form("rows in shared memory", SCRATCH_BYTES))
    inside = [a for phase in general.phases for a in phase.axes]
    if len(group.reduced) > 1 and inside:
        last = group.space[-1]
        forms.append(
            SpecializedKernel(
                "long last axes",
                Condition(last, THREADS // 2, None),
                lambda: Loops(general.nest),
                along_rows(long=True),
            )
        )
    return forms


# Running reductions -------------------------------------------------------------------------------------------------


def lower_running(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launches of a running reduction: one; or three in parts, where it is long and there are few side by side.

    Along the last axis a block takes a row, chunk by chunk; shorter rows a warp each, and short ones a lane. Along
    another axis lanes go along those behind it.
    """
    along = group.ops[0].attrs["dimension"]
    by_rows = product(group.space[along + 1 :]) == 1
    running = running_nests(plan, group, PART_OF_RUN if by_rows else SIZES.part_rows)
    nest, length = running.nest(), running.length
    schedule, note = (in_chunks if by_rows else columns), f"running {group.name}"
    forms: list[SpecializedKernel] = []
    if by_rows:
        forms.append(SpecializedKernel("short rows", Condition(length, 0, SHORT), lambda: Loops(nest), columns))
    if by_rows and nest.shared:
        of_warps = Condition(length, 0, RUN_OF_WARP)
        forms.append(SpecializedKernel("a warp a row", of_warps, lambda: Loops(nest), chunks_of_warps(target.warp)))
    whole = launch_nest(Loops(nest), schedule, forms, note)
    side_by_side = product(running.rest)
    fewest, most = (PART_OF_RUN + 1, MANY_RUNS) if by_rows else (SIZES.many_rows, SIZES.few_columns)
    many = Condition(dim_min(length - fewest, most - side_by_side), 0, None)

    def launches(when: Condition | None) -> tuple[Launch, ...]:
        return running.launches(note, when, running.total_of_parts(), schedule, columns, schedule, elementwise(target))

    return in_parts(whole, InParts(many, launches, plan))


def chunks_of_warps(warp: int) -> Schedule:
    """A warp a row: its lanes scan chunks."""

    def schedule(loops: Loops) -> None:
        loops.fuse(loops.shared)
        loops.scan(running_phase(loops), warp, EACH)
        loops.split(loops.flatten(loops.shared), THREADS // warp)
        loops.bind_last([Role.TEAM], warp)

    return schedule


def in_chunks(loops: Loops) -> None:
    """A block a row, or a part of one: its lanes scan chunks."""
    loops.fuse(loops.shared)
    loops.scan(running_phase(loops), THREADS, EACH)
