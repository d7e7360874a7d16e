"""Nests: what a group computes as loops, the same for every target.

A :class:`Nest` is a list of *stages*, which run one after the other. Each iterates a space of its own: the ``shared``
axes of the nest, over which no stage depends on another iteration of one before it, and then the stage's own axes. In
each iteration a stage folds values into its reductions and writes elements of arrays; what a reduction gives is known
to the stages after it. Nothing here has a role (grid, lane, serial) or a size of a machine: those are a schedule's
(``dyn.schedule.loops``).

Definitions are functions of :class:`dyn.schedule.elements.ElementReader`, which computes elements of values where they
are needed: an element is computed again at each place that reads it, unless the schedule keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from dyn.dtypes import DType
from dyn.frozen import record
from dyn.ir.core import Value
from dyn.ops.scalar import Scalar
from dyn.schedule.axes import Axis
from dyn.schedule.elements import ElementReader, Index
from dyn.schedule.kernel import Block, Buffer, Carry, Const, Expr, Fold, Monoid, Ref, Stmt
from dyn.schedule.order import Order
from dyn.shapes import Dim, Symbol
from dyn.stitch.groups import Group, Plan


@record(eq=False)
class Write:
    """Elements of an array in memory that each iteration of a stage writes.

    ``statements`` are its stores, or updates of what an earlier stage has stored, into the array's buffer, or into
    scratch that a later one has them from. ``whole`` is how many elements the array has, where other nests write other
    parts of it.
    """

    output: Value
    statements: Callable[[ElementReader, Buffer], tuple[Stmt, ...]]
    whole: Dim = 0


@record(eq=False)
class Reduction:
    """A state folded over a stage's own axes by a monoid, whose order is free but for what makes results the same.

    ``states`` is the state that an iteration adds: what it reads, lifted. ``finish`` computes an element of each of
    the ``results`` from what the whole fold gives. With a ``block`` states are those of its monoid.
    """

    results: tuple[Value, ...]
    monoid: Monoid
    states: Callable[[ElementReader], tuple[Expr, ...]]
    finish: Callable[[ElementReader, tuple[Expr, ...]], tuple[Expr, ...]]
    block: Block | None = None

    @property
    def scalar(self) -> Scalar | None:
        """The scalar function that elements are combined with, where that is one."""
        return (self.monoid if self.block is None else self.block.monoid).scalar

    def fold(self, elements: ElementReader) -> Fold:
        """The fold of a loop over the stage's own axes."""
        refs = tuple(Ref("acc", init.dtype) for init in self.monoid.init)
        return Fold(refs, self.monoid, self.states(elements), self.block)


def casts(results: tuple[Value, ...]) -> Callable[[ElementReader, tuple[Expr, ...]], tuple[Expr, ...]]:
    """The ``finish`` of a reduction whose state is its results, in other dtypes."""

    def finish(elements: ElementReader, state: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(elements.k.cast(value, result.dtype) for value, result in zip(state, results, strict=True))

    return finish


@record(eq=False)
class OrderedReduction:
    """Values that a stage's iterations carry from one to the next, in their order: never cut, never reordered."""

    results: tuple[Value, ...]
    carries: Callable[[ElementReader], tuple[Carry, ...]]


@record(eq=False)
class Scan:
    """A value of which each iteration of a stage has its own: the element of this and all iterations before it,
    combined by a monoid.

    ``start`` is the monoid's identity, with which the first iteration begins, or with what ``first`` gives. States are
    computed in ``start``'s dtype; the elements of ``result`` are converted to theirs. ``last`` is the state that the
    last iteration leaves, known to the stages after it.
    """

    result: Value
    combine: Scalar
    start: Const
    element: Callable[[ElementReader], Expr]
    first: Callable[[ElementReader], Expr] | None = None
    last: Value | None = None


@record(eq=False)
class Contraction:
    """A value that sums products of two operands' elements over a stage's own axes, in an order as free as a
    reduction's.

    ``operands`` are the elements of both, in the dtype that the sum is computed in. Of the shared axes the left one
    alone goes along ``rows`` and the right one alone along ``columns``; both go along the others, or may.
    """

    result: Value
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    operands: Callable[[ElementReader], tuple[Expr, Expr]]


@record(eq=False)
class Stage:
    """One step of a nest.

    ``axes`` are its own, outermost first. ``index`` is where an iteration is in the space that the stage goes through
    (the group's, or a scatter's updates): an expression for each axis of it, over the shared axes and its own.

    The extent of an axis may mention the axes outside of it. Where ``lengths`` has its variable it is computed from
    elements instead, as rows of different lengths have theirs in an array: a dim of values that the reader's builder
    has bound, not negative.
    """

    axes: tuple[Axis, ...] = ()
    index: Index = ()
    writes: tuple[Write, ...] = ()
    reductions: tuple[Reduction, ...] = ()
    ordered: tuple[OrderedReduction, ...] = ()
    scans: tuple[Scan, ...] = ()
    contraction: Contraction | None = None
    lengths: Mapping[Symbol, Callable[[ElementReader], Dim]] = field(
        default_factory=dict[Symbol, Callable[[ElementReader], Dim]]
    )


@record(eq=False)
class Level:
    """Runs of the shared axes' iterations, ``length`` of them each, or what is left: with stages in front of a run, and
    behind it."""

    length: Dim
    before: Stage
    after: Stage | None = None


@record(eq=False)
class SharedRuns:
    """Runs that the shared axes go by, one level of them within another: those of the outermost, of which ``run`` is a
    number, are independent; all else goes one after the other. So iterations of a run fold into what its level has
    stored before it, in memory of the run's number or in ``scratch``; ``states`` are the dtypes of what they fold."""

    run: Symbol
    levels: tuple[Level, ...]
    states: tuple[DType, ...]
    scratch: tuple[Buffer, ...] = ()


@record(eq=False)
class Nest:
    """Stages over the ``shared`` axes of a group, outermost first. Lanes that fold floats do it in ``order``. What is
    updated ``in_place`` an earlier launch has stored. Where there are ``runs``, iterations of the shared axes go by
    these."""

    plan: Plan
    group: Group
    shared: tuple[Axis, ...]
    stages: tuple[Stage, ...]
    order: Order | None = None
    in_place: bool = False
    runs: SharedRuns | None = None
