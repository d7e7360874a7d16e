"""Every op: its samples against its type rule, its reference, its loops, its text and its simplification."""

from __future__ import annotations

import cmath
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from dyn import dtypes
from dyn.backends.reference import run_reference
from dyn.dtypes import DType, Kind
from dyn.errors import IRError
from dyn.ir.builder import Builder, buffer_of
from dyn.ir.core import Attr, Dense, Function, Op, ParamInfo, Value, buffers, map_attr_dims
from dyn.ir.evaluate import run_sample
from dyn.ir.identity import function_identity
from dyn.ir.opdef import (
    FROM_VJP,
    NOT_YET,
    REGISTRY,
    Composite,
    ElementLoops,
    LibraryRoutine,
    NoBatch,
    NoGrad,
    OpDef,
    OpKind,
    ReductionLoops,
    Sample,
)
from dyn.ir.parser import parse_function
from dyn.ir.printer import print_function
from dyn.ir.types import TensorType
from dyn.ir.verifier import verify
from dyn.ops import OWN_OPS
from dyn.ops.elementwise import convert_array
from dyn.ops.scalar import MONOIDS, Scalar
from dyn.shapes import Dim, Facts, Reason, Relation, RelKind, Symbol, SymExpr, as_dim, broadcast, evaluate, symbol
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
    results = builder.emit(opdef, params, sample.regions, **sample.attrs)
    infos = tuple(ParamInfo(v.name) for v in params)
    return Function("sample", tuple(params), tuple(builder.ops), results, builder.facts, infos), sizes


def expected(opdef: OpDef, sample: Sample) -> list[Array]:
    """The results, one or several."""
    return list(run_sample(opdef, sample))


def assert_same(actual: Sequence[Array], wanted: Sequence[Array]) -> None:
    for one, other in zip(actual, wanted, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        same = (one == other) | ((one != one) & (other != other))
        assert same.all(), (one[~same], other[~same])


# ---- the record ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPS)
def test_every_rule_is_set(name: str) -> None:
    opdef = REGISTRY[name]
    for rule in (opdef.vjp, opdef.jvp):
        assert rule is NOT_YET or isinstance(rule, NoGrad) or rule is FROM_VJP or callable(rule)
    assert isinstance(opdef.vjp, NoGrad) == isinstance(opdef.jvp, NoGrad)
    assert opdef.batch is NOT_YET or isinstance(opdef.batch, NoBatch) or callable(opdef.batch)
    assert isinstance(opdef.loops, LibraryRoutine | Composite) == (opdef.kind is OpKind.OPAQUE)
    assert not isinstance(opdef.loops, Composite) or opdef.simplify is not None
    assert (opdef.loops is None) == (opdef.kind is OpKind.DATA_DEPENDENT_SIZE)
    assert opdef.kind is OpKind.VIEW or not opdef.keeps_order


@pytest.mark.parametrize("name", OPS)
def test_every_op_can_be_found_again(name: str) -> None:
    """Programs are kept by their identity: an attribute of a kind that has none would be compiled again each time."""
    for sample in op_samples(name):
        function, _ = function_of(REGISTRY[name], sample)
        assert function_identity(function, OWN_OPS).named is not None, sample


@pytest.mark.parametrize("name", OPS)
def test_samples_have_sizes_0_and_1_and_more(name: str) -> None:
    samples = op_samples(name)
    assert samples
    sizes = {n for s in samples for shape in (*(x.shape for x in s.operands), s.attrs.get("shape", ())) for n in shape}
    if REGISTRY[name].kind in (OpKind.GENERATE, OpKind.DATA_DEPENDENT_SIZE):
        return
    assert sizes >= {0, 1}
    assert max(sizes) > 1


def test_reductions_combine_with_monoids() -> None:
    for name in OPS:
        loops = REGISTRY[name].loops
        if isinstance(loops, ReductionLoops):
            assert {loops.combine(s.attrs) for s in op_samples(name)} <= MONOIDS


# ---- type rules, references, text ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPS)
def test_the_type_is_what_the_reference_gives(name: str) -> None:
    opdef = REGISTRY[name]
    for sample in op_samples(name):
        operands = tuple(TensorType(dtypes.dtype(a.dtype), a.shape) for a in sample.operands)
        builder = Builder(Facts.EMPTY, LOC)
        values = builder.emit(opdef, [Value(t) for t in operands], sample.regions, **sample.attrs)
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
        parsed = parse_function(text, buffers(function.ops))
        assert print_function(parsed) == text
        assert_same(run_reference(parsed, sample.operands), expected(REGISTRY[name], sample))


@pytest.mark.parametrize("name", [name for name in OPS if REGISTRY[name].simplify is not None])
def test_a_simpler_form_computes_the_same(name: str) -> None:
    opdef = REGISTRY[name]
    assert opdef.simplify is not None
    for sample in op_samples(name):
        params = [Value(TensorType(dtypes.dtype(a.dtype), a.shape)) for a in sample.operands]
        builder = Builder(Facts.EMPTY, LOC)
        builder.emit(opdef, params, sample.regions, **sample.attrs)
        (op,) = builder.ops
        builder.ops.clear()
        values = opdef.simplify(builder, op)
        if values is None:
            continue
        assert [v.type for v in values] == [v.type for v in op.results]
        infos = tuple(ParamInfo("x") for _ in params)
        simpler = Function("simpler", tuple(params), tuple(builder.ops), values, builder.facts, infos)
        found, wanted = run_reference(simpler, sample.operands), expected(opdef, sample)
        if isinstance(opdef.loops, Composite):  # of several ops, each of which rounds; the whole rounds once
            for one, other in zip(found, wanted, strict=True):
                assert (one.dtype, one.shape) == (other.dtype, other.shape)
                units = 8 * float(np.finfo(np.float32).eps)
                np.testing.assert_allclose(one, other, rtol=units, atol=units * np.abs(other).max(initial=0))
        else:
            assert_same(found, wanted)


# ---- loops -----------------------------------------------------------------------------------------------------------


class Interpreter:
    """A ScalarBuilder that computes at once, with sizes known."""

    def __init__(self, sizes: dict[Symbol, int]) -> None:
        self.sizes = sizes

    def apply(self, fn: Scalar, args: Sequence[Any], dtype: DType) -> Any:
        arrays = [np.asarray(a) for a in args]
        if fn is Scalar.CAST:
            return convert_array(arrays[0], dtype)
        if fn is Scalar.BITCAST:
            return arrays[0].view(dtype.np)
        if fn is Scalar.SELECT:
            return np.where(arrays[0], arrays[1], arrays[2])
        direction = fn.name if fn.name in ("EQ", "NE", "LT", "LE", "GT", "GE") else None
        attrs = {"direction": direction} if direction is not None else {}
        return np.asarray(REGISTRY[SCALAR_OPS.get(fn, "compare")].reference(*arrays, **attrs)).astype(dtype.np)

    def pair(self, real: Any, imag: Any, dtype: DType) -> Any:
        return REGISTRY["complex"].reference(np.asarray(real), np.asarray(imag))

    def parts(self, value: Any) -> tuple[Any, Any]:
        return value.real, value.imag

    def part(self, value: Any, number: Dim) -> Any:
        return np.stack(self.parts(value), axis=-1)[..., number]

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
    Scalar.TAN: "tan", Scalar.ATAN2: "atan2", Scalar.ROUND_AFZ: "round_nearest_afz", Scalar.POPCNT: "popcnt",
    Scalar.CLZ: "count_leading_zeros", Scalar.SHL: "shift_left", Scalar.SHRA: "shift_right_arithmetic",
    Scalar.SHRL: "shift_right_logical", Scalar.FMA: "fused_multiply_add",
}  # fmt: skip


def test_every_scalar_function_is_an_op() -> None:
    others = {
        Scalar.CAST,
        Scalar.BITCAST,
        Scalar.SELECT,
        Scalar.EQ,
        Scalar.NE,
        Scalar.LT,
        Scalar.LE,
        Scalar.GT,
        Scalar.GE,
    }
    assert set(SCALAR_OPS) | others == set(Scalar)
    assert set(SCALAR_OPS.values()) <= set(REGISTRY)


def run_loops(op: Op, arrays: Sequence[Array], sizes: dict[Symbol, int]) -> Array:
    """The result of an op, an element at a time, from its own loops."""
    k = Interpreter(sizes)
    shape = tuple(evaluate(d, sizes) for d in op.result.shape)
    result = np.zeros(shape, op.result.dtype.np)
    assert isinstance(op.opdef.loops, ElementLoops)

    def get(i: int, index: tuple[Dim, ...], mask: Any = None, other: Any = None) -> Any:
        if mask is not None and not mask:
            return np.array(77).astype(other.dtype)  # anything at all
        place = tuple(evaluate(d, sizes) for d in index)
        assert all(0 <= p < n for p, n in zip(place, arrays[i].shape, strict=True)), "reads outside of an operand"
        return arrays[i][place]

    for index in itertools.product(*(range(n) for n in shape)):
        result[index] = op.opdef.loops.at(k, op, index, get)
    return result


#: Functions that loops compute with formulas, and references with a library. ``tests/ops/test_special.py`` has bounds.
FORMULAS = {
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "digamma", "erf_inv", "erfc", "lgamma", "sinh",
    "trigamma", "xla_erf_inv",
}  # fmt: skip
ELEMENT_OPS = [name for name in OPS if isinstance(REGISTRY[name].loops, ElementLoops)]


@pytest.mark.parametrize("name", ELEMENT_OPS)
def test_loops_compute_what_the_reference_computes(name: str) -> None:
    for sample in op_samples(name):
        function, sizes = function_of(REGISTRY[name], sample)
        if buffer_of(function.ops[0]) is not None:  # it is there before a kernel runs
            with pytest.raises(IRError, match="lies in a buffer, and a kernel computes it"):
                run_loops(function.ops[0], sample.operands, sizes)
            continue
        made, (wanted,) = run_loops(function.ops[0], sample.operands, sizes), expected(REGISTRY[name], sample)
        if name in FORMULAS and wanted.dtype.kind != "b":
            assert (made.dtype, made.shape) == (wanted.dtype, wanted.shape)
            tolerance = {1: 0.26, 2: 1e-2, 4: 1e-6, 8: 1e-14}[wanted.dtype.itemsize]
            np.testing.assert_allclose(made.astype("f8"), wanted.astype("f8"), rtol=tolerance, atol=tolerance)
        else:
            assert_same([made], [wanted])


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


def logistic(x: complex) -> complex:
    return 1 / (1 + (cmath.exp(-x) if isinstance(x, complex) else math.exp(-x)))


def whole_power(x: Any, y: Any) -> Any:
    """Of integers towards 0, as in C."""
    if not isinstance(x, int) or y >= 0:
        return x**y
    return int(x**y) if x else 0


def wrapped(value: int, bits: int, *, signed: bool) -> int:
    value %= 1 << bits
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def rounded_away(x: float) -> float:
    return math.copysign(math.floor(abs(x) + 0.5), x)


def of_kind(real: Callable[[float], float], other: Callable[[complex], complex]) -> Callable[[Any], Any]:
    return lambda x: other(x) if isinstance(x, complex) else real(x)


#: What the standard says, from Python's own arithmetic on single numbers.
SCALARS: dict[str, Callable[..., Any]] = {
    "negate": lambda x: -x,
    "abs": abs,
    "sign": lambda x: x / abs(x) if isinstance(x, complex) else (x > 0) - (x < 0),
    "exponential": of_kind(math.exp, cmath.exp),
    "exponential_minus_one": of_kind(math.expm1, lambda x: cmath.exp(x) - 1),
    "log": of_kind(math.log, cmath.log),
    "log_plus_one": of_kind(math.log1p, lambda x: cmath.log(1 + x)),
    "tanh": of_kind(math.tanh, cmath.tanh),
    "logistic": logistic,
    "erf": math.erf,
    "fused_multiply_add": lambda x, y, z: x * y + z,
    "sqrt": of_kind(math.sqrt, cmath.sqrt),
    "rsqrt": lambda x: 1 / (cmath.sqrt(x) if isinstance(x, complex) else math.sqrt(x)),
    "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x),
    "sine": of_kind(math.sin, cmath.sin),
    "cosine": of_kind(math.cos, cmath.cos),
    "tan": of_kind(math.tan, cmath.tan),
    "atan2": math.atan2,
    "floor": rounded_down,
    "ceil": lambda x: -rounded_down(-x),
    "round_nearest_even": lambda x: float(round(x)),
    "round_nearest_afz": rounded_away,
    "is_finite": math.isfinite,
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y if not isinstance(x, int) else -1 if y == 0 else int(x / y),
    "remainder": lambda x, y: math.fmod(x, y) if isinstance(x, float) else x if y == 0 else int(math.fmod(x, y)),
    "power": whole_power,
    "maximum": max,
    "minimum": min,
    "clamp": lambda low, x, high: min(max(x, low), high),
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "complex": complex,
    "real": lambda x: x.real,
    "imag": lambda x: x.imag,
}


@pytest.mark.parametrize("name", SCALARS)
def test_references_agree_with_python(name: str) -> None:
    for sample in op_samples(name):
        (actual,) = expected(REGISTRY[name], sample)
        wide = [a.astype(np.float64) if dtypes.dtype(a.dtype).is_float else a for a in sample.operands]
        operands = [np.broadcast_to(a, actual.shape).reshape(-1).tolist() for a in wide]
        numbers = [SCALARS[name](*v) for v in zip(*operands, strict=True)]
        kind = dtypes.dtype(actual.dtype)
        if kind.is_integer:
            numbers = [wrapped(number, kind.bits, signed=kind.kind is Kind.INT) for number in numbers]
        wanted = np.array(numbers, np.complex128).reshape(actual.shape)
        tolerances = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 2e-6, "complex64": 2e-6}
        rtol = 2.0**-kind.floating.digits if kind in dtypes.FLOAT8 else tolerances.get(kind.name, 1e-12)
        np.testing.assert_allclose(actual.astype(np.complex128), wanted, rtol=rtol, atol=rtol)


def test_shifts_and_counts() -> None:
    """From Python's integers, which have all the bits one wants."""
    names = ("shift_left", "shift_right_arithmetic", "shift_right_logical", "popcnt", "count_leading_zeros")
    for name in names:
        for sample in op_samples(name):
            x = sample.operands[0]
            bits, signed = 8 * x.itemsize, x.dtype.kind == "i"
            wanted: list[int] = []
            for value, *by in zip(*[a.reshape(-1).tolist() for a in sample.operands], strict=True):
                inside = bool(by) and 0 <= by[0] < bits
                unsigned = value % (1 << bits)
                wanted.append(
                    {
                        "shift_left": value << by[0] if inside else 0,
                        "shift_right_arithmetic": wrapped(value, bits, signed=True) >> (by[0] if inside else bits),
                        "shift_right_logical": unsigned >> by[0] if inside else 0,
                    }[name]
                    if by
                    else (unsigned.bit_count() if name == "popcnt" else bits - unsigned.bit_length())
                )
            found = expected(REGISTRY[name], sample)[0].reshape(-1).tolist()
            assert found == [wrapped(v, bits, signed=signed) for v in wanted], (name, x.dtype)


SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 3.5, -3.5]


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_nan_wins(name: str) -> None:
    for a, b in itertools.product(SPECIAL, repeat=2):
        result = REGISTRY[name].reference(np.array(a), np.array(b)).item()
        assert math.isnan(result) == (math.isnan(a) or math.isnan(b))


def test_integer_division_traps_nowhere() -> None:
    low = np.iinfo(np.int32).min
    x, y = np.array([7, -7, 7, low, low], np.int32), np.array([0, 2, -2, -1, 0], np.int32)
    assert REGISTRY["divide"].reference(x, y).tolist() == [-1, -3, -3, low, -1]
    assert REGISTRY["remainder"].reference(x, y).tolist() == [7, -1, 1, 0, low]


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
        return isinstance(value, bool | int | float | str | DType | Dense | SymExpr)

    for name in OPS:
        for sample in op_samples(name):
            assert all(plain(v) for v in map_attr_dims(sample.attrs, lambda d: d).values()), name
