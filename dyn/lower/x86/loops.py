"""Loops: the range of the grid, vectors over lanes, and serial ones.

A LANE loop is a few sections that follow one another: super-vectors of ``unroll`` vectors, and then what is left under
a mask (with AVX-512, where masks cost nothing, or first single vectors without one). Each has the whole body in it. All
stand behind one test that the extent is positive, so that loads may be hoisted out of the sections. Short loops, which
a contraction comes to for each of its tiles, have one section where they can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dyn.errors import NotYetError
from dyn.lower.x86 import memory
from dyn.lower.x86.ahead import Ahead
from dyn.lower.x86.folds import Accumulator, State
from dyn.lower.x86.guards import LoopGuard, multiple
from dyn.lower.x86.llvm_text import CountedLoop, VType, vtype
from dyn.lower.x86.plan import lane_plan
from dyn.lower.x86.runs import Runs
from dyn.lower.x86.scopes import Lanes, LaneValue
from dyn.lower.x86.search import emit_search, search_of
from dyn.lower.x86.squares import Squares
from dyn.schedule.kernel import Carry, Fold, Loop, Ref, known_factor
from dyn.schedule.order import Order

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

I64 = vtype("i64")


def grid_loops(em: KernelEmitter) -> None:
    """The kernel's body for the iterations [begin, end) of the GRID loops' linear space."""
    fn = em.fn
    grid, body = em.kernel.grid()
    run, done = fn.label("run"), fn.label("done")
    extents = [em.dim(loop.extent) for loop in grid]
    count = grid[-1].count if grid else None
    with em.scope(guarded=True):
        fn.branch_if(fn.op("icmp slt", I64, "%begin", "%end"), run, done)
        fn.start(run)
        if count is None:
            with em.scope():
                loop, following = _grid(em, grid, extents, "%begin", "%end")
                em.statements(body)
                loop.close(following())
        else:
            # What is left of the range in each iteration of the loops around is one iteration of the innermost.
            *around, inner = extents
            first = fn.op("udiv", I64, "%begin", inner)
            last = fn.op("add nuw", I64, fn.op("udiv", I64, fn.op("sub", I64, "%end", "1"), inner), "1")
            with em.scope():
                loop, following = _grid(em, grid[:-1], around, first, last)
                passed = fn.op("mul nuw", I64, loop.index, inner)
                begin = fn.intrinsic("smax", I64, fn.op("sub", I64, "%begin", passed), "0")
                end = fn.intrinsic("smin", I64, fn.op("sub", I64, "%end", passed), inner)
                em.bind(grid[-1].var, begin)
                em.bind(count, fn.op("sub", I64, end, begin))
                em.statements(body)
                loop.close(following())
        fn.branch(done)
        fn.start(done)


def _grid(
    em: KernelEmitter, grid: Sequence[Loop], extents: Sequence[str], begin: str, end: str
) -> tuple[CountedLoop, Callable[[], list[str]]]:
    """Open a loop over [begin, end) of some GRID loops' linear space, and bind their variables; what it carries on is
    known at its end."""
    fn, several = em.fn, len(grid) > 1
    first: list[str] = []
    rest = begin
    for extent in reversed(extents[1:]):
        first.insert(0, fn.op("urem", I64, rest, extent))
        rest = fn.op("udiv", I64, rest, extent)
    first.insert(0, rest)
    loop = fn.loop(begin, end, 1, [(I64, i) for i in first] if several else [], at_least_once=True, hint="grid")
    indices = loop.carried if several else [loop.index] * len(grid)
    for level, index in zip(grid, indices, strict=True):
        em.bind(level.var, index)

    def following() -> list[str]:
        found: list[str] = []
        carry = ""
        for level in range(len(grid) - 1, -1, -1) if several else ():
            step = fn.cast("zext", vtype("i1"), carry, I64) if carry else "1"
            index = fn.op("add nsw", I64, indices[level], step)
            if level:
                carry = fn.op("icmp eq", I64, index, extents[level])
                index = fn.select(carry, I64, "0", index)
            found.insert(0, index)
        return found

    return loop, following


def extent_of(em: KernelEmitter, loop: Loop) -> LaneValue:
    """Number of a loop's iterations, the same in all lanes around it."""
    memory.bind(em, loop.bound)
    if em.indices.varies(loop.extent):
        raise NotYetError(
            f"kernel {em.kernel.name}: a serial loop whose extent differs between lanes is not generated for x86 yet."
        )
    size = em.indices.uniform(loop.extent)
    memory.unbind(em, loop.bound)
    return size


def serial_loop(em: KernelEmitter, loop: Loop) -> None:
    """A loop in each lane, or a scalar one. Its folds are vectors where their values are varying."""
    size = extent_of(em, loop)
    extent = size.parts[0]
    if loop.order is not None:
        _folds_in_runs(em, loop, size, loop.order)
        return
    folds = [Accumulator(em, fold, *_parts_of(em, fold), joined=False) for fold in loop.folds]
    states = [_initial(em, carry) for carry in loop.carries]
    initial = [(ty, init) for acc in folds for ty, init in zip(acc.types, acc.initial, strict=True)]
    initial += [(state.ty, part) for state in states for part in state.parts]
    with em.scope(guarded=True):
        guard = LoopGuard(em, extent, initial)
        final = _iterations(em, loop, folds, states, guard.carried, "0", extent)
        final = guard.close(final)
    _bind_carried(em, [c.ref for c in loop.carries], states, final)
    for acc in folds:
        own, final = final[: len(acc.types)], final[len(acc.types) :]
        for ref, parts in zip(acc.fold.refs, acc.results(own), strict=True):
            em.bind_ref(ref, tuple(parts), varying=acc.width > 1)
    em.scopes.clobber()


def _parts_of(em: KernelEmitter, fold: Fold) -> tuple[int, int]:
    """Width and number of a fold's states in a SERIAL loop: vectors where the values are varying."""
    lanes = em.scopes.top.lanes
    varying = lanes is not None and any(em.varying(value) for value in fold.values)
    return (lanes.width, lanes.unroll) if lanes is not None and varying else (1, 1)


def _folds_in_runs(em: KernelEmitter, loop: Loop, size: LaneValue, order: Order) -> None:
    """A SERIAL loop that folds in an order, run by run."""
    extent = size.parts[0]
    parts = [_parts_of(em, fold) for fold in loop.folds]
    accumulators = [Accumulator(em, f.leaf, *own, joined=False) for f, own in zip(loop.folds, parts, strict=True)]
    totals = [
        None if f.block is None else Accumulator(em, f, *own, joined=False)
        for f, own in zip(loop.folds, parts, strict=True)
    ]
    ends = [acc if total is None else total for acc, total in zip(accumulators, totals, strict=True)]
    with em.scope(guarded=True):
        guard = LoopGuard(em, extent, [pair for acc in ends for pair in zip(acc.types, acc.initial, strict=True)])
        runs = Runs(em, loop, accumulators, totals, order.step)
        carried = [pair for acc in accumulators for pair in zip(acc.types, acc.initial, strict=True)]
        whole = multiple(em, size, order.step)
        levels = runs if runs.sizes else None
        made = _iterations(em, loop, accumulators, [], carried, "0", whole, order.step, levels)
        given = [(ty, value) for (ty, _), value in zip(carried, made, strict=True)]
        made = _iterations(em, loop, accumulators, [], given, whole, extent) if order.step > 1 else made
        states = runs.added(runs.joined(_apart(accumulators, made)))
        final = guard.close([value for state in states for value in state])
    for acc, own in zip(ends, _apart(ends, final), strict=True):
        for ref, found in zip(acc.fold.refs, acc.results(own), strict=True):
            em.bind_ref(ref, tuple(found), varying=acc.width > 1)
    em.scopes.clobber()


def _iterations(
    em: KernelEmitter,
    loop: Loop,
    folds: list[Accumulator],
    states: list[LaneValue],
    carried: Sequence[tuple[VType, str]],
    begin: str,
    stop: str,
    together: int = 1,
    runs: Runs | None = None,
) -> list[str]:
    """The body for ``range(begin, stop)``, one after the other; what is carried after it.

    So many go ``together``: what they fold is joined two by two. One by one from 0, there are some.
    """
    fn = em.fn
    with em.scope():
        some = begin == "0" and together == 1
        levels = [] if runs is None else runs.carried()
        counted = fn.loop(begin, stop, together, [*carried, *levels], at_least_once=some, hint="serial")
        new, turns = list(counted.carried[: len(carried)]), list[list[State]]()
        if runs is not None:
            runs.take(counted.carried[len(carried) :])
        for turn in range(together):
            with em.scope():
                index = fn.op("add nsw", I64, counted.index, str(turn)) if turn else counted.index
                em.bind(loop.var, _from_start(em, loop, index))
                _bind_carried(em, [c.state for c in loop.carries], states, new)
                em.statements(loop.body)
                turns.append([_states_of(em, acc) for acc in folds])
                changed = list[str]()
                for carry, state in zip(loop.carries, states, strict=True):
                    value = em.eval(carry.value)
                    changed += (em.spread(value) if state.varying else value).parts
                new = [*new[: len(new) - len(changed)], *changed]
        start = 0
        for acc, found in zip(folds, zip(*turns, strict=True), strict=True):
            end = start + len(acc.types)
            new[start:end] = acc.step(new[start:end], acc.pairwise(found))
            start = end
        if runs is not None:
            following = fn.op("add nsw", I64, counted.index, str(together))
            new = [value for state in runs.advance(following, _apart(folds, new)) for value in state]
        final = counted.close([*new, *([] if runs is None else runs.values())])
    if runs is not None:
        runs.take(final[len(carried) :])
    return final[: len(carried)]


def _from_start(em: KernelEmitter, loop: Loop, index: str) -> str:
    """The value of a loop's variable, of which so many came before."""
    return index if loop.start == 0 else em.fn.op("add nsw", I64, em.dim(loop.start), index)


def _states_of(em: KernelEmitter, acc: Accumulator) -> State:
    """The states that an iteration adds to a fold."""
    found = [em.eval(value) for value in acc.fold.values]
    return acc.lifted([list((em.spread(v) if acc.width > 1 else v).parts) for v in found])


def _initial(em: KernelEmitter, carry: Carry) -> LaneValue:
    """Initial value of a loop's carry: vectors where some state will differ between lanes."""
    value = em.eval(carry.init)
    return em.spread(value) if em.varying(carry.state) else value


def _bind_carried(em: KernelEmitter, refs: list[Ref], states: list[LaneValue], names: list[str]) -> None:
    """Give carried values their names, which are the last of ``names``."""
    end = len(names) - sum(len(state.parts) for state in states)
    for ref, state in zip(refs, states, strict=True):
        start, end = end, end + len(state.parts)
        em.bind_ref(ref, tuple(names[start:end]), varying=state.varying)


def unroll_loop(em: KernelEmitter, loop: Loop) -> None:
    """A loop in each lane whose loads and stores of squares go together, before and after it."""
    em.squares = Squares(em, loop)
    em.squares.before()
    serial_loop(em, loop)
    em.squares.after()
    em.squares = None


def lane_loop(em: KernelEmitter, loop: Loop) -> None:
    """Vectors over a loop's iterations."""
    found = search_of(loop)
    if found is not None:
        emit_search(em, loop, found)
        return
    size = extent_of(em, loop)
    extent = size.parts[0]
    plan = lane_plan(em, loop)
    width, count = plan.width, plan.unroll
    if loop.order is not None:
        width, count = loop.order.lanes, loop.order.unroll
    carried_types = [(em.register(init.dtype), em.literal(init)) for fold in loop.folds for init in fold.monoid.init]
    accumulators = [
        Accumulator(em, fold.leaf, width, count if fold.block is None else 1, joined=True) for fold in loop.folds
    ]
    ahead = Ahead(em, loop)
    with em.scope(guarded=True):
        guard = LoopGuard(em, extent, carried_types)
        totals = [None if f.block is None else Accumulator(em, f, width, 1, joined=True) for f in loop.folds]
        wide = count * width
        runs = Runs(em, loop, accumulators, totals, wide)
        states = [acc.initial for acc in accumulators]
        begin = whole = "0"
        even = plan.short and known_factor(loop.extent) % width == 0
        some = not isinstance(loop.extent, int) or loop.extent >= wide
        if some and (even or not plan.short or not em.machine.avx512):
            whole = multiple(em, size, wide)
            shape = Lanes(loop.var, width, min(plan.unroll, count), "")
            turns = count // shape.unroll
            states = _section(
                em, loop, accumulators, states, shape, begin, whole, turns, ahead, runs if runs.sizes else None
            )
            begin = whole
        if count > 1:
            joined = [acc.narrow(state) for acc, state in zip(accumulators, states, strict=True)]
            accumulators, states = [acc for acc, _ in joined], [state for _, state in joined]
            runs.runs = accumulators
            if not em.machine.avx512:
                stop = multiple(em, size, width)
                states = _section(em, loop, accumulators, states, Lanes(loop.var, width, 1, ""), begin, stop)
                begin = stop
        ragged = not isinstance(loop.extent, int) or loop.extent % width or (loop.extent % wide and em.machine.avx512)
        if ragged and not even:
            tail = Lanes(loop.var, width, 1, "", ("",))
            states = _section(em, loop, accumulators, states, tail, begin, extent)
        results = guard.close(runs.horizontal(runs.joined(states), whole))
    for ref, result in zip([ref for fold in loop.folds for ref in fold.refs], results, strict=True):
        em.bind_ref(ref, (result,), varying=False)
    em.scopes.clobber()


def _section(
    em: KernelEmitter,
    loop: Loop,
    accumulators: list[Accumulator],
    states: list[list[str]],
    shape: Lanes,
    begin: str,
    stop: str,
    turns: int = 1,
    ahead: Ahead | None = None,
    runs: Runs | None = None,
) -> list[list[str]]:
    """The body for ``range(begin, stop)`` in super-vectors of one shape; the accumulators' states after it.

    In an iteration it runs in several ``turns``, each of which has accumulators of its own; those of folds that go by
    ``runs`` have one, to which they are joined two by two.
    """
    fn = em.fn
    carried = [
        (ty, value)
        for acc, state in zip(accumulators, states, strict=True)
        for ty, value in zip(acc.types, state, strict=True)
    ]
    count = len(carried)
    carried += [] if runs is None else runs.carried()
    hint = "lanes" if shape.masks is None else "tail"
    with em.scope():
        step = shape.width * shape.unroll
        counted = fn.loop(begin, stop, step * turns, carried, hint=hint)
        masks, left = None, ""
        if shape.masks is not None:
            left = em.fn.op("sub", I64, stop, counted.index)
            masks = (em.fn.first_lanes(left, shape.width),)
        new, leaves = list(counted.carried[:count]), [list[State]() for _ in accumulators]
        if runs is not None:
            runs.take(counted.carried[count:])
        for turn in range(turns):
            with em.scope():
                base = counted.index if turn == 0 else fn.op("add nsw", I64, counted.index, str(turn * step))
                em.bind_lanes(Lanes(loop.var, shape.width, shape.unroll, _from_start(em, loop, base), masks, left))
                if ahead is not None:
                    ahead.ask(step)
                em.statements(loop.body)
                old, new = new, []
                for acc, found in zip(accumulators, leaves, strict=True):
                    own, old = old[: len(acc.types)], old[len(acc.types) :]
                    values = [em.vectors(value) for value in acc.fold.values]
                    if shape.unroll * turns > acc.count:
                        found += [[[parts[u]] for parts in values] for u in range(shape.unroll)]
                        values = acc.pairwise(found) if turn == turns - 1 else None
                    new += own if values is None else acc.step(own, values, masks, turn * shape.unroll % acc.count)
        if runs is not None:
            following = fn.op("add nsw", I64, counted.index, str(step * turns))
            new = [value for state in runs.advance(following, _apart(accumulators, new)) for value in state]
            new += runs.values()
        final = counted.close(new)
    if runs is not None:
        runs.take(final[count:])
    return _apart(accumulators, final[:count])


def _apart(accumulators: Sequence[Accumulator], values: Sequence[str]) -> list[list[str]]:
    """The values of each of some accumulators."""
    result, start = list[list[str]](), 0
    for acc in accumulators:
        result.append(list(values[start : start + len(acc.types)]))
        start += len(acc.types)
    return result
