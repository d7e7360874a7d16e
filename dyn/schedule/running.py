"""Running reductions: the nest of one, and those of one that is cut into parts.

In parts it takes three launches: each part's total, what all parts before each come to, and the elements of each part,
which start from that. Every element is read twice and nothing waits. The order in which elements combine follows
from the sizes and the length of a part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dyn import dtypes
from dyn.ir.core import Value
from dyn.ir.opdef import RunningLoops
from dyn.ir.types import TensorType
from dyn.ops.reduce import identity
from dyn.ops.scalar import Scalar
from dyn.schedule.accumulation import accumulator
from dyn.schedule.axes import Axis, AxisKind, axis, index_of, linearize
from dyn.schedule.elements import ElementReader, Index
from dyn.schedule.kernel import Buffer, Const, Expr, Stmt, Store, scalar_monoid
from dyn.schedule.launch import Condition, Launch
from dyn.schedule.loops import Loops
from dyn.schedule.nest import Nest, Reduction, Scan, Stage, Write, casts
from dyn.schedule.nests import loop, present, write_at
from dyn.schedule.order import Order
from dyn.schedule.specialized_kernels import Schedule
from dyn.shapes import Dim, as_dim, dim_min, floordiv
from dyn.stitch.groups import Group, Plan


class RunningNests:
    """The nests of a group that is one running reduction.

    Along one axis each element is combined with all that come before it; from the back, where ``reverse``. Sums and
    products of floats of up to 32 bits are carried in float64, and rounded as they are stored.
    """

    #: Whether parts give the bits that a single chain gives, whatever the order in which their elements combine.
    exact = False

    def __init__(self, plan: Plan, group: Group, part: int = 0, order: Order | None = None) -> None:
        self.plan, self.group, self.part, self.order = plan, group, part, order
        (self.op,) = group.ops
        self.along: int = self.op.attrs["dimension"]
        self.length = group.space[self.along]
        self.combine, self.start = self.monoid()
        self.wide = self.start.dtype
        self.reverse: bool = self.op.attrs.get("reverse", False)
        parts = floordiv(self.length + (part - 1), part) if part else 0
        rest = tuple(d for a, d in enumerate(group.space) if a != self.along)
        self.totals, self.before = (Value(TensorType(self.wide, (*rest, parts))) for _ in range(2))
        self.rest, self.parts = rest, parts
        self.running = self.value()

    def value(self) -> Value:
        """The value of which each iteration has its own."""
        return self.op.result

    def monoid(self) -> tuple[Scalar, Const]:
        """The function that elements are combined with, and its identity in the dtype that they are carried in."""
        loops, name = self.op.opdef.loops, self.op.attrs["combine"]
        assert isinstance(loops, RunningLoops)
        combine: Scalar = loops.combine(self.op.attrs)
        wide = accumulator(combine, self.op.result.dtype)
        # -0.0 changes no zero that is added to it.
        return combine, Const(wide, -0.0 if name == "add" and wide.is_float else identity(name, wide))

    def nest(self) -> Nest:
        """A stage that goes through the whole axis."""
        axes, step = self._axes(), axis(f"i{self.along}", self.length, AxisKind.SCAN)
        stages = (*self.before_all(axes), self._elements(axes, step, as_dim(step.var)))
        return Nest(self.plan, self.group, present(axes), stages, self.order)

    def before_all(self, axes: Sequence[Axis | None]) -> tuple[Stage, ...]:
        """The stages that prepare the memory of results, within the loops over the axes beside the running one, or
        without these loops."""
        return ()

    def total_of_parts(self) -> Nest:
        """A stage that goes through a part, and one that stores what it ends with."""
        axes, chunk, step = self._in_part()
        place = self._index(axes, self._step(chunk, step))
        scan = Scan(self.running, self.combine, self.start, self._element(place), last=self.totals)
        total = self._write(self.totals, axes, as_dim(chunk.var))
        stages = Stage((step,), place, scans=(scan,)), Stage(writes=(total,))
        return Nest(self.plan, self.group, self._shared(axes, chunk), stages)

    def sum_of_parts(self) -> Nest:
        """A stage that folds a part in any order, and one that stores what it comes to."""
        axes, chunk, step = self._in_part()
        element = self._element(self._index(axes, self._step(chunk, step)))
        monoid = scalar_monoid(self.combine, self.start)
        own = Axis(step.var, step.extent, AxisKind.REDUCE)
        fold = Reduction((self.totals,), monoid, lambda elements: (element(elements),), casts((self.totals,)))
        total = self._write(self.totals, axes, as_dim(chunk.var))
        stages = Stage((own,), reductions=(fold,)), Stage(writes=(total,))
        return Nest(self.plan, self.group, self._shared(axes, chunk), stages, self.order)

    def parts_before(self) -> Nest:
        """A stage that goes through the parts' totals."""
        axes, step = self._axes(), axis("p", self.parts, AxisKind.SCAN)
        place = self._place(axes, as_dim(step.var))

        def total(elements: ElementReader) -> Expr:
            return elements.k.load(elements.temporary(self.totals), place)

        scan = Scan(self.before, self.combine, self.start, total)
        stage = Stage((step,), (), (self._write(self.before, axes, as_dim(step.var)),), scans=(scan,))
        return Nest(self.plan, self.group, present(axes), (stage,))

    def rest_of_parts(self) -> Nest:
        """A stage that goes through a part, from what those before it come to."""
        axes, chunk, step = self._in_part()
        before = self._place(axes, as_dim(chunk.var) - 1)

        def first(elements: ElementReader) -> Expr:
            k = elements.k
            part = k.index(dtypes.int64, as_dim(chunk.var))
            later = k.apply(Scalar.LT, [k.const(dtypes.int64, 0), part], dtypes.bool_)
            return k.load(elements.temporary(self.before), before, later, k.const(self.wide, self.start.value))

        stage = self._elements(axes, step, self._step(chunk, step), first)
        return Nest(self.plan, self.group, self._shared(axes, chunk), (stage,), in_place=bool(self.before_all(())))

    def launches(
        self, note: str, when: Condition | None, totals: Nest, own: Schedule, side_by_side: Schedule, again: Schedule,
        prepare: Schedule,
    ) -> tuple[Launch, ...]:  # fmt: skip
        """The launches in parts: of what is done ``before_all``, of the parts' ``totals``, of what is before each, and
        of the elements, by a schedule each."""
        launches = [self._prepared(stage, prepare).launch(f"{note}, zeros", when=when) for stage in self.before_all(())]
        for what, nest, schedule, made in (
            ("parts", totals, own, (self.totals,)),
            ("parts before", self.parts_before(), side_by_side, (self.before,)),
            ("from the parts before", self.rest_of_parts(), again, ()),
        ):
            loops = Loops(nest)
            schedule(loops)
            launches.append(loops.launch(f"{note}, {what}", temporaries=made, when=when))
        return tuple(launches)

    # ----------------------------------------------------------------------------------------------------------

    def _prepared(self, stage: Stage, schedule: Schedule) -> Loops:
        """The loops of a stage of what is done before all, side by side."""
        made = Loops(Nest(self.plan, self.group, stage.axes, (replace(stage, axes=()),)))
        schedule(made)
        return made

    def _axes(self) -> list[Axis | None]:
        return [None if a == self.along else loop(f"i{a}", d) for a, d in enumerate(self.group.space)]

    def _in_part(self) -> tuple[list[Axis | None], Axis, Axis]:
        chunk = axis("p", self.parts)
        length = dim_min(self.part, self.length - as_dim(chunk.var) * self.part)
        return self._axes(), chunk, axis(f"i{self.along}", length, AxisKind.SCAN)

    def _shared(self, axes: list[Axis | None], chunk: Axis) -> tuple[Axis, ...]:
        """The parts in place of the axis, so that what lies behind it stays innermost."""
        return present([chunk if a == self.along else own for a, own in enumerate(axes)])

    def _step(self, chunk: Axis, step: Axis) -> Dim:
        return as_dim(chunk.var) * self.part + as_dim(step.var)

    def _index(self, axes: list[Axis | None], step: Dim) -> Index:
        index = list(index_of(axes))
        index[self.along] = self.length - 1 - step if self.reverse else step
        return tuple(index)

    def _place(self, axes: list[Axis | None], part: Dim) -> Dim:
        own = index_of([a for number, a in enumerate(axes) if number != self.along])
        return linearize((*own, part), (*self.rest, self.parts))

    def _element(self, place: Index) -> Callable[[ElementReader], Expr]:
        return lambda elements: elements.k.cast(elements.at(self.op.operands[0], place), self.wide)

    def _elements(
        self, axes: list[Axis | None], step: Axis, at: Dim, first: Callable[[ElementReader], Expr] | None = None
    ) -> Stage:
        place = self._index(axes, at)
        scan = Scan(self.running, self.combine, self.start, self._element(place), first=first)
        return Stage((step,), place, (self.write(place),), scans=(scan,))

    def write(self, place: Index) -> Write:
        """The element of the result that an iteration at a place of the operand gives."""
        return write_at(self.op.result, place)

    def _write(self, value: Value, axes: list[Axis | None], part: Dim) -> Write:
        place = self._place(axes, part)

        def statements(elements: ElementReader, buffer: Buffer) -> tuple[Stmt, ...]:
            return (Store(buffer, place, elements.known[value](())),)

        return Write(value, statements)
