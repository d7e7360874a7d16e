"""LOOP, COPY and STITCH groups as kernels.

A group without reductions is one loop nest. A stitched one makes the sweeps that ``dyn.schedule.sweeps`` deals out: a
GRID iteration a row with lanes along it where the last axis is reduced, and lanes side by side, each sweeping its
column, where the last axis is kept. Reductions in order are swept by lanes side by side wherever their axes lie: a lane
has all that one result is made of.
"""

from __future__ import annotations

from collections.abc import Callable

from dyn.ir.core import Op, Value
from dyn.ir.opdef import OpKind, OrderedReduction, Reduction
from dyn.ops.complex_parts import part_dtype
from dyn.ops.reduce import identity
from dyn.schedule.axes import Axis, axis, collapse, fold_nest, index_of, linearize, nest, split
from dyn.schedule.elements import Elements, Index
from dyn.schedule.expressions import Rewriter, stmt_dims
from dyn.schedule.families import loop_schedule
from dyn.schedule.kernel import Buffer, Carry, Expr, Fold, Loop, Ref, Role, Space, Stmt, Store
from dyn.schedule.launch import Condition, Launch, Variant, bind_kernel
from dyn.schedule.regions import ordered_carries
from dyn.schedule.sweeps import Sweep, Sweeps
from dyn.schedule.target import Target
from dyn.shapes import Dim, Symbol, dim_max, product, substitute
from dyn.stitch.access import Views, as_index, axis_symbols
from dyn.stitch.groups import Group, Plan


def lower_loops(plan: Plan, group: Group, target: Target) -> Launch:
    """The launch of a group without a contraction."""
    return LoopLowering(plan, group, target).run()


class LoopLowering:
    """Kernels of a group without a contraction: loops over its space, elements, stores, folds."""

    def __init__(
        self, plan: Plan, group: Group, target: Target, *, aligned: bool = False, one_by_one: bool = False
    ) -> None:
        self.one_by_one = one_by_one
        self.plan = plan
        self.group = group
        self.target = target
        self.elements = Elements(plan, group, aligned=aligned)
        self.extents: dict[Symbol, Dim] = {}
        self.k = self.elements.k
        self.outputs = {v: Buffer("out", part_dtype(v.dtype)) for v in group.outputs}
        self.scratch: dict[Value, Buffer] = {}
        self.space = group.space
        self.reduced = sorted(group.reduced)
        self.kept_axes = [a for a in range(len(self.space)) if a not in group.reduced]
        self.axes: list[Axis | None] = [None] * len(self.space)
        for a in self.kept_axes:
            self.axes[a] = self.make_axis(f"i{a}", self.space[a])
        by_rows = bool(self.reduced) and self.reduced[-1] == len(self.space) - 1
        self.ordered = is_ordered(group)
        scratch = by_rows and not self.ordered
        self.sweeps = Sweeps(plan, group, scratch=scratch) if self.reduced or self.ordered else None

    # Code -----------------------------------------------------------------------------------------------------

    def run(self) -> Launch:
        """One kernel; where a broadcast is undecided, a quick one for sizes that agree as well; and one for few rows
        that are reduced in order."""
        note = f"{self.group.kind.value} {self.group.name}"
        variants = (self._variant(note, None),)
        inputs = tuple(self.elements.inputs)
        agree = self._agreement()
        if agree is not None:
            quick = LoopLowering(self.plan, self.group, self.target, aligned=True)
            first = quick._variant(f"{note}, nothing stretched", agree)
            if tuple(quick.elements.inputs) == inputs:
                variants = (first, *variants)
        few = self._few_rows()
        decided = False if few is None else few.decided(self.plan.function.facts)
        if decided is not False:
            serial = LoopLowering(self.plan, self.group, self.target, one_by_one=True)
            first = serial._variant(f"{note}, one by one", None if decided else few)
            if tuple(serial.elements.inputs) == inputs:
                variants = (first,) if decided else (first, *variants)
        return Launch(self.group, (*inputs, *self.outputs), variants)

    def _agreement(self) -> Condition | None:
        """Condition that every axis that might be broadcast is as long as its loop; None without one, or no telling."""
        apart: list[Dim] = []
        for size, var in self.elements.stretched:
            if var is None or var not in self.extents:
                return None
            apart += [self.extents[var] - size, size - self.extents[var]]
        return Condition(dim_max(*apart), 0, 0) if apart else None

    def _few_rows(self) -> Condition | None:
        """Condition that rows are too few for lanes side by side; None where that makes no difference."""
        few, last = loop_schedule(self.target).few_rows, len(self.space) - 1
        if not self.ordered or not few or last not in self.group.reduced:
            return None
        return Condition(product(self.space[a] for a in self.kept_axes), 0, few - 1)

    def make_axis(self, name: str, extent: Dim) -> Axis | None:
        """A loop over an axis of the space; none where its size is 1."""
        if extent == 1:
            return None
        made = axis(name, extent)
        self.extents[made.var] = extent
        return made

    def _variant(self, note: str, condition: Condition | None) -> Variant:
        if self.sweeps is None:
            body = self._loop()
        elif self.ordered:
            body = self._side_by_side(self.sweeps)
        elif self.reduced[-1] == len(self.space) - 1:
            body = self._rows(self.sweeps)
        else:
            body = self._columns(self.sweeps)
        inputs = self.elements.inputs
        buffers = (*inputs.values(), *self.outputs.values())
        used = tuple(self.scratch.values())
        return bind_kernel(body, buffers, used, name=self.group.name, condition=condition, note=note)

    def stores(self, value: Value, index: Index) -> tuple[Store, ...]:
        return permuted_stores(self.elements, self.outputs[value], value, index)

    def _loop(self) -> tuple[Stmt, ...]:
        index = index_of(self.axes)
        body: tuple[Stmt, ...] = tuple(store for v in self.group.outputs for store in self.stores(v, index))
        axes, change = collapse([a for a in self.axes if a is not None], stmt_dims(body))
        body = substituted(body, change)
        if not axes:
            return body
        if len(axes) == 1:
            outer, inner, change = split(axes[0], loop_schedule(self.target).elements)
            return nest([outer, inner], [Role.GRID, Role.LANE], substituted(body, change))
        return nest(axes, [Role.GRID] * (len(axes) - 1) + [Role.LANE], body)

    def _rows(self, sweeps: Sweeps) -> tuple[Stmt, ...]:
        """The last axis is reduced: a GRID iteration a row, lanes along it."""
        size = product(self.space[a] for a in self.reduced)
        self.scratch = {v: Buffer("row", v.dtype, Space.SCRATCH, size) for s in sweeps.sweeps for v in s.kept}
        body = [stmt for sweep in sweeps.sweeps for stmt in self._sweep(sweep, Role.LANE)]
        body += self.row_stores(sweeps)
        grid, change = collapse([a for a in self.axes if a is not None], stmt_dims(tuple(body)))
        return nest(grid, [Role.GRID] * len(grid), substituted(tuple(body), change))

    def _columns(self, sweeps: Sweeps) -> tuple[Stmt, ...]:
        """The last axis is kept: lanes along it, each sweeping the reduced axes."""
        last = self.axes[-1] or axis("i", 1)
        body: list[Stmt] = []
        for sweep in sweeps.sweeps:
            body += self._sweep(sweep, Role.SERIAL)
        body += self.row_stores(sweeps)
        outer, inner, change = split(last, loop_schedule(self.target).columns)
        stmts = substituted(tuple(body), change)
        grid = [a for a in self.axes[:-1] if a is not None]
        return nest([*grid, outer, inner], [Role.GRID] * (len(grid) + 1) + [Role.LANE], stmts)

    def _side_by_side(self, sweeps: Sweeps) -> tuple[Stmt, ...]:
        """Reductions in order: a lane a result, each sweeping its own elements."""
        body = [stmt for sweep in sweeps.sweeps for stmt in self._sweep(sweep, Role.SERIAL)]
        body += self.row_stores(sweeps)
        kept, change = collapse([a for a in self.axes if a is not None], stmt_dims(tuple(body)))
        stmts = substituted(tuple(body), change)
        if not kept or self.one_by_one:
            return nest(kept, [Role.GRID] * len(kept), stmts)
        outer, inner, cut = split(kept[-1], loop_schedule(self.target).columns)
        roles = [Role.GRID] * len(kept) + [Role.LANE]
        return nest([*kept[:-1], outer, inner], roles, substituted(stmts, cut))

    def _sweep(self, sweep: Sweep, inner: Role) -> list[Stmt]:
        """One pass over the reduced axes."""
        if not sweep:
            return []
        own: dict[int, Axis | None] = {}
        for a in self.reduced:
            own[a] = self.make_axis(f"r{a}", self.space[a])
        loops = [own.get(a, self.axes[a]) for a in range(len(self.space))]
        index = index_of(loops)
        place = linearize(tuple(index[a] for a in self.reduced), tuple(self.space[a] for a in self.reduced))
        stmts: list[Stmt] = [Store(self.scratch[v], place, self.elements.at(v, index)) for v in sweep.kept]
        stmts += [store for v in sweep.stored for store in self.stores(v, index)]
        ordered = [op for op in sweep.reduces if isinstance(op.opdef.loops, OrderedReduction)]
        monoids = [op for op in sweep.reduces if op not in ordered]
        folds = tuple(self.fold(op, index) for op in monoids)
        carries = tuple(carry for op in ordered for carry in self._carries(op, index))
        for value in sweep.kept:
            self.elements.known[value] = self._from_scratch(self.scratch[value])
        dims = stmt_dims((*stmts, Loop(inner, axis("x", 1).var, 1, (), folds, carries)))
        axes, change = collapse([a for a in own.values() if a is not None] or [axis("r", 1)], dims)
        rewriter = _substituter(change)
        body = rewriter.block(tuple(stmts))
        done, outer = fold_nest(axes, inner, body, rewriter.folds(folds), rewriter.carries(carries))
        for op, fold in zip(monoids, outer, strict=True):
            result = self.k.cast(fold.ref, op.result.dtype)
            self.elements.known[op.result] = constantly(result)
        for result, carry in zip((v for op in ordered for v in op.results), carries, strict=True):
            self.elements.known[result] = constantly(carry.ref)
        return list(done)

    def _carries(self, op: Op, index: Index) -> tuple[Carry, ...]:
        """A reduction in order of what its operands have at an index."""
        count, (body,) = len(op.results), op.regions
        elements = [self.elements.at(v, index) for v in op.operands[:count]]
        inits = [self.elements.at(v, ()) for v in op.operands[count:]]
        return ordered_carries(self.k, body, inits, elements)

    def fold(self, op: Op, index: Index) -> Fold:
        """A reduction of what its operand has at an index."""
        return self.fold_of(op, self.elements.at(op.operands[0], index))

    def fold_of(self, op: Op, value: Expr) -> Fold:
        """A reduction of a value, with the monoid of an op."""
        dtype = op.result.dtype
        wide = dtype.wide
        loops = op.opdef.loops
        assert isinstance(loops, Reduction)
        init = self.k.const(wide, identity(op.attrs["combine"], wide))
        return Fold(Ref("acc", wide), loops.combine(op.attrs), init, self.k.cast(value, wide))

    def _from_scratch(self, buffer: Buffer) -> Callable[[Index], Expr]:
        def read(index: Index) -> Expr:
            shape = tuple(self.space[a] for a in self.reduced)
            return self.k.load(buffer, linearize(tuple(index[a] for a in self.reduced), shape))

        return read

    def row_stores(self, sweeps: Sweeps) -> list[Stmt]:
        """Row values that are outputs, once all passes are done."""
        stores: list[Stmt] = []
        for value in self.group.outputs:
            if sweeps.is_full(value):
                continue
            kept = index_of([self.axes[a] for a in self.kept_axes])
            if len(value.shape) != len(kept):
                kept = index_of([self.axes[a] if a in self.kept_axes else None for a in range(len(self.space))])
            stores += self.elements.stores(self.outputs[value], linearize(kept, value.shape), value, kept)
        return stores


def is_ordered(group: Group) -> bool:
    """Whether a group has a reduction whose order counts."""
    return any(isinstance(op.opdef.loops, OrderedReduction) for op in group.ops)


def permuted_stores(elements: Elements, buffer: Buffer, value: Value, index: Index) -> tuple[Store, ...]:
    """Store a full-size member, or a view that permutes one, at an index of the group's space."""
    op = elements.members[value]
    if op.opdef.kind is not OpKind.VIEW or elements.group.ops == (op,):
        return elements.stores(buffer, linearize(index, value.shape), value, index)
    symbols = axis_symbols(value.shape)
    views = Views(elements.producers, lambda v: v in elements.members and v is not value)
    base, at = views.chain(value, as_index(symbols))
    places = {dim: index[position] for position, dim in enumerate(at)}
    own = tuple(places.get(variable, 0) for variable in as_index(symbols))
    return elements.stores(buffer, linearize(own, value.shape), base, index)


def constantly(expr: Expr) -> Callable[[Index], Expr]:
    return lambda index: expr


def _substituter(change: dict[Symbol, Dim]) -> Rewriter:
    return Rewriter((lambda dim: substitute(dim, change)) if change else (lambda dim: dim))


def substituted(body: tuple[Stmt, ...], change: dict[Symbol, Dim]) -> tuple[Stmt, ...]:
    return _substituter(change).block(body) if change else body
