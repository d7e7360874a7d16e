"""Elementwise ops: one block each.

This file is longer than most: it is a list of ops, a block each.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind, Special
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.opdef import (
    FROM_VJP,
    NOT_CONTINUOUS,
    PIECEWISE_CONSTANT,
    Attrs,
    ElementLoops,
    Get,
    NoGrad,
    OpDef,
    OpKind,
    Sample,
    ScalarBuilder,
    TypeContext,
)
from dyn.ir.types import TensorType
from dyn.ir.vectorize import spread
from dyn.ops import complex_parts, derivatives, rules
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.identities import (
    converted_once,
    first_of,
    idempotent,
    idempotent_reals,
    involution,
    neutral,
    nothing,
    of_itself,
    one_branch,
)
from dyn.ops.pointwise import BITS as BITS_DTYPES
from dyn.ops.pointwise import COMPLEXES, FLOATS, FLOATS8, INTS, NUMBERS, REALS, draw, pointwise_op
from dyn.ops.rules import ANY, BITS, BOOL, FLOAT, INEXACT, NUMBER, REAL, pointwise, predicate, same_type
from dyn.ops.scalar import Scalar
from dyn.ops.transform_rules import again, elementwise_vjp, linear, pointwise_batch, unbroadcast
from dyn.requirements import scipy_module
from dyn.shapes import Dim, RelKind

Array = np.ndarray[Any, Any]


def _logistic(x: Array) -> Array:
    if x.dtype.kind == "c":
        left = x.real < 0
        e = np.exp(np.where(left, x, -x))
        return (np.where(left, e, 1) / (1 + e)).astype(x.dtype)
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x)))).astype(x.dtype)


def _erf(x: Array) -> Array:
    return np.asarray(scipy_module("special", "erf").erf(x)).astype(x.dtype)


def _fused_multiply_add(x: Array, y: Array, z: Array) -> Array:
    """A product of float32 is exact in float64; of float64 nearly so in the 64 bits of x87."""
    wide = np.longdouble if x.dtype == np.float64 else np.float64
    return np.asarray(x.astype(wide) * y + z).astype(x.dtype)


def _truncated_div(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.divide(x, y)
    zero = y == 0
    safe = np.where(zero, np.ones_like(y), y)
    rounded_down = np.floor_divide(x, safe)
    inexact = (rounded_down * safe != x) & ((x < 0) != (safe < 0))
    return np.where(zero, ~np.zeros_like(x), rounded_down + inexact).astype(x.dtype)


def _truncated_rem(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.fmod(x, y)
    zero = y == 0
    return np.where(zero, x, np.fmod(x, np.where(zero, np.ones_like(y), y))).astype(x.dtype)


def _power(x: Array, y: Array) -> Array:
    if x.dtype.kind != "i":
        return np.power(x, y)
    with np.errstate(all="ignore"):
        positive = np.power(x, np.maximum(y, 0))
    inverse = np.where(x == 1, 1, np.where(x == -1, np.where(y % 2 == 0, 1, -1), 0))
    return np.where(y < 0, inverse, positive).astype(x.dtype)


def _round_afz(x: Array) -> Array:
    """Half away from zero. ``x - trunc(x)`` is exact, where ``x + 0.5`` would not be."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1, x), whole).astype(x.dtype)


def _magnitude(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,) = same_type(NUMBER)(ctx, operands, attrs)
    return (TensorType(complex_parts.part_dtype(x.dtype), x.shape, x.weak),)


#: Asked for by the user.
STOPPED = NoGrad("it is what stops gradients")
_INEXACT = (*FLOATS, *COMPLEXES)
_any1 = draw(1)
_inexact1 = draw(1, _INEXACT)
_positive1 = draw(1, _INEXACT, low=0.01, high=9.0)
negative = pointwise_op(
    "negate", Scalar.NEG, np.negative, draw(1, (*NUMBERS, *FLOATS8)), same_type(NUMBER),
    grad=derivatives.negate, simplify=involution, parts=complex_parts.componentwise,
)  # fmt: skip
abs_ = pointwise_op(
    "abs", Scalar.ABS, np.abs, draw(1, NUMBERS), _magnitude,
    grad=derivatives.abs_, jvp=derivatives.abs_tangent, simplify=idempotent, parts=complex_parts.abs_,
)  # fmt: skip
sign = pointwise_op(
    "sign", Scalar.SIGN, np.sign, draw(1, NUMBERS), same_type(NUMBER),
    grad=PIECEWISE_CONSTANT, simplify=idempotent_reals, parts=complex_parts.sign,
)  # fmt: skip
exponential = pointwise_op(
    "exponential", Scalar.EXP, np.exp, draw(1, (*_INEXACT, *FLOATS8)), same_type(INEXACT),
    grad=derivatives.exponential, parts=complex_parts.exponential,
)  # fmt: skip
exponential_minus_one = pointwise_op(
    "exponential_minus_one", Scalar.EXPM1, np.expm1, _inexact1, same_type(INEXACT),
    grad=derivatives.exponential_minus_one, parts=complex_parts.exponential_minus_one,
)  # fmt: skip
log = pointwise_op(
    "log", Scalar.LOG, np.log, _positive1, same_type(INEXACT),
    grad=derivatives.log, parts=complex_parts.log,
)  # fmt: skip
log_plus_one = pointwise_op(
    "log_plus_one", Scalar.LOG1P, np.log1p, draw(1, _INEXACT, low=-0.9, high=9.0), same_type(INEXACT),
    grad=derivatives.log_plus_one, parts=complex_parts.log_plus_one,
)  # fmt: skip
tanh = pointwise_op(
    "tanh", Scalar.TANH, np.tanh, _inexact1, same_type(INEXACT),
    grad=derivatives.tanh, parts=complex_parts.tanh,
)  # fmt: skip
logistic = pointwise_op(
    "logistic", Scalar.LOGISTIC, _logistic, _inexact1, same_type(INEXACT),
    grad=derivatives.logistic, parts=complex_parts.logistic,
)  # fmt: skip
erf = pointwise_op("erf", Scalar.ERF, _erf, _any1, same_type(FLOAT), grad=derivatives.erf)
sqrt = pointwise_op(
    "sqrt", Scalar.SQRT, np.sqrt, draw(1, _INEXACT, low=0.0, high=9.0), same_type(INEXACT),
    grad=derivatives.sqrt, parts=complex_parts.sqrt,
)  # fmt: skip
rsqrt = pointwise_op(
    "rsqrt", Scalar.RSQRT, lambda x: (1 / np.sqrt(x)).astype(x.dtype), _positive1, same_type(INEXACT),
    grad=derivatives.rsqrt, parts=complex_parts.rsqrt,
)  # fmt: skip
cbrt = pointwise_op("cbrt", Scalar.CBRT, np.cbrt, _any1, same_type(FLOAT), grad=derivatives.cbrt)
sine = pointwise_op(
    "sine", Scalar.SIN, np.sin, _inexact1, same_type(INEXACT),
    grad=derivatives.sine, parts=complex_parts.sine,
)  # fmt: skip
cosine = pointwise_op(
    "cosine", Scalar.COS, np.cos, _inexact1, same_type(INEXACT),
    grad=derivatives.cosine, parts=complex_parts.cosine,
)  # fmt: skip
tan = pointwise_op(
    "tan", Scalar.TAN, np.tan, _inexact1, same_type(INEXACT),
    grad=derivatives.tan, parts=complex_parts.tan,
)  # fmt: skip
floor = pointwise_op(
    "floor", Scalar.FLOOR, np.floor, _any1, same_type(FLOAT),
    grad=PIECEWISE_CONSTANT, simplify=idempotent,
)  # fmt: skip
ceil = pointwise_op("ceil", Scalar.CEIL, np.ceil, _any1, same_type(FLOAT), grad=PIECEWISE_CONSTANT, simplify=idempotent)
round_nearest_even = pointwise_op(
    "round_nearest_even",
    Scalar.ROUND_EVEN,
    np.round,
    _any1,
    same_type(FLOAT),
    grad=PIECEWISE_CONSTANT,
    simplify=idempotent,
)
round_nearest_afz = pointwise_op(
    "round_nearest_afz",
    Scalar.ROUND_AFZ,
    _round_afz,
    _any1,
    same_type(FLOAT),
    grad=PIECEWISE_CONSTANT,
    simplify=idempotent,
)
is_finite = pointwise_op("is_finite", Scalar.IS_FINITE, np.isfinite, _any1, predicate(FLOAT), grad=NOT_CONTINUOUS)
not_ = pointwise_op(
    "not", Scalar.NOT, np.invert, draw(1, BITS_DTYPES), same_type(BITS), grad=NOT_CONTINUOUS, simplify=involution
)

_numbers2 = draw(2, (*NUMBERS, FLOATS8[0]))
_reals2 = draw(2, (*REALS, FLOATS8[1]))
_bits2 = draw(2, BITS_DTYPES)
add = pointwise_op(
    "add", Scalar.ADD, np.add, _numbers2, same_type(NUMBER),
    grad=derivatives.add, simplify=neutral(0, -0.0, left=True), parts=complex_parts.componentwise,
)  # fmt: skip
subtract = pointwise_op(
    "subtract", Scalar.SUB, np.subtract, _numbers2, same_type(NUMBER),
    grad=derivatives.subtract, simplify=neutral(0, 0.0), parts=complex_parts.componentwise,
)  # fmt: skip
multiply = pointwise_op(
    "multiply", Scalar.MUL, np.multiply, _numbers2, same_type(NUMBER),
    grad=derivatives.multiply, simplify=neutral(1, 1.0, left=True), parts=complex_parts.multiply,
)  # fmt: skip
divide = pointwise_op(
    "divide", Scalar.DIV, _truncated_div, _numbers2, same_type(NUMBER),
    grad=derivatives.divide, simplify=neutral(1, 1.0), parts=complex_parts.divide,
)  # fmt: skip
#: A product and a sum that are rounded once where the machine can, else twice: other code's numbers to the bit.
fused_multiply_add = pointwise_op(
    "fused_multiply_add", Scalar.FMA, _fused_multiply_add, draw(3), same_type(FLOAT),
    grad=derivatives.fused_multiply_add,
)  # fmt: skip
remainder = pointwise_op("remainder", Scalar.REM, _truncated_rem, _reals2, same_type(REAL), grad=derivatives.remainder)
power = pointwise_op(
    "power", Scalar.POW, _power, lambda: [*draw(2, _INEXACT, low=0.1)(), *draw(2, INTS)()], same_type(NUMBER),
    grad=derivatives.power, parts=complex_parts.power,
)  # fmt: skip
atan2 = pointwise_op("atan2", Scalar.ATAN2, np.arctan2, draw(2), same_type(FLOAT), grad=derivatives.atan2)
maximum = pointwise_op(
    "maximum", Scalar.MAX, np.maximum, _reals2, same_type(REAL),
    grad=derivatives.extreme, simplify=of_itself,
)  # fmt: skip
minimum = pointwise_op(
    "minimum", Scalar.MIN, np.minimum, _reals2, same_type(REAL),
    grad=derivatives.extreme, simplify=of_itself,
)  # fmt: skip
and_ = pointwise_op(
    "and", Scalar.AND, np.bitwise_and, _bits2, same_type(BITS),
    grad=NOT_CONTINUOUS, simplify=first_of(of_itself, neutral(-1, 0.0, left=True, bits=1)),
)  # fmt: skip
or_ = pointwise_op(
    "or", Scalar.OR, np.bitwise_or, _bits2, same_type(BITS),
    grad=NOT_CONTINUOUS, simplify=first_of(of_itself, neutral(0, 0.0, left=True, bits=0)),
)  # fmt: skip
xor = pointwise_op(
    "xor", Scalar.XOR, np.bitwise_xor, _bits2, same_type(BITS),
    grad=NOT_CONTINUOUS, simplify=neutral(0, 0.0, left=True, bits=0),
)  # fmt: skip


# --- clamp ------------------------------------------------------------------------------------------------------------


def _clamp_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    low, x, high = operands
    rules.require_kinds(ctx, (x, low, high), REAL)
    for name, bound in (("lower", low), ("upper", high)):
        if bound.rank not in (0, x.rank):
            raise ctx.fail(f"the {name} bound has rank {bound.rank}, the operand rank {x.rank}")
        for axis, (size, own) in enumerate(zip(bound.shape, x.shape, strict=False)):
            ctx.require(RelKind.EQ, size, own, f"the {name} bound of a clamp has the operand's size on axis {axis}")
    return (TensorType(x.dtype, x.shape, x.weak and low.weak and high.weak),)


def _clamp_at(k: ScalarBuilder, op: Op, index: tuple[Dim, ...], get: Get) -> Any:
    low, high = (get(i, index if op.operands[i].shape else ()) for i in (0, 2))
    dtype = op.result.dtype
    return k.apply(Scalar.MIN, [k.apply(Scalar.MAX, [get(1, index), low], dtype), high], dtype)


def _clamp_choices(b: Builder, op: Op) -> tuple[Value, Value, Value]:
    """Masks of where the result is the lower bound, the operand, the upper bound. At a bound it is the bound's."""
    a, (low, x, high) = Arithmetic(b), op.operands
    low, high = (_like(b, v, x.shape) for v in (low, high))
    above = a.cmp(a.f("maximum", x, low), "GE", high)
    below = a.f("and", a.cmp(x, "LE", low), a.f("not", above))
    return below, a.f("not", a.f("or", above, below)), above


def _like(b: Builder, value: Value, shape: tuple[Dim, ...]) -> Value:
    """A bound in the operand's shape."""
    return value if len(value.shape) == len(shape) else b.op("broadcast_in_dim", value, shape=shape, dims=())


def _clamp_vjp(b: Builder, op: Op, cts: tuple[Value, ...]) -> tuple[Value, ...]:
    a, found = Arithmetic(b), list[Value]()
    for operand, chosen in zip(op.operands, _clamp_choices(b, op), strict=True):
        own = a.where(chosen, cts[0], 0)
        found.append(unbroadcast(b, own, operand.type, tuple(range(len(operand.shape)))))
    return tuple(found)


def _clamp_jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value, ...]:
    a, whole = Arithmetic(b), None
    for tangent, chosen in zip(tangents, _clamp_choices(b, op), strict=True):
        if tangent is not None:
            part = a.where(chosen, _like(b, tangent, op.result.shape), 0)
            whole = part if whole is None else a.add(whole, part)
    assert whole is not None
    return (whole,)


def _clamp_batch(
    b: Builder, op: Op, operands: tuple[Value, ...], batched: tuple[bool, ...], size: Dim
) -> tuple[Value, ...]:
    shape = (size, *op.result.shape)
    full: list[Value] = []
    for value, own, is_bound in zip(operands, batched, (True, False, True), strict=True):
        if own and len(value.shape) < len(shape):
            value = b.op("broadcast_in_dim", value, shape=shape, dims=(0,))
        elif not own and not (is_bound and not value.shape):
            value = spread(b, value, size)
        full.append(value)
    return again(b, op, full)


def _clamp_samples() -> list[Sample]:
    calls: list[Sample] = []
    for sample in draw(3, (*REALS, FLOATS8[0]))():
        a, x, b = sample.operands
        calls.append(Sample((np.minimum(a, b), x, np.maximum(a, b))))
        calls.append(Sample((np.asarray(1, x.dtype), x, np.asarray(2, x.dtype))))
    return calls


#: ``min(max(x, low), high)``; each bound has the operand's shape, or none.
clamp = OpDef(
    "clamp",
    OpKind.POINTWISE,
    types=_clamp_types,
    loops=ElementLoops(_clamp_at),
    reference=lambda low, x, high: np.minimum(np.maximum(x, low), high),
    samples=_clamp_samples,
    vjp=_clamp_vjp,
    jvp=_clamp_jvp, batch=_clamp_batch,
)  # fmt: skip


# --- comparison, choice, conversion -----------------------------------------------------------------------------------

_DIRECTIONS: dict[str, tuple[Scalar, Callable[[Any, Any], Any]]] = {
    "EQ": (Scalar.EQ, operator.eq),
    "NE": (Scalar.NE, operator.ne),
    "LT": (Scalar.LT, operator.lt),
    "LE": (Scalar.LE, operator.le),
    "GT": (Scalar.GT, operator.gt),
    "GE": (Scalar.GE, operator.ge),
}


def _compare_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    if attrs["direction"] not in ("EQ", "NE") and operands[0].dtype.kind is Kind.COMPLEX:
        raise ctx.unsupported(
            f"{operands[0].dtype.name} numbers have no order: {attrs['direction']} does not take them",
            "compare their absolute values, or their real parts",
        )
    return predicate(ANY)(ctx, operands, attrs)


def _compare_samples() -> list[Sample]:
    every = (dtypes.bool_, *REALS)
    return [
        sample
        for d in _DIRECTIONS
        for sample in draw(2, (*every, *COMPLEXES) if d in ("EQ", "NE") else every, -1, 1, direction=d)()
    ]


compare = OpDef(
    "compare",
    OpKind.POINTWISE,
    types=_compare_types,
    loops=pointwise(lambda attrs: _DIRECTIONS[attrs["direction"]][0]),
    reference=lambda x, y, direction: np.asarray(_DIRECTIONS[direction][1](x, y)),
    samples=_compare_samples,
    vjp=NOT_CONTINUOUS, jvp=NOT_CONTINUOUS, batch=pointwise_batch,
    parts=complex_parts.compare,
)  # fmt: skip


def _select_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    pred, on_true, on_false = operands
    rules.require_kinds(ctx, (pred,), BOOL)
    rules.require_kinds(ctx, (on_true, on_false), ANY)
    rules.require_same_shapes(ctx, operands)
    return (TensorType(on_true.dtype, on_true.shape, on_true.weak and on_false.weak),)


def _select_samples() -> list[Sample]:
    every = (dtypes.bool_, *NUMBERS)
    calls = zip(draw(1, (dtypes.bool_,) * len(every))(), draw(2, every)(), strict=True)
    return [Sample((*p.operands, *v.operands)) for p, v in calls]


select = OpDef(
    "select",
    OpKind.POINTWISE,
    types=_select_types,
    loops=pointwise(Scalar.SELECT),
    reference=np.where,
    samples=_select_samples,
    vjp=elementwise_vjp(lambda a, ct, y, p, left, right: (None, a.where(p, ct, 0), a.where(p, 0, ct))),
    jvp=FROM_VJP, batch=pointwise_batch,
    simplify=one_branch,
    parts=complex_parts.componentwise,
)  # fmt: skip


def _convert_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,) = operands
    if x.dtype.kind is Kind.COMPLEX and attrs["dtype"].kind is not Kind.COMPLEX:
        raise ctx.unsupported(f"does not take {x.dtype.name} to {attrs['dtype'].name}", "take .real or .imag")
    return (TensorType(attrs["dtype"], x.shape, attrs.get("weak", False)),)


def _to_odd(x: Array) -> Array:
    """float64 as float32 whose last bit is set where it is inexact: rounding that once more rounds right, which
    ml_dtypes does not do, and XLA does. (S. Boldo, G. Melquiond, "When double rounding is odd", 2005.)
    """
    with np.errstate(all="ignore"):
        near = np.array(x, np.float32, ndmin=1)
        back = near.astype(np.float64)
        inexact = (back < x) | (back > x)
        bits = near.view(np.int32)
        bits -= inexact & (np.abs(back) > np.abs(x))
        bits |= inexact
    return near.reshape(x.shape)


def convert_array(x: Array, dtype: DType, weak: bool = False) -> Array:
    """NumPy's astype where C leaves it undefined too: floats saturate in integers, and NaN gives 0. Rounded once."""
    if x.dtype == dtype.np:
        return np.array(x)
    x = dtypes.widened(x)
    if dtype.is_narrow and x.dtype == np.float64:
        x = _to_odd(x)
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
        result = x.astype(dtype.np)
        if dtype.is_narrow and dtype.floating.special is Special.POWERS:
            # ml_dtypes before 0.7 rounds all that is between the two least powers up.
            least = 2.0**dtype.floating.least
            result = np.where((x >= least) & (x < 1.5 * least), dtype.np.type(least), result)
        return result


def _convert_parts(b: Builder, op: Op, operands: tuple[Value, ...]) -> Any:
    attrs = {**op.attrs, "dtype": complex_parts.part_dtype(op.attrs["dtype"])}
    (x,) = operands
    if isinstance(x, tuple):
        return tuple(b.op("convert", part, **attrs) for part in x)
    real = b.op("convert", x, **attrs)
    return real, complex_parts.Real(b).fill(real, 0)


def _convert_vjp(b: Builder, op: Op, cts: tuple[Value]) -> tuple[Value | None]:
    """The cotangent in the operand's dtype; its real part where that is real."""
    (x,), (ct,) = op.operands, cts
    if not x.dtype.is_inexact:
        return (None,)
    if ct.dtype.kind is Kind.COMPLEX and x.dtype.kind is not Kind.COMPLEX:
        ct = b.op("real", ct)
    return (ct if ct.dtype is x.dtype else b.op("convert", ct, dtype=x.dtype),)


def _convert_jvp(b: Builder, op: Op, tangents: tuple[Value, ...]) -> tuple[Value | None]:
    return (b.op("convert", tangents[0], dtype=op.result.dtype) if op.result.dtype.is_inexact else None,)


def _convert_samples() -> list[Sample]:
    """Every dtype to every dtype but complex to real ones; floats of 8 bits from and to some."""
    small = dtypes.FLOAT8
    every = [d for d in dtypes.ALL if d not in small]
    pairs = [(source, to) for source in every for to in every]
    pairs += [pair for d in small for pair in ((d, dtypes.float32), (dtypes.float64, d), (d, dtypes.int32))]
    pairs += [(small[0], dtypes.complex64), (dtypes.bool_, small[1]), (small[2], small[3]), (dtypes.int64, small[4])]
    return [
        Sample(sample.operands, {"dtype": to})
        for source, to in pairs
        if source.kind is not Kind.COMPLEX or to.kind is Kind.COMPLEX
        for sample in draw(1, (source,))()[1:4]
    ]


convert = OpDef(
    "convert",
    OpKind.POINTWISE,
    types=_convert_types,
    loops=pointwise(Scalar.CAST),
    reference=convert_array,
    samples=_convert_samples,
    vjp=_convert_vjp,
    jvp=_convert_jvp, batch=pointwise_batch,
    simplify=converted_once,
    parts=_convert_parts,
)  # fmt: skip

#: The operand again, in memory of its own.
copy = OpDef(
    "copy",
    OpKind.POINTWISE,
    types=same_type(ANY),
    loops=ElementLoops(lambda k, op, index, get: get(0, index)),
    reference=np.array,
    samples=draw(1, (dtypes.bool_, *NUMBERS)),
    vjp=elementwise_vjp(lambda a, ct, y, x: (ct,)),
    jvp=linear(), batch=pointwise_batch,
    simplify=nothing,
    parts=lambda b, op, operands: operands[0],
)  # fmt: skip

#: The operand, as a constant of what is differentiated.
stop_gradient = OpDef(
    "stop_gradient",
    OpKind.POINTWISE,
    types=same_type(INEXACT),
    loops=ElementLoops(lambda k, op, index, get: get(0, index)),
    reference=np.array,
    samples=draw(1, _INEXACT),
    vjp=STOPPED, jvp=STOPPED, batch=pointwise_batch,
    simplify=nothing,
    parts=lambda b, op, operands: operands[0],
)  # fmt: skip
