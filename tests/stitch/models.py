"""Small models as DHLO, written with the builder: what stitching, lowering and host programs are looked at with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dyn import config, dtypes
from dyn.compilation_record import CompilationRecord
from dyn.dtypes import DType
from dyn.ir.builder import Builder
from dyn.ir.core import Dense, Function, ParamInfo, Value
from dyn.ir.types import TensorType
from dyn.ops.indexing.gather import take_attrs
from dyn.pipeline import Optimized, optimize
from dyn.schedule.target import Target
from dyn.shapes import Dim, Facts, Reason, Relation, RelKind, Symbol, as_dim, broadcast
from dyn.shapes import symbol as new_symbol
from dyn.source import Loc
from dyn.trace.function import TracedFunction

#: What goldens are made for: they must not depend on the machine.
TARGET = Target("x86", "x86-64-v4", vector_bytes=64, registers=32)
LOC = Loc("model.py", 1)


class Model:
    """A growing function. Operands of elementwise ops are brought to one shape as by NumPy."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.b = Builder(Facts.EMPTY, LOC)
        self.params: list[Value] = []
        self.infos: list[ParamInfo] = []
        self.symbols: dict[str, Symbol] = {}

    def dim(self, size: int | str | Dim) -> Dim:
        if isinstance(size, str):
            return as_dim(self.symbols.setdefault(size, new_symbol(size, f"the size {size}")))
        return size

    def param(self, name: str, *shape: int | str | Dim, dtype: DType = dtypes.float32, hidden: bool = False) -> Value:
        value = Value(TensorType(dtype, tuple(self.dim(d) for d in shape)), name)
        self.params.append(value)
        self.infos.append(ParamInfo(name, hidden=hidden))
        return value

    def function(self, *results: Value) -> Function:
        params = sorted(zip(self.params, self.infos, strict=True), key=lambda p: p[1].hidden)
        return Function(
            self.name,
            tuple(p for p, _ in params),
            tuple(self.b.ops),
            results,
            self.b.facts,
            tuple(i for _, i in params),
        )

    def op(self, name: str, *operands: Value | float, **attrs: Any) -> Value:
        dtype = next(v.dtype for v in operands if isinstance(v, Value)) if operands else dtypes.float32
        values = [v if isinstance(v, Value) else self.number(v, dtype) for v in operands]
        return self.b.op(name, *values, **attrs)

    def number(self, number: float, dtype: DType = dtypes.float32) -> Value:
        return self.b.op("constant", value=Dense(np.array(number, dtype.np)))

    def stretch(self, x: Value, *shape: Dim) -> Value:
        if x.shape == shape:
            return x
        first = len(shape) - len(x.shape)
        return self.b.op("broadcast_in_dim", x, shape=shape, dims=tuple(range(first, len(shape))))

    def each(self, name: str, *operands: Value | float, **attrs: Any) -> Value:
        """An elementwise op of broadcast operands."""
        dtype = next(v.dtype for v in operands if isinstance(v, Value))
        values = [v if isinstance(v, Value) else self.number(v, dtype) for v in operands]
        rank = max(len(v.shape) for v in values)
        shape: list[Dim] = [1] * rank
        for value in values:
            for axis, d in enumerate(value.shape, rank - len(value.shape)):
                if shape[axis] is not d:
                    relation = Relation(RelKind.BROADCASTS, shape[axis], d, Reason("operands broadcast", LOC))
                    self.b.facts = self.b.facts.assume(relation)
                    shape[axis] = broadcast(shape[axis], d)
        return self.b.op(name, *(self.stretch(v, *shape) for v in values), **attrs)

    def add(self, x: Value, y: Value | float) -> Value:
        return self.each("add", x, y)

    def sub(self, x: Value, y: Value | float) -> Value:
        return self.each("subtract", x, y)

    def mul(self, x: Value, y: Value | float) -> Value:
        return self.each("multiply", x, y)

    def div(self, x: Value, y: Value | float) -> Value:
        return self.each("divide", x, y)

    def reduce(self, x: Value, axis: int | tuple[int, ...], combine: str = "add", *, keep: bool = True) -> Value:
        """A reduction, spread over the reduced axes again if ``keep``."""
        axes = axis if isinstance(axis, tuple) else (axis,)
        y = self.b.op("reduce", x, axes=axes, combine=combine, nonempty=False)
        if not keep:
            return y
        kept = tuple(a for a in range(len(x.shape)) if a not in axes)
        return self.b.op("broadcast_in_dim", y, shape=x.shape, dims=kept)

    def mean(self, x: Value, axis: int) -> Value:
        size = self.b.op("dim_size", size=x.shape[axis], dtype=dtypes.float32)
        y = self.reduce(x, axis, keep=False)
        y = self.div(y, size)
        kept = tuple(a for a in range(len(x.shape)) if a != axis)
        return self.b.op("broadcast_in_dim", y, shape=x.shape, dims=kept)

    def softmax(self, x: Value) -> Value:
        last = len(x.shape) - 1
        e = self.op("exponential", self.sub(x, self.reduce(x, last, "maximum")))
        return self.div(e, self.reduce(e, last))

    def layer_norm(self, x: Value, scale: Value, shift: Value) -> Value:
        last = len(x.shape) - 1
        d = self.sub(x, self.mean(x, last))
        variance = self.mean(self.mul(d, d), last)
        return self.add(self.mul(self.mul(d, self.op("rsqrt", self.add(variance, 1e-5))), scale), shift)

    def gelu(self, x: Value) -> Value:
        inner = self.mul(self.add(x, self.mul(self.mul(self.mul(x, x), x), 0.044715)), 0.7978845608)
        return self.mul(self.mul(x, 0.5), self.add(self.op("tanh", inner), 1.0))

    def dot(self, x: Value, w: Value) -> Value:
        last = len(x.shape) - 1
        return self.op("dot_general", x, w, lhs_batch=(), rhs_batch=(), lhs_contracting=(last,), rhs_contracting=(0,))

    def transpose(self, x: Value, *permutation: int) -> Value:
        return self.op("transpose", x, permutation=permutation)

    def reshape(self, x: Value, *shape: int | str | Dim) -> Value:
        return self.op("reshape", x, shape=tuple(self.dim(d) for d in shape))

    def heads(self, x: Value, count: int, width: int) -> Value:
        return self.transpose(self.reshape(x, *x.shape[:2], count, width), 0, 2, 1, 3)

    def attention(self, q: Value, k: Value, v: Value, mask: Value) -> Value:
        """[b, s, d] each, four heads of 16; the mask is added to the scores."""
        b, s, width = q.shape
        q, k, v = (self.heads(x, 4, 16) for x in (q, k, v))
        scores = self.op(
            "dot_general", q, k, lhs_batch=(0, 1), rhs_batch=(0, 1), lhs_contracting=(3,), rhs_contracting=(3,)
        )
        scores = self.mul(scores, 0.25)
        scores = self.add(scores, self.op("broadcast_in_dim", mask, shape=scores.shape, dims=(0, 3)))
        context = self.op(
            "dot_general", self.softmax(scores), v,
            lhs_batch=(0, 1), rhs_batch=(0, 1), lhs_contracting=(3,), rhs_contracting=(2,),
        )  # fmt: skip
        return self.reshape(self.transpose(context, 0, 2, 1, 3), b, s, width)

    def take(self, table: Value, ids: Value) -> Value:
        return self.op("gather", table, ids, **take_attrs(table.shape, 0, len(ids.shape)))


def optimized(function: Function, target: Target = TARGET) -> Optimized:
    """A function through all passes, verified after each."""
    traced = TracedFunction(function, (), (), None)  # pyright: ignore[reportArgumentType]  # no tree is asked for
    with config.override(verify_ir=True):
        return optimize(traced, target, CompilationRecord())


def transformer(layers: int, width: int = 64) -> Function:
    """A BERT-like encoder: embedding, then attention and a feed-forward block a layer. 64 wide: four heads of 16."""
    m = Model("transformer")
    ids = m.param("ids", "b", "s", dtype=dtypes.int32)
    mask = m.param("mask", "b", "s")
    count = 0

    def weight(*shape: int) -> Value:
        nonlocal count
        count += 1
        return m.param(f"w{count}", *shape, hidden=True)

    def norm(x: Value) -> Value:
        return m.layer_norm(x, weight(width), weight(width))

    def linear(x: Value, inside: int, outside: int) -> Value:
        return m.add(m.dot(x, weight(inside, outside)), weight(outside))

    x = m.take(weight(100, width), ids)
    x = norm(m.add(x, m.op("slice", weight(512, width), start=(0, 0), limit=(x.shape[1], width), strides=(1, 1))))
    for _ in range(layers):
        q, k, v = (linear(x, width, width) for _ in range(3))
        x = norm(m.add(linear(m.attention(q, k, v, mask), width, width), x))
        x = norm(m.add(linear(m.gelu(linear(x, width, 2 * width)), 2 * width, width), x))
    return m.function(x)


Build = Callable[[], Function]
