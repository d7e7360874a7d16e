"""Reductions of many elements into few results, in parts.

A GRID iteration for each result would leave all cores but one idle, and add up millions of numbers one after the
other. Here each sweep of the group becomes two launches: one folds parts of the reduced axes, as many as the shape and
the target say, the other folds the parts' results. As in a pairwise sum the error grows with the length of a part and
the number of parts, not with their product (Higham, "The accuracy of floating point summation", 1993); and the order
is the same however many threads there are.

Up to the size of one part the group is the single kernel that it would have been, as is one that reduces in order.
Groups with several sweeps, which keep rows on the chip, are cut only where there are few rows; others wherever there
are many elements. What such a kernel would keep on the chip lies in memory then, as large as the rows are. The second
pass of a variance is saved (``dyn.schedule.one_pass``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import repeat

from dyn.frozen import record
from dyn.ir.core import Value
from dyn.ir.types import TensorType
from dyn.schedule.axes import Axis, AxisKind, axis, index_of, linearize
from dyn.schedule.elements import ElementReader, Index
from dyn.schedule.kernel import Buffer, Expr, Stmt, Store
from dyn.schedule.launch import Condition, Launch, Variant
from dyn.schedule.loops import Loops
from dyn.schedule.nest import Nest, Reduction, Stage, Write
from dyn.schedule.nests import loop, present, row_write, stitch_nest, stretched_stage, sweep_stage
from dyn.schedule.one_pass import one_pass_variance
from dyn.schedule.order import Order
from dyn.schedule.parts import InParts, folded, join_in_turn, steps_of_part
from dyn.schedule.phase_builder import Folded, Memory
from dyn.schedule.sizes import LoopSchedule
from dyn.schedule.specialized_kernels import Schedule
from dyn.schedule.sweeps import Sweep, Sweeps
from dyn.schedule.unstretched import Unstretched
from dyn.shapes import Dim, Symbol, as_dim, dim_min, product, substitute
from dyn.stitch.groups import Group, Plan


@record()
class _State:
    """A reduction's state in memory: of its parts, side by side for each kept element, and the whole one.

    Each scalar of it has an array of its own.
    """

    reduction: Reduction
    parts: tuple[Value, ...]
    whole: tuple[Value, ...]


class ReductionParts:
    """A group of reductions in parts; of at ``least`` so many results, or of one, where the sizes of kept axes are
    those in ``one``; for sizes that ``agree``, or for those that do not agree as in ``apart``."""

    def __init__(
        self,
        plan: Plan,
        group: Group,
        cuts: LoopSchedule,
        order: Order | None = None,
        one: Mapping[Symbol, Dim] | None = None,
        least: int = 0,
        agree: Unstretched | None = None,
        apart: Unstretched | None = None,
    ) -> None:
        self.plan, self.group, self.cuts, self.order = plan, group, cuts, order
        self.one = {} if one is None else one
        self.least, self.agree, self.apart = least, agree, apart
        space, self.reduced = group.space, sorted(group.reduced)
        self.size = product(space[a] for a in self.reduced)
        kept = [substitute(space[a], self.one) for a in range(len(space)) if a not in group.reduced]
        self.kept = product(kept)
        self.unknown = sum(not isinstance(d, int) for d in kept)
        self.alone = all(d == 1 for d in kept)
        #: Whether lanes lie along the reduced axes.
        self.by_rows = self.alone or self.reduced[-1] == len(space) - 1
        self.elements = cuts.part if self.by_rows else cuts.part_rows
        self.sweeps = Sweeps(plan, group, scratch=self.by_rows and cuts.few_long_rows > 0)
        self.passes = self._passes()
        self.stretched = self.sweeps.stretched()
        #: Whether there is one pass, after which only results are stored.
        self.simple = len(self.passes) == 1 and not self.passes[0][0].stored and not self.stretched
        #: Of the passes so far, in their order.
        self.states: list[_State] = []
        #: Full-size values that later sweeps need, and their memory.
        self.kept_values: dict[Value, Value] = {}

    def condition(self) -> Condition | None:
        """The condition that parts pay; None if they never do."""
        simple, cuts, most = self.simple, self.cuts, self._most_kept()
        few = cuts.few_long_rows if self.by_rows else cuts.few_long_columns
        if not cuts.part or not (simple or (self.alone and not self.stretched) or few):
            return None
        if self.one:
            results = product(d for a, d in enumerate(self.group.space) if a not in self.group.reduced)
            return Condition(dim_min(self.size - cuts.part - 1, 1 - results, results - 1), 0, None)
        if self.agree is not None:
            return Condition(dim_min(self.size - cuts.part - 1, -self.agree.condition.dim), 0, None)
        if self.apart is not None:
            return Condition(dim_min(self.size - cuts.part - 1, self.apart.condition.dim - 1), 0, None)
        if most is None:
            return Condition(self.size, cuts.part + 1, None)
        least = cuts.part + 1 if self.by_rows else cuts.many_rows
        facts = self.plan.function.facts
        if not simple and (facts.multiple(self.kept) > most or facts.divides(self.size, self.kept).proved):
            return None  # there are more where there are any: heads of attention, or as many rows as columns
        if not simple and self.unknown > 1:
            return None  # so seldom so few that kernels of their own would mostly be compiled for nothing
        some = (self.kept - self.least,) if self.least else ()
        return Condition(dim_min(self.size - least, most - self.kept, *some), 0, None)

    def _most_kept(self) -> int | None:
        """The most rows, or columns, of which parts are made; None for any number.

        Kernels with several passes keep all cores busy by themselves where there are more.
        """
        if self.by_rows:
            return None if self.alone or self.simple else self.cuts.few_long_rows
        return self.cuts.few_columns if self.simple else self.cuts.few_long_columns

    def choice(self) -> InParts:
        """The launches, and when they pay."""
        return InParts(self.condition(), self.launches, self.plan)

    def one_by_one(self, whole: Launch, keep: Mapping[int, Sequence[Value]], schedule: Schedule) -> Variant | None:
        """A kernel over the memory of a launch that folds as the launches in parts do; None if it reads something else.

        ``keep`` is what the launch's own kernels keep on the chip; ``schedule`` folds parts one after the other.
        """

        def stages(axes: Sequence[Axis | None]) -> list[Stage]:
            return [stage for sweeps in self.passes if (stage := self._stage(sweeps, axes)) is not None]

        kept = {number: sweeps[0].kept for number, sweeps in enumerate(self.passes) if sweeps[0].kept and keep}
        loops = Loops(stitch_nest(self.plan, self.group, self.sweeps, self.order, stages), keep=kept, equal=self.one)
        schedule(loops)
        if set(loops.code.buffers()) != set(whole.buffers):
            return None
        return loops.variant(f"{self.group.name}, parts one by one", order=whole.buffers)

    def launches(self, when: Condition | None) -> tuple[Launch, ...]:
        """Two launches for each pass that reduces, one for each that only stores, and for what is stretched."""
        launches: list[Launch] = []
        last = max(number for number, sweeps in enumerate(self.passes) if sweeps[0].reduces)
        for number, sweeps in enumerate(self.passes):
            axes = self._axes()
            stage = self._stage(sweeps, axes)
            assert stage is not None
            more = bool(self.stretched) or number < len(self.passes) - 1
            made, states = self._parts(axes, stage, when, sweeps[0].kept if more else ())
            launches.append(made)
            if states:
                launches.append(self._joined(states, when, rows=number == last, more=more))
                self.states += states
        for shape, values in self.stretched.items():
            axes = self._axes()
            launches.append(self._parts(axes, stretched_stage(values, shape, axes), when)[0])
        return tuple(launches)

    def _passes(self) -> list[list[Sweep]]:
        """The sweeps, with those together that are rewritten as one.

        In columns a lane's moments wait for one another, 30 cycles a row, and reading all again costs less.
        """
        passes: list[list[Sweep]] = []
        for sweep in self.sweeps.sweeps:
            rewritten = self.by_rows and passes and sweep.reduces and not sweep.kept
            if rewritten and self._stage([*passes[-1], sweep], self._axes()) is not None:
                passes[-1].append(sweep)
            elif sweep:
                passes.append([sweep])
        return passes

    def _stage(self, sweeps: Sequence[Sweep], axes: Sequence[Axis | None]) -> Stage | None:
        """The stage of some sweeps; None where they take several."""
        inner = {a: loop(f"r{a}", self.group.space[a], AxisKind.REDUCE) for a in self.reduced}
        before = self.sweeps.sweeps[: self.sweeps.sweeps.index(sweeps[0])]
        earlier = [value for sweep in before for op in sweep.reduces for value in op.results]
        stage: Stage | None = None
        for sweep in sweeps:
            own = inner if sweep.reduces else None
            made = sweep_stage(self.plan, self.group, sweep.reduces, sweep.stored, axes, own)
            stage = made if stage is None else one_pass_variance(self.plan, self.group, stage, made, earlier)
            if stage is None:
                return None
        return stage

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
        loaded: dict[Value, Memory] = {}
        for value, memory in self.kept_values.items():
            loaded[value] = memory, lambda index: linearize(index, self.group.space)
        folded = [Folded(state.reduction, state.whole, place) for state in self.states]
        nest = Nest(self.plan, self.group, present(shared), stages, self.order)
        equal = self.one if self.agree is None else self.agree.equal
        return Loops(nest, equal=equal, aligned=self.agree is not None, loaded=loaded, folded=folded)

    def _parts(
        self,
        axes: list[Axis | None],
        stage: Stage,
        when: Condition | None,
        kept: Sequence[Value] = (),
    ) -> tuple[Launch, list[_State]]:
        """Each part's folds, and the full-size values that are stored in the same pass, or ``kept`` for later ones."""
        memory = {value: Value(TensorType(value.dtype, (self.size * self.kept,))) for value in kept}
        place = linearize(stage.index, self.group.space)
        stored = tuple(_stored(to, place, value, stage.index) for value, to in memory.items())
        loops = self._loops(axes, (replace(stage, writes=(*stored, *stage.writes)),))
        self.kept_values |= memory
        (phase,) = loops.phases
        own = loops.fuse(phase.axes, phase)
        if self.by_rows and self.cuts.divided:
            own = [loops.flatten(own, phase)]
        outer, _ = loops.split(own[0], steps_of_part(own, self.elements), phase, name="p")
        chunk = loops.hoist(outer, phase)
        place = self._part_place(axes, chunk)
        writes: list[Write] = []
        states: list[_State] = []
        for reduction, fold in zip(stage.reductions, phase.folds, strict=True):
            parts, whole = (
                tuple(Value(TensorType(ref.dtype, shape)) for ref in fold.refs)
                for shape in ((self.kept, chunk.extent), (self.kept,))
            )
            states.append(_State(reduction, parts, whole))
            writes += map(folded, parts, repeat(place), fold.refs)
        if writes:
            loops.append(Stage(writes=tuple(writes)))
        if self.by_rows:
            loops.bind_lanes(phase)
        else:
            columns, lanes = loops.split(loops.shared[-2], self.cuts.columns)
            loops.reorder([*loops.shared[:-3], columns, chunk, lanes])
            loops.bind_lane(lanes)
            loops.chain(phase)
        temporaries = *(value for state in states for value in state.parts), *memory.values()
        return loops.launch(f"{self.group.name}, parts", temporaries=temporaries, when=when), states

    def _part_place(self, axes: list[Axis | None], part: Axis) -> Dim:
        """Place of a part's state: those that lanes fold side by side are neighbours."""
        if self.by_rows or not self.cuts.in_turn:
            return self._kept_place(axes) * part.extent + as_dim(part.var)
        return as_dim(part.var) * self.kept + self._kept_place(axes)

    def _joined(self, states: list[_State], when: Condition | None, *, rows: bool, more: bool) -> Launch:
        """The parts' states folded, and with ``rows`` what is computed from all results of the group."""
        axes = self._axes()
        part = axis("p", states[0].parts[0].shape[1], AxisKind.REDUCE)
        place = self._part_place(axes, part)
        fold = Stage((part,), reductions=tuple(_join(state, place) for state in states))
        loops = self._loops(axes, (fold,))
        (phase,) = loops.phases
        if self.cuts.in_turn:
            join_in_turn(loops, phase)
        else:
            loops.bind_lanes(phase)
        whole = self._kept_place(axes)
        writes: list[Write] = []
        if more:
            for state, made in zip(states, phase.folds, strict=True):
                writes += map(folded, state.whole, repeat(whole), made.refs)
        if rows:
            outputs = [v for v in self.group.outputs if not (self.sweeps.is_full(v) or self.sweeps.is_stretched(v))]
            writes += [row_write(v, self.group, axes) for v in outputs]
        loops.append(Stage(writes=tuple(writes)))
        if self.cuts.in_turn and not self.by_rows:
            _, lanes = loops.split(loops.shared[-1], self.cuts.columns)
            loops.bind_lane(lanes)
        temporaries = tuple(value for state in states for value in state.whole) if more else ()
        return loops.launch(f"{self.group.name}, parts joined", temporaries=temporaries, when=when)


def _join(state: _State, place: Dim) -> Reduction:
    """The fold of a reduction's parts."""

    def states(elements: ElementReader) -> tuple[Expr, ...]:
        return tuple(elements.k.load(elements.temporary(value), place) for value in state.parts)

    return replace(state.reduction, states=states, block=None)


def _stored(memory: Value, place: Dim, value: Value, index: Index) -> Write:
    """A write of a value's element at an index, as an element of a temporary."""

    def statements(elements: ElementReader, buffer: Buffer) -> tuple[Stmt, ...]:
        return (Store(buffer, place, elements.at(value, index)),)

    return Write(memory, statements)
