"""SCATTER groups: a copy of the operand, and then the updates, put into it in their order.

Axes of the array along which every update has its own place (whole window axes and batching axes) are *dealt* to GRID
iterations, each of which copies its part of the array and then goes through all windows: no two of them meet, no
atomics are needed, and each place sees its updates in order. There are two forms:

* wide: all those axes are dealt, the last ones, such as the columns of an embedding's gradient, in chunks with lanes;
* narrow, where a chunk would hold all columns: only axes in front of the first that is not dealt are, so that a copy is
  one run over memory; lanes go along the columns, or else along the last window axis if that keeps the order, or else
  single elements are updated one by one;
* by place: all axes are dealt. Each iteration goes through all updates, and takes those of its own place.
"""

from __future__ import annotations

from enum import Enum

from dyn import dtypes
from dyn.errors import IRError
from dyn.frozen import record
from dyn.ir.core import Value
from dyn.ir.opdef import Scatter
from dyn.ops.indexing.dimension_numbers import Windows, clamped
from dyn.ops.regions import region_values
from dyn.ops.scalar import Scalar
from dyn.schedule.axes import Axis, AxisKind, index_of, linearize
from dyn.schedule.elements import ElementReader, Index
from dyn.schedule.expressions import ExprBuilder
from dyn.schedule.kernel import Buffer, Expr, Ref, Stmt, Store, Update
from dyn.schedule.launch import Condition, Launch
from dyn.schedule.loops import Loops
from dyn.schedule.nest import Nest, Stage, Write
from dyn.schedule.nests import loop, present
from dyn.schedule.phases import Phase
from dyn.schedule.sizes import LoopSchedule
from dyn.schedule.specialized_kernels import Schedule, SpecializedKernel, launch_nest
from dyn.schedule.unstretched import unstretched
from dyn.shapes import Dim, as_dim, dim_max, dim_min, product
from dyn.stitch.groups import Group, Plan

#: Up to how many neighbours are updated one by one: what lanes store for some of them cannot be read at once.
_FEW_LANES = 4


def scatter_launch(plan: Plan, group: Group, sizes: LoopSchedule) -> Launch:
    """The launch of a scatter: the wide form, and before it what is quicker where its condition holds."""
    scatter = Scatters(plan, group)
    general = Loops(scatter.nest(Dealt.OWN))
    schedule = scatter.schedule(sizes)
    apart, columns = unstretched(general), scatter.columns()
    forms: list[SpecializedKernel] = []
    if columns is not None:
        excess = dim_max(columns - sizes.scattered, 0)
        few = Condition(excess if apart is None else dim_max(apart.condition.dim, excess), 0, 0)
        nest = scatter.nest(Dealt.FRONT)
        note = "narrow" if apart is None else "nothing stretched, narrow"
        equal = {} if apart is None else apart.equal
        forms.append(
            SpecializedKernel(note, few, lambda: Loops(nest, equal=equal, aligned=apart is not None), schedule)
        )
        if not isinstance(columns, int):
            few = Condition(columns, 0, _FEW_LANES)
            forms.insert(
                0, SpecializedKernel("a few columns", few, lambda: Loops(nest), scatter.schedule(sizes, few=True))
            )
    if apart is not None:
        same = Loops(general.nest, equal=apart.equal, aligned=True)
        forms.append(SpecializedKernel("nothing stretched", apart.condition, lambda: same, schedule))
    return launch_nest(general, schedule, forms, f"{group.kind.value} {group.name}")


class Dealt(Enum):
    """The axes of the array that are dealt to iterations."""

    #: Those along which every update has its own place.
    OWN = "wide"
    #: Of these, the ones in front of the first that is not one.
    FRONT = "narrow"
    ALL = "by place"


@record(eq=False)
class Part:
    """Updates that go into an array of their own: ``size`` of them along ``axis``, from ``first`` on, or those that are
    left. ``array`` holds one such array for each part; this one's begins at ``base``."""

    axis: int
    first: Dim
    size: Dim
    array: Value
    base: Dim


class Scatters:
    """The nests of a scatter, and the schedule for vectors."""

    def __init__(self, plan: Plan, group: Group) -> None:
        self.plan, self.group = plan, group
        (self.op,) = group.ops
        loops = self.op.opdef.loops
        if not isinstance(loops, Scatter):
            raise IRError(f"{self.op.opdef.name} is no scatter")
        self.loops = loops
        self.x, self.updates = self.op.operands[0], loops.updates(self.op)
        self.windows: Windows
        self.starts: tuple[Value, ...]
        self.windows, self.starts = loops.windows(self.op)
        self.batch = self.windows.batch_axes(len(self.updates.shape))
        #: The axis of the updates that runs along an axis of the array, where every update has its own place on it.
        self.own = self._own_places()

    def _own_places(self) -> dict[int, int]:
        found: dict[int, int] = {}
        facts, w = self.plan.function.facts, self.windows
        for a, dim in zip(w.axes, w.window_dims, strict=True):
            if a not in w.start_map and facts.eq(self.updates.shape[dim], self.x.shape[a]).proved:
                found[a] = dim
        for a, start_axis in zip(w.batching, w.start_batching, strict=True):
            found[a] = self.batch[w.batch_position(start_axis)]
        return dict(sorted(found.items()))

    def columns(self) -> Dim | None:
        """Number of elements behind the last axis that is not dealt; None where it is the last, or there is none."""
        rank = len(self.x.shape)
        shared = [a for a in range(rank) if a not in self.own]
        return product(self.x.shape[shared[-1] + 1 :]) if shared and shared[-1] + 1 < rank else None

    def nest(self, dealing: Dealt) -> Nest:
        """A stage that copies the operand, and one that goes through the updates, over the axes that are dealt."""
        axes = range(len(self.x.shape))
        first = next((a for a in axes if a not in self.own), len(axes))
        dealt = axes if dealing is Dealt.ALL else [a for a in self.own if dealing is Dealt.OWN or a < first]
        grid = {a: loop(f"i{a}", self.x.shape[a]) for a in dealt}
        return Nest(self.plan, self.group, present(list(grid.values())), (self.copy(grid), self.changes(grid)))

    def copy(self, grid: dict[int, Axis | None]) -> Stage:
        """The operand into the result."""
        own = [grid[a] if a in grid else loop(f"c{a}", d) for a, d in enumerate(self.x.shape)]
        index = index_of(own)
        place = linearize(index, self.x.shape)

        def statements(elements: ElementReader, buffer: Buffer) -> tuple[Stmt, ...]:
            return (Store(buffer, place, elements.at(self.x, index)),)

        rest = present([a for number, a in enumerate(own) if number not in grid])
        return Stage(rest, index, (Write(self.op.result, statements),))

    def combine(self) -> Scalar | None:
        """How an update joins what is there; None where it takes its place, or where a region says how."""
        return None if self.op.regions else self.loops.combine(self.op.attrs)

    def changes(self, grid: dict[int, Axis | None], part: Part | None = None) -> Stage:
        """Each update into its place, or those of a part. Along axes with places of their own the order does not
        matter."""
        free = {dim: a for a, dim in self.own.items()}

        def kind(dim: int) -> AxisKind:
            if dim in free:
                return AxisKind.PARALLEL
            return AxisKind.DISTINCT if dim in self.windows.window_dims else AxisKind.FOLD

        shape = list(self.updates.shape)
        if part is not None:
            shape[part.axis] = dim_min(part.size, shape[part.axis] - part.first)
        loops = [
            grid[free[dim]] if free.get(dim) in grid else loop(f"u{dim}", size, kind(dim))
            for dim, size in enumerate(shape)
        ]
        own = index_of(list(grid.values()))
        first = 0 if part is None else part.base
        index = tuple(
            at if part is None or dim != part.axis else part.first + at for dim, at in enumerate(index_of(loops))
        )

        def statements(elements: ElementReader, buffer: Buffer) -> tuple[Stmt, ...]:
            return (self.update(elements, buffer, index, own if len(grid) == len(self.x.shape) else None, first),)

        inside = {id(a) for a in grid.values()}
        ordered = [a for dim, a in enumerate(loops) if dim not in free]
        inner = [loops[dim] for dim in self.own.values() if id(loops[dim]) not in inside]
        output = self.op.result if part is None else part.array
        return Stage(present([*ordered, *inner]), index, (Write(output, statements),))

    def schedule(self, sizes: LoopSchedule, *, few: bool = False) -> Schedule:
        """The schedule of both forms; with ``few`` for what has few neighbours, which are updated one by one."""

        def schedule(loops: Loops) -> None:
            copy, change = loops.phases
            dealt = list(loops.shared)
            loops.fuse(copy.axes, copy)
            free = loops.fuse([a for a in change.axes if a.kind is AxisKind.PARALLEL], change)
            loops.fuse(loops.shared)
            array, updates = (stage.index for stage in loops.nest.stages)
            if dealt and array[-1:] == (as_dim(dealt[-1].var),):  # it may have become part of a longer axis
                _, lanes = loops.split(loops.shared[-1], sizes.scattered)
                loops.sink([lanes])
                free = [lanes]
            if copy.axes:
                loops.bind_lanes(copy)
            length = change.axes[-1].extent if change.axes else 0
            one_by_one = few or (isinstance(length, int) and length <= _FEW_LANES)
            if not one_by_one and self._are_neighbours(change, updates, along_own=bool(free)):
                loops.bind_lanes(change)
            elif change.axes and isinstance(length, int) and length <= _FEW_LANES:
                loops.unroll(change)

        return schedule

    def _are_neighbours(self, change: Phase, updates: Index, *, along_own: bool) -> bool:
        """Whether the innermost axis of the updates runs along the array's last one, or a chunk of it."""
        w = self.windows
        if along_own:
            return max(self.own) == w.rank - 1
        inside = bool(change.axes) and bool(w.axes) and w.axes[-1] == w.rank - 1
        return inside and updates[w.window_dims[-1]] == as_dim(change.axes[-1].var)

    def places(
        self, elements: ElementReader, index: Index, own: Index | None = None
    ) -> tuple[tuple[Dim, ...], Expr | None]:
        """The place of the update at an index, and a mask, None where it is always one of the array's; where there is
        an ``own`` place, whether it is that one."""
        x, w, k = self.x, self.windows, elements.k
        batch = tuple(index[dim] for dim in self.batch)
        places: list[Dim] = [0] * w.rank
        for a, dim in (*zip(w.axes, w.window_dims, strict=True), *self.own.items()):
            places[a] = index[dim]
        mask: Expr | None = None
        for component, a in enumerate(w.start_map):
            size = x.shape[a]
            window = self.updates.shape[w.window_dims[w.axes.index(a)]] if a in w.axes else 1
            which, at = w.start_place(len(self.starts[0].shape), batch, component)
            start = self.starts[which]
            value = w.counted(k, elements.at(start, at), start.dtype, size)
            if self.loops.clamp:
                value = clamped(k, value, size - window)
            elif window != 1:  # brought near the axis, so that nothing overflows: what lay outside still does
                value = k.apply(Scalar.MIN, [value, k.index(dtypes.int64, size)], dtypes.int64)
                value = k.apply(Scalar.MAX, [value, k.index(dtypes.int64, -window)], dtypes.int64)
            if own is not None:
                value = k.apply(Scalar.ADD, [value, k.index(dtypes.int64, places[a])], dtypes.int64)
                same = k.apply(Scalar.EQ, [value, k.index(dtypes.int64, own[a])], dtypes.bool_)
                mask = same if mask is None else k.both(mask, same)
                continue
            places[a] = places[a] + k.bind(value)
            if not self.loops.clamp:
                inside = _inside(k, places[a], size)
                mask = inside if mask is None else k.both(mask, inside)
        for a in sorted(set(range(w.rank)) - {*self.own, *w.start_map}):
            found = [k.index(dtypes.int64, d) for d in (places[a], x.shape[a] if own is None else own[a])]
            if own is not None:
                inside = k.apply(Scalar.EQ, found, dtypes.bool_)
            elif a in w.axes and self._may_leave(a):
                inside = k.apply(Scalar.LT, found, dtypes.bool_)
            else:
                continue
            mask = inside if mask is None else k.both(mask, inside)
        return tuple(places) if own is None else own, mask

    def _may_leave(self, a: int) -> bool:
        """Whether windows may be longer than an axis of the array that all of them begin at the front of."""
        window = self.updates.shape[self.windows.window_dims[self.windows.axes.index(a)]]
        least, _ = self.plan.function.facts.bounds(self.x.shape[a] - window)
        return least is None or least < 0

    def update(
        self, elements: ElementReader, buffer: Buffer, index: Index, own: Index | None, first: Dim = 0
    ) -> Update:
        """The update at an index of the updates of an array that begins at ``first``; where there is an ``own`` place,
        one of that alone."""
        places, mask = self.places(elements, index, own)
        value = elements.at(self.updates, index)
        return self.joined(elements.k, buffer, first + linearize(places, self.x.shape), value, mask)

    def joined(self, k: ExprBuilder, buffer: Buffer, place: Dim, value: Expr, mask: Expr | None) -> Update:
        """An update of one element by a value."""
        if not self.op.regions:
            return k.update(buffer, place, self.loops.combine(self.op.attrs), value, mask)
        state = Ref("old", self.x.dtype)
        (value,) = region_values(k, self.op.regions[0], [state, value])
        return k.update(buffer, place, None, value, mask, state)


def _inside(k: ExprBuilder, place: Dim, size: Dim) -> Expr:
    """Whether a place is one of an axis: as an unsigned number a negative one is greater than any size."""
    unsigned = [k.cast(k.index(dtypes.int64, d), dtypes.uint64) for d in (place, size)]
    return k.apply(Scalar.LT, unsigned, dtypes.bool_)
