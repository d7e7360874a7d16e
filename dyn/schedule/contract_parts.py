"""Contractions of many products into few results, in parts.

Tiles of results leave all cores but one idle where there are few of them. Here the contracted axis is cut: one launch
sums up parts of it, as many as the shape and the target say, and another one adds up the parts' sums and does with each
what the group does. The order is the same however many threads there are, and the error is that of reductions in parts.
"""

from __future__ import annotations

from dataclasses import replace

from dyn.ir.core import Value
from dyn.ir.types import TensorType
from dyn.ops.scalar import Scalar
from dyn.schedule.axes import Axis, AxisKind, axis, index_of, linearize
from dyn.schedule.elements import ElementReader
from dyn.schedule.expressions import literal
from dyn.schedule.families import schedules_of
from dyn.schedule.kernel import Expr, scalar_monoid
from dyn.schedule.launch import Condition, Launch, scaled
from dyn.schedule.loops import Loops
from dyn.schedule.nest import Nest, Reduction, Stage, casts
from dyn.schedule.parts import InParts, folded, join_in_turn, steps_of_part
from dyn.schedule.specialized_kernels import launch_nest
from dyn.schedule.target import Target
from dyn.schedule.tiles import Sides, contraction_of, tile_forms
from dyn.shapes import Dim, as_dim, dim_min, linear_in, product


class ContractionParts:
    """A contraction in parts; a ``flat`` one has axes that become one by division, of which the outermost is cut."""

    def __init__(self, nest: Nest, target: Target, *, flat: bool = False) -> None:
        self.nest, self.plan, self.target, self.flat = nest, nest.plan, target, flat
        self.contraction, self.cuts = contraction_of(nest), schedules_of(target).sizes()
        self.size = product(a.extent for a in nest.stages[0].axes)
        #: Whether results are numbers, each with lanes along its products.
        self.alone = not self.contraction.rows and not self.contraction.columns

    @property
    def results(self) -> Dim:
        """The number of results."""
        return product(a.extent for a in self.nest.shared)

    def condition(self) -> Condition | None:
        """The condition that parts pay; None if they never do."""
        cuts = self.cuts
        if not cuts.part_steps or (isinstance(self.size, int) and self.size < min(cuts.long, cuts.part)):
            return None
        if not self.alone and self.target.batch_invariant:
            return None
        if self.alone:
            return Condition(self.size, cuts.part + 1, None)
        if self._grows():
            return None
        return Condition(dim_min(self.size - cuts.long, cuts.few_results - self.results), 0, None)

    def _grows(self) -> bool:
        """Whether there are many results, or none, wherever there are many products: a size is a factor of both."""
        symbol = self.size if isinstance(self.size, int) else self.size.is_symbol
        if isinstance(symbol, int) or symbol is None:
            return False
        linear = linear_in(self.results, symbol)
        if linear is None or linear[1] != 0:
            return False
        factor = linear[0] if isinstance(linear[0], int) else scaled(linear[0])[0]
        return factor * self.cuts.long > self.cuts.few_results

    def choice(self) -> InParts:
        """The launches, and when they pay."""
        return InParts(self.condition(), self.launches, self.plan)

    def launches(self, when: Condition | None) -> tuple[Launch, ...]:
        """The launch of the parts, and the one that joins them."""
        nest, name = self.nest, self.nest.group.name
        first = replace(nest, stages=nest.stages[:1])
        made, parts = (self._dots if self.alone else self._tiles)(first, f"{name}, parts")
        joined = self._joined(parts)
        return (
            replace(made, temporaries=(parts,), when=when),
            joined.launch(f"{name}, parts joined", when=when),
        )

    # The two kernels ------------------------------------------------------------------------------------------

    def _dots(self, nest: Nest, note: str) -> tuple[Launch, Value]:
        loops = Loops(nest)
        (phase,) = loops.phases
        loops.fuse(phase.axes, phase)
        _, parts = self._cut(loops, self.cuts.part)
        loops.bind_lanes(phase)
        return loops.launch(note), parts

    def _tiles(self, nest: Nest, note: str) -> tuple[Launch, Value]:
        loops, steps = Loops(nest), self.cuts.part_steps
        if self.flat:
            chunk, parts = self._cut(loops, steps)
            sides = Sides(loops, flat=True)
        else:
            sides = Sides(loops)
            chunk, parts = self._cut(loops, steps)
        loops.reorder([chunk, *[a for a in loops.shared if a is not chunk]])
        *forms, general = tile_forms(sides, self.target)
        return launch_nest(loops.fork(), general.schedule, forms, note), parts

    def _cut(self, loops: Loops, steps: int) -> tuple[Axis, Value]:
        """Cut the contracted axis, or the outermost of several, so that about as many steps are a part, and store each
        part's sum: the shared axis of the parts, and their memory."""
        (phase,) = loops.phases
        outer, _ = loops.split(phase.axes[0], steps_of_part(phase.axes, steps), phase, name="p")
        chunk, ref = loops.hoist(outer, phase), phase.folds[0].refs[0]
        parts = Value(TensorType(ref.dtype, (chunk.extent, self.results)))
        loops.append(Stage(writes=(folded(parts, self._place(chunk), ref),)))
        return chunk, parts

    def _place(self, part: Axis) -> Dim:
        """Place of an iteration's sum of a part: results lie side by side, or else a result's parts."""
        shared = self.nest.shared
        result = linearize(index_of(shared), tuple(a.extent for a in shared))
        if self.alone:
            return result * part.extent + as_dim(part.var)
        return as_dim(part.var) * self.results + result

    def _joined(self, parts: Value) -> Loops:
        """The parts' sums added up, and what the group does with each of these."""
        nest, wide = self.nest, parts.dtype
        part = axis("p", parts.shape[0], AxisKind.REDUCE)
        place = self._place(part)

        def states(elements: ElementReader) -> tuple[Expr, ...]:
            return (elements.k.load(elements.temporary(parts), place),)

        results = (self.contraction.result,)
        total = Reduction(results, scalar_monoid(Scalar.ADD, literal(wide, 0)), states, casts(results))
        stage = Stage((part,), reductions=(total,))
        loops = Loops(Nest(nest.plan, nest.group, nest.shared, (stage, *nest.stages[1:])))
        if self.alone and not self.cuts.in_turn:
            loops.bind_lanes(loops.phases[0])
            return loops
        if self.cuts.in_turn:
            join_in_turn(loops, loops.phases[0])
        if self.alone:
            return loops
        _, lanes = loops.split(loops.fuse(loops.shared)[-1], self.cuts.columns)
        loops.bind_lane(lanes)
        return loops
