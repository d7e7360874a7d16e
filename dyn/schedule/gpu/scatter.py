"""Scatters on GPUs, by their destinations: no two lanes meet at a place, no atomics are needed, and each place sees its
updates in their order. So results are those of a serial loop, to the last bit, in each of the forms:

* sorted: launches number the destination of each update, sort these numbers, find where runs of equal ones end, copy
  the operand, and let a lane fold each run into its place: its updates in their order, for the sort is stable;
* apart: updates of one window have places of their own, and a lane each once the operand is copied;
* dealt: lanes go along axes on which each update has its own place, each through the copy and all updates;
* by place: a lane for each element of an array of few goes through all updates, and takes those that are its own.

The sizes of a call choose. The launches of the first two forms are made when a call wants them; until they are there
the others run, which compute the same. One place is one lane's, so what goes to one place alone is folded serially.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from dyn import dtypes
from dyn.ir.core import Value
from dyn.ir.types import TensorType
from dyn.ops.scalar import Scalar
from dyn.schedule.axes import Axis, AxisKind, axis, index_of, linearize
from dyn.schedule.elements import ElementReader, Index
from dyn.schedule.expressions import ExprBuilder
from dyn.schedule.gpu.sorting import MOST, sort_into
from dyn.schedule.gpu.tables import PART_OF_WARP, SIZES, THREADS, elementwise, folds
from dyn.schedule.kernel import Buffer, Carry, Expr, Ref, Role, Stmt, Store
from dyn.schedule.launch import Condition, Launch
from dyn.schedule.loops import Loops
from dyn.schedule.merging import Integers
from dyn.schedule.nest import Nest, OrderedReduction, Stage, Write
from dyn.schedule.nests import loop, present
from dyn.schedule.orderings import Ordering
from dyn.schedule.parts import InParts, in_parts
from dyn.schedule.scatter import Dealt, Scatters
from dyn.schedule.specialized_kernels import Schedule, SpecializedKernel, launch_nest, unstretched_forms
from dyn.schedule.target import Target
from dyn.shapes import Dim, as_dim, dim_max, dim_min, dim_sum, floordiv, mod, product
from dyn.stitch.groups import Group, Plan

#: The most elements of an array for which each has a lane that looks at every update, and the most updates.
FEW_PLACES, FEW_LOOKED_AT = 1 << 16, 1024
#: The most updates that lanes go through one after the other, and the lanes that an array is copied by in passing.
FEW_UPDATES, MANY_LANES = 128, 1 << 14


def lower_scatter(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launches of a scatter: one, in which lanes go through all updates; or several, for many of them."""
    scatter = Scatters(plan, group)
    general, size = Loops(scatter.nest(Dealt.OWN)), product(scatter.x.shape)
    forms = unstretched_forms(general, by_destination, lambda loops: loops.fused_inside)
    if set(scatter.own) != set(range(len(scatter.x.shape))):
        few = Condition(size, 0, FEW_PLACES)
        forms.insert(0, SpecializedKernel("by place", few, lambda: Loops(scatter.nest(Dealt.ALL)), by_destination))
    whole = launch_nest(general, by_destination, forms, f"{group.kind.value} {group.name}")
    return in_parts(whole, SortedScatter(scatter, target).choice(), any_order=True)


def by_destination(loops: Loops) -> None:
    """Lanes along all axes that are dealt, each through the copy and the updates; without any, along the copy."""
    for phase in loops.phases:
        loops.fuse([a for a in phase.axes if a.kind is AxisKind.PARALLEL], phase)
    if loops.shared:
        loops.fuse(loops.shared)
        _, lanes = loops.split(loops.flatten(loops.shared), SIZES.scattered)
        loops.bind_lane(lanes)
        return
    copy, change = loops.phases
    if copy.axes:
        loops.bind_lanes(copy)
    if change.axes and change.axes[-1].kind is not AxisKind.FOLD:
        loops.bind_lanes(change)


def short_rows(loops: Loops) -> None:
    """Rows by teams of a few lanes, for those that are too short to fill a warp."""
    *_, rows, _ = loops.fuse(loops.shared)
    loops.split(rows, THREADS // PART_OF_WARP, name="r")
    loops.bind_last([Role.TEAM, Role.LANE], PART_OF_WARP)


class SortedScatter:
    """A scatter in several launches.

    Its updates are numbered in their order along the axes on which two may meet, anew for each row: an index of the
    batching axes. A destination is the place of an update on the array's axes from the first to the last of those on
    which it has none of its own.
    """

    def __init__(self, scatter: Scatters, target: Target) -> None:
        self.scatter, self.target, self.name = scatter, target, scatter.group.name
        shape, own, w = scatter.x.shape, scatter.own, scatter.windows
        extents = scatter.updates.shape
        self.numbered = [dim for dim in range(len(extents)) if dim not in own.values()]
        self.count = product(extents[dim] for dim in self.numbered)
        self.batching = [a for a in own if a in w.batching]
        self.rows = product(shape[a] for a in self.batching)
        self.shared = [a for a in range(len(shape)) if a not in own]
        #: Whether no two updates meet: there is one window.
        self.apart = all(extents[dim] == 1 for dim in scatter.batch if dim not in own.values())

    # Sizes ------------------------------------------------------------------------------------------------------

    @property
    def span(self) -> Dim:
        """The number of destinations: an update that is left out has this one."""
        return product(self.scatter.x.shape[self.shared[0] : self.shared[-1] + 1])

    def condition(self) -> Condition | None:
        """The condition that several launches pay; None if they never do."""
        if not self.shared:
            return None
        shape = self.scatter.x.shape
        lanes = product(shape[a] for a in self.scatter.own)
        many_looked_at = dim_max(product(shape) - (FEW_PLACES + 1), self.count - (FEW_LOOKED_AT + 1))
        many = dim_min(many_looked_at, dim_max(self.count - (FEW_UPDATES + 1), MANY_LANES - 1 - lanes))
        if not self.apart:
            many = dim_min(many, MOST - self.count, MOST - 1 - self.span)
        return Condition(many, 0, None)

    def choice(self) -> InParts:
        """The launches, and when they pay."""
        return InParts(self.condition(), self.launches, self.scatter.plan)

    # Launches ---------------------------------------------------------------------------------------------------

    def launches(self, when: Condition | None) -> tuple[Launch, ...]:
        """The launches, on one condition."""
        if self.apart:
            return self._launch("copied", self._copied(), when), self._launch("apart", self._all_apart(), when)
        memory = partial(Value, TensorType(dtypes.uint32, (self.rows, self.count)))
        keys, ordered, places, lengths = (memory() for _ in range(4))
        ordering = Ordering(1, self.count, (keys,), _less, (0, None))
        found = [self._launch("destinations", self._keys(keys), when, keys)]
        plan, group, sizes = self.scatter.plan, self.scatter.group, (self.rows, self.count)
        found += sort_into(plan, group, self.target, ordering, sizes, (ordered, places), when)
        runs = self._run_lengths(ordered, lengths)
        found.append(self._launch("lengths of runs", runs, when, lengths, folds(self.target)))
        found.append(self._launch("copied", self._copied(), when))
        found.append(self._launch("folded", self._folded(ordered, places, lengths), when))
        return tuple(found)

    def _launch(
        self,
        what: str,
        nest: Nest,
        when: Condition | None,
        written: Value | None = None,
        schedule: Schedule | None = None,
    ) -> Launch:
        """The launch of a nest, with a form for short rows."""
        general, schedule, note = Loops(nest), schedule or elementwise(self.target), f"{self.name}, {what}"
        axes, forms = general.fuse(general.shared), list[SpecializedKernel]()
        if len(axes) > 1:
            short = Condition(axes[-1].extent, 0, self.target.warp // 2)
            forms.append(SpecializedKernel("short rows", short, lambda: Loops(nest), short_rows))
        launch = launch_nest(general, schedule, forms, note)
        return replace(launch, temporaries=() if written is None else (written,), when=when)

    def _nest(self, axes: list[Axis | None], *stages: Stage, in_place: bool = False) -> Nest:
        return Nest(self.scatter.plan, self.scatter.group, present(axes), stages, in_place=in_place)

    def _copied(self) -> Nest:
        """The operand into the result."""
        axes = {a: loop(f"i{a}", d) for a, d in enumerate(self.scatter.x.shape)}
        return self._nest(list(axes.values()), self.scatter.copy(axes))

    def _all_apart(self) -> Nest:
        """Each update into its place, by a lane of its own."""
        axes = [loop(f"u{dim}", extent) for dim, extent in enumerate(self.scatter.updates.shape)]
        index = index_of(axes)

        def statements(elements: ElementReader, buffer: Buffer) -> tuple[Stmt, ...]:
            return (self.scatter.update(elements, buffer, index, None),)

        stage = Stage((), index, (Write(self.scatter.op.result, statements),))
        return self._nest(axes, stage, in_place=True)

    def _keys(self, keys: Value) -> Nest:
        """The destination of each update."""
        scatter, first, last = self.scatter, self.shared[0], self.shared[-1]
        shape, extents = scatter.x.shape, scatter.updates.shape
        rows = {a: loop(f"i{a}", shape[a]) for a in self.batching}
        numbers = {dim: loop(f"u{dim}", extents[dim]) for dim in self.numbered}
        found = {**{scatter.own[a]: row for a, row in rows.items()}, **numbers}
        index = index_of([found.get(dim) for dim in range(len(extents))])
        number = linearize(index_of(list(numbers.values())), tuple(extents[dim] for dim in numbers))
        to = self._row(rows) * self.count + number

        def statements(elements: ElementReader, buffer: Buffer) -> tuple[Stmt, ...]:
            k = elements.k
            places, mask = scatter.places(elements, index)
            between = tuple(0 if a in scatter.own else places[a] for a in range(first, last + 1))
            key = k.index(dtypes.int64, linearize(between, shape[first : last + 1]))
            if mask is not None:
                key = k.apply(Scalar.SELECT, [mask, key, k.index(dtypes.int64, self.span)], dtypes.int64)
            return (Store(buffer, to, k.cast(key, dtypes.uint32)),)

        return self._nest([*rows.values(), *numbers.values()], Stage((), index, (Write(keys, statements),)))

    def _row(self, axes: dict[int, Axis | None]) -> Dim:
        """The number of a row: an index of the batching axes."""
        shape = self.scatter.x.shape
        return linearize(index_of([axes[a] for a in self.batching]), tuple(shape[a] for a in self.batching))

    def _run_lengths(self, ordered: Value, lengths: Value) -> Nest:
        """Lengths of the runs of equal destinations, at the first place of each; 0 elsewhere."""
        rows = {a: loop(f"i{a}", self.scatter.x.shape[a]) for a in self.batching}
        place, step = loop("p", self.count), axis("b", self._steps(), AxisKind.FOLD)
        (at,) = index_of([place])
        base = self._row(rows) * self.count
        ends = tuple(Value(TensorType(dtypes.uint32, ())) for _ in range(2))

        def key(elements: ElementReader, at: Dim, mask: Expr | None = None) -> Expr:
            k = elements.k
            other = None if mask is None else k.const(dtypes.uint32, MOST)
            return k.load(elements.temporary(ordered), base + at, mask, other)

        def begins(elements: ElementReader) -> Expr:
            k, own = elements.k, key(elements, at)
            i = Integers(k, dtypes.uint32)
            before = key(elements, at - 1, i.less(0, at))
            inside = i.less(own, self.span)
            return k.both(k.apply(Scalar.NE, [own, before], dtypes.bool_), inside)

        def carries(elements: ElementReader) -> tuple[Carry, ...]:
            k = elements.k
            i = Integers(k, dtypes.uint32)
            low, high = Ref("low", dtypes.uint32), Ref("high", dtypes.uint32)
            open_ = i.less(low, high)
            middle = i(Scalar.ADD, low, i(Scalar.SHRL, i(Scalar.SUB, high, low), 1))
            other = key(elements, k.bind(k.cast(middle, dtypes.int64)), open_)
            equal = k.apply(Scalar.EQ, [other, key(elements, at)], dtypes.bool_)
            differs = k.apply(Scalar.NE, [other, key(elements, at)], dtypes.bool_)
            following = i.select(k.both(open_, equal), i(Scalar.ADD, middle, 1), low)
            until = i.select(k.both(open_, differs), middle, high)
            most = i.select(begins(elements), self.count, at + 1)
            return (
                Carry(Ref("end", dtypes.uint32), low, i.of(at + 1), following),
                Carry(Ref("most", dtypes.uint32), high, most, until),
            )

        def statements(elements: ElementReader, buffer: Buffer) -> tuple[Stmt, ...]:
            i = Integers(elements.k, dtypes.uint32)
            length = i(Scalar.SUB, elements.known[ends[0]](()), at)
            return (Store(buffer, base + at, i.select(begins(elements), length, 0)),)

        search = Stage((step,), ordered=(OrderedReduction(ends, carries),))
        return self._nest([*rows.values(), place], search, Stage(writes=(Write(lengths, statements),)))

    def _steps(self) -> Dim:
        """As many steps as bisection of all places takes, or a few more."""
        return 12 + 4 * dim_sum([Condition(self.count, (1 << bits) - 1, None).indicator() for bits in range(12, 32, 4)])

    def _folded(self, ordered: Value, places: Value, lengths: Value) -> Nest:
        """Each run of updates into its place, by a lane for each element of it."""
        scatter, result = self.scatter, self.scatter.op.result
        shape, extents, own, last = scatter.x.shape, scatter.updates.shape, scatter.own, self.shared[-1]
        axes, place = {a: loop(f"i{a}", shape[a]) for a in own}, loop("p", self.count)
        order = [*[axes[a] for a in own if a < last], place, *[axes[a] for a in own if a > last]]
        (at,) = index_of([place])
        base = self._row(axes) * self.count
        along = linearize(tuple(index_of([axes.get(a)])[0] for a in range(len(shape))), shape)

        def read(elements: ElementReader, memory: Value, at: Dim) -> Dim:
            k = elements.k
            return k.bind(k.cast(k.load(elements.temporary(memory), base + at), dtypes.int64))

        def to(elements: ElementReader) -> Dim:
            return read(elements, ordered, at) * product(shape[last + 1 :]) + along

        def index(elements: ElementReader, at: Dim) -> Index:
            rest, found = read(elements, places, at), {dim: index_of([axes[a]])[0] for a, dim in own.items()}
            for dim in reversed(self.numbered):
                found[dim] = mod(rest, extents[dim]) if dim != self.numbered[0] else rest
                rest = floordiv(rest, extents[dim]) if dim != self.numbered[0] else rest
            return tuple(found[dim] for dim in range(len(extents)))

        def length(elements: ElementReader) -> Dim:
            return read(elements, lengths, at)

        if scatter.combine() is None and not scatter.op.regions:  # the last one is what stays

            def final(elements: ElementReader, buffer: Buffer) -> tuple[Stmt, ...]:
                k, count = elements.k, length(elements)
                some = k.apply(Scalar.NE, [k.index(dtypes.int64, d) for d in (count, 0)], dtypes.bool_)
                from_ = index(elements, at + dim_max(count, 1) - 1)
                value = elements.at(scatter.updates, from_, some, k.const(result.dtype, 0))
                return (scatter.joined(k, buffer, to(elements), value, some),)

            return self._nest(order, Stage(writes=(Write(result, final),)), in_place=True)
        step = axis("j", self.count, AxisKind.FOLD)

        def each(elements: ElementReader, buffer: Buffer) -> tuple[Stmt, ...]:
            value = elements.at(scatter.updates, index(elements, at + as_dim(step.var)))
            return (scatter.joined(elements.k, buffer, to(elements), value, None),)

        return self._nest(
            order, Stage((step,), writes=(Write(result, each),), lengths={step.var: length}), in_place=True
        )


def _less(k: ExprBuilder, a: Sequence[Expr], b: Sequence[Expr]) -> Expr:
    return k.apply(Scalar.LT, [a[0], b[0]], dtypes.bool_)
