"""Every op: its samples against its type rule, its reference, its loops, its text and its simplification."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dyn import dtypes
from dyn.backends.reference import run_reference
from dyn.dtypes import DType, Kind
from dyn.ir.builder import Builder
from dyn.ir.core import Attr, Dense, Function, Op, ParamInfo, Value
from dyn.ir.opdef import NO_GRAD, NOT_YET, REGISTRY, Elements, Library, OpDef, OpKind, Reduction, Sample
from dyn.ir.parser import parse_function
from dyn.ir.passes import map_attr_dims
from dyn.ir.printer import print_function
from dyn.ir.types import TensorType
from dyn.ir.verifier import verify
from dyn.ops.elementwise import convert_array
from dyn.ops.scalar import MONOIDS, Scalar
from dyn.shapes import Dim, Facts, Reason, Relation, RelKind, Symbol, as_dim, broadcast, evaluate, symbol
from dyn.source import Loc

Array = np.ndarray[Any, Any]
LOC = Loc("sample.py", 1)
OPS = sorted(REGISTRY)


def op_samples(name: str) -> list[Sample]:
    return REGISTRY[name].samples()


def symbolic(arrays: Sequence[Array]) -> tuple[list[Value], dict[Symbol, int]]:
    """Parameters whose every axis is a symbol of its own, and the sizes of the symbols."""
    sizes: dict[Symbol, int] = {}
    params: list[Value] = []
    for number, array in enumerate(arrays):
        symbols = [symbol(f"x{number}_{axis}", f"x{number}.shape[{axis}]") for axis in range(array.ndim)]
        sizes.update(zip(symbols, array.shape, strict=True))
        shape = tuple(as_dim(s) for s in symbols)
        params.append(Value(TensorType(dtypes.dtype(array.dtype), shape), f"x{number}"))
    return params, sizes


def function_of(opdef: OpDef, sample: Sample) -> tuple[Function, dict[Symbol, int]]:
    """A function that applies the op to parameters of undecided shapes."""
    params, sizes = symbolic(sample.operands)
    builder = Builder(Facts.EMPTY, LOC)
    results = builder.emit(opdef, params, **sample.attrs)
    infos = tuple(ParamInfo(v.name) for v in params)
    return Function("sample", tuple(params), tuple(builder.ops), results, builder.facts, infos), sizes


def expected(opdef: OpDef, sample: Sample) -> list[Array]:
    """The results, one or several."""
    found = opdef.reference(*sample.operands, **sample.attrs)
    return [np.asarray(array) for array in (found if isinstance(found, tuple) else (found,))]


def assert_same(actual: Sequence[Array], wanted: Sequence[Array]) -> None:
    for one, other in zip(actual, wanted, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        exact = dtypes.dtype(one.dtype).is_integer
        np.testing.assert_array_equal(one if exact else one.astype(np.complex128), other)


# ---- the record ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPS)
def test_every_rule_is_set(name: str) -> None:
    opdef = REGISTRY[name]
    for rule in (opdef.vjp, opdef.jvp, opdef.batch, opdef.stablehlo):
        assert rule in (NOT_YET, NO_GRAD) or callable(rule)
    assert opdef.batch is not NO_GRAD
    assert opdef.stablehlo is not NO_GRAD
    assert isinstance(opdef.loops, Library) == (opdef.kind is OpKind.OPAQUE)
    assert opdef.loops is not None
    assert opdef.kind is OpKind.VIEW or not opdef.keeps_order


@pytest.mark.parametrize("name", OPS)
def test_samples_have_sizes_0_and_1_and_more(name: str) -> None:
    samples = op_samples(name)
    assert samples
    sizes = {n for s in samples for array in s.operands for n in array.shape}
    if REGISTRY[name].kind is OpKind.GENERATE:
        return
    assert sizes >= {0, 1}
    assert max(sizes) > 1


def test_reductions_combine_with_monoids() -> None:
    for name in OPS:
        loops = REGISTRY[name].loops
        if isinstance(loops, Reduction):
            assert {loops.combine(s.attrs) for s in op_samples(name)} <= MONOIDS


# ---- type rules, references, text ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPS)
def test_the_type_is_what_the_reference_gives(name: str) -> None:
    opdef = REGISTRY[name]
    for sample in op_samples(name):
        operands = tuple(TensorType(dtypes.dtype(a.dtype), a.shape) for a in sample.operands)
        builder = Builder(Facts.EMPTY, LOC)
        values = builder.emit(opdef, [Value(t) for t in operands], **sample.attrs)
        results = expected(opdef, sample)
        assert [(v.dtype.np, v.shape) for v in values] == [(r.dtype, r.shape) for r in results]
        assert builder.facts.relations == ()


@pytest.mark.parametrize("name", OPS)
def test_the_type_of_undecided_shapes(name: str) -> None:
    for sample in op_samples(name):
        function, sizes = function_of(REGISTRY[name], sample)
        verify(function)
        assert all(relation.holds(sizes) for relation in function.facts.relations)
        shapes = [tuple(evaluate(d, sizes) for d in result.shape) for result in function.results]
        assert shapes == [array.shape for array in expected(REGISTRY[name], sample)]
        assert_same(run_reference(function, sample.operands), expected(REGISTRY[name], sample))


@pytest.mark.parametrize("name", OPS)
def test_the_text_parses_back(name: str) -> None:
    for sample in op_samples(name):
        function, _ = function_of(REGISTRY[name], sample)
        text = print_function(function)
        parsed = parse_function(text)
        assert print_function(parsed) == text
        assert_same(run_reference(parsed, sample.operands), expected(REGISTRY[name], sample))


@pytest.mark.parametrize("name", [name for name in OPS if REGISTRY[name].simplify is not None])
def test_a_simpler_form_computes_the_same(name: str) -> None:
    opdef = REGISTRY[name]
    assert opdef.simplify is not None
    for sample in op_samples(name):
        params = [Value(TensorType(dtypes.dtype(a.dtype), a.shape)) for a in sample.operands]
        builder = Builder(Facts.EMPTY, LOC)
        builder.emit(opdef, params, **sample.attrs)
        (op,) = builder.ops
        builder.ops.clear()
        values = opdef.simplify(builder, op)
        if values is None:
            continue
        assert [v.type for v in values] == [v.type for v in op.results]
        infos = tuple(ParamInfo("x") for _ in params)
        simpler = Function("simpler", tuple(params), tuple(builder.ops), values, builder.facts, infos)
        assert_same(run_reference(simpler, sample.operands), expected(opdef, sample))


# ---- loops -----------------------------------------------------------------------------------------------------------


class Interpreter:
    """A ScalarBuilder that computes at once, with sizes known."""

    def __init__(self, sizes: dict[Symbol, int]) -> None:
        self.sizes = sizes

    def apply(self, fn: Scalar, args: Sequence[Any], dtype: DType) -> Any:
        arrays = [np.asarray(a) for a in args]
        if fn is Scalar.CAST:
            return convert_array(arrays[0], dtype)
        if fn is Scalar.SELECT:
            return np.where(arrays[0], arrays[1], arrays[2])
        direction = fn.name if fn.name in ("EQ", "NE", "LT", "LE", "GT", "GE") else None
        attrs = {"direction": direction} if direction is not None else {}
        return np.asarray(REGISTRY[SCALAR_OPS.get(fn, "compare")].reference(*arrays, **attrs)).astype(dtype.np)

    def const(self, dtype: DType, value: complex) -> Any:
        return np.array(value, dtype.np)

    def index(self, dtype: DType, expr: Dim) -> Any:
        return np.array(evaluate(expr, self.sizes), dtype.np)

    def bind(self, value: Any) -> Dim:
        return int(value)


SCALAR_OPS = {
    Scalar.NEG: "negate", Scalar.ABS: "abs", Scalar.SIGN: "sign", Scalar.EXP: "exponential",
    Scalar.EXPM1: "exponential_minus_one", Scalar.LOG: "log", Scalar.LOG1P: "log_plus_one", Scalar.TANH: "tanh",
    Scalar.LOGISTIC: "logistic", Scalar.ERF: "erf", Scalar.SQRT: "sqrt", Scalar.RSQRT: "rsqrt", Scalar.CBRT: "cbrt",
    Scalar.SIN: "sine", Scalar.COS: "cosine", Scalar.FLOOR: "floor", Scalar.CEIL: "ceil",
    Scalar.ROUND_EVEN: "round_nearest_even", Scalar.IS_FINITE: "is_finite", Scalar.NOT: "not", Scalar.ADD: "add",
    Scalar.SUB: "subtract", Scalar.MUL: "multiply", Scalar.DIV: "divide", Scalar.REM: "remainder", Scalar.POW: "power",
    Scalar.MAX: "maximum", Scalar.MIN: "minimum", Scalar.AND: "and", Scalar.OR: "or", Scalar.XOR: "xor",
}  # fmt: skip


def test_every_scalar_function_is_an_op() -> None:
    others = {Scalar.CAST, Scalar.SELECT, Scalar.EQ, Scalar.NE, Scalar.LT, Scalar.LE, Scalar.GT, Scalar.GE}
    assert set(SCALAR_OPS) | others == set(Scalar)
    assert set(SCALAR_OPS.values()) <= set(REGISTRY)


def run_loops(op: Op, arrays: Sequence[Array], sizes: dict[Symbol, int]) -> Array:
    """The result of an op, an element at a time, from its own loops."""
    k = Interpreter(sizes)
    shape = tuple(evaluate(d, sizes) for d in op.result.shape)
    result = np.zeros(shape, op.result.dtype.np)
    assert isinstance(op.opdef.loops, Elements)

    def get(i: int, index: tuple[Dim, ...], mask: Any = None, other: Any = None) -> Any:
        if mask is not None and not mask:
            return np.array(77).astype(other.dtype)  # anything at all
        place = tuple(evaluate(d, sizes) for d in index)
        assert all(0 <= p < n for p, n in zip(place, arrays[i].shape, strict=True)), "reads outside of an operand"
        return arrays[i][place]

    for index in itertools.product(*(range(n) for n in shape)):
        result[index] = op.opdef.loops.at(k, op, index, get)
    return result


ELEMENT_OPS = [name for name in OPS if isinstance(REGISTRY[name].loops, Elements)]


@pytest.mark.parametrize("name", ELEMENT_OPS)
def test_loops_compute_what_the_reference_computes(name: str) -> None:
    for sample in op_samples(name):
        function, sizes = function_of(REGISTRY[name], sample)
        assert_same([run_loops(function.ops[0], sample.operands, sizes)], expected(REGISTRY[name], sample))


@pytest.mark.parametrize("sizes", list(itertools.product((0, 1, 2, 7), repeat=2)))
def test_loops_of_an_undecided_broadcast(sizes: tuple[int, int]) -> None:
    n, m = sizes
    if n != m and 1 not in sizes:
        return
    a, b = symbol("n", "x.shape[0]"), symbol("m", "y.shape[0]")
    relation = Relation(RelKind.BROADCASTS, as_dim(a), as_dim(b), Reason("a sample"))
    builder = Builder(Facts.EMPTY.assume(relation), LOC)
    value = Value(TensorType(dtypes.float32, (as_dim(a),)))
    shape = (3, broadcast(as_dim(a), as_dim(b)))
    builder.emit(REGISTRY["broadcast_in_dim"], [value], shape=shape, dims=(1,))
    x = np.arange(n, dtype=np.float32)
    actual = run_loops(builder.ops[0], [x], {a: n, b: m})
    assert_same([actual], [np.broadcast_to(x, (3, np.broadcast_shapes((n,), (m,))[0]))])


# ---- references ------------------------------------------------------------------------------------------------------


def rounded_down(x: float) -> float:
    return float(math.floor(x))


#: What the standard says, from Python's own arithmetic on single numbers.
SCALARS: dict[str, Callable[..., Any]] = {
    "negate": lambda x: -x,
    "abs": abs,
    "sign": lambda x: (x > 0) - (x < 0),
    "exponential": math.exp,
    "exponential_minus_one": math.expm1,
    "log": math.log,
    "log_plus_one": math.log1p,
    "tanh": math.tanh,
    "logistic": lambda x: 1 / (1 + math.exp(-x)),
    "erf": math.erf,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x),
    "sine": math.sin,
    "cosine": math.cos,
    "floor": rounded_down,
    "ceil": lambda x: -rounded_down(-x),
    "round_nearest_even": lambda x: float(round(x)),
    "is_finite": math.isfinite,
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y if isinstance(x, float) else 0 if y == 0 else int(x / y),
    "remainder": lambda x, y: math.fmod(x, y) if isinstance(x, float) else 0 if y == 0 else int(math.fmod(x, y)),
    "power": lambda x, y: x**y,
    "maximum": max,
    "minimum": min,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
}


@pytest.mark.parametrize("name", SCALARS)
def test_references_agree_with_python(name: str) -> None:
    for sample in op_samples(name):
        (actual,) = expected(REGISTRY[name], sample)
        numbers = [SCALARS[name](*v) for v in zip(*(a.reshape(-1).tolist() for a in sample.operands), strict=True)]
        if dtypes.dtype(actual.dtype).kind is Kind.UINT:
            numbers = [number % 2 ** (8 * actual.itemsize) for number in numbers]
        wanted = np.array(numbers, np.float64).reshape(actual.shape)
        rtol = 1e-6 if actual.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(actual.astype(np.float64), wanted, rtol=rtol, atol=rtol)


SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 3.5, -3.5]


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_nan_wins(name: str) -> None:
    for a, b in itertools.product(SPECIAL, repeat=2):
        result = REGISTRY[name].reference(np.array(a), np.array(b)).item()
        assert math.isnan(result) == (math.isnan(a) or math.isnan(b))


def test_integer_division_traps_nowhere() -> None:
    low = np.iinfo(np.int32).min
    x, y = np.array([7, -7, 7, low, low], np.int32), np.array([0, 2, -2, -1, 0], np.int32)
    assert REGISTRY["divide"].reference(x, y).tolist() == [0, -3, -3, low, 0]
    assert REGISTRY["remainder"].reference(x, y).tolist() == [0, -1, 1, 0, 0]


def test_conversions_saturate() -> None:
    x = np.array([math.nan, math.inf, -math.inf, 300.7, -300.7, 1.9, -1.9], np.float32)
    to = REGISTRY["convert"].reference
    assert to(x, dtype=dtypes.int8).tolist() == [0, 127, -128, 127, -128, 1, -1]
    assert to(x, dtype=dtypes.uint8).tolist() == [0, 255, 0, 255, 0, 1, 0]
    assert to(x, dtype=dtypes.int64).tolist() == [0, 2**63 - 1, -(2**63), 300, -300, 1, -1]
    assert to(x, dtype=dtypes.uint64).tolist() == [0, 2**64 - 1, 0, 300, 0, 1, 0]
    assert to(x, dtype=dtypes.bool_).tolist() == [True] * 7


def test_attributes_are_what_the_text_has() -> None:
    # What a sample writes must be what IR text can say: dims, numbers, strings, dtypes, dense arrays, tuples of these.
    def plain(value: Attr) -> bool:
        if isinstance(value, tuple):
            return all(plain(v) for v in value)
        return isinstance(value, bool | int | float | str | DType | Dense)

    for name in OPS:
        for sample in op_samples(name):
            assert all(plain(v) for v in map_attr_dims(sample.attrs, lambda d: d).values()), name
