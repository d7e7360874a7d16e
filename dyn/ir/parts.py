"""Complex arithmetic taken apart: ``Function -> Function``. The formulas are the ops' own (``OpDef.parts``)."""

from __future__ import annotations

from typing import Any

from dyn.dtypes import Kind
from dyn.errors import NotYetError
from dyn.ir.builder import Builder
from dyn.ir.core import Function, Op, Value, with_operands
from dyn.ir.opdef import OpKind
from dyn.source import UNKNOWN

Pair = tuple[Value, Value]

#: What only moves elements moves both parts alike.
_MOVERS = (OpKind.VIEW, OpKind.INDEXED)


def split_complex(function: Function) -> Function:
    """Every complex value between parameters and results becomes two real ones.

    Needs results that are values of their own. Leaves complex numbers in parameters, which only ``real`` and ``imag``
    read, and in results, which ``complex`` makes: what kernels load and store. A function without complex numbers stays
    as it is.
    """
    values = [*function.params, *(v for op in function.ops for v in op.results)]
    if not any(_is_complex(v) for v in values):
        return function
    return _Splitter(function).run()


def _is_complex(value: Value) -> bool:
    return value.dtype.kind is Kind.COMPLEX


class _Splitter:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.builder = Builder(function.facts, function.ops[0].loc if function.ops else UNKNOWN)
        self.pairs: dict[Value, Pair] = {}
        self.values: dict[Value, Value] = {}

    def run(self) -> Function:
        b = self.builder
        for param in self.function.params:
            if _is_complex(param):
                self.pairs[param] = b.op("real", param), b.op("imag", param)
        for op in self.function.ops:
            b.loc = op.loc
            self.op(op)
        results: list[Value] = []
        for value in self.function.results:
            pair = self.pairs.get(value)
            results.append(self.values.get(value, value) if pair is None else b.op("complex", *pair))
        return self.function.with_ops(tuple(b.ops), tuple(results), b.facts)

    def op(self, op: Op) -> None:
        if not any(_is_complex(v) for v in (*op.reads(), *op.results)):
            self.builder.append(with_operands(op, self.values))
            return
        operands = tuple([self.pairs[v] if v in self.pairs else self.values.get(v, v) for v in op.operands])
        found = self.parts(op, operands)
        if isinstance(found, tuple):
            self.pairs[op.result] = found
        else:
            self.values[op.result] = found

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
