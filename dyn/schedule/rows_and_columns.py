"""Rows and columns in one pass: reductions of rows, and of the columns of what is computed for each row.

A pass goes through runs of rows. A run stores the identity for each column, and its rows, one after the other, are
folded into what is there; a second launch reduces what the runs come to, as it would the rows of an array, and computes
what follows from that. So an array is read once for both, and a run's columns lie in the nearest cache meanwhile.

Long sums round little more often than their results do (``dyn.schedule.accumulation``): floats of a few rows are added
up as they are, and what these come to in float64. How long runs are follows from the number of rows alone, and so does
each bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dyn.errors import IRError
from dyn.frozen import record
from dyn.ir.core import Op, Value
from dyn.ir.opdef import OpKind, ReductionLoops
from dyn.ir.types import TensorType
from dyn.ops.scalar import Scalar
from dyn.schedule.accumulation import start_of
from dyn.schedule.axes import Axis, AxisKind, axis, chunks, index_of, linearize
from dyn.schedule.elements import ElementReader, Index
from dyn.schedule.expressions import literal
from dyn.schedule.kernel import Buffer, Const, Expr, Space, Stmt, Store
from dyn.schedule.launch import Launch
from dyn.schedule.loops import Loops
from dyn.schedule.nest import Level, Nest, Reduction, SharedRuns, Stage, Write
from dyn.schedule.nests import accumulated, loop, present, row_write, stitch_nest, sweep_stage
from dyn.schedule.order import Order
from dyn.schedule.sizes import LoopSchedule
from dyn.schedule.specialized_kernels import Schedule
from dyn.schedule.sweeps import Sweeps
from dyn.shapes import Dim, as_dim, dim_max, dim_min, floordiv, product, symbol
from dyn.stitch.access import Views
from dyn.stitch.groups import Group, Plan

#: A run has so many elements, or rows, at least: what begins it takes as long as some vectors.
_ELEMENTS, _FEW_ROWS = 8192, 8


@record()
class _Place:
    """Places of a column: in what all runs come to, and in what one does."""

    run: Dim
    column: Dim


#: Makes a statement for a place of a column, in a buffer of what all runs come to.
_Make = Callable[[ElementReader, Buffer, _Place], Stmt]


@record(eq=False)
class _Column:
    """A reduction of columns: where its runs leave what they come to, and the scratch that a few rows are folded in, if
    they are."""

    op: Op
    runs: Value
    few: Buffer | None

    @property
    def combine(self) -> Scalar:
        loops = self.op.opdef.loops
        assert isinstance(loops, ReductionLoops)
        return loops.combine(self.op.attrs)

    @property
    def start(self) -> Const:
        """Identity that a run starts from: that of a sum in a dtype which has room for what it rounds."""
        start = start_of(self.op)
        return literal(start.dtype.accumulator, start.value) if self.combine is Scalar.ADD else start

    def start_run(self, elements: ElementReader, buffer: Buffer, at: _Place) -> Stmt:
        return Store(buffer, at.run, self.start)

    def start_few(self, elements: ElementReader, buffer: Buffer, at: _Place) -> Stmt:
        assert self.few is not None
        return Store(self.few, at.column, start_of(self.op))

    def fold(self, elements: ElementReader, buffer: Buffer, at: _Place, element: Expr) -> Stmt:
        """Fold an element of a row."""
        k = elements.k
        if self.few is None:
            return k.update(buffer, at.run, self.combine, k.cast(element, self.runs.dtype), None)
        old, own = k.load(self.few, at.column), k.cast(element, self.few.dtype)
        return Store(self.few, at.column, k.apply(self.combine, [old, own], self.few.dtype))

    def fold_few(self, elements: ElementReader, buffer: Buffer, at: _Place) -> Stmt:
        """Fold what a few rows have come to."""
        assert self.few is not None
        few = elements.k.cast(elements.k.load(self.few, at.column), self.runs.dtype)
        return elements.k.update(buffer, at.run, self.combine, few, None)


class RowsAndColumns:
    """The nests of a group that reduces rows and columns: of the pass over rows, and of the runs' columns."""

    def __init__(self, plan: Plan, group: Group, sizes: LoopSchedule, order: Order | None = None) -> None:
        self.plan, self.group, self.order, self.few = plan, group, order, sizes.few_rows_of_run
        #: The axes of a row, and those across rows.
        self.along = sorted(group.reduced)
        self.across = [a for a in range(len(group.space)) if a not in group.reduced]
        rows = product(group.space[a] for a in self.across)
        #: The rows of a run, the runs, and the elements of a row.
        self.width = product(group.space[a] for a in self.along)
        least = dim_min(_FEW_ROWS, dim_max(1, floordiv(_ELEMENTS, dim_max(self.width, 1))))
        self.length = dim_min(sizes.run_rows, dim_max(least, floordiv(rows, sizes.row_runs)))
        self.count = chunks(rows, self.length)
        self.run = symbol("run", "a run of rows")
        _check(plan, group)
        self.columns = [self._column(op) for op in group.column_reductions]

    def _column(self, op: Op) -> _Column:
        column, dtype = _Column(op, op.result, None), start_of(op).dtype
        runs = Value(TensorType(column.start.dtype, (self.count, self.width)))
        by_few = self.few and runs.dtype is not dtype
        return _Column(op, runs, Buffer("few", dtype, Space.SCRATCH, self.width) if by_few else None)

    @property
    def temporaries(self) -> tuple[Value, ...]:
        return tuple([column.runs for column in self.columns])

    def pass_over_rows(self, *, scratch: bool) -> tuple[Nest, dict[int, Sequence[Value]]]:
        """The nest of the first launch, and what its stages may keep on the chip if there is ``scratch`` for it."""
        made = {v for op in self.group.columns for v in op.results}
        rows = replace(self.group, outputs=tuple([v for v in self.group.outputs if v not in made]))
        sweeps = Sweeps(self.plan, rows, scratch=scratch)
        work = [sweep for sweep in sweeps.sweeps if sweep]

        def passes(axes: Sequence[Axis | None]) -> list[Stage]:
            stages: list[Stage] = []
            for sweep in work:
                stage = sweep_stage(self.plan, rows, sweep.reduces, sweep.stored, axes)
                folds = [self._folding(column, stage.index) for column in self.columns if column.op in sweep.columns]
                stages.append(replace(stage, writes=(*stage.writes, *folds)))
            return stages

        nest = replace(stitch_nest(self.plan, rows, sweeps, self.order, passes), runs=self._runs())
        return nest, {number: sweep.kept for number, sweep in enumerate(work) if sweep.kept}

    def _runs(self) -> SharedRuns:
        """The runs of rows: those of a few, which make sums of their own, within long ones."""
        start = self._over_columns("z", [(column, column.start_run) for column in self.columns])
        levels = [Level(self.length, start)]
        few = [column for column in self.columns if column.few is not None]
        if few:
            before = self._over_columns("b", [(column, column.start_few) for column in few])
            after = self._over_columns("e", [(column, column.fold_few) for column in few])
            levels.append(Level(self.few, before, after))
        states = tuple([column.runs.dtype for column in self.columns])
        return SharedRuns(self.run, tuple(levels), states, tuple([c.few for c in few if c.few is not None]))

    def _over_columns(self, name: str, made: Sequence[tuple[_Column, _Make]]) -> Stage:
        """A stage over the axes of a row, which does something with what each column of a run has come to."""
        own = [loop(f"{name}{a}", self.group.space[a]) for a in self.along]
        writes = tuple([self._write(column, index_of(own), make) for column, make in made])
        return Stage(present(own) or (axis(name, 1),), writes=writes)

    def _folding(self, column: _Column, index: Index) -> Write:
        """An element of a row folded into its column."""
        (operand,) = column.op.operands

        def fold(elements: ElementReader, buffer: Buffer, at: _Place) -> Stmt:
            return column.fold(elements, buffer, at, elements.at(operand, index))

        return self._write(column, tuple([index[a] for a in self.along]), fold)

    def _write(self, column: _Column, index: Index, make: _Make) -> Write:
        at = _Place(self._place(as_dim(self.run), index), self._place(0, index))
        return Write(column.runs, lambda elements, buffer: (make(elements, buffer, at),))

    def _place(self, run: Dim, column: Index) -> Dim:
        """Place of a column, by its index along the axes of a row, in what a run comes to."""
        return run * self.width + linearize(column, tuple([self.group.space[a] for a in self.along]))

    def joined(self, schedule: Callable[[Loops], None]) -> Launch:
        """The launch that reduces what the runs come to, and computes what follows from it."""
        outputs = tuple([v for op in self.group.columns for v in op.results if v in self.group.outputs])
        behind = replace(self.group, outputs=outputs, ops=self.group.columns, reduced=frozenset(self.across))
        axes = [None if a in self.across else loop(f"i{a}", extent) for a, extent in enumerate(self.group.space)]
        run = axis("p", self.count, AxisKind.REDUCE)
        place = self._place(as_dim(run.var), index_of([axes[a] for a in self.along]))
        fold = Stage((run,), reductions=tuple([_whole(column, place) for column in self.columns]))
        write = Stage(writes=tuple([row_write(v, behind, axes) for v in outputs]))
        loops = Loops(Nest(self.plan, behind, present(axes), (fold, write), self.order))
        schedule(loops)
        return replace(loops.launch(f"{self.group.name}, columns"), group=self.group)


def _whole(column: _Column, place: Dim) -> Reduction:
    """The reduction of what the runs come to."""

    def element(elements: ElementReader) -> Expr:
        return elements.k.load(elements.temporary(column.runs), place)

    return accumulated(column.op.result, column.combine, column.start, element)


def _check(plan: Plan, group: Group) -> None:
    """Raise IRError where what is of columns is a view, or is read by what is known earlier."""
    columns, members = {v for op in group.columns for v in op.results}, group.members()
    views = Views(plan.producers, lambda v: v in members)
    early = [*[op for op in group.ops if op not in group.columns], *group.column_reductions]
    strange = [op for op in group.columns if op.opdef.kind is OpKind.VIEW]
    strange += [op for op in early if any(views.base(v) in columns for v in op.operands)]
    if strange:
        raise IRError(f"{strange[0].opdef.name} is not of columns alone, or reads columns, in group {group.name}")


def by_runs(schedule: Schedule) -> Schedule:
    """A schedule of rows whose last shared axis then goes by the nest's runs."""

    def scheduled(loops: Loops) -> None:
        schedule(loops)
        loops.go_by_runs()

    return scheduled
