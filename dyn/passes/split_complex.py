"""Complex arithmetic taken apart: ``Function -> Function``. The formulas are the ops' own (``OpDef.parts``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dyn.dtypes import Kind, complex64, complex128, float32, float64
from dyn.errors import NotYetError
from dyn.ir.builder import Builder
from dyn.ir.core import Function, Op, Region, Value, with_operands
from dyn.ir.opdef import Control, LibraryRoutine, OpKind
from dyn.ir.region_passes import carries
from dyn.source import UNKNOWN

Pair = tuple[Value, Value]

_PARTS = {complex64: float32, complex128: float64}
#: What only moves elements moves both parts alike.
_MOVERS = (OpKind.VIEW, OpKind.INDEXED)


def split_complex(function: Function) -> Function:
    """Split every complex value between parameters and results into two real ones.

    Needs nothing. Leaves complex numbers in parameters and what libraries compute, which
    only ``real``, ``imag`` and libraries read, and in results and what libraries are given, which ``complex`` makes
    where they are none of the former: what kernels load and store. A function without them stays as it is.
    """
    values = [*function.params, *(v for op in function.ops for v in (*op.results, *_inside(op)))]
    if not any(_is_complex(v) for v in values):
        return function
    return _Splitter(function).run()


def _is_complex(value: Value) -> bool:
    return value.dtype.kind is Kind.COMPLEX


def _inside(op: Op) -> Iterator[Value]:
    """The values of an op's regions."""
    for region in op.regions:
        yield from region.params
        for inner in region.ops:
            yield from inner.results
            yield from _inside(inner)


class _Splitter:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.builder = Builder(function.facts, function.ops[0].loc if function.ops else UNKNOWN)
        self.pairs: dict[Value, Pair] = {}
        self.values: dict[Value, Value] = {}
        #: Complex values that lie in memory as such.
        self.wholes: dict[Value, Value] = {}

    def run(self) -> Function:
        b = self.builder
        for param in self.function.params:
            if _is_complex(param):
                self.apart(param, param)
        for op in self.function.ops:
            b.loc = op.loc
            self.op(op)
        results = tuple([self.whole(value) for value in self.function.results])
        return self.function.with_ops(tuple(b.ops), results, b.facts)

    def apart(self, value: Value, whole: Value) -> None:
        """Note that ``whole``, which lies in memory, is ``value``: other ops read its parts."""
        self.wholes[value] = whole
        self.pairs[value] = self.builder.op("real", whole), self.builder.op("imag", whole)

    def whole(self, value: Value) -> Value:
        """A value as it lies in memory, a complex one too."""
        if value in self.wholes:
            return self.wholes[value]
        return self.builder.op("complex", *self.pairs[value]) if value in self.pairs else self.values.get(value, value)

    def op(self, op: Op) -> None:
        if not any(_is_complex(v) for v in (*op.reads(), *op.results, *_inside(op))):
            self.builder.append(with_operands(op, self.values))
            return
        operands = tuple([self.pairs[v] if v in self.pairs else self.values.get(v, v) for v in op.operands])
        if isinstance(op.opdef.loops, LibraryRoutine) and op.opdef.parts is None:
            self.called(op)
            return
        if op.opdef.kind is OpKind.BARRIER or (op.regions and op.opdef.parts is None):
            self.of_parts(op)
            return
        found = self.parts(op, operands)
        if isinstance(found, tuple):
            self.pairs[op.result] = found
        else:
            self.values[op.result] = found

    def called(self, op: Op) -> None:
        """The op as it is: a library takes complex numbers and gives them."""
        made = self.builder.emit(op.opdef, [self.whole(v) for v in op.operands], **op.attrs)
        for value, result in zip(op.results, made, strict=True):
            if _is_complex(value):
                self.apart(value, result)
            else:
                self.values[value] = result

    def of_parts(self, op: Op) -> None:
        """Emit the op on real and imaginary parts, one after the other; its regions take and give them so too."""
        regions = tuple(self.region(region) for region in op.regions)
        attrs = dict(op.attrs)
        if op.opdef.loops is Control.SCAN:
            attrs["carries"] = len(self.flat(op.operands[: carries(op)]))
        results = list(self.builder.emit(op.opdef, self.flat(op.operands), regions, **attrs))
        for value in op.results:
            if _is_complex(value):
                self.pairs[value] = results.pop(0), results.pop(0)
            else:
                self.values[value] = results.pop(0)

    def flat(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """Values with the parts of complex ones in their places."""
        return tuple(
            [part for v in values for part in (self.pairs[v] if v in self.pairs else (self.values.get(v, v),))]
        )

    def region(self, region: Region) -> Region:
        outer, self.builder = self.builder, self.builder.inner()
        self.builder.adopt(region.demands)
        for param in region.params:
            if _is_complex(param):
                part = param.type.with_dtype(_PARTS[param.dtype])
                self.pairs[param] = Value(part), Value(part)
        for op in region.ops:
            self.builder.loc = op.loc
            self.op(op)
        inner, self.builder = self.builder, outer
        return Region(self.flat(region.params), tuple(inner.ops), self.flat(region.results), inner.demands)

    def parts(self, op: Op, operands: tuple[Any, ...]) -> Any:
        if op.opdef.parts is not None:
            return op.opdef.parts(self.builder, op, operands)
        if op.opdef.kind not in _MOVERS or op.regions or len(op.results) != 1:
            raise NotYetError(
                f"{op.opdef.name} of complex numbers comes later.",
                loc=op.loc,
                remedy="compute with dyn.numpy.real(x) and dyn.numpy.imag(x).",
            )
        re, im = (
            self.builder.op(op.opdef.name, *[v[i] if isinstance(v, tuple) else v for v in operands], **op.attrs)
            for i in range(2)
        )
        return re, im
