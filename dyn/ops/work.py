"""Arithmetic of ops: the operations that each takes, as formulas of its sizes.

They are counted from what an op declares of its loops, never from its name: scalar code by the functions in it that
compute, a fold by its elements, a contraction by its products. What a library computes says itself how many operations
that takes (``OpDef.flops``). Loops and choices have none of their own: those of their regions are for whoever knows how
often these run.

As in XLA's cost analysis an operation is one on numbers of any dtype, a comparison too; transcendental functions are
counted apart. Choices and conversions are not counted, and neither is arithmetic on places of elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import IRError
from dyn.frozen import record
from dyn.ir.core import Op, Region
from dyn.ir.opdef import (
    CompactionLoops,
    ContractionLoops,
    Convolution,
    ElementLoops,
    LibraryRoutine,
    OpKind,
    OrderedReductionLoops,
    OrderedWindows,
    Pieces,
    ReductionLoops,
    RunningLoops,
    Scatter,
    WindowFold,
)
from dyn.ops.complex_parts import part_dtype
from dyn.ops.counts import unknown_count
from dyn.ops.regions import region_values
from dyn.ops.scalar import MOVES, TRANSCENDENTALS, Scalar
from dyn.shapes import Dim, as_dim, product, symbol


@record(eq=False)
class OpWork:
    """Operations: ``flops`` by the dtype that is computed in, and transcendental functions.

    A multiply-add is two operations. ``function_work`` is the ``Scalar.work`` of functions that take longer than a
    simple operation, the transcendental ones among them.
    """

    flops: Mapping[DType, Dim] = field(default_factory=dict[DType, Dim])
    transcendentals: Dim = 0
    function_work: Dim = 0

    @property
    def total(self) -> Dim:
        """The operations in all dtypes together."""
        total: Dim = 0
        for count in self.flops.values():
            total = total + count
        return total

    def times(self, count: Dim) -> OpWork:
        """The work of doing it so many times."""
        flops = {dtype: own * count for dtype, own in self.flops.items()}
        return OpWork(flops, self.transcendentals * count, self.function_work * count)

    @staticmethod
    def sum(works: Iterable[OpWork]) -> OpWork:
        """The work of all together."""
        flops: dict[DType, Dim] = {}
        transcendentals: Dim = 0
        function_work: Dim = 0
        for work in works:
            transcendentals = transcendentals + work.transcendentals
            function_work = function_work + work.function_work
            for dtype, count in work.flops.items():
                flops[dtype] = flops.get(dtype, 0) + count
        return OpWork(flops, transcendentals, function_work)


NO_WORK = OpWork()
#: The kinds of ops that compute nothing.
_IDLE = (OpKind.VIEW, OpKind.GENERATE, OpKind.BARRIER, OpKind.DATA_DEPENDENT_SIZE)


def work_of(op: Op) -> OpWork:
    """The work of an op, after all passes: without complex numbers, calls, and ops that others make up."""
    if op.opdef.flops is not None:
        return _of_library(op, op.opdef.flops(op))
    if op.opdef.kind in _IDLE:
        return NO_WORK
    if isinstance(op.opdef.loops, LibraryRoutine):
        name = op.opdef.name
        return _of_library(op, unknown_count(f"flops({name})", f"operations of {name} at {op.loc}"))
    rule = _RULES.get(type(op.opdef.loops))
    if rule is None:
        raise IRError(f"{op.opdef.name} at {op.loc} has no operations of its own: others take its place.")
    return rule(op, op.opdef.loops)


def _of_library(op: Op, count: Dim) -> OpWork:
    values = (*op.operands, *op.results)
    return OpWork({part_dtype(values[0].dtype) if values else dtypes.float32: count})


def _elements(op: Op, loops: ElementLoops) -> OpWork:
    counter = _Counter()
    index = tuple([as_dim(symbol(f"i{axis}")) for axis in range(len(op.result.shape))])
    value = loops.at(counter, op, index, _element_getter(op))
    # What an INDEXED op tests before it takes an element is arithmetic on places.
    return counter.work([value], tests=op.opdef.kind is OpKind.POINTWISE).times(product(op.result.shape))


def _element_getter(op: Op) -> Callable[..., Any]:
    return lambda number, *_: _Scalar(op.operands[number].dtype, of_data=True)


def _region(region: Region) -> OpWork:
    """The work of a region of scalars."""
    counter = _Counter()
    return counter.work(region_values(counter, region, [_Scalar(p.dtype, of_data=True) for p in region.params]))


def _combined(op: Op, combine: Any) -> OpWork:
    """The work of one use of a function that combines: a scalar function, or without one the op's own region."""
    if op.regions:
        return _region(op.regions[-1])
    return NO_WORK if combine is None else OpWork({op.results[0].dtype: 1})


def _reduction(op: Op, loops: ReductionLoops | RunningLoops | OrderedReductionLoops) -> OpWork:
    combine = None if isinstance(loops, OrderedReductionLoops) else loops.combine(op.attrs)
    return _combined(op, combine).times(product(op.operands[0].shape))


def _scatter(op: Op, loops: Scatter) -> OpWork:
    return _combined(op, loops.combine(op.attrs)).times(product(loops.updates(op).shape))


def _windows(op: Op, loops: WindowFold) -> OpWork:
    counter, taps = _Counter(), loops.extents(op)
    index, places = (
        tuple([as_dim(symbol(f"{name}{axis}")) for axis in range(count)])
        for name, count in (("i", len(op.result.shape)), ("t", len(taps)))
    )
    value = loops.at(counter, op, index, places, _element_getter(op), op.result.dtype)
    tap = OpWork.sum([counter.work([value], tests=False), _combined(op, loops.combine(op.attrs))])
    return tap.times(product((*op.result.shape, *taps)))


def _ordered_windows(op: Op, loops: OrderedWindows) -> OpWork:
    return _region(op.regions[0]).times(product((*op.results[0].shape, *loops.extents(op))))


def _contraction(op: Op, loops: ContractionLoops) -> OpWork:
    lhs = op.operands[0]
    reduced = [lhs.shape[axis] for axis in op.attrs["lhs_contracting"]]
    return OpWork({lhs.dtype: 2 * product((*op.result.shape, *reduced))})


def _convolution(op: Op, loops: Convolution) -> OpWork:
    """Taps that lie on padding or in holes count as others."""
    kernel, (_, *reduced) = op.operands[1], op.attrs["rhs_spec"]
    return OpWork({kernel.dtype: 2 * product((*op.result.shape, *[kernel.shape[axis] for axis in reduced]))})


def _none(op: Op, loops: object) -> OpWork:
    return NO_WORK


#: By the class of an op's ``loops``.
_RULES: Mapping[type[Any], Callable[[Op, Any], OpWork]] = {
    ElementLoops: _elements,
    Pieces: _none,
    CompactionLoops: _none,
    ReductionLoops: _reduction,
    RunningLoops: _reduction,
    OrderedReductionLoops: _reduction,
    Scatter: _scatter,
    WindowFold: _windows,
    OrderedWindows: _ordered_windows,
    ContractionLoops: _contraction,
    Convolution: _convolution,
}


# --- scalar code ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class _Scalar:
    """A value in scalar code: what it was computed with, and whether an array's elements have a part in it."""

    dtype: DType
    fn: Scalar | None = None
    args: tuple[_Scalar, ...] = ()
    of_data: bool = False


class _Counter:
    """A ScalarBuilder whose values remember how they were made."""

    def apply(self, fn: Scalar, args: Sequence[_Scalar], dtype: DType) -> _Scalar:
        return _Scalar(dtype, fn, tuple(args), any(arg.of_data for arg in args))

    def const(self, dtype: DType, value: object) -> _Scalar:
        return _Scalar(dtype)

    def index(self, dtype: DType, expr: Dim) -> _Scalar:
        return _Scalar(dtype)

    def bind(self, value: _Scalar) -> Dim:
        return as_dim(symbol("place"))

    def pair(self, real: _Scalar, imag: _Scalar, dtype: DType) -> _Scalar:
        return _Scalar(dtype, None, (real, imag), real.of_data or imag.of_data)

    def parts(self, value: _Scalar) -> tuple[_Scalar, _Scalar]:
        return value, value

    def part(self, value: _Scalar, number: Dim) -> _Scalar:
        return value

    def work(self, results: Sequence[_Scalar], *, tests: bool = True) -> OpWork:
        """The functions that compute the results, each once; those of conditions of choices with ``tests``."""
        flops: dict[DType, Dim] = {}
        transcendentals = function_work = 0
        seen: set[int] = set()
        pending = list(results)
        while pending:
            value = pending.pop()
            if id(value) in seen or not value.of_data:
                continue
            seen.add(id(value))
            chosen = value.args[1:] if value.fn is Scalar.SELECT and not tests else value.args
            pending += chosen
            if value.fn is None or value.fn in MOVES:
                continue
            function_work += value.fn.work if value.fn.work > 1 else 0
            if value.fn in TRANSCENDENTALS:
                transcendentals += 1
                continue
            # A comparison computes in the dtype of what it compares.
            dtype = value.args[0].dtype if value.dtype.kind is Kind.BOOL else value.dtype
            flops[dtype] = flops.get(dtype, 0) + (2 if value.fn is Scalar.FMA else 1)
        return OpWork(flops, transcendentals, function_work)
