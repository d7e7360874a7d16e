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
from typing import Protocol

from dyn.ir.core import Op, Value
from dyn.ir.types import TensorType
from dyn.schedule.axes import Axis, AxisKind, axis, index_of, linearize
from dyn.schedule.elements import Elements
from dyn.schedule.kernel import Buffer, Fold, Ref, Stmt, Store
from dyn.schedule.launch import Condition, Launch
from dyn.schedule.loops import Loops
from dyn.schedule.nest import Nest, Reduction, Stage, Write
from dyn.schedule.nests import fold_of, loop, present, row_write, sweep_stage
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
        self.sweeps = Sweeps(plan, group, scratch=False)
        space, self.reduced = group.space, sorted(group.reduced)
        self.size = product(space[a] for a in self.reduced)
        kept = [space[a] for a in range(len(space)) if a not in group.reduced]
        self.kept = product(kept)
        self.alone = all(d == 1 for d in kept)
        #: Whether lanes lie along the reduced axes.
        self.by_rows = self.alone or self.reduced[-1] == len(space) - 1
        self.results: dict[Op, _Result] = {}

    def conditions(self) -> tuple[Condition, Condition] | None:
        """The conditions that parts pay, and that they do not; None if they never do."""
        used = [sweep for sweep in self.sweeps.sweeps if sweep]
        simple = len(used) == 1 and not used[0].stored
        cuts = self.cuts
        stretched = any(self.sweeps.is_stretched(v) for v in self.group.outputs)
        if not cuts.part or not (self.alone or simple) or stretched:
            return None
        if self.by_rows:
            return Condition(self.size, cuts.part + 1, None), Condition(self.size, 0, cuts.part)
        many = dim_min(self.size - cuts.many_rows, cuts.few_columns - self.kept)
        few = dim_max(cuts.many_rows - 1 - self.size, self.kept - cuts.few_columns - 1)
        return Condition(many, 0, None), Condition(few, 0, None)

    def launches(self, when: Condition | None) -> tuple[Launch, ...]:
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
        loaded = {op.result: (result.whole, place) for op, result in self.results.items()}
        return Loops(Nest(self.plan, self.group, present(shared), stages), loaded=loaded)

    def _parts(self, sweep: Sweep, when: Condition | None) -> Launch:
        """Each part's folds, and the full-size values that are stored in the same pass."""
        axes = self._axes()
        loops = self._loops(axes, (sweep_stage(self.group, sweep.reduces, sweep.stored, axes),))
        (phase,) = loops.phases
        own = loops.fuse(phase.axes, phase)
        if self.by_rows and self.cuts.divided:
            own = [loops.flatten(own, phase)]
        outer, _ = loops.split(own[0], self._steps(own), phase, name="p")
        chunk = loops.hoist(outer, phase)
        place = self._kept_place(axes) * chunk.extent + as_dim(chunk.var)
        writes: list[Write] = []
        for op, fold in zip(sweep.reduces, phase.folds, strict=True):
            shape = (self.kept, chunk.extent)
            result = _Result(*(Value(TensorType(fold.ref.dtype, s)) for s in (shape, (self.kept,))))
            self.results[op] = result
            writes.append(stored(result.parts, place, fold.ref))
        if writes:
            loops.append(Stage(writes=tuple(writes)))
        if self.by_rows:
            loops.bind_lanes(phase)
        else:
            columns, lanes = loops.split(loops.shared[-2], self.cuts.columns)
            loops.reorder([*loops.shared[:-3], columns, chunk, lanes])
            loops.bind_lane(lanes)
        temporaries = tuple(self.results[op].parts for op in sweep.reduces)
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
        writes = [stored(self.results[op].whole, whole, made.ref) for op, made in refs if more]
        if rows:
            outputs = [v for v in self.group.outputs if not self.sweeps.is_full(v)]
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


class Cut(Protocol):
    """A group whose sums may be cut into parts."""

    plan: Plan

    def conditions(self) -> tuple[Condition, Condition] | None:
        """The conditions that parts pay, and that they do not; None if they never do."""
        ...

    def launches(self, when: Condition | None) -> tuple[Launch, ...]:
        """The launches of the parts, and of what joins them."""
        ...


def in_parts(whole: Launch, parts: Cut) -> tuple[Launch, ...]:
    """A launch for few elements, and launches in parts for many: those that may be needed."""
    conditions = parts.conditions()
    if conditions is None:
        return (whole,)
    when, otherwise = conditions
    decided = when.decided(parts.plan.function.facts)
    if decided is False:
        return (whole,)
    if decided:
        return parts.launches(None)
    return (Launch(whole.group, whole.buffers, whole.variants, when=otherwise), *parts.launches(when))


def stored(value: Value, place: Dim, ref: Ref) -> Write:
    """A write of a fold's result, as an element of a temporary."""

    def statements(elements: Elements, buffer: Buffer) -> tuple[Stmt, ...]:
        return (Store(buffer, place, ref),)

    return Write(value, statements)
