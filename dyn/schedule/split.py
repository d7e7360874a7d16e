"""Reductions of many elements into few results, in parts.

A GRID iteration for each result would leave all cores but one idle, and add up millions of numbers one after the
other. Here each sweep of the group becomes two launches: one folds parts of the reduced axes, as many as the shape and
the target say, the other folds the parts' results. As in a pairwise sum the error grows with the length of a part and
the number of parts, not with their product (Higham, "The accuracy of floating point summation", 1993); and the order
is the same however many threads there are.

Up to the size of one part the group is the single kernel that it would have been, as is one that reduces in order.
Groups with several sweeps, which keep rows on the chip, are cut only where they have no kept axes at all; others
wherever there are many elements.
"""

from __future__ import annotations

from dataclasses import dataclass

from dyn.ir.core import Op, Value
from dyn.ir.types import TensorType
from dyn.schedule.axes import Axis, axis, collapse, fold_nest, index_of, linearize, nest, split
from dyn.schedule.expressions import Rewriter, stmt_dims
from dyn.schedule.families import loop_schedule
from dyn.schedule.kernel import Buffer, Expr, Fold, Loop, Role, Stmt, Store
from dyn.schedule.launch import Condition, Launch, bind_kernel
from dyn.schedule.loops import LoopLowering, constantly, is_ordered, lower_loops, substituted
from dyn.schedule.sweeps import Sweep, Sweeps
from dyn.schedule.target import Target
from dyn.shapes import Dim, Symbol, as_dim, dim_max, dim_min, floordiv, product, substitute
from dyn.stitch.groups import Group, Plan


def lower_reductions(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launches of a group with reductions."""
    whole = lower_loops(plan, group, target)
    if is_ordered(group):
        return (whole,)
    parts = _Parts(plan, group, target)
    conditions = parts.conditions()
    if conditions is None:
        return (whole,)
    when, otherwise = conditions
    decided = when.decided(plan.function.facts)
    if decided is False:
        return (whole,)
    launches = parts.launches(when)
    if decided:
        return tuple(_always(launch) for launch in launches)
    return (Launch(group, whole.buffers, whole.variants, when=otherwise), *launches)


def _always(launch: Launch) -> Launch:
    return Launch(launch.group, launch.buffers, launch.variants, launch.temporaries)


@dataclass(frozen=True, slots=True)
class _Result:
    """Results of a reduction in memory: those of its parts, side by side for each kept element, and the whole one."""

    parts: Value
    whole: Value


class _Parts:
    def __init__(self, plan: Plan, group: Group, target: Target) -> None:
        self.plan, self.group, self.target = plan, group, target
        self.schedule = loop_schedule(target)
        self.sweeps = Sweeps(plan, group, scratch=False)
        space, reduced = group.space, sorted(group.reduced)
        self.size = product(space[a] for a in reduced)
        kept = [space[a] for a in range(len(space)) if a not in group.reduced]
        self.kept = product(kept)
        self.alone = all(d == 1 for d in kept)
        #: Whether lanes lie along the reduced axes.
        self.by_rows = self.alone or reduced[-1] == len(space) - 1
        self.results: dict[Op, _Result] = {}

    def conditions(self) -> tuple[Condition, Condition] | None:
        """The conditions that parts pay, and that they do not; None if they never do."""
        used = [sweep for sweep in self.sweeps.sweeps if sweep]
        simple = len(used) == 1 and not used[0].stored
        cuts = self.schedule
        if not cuts.part or not (self.alone or simple):
            return None
        if self.by_rows:
            return Condition(self.size, cuts.part + 1, None), Condition(self.size, 0, cuts.part)
        many = dim_min(self.size - cuts.many_rows, cuts.few_columns - self.kept)
        few = dim_max(cuts.many_rows - 1 - self.size, self.kept - cuts.few_columns - 1)
        return Condition(many, 0, None), Condition(few, 0, None)

    def launches(self, when: Condition) -> tuple[Launch, ...]:
        """Two launches for each sweep that reduces, one for each that only stores."""
        launches: list[Launch] = []
        sweeps = [sweep for sweep in self.sweeps.sweeps if sweep]
        last = max(number for number, sweep in enumerate(sweeps) if sweep.reduces)
        for number, sweep in enumerate(sweeps):
            launches.append(self._parts(sweep, when))
            if sweep.reduces:
                more = number < len(sweeps) - 1
                launches.append(self._joined(sweep, when, rows=number == last, more=more))
        return tuple(launches)

    # The two kernels ------------------------------------------------------------------------------------------

    def _parts(self, sweep: Sweep, when: Condition) -> Launch:
        """Each part's folds, and the full-size values that are stored in the same pass."""
        kernel = _Kernel(self)
        one = kernel.one
        own = {a: one.make_axis(f"r{a}", one.space[a]) for a in one.reduced}
        index = index_of([own.get(a, one.axes[a]) for a in range(len(one.space))])
        stmts: tuple[Stmt, ...] = tuple(store for v in sweep.stored for store in one.stores(v, index))
        folds = tuple(one.fold(op, index) for op in sweep.reduces)
        dims = stmt_dims((*stmts, Loop(Role.LANE, axis("x", 1).var, 1, (), folds)))
        axes, change = collapse([a for a in own.values() if a is not None] or [axis("r", 1)], dims)
        chunk, inside, cut = self._cut(axes)
        rewriter = Rewriter(lambda dim: substitute(substitute(dim, change), cut))
        body = rewriter.block(stmts)
        folds = tuple(Fold(f.ref, f.combine, f.init, rewriter.expr(f.value)) for f in folds)
        done, outer = fold_nest([inside, *axes[1:]], Role.LANE if self.by_rows else Role.SERIAL, body, folds)
        stores: list[Stmt] = []
        for op, fold in zip(sweep.reduces, outer, strict=True):
            shape = (self.kept, chunk.extent)
            result = _Result(*(Value(TensorType(fold.ref.dtype, s)) for s in (shape, (self.kept,))))
            self.results[op] = result
            place = kernel.kept_place() * chunk.extent + as_dim(chunk.var)
            stores.append(Store(kernel.buffer(result.parts), place, fold.ref))
        temporaries = tuple(self.results[op].parts for op in sweep.reduces)
        return kernel.launch((*done, *stores), chunk, self.by_rows, sweep.stored, temporaries, when, "parts")

    def _cut(self, axes: list[Axis]) -> tuple[Axis, Axis, dict[Symbol, Dim]]:
        """The outermost reduced axis in parts of as many steps as make the schedule's elements, or rows."""
        first, inner = axes[0], product(a.extent for a in axes[1:])
        steps = self.schedule.part if self.by_rows else self.schedule.part_rows
        per: Dim = steps if inner == 1 else dim_max(floordiv(steps, dim_max(inner, 1)), 1)
        chunk = axis("p", floordiv(first.extent + per - 1, per))
        inside = axis(first.var.name, dim_min(per, first.extent - as_dim(chunk.var) * per))
        return chunk, inside, {first.var: as_dim(chunk.var) * per + as_dim(inside.var)}

    def _joined(self, sweep: Sweep, when: Condition, *, rows: bool, more: bool) -> Launch:
        """The parts' results folded, and with ``rows`` what is computed from all results of the group."""
        kernel = _Kernel(self)
        one = kernel.one
        part = axis("p", self.results[sweep.reduces[0]].parts.shape[1])
        folds: list[Fold] = []
        for op in sweep.reduces:
            place = kernel.kept_place() * part.extent + as_dim(part.var)
            folds.append(one.fold_of(op, one.k.load(kernel.buffer(self.results[op].parts), place)))
        done, outer = fold_nest([part], Role.LANE, (), tuple(folds))
        stores: list[Stmt] = []
        for op, fold in zip(sweep.reduces, outer, strict=True):
            kernel.know(op, fold.ref)
            if more:
                stores.append(Store(kernel.buffer(self.results[op].whole), kernel.kept_place(), fold.ref))
        outputs = [v for v in self.group.outputs if rows and not self.sweeps.is_full(v)]
        if rows:
            stores += one.row_stores(self.sweeps)
        temporaries = tuple(self.results[op].whole for op in sweep.reduces) if more else ()
        return kernel.launch((*done, *stores), None, True, outputs, temporaries, when, "parts joined")


class _Kernel:
    """One kernel of a group in parts: the results of earlier ones are loaded."""

    def __init__(self, parts: _Parts) -> None:
        self.parts = parts
        self.one = LoopLowering(parts.plan, parts.group, parts.target)
        self.buffers: dict[Value, Buffer] = {}
        for op, result in parts.results.items():
            self._know_loaded(op, result.whole)

    def _know_loaded(self, op: Op, whole: Value) -> None:
        """Have an op's result read from memory, where an earlier launch left it."""
        one = self.one

        def load(index: object) -> Expr:
            return one.k.cast(one.k.load(self.buffer(whole), self.kept_place()), op.result.dtype)

        one.elements.known[op.result] = load

    def know(self, op: Op, value: Expr) -> None:
        self.one.elements.known[op.result] = constantly(self.one.k.cast(value, op.result.dtype))

    def kept_place(self) -> Dim:
        """Number of this iteration's kept element among all."""
        one = self.one
        return linearize(index_of([one.axes[a] for a in one.kept_axes]), tuple(one.space[a] for a in one.kept_axes))

    def buffer(self, value: Value) -> Buffer:
        return self.buffers.setdefault(value, Buffer("parts", value.dtype))

    def launch(
        self,
        body: tuple[Stmt, ...],
        chunk: Axis | None,
        by_rows: bool,
        outputs: list[Value],
        temporaries: tuple[Value, ...],
        when: Condition,
        note: str,
    ) -> Launch:
        """The kernel with its GRID around it: the kept axes and the parts; columns as lanes where they are kept."""
        one = self.one
        grid = [a for a in one.axes if a is not None]
        if not by_rows:
            outer, inner, cut = split(grid.pop(), loop_schedule(self.parts.target).columns)
            body = nest([inner], [Role.LANE], substituted(body, cut))
            grid.append(outer)
        grid += [chunk] if chunk is not None else []
        stmts = nest(grid, [Role.GRID] * len(grid), body)
        buffers = {**one.elements.inputs, **self.buffers, **{v: one.outputs[v] for v in outputs}}
        group = self.parts.group
        variant = bind_kernel(stmts, tuple(buffers.values()), (), name=group.name, note=f"{group.name}, {note}")
        return Launch(group, tuple(buffers), (variant,), temporaries, when)
