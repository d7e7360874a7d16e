"""Scatters of many updates into few elements, in parts.

One iteration would go through all updates of a histogram, since any two may meet. Here the updates are cut into parts,
at most ``_MOST_PARTS``. Each part puts its own, in their order, into an array of its own, which begins with what
changes nothing, and a second launch joins these arrays and the operand. How many parts there are follows from sizes
alone. Integers get the bits that one iteration gives; sums of floats are sums of the parts' sums, as those of long rows
are, with less of an error.
"""

from __future__ import annotations

from dataclasses import replace

from dyn.dtypes import DType
from dyn.ir.core import Value
from dyn.ir.types import TensorType
from dyn.ops.reduce import COMBINES, identity
from dyn.ops.scalar import Scalar
from dyn.schedule.axes import AxisKind, axis, index_of, linearize
from dyn.schedule.elements import ElementReader
from dyn.schedule.expressions import literal
from dyn.schedule.kernel import Buffer, Const, Expr, Stmt, Store, scalar_monoid
from dyn.schedule.launch import Condition, Launch
from dyn.schedule.loops import Loops
from dyn.schedule.nest import Nest, Reduction, Stage, Write
from dyn.schedule.nests import loop, present
from dyn.schedule.parts import InParts
from dyn.schedule.scatter import Part, Scatters
from dyn.schedule.sizes import LoopSchedule
from dyn.schedule.specialized_kernels import SpecializedKernel, launch_nest
from dyn.schedule.unstretched import unstretched
from dyn.shapes import Dim, as_dim, dim_max, dim_min, floordiv, product

#: The most parts, and for how many updates of each element of the array they pay.
_MOST_PARTS, _LEAST_UPDATES = 64, 64
#: Elements of a line of memory, if they are bytes: no two parts write into one.
_LINE = 64


class ScatterParts:
    """A scatter in parts."""

    def __init__(self, scatter: Scatters, cuts: LoopSchedule) -> None:
        self.scatter, self.cuts = scatter, cuts
        self.results, self.size = product(scatter.x.shape), product(scatter.updates.shape)
        #: From one part's array to the next one's.
        self.apart = floordiv(self.results + (_LINE - 1), _LINE) * _LINE
        self.dtype, self.combine = scatter.x.dtype, scatter.combine()
        own = scatter.own.values()
        shape = scatter.updates.shape
        #: The axis of the updates that is cut: the outermost along which two may meet.
        self.cut = next((dim for dim in scatter.batch if dim not in own and shape[dim] != 1), None)

    @property
    def exact(self) -> bool:
        """Whether parts give the bits that all updates in their order do."""
        return not self.dtype.is_float

    def condition(self) -> Condition | None:
        """The condition that parts pay; None if they never do."""
        joined = self.combine in COMBINES.values() and (self.dtype.is_integer or self.dtype.is_float)
        if not (joined and self.cuts.scattered_part) or self.cut is None:
            return None
        many = self.size - dim_max(2 * self.cuts.scattered_part, _LEAST_UPDATES * self.results)
        return Condition(dim_min(many, self.cuts.few_columns - self.results), 0, None)

    def choice(self) -> InParts:
        """The launches, and when they pay."""
        return InParts(self.condition(), self.launches, self.scatter.plan)

    def launches(self, when: Condition | None) -> tuple[Launch, ...]:
        """The launch of the parts, and the one that joins them."""
        assert self.cut is not None
        extent = self.scatter.updates.shape[self.cut]
        inner = product(d for number, d in enumerate(self.scatter.updates.shape) if number != self.cut)
        least = floordiv(self.cuts.scattered_part, dim_max(inner, 1))
        each = dim_max(least, floordiv(extent + _MOST_PARTS - 1, _MOST_PARTS), 1)
        count = floordiv(extent + each - 1, each)
        arrays = Value(TensorType(self.dtype, (count, self.apart)))
        return self._updated(arrays, each, when), self._joined(arrays, when)

    def _neutral(self, dtype: DType) -> Const:
        """What changes nothing: in sums of floats -0.0, which leaves the sign of a zero."""
        if dtype.is_float and self.combine is Scalar.ADD:
            return literal(dtype, -0.0)
        name = next(name for name, scalar in COMBINES.items() if scalar is self.combine)
        return literal(dtype, identity(name, dtype))

    def _updated(self, arrays: Value, each: Dim, when: Condition | None) -> Launch:
        scatter, cut = self.scatter, self.cut
        assert cut is not None
        part, place = axis("p", arrays.shape[0]), loop("c", self.results)
        first, base = as_dim(part.var) * each, as_dim(part.var) * self.apart
        (number,) = index_of([place])

        def neutral(elements: ElementReader, buffer: Buffer) -> tuple[Stmt, ...]:
            return (Store(buffer, base + number, self._neutral(self.dtype)),)

        fill = Stage(present([place]), (), (Write(arrays, neutral),))
        updates = scatter.changes({}, Part(cut, first, each, arrays, base))
        general, schedule = (
            Loops(Nest(scatter.plan, scatter.group, (part,), (fill, updates))),
            scatter.schedule(self.cuts),
        )
        apart = unstretched(general)
        forms: list[SpecializedKernel] = []
        if apart is not None:
            same = Loops(general.nest, equal=apart.equal, aligned=True)
            forms.append(SpecializedKernel("nothing stretched", apart.condition, lambda: same, schedule))
        made = launch_nest(general, schedule, forms, f"{scatter.group.name}, parts")
        return replace(made, temporaries=(arrays,), when=when)

    def _joined(self, arrays: Value, when: Condition | None) -> Launch:
        scatter, x, combine = self.scatter, self.scatter.x, self.combine
        wide = x.dtype.wide
        assert combine is not None
        part = axis("p", arrays.shape[0], AxisKind.REDUCE)
        axes = [loop(f"i{number}", d) for number, d in enumerate(x.shape)]
        index = index_of(axes)
        place = linearize(index, x.shape)

        def states(elements: ElementReader) -> tuple[Expr, ...]:
            k = elements.k
            return (k.cast(k.load(elements.temporary(arrays), as_dim(part.var) * self.apart + place), wide),)

        monoid = scalar_monoid(combine, self._neutral(wide))
        total = Reduction((), monoid, states, lambda elements, state: ())
        loops = Loops(Nest(scatter.plan, scatter.group, present(axes), (Stage((part,), reductions=(total,)),)))
        ((ref,),) = (fold.refs for fold in loops.phases[0].folds)

        def joined(elements: ElementReader, buffer: Buffer) -> tuple[Stmt, ...]:
            k = elements.k
            whole = k.apply(combine, [k.cast(elements.at(x, index), wide), ref], wide)
            return (Store(buffer, place, k.cast(whole, x.dtype)),)

        loops.append(Stage(writes=(Write(scatter.op.result, joined),)))
        if loops.fuse(loops.shared):
            _, lanes = loops.split(loops.shared[-1], self.cuts.columns)
            loops.bind_lane(lanes)
        return loops.launch(f"{scatter.group.name}, parts joined", when=when)
