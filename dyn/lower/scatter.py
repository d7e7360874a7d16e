"""SCATTER groups as kernels: a copy of the operand, and then the updates, combined into it in their order.

Axes of the array along which every update has its own place (whole window axes and batching axes) are dealt to GRID
iterations, each of which copies its part of the array and then goes through all windows: so no two of them meet, no
atomics are needed, and each place sees its updates in order. A last axis of that sort, such as the columns of an
embedding's gradient, is cut in chunks with lanes along it; where it is not, lanes run along the last window axis if
that keeps the order, and single elements are updated one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from dyn import dtypes
from dyn.ir.core import Op
from dyn.ir.opdef import Scatter
from dyn.lower.elements import Elements
from dyn.lower.expressions import Rewriter, stmt_dims
from dyn.lower.kernel import Buffer, Expr, Role, Stmt, Store
from dyn.lower.launch import Launch, bind_kernel
from dyn.lower.nest import Axis, axis, collapse, index_of, linearize, nest, split
from dyn.lower.schedule import loop_schedule
from dyn.lower.target import Target
from dyn.ops.scalar import Scalar
from dyn.ops.windows import Windows
from dyn.shapes import Dim, Symbol, substitute
from dyn.stitch.groups import Group, Plan


def lower_scatter(plan: Plan, group: Group, target: Target) -> Launch:
    """The launch of a scatter."""
    return _ScatterLowering(plan, group, target).run()


@dataclass(frozen=True, slots=True)
class _Nest:
    """Loops to be, slowest first, around one statement; ``lanes`` says whether the last of them is a LANE loop."""

    axes: list[Axis]
    body: Stmt
    lanes: bool


class _ScatterLowering:
    def __init__(self, plan: Plan, group: Group, target: Target) -> None:
        self.plan, self.group, self.target = plan, group, target
        (self.op,) = group.ops
        self.x, *self.starts, self.updates = self.op.operands
        self.windows = _windows(self.op)
        self.elements = Elements(plan, group)
        self.k = self.elements.k
        self.out = Buffer("out", self.op.result.dtype)
        self.batch = self.windows.batch_axes(len(self.updates.shape))
        #: The axis of the updates that runs along an axis of the array, for those that are dealt to the GRID.
        self.dealt = self._dealt()

    def run(self) -> Launch:
        rank = len(self.x.shape)
        grid: dict[int, Axis | None] = {a: _loop(f"i{a}", self.x.shape[a]) for a in self.dealt}
        copy, change = self._copy(grid), self._changes(grid)
        columns = grid.get(rank - 1) if rank else None
        outer = [a for number in sorted(grid) if (a := grid[number]) is not None]
        outer, merged = collapse(outer, stmt_dims((copy.body, change.body)))
        inner = None
        if columns is not None:  # the last of the axes that are left: it may have become part of a longer one
            chunk, inner, cut = split(outer[-1], loop_schedule(self.target).columns)
            outer, merged = [*outer[:-1], chunk], _composed(merged, cut)
        phases = (*self._loops(copy, merged, inner), *self._loops(change, merged, inner))
        stmts = nest(outer, [Role.GRID] * len(outer), phases)
        buffers = (*self.elements.inputs.values(), self.out)
        note = f"{self.group.kind.value} {self.group.name}"
        variant = bind_kernel(stmts, buffers, (), name=self.group.name, note=note)
        return Launch(self.group, (*self.elements.inputs, self.op.result), (variant,))

    def _dealt(self) -> dict[int, int]:
        """Axes of the array on which an update's place is that of the update: the same for every window."""
        found: dict[int, int] = {}
        facts, w = self.plan.function.facts, self.windows
        for a, dim in zip(w.axes, w.window_dims, strict=True):
            if a not in w.start_map and facts.eq(self.updates.shape[dim], self.x.shape[a]).proved:
                found[a] = dim
        for a, start_axis in zip(w.batching, w.start_batching, strict=True):
            found[a] = self.batch[w.batch_position(start_axis)]
        return found

    def _copy(self, grid: dict[int, Axis | None]) -> _Nest:
        """The operand into the result."""
        own = {a: grid[a] if a in grid else _loop(f"c{a}", d) for a, d in enumerate(self.x.shape)}
        index = index_of([own[a] for a in sorted(own)])
        store = Store(self.out, linearize(index, self.x.shape), self.elements.at(self.x, index))
        axes, change = collapse([a for n, a in own.items() if n not in grid and a is not None], stmt_dims((store,)))
        return _Nest(axes, _substituted(store, change), lanes=bool(axes))

    def _changes(self, grid: dict[int, Axis | None]) -> _Nest:
        """Each update into its place."""
        x, w, k = self.x, self.windows, self.k
        own = {dim: grid[a] for a, dim in self.dealt.items()}
        loops = [own[dim] if dim in own else _loop(f"u{dim}", size) for dim, size in enumerate(self.updates.shape)]
        index = index_of(loops)
        batch = tuple(index[dim] for dim in self.batch)
        places: list[Dim] = [0] * w.rank
        for a, dim in (*zip(w.axes, w.window_dims, strict=True), *self.dealt.items()):
            places[a] = index[dim]
        inside: list[Expr] = []
        for component, a in enumerate(w.start_map):
            window = self.updates.shape[w.window_dims[w.axes.index(a)]] if a in w.axes else 1
            which, at = w.start_place(len(self.starts[0].shape), batch, component)
            start = self.starts[which]
            value = w.counted(k, self.elements.at(start, at), start.dtype, x.shape[a])
            # Brought near the axis, so that nothing overflows: what lay outside still does.
            value = k.apply(Scalar.MIN, [value, k.index(dtypes.int64, x.shape[a])], dtypes.int64)
            value = k.apply(Scalar.MAX, [value, k.index(dtypes.int64, -window)], dtypes.int64)
            places[a] = places[a] + k.bind(value)
            place = k.index(dtypes.int64, places[a])
            inside.append(k.apply(Scalar.GE, [place, k.const(dtypes.int64, 0)], dtypes.bool_))
            inside.append(k.apply(Scalar.LT, [place, k.index(dtypes.int64, x.shape[a])], dtypes.bool_))
        mask = inside[0] if inside else None
        for condition in inside[1:]:
            mask = condition if mask is None else k.both(mask, condition)
        value = self.elements.at(self.updates, index)
        update = k.update(self.out, linearize(tuple(places), x.shape), _combine(self.op), value, mask)
        axes = [a for dim, a in enumerate(loops) if dim not in own and a is not None]
        return _Nest(axes, update, lanes=bool(axes) and axes[-1] is self._last_window_axis(loops))

    def _last_window_axis(self, loops: list[Axis | None]) -> Axis | None:
        """The loop whose iterations write neighbours in the result, if there is one."""
        w = self.windows
        return loops[w.window_dims[-1]] if w.axes and w.axes[-1] == w.rank - 1 else None

    def _loops(self, loops: _Nest, change: dict[Symbol, Dim], lanes: Axis | None) -> tuple[Stmt, ...]:
        """The loops of one phase, around ``lanes`` where those are given."""
        axes = loops.axes if lanes is None else [*loops.axes, lanes]
        roles = [Role.SERIAL] * len(axes)
        if axes and (lanes is not None or loops.lanes):
            roles[-1] = Role.LANE
        return nest(axes, roles, (_substituted(loops.body, change),))


def _windows(op: Op) -> Windows:
    return Windows.of_scatter(op.attrs, len(op.result.shape))


def _combine(op: Op) -> Scalar | None:
    loops = op.opdef.loops
    assert isinstance(loops, Scatter)
    return loops.combine(op.attrs)


def _loop(name: str, extent: Dim) -> Axis | None:
    """A loop over an axis; none where its size is 1."""
    return None if extent == 1 else axis(name, extent)


def _composed(first: dict[Symbol, Dim], then: dict[Symbol, Dim]) -> dict[Symbol, Dim]:
    """One substitution after another."""
    return {s: substitute(d, then) if not isinstance(d, int) else d for s, d in first.items()} | then


def _substituted(stmt: Stmt, change: dict[Symbol, Dim]) -> Stmt:
    return Rewriter(lambda dim: substitute(dim, change)).stmt(stmt) if change else stmt
