"""Compactions: a running count of a mask, of which each element that is true writes its value to the place that the
count says.

The count is carried and stored nowhere, but for a number for each part: see ``dyn.schedule.running``. Places that the
mask has nothing for are zeros, which are written first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dyn import dtypes
from dyn.ir.core import Value
from dyn.ir.opdef import CompactionLoops
from dyn.ir.types import TensorType
from dyn.ops.scalar import Scalar
from dyn.schedule.axes import Axis, index_of, linearize
from dyn.schedule.elements import ElementReader, Index
from dyn.schedule.expressions import literal
from dyn.schedule.kernel import Buffer, Const, Expr, Stmt, Store
from dyn.schedule.loops import Loops
from dyn.schedule.nest import Stage, Write
from dyn.schedule.nests import loop, present
from dyn.schedule.order import Order
from dyn.schedule.phases import Phase
from dyn.schedule.running import RunningNests
from dyn.shapes import Dim
from dyn.stitch.groups import Group, Plan


class CompactionNests(RunningNests):
    """The nests of a group that is one compaction."""

    exact = True

    def monoid(self) -> tuple[Scalar, Const]:
        """Counting."""
        return Scalar.ADD, Const(dtypes.int64, 0)

    def value(self) -> Value:
        """The number of true elements up to each."""
        return Value(TensorType(dtypes.int64, self.group.space))

    def before_all(self, axes: Sequence[Axis | None]) -> tuple[Stage, ...]:
        """Zeros for what the mask may have nothing for."""
        shape = self.op.result.shape
        around = axes or [None if a == self.along else loop(f"i{a}", d) for a, d in enumerate(shape)]
        loops = [loop("z", shape[a]) if a == self.along else mine for a, mine in enumerate(around)]
        index, own = index_of(loops), loops if not axes else [loops[self.along]]

        def statements(elements: ElementReader, buffer: Buffer) -> tuple[Stmt, ...]:
            return (Store(buffer, linearize(index, shape), literal(self.op.result.dtype, 0)),)

        return (Stage(present(own), index, (Write(self.op.result, statements),)),)

    def write(self, place: Index) -> Write:
        """The value to its place, where the mask is true and the result goes so far."""
        mask, values = self.op.operands
        size: Dim = self.op.attrs["size"]

        def statements(elements: ElementReader, buffer: Buffer) -> tuple[Stmt, ...]:
            k = elements.k
            count = elements.known[self.running](())
            number = k.apply(Scalar.SUB, [count, k.const(dtypes.int64, 1)], dtypes.int64)
            fits = k.apply(Scalar.LT, [number, k.index(dtypes.int64, size)], dtypes.bool_)
            chosen = k.both(elements.at(mask, place), fits)
            index = (*place[: self.along], k.bind(number), *place[self.along + 1 :])
            where = linearize(index, self.op.result.shape)
            return (k.update(buffer, where, None, elements.at(values, place), chosen),)

        return Write(self.op.result, statements)

    def _element(self, place: Index) -> Callable[[ElementReader], Expr]:
        return lambda elements: elements.k.cast(elements.at(self.op.operands[0], place), dtypes.int64)


def running_nests(plan: Plan, group: Group, part: int, order: Order | None = None) -> RunningNests:
    """The nests of a RUNNING group."""
    (op,) = group.ops
    compacts = isinstance(op.opdef.loops, CompactionLoops)
    return (CompactionNests if compacts else RunningNests)(plan, group, part, order)


def running_phase(loops: Loops) -> Phase:
    """The phase that goes along the running axis, with lanes along what stands before it."""
    number = next(i for i, phase in enumerate(loops.phases) if phase.scan is not None)
    for phase in loops.phases[:number]:
        if loops.fuse(phase.axes, phase):
            loops.bind_lanes(phase)
    return loops.phases[number]
