"""Schedules of memory-bound nests on x86, by class of nest; and the launches that come of them."""

from __future__ import annotations

from dataclasses import replace

from dyn.schedule.accesses import accesses_of, invariant_loads, widest
from dyn.schedule.axes import Axis, axis
from dyn.schedule.compaction import running_nests, running_phase
from dyn.schedule.join import join_launches
from dyn.schedule.launch import Condition, Launch
from dyn.schedule.loops import Loops
from dyn.schedule.nests import loop_nest, stitch_nest
from dyn.schedule.order import Order
from dyn.schedule.parts import InParts, cut_in_turn, in_parts
from dyn.schedule.reduction_parts import ReductionParts
from dyn.schedule.rows_and_columns import RowsAndColumns, by_runs
from dyn.schedule.scatter import Scatters, scatter_launch
from dyn.schedule.scatter_parts import ScatterParts
from dyn.schedule.sizes import Limits, LoopSchedule
from dyn.schedule.specialized_kernels import Schedule, SpecializedKernel, launch_nest, unstretched_forms
from dyn.schedule.sweeps import Sweeps
from dyn.schedule.target import Target
from dyn.schedule.unstretched import unstretched
from dyn.shapes import Dim, Symbol, SymExpr, dim_max, dim_min, floordiv, free_symbols, product
from dyn.stitch.groups import Group, Plan
from dyn.stitch.ordered_reductions import is_ordered

#: Iterations are long enough to hide a loop's start.
SIZES = LoopSchedule(
    elements=8192,
    together=2048,
    columns=256,
    scattered=2048,
    part=32768,
    part_rows=512,
    many_rows=4096,
    few_columns=4096,
    run_rows=128,
    row_runs=16,
    few_rows_of_run=8,
    scattered_part=8192,
    long=8192,
    part_steps=4096,
    few_results=16384,
    few_rows=8,
    few_long_rows=7,
    few_long_columns=512,
    in_turn=True,
    tile=512,
    tile_side=256,
    accumulators=4,
    step=2,
    runs=(4, 4, 4),
)


def limits(target: Target) -> Limits:
    """What an x86 processor has room for: scratch is memory that its caches hold."""
    return Limits(registers=target.registers, scratch_bytes=None)


# Loops --------------------------------------------------------------------------------------------------------------


def elementwise(sizes: LoopSchedule, *, narrow: bool = False) -> Schedule:
    """Lanes along the last axis; what is a single run over memory is cut into chunks.

    What lies in order along different axes goes through tiles of both (``narrow``: with lanes along the other one).
    """

    def schedule(loops: Loops) -> None:
        axes = loops.fuse(loops.shared)
        crossed = _crossed(loops, sizes)
        if crossed is not None:
            _tile(loops, sizes, *(reversed(crossed) if narrow else crossed))
            return
        if len(axes) == 1:
            axes = loops.split(axes[0], sizes.elements)
        elif len(axes) > 2 and loops.is_flat():
            # Short runs of a permutation go together: what begins a GRID iteration takes as long as some vectors.
            last = axes[-1]
            rows = floordiv(sizes.together, dim_max(last.extent, 1))
            if not isinstance(rows, int) or rows > 1:
                _, few = loops.split(axes[-2], dim_max(rows, 1), name="f")
                loops.bind_lane(last, few)
                return
        if axes:
            loops.bind_lane(axes[-1])

    return schedule


def _crossed(loops: Loops, sizes: LoopSchedule) -> tuple[Axis, Axis] | None:
    """The axis for lanes and another one, where some access is contiguous along the one and some along the other.

    Lanes go where stores are contiguous: memory is written in whole vectors.
    """
    if not sizes.tile or not loops.is_flat() or len(loops.shared) < 2:
        return None
    *outer, last = loops.shared
    accesses = accesses_of(loops)
    apart = [access for access in accesses if access.stride(last) not in (0, 1, -1)]
    contiguous = {a: sum(access.stride(a) == 1 for access in apart) for a in outer}
    other = max(outer, key=lambda a: contiguous[a])
    if not contiguous[other]:
        return None
    stores = [access for access in accesses if access.stores]
    if any(s.stride(other) == 1 for s in stores) and not any(s.stride(last) == 1 for s in stores):
        return other, last
    return last, other


#: Bytes of a cache line, and the most rows that go together.
_LINE, _MOST_ROWS = 64, 16


def _tile(loops: Loops, sizes: LoopSchedule, lanes: Axis, other: Axis) -> None:
    """Tiles of two axes, whose lines and pages are then used whole: steps of as many rows as a line has elements, and
    lanes along each step.

    Going along the lanes first, a step reads lines once and writes them once, in cache and out of it, where rows lie a
    power of two apart too. A tile of few rows is the longer, so that there is as much to do in it.
    """
    rest = [a for a in loops.shared if a is not lanes and a is not other]
    bytes_ = widest(loops)
    side = min(sizes.tile // bytes_, sizes.tile_side)
    down, inside = loops.split(other, side, name="t")
    steps, rows = loops.split(inside, min(_LINE // bytes_, _MOST_ROWS), name="s")
    few = dim_max(1, dim_min(side, other.extent))
    columns, across = loops.split(lanes, side * floordiv(side, few), name="u")
    loops.reorder([*rest, down, columns, steps, across, rows])
    loops.bind_tile(steps, across, rows)


#: Forms of a launch for a size that is 1.
_MOST_ONES = 4


def _flat_gain(loops: Loops) -> int:
    return loops.fused + loops.tiled - loops.spread_inside


def lower_loops(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launch of a LOOP or a COPY group."""
    nest, sizes = loop_nest(plan, group), SIZES
    schedule = elementwise(sizes)
    note = f"{group.kind.value} {group.name}"
    general = Loops(nest)
    forms = _flat_forms(general, schedule)
    general.fuse(general.shared)
    crossed = _crossed(general, sizes)
    if crossed is not None:
        few = Condition(crossed[0].extent, 0, target.lanes(widest(general)) // 2)
        forms.insert(0, SpecializedKernel("few columns", few, lambda: Loops(nest), elementwise(sizes, narrow=True)))
    return (launch_nest(general, schedule, forms, note),)


# Stitched reductions ------------------------------------------------------------------------------------------------


def along_rows(part: int = 0) -> Schedule:
    """The last axis is reduced: a GRID iteration a row, lanes along it in each phase, in parts one after the other."""

    def schedule(loops: Loops) -> None:
        for phase in loops.all_phases:
            if phase.axes:
                loops.fuse(phase.axes, phase)
                if part:
                    cut_in_turn(loops, phase, part)
                loops.bind_lanes(phase)
        loops.fuse(loops.shared)

    return schedule


def columns(sizes: LoopSchedule, part: int = 0) -> Schedule:
    """The last axis is kept: lanes along it, each going through all phases, in parts one after the other."""

    def schedule(loops: Loops) -> None:
        for phase in loops.phases:
            loops.fuse(phase.axes, phase)
            if part:
                cut_in_turn(loops, phase, part)
            loops.chain(phase)
        if loops.nest.group.space[-1] == 1:
            loops.shared.append(axis("i", 1))
        _, lanes = loops.split(loops.shared[-1], sizes.columns)
        loops.bind_lane(lanes)

    return schedule


def side_by_side(sizes: LoopSchedule) -> Schedule:
    """Reductions in order: a lane a result, each sweeping its own elements."""

    def schedule(loops: Loops) -> None:
        one_by_one(loops)
        if loops.shared:
            _, lanes = loops.split(loops.shared[-1], sizes.columns)
            loops.bind_lane(lanes)

    return schedule


def one_by_one(loops: Loops) -> None:
    """Reductions in order, of few results: no lanes."""
    for phase in loops.phases:
        loops.fuse(phase.axes, phase)
    loops.fuse(loops.shared)


def lower_reductions(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launches of a group with reductions: one; or in parts, where there are many elements for few results; or two
    for rows and columns."""
    if group.columns:
        return _rows_and_columns(plan, group, target)
    sizes = SIZES
    ordered = any(is_ordered(op, plan.producers) for op in group.ops)
    by_rows = all(d == 1 for a, d in enumerate(group.space) if a not in group.reduced)
    by_rows = by_rows or len(group.space) - 1 in group.reduced
    sweeps = Sweeps(plan, group, scratch=by_rows and not ordered)
    states = [v.dtype.wide for op in group.reductions for v in op.results]
    order = sizes.order(states, target)
    nest = stitch_nest(plan, group, sweeps, order)
    keep = {number: sweep.kept for number, sweep in enumerate(s for s in sweeps.sweeps if s) if sweep.kept}
    general, note = Loops(nest, keep=keep), f"{group.kind.value} {group.name}"
    if ordered:
        schedule = side_by_side(sizes)
        forms = unstretched_forms(general, schedule, lambda loops: loops.fused_inside)
        if sizes.few_rows and by_rows:
            results = product(d for a, d in enumerate(group.space) if a not in group.reduced)
            few = Condition(results, 0, sizes.few_rows - 1)
            forms.insert(0, SpecializedKernel("one by one", few, lambda: Loops(nest), one_by_one))
        return (launch_nest(general, schedule, forms, note),)
    if by_rows:
        return _along_rows(plan, group, order, general, note)
    one = _one_column(group)
    parts = ReductionParts(plan, group, sizes, order, least=2 if one else 0)
    choice = parts.choice()
    schedule = columns(sizes, parts.elements if choice.undecided else 0)
    forms = unstretched_forms(general, schedule, lambda loops: loops.fused_inside - loops.spread_inside)
    if not one:
        whole = launch_nest(general, schedule, forms, note)
        return in_parts(whole, choice, whole.variants[-1])
    column = ReductionParts(plan, group, sizes, order, one=one)
    results = product(d for a, d in enumerate(group.space) if a not in group.reduced)
    form = SpecializedKernel(
        "one column", Condition(results, 1, 1), lambda: Loops(nest, equal=one), along_rows(column.elements)
    )
    whole = launch_nest(general, schedule, [form, *forms], note)
    whole, *made = in_parts(whole, choice, whole.variants[-1])
    alone = column.one_by_one(whole, keep, along_rows(column.elements)) if column.choice().undecided else None
    return (*in_parts(whole, column.choice(), alone), *made)


def _along_rows(plan: Plan, group: Group, order: Order | None, general: Loops, note: str) -> tuple[Launch, ...]:
    """The launches of reductions of rows.

    Where an undecided broadcast keeps the axes of one result apart, sizes that agree are folded as the single run that
    they are then, in parts of their own.
    """
    sizes, keep = SIZES, general.keep
    parts = ReductionParts(plan, group, sizes, order)
    schedule, choice = along_rows(), parts.choice()
    agree = unstretched(general) if parts.alone and parts.simple and choice.undecided else None
    of_agreed = schedule if agree is None else along_rows(parts.elements)
    forms = unstretched_forms(general, of_agreed, lambda loops: loops.fused_inside - loops.spread_inside)
    whole = launch_nest(general, schedule, forms, note)
    made: list[Launch] = []
    if agree is not None and len(whole.variants) > 1 and not whole.variants[0].deferred:
        choice = ReductionParts(plan, group, sizes, order, apart=agree).choice()
        agreed = ReductionParts(plan, group, sizes, order, agree=agree).choice()
        whole, *made = in_parts(whole, agreed, whole.variants[0])
    alike = parts.one_by_one(whole, keep, along_rows(parts.elements)) if choice.undecided else None
    return (*in_parts(whole, choice, alike), *made)


def _rows_and_columns(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launches of reductions of rows with reductions of columns beside them."""
    reductions = (*group.reductions, *group.column_reductions)
    order = SIZES.order([v.dtype.wide for op in reductions for v in op.results], target)
    both = RowsAndColumns(plan, group, SIZES, order)
    nest, keep = both.pass_over_rows(scratch=True)
    general, schedule = Loops(nest, keep=keep), by_runs(along_rows())
    forms = unstretched_forms(general, schedule, lambda loops: loops.fused_inside - loops.spread_inside)
    over_rows = launch_nest(general, schedule, forms, f"{group.kind.value} {group.name}, rows")
    return replace(over_rows, group=group, temporaries=both.temporaries), both.joined(columns(SIZES))


def _one_column(group: Group) -> dict[Symbol, Dim]:
    """The sizes of kept axes, each of them 1, where they are unknown, and no size of a reduced axis is of them."""
    kept = [d for a, d in enumerate(group.space) if a not in group.reduced and d != 1]
    symbols = [d.is_symbol if isinstance(d, SymExpr) else None for d in kept]
    one: dict[Symbol, Dim] = {symbol: 1 for symbol in symbols if symbol is not None}
    reduced = {symbol for a in group.reduced for symbol in free_symbols(group.space[a])}
    return one if None not in symbols and reduced.isdisjoint(one) else {}


# Windows ------------------------------------------------------------------------------------------------------------


def folds(target: Target) -> Schedule:
    """Folds of windows, and of products: lanes along the last axis, whatever it is, each going through the taps of its
    window in turn.

    Whether a tap lies in the padding is asked, not branched around. With the channels last the taps of a vector are
    vectors; with a spatial axis last they are so where the stride is 1.
    """

    def schedule(loops: Loops) -> None:
        if not loops.shared:
            loops.shared.append(axis("i", 1))
        if any(loops.shared[-1].var in a.symbols for phase in loops.phases for a in phase.axes):
            return  # folds of neighbours are of different lengths: one after the other
        elementwise(SIZES)(loops)
        _jam(loops)

    return schedule


#: How many neighbours of folds go together, and how many make a GRID iteration: with what both read and keep, two
#: vectors of each of six fit into 32 registers, and one into 16.
_JAMMED, _ROW = 6, 36


def _jam(loops: Loops) -> None:
    """Let products be added in one chain for each result, whatever is known of the sizes; and results that read the
    same go together: the windows of neighbours read the same kernel."""
    products = [phase for phase in loops.phases if phase.product is not None]
    for phase in products:
        loops.carry(phase)
    if not products or not loops.is_serial() or loops.lanes is None:
        return
    *outer, lanes = loops.shared
    several = [a for a in outer if a.var not in lanes.symbols]
    several = [a for a in several if not isinstance(a.extent, int) or a.extent >= _JAMMED]
    reused = {a: invariant_loads(loops, a) for a in several}
    if any(reused.values()):
        chosen = max(reversed(list(reused)), key=lambda a: reused[a])
        loops.reorder([*[a for a in outer if a is not chosen], chosen, lanes])
        loops.jam(loops.split(chosen, _ROW, name="s")[1], _JAMMED)


# Concatenations and scatters ----------------------------------------------------------------------------------------


def lower_join(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launches of a concatenation, a piece each."""
    return join_launches(plan, group, chunked, elementwise(SIZES), _flat_forms, lambda loops, schedule: ())


def _flat_forms(general: Loops, schedule: Schedule) -> list[SpecializedKernel]:
    return unstretched_forms(general, schedule, _flat_gain, most_ones=_MOST_ONES)


def chunked(loops: Loops) -> None:
    """Lanes along the last axis, in chunks."""
    if loops.fuse(loops.shared):
        _, lanes = loops.split(loops.shared[-1], SIZES.elements)
        loops.bind_lane(lanes)


def lower_scatter(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launches of a scatter: one; or in parts, where there are many updates for few elements."""
    whole, parts = scatter_launch(plan, group, SIZES), ScatterParts(Scatters(plan, group), SIZES)
    return in_parts(whole, parts.choice(), any_order=parts.exact)


# Running reductions -------------------------------------------------------------------------------------------------


def lower_running(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launches of a running reduction: one; or three in parts, where it is long and there are few side by side.

    The sums follow one another, so nothing is gained by vectors along the axis; what lies side by side goes side by
    side:

    * where there are axes behind the running one, lanes go along these, and every step is a vector of each row;
    * along the last axis each run is a chain of its own, one addition's latency an element, and reads and writes memory
      in its order.

    Runs are dealt to GRID iterations, and so are parts of long ones: an element is then what lanes make of the parts
    before its own, and what follows in it, one by one. So errors grow with a part's length and the number of parts,
    and bits are those of a single chain up to a part's length.
    """
    running = running_nests(plan, group, SIZES.part, SIZES.order([group.ops[0].result.dtype.wide], target))
    nest, note = running.nest(), f"running {group.name}"
    loops, (*_, stage) = Loops(nest), nest.stages
    behind = {symbol for place in stage.index[running.along + 1 :] for symbol in free_symbols(place)}
    inner = [a for a in loops.shared if a.var in behind]
    _side_by_side(loops, inner)
    if not inner:
        running_phase(loops)
    whole = loops.launch(note)
    if inner or sum(not isinstance(d, int) for d in running.rest) > 1:
        return (whole,)
    long = dim_min(running.length - SIZES.part - 1, SIZES.few_long_rows - product(running.rest))

    def launches(when: Condition | None) -> tuple[Launch, ...]:
        schedules = along_rows(), one_by_one, one_by_one, elementwise(SIZES)
        return running.launches(note, when, running.sum_of_parts(), *schedules)

    parts = InParts(Condition(long, 0, None), launches, plan)
    if running.exact:
        return in_parts(whole, parts, any_order=True)
    in_turn = Loops(nest)
    in_turn.fuse(in_turn.shared)
    in_turn.scan_parts(in_turn.phases[0], SIZES.part)
    return in_parts(whole, parts, in_turn.variant(f"{note}, in turn"))


def _side_by_side(loops: Loops, inner: list[Axis]) -> None:
    """Lanes along the axes behind the running one."""
    loops.fuse([a for a in loops.shared if a not in inner])
    if loops.fuse(inner):
        _, lanes = loops.split(loops.shared[-1], SIZES.columns)
        loops.bind_lane(lanes)
