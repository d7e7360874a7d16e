"""Small DHLO functions for tests: from text, and random ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from dyn import dtypes, ops
from dyn.backends.reference import run_reference
from dyn.dtypes import DType
from dyn.errors import DynError
from dyn.ir.builder import Builder
from dyn.ir.core import Dense, Function, ParamInfo, Value
from dyn.ir.opdef import NOT_YET, REGISTRY, OpDef, OpKind
from dyn.ir.types import TensorType
from dyn.shapes import Facts, Reason, Relation, RelKind, as_dim, symbol
from dyn.source import Loc

LOC = Loc("model.py", 3, "f")
Array = np.ndarray[Any, Any]


assert ops.Scalar is not None  # the import has filled the registry


@contextlib.contextmanager
def registered(name: str, types: Any, kind: OpKind = OpKind.OPAQUE) -> Iterator[OpDef]:
    """An op that exists inside the ``with`` block only."""
    made = OpDef(
        name, kind, types=types, loops=None, reference=lambda *x: x[0], samples=list,
        vjp=NOT_YET, jvp=NOT_YET, batch=NOT_YET,
    )  # fmt: skip
    try:
        yield made
    finally:
        del REGISTRY[name]


class Program:
    """Builds a function op by op."""

    def __init__(self, facts: Facts = Facts.EMPTY) -> None:
        self.builder = Builder(facts, LOC)
        self.params: list[Value] = []
        self.infos: list[ParamInfo] = []

    def param(self, element: DType, *shape: Any, name: str = "", hidden: bool = False) -> Value:
        value = Value(TensorType(element, shape), name or f"x{len(self.params)}")
        self.params.append(value)
        self.infos.append(ParamInfo(value.name, hidden))
        return value

    def op(self, name: str, *operands: Value, **attrs: Any) -> Value:
        return self.builder.op(name, *operands, **attrs)

    def constant(self, value: Any, element: DType = dtypes.float32) -> Value:
        return self.op("constant", value=Dense(np.array(value, element.np)))

    def function(self, *results: Value, name: str = "f") -> Function:
        return Function(
            name,
            tuple(self.params),
            tuple(self.builder.ops),
            results,
            self.builder.facts,
            tuple(self.infos),
        )


# --- random programs ----------------------------------------------------------------------------------------------

SIZES = (0, 1, 2, 7)
_UNARY = ("negate", "abs", "sign", "floor", "exponential", "copy")
_BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
_NUMBERS = (0.0, -0.0, 1.0, -1.0, 2.5, float("inf"), float("nan"))
_CONVERTED = (dtypes.float64, dtypes.int32, dtypes.bfloat16, dtypes.float16, dtypes.int8, dtypes.bool_, dtypes.int64)


@st.composite
def functions(draw: st.DrawFn, most: int = 14) -> Function:
    """Programs over arrays of ``[n, m]`` and ``[m, n]``, with many chances to simplify."""
    n, m, k = (as_dim(symbol(name, f"x.shape[{i}]")) for i, name in enumerate("nmk"))
    program = Program()
    values = [program.param(dtypes.float32, n, m), program.param(dtypes.float32, n, m)]
    values.append(program.param(dtypes.float32, k, m))
    if draw(st.booleans()):
        relation = Relation(RelKind.EQ, k, n, Reason("the test says so", LOC))
        program.builder.facts = program.builder.facts.assume(relation)
    for _ in range(draw(st.integers(1, most))):
        with contextlib.suppress(DynError):  # shapes or dtypes that do not fit: another op, then
            values.append(draw(st.sampled_from(_STEPS))(draw, program, values))
    results = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    return program.function(*results)


def _pick(draw: st.DrawFn, values: Sequence[Value]) -> Value:
    return draw(st.sampled_from(values))


def _unary(draw: st.DrawFn, p: Program, values: Sequence[Value]) -> Value:
    return p.op(draw(st.sampled_from(_UNARY)), _pick(draw, values))


def _binary(draw: st.DrawFn, p: Program, values: Sequence[Value]) -> Value:
    x = _pick(draw, values)
    y = _pick(draw, [v for v in values if v.type.rank == x.type.rank and v.dtype is x.dtype])
    return p.op(draw(st.sampled_from(_BINARY)), x, y)


def _with_number(draw: st.DrawFn, p: Program, values: Sequence[Value]) -> Value:
    x = _pick(draw, values)
    number = draw(st.sampled_from(_NUMBERS if x.dtype.is_float else (0, 1)))
    number = p.op("broadcast_in_dim", p.constant(number, x.dtype), shape=x.shape, dims=())
    pair = (x, number) if draw(st.booleans()) else (number, x)
    return p.op(draw(st.sampled_from(_BINARY)), *pair)


def _convert(draw: st.DrawFn, p: Program, values: Sequence[Value]) -> Value:
    return p.op("convert", _pick(draw, values), dtype=draw(st.sampled_from((dtypes.float32, *_CONVERTED))))


def _transpose(draw: st.DrawFn, p: Program, values: Sequence[Value]) -> Value:
    x = _pick(draw, values)
    return p.op("transpose", x, permutation=tuple(draw(st.permutations(range(x.type.rank)))))


def _reshape(draw: st.DrawFn, p: Program, values: Sequence[Value]) -> Value:
    x = _pick(draw, values)
    shape = draw(st.sampled_from([(x.type.size,), (1, *x.shape), tuple(d for d in x.shape if d != 1), x.shape]))
    return p.op("reshape", x, shape=shape)


def _broadcast(draw: st.DrawFn, p: Program, values: Sequence[Value]) -> Value:
    x = _pick(draw, [v for v in values if v.type.rank < 4])
    if draw(st.booleans()):
        return p.op("broadcast_in_dim", x, shape=(*x.shape, 2), dims=tuple(range(x.type.rank)))
    return p.op("broadcast_in_dim", x, shape=(1, *x.shape), dims=tuple(range(1, x.type.rank + 1)))


def _reduce(draw: st.DrawFn, p: Program, values: Sequence[Value]) -> Value:
    x = _pick(draw, values)
    axes = tuple(draw(st.lists(st.sampled_from(range(x.type.rank)), unique=True))) if x.type.rank else ()
    combine = draw(st.sampled_from(["maximum", "add"]))
    return p.op("reduce", x, axes=axes, combine=combine, nonempty=False)


def _slice(draw: st.DrawFn, p: Program, values: Sequence[Value]) -> Value:
    x = _pick(draw, values)
    rank = x.type.rank
    limit = tuple(draw(st.sampled_from([d, 0])) for d in x.shape)
    return p.op("slice", x, start=(0,) * rank, limit=limit, strides=(draw(st.integers(1, 2)),) * rank)


def _concatenate(draw: st.DrawFn, p: Program, values: Sequence[Value]) -> Value:
    x = _pick(draw, [v for v in values if v.type.rank])
    return p.op("concatenate", *[x] * draw(st.integers(1, 2)), dimension=0)


def _select(draw: st.DrawFn, p: Program, values: Sequence[Value]) -> Value:
    x = _pick(draw, values)
    y = _pick(draw, [v for v in values if v.type.rank == x.type.rank and v.dtype is x.dtype])
    return p.op("select", p.op("compare", x, y, direction="LT"), x, y)


def _size(draw: st.DrawFn, p: Program, values: Sequence[Value]) -> Value:
    x = _pick(draw, [v for v in values if v.type.rank])
    return p.op("dim_size", size=x.shape[0], dtype=dtypes.float32)


_STEPS = (
    _unary, _binary, _with_number, _convert, _transpose, _reshape, _broadcast, _reduce, _slice, _concatenate, _select,
    _size,
)  # fmt: skip


# --- running ------------------------------------------------------------------------------------------------------


def inputs(n: int, m: int, k: int) -> list[Array]:
    """Arguments for a random program, with the numbers that are easily confused among them."""
    rng = np.random.default_rng(n + 10 * m)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((n, m), (n, m), (k, m))]
    for array in arrays:
        odd = np.array([0.0, -0.0, np.nan, np.inf, -np.inf], np.float32)[: array.size]
        array.reshape(-1)[: odd.size] = odd
    return arrays


def results_of(function: Function, arrays: Sequence[Array]) -> list[Array]:
    """What a function gives for ``arrays``, computed with NumPy."""
    with np.errstate(all="ignore"):
        return run_reference(function, arrays)


def assert_same_bits(actual: Sequence[Array], expected: Sequence[Array]) -> None:
    """Equal dtypes, shapes and numbers; -0.0 is not 0.0, a NaN is a NaN."""
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert np.array_equal(a, b, equal_nan=a.dtype.kind not in "biu")
        if a.dtype.kind == "f":
            assert np.array_equal(np.signbit(a) | np.isnan(a), np.signbit(b) | np.isnan(b))
