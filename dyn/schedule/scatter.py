"""SCATTER groups as kernels: a copy of the operand, and then the updates, put into it in their order.

Axes of the array along which every update has its own place (whole window axes and batching axes) are *dealt* to GRID
iterations, each of which copies its part of the array and then goes through all windows: no two of them meet, no
atomics are needed, and each place sees its updates in order. There are two forms:

* wide: all those axes are dealt, the last ones, such as the columns of an embedding's gradient, in chunks with lanes;
* narrow, where a chunk would hold all columns: only axes in front of the first that is not dealt are, so that a copy is
  one run over memory; lanes go along the columns, or else along the last window axis if that keeps the order, or else
  single elements are updated one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from dyn import dtypes
from dyn.errors import IRError
from dyn.ir.core import Value
from dyn.ir.opdef import Scatter
from dyn.ops.regions import region_values
from dyn.ops.scalar import Scalar
from dyn.ops.windows import Windows, clamped
from dyn.schedule.axes import Axis, axis, collapse, index_of, linearize, nest, split
from dyn.schedule.elements import Elements
from dyn.schedule.expressions import Rewriter, stmt_dims
from dyn.schedule.families import loop_schedule
from dyn.schedule.kernel import Buffer, Expr, Ref, Role, Stmt, Store, Update
from dyn.schedule.launch import Condition, Launch, Variant, bind_kernel
from dyn.schedule.target import Target
from dyn.shapes import Dim, Symbol, dim_max, product, substitute
from dyn.stitch.groups import Group, Plan


def lower_scatter(plan: Plan, group: Group, target: Target) -> Launch:
    """The launch of a scatter: the wide form, and before it what is quicker where its condition holds."""
    general = _ScatterLowering(plan, group, target, aligned=False, narrow=False)
    note = f"{group.kind.value} {group.name}"
    variants = [general.variant(note, None)]
    inputs = tuple(general.elements.inputs)
    apart, columns = general.apart(), general.columns()
    excess: list[Dim] = [] if columns is None else [dim_max(columns - loop_schedule(target).scattered, 0)]
    forms = [(apart, excess, True)] if excess else []
    if apart:
        forms.append((apart, [], False))
    for differences, more, narrow in reversed(forms):
        condition = Condition(dim_max(*differences, *more), 0, 0)
        decided = condition.decided(plan.function.facts)
        if decided is False:
            continue
        quick = _ScatterLowering(plan, group, target, aligned=bool(differences), narrow=narrow)
        stretched = ", nothing stretched" if differences else ""
        variant = quick.variant(f"{note}{stretched}{', narrow' if narrow else ''}", None if decided else condition)
        if tuple(quick.elements.inputs) == inputs:
            variants = [variant] if decided else [variant, *variants]
    return Launch(group, (*inputs, group.outputs[0]), tuple(variants))


@dataclass(frozen=True, slots=True)
class _Nest:
    """Loops to be, slowest first, around one statement; ``lanes`` says whether the last of them is a LANE loop."""

    axes: list[Axis]
    body: Stmt
    lanes: bool


class _ScatterLowering:
    def __init__(self, plan: Plan, group: Group, target: Target, *, aligned: bool, narrow: bool) -> None:
        self.plan, self.group, self.target = plan, group, target
        (self.op,) = group.ops
        loops = self.op.opdef.loops
        if not isinstance(loops, Scatter):
            raise IRError(f"{self.op.opdef.name} is no scatter")
        self.loops = loops
        self.x, self.updates = self.op.operands[0], loops.updates(self.op)
        self.windows: Windows
        self.starts: tuple[Value, ...]
        self.windows, self.starts = loops.windows(self.op)
        self.elements = Elements(plan, group, aligned=aligned)
        self.k = self.elements.k
        self.out = Buffer("out", self.op.result.dtype)
        self.extents: dict[Symbol, Dim] = {}
        self.batch = self.windows.batch_axes(len(self.updates.shape))
        #: The axis of the updates that runs along an axis of the array, where every update has its own place on it.
        self.own = self._own_places()
        shared = [a for a in range(len(self.x.shape)) if a not in self.own]
        self.dealt = [a for a in self.own if not (narrow and shared and a > shared[0])]

    def variant(self, note: str, condition: Condition | None) -> Variant:
        """The kernel of this form."""
        rank = len(self.x.shape)
        grid = {a: self._loop(f"i{a}", self.x.shape[a]) for a in self.dealt}
        copy, change = self._copy(grid), self._changes(grid)
        outer = [a for number in sorted(grid) if (a := grid[number]) is not None]
        outer, merged = collapse(outer, stmt_dims((copy.body, change.body)))
        lanes = None
        if rank and grid.get(rank - 1) is not None:  # it may have become part of a longer axis
            chunk, lanes, cut = split(outer[-1], loop_schedule(self.target).scattered)
            outer, merged = [*outer[:-1], chunk], _composed(merged, cut)
        phases = (*_nested(copy, merged, lanes), *_nested(change, merged, lanes))
        stmts = nest(outer, [Role.GRID] * len(outer), phases)
        buffers = (*self.elements.inputs.values(), self.out)
        return bind_kernel(stmts, buffers, (), name=self.group.name, condition=condition, note=note)

    def apart(self) -> list[Dim]:
        """Dims that are 0 where every axis that might be broadcast is as long as its loop; empty without such axes."""
        apart: list[Dim] = []
        for size, var in self.elements.stretched:
            if var is None or var not in self.extents:
                return []
            apart += [self.extents[var] - size, size - self.extents[var]]
        return apart

    def columns(self) -> Dim | None:
        """Number of elements behind the last axis that is not dealt; None where it is the last, or there is none."""
        rank = len(self.x.shape)
        shared = [a for a in range(rank) if a not in self.own]
        return product(self.x.shape[shared[-1] + 1 :]) if shared and shared[-1] + 1 < rank else None

    def _loop(self, name: str, extent: Dim) -> Axis | None:
        """A loop over an axis; none where its size is 1."""
        if extent == 1:
            return None
        made = axis(name, extent)
        self.extents[made.var] = extent
        return made

    def _own_places(self) -> dict[int, int]:
        found: dict[int, int] = {}
        facts, w = self.plan.function.facts, self.windows
        for a, dim in zip(w.axes, w.window_dims, strict=True):
            if a not in w.start_map and facts.eq(self.updates.shape[dim], self.x.shape[a]).proved:
                found[a] = dim
        for a, start_axis in zip(w.batching, w.start_batching, strict=True):
            found[a] = self.batch[w.batch_position(start_axis)]
        return dict(sorted(found.items()))

    def _copy(self, grid: dict[int, Axis | None]) -> _Nest:
        """The operand into the result."""
        own = {a: grid[a] if a in grid else self._loop(f"c{a}", d) for a, d in enumerate(self.x.shape)}
        index = index_of(list(own.values()))
        store = Store(self.out, linearize(index, self.x.shape), self.elements.at(self.x, index))
        rest = [a for number, a in own.items() if number not in grid and a is not None]
        axes, change = collapse(rest, stmt_dims((store,)))
        return _Nest(axes, _substituted(store, change), lanes=bool(axes))

    def _changes(self, grid: dict[int, Axis | None]) -> _Nest:
        """Each update into its place. Axes with places of their own may be innermost: their order does not matter."""
        w = self.windows
        free = {dim: a for a, dim in self.own.items()}
        loops = [
            grid[free[dim]] if free.get(dim) in grid else self._loop(f"u{dim}", size)
            for dim, size in enumerate(self.updates.shape)
        ]
        update = self._update(index_of(loops))
        ordered = [a for dim, a in enumerate(loops) if dim not in free and a is not None]
        inner = [a for dim in self.own.values() if free[dim] not in grid and (a := loops[dim]) is not None]
        inner, merged = collapse(inner, stmt_dims((update,)))
        if inner:
            return _Nest([*ordered, *inner], _substituted(update, merged), lanes=max(self.own) == w.rank - 1)
        last = loops[w.window_dims[-1]] if w.axes and w.axes[-1] == w.rank - 1 else None
        return _Nest(ordered, update, lanes=bool(ordered) and ordered[-1] is last)

    def _update(self, index: tuple[Dim, ...]) -> Update:
        """The update at an index of the updates."""
        x, w, k = self.x, self.windows, self.k
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
            value = w.counted(k, self.elements.at(start, at), start.dtype, size)
            if self.loops.clamp:
                value = clamped(k, value, size - window)
            elif window != 1:  # brought near the axis, so that nothing overflows: what lay outside still does
                value = k.apply(Scalar.MIN, [value, k.index(dtypes.int64, size)], dtypes.int64)
                value = k.apply(Scalar.MAX, [value, k.index(dtypes.int64, -window)], dtypes.int64)
            places[a] = places[a] + k.bind(value)
            if not self.loops.clamp:
                inside = self._inside(places[a], size)
                mask = inside if mask is None else k.both(mask, inside)
        value = self.elements.at(self.updates, index)
        place = linearize(tuple(places), x.shape)
        if not self.op.regions:
            return k.update(self.out, place, self.loops.combine(self.op.attrs), value, mask)
        state = Ref("old", x.dtype)
        (value,) = region_values(k, self.op.regions[0], [state, value])
        return k.update(self.out, place, None, value, mask, state)

    def _inside(self, place: Dim, size: Dim) -> Expr:
        """Whether a place is one of an axis: as an unsigned number a negative one is greater than any size."""
        k = self.k
        unsigned = [k.cast(k.index(dtypes.int64, d), dtypes.uint64) for d in (place, size)]
        return k.apply(Scalar.LT, unsigned, dtypes.bool_)


def _nested(loops: _Nest, change: dict[Symbol, Dim], lanes: Axis | None) -> tuple[Stmt, ...]:
    """The loops of one phase, around ``lanes`` where those are given."""
    axes = loops.axes if lanes is None else [*loops.axes, lanes]
    roles = [Role.SERIAL] * len(axes)
    if axes and (lanes is not None or loops.lanes):
        roles[-1] = Role.LANE
    return nest(axes, roles, (_substituted(loops.body, change),))


def _composed(first: dict[Symbol, Dim], then: dict[Symbol, Dim]) -> dict[Symbol, Dim]:
    """One substitution after another."""
    return {s: substitute(d, then) if not isinstance(d, int) else d for s, d in first.items()} | then


def _substituted(stmt: Stmt, change: dict[Symbol, Dim]) -> Stmt:
    return Rewriter(lambda dim: substitute(dim, change)).stmt(stmt) if change else stmt
