"""Elementwise ops: one block each."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.ir.opdef import NO_GRAD, NOT_YET, Attrs, Elements, OpDef, OpKind, Reference, Sample, TypeContext, TypeRule
from dyn.ir.types import TensorType
from dyn.ops import rules
from dyn.ops.identities import (
    converted_once,
    first_of,
    idempotent,
    involution,
    neutral,
    nothing,
    of_itself,
    one_branch,
)
from dyn.ops.rules import ANY, BITS, BOOL, FLOAT, NUMBER, REAL, pointwise, predicate, same_type, samples
from dyn.ops.scalar import Scalar

Array = np.ndarray[Any, Any]
_INTS = (dtypes.int32, dtypes.int64, dtypes.uint8)
_F = (dtypes.float32, dtypes.float64)


def _quiet(fn: Callable[..., Any]) -> Reference:
    """NumPy's function without its warnings, in at least float32, rounded back to the operands' dtype."""

    def reference(*arrays: Array, **attrs: Any) -> Array:
        half = arrays[0].dtype.itemsize == 2 and arrays[0].dtype.kind not in "iu"
        wide = [a.astype(np.float32) for a in arrays] if half else arrays
        with np.errstate(all="ignore"):
            result = np.asarray(fn(*wide, **attrs))
        return result.astype(arrays[0].dtype) if half and result.dtype.kind != "b" else result

    return reference


def _op(
    name: str,
    fn: Scalar,
    reference: Callable[..., Any],
    draw: Callable[[], list[Sample]],
    types: TypeRule,
    *,
    grad: Any = NOT_YET,
    simplify: Callable[[Any, Any], tuple[Any, ...] | None] | None = None,
) -> OpDef:
    return OpDef(
        name, OpKind.POINTWISE, types=types, loops=pointwise(fn), reference=_quiet(reference), samples=draw,
        vjp=grad, jvp=grad, batch=NOT_YET, stablehlo=NOT_YET, simplify=simplify,
    )  # fmt: skip


def _logistic(x: Array) -> Array:
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x)))).astype(x.dtype)


def _erf(x: Array) -> Array:
    from scipy.special import erf as scipy_erf

    return np.asarray(scipy_erf(x)).astype(x.dtype)


def _truncated_div(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.divide(x, y)
    zero = y == 0
    safe = np.where(zero, np.ones_like(y), y)
    rounded_down = np.floor_divide(x, safe)
    inexact = (rounded_down * safe != x) & ((x < 0) != (safe < 0))
    return np.where(zero, np.zeros_like(x), rounded_down + inexact).astype(x.dtype)


def _truncated_rem(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    zero = y == 0
    return np.where(zero, np.zeros_like(x), np.fmod(x, np.where(zero, np.ones_like(y), y))).astype(x.dtype)


def _power(x: Array, y: Array) -> Array:
    if x.dtype.kind != "i":
        return np.power(x, y)
    with np.errstate(all="ignore"):
        positive = np.power(x, np.maximum(y, 0))
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(y % 2 == 0, 1, -1), 0))
    return np.where(y < 0, inverse, positive).astype(x.dtype)


_any1 = samples(1)
negative = _op("negate", Scalar.NEG, np.negative, samples(1, (*_F, *_INTS)), same_type(NUMBER), simplify=involution)
abs_ = _op("abs", Scalar.ABS, np.abs, samples(1, (*_F, dtypes.int32)), same_type(REAL), simplify=idempotent)
sign = _op(
    "sign", Scalar.SIGN, np.sign, samples(1, (*_F, dtypes.int32)), same_type(REAL), grad=NO_GRAD, simplify=idempotent
)
exponential = _op("exponential", Scalar.EXP, np.exp, _any1, same_type(FLOAT))
exponential_minus_one = _op("exponential_minus_one", Scalar.EXPM1, np.expm1, _any1, same_type(FLOAT))
log = _op("log", Scalar.LOG, np.log, samples(1, low=0.01, high=9.0), same_type(FLOAT))
log_plus_one = _op("log_plus_one", Scalar.LOG1P, np.log1p, samples(1, low=-0.9, high=9.0), same_type(FLOAT))
tanh = _op("tanh", Scalar.TANH, np.tanh, _any1, same_type(FLOAT))
logistic = _op("logistic", Scalar.LOGISTIC, _logistic, _any1, same_type(FLOAT))
erf = _op("erf", Scalar.ERF, _erf, _any1, same_type(FLOAT))
sqrt = _op("sqrt", Scalar.SQRT, np.sqrt, samples(1, low=0.0, high=9.0), same_type(FLOAT))
rsqrt = _op(
    "rsqrt", Scalar.RSQRT, lambda x: (1 / np.sqrt(x)).astype(x.dtype), samples(1, low=0.01, high=9.0), same_type(FLOAT)
)
cbrt = _op("cbrt", Scalar.CBRT, np.cbrt, _any1, same_type(FLOAT))
sine = _op("sine", Scalar.SIN, np.sin, _any1, same_type(FLOAT))
cosine = _op("cosine", Scalar.COS, np.cos, _any1, same_type(FLOAT))
floor = _op("floor", Scalar.FLOOR, np.floor, _any1, same_type(FLOAT), grad=NO_GRAD, simplify=idempotent)
ceil = _op("ceil", Scalar.CEIL, np.ceil, _any1, same_type(FLOAT), grad=NO_GRAD, simplify=idempotent)
round_nearest_even = _op(
    "round_nearest_even", Scalar.ROUND_EVEN, np.round, _any1, same_type(FLOAT), grad=NO_GRAD, simplify=idempotent
)
is_finite = _op("is_finite", Scalar.IS_FINITE, np.isfinite, _any1, predicate(FLOAT), grad=NO_GRAD)
not_ = _op(
    "not", Scalar.NOT, np.invert, samples(1, (dtypes.bool_, *_INTS)), same_type(BITS), grad=NO_GRAD, simplify=involution
)

_two = samples(2, (*_F, *_INTS))
_bits = samples(2, (dtypes.bool_, *_INTS))
add = _op("add", Scalar.ADD, np.add, _two, same_type(NUMBER), simplify=neutral(0, -0.0, left=True))
subtract = _op("subtract", Scalar.SUB, np.subtract, _two, same_type(NUMBER), simplify=neutral(0, 0.0))
multiply = _op("multiply", Scalar.MUL, np.multiply, _two, same_type(NUMBER), simplify=neutral(1, 1.0, left=True))
divide = _op("divide", Scalar.DIV, _truncated_div, _two, same_type(NUMBER), simplify=neutral(1, 1.0))
remainder = _op("remainder", Scalar.REM, _truncated_rem, _two, same_type(REAL))
power = _op("power", Scalar.POW, _power, samples(2, _F, low=0.1, high=3.0), same_type(REAL))
maximum = _op("maximum", Scalar.MAX, np.maximum, _two, same_type(REAL), simplify=of_itself)
minimum = _op("minimum", Scalar.MIN, np.minimum, _two, same_type(REAL), simplify=of_itself)
and_ = _op(
    "and",
    Scalar.AND,
    np.bitwise_and,
    _bits,
    same_type(BITS),
    grad=NO_GRAD,
    simplify=first_of(of_itself, neutral(-1, 0.0, left=True, bits=1)),
)
or_ = _op(
    "or",
    Scalar.OR,
    np.bitwise_or,
    _bits,
    same_type(BITS),
    grad=NO_GRAD,
    simplify=first_of(of_itself, neutral(0, 0.0, left=True, bits=0)),
)
xor = _op(
    "xor", Scalar.XOR, np.bitwise_xor, _bits, same_type(BITS), grad=NO_GRAD, simplify=neutral(0, 0.0, left=True, bits=0)
)

_DIRECTIONS: dict[str, tuple[Scalar, Callable[[Any, Any], Any]]] = {
    "EQ": (Scalar.EQ, operator.eq),
    "NE": (Scalar.NE, operator.ne),
    "LT": (Scalar.LT, operator.lt),
    "LE": (Scalar.LE, operator.le),
    "GT": (Scalar.GT, operator.gt),
    "GE": (Scalar.GE, operator.ge),
}

compare = OpDef(
    "compare",
    OpKind.POINTWISE,
    types=predicate(ANY),
    loops=pointwise(lambda attrs: _DIRECTIONS[attrs["direction"]][0]),
    reference=lambda x, y, direction: np.asarray(_DIRECTIONS[direction][1](x, y)),
    samples=lambda: [s for d in _DIRECTIONS for s in samples(2, (dtypes.float32, dtypes.int32), -1, 1, direction=d)()],
    vjp=NO_GRAD, jvp=NO_GRAD, batch=NOT_YET, stablehlo=NOT_YET,
)  # fmt: skip


def _select_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    pred, on_true, on_false = operands
    rules.require_kinds(ctx, (pred,), BOOL)
    rules.require_kinds(ctx, (on_true, on_false), ANY)
    rules.require_same_shapes(ctx, operands)
    return (TensorType(on_true.dtype, on_true.shape, on_true.weak and on_false.weak),)


def _select_samples() -> list[Sample]:
    calls = zip(samples(1, (dtypes.bool_,) * 2)(), samples(2)(), strict=True)
    return [Sample((*p.operands, *v.operands)) for p, v in calls]


select = OpDef(
    "select",
    OpKind.POINTWISE,
    types=_select_types,
    loops=pointwise(Scalar.SELECT),
    reference=np.where,
    samples=_select_samples,
    vjp=NOT_YET, jvp=NOT_YET, batch=NOT_YET, stablehlo=NOT_YET,
    simplify=one_branch,
)  # fmt: skip


def _convert_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,) = operands
    if x.dtype.kind is Kind.COMPLEX and attrs["dtype"].kind is not Kind.COMPLEX:
        raise ctx.unsupported(f"does not take {x.dtype.name} to {attrs['dtype'].name}", "take .real or .imag")
    return (TensorType(attrs["dtype"], x.shape, attrs.get("weak", False)),)


def convert_array(x: Array, dtype: DType, weak: bool = False) -> Array:
    """NumPy's astype where C leaves it undefined too: floats saturate in integers, and NaN gives 0."""
    if x.dtype.kind != "f" and dtypes.dtype(x.dtype).is_float:
        x = x.astype(np.float32)
    if x.dtype.kind == "f" and dtype.is_integer:
        info = np.iinfo(dtype.np)
        with np.errstate(all="ignore"):
            whole = np.trunc(np.nan_to_num(x, nan=0.0, posinf=np.inf, neginf=-np.inf)).astype(np.float64)
            inside = np.clip(whole, float(info.min), float(info.max))
            result = np.where(
                inside >= float(info.max), info.max, np.where(inside < 2.0**63, inside, 0).astype(np.int64)
            )
            if info.max > np.iinfo(np.int64).max:
                result = np.where(inside >= 2.0**63, inside.astype(np.uint64), result.astype(np.uint64))
                result = np.where(whole >= 2.0**64, np.uint64(info.max), result)
            return result.astype(dtype.np)
    with np.errstate(all="ignore"):
        return x.astype(dtype.np)


convert = OpDef(
    "convert",
    OpKind.POINTWISE,
    types=_convert_types,
    loops=pointwise(Scalar.CAST),
    reference=convert_array,
    samples=lambda: [
        Sample(s.operands, {"dtype": to})
        for to in (dtypes.float32, dtypes.int32, dtypes.bool_, dtypes.bfloat16)
        for s in samples(1, (dtypes.float32, dtypes.int64, dtypes.bool_, dtypes.float16))()
    ],
    vjp=NOT_YET, jvp=NOT_YET, batch=NOT_YET, stablehlo=NOT_YET,
    simplify=converted_once,
)  # fmt: skip

#: The operand again, in memory of its own.
copy = OpDef(
    "copy",
    OpKind.POINTWISE,
    types=same_type(ANY),
    loops=Elements(lambda k, op, index, get: get(0, index)),
    reference=np.array,
    samples=samples(1, (dtypes.float32, dtypes.bool_)),
    vjp=NOT_YET, jvp=NOT_YET, batch=NOT_YET, stablehlo=NOT_YET,
    simplify=nothing,
)  # fmt: skip
