"""Loops of one kernel in the making: a nest's stages as phases, and the transformations that give them their order and
their roles.

:class:`Loops` begins as the nest says: shared loops around phases, everything serial. A schedule is a list of
:class:`Step`, each of which changes the loops and checks that it may (:class:`ScheduleError` where it may not):

=========  ===========================================================================================================
step       what it does
=========  ===========================================================================================================
fuse       two neighbouring axes become one, where every index moves through both in one stride
confine    quotients of what lies in one chunk are 0
flatten    neighbouring axes become one whatever the strides, by division where no one stride runs through them
split      an axis becomes chunks of a size, and what lies in one
merge      some neighbouring chunks are one iteration, as many as a thread has to do
reorder    a phase's own parallel axes go where they are wanted; those with an order keep it
hoist      the outermost axis of the only phase becomes a shared one: a part of a reduction for each of its iterations
sink       the last shared axes become the innermost of every phase instead
bind       an axis gets a role; a shared one is a GRID loop, one of a phase SERIAL, unless it is bound
chain      each lane folds the floats of its own by steps of a few, joined two by two, and by runs of steps
bind tile  the last shared axes become the loops of a tile: steps, lanes, and rows that load and store together
tensorise  a contraction goes through tiles of accumulators, along the last two shared axes and one that is contracted
carry      a phase's folds go on from state to state through all of its loops, in their order
jam        the shared axis in front of the lanes goes several iterations at a time through a phase's loops
stage      what some loads read of a tile goes through scratch, where lanes read it in another order
runs       the shared axes are one and go by the nest's runs, whose iterations follow one another
scan       a running reduction goes by chunks: lanes scan a few elements each, then their totals, then add these; or in
           parts, of which lanes fold each before it is gone through
=========  ===========================================================================================================

What is kept on the chip instead of computed again (``keep``) and which sizes are equal (``equal``) is said before, for
it is part of the phases' code. No step changes what is computed; the order in which a reduction combines follows from
the role of its loops and their extents (``dyn.schedule.kernel``).

This file is long because the steps of the table are methods of one class: each changes the same axes, roles and phases.
The phases and their code have modules of their own (``phases``, ``phase_builder``), as have questions about what the
code loads and stores (``accesses``).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace

from dyn.errors import IRError
from dyn.frozen import record
from dyn.ir.core import Value
from dyn.ops.scalar import Scalar
from dyn.schedule.accesses import crossed_loads
from dyn.schedule.axes import Axis, AxisKind, axis, chunks, collapse, composed, confined, nest, onto, split
from dyn.schedule.elements import ElementReader
from dyn.schedule.expressions import Rewriter
from dyn.schedule.jam import unroll_and_jam
from dyn.schedule.kernel import (
    MOST_UNROLLED,
    Apply,
    Buffer,
    Carry,
    Load,
    Ref,
    Role,
    Space,
    Stmt,
    Store,
    Tile,
    TileContract,
    most_iterations,
)
from dyn.schedule.launch import Condition, FoldOrder, Launch, Variant, bind_kernel
from dyn.schedule.nest import Nest, Stage
from dyn.schedule.phase_builder import Folded, Memory, PhaseBuilder
from dyn.schedule.phases import Phase, loop_place
from dyn.schedule.products import Product
from dyn.schedule.running_chunks import scan_in_chunks, scan_in_parts
from dyn.schedule.team_scratch import scratch_for_each_team
from dyn.shapes import (
    Dim,
    Symbol,
    as_dim,
    dim_min,
    product,
    substitute,
)
from dyn.shapes import symbol as new_symbol


class ScheduleError(IRError):
    """A step that would change what a kernel computes, or that has no meaning for its loops."""


@record()
class Step:
    """A transformation by its name, the axes that it takes, and its size or role: ``split i0i1 by 8192``."""

    what: str
    axes: tuple[str, ...]
    how: str = ""

    def __str__(self) -> str:
        return " ".join([self.what, *self.axes, self.how]).rstrip()


#: The kinds of axes that lanes may go along.
_ANY_ORDER = (AxisKind.PARALLEL, AxisKind.REDUCE, AxisKind.DISTINCT, AxisKind.CONTRACTED)


@dataclass(eq=False)
class Loops:
    """The loops of a nest, as the steps so far have left them."""

    nest: Nest
    #: Values of the group's space that a stage, by its number, keeps on the chip for those after it.
    keep: Mapping[int, Sequence[Value]] = field(default_factory=dict[int, Sequence[Value]])
    #: Sizes by others that they are equal to where the kernel is chosen.
    equal: Mapping[Symbol, Dim] = field(default_factory=dict[Symbol, Dim])
    #: Whether no axis is stretched where the kernel is chosen.
    aligned: bool = False
    #: Of the sizes of axes that might be those that are 1 there.
    ones: frozenset[Dim] = frozenset()
    #: Values that an earlier launch has left in temporaries, and at which place this iteration's element is.
    loaded: Mapping[Value, Memory] = field(default_factory=dict[Value, Memory])
    #: Reductions of earlier launches.
    folded: Sequence[Folded] = ()

    def __post_init__(self) -> None:
        elements = ElementReader(self.nest.plan, self.nest.group, aligned=self.aligned, ones=self.ones)
        self.code = PhaseBuilder(self.nest, elements, self.equal, self.loaded, self.folded)
        #: Scratch that schedules stage loads in.
        self.tiles: list[Buffer] = []
        #: The lanes of a team, where shared loops are dealt to teams, and the loop that has scratch for each of them.
        self.team_lanes = 0
        self._team: Axis | None = None
        self.steps: list[Step] = []
        self.shared = [self.code.sized(a) for a in self.nest.shared]
        #: The roles of shared axes that are not GRID loops: one of them is lanes, then.
        self._roles: dict[Symbol, Role] = {}
        #: The shared axis of which several iterations go together, and how many.
        self._jammed: tuple[Axis, int] | None = None
        #: How many of the shared axes, and of the phases' own, became part of others.
        self.fused = self.fused_inside = 0
        self._change: dict[Symbol, Dim] = dict(self.equal)
        #: The shared axes that are less than a number, where indices are divided by that.
        self._confined: dict[Symbol, int] = {}
        #: The chunks of which some neighbours are one iteration, and their number.
        self._merged: tuple[Axis, Symbol] | None = None
        self.phases = [self.code.phase(stage, self.keep.get(n, ())) for n, stage in enumerate(self.nest.stages)]
        #: What stands around the runs that shared axes go by, in front of each and behind it, outermost first; and the
        #: axes of what is in one.
        levels = () if self.nest.runs is None else self.nest.runs.levels
        self.around = [[self.code.phase(stage) for stage in (of.before, of.after) if stage] for of in levels]
        self._in_runs: list[Axis] = []
        self.tiles += () if self.nest.runs is None else self.nest.runs.scratch

    @property
    def tiled(self) -> bool:
        """Whether the kernel goes through tiles."""
        return Role.UNROLL in self._roles.values()

    @property
    def all_phases(self) -> list[Phase]:
        """The phases, and those around runs of them."""
        return [*itertools.chain(*self.around), *self.phases]

    @property
    def lanes(self) -> Axis | None:
        """The shared axis that lanes go along, each through all phases."""
        return next((a for a in self.shared if self._roles.get(a.var) is Role.LANE), None)

    def fork(self) -> Loops:
        """These loops once more, to be changed in another way."""
        other = copy(self)
        other.code, other.steps, other.tiles = self.code.fork(), list(self.steps), list(self.tiles)
        other.shared, other._roles, other._change = list(self.shared), dict(self._roles), dict(self._change)
        other._confined = dict(self._confined)
        other.phases = [replace(phase, axes=list(phase.axes)) for phase in self.phases]
        other.around = [[replace(phase, axes=list(phase.axes)) for phase in level] for level in self.around]
        return other

    @property
    def spread_inside(self) -> int:
        """Number of axes along the innermost loops that may be stretched: an element is spread for each of them, in
        each iteration of the loops around."""
        inner = {a.var for stage in self.nest.stages for a in stage.axes}
        inner.update(a.var for a in self.nest.shared[1:][-1:])
        return 0 if self.aligned else sum(var in inner for _, var in self.code.elements.stretched)

    # Steps ----------------------------------------------------------------------------------------------------

    def fuse(self, axes: Sequence[Axis], phase: Phase | None = None) -> list[Axis]:
        """Fuse neighbours among some axes, wherever every index moves through both in one stride; what is left."""
        own, axes = self.shared if phase is None else phase.axes, list(axes)
        if not axes:
            return []
        first = own.index(axes[0])
        if own[first : first + len(axes)] != axes:
            raise ScheduleError(f"{_names(axes)} do not follow one another")
        dims = phase.dims() if phase is not None else self._dims()
        left, change = collapse(axes, [substitute(d, self._change) for d in dims] if self._change else dims)
        if len(left) < len(axes):
            self.fused += len(axes) - len(left) if phase is None else 0
            self.fused_inside += len(axes) - len(left) if phase is not None else 0
            own[first : first + len(axes)] = left
            self._substitute(change, phase)
            self.steps.append(Step("fuse", tuple(a.name for a in axes), f"into {_names(left)}"))
        return left

    def _dims(self) -> list[Dim]:
        """The dims that the shared axes may occur in: every index, and the extents of the phases' loops."""
        return [d for p in self.phases for d in (*p.dims(), *[a.extent for a in p.axes], *p.dims_of_extents())]

    def split(self, whole: Axis, size: Dim, phase: Phase | None = None, name: str = "c") -> tuple[Axis, Axis]:
        """Cut an axis into chunks of a size: the axis of the chunks, of this name, and that of what lies in one."""
        own = self.shared if phase is None else phase.axes
        position = own.index(whole)
        outer, inner, change = split(whole, size, name)
        own[position : position + 1] = [outer, inner]
        self._substitute(change, phase)
        self.steps.append(Step("split", (whole.name,), f"by {size}"))
        return outer, inner

    def confine(self, inner: Axis, size: int) -> None:
        """Leave out of indices what divides a shared axis by a size that it never comes to."""
        most = most_iterations(inner.extent)
        if inner not in self.shared or most is None or most > size:
            raise ScheduleError(f"{inner.name}, of {inner.extent} iterations, may come to {size}")
        self._confined[inner.var] = size
        self.steps.append(Step("confine", (inner.name,), f"to {size}"))

    def flatten(self, axes: Sequence[Axis], phase: Phase | None = None) -> Axis:
        """Make neighbours one axis, by division where no one stride runs through them.

        An operand of a contraction that several strides run through is then written in digits of the one axis.
        """
        own, axes = self.shared if phase is None else phase.axes, list(axes)
        first = own.index(axes[0])
        if own[first : first + len(axes)] != axes or len({a.kind for a in axes}) != 1:
            raise ScheduleError(f"{_names(axes)} do not follow one another, or differ in kind")
        if axes[0].kind not in (AxisKind.PARALLEL, AxisKind.REDUCE, AxisKind.CONTRACTED):
            raise ScheduleError(f"{_names(axes)}, of kind {axes[0].kind.value}, cannot become one axis by division")
        if len(axes) == 1:
            return axes[0]
        if any(a.bound for a in axes):
            raise ScheduleError(f"the extents of {_names(axes)} are values that the kernel computes")
        whole = axis("".join(a.name for a in axes), product(a.extent for a in axes), axes[0].kind)
        changed = onto(whole, axes)
        for other in self.phases if phase is None else [phase]:
            settled = None if other.product is None else other.product.rewritten(self._rewriter())
            other.rewrite(Rewriter(lambda dim: changed(substitute(dim, self._change))))
            other.product = None if settled is None else settled.flattened(axes, whole)
        own[first : first + len(axes)] = [whole]
        if phase is None:  # for phases that are added later
            self._change = composed(self._change, {a.var: changed(as_dim(a.var)) for a in axes})
        self.steps.append(Step("flatten", tuple(a.name for a in axes)))
        return whole

    def settled(self, dim: Dim) -> Dim:
        """An index expression of the code after the steps on shared axes so far."""
        dim = substitute(dim, self._change)
        for var, size in self._confined.items():
            dim = confined(dim, var, size)
        return dim

    def _rewriter(self) -> Rewriter:
        """The shared steps so far, as a change of index expressions."""
        return Rewriter(self.settled)

    def reorder(self, axes: Sequence[Axis], phase: Phase | None = None) -> None:
        """Put the shared axes, or a phase's, into an order: those that are not parallel keep theirs."""
        own = self.shared if phase is None else phase.axes
        if len(axes) != len(own) or set(axes) != set(own):
            raise ScheduleError(f"{_names(axes)} are not the axes {_names(own)}")
        for position, a in enumerate(axes):
            inside = {b.var for b in axes[position:]}
            if not inside.isdisjoint(a.symbols):
                raise ScheduleError(f"the extent of {a.name}, {a.extent}, is known inside of another axis alone")
        ordered = [a for a in own if a.kind is not AxisKind.PARALLEL]
        if [a for a in axes if a.kind is not AxisKind.PARALLEL] != ordered:
            raise ScheduleError(f"{_names(ordered)} have to stay in their order")
        if own != list(axes):
            own[:] = axes
            self.steps.append(Step("reorder", tuple(a.name for a in axes)))

    def hoist(self, outer: Axis, phase: Phase) -> Axis:
        """Make the outermost axis of the only phase the last shared one: each iteration then has results of its own.

        What the phases after it see of its reductions are those of a part: only a stage that stores them may follow.
        """
        if phase.axes[0] is not outer or self.phases != [phase] or phase.carries or phase.axes == [outer]:
            raise ScheduleError(f"{outer.name} is not the outermost of several axes of the only phase")
        if outer.bound:
            raise ScheduleError(f"the extent of {outer.name} is a value that the kernel computes")
        phase.axes.pop(0)
        self.steps.append(Step("hoist", (outer.name,)))
        self.shared.append(Axis(outer.var, outer.extent))
        return self.shared[-1]

    def append(self, stage: Stage) -> Phase:
        """Add a stage behind the others."""
        phase = self.code.phase(stage)
        self.phases.append(phase)
        return phase

    def merge_chunks(self, outer: Axis, inner: Axis, whole: Axis, size: int) -> Axis:
        """Let neighbouring chunks of an axis that was split into such of ``size`` elements be one iteration, as many as
        a thread has to do: what then lies in one."""
        if outer not in self.shared or self.shared[-1] is not inner or outer.extent == 1 or self._merged is not None:
            raise ScheduleError(f"{inner.name} is not the last shared axis, or {outer.name} no loop over chunks of it")
        count = new_symbol("count", "iterations of a grid loop that are one")
        self._merged = outer, count
        extent = dim_min(as_dim(count) * size, whole.extent - as_dim(outer.var) * size)
        self.shared[-1] = replace(inner, extent=extent)
        self.steps.append(Step("merge", (outer.name,), f"over {inner.name}"))
        return self.shared[-1]

    def sink(self, axes: Sequence[Axis]) -> None:
        """Make the last shared axes the innermost of each phase.

        A phase that reduces keeps them shared: each of their iterations has a result of its own.
        """
        first = len(self.shared) - len(axes)
        if not axes or self.shared[first:] != list(axes) or self._roles:
            raise ScheduleError(f"{_names(axes)} are not the last shared axes, or lanes go along them")
        if any(phase.folds or phase.carries or phase.has_lanes() for phase in self.phases):
            raise ScheduleError(f"{_names(axes)} stay outside of what is folded, and of lanes")
        del self.shared[first:]
        for phase in self.phases:
            phase.axes += axes
        self.steps.append(Step("sink", tuple(a.name for a in axes)))

    def bind_lane(self, last: Axis, rows: Axis | None = None) -> None:
        """Let lanes go along the last shared axis, and each through all phases; ``rows``, the axis before it, is a
        serial loop then."""
        axes = [last] if rows is None else [rows, last]
        if self.shared[-len(axes) :] != axes or any(p.has_lanes() for p in self.phases):
            are = "is not the last shared axis" if rows is None else "are not the last shared axes"
            raise ScheduleError(f"{_names(axes)} {are}, or phases have lanes of their own")
        self._roles = {last.var: Role.LANE}
        if rows is not None:
            self._roles[rows.var] = Role.SERIAL
            self.steps.append(Step("bind", (rows.name,), "to a serial loop"))
        self.steps.append(Step("bind", (last.name,), "to lanes"))

    def bind_tile(self, steps: Axis, lanes: Axis, rows: Axis) -> None:
        """Let the last three shared axes be the loops of a tile: a serial one, in each of its steps lanes, and in each
        vector of lanes a few rows, which load and store together."""
        if self.shared[-3:] != [steps, lanes, rows] or not self.is_flat() or most_iterations(rows.extent) is None:
            raise ScheduleError(f"{_names([steps, lanes, rows])} are not the last shared axes, or make no tile")
        self._roles = {steps.var: Role.SERIAL, lanes.var: Role.LANE, rows.var: Role.UNROLL}
        self.steps.append(Step("bind tile", (steps.name, lanes.name, rows.name)))

    def bind_last(self, roles: Sequence[Role], width: int = 0) -> None:
        """Give the last shared axes roles: teams of ``width`` lanes, then lanes, then a few iterations that go
        together, each of which may be left out. With teams alone, lanes are those of the phases, and what each keeps
        in scratch is its own."""
        order = [Role.TEAM, Role.LANE, Role.UNROLL]
        bound = self.shared[len(self.shared) - len(roles) :]
        if self._roles or len(bound) < len(roles) or [role for role in order if role in roles] != list(roles):
            raise ScheduleError(f"{_names(self.shared)} do not take {', '.join(role.value for role in roles)}")
        if Role.LANE in roles and any(p.has_lanes() for p in self.phases):
            raise ScheduleError(f"{_names(bound)} have lanes inside of them already")
        if Role.UNROLL in roles and (Role.LANE not in roles or not self.is_flat() or not _is_few(bound[-1])):
            raise ScheduleError(f"{bound[-1].name} has more in it than a few stores")
        if Role.TEAM in roles:
            if self.code.scratch and most_iterations(bound[0].extent) is None:
                raise ScheduleError(f"{bound[0].name} has no number of teams, for which there would be scratch")
            self.team_lanes, self._team = width, bound[0]
        self._roles = {a.var: role for a, role in zip(bound, roles, strict=True)}
        self.steps.append(Step("bind", tuple(a.name for a in bound), "to " + ", ".join(role.value for role in roles)))

    def stage(self, across: Axis, down: Axis, width: int) -> None:
        """Let a phase in front of the only one, which stores, fill scratch with what the loads along ``down`` read of a
        tile: both axes are the phase's own, each with a number of iterations at most.

        Lanes go along ``across`` in the phase, and along ``down`` in front of it; teams of ``width`` lanes along the
        other one. Rows of a tile lie one element further apart than they are long, in different banks.
        """
        (phase,) = self.phases
        side = most_iterations(down.extent)
        if phase.axes != [down, across] or phase.folds or phase.carries or phase.has_lanes() or side is None:
            raise ScheduleError(f"{_names([down, across])} are not the axes of a tile that is stored")
        if (length := most_iterations(across.extent)) is None:
            raise ScheduleError(f"{across.name} has no number of iterations at most")
        place = as_dim(across.var) * (side + 1) + as_dim(down.var)
        rewriter, fill = Rewriter(lambda dim: dim), list[Stmt]()
        for load in crossed_loads(self, across, down):
            tile = Buffer("tile", load.dtype, Space.SCRATCH, length * (side + 1))
            self.tiles.append(tile)
            fill.append(Store(tile, place, load))
            rewriter.exprs[id(load)] = Load(tile, place)
        phase.body = rewriter.block(phase.body)
        filling = Phase([across, down], tuple(fill))
        self.phases.insert(0, filling)
        for each in self.phases:
            each.inner, each.outer, each.width = Role.LANE, Role.TEAM, width
        self.steps.append(Step("stage", (across.name, down.name), "in tiles"))

    def scan(self, phase: Phase, lanes: int, each: int) -> None:
        """Let lanes go through a running reduction in chunks, ``each`` elements a lane: see
        ``dyn.schedule.running_chunks``."""
        (step,), (carry,) = self._scanned(phase), phase.carries
        assert phase.scan is not None
        phase.chunks, scratch = scan_in_chunks(step, phase.body, carry, phase.scan, lanes, each)
        phase.pieces = (lanes, each)
        self.tiles += scratch
        self.steps.append(Step("scan", (step.name,), f"in chunks of {lanes} lanes by {each}"))

    def scan_parts(self, phase: Phase, part: int) -> None:
        """Let a running reduction go in parts of so many elements, one after the other, and lanes fold each of them
        before it is gone through."""
        (step,), (carry,) = self._scanned(phase), phase.carries
        assert phase.scan is not None
        phase.chunks = (scan_in_parts(step, phase.body, carry, phase.scan, part, self.nest.order),)
        phase.pieces = (part,)
        self.steps.append(Step("scan", (step.name,), f"in parts of {part}"))

    def go_by_runs(self) -> None:
        """Make the shared axes one, and cut it into the nest's runs, and these into those within them."""
        runs = self.nest.runs
        if runs is None or self._roles or self._in_runs:
            raise ScheduleError(f"{_names(self.shared)} do not go by runs, or lanes go along them")
        inside = whole = self.flatten(self.fuse(self.shared))
        for level in runs.levels:
            extent = inside.extent
            outer, inside = self.split(inside, level.length, name="run")
            self.shared[-2] = replace(outer, extent=chunks(extent, level.length))  # none of no iterations
        first, *self._in_runs = self.shared[-len(runs.levels) - 1 :]
        self._substitute({runs.run: as_dim(first.var)}, None)
        self._roles = {a.var: Role.SERIAL for a in self._in_runs}
        self.steps.append(Step("runs", (whole.name,)))

    def _scanned(self, phase: Phase) -> list[Axis]:
        if phase.scan is None or len(phase.axes) != 1 or phase.folds or self._roles or phase.chunks:
            raise ScheduleError(f"{_names(phase.axes)} are not the one axis of a running reduction without roles")
        return phase.axes

    def carry(self, phase: Phase) -> None:
        """Let a phase fold scalars in one chain through all of its loops: each iteration goes on from what the one
        before it has left, where nested loops would each begin anew and keep the states of those around beside theirs.

        A contraction adds its products to the state as they are, rounded once.
        """
        if phase.has_lanes() or phase.chained or any(f.monoid.scalar is None or f.block for f in phase.folds):
            raise ScheduleError(f"{_names(phase.axes)} have lanes or chains, or fold more than scalars")
        made: list[Carry] = []
        for fold in phase.folds:
            (ref,), (value,), (init,), fn = fold.refs, fold.values, fold.monoid.init, fold.monoid.scalar
            state = Ref("state", ref.dtype)
            assert fn is not None
            if phase.product is not None and ref.dtype.is_float and isinstance(value, Apply):
                changed = Apply(Scalar.FMA, (*value.args, state), ref.dtype)
            else:
                changed = Apply(fn, (state, value), ref.dtype)
            made.append(Carry(ref, state, init, changed))
        phase.folds, phase.product, phase.carries = (), None, (*made, *phase.carries)
        self.steps.append(Step("carry", tuple(a.name for a in phase.axes)))

    def jam(self, outer: Axis, count: int) -> None:
        """Let the shared axis in front of the lanes go ``count`` iterations at a time through the phases' loops, and
        what is left of it one by one: one serial loop for each."""
        roles = [self._roles.get(a.var, Role.GRID) for a in self.shared[-2:]]
        if self._jammed is not None or roles != [Role.GRID, Role.LANE] or self.shared[-2] is not outer:
            raise ScheduleError(f"{outer.name} is not the axis in front of the lanes")
        inside = [self.shared[-1], *[a for p in self.phases for a in p.axes]]
        if self.code.scratch or any(outer.var in a.symbols for a in inside):
            raise ScheduleError(f"iterations of {outer.name} have scratch, or loops of different lengths")
        if not self.is_serial():
            raise ScheduleError(f"iterations of {outer.name} do more than fold, carry and store")
        self._jammed = outer, count
        self._roles[outer.var] = Role.SERIAL
        self.steps.append(Step("jam", (outer.name,), f"by {count}"))

    def operands(self, row: Axis, column: Axis) -> Product:
        """The operands of the first phase, a contraction, as they lie in memory, of which the left one goes along rows,
        the right one along columns."""
        found = self.phases[0].product if self.phases else None
        if found is None:
            raise ScheduleError("the first phase is no contraction")
        found = found.rewritten(self._rewriter()).as_they_lie()
        for operands in (found, found.swapped()):
            if column.var not in operands.symbols(operands.lhs) and row.var not in operands.symbols(operands.rhs):
                return operands
        raise ScheduleError(f"{row.name}, {column.name} are not rows of one operand and columns of the other")

    def tensorise(self, row: Axis, column: Axis, tile: Tile) -> None:
        """Let the first phase, a contraction, go through tiles of accumulators along the last two shared axes.

        What the phases behind it do is done with each accumulator.
        """
        first, *others = self.phases
        operands, red = self.operands(row, column), first.axes[0]
        if first.body or len(first.folds) != 1 or len(first.axes) != 1:
            raise ScheduleError(f"{_names(first.axes)} are several axes, or contracted beside something else")
        if self.shared[-2:] != [row, column] or self._roles or row.var in column.symbols:
            raise ScheduleError(f"{row.name}, {column.name} are not the last shared axes, or lanes go along them")
        if any(p.axes or p.folds or p.carries for p in others):
            raise ScheduleError("a phase behind the contraction has loops of its own")
        epilogue = tuple(stmt for p in others for stmt in p.body)
        contract = TileContract(
            row.var, column.var, red.var, row.extent, column.extent, red.extent, operands.lhs, operands.rhs,
            first.folds[0].refs[0], epilogue, tile, operands.digits,
        )  # fmt: skip
        del self.shared[-2:]
        self.phases = [Phase([], (contract,))]
        self.steps.append(Step("tensorise", (row.name, column.name), f"over {red.name} in tiles of {tile}"))

    def is_flat(self) -> bool:
        """Whether all that there is are stores in shared loops."""
        return not any(
            p.axes or p.folds or p.carries or not all(isinstance(stmt, Store) for stmt in p.body) for p in self.phases
        )

    def is_serial(self) -> bool:
        """Whether phases do no more than fold and carry, one iteration after the other, and store."""
        return not any(p.has_lanes() or not all(isinstance(stmt, Store) for stmt in p.body) for p in self.phases)

    def chain(self, phase: Phase) -> None:
        """Let each lane fold a phase's floats in chains, where these are sums or products: a lane's other states take
        several registers, and the extremes of floats are the same in any order."""
        scalars = {fold.scalar for fold in phase.folds}
        if phase.order is not None and scalars <= {Scalar.ADD, Scalar.MUL} and not phase.carries:
            phase.chained = True
            self.steps.append(Step("chain", (phase.axes[-1].name,), f"{phase.order.step} together"))

    def unroll(self, phase: Phase) -> None:
        """Put the code of a phase's innermost loop in a row, one copy for each iteration."""
        last = phase.axes[-1]
        if phase.has_lanes() or phase.folds or phase.carries or not isinstance(last.extent, int) or not _is_few(last):
            raise ScheduleError(f"{last.name} has lanes, folds or carries, or more iterations than a few")
        change = self._change
        copies = [
            Rewriter(lambda dim, n=n: substitute(substitute(dim, change), {last.var: n})) for n in range(last.extent)
        ]
        phase.body = tuple([stmt for copy in copies for stmt in copy.block(phase.body)])
        del phase.axes[-1]
        self.steps.append(Step("unroll", (last.name,)))

    def bind_lanes(self, phase: Phase, *, outermost: bool = False) -> None:
        """Let lanes go along the innermost axis of a phase; with ``outermost`` around its other axes, each lane
        through all of them."""
        last = self._check_lanes(phase)
        if outermost and len(phase.axes) > 1:
            if any(a.kind not in _ANY_ORDER for a in phase.axes):
                raise ScheduleError(f"{_names(phase.axes)} have an order, and {last.name} cannot be the outermost")
            phase.axes = [last, *phase.axes[:-1]]
            phase.outer = Role.LANE
        else:
            phase.inner = Role.LANE
        self.steps.append(Step("bind", (last.name,), "to lanes"))

    def _check_lanes(self, phase: Phase) -> Axis:
        """The innermost axis of a phase, along which lanes may go."""
        last = phase.axes[-1]
        if self._roles or last.kind not in _ANY_ORDER or phase.carries or phase.has_lanes():
            raise ScheduleError(f"{last.name}, of kind {last.kind.value}, cannot be bound to lanes here")
        return last

    def bind_neighbours(self, phase: Phase, together: int) -> None:
        """Let lanes go along chunks of a phase's only axis, each through the ``together`` neighbours of one."""
        if len(phase.axes) != 1 or not all(isinstance(stmt, Store) for stmt in phase.body):
            raise ScheduleError(f"{_names(phase.axes)} are several axes, or have more in them than stores and folds")
        self._check_lanes(phase)
        chunks, few = self.split(phase.axes[0], together, phase, name="v")
        if not _is_few(few):
            raise ScheduleError(f"{few.name} is more than a few neighbours")
        phase.outer, phase.inner = Role.LANE, Role.UNROLL
        self.steps.append(Step("bind", (chunks.name, few.name), "to lanes, unroll"))

    def _substitute(self, change: dict[Symbol, Dim], phase: Phase | None) -> None:
        # Phases share what depends on shared axes alone: it is rewritten once, for all of them, at the end.
        if phase is not None:
            phase.substitute(change)
        elif change:
            self._change = composed(self._change, change)

    # The kernel -----------------------------------------------------------------------------------------------

    def variant(self, note: str, condition: Condition | None = None, order: Sequence[Value] | None = None) -> Variant:
        """The kernel, chosen where ``condition`` holds, with its memory in an order."""
        body = tuple(stmt for phase in self.phases for stmt in phase.statements())
        if self._change:
            body = self._rewriter().block(body)
        roles = [self._roles.get(a.var, Role.GRID) for a in self.shared]
        variables = {a.var for a in self.shared}
        for a, role in zip(self.shared, roles, strict=True):
            if role is Role.GRID and not variables.isdisjoint(a.symbols):
                raise ScheduleError(f"{a.name}, whose extent is {a.extent}, is no GRID loop: sink it, or bind it")
        scratch = [*self.code.scratch.values(), *self.tiles]
        if self._team is not None and scratch:
            body, scratch = scratch_for_each_team(self._team, body, scratch)
        outer = self.shared
        if self._jammed is not None:
            *outer, rows, lanes = self.shared
            body = unroll_and_jam(rows, self._jammed[1], [lanes], roles[-1:], body, self._is_positive)
        if self._merged is not None and outer[-1:] != [self._merged[0]]:
            raise ScheduleError(f"chunks of {self._merged[0].name} are merged, which is not the innermost grid loop")
        if len(self._in_runs) != len(self.around):
            raise ScheduleError(f"{_names(self.shared)} do not go by runs, which updates are for")
        for inside, level in zip(reversed(self._in_runs), reversed(self.around), strict=True):
            before, *after = [self._rewriter().block(phase.statements()) for phase in level]
            body = (*before, *nest([inside], [Role.SERIAL], body), *itertools.chain(*after))
            outer = outer[:-1]
        count = None if self._merged is None else self._merged[1]
        body = nest(outer, roles[: len(outer)], body, self.team_lanes, count)
        found = self.code.buffers()
        buffers = tuple([found[value] for value in (found if order is None else order)])
        made = bind_kernel(
            body, buffers, tuple(scratch), name=self.nest.group.name, condition=condition, note=note,
            in_place=self.nest.in_place,
        )  # fmt: skip
        return replace(made, steps=tuple(map(str, self.steps)), folds=self._fold_orders())

    def _is_positive(self, extent: Dim) -> bool:
        least, _ = self.nest.plan.function.facts.bounds(extent)
        return least is not None and least >= 1

    def _fold_orders(self) -> tuple[FoldOrder, ...]:
        """The orders in which phases fold floats: their extents over places of the shared axes, counted from the last,
        since those may have been fused."""
        places = {a.var: loop_place(number) for number, a in enumerate(reversed(self.shared))}
        orders = [phase.fold_order(places, self.team_lanes) for phase in self.phases if phase.folds_floats()]
        runs = self.nest.runs
        if runs is not None and any(dtype.is_float for dtype in runs.states):
            states = tuple([(dtype,) for dtype in runs.states])
            lengths = tuple([level.length for level in runs.levels])
            orders.append(FoldOrder(lengths, (Role.SERIAL, Role.SERIAL, 0), None, states))
        return tuple(orders)

    def launch(self, note: str, *, temporaries: tuple[Value, ...] = (), when: Condition | None = None) -> Launch:
        """A launch of the kernel alone."""
        return Launch(self.nest.group, tuple(self.code.buffers()), (self.variant(note),), temporaries, when)


def _is_few(a: Axis) -> bool:
    most = most_iterations(a.extent)
    return most is not None and most <= MOST_UNROLLED


def _names(axes: Sequence[Axis]) -> str:
    return ", ".join(a.name for a in axes)
