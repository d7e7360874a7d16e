"""Reductions of many elements into few results, in parts.

A GRID iteration for each result would leave all cores but one idle, and add up millions of numbers one after the
other. Here each sweep of the group becomes two launches: one folds parts of the reduced axes, as many as the shape and
the target say, the other folds the parts' results. As in a pairwise sum the error grows with the length of a part and
the number of parts, not with their product (Higham, "The accuracy of floating point summation", 1993); and the order
is the same however many threads there are.

Up to the size of one part the group is the single kernel that it would have been, as is one that reduces in order.
Groups with several sweeps, which keep rows on the chip, are cut only where there are few rows; others wherever there
are many elements. What such a kernel would keep on the chip lies in memory then, as large as the rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dyn.ir.core import Op, Value
from dyn.ir.types import TensorType
from dyn.schedule.axes import Axis, AxisKind, axis, index_of, linearize
from dyn.schedule.elements import Elements, Index
from dyn.schedule.kernel import Buffer, Fold, Ref, Stmt, Store
from dyn.schedule.launch import Condition, Launch
from dyn.schedule.loops import Loops, Memory
from dyn.schedule.nest import Nest, Reduction, Stage, Write
from dyn.schedule.nests import fold_of, loop, present, row_write, stretched_stage, sweep_stage
from dyn.schedule.sizes import LoopSchedule
from dyn.schedule.sweeps import Sweep, Sweeps
from dyn.shapes import Dim, as_dim, dim_max, dim_min, floordiv, product
from dyn.stitch.groups import Group, Plan


@dataclass(frozen=True, slots=True)
class _Result:
    """Results of a reduction in memory: those of its parts, side by side for each kept element, and the whole one."""

    parts: Value
    whole: Value


class Parts:
    """A group of reductions in parts."""

    def __init__(self, plan: Plan, group: Group, cuts: LoopSchedule) -> None:
        self.plan, self.group, self.cuts = plan, group, cuts
        space, self.reduced = group.space, sorted(group.reduced)
        self.size = product(space[a] for a in self.reduced)
        kept = [space[a] for a in range(len(space)) if a not in group.reduced]
        self.kept = product(kept)
        self.unknown = sum(not isinstance(d, int) for d in kept)
        self.alone = all(d == 1 for d in kept)
        #: Whether lanes lie along the reduced axes.
        self.by_rows = self.alone or self.reduced[-1] == len(space) - 1
        self.sweeps = Sweeps(plan, group, scratch=self.by_rows and cuts.few_long_rows > 0)
        self.results: dict[Op, _Result] = {}
        #: Full-size values that later sweeps need, and their memory.
        self.kept_values: dict[Value, Value] = {}

    def conditions(self) -> tuple[Condition, Condition] | None:
        """The conditions that parts pay, and that they do not; None if they never do."""
        used = [sweep for sweep in self.sweeps.sweeps if sweep]
        stretched = any(map(self.sweeps.is_stretched, self.group.outputs))
        simple = len(used) == 1 and not used[0].stored and not stretched
        cuts = self.cuts
        if not cuts.part or not (simple or (self.alone and not stretched) or cuts.few_long_rows):
            return None
        if self.by_rows and (self.alone or simple):
            return Condition(self.size, cuts.part + 1, None), Condition(self.size, 0, cuts.part)
        # Kernels with several sweeps keep all cores busy by themselves where there are more rows, or columns.
        most = cuts.few_long_rows if self.by_rows else cuts.few_columns if simple else 2 * cuts.columns
        least = cuts.part + 1 if self.by_rows else cuts.many_rows
        facts = self.plan.function.facts
        if not simple and (facts.multiple(self.kept) > most or facts.divides(self.size, self.kept).proved):
            return None  # there are more where there are any: heads of attention, or as many rows as columns
        if not simple and self.unknown > 1:
            return None  # so seldom so few that kernels of their own would mostly be compiled for nothing
        many = dim_min(self.size - least, most - self.kept)
        few = dim_max(least - 1 - self.size, self.kept - most - 1)
        return Condition(many, 0, None), Condition(few, 0, None)

    def choice(self) -> InParts:
        """The launches, and when they pay."""
        return InParts(self.conditions(), self.launches, self.plan)

    def launches(self, when: Condition | None) -> tuple[Launch, ...]:
        """Two launches for each sweep that reduces, one for each that only stores, and for what is stretched."""
        launches: list[Launch] = []
        stretched = self.sweeps.stretched()
        sweeps = [sweep for sweep in self.sweeps.sweeps if sweep]
        last = max(number for number, sweep in enumerate(sweeps) if sweep.reduces)
        for number, sweep in enumerate(sweeps):
            axes = self._axes()
            stage = sweep_stage(self.group, sweep.reduces, sweep.stored, axes)
            launches.append(self._parts(axes, stage, when, sweep.reduces, sweep.kept))
            if sweep.reduces:
                more = bool(stretched) or number < len(sweeps) - 1
                launches.append(self._joined(sweep, when, rows=number == last, more=more))
        for shape, values in stretched.items():
            axes = self._axes()
            launches.append(self._parts(axes, stretched_stage(values, shape, axes), when))
        return tuple(launches)

    # The two kernels ------------------------------------------------------------------------------------------

    def _axes(self) -> list[Axis | None]:
        """Loops over the kept axes of the space."""
        return [None if a in self.reduced else loop(f"i{a}", d) for a, d in enumerate(self.group.space)]

    def _kept_place(self, axes: list[Axis | None]) -> Dim:
        """Number of an iteration's kept element among all."""
        kept = [a for a in range(len(axes)) if a not in self.reduced]
        return linearize(index_of([axes[a] for a in kept]), tuple(self.group.space[a] for a in kept))

    def _loops(self, shared: list[Axis | None], stages: tuple[Stage, ...]) -> Loops:
        """The loops of a kernel, which reads results of earlier sweeps where an earlier launch left them."""
        place = self._kept_place(shared)
        loaded: dict[Value, Memory] = {op.result: (made.whole, lambda _: place) for op, made in self.results.items()}
        for value, memory in self.kept_values.items():
            loaded[value] = memory, lambda index: linearize(index, self.group.space)
        return Loops(Nest(self.plan, self.group, present(shared), stages), loaded=loaded)

    def _parts(
        self,
        axes: list[Axis | None],
        stage: Stage,
        when: Condition | None,
        reduces: Sequence[Op] = (),
        kept: Sequence[Value] = (),
    ) -> Launch:
        """Each part's folds, and the full-size values that are stored in the same pass, or ``kept`` for later ones."""
        # Of many rows, which are not cut, no memory is taken.
        room = (self.size * dim_min(self.kept, self.cuts.few_long_rows),)
        memory = {value: Value(TensorType(value.dtype, room)) for value in kept}
        place = linearize(stage.index, self.group.space)
        stored = tuple(_stored(to, place, value, stage.index) for value, to in memory.items())
        loops = self._loops(axes, (replace(stage, writes=(*stored, *stage.writes)),))
        self.kept_values |= memory
        (phase,) = loops.phases
        own = loops.fuse(phase.axes, phase)
        if self.by_rows and self.cuts.divided:
            own = [loops.flatten(own, phase)]
        outer, _ = loops.split(own[0], self._steps(own), phase, name="p")
        chunk = loops.hoist(outer, phase)
        place = self._kept_place(axes) * chunk.extent + as_dim(chunk.var)
        writes: list[Write] = []
        for op, fold in zip(reduces, phase.folds, strict=True):
            shape = (self.kept, chunk.extent)
            result = _Result(*(Value(TensorType(fold.ref.dtype, s)) for s in (shape, (self.kept,))))
            self.results[op] = result
            writes.append(folded(result.parts, place, fold.ref))
        if writes:
            loops.append(Stage(writes=tuple(writes)))
        if self.by_rows:
            loops.bind_lanes(phase)
        else:
            columns, lanes = loops.split(loops.shared[-2], self.cuts.columns)
            loops.reorder([*loops.shared[:-3], columns, chunk, lanes])
            loops.bind_lane(lanes)
        temporaries = *(self.results[op].parts for op in reduces), *memory.values()
        return loops.launch(f"{self.group.name}, parts", temporaries=temporaries, when=when)

    def _steps(self, axes: list[Axis]) -> Dim:
        """Of the outermost reduced axis, as many steps as make a part of the schedule's elements, or rows."""
        inner = product(a.extent for a in axes[1:])
        steps = self.cuts.part if self.by_rows else self.cuts.part_rows
        return steps if inner == 1 else dim_max(floordiv(steps, dim_max(inner, 1)), 1)

    def _joined(self, sweep: Sweep, when: Condition | None, *, rows: bool, more: bool) -> Launch:
        """The parts' results folded, and with ``rows`` what is computed from all results of the group."""
        axes = self._axes()
        part = axis("p", self.results[sweep.reduces[0]].parts.shape[1], AxisKind.REDUCE)
        place = self._kept_place(axes) * part.extent + as_dim(part.var)
        fold = Stage((part,), reductions=tuple(self._join(op, place) for op in sweep.reduces))
        loops = self._loops(axes, (fold,))
        (phase,) = loops.phases
        loops.bind_lanes(phase)
        whole = self._kept_place(axes)
        refs = zip(sweep.reduces, phase.folds, strict=True)
        writes = [folded(self.results[op].whole, whole, made.ref) for op, made in refs if more]
        if rows:
            outputs = [v for v in self.group.outputs if not (self.sweeps.is_full(v) or self.sweeps.is_stretched(v))]
            writes += [row_write(v, self.group, axes) for v in outputs]
        loops.append(Stage(writes=tuple(writes)))
        temporaries = tuple(self.results[op].whole for op in sweep.reduces) if more else ()
        return loops.launch(f"{self.group.name}, parts joined", temporaries=temporaries, when=when)

    def _join(self, op: Op, place: Dim) -> Reduction:
        """The fold of an op's parts."""
        parts = self.results[op].parts

        def fold(elements: Elements) -> Fold:
            return fold_of(elements, op, elements.k.load(elements.temporary(parts), place))

        return Reduction(op.result, fold)


@dataclass(frozen=True, slots=True)
class InParts:
    """Launches that together do what one does: the conditions that they pay, and that they do not, and their maker."""

    conditions: tuple[Condition, Condition] | None
    launches: Callable[[Condition | None], tuple[Launch, ...]]
    plan: Plan


def in_parts(whole: Launch, parts: InParts) -> tuple[Launch, ...]:
    """A launch for few elements, and launches in parts for many: those that may be needed."""
    if parts.conditions is None:
        return (whole,)
    when, otherwise = parts.conditions
    decided = when.decided(parts.plan.function.facts)
    if decided is False:
        return (whole,)
    if decided:
        return parts.launches(None)
    return (Launch(whole.group, whole.buffers, whole.variants, when=otherwise), *parts.launches(when))


def _stored(memory: Value, place: Dim, value: Value, index: Index) -> Write:
    """A write of a value's element at an index, as an element of a temporary."""

    def statements(elements: Elements, buffer: Buffer) -> tuple[Stmt, ...]:
        return (Store(buffer, place, elements.at(value, index)),)

    return Write(memory, statements)


def folded(value: Value, place: Dim, ref: Ref) -> Write:
    """A write of a fold's result, as an element of a temporary."""

    def statements(elements: Elements, buffer: Buffer) -> tuple[Stmt, ...]:
        return (Store(buffer, place, ref),)

    return Write(value, statements)
