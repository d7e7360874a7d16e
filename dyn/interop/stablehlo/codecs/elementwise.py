"""Codecs of elementwise ops: most have a twin of their name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import NotYetError
from dyn.interop.stablehlo.hlo import Codec, DecodeRule, EncodeRule, HloEnum, HloInt, HloOp, HloType, HloValue
from dyn.ir.core import Dense


def decode_as(name: str, *attrs: str) -> DecodeRule:
    """Read an operation as the op ``name`` of the same operands."""

    def decode(d: Any, op: HloOp) -> Sequence[Any]:
        kept = {attr: op.attrs[attr] for attr in attrs}
        bools = bool(op.operands) and op.operands[0].dtype is dtypes.bool_
        return d.b.op_all(_OF_BOOLS.get(name, name) if bools else name, *(d.value(v) for v in op.operands), **kept)

    return decode


#: What operations on numbers do with bools.
_OF_BOOLS = {"add": "or", "multiply": "and", "maximum": "or", "minimum": "and"}


def of_bools(name: str) -> str:
    """The op on bools that an operation on numbers is, where it takes bools."""
    return _OF_BOOLS.get(name, name)


def encode_as(name: str) -> EncodeRule:
    """Write an op as the operation ``name`` of the same operands."""

    def encode(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
        return e.ops(name, operands, [HloType.of(v.type) for v in op.results])

    return encode


def twin(name: str, dialect: str = "stablehlo") -> Codec:
    """The codec of an elementwise op that has an operation of its name and no attributes."""
    full = f"{dialect}.{name}"
    return Codec(full, encode_as(full), {full: decode_as(name)})


def chlo(name: str) -> Codec:
    """The codec of an elementwise op that is CHLO's. Producers have these as composites too."""
    rule = decode_as(name)
    return Codec(f"chlo.{name}", encode_as(f"chlo.{name}"), {f"chlo.{name}": rule, f"composite.chlo.{name}": rule})


def identity(what: str) -> Codec:
    """The codec of an op that changes no element: its result is its operand."""
    return Codec(f"identity: {what}", lambda e, op, operands: operands)


def _encode_unsigned(full: str, of_unsigned: Callable[[Any, HloValue], HloValue]) -> EncodeRule:
    plain = encode_as(full)

    def encode(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
        (x,) = operands
        return [of_unsigned(e, x)] if x.dtype.kind is Kind.UINT else plain(e, op, operands)

    return encode


def twin_of_signed(name: str, of_unsigned: Callable[[Any, HloValue], HloValue]) -> Codec:
    """A twin that takes no unsigned integers: ``of_unsigned(e, x)`` writes those."""
    full = f"stablehlo.{name}"
    return Codec(full, _encode_unsigned(full, of_unsigned), {full: decode_as(name)})


#: Operations of the same name that take the same operands and no attributes.
TWINS = (
    "add", "and", "atan2", "cbrt", "ceil", "cosine", "count_leading_zeros", "divide", "exponential",
    "exponential_minus_one", "floor", "is_finite", "log", "log_plus_one", "logistic", "maximum", "minimum",
    "multiply", "negate", "not", "or", "popcnt", "power", "remainder", "round_nearest_afz", "round_nearest_even",
    "rsqrt", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sine", "sqrt", "subtract", "tan",
    "tanh", "xor",
)  # fmt: skip

_CHLO = (
    "erf", "erfc", "lgamma", "digamma", "sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh",
    "next_after", "is_inf", "is_pos_inf", "is_neg_inf",
)  # fmt: skip

#: The codecs of elementwise ops which are not simply their twins.
SPECIAL: dict[str, Codec] = {
    "abs": twin_of_signed("abs", lambda e, x: x),
    "sign": twin_of_signed("sign", lambda e, x: e.op("stablehlo.minimum", x, e.full(1, x.type))),
    **{name: chlo(name) for name in _CHLO},
}


def _encode_fma(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    x, y, z = operands
    return [e.op("stablehlo.add", e.op("stablehlo.multiply", x, y), z)]


#: What is read is XLA's formula, whichever of the two was written.
SPECIAL["xla_erf_inv"] = chlo("erf_inv")
SPECIAL["erf_inv"] = Codec("chlo.erf_inv", encode_as("chlo.erf_inv"))
SPECIAL["fused_multiply_add"] = Codec("decomposed: multiply, add", _encode_fma)


def _encode_trigamma(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    """CHLO's polygamma of order 1, which is for numbers that are not negative, and its reflection."""
    narrow = operands[0].type
    wide = HloType(dtypes.float32, narrow.shape) if narrow.dtype.is_narrow else narrow
    x = operands[0] if wide is narrow else e.op("stablehlo.convert", operands[0], type=wide)
    one, pi, truth = e.full(1, wide), e.full(np.pi, wide), HloType(dtypes.bool_, narrow.shape)
    below = e.op("stablehlo.compare", x, e.full(0, wide), type=truth, **e.direction("LT", "FLOAT"))
    mirrored = e.op("stablehlo.select", below, e.op("stablehlo.subtract", one, x), x, type=wide)
    made = e.op("chlo.polygamma", one, mirrored)
    off = e.op("stablehlo.subtract", x, e.op("stablehlo.round_nearest_even", x))
    slope = e.op("stablehlo.divide", pi, e.op("stablehlo.sine", e.op("stablehlo.multiply", off, pi)))
    reflected = e.op("stablehlo.subtract", e.op("stablehlo.multiply", slope, slope), made)
    made = e.op("stablehlo.select", below, reflected, made, type=wide)
    return [made if wide is narrow else e.op("stablehlo.convert", made, type=narrow)]


SPECIAL["trigamma"] = Codec("decomposed: chlo.polygamma, and its reflection", _encode_trigamma)


def _encode_precision(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    bits = {name: HloInt(op.attrs[name]) for name in ("exponent_bits", "mantissa_bits")}
    return [e.op("stablehlo.reduce_precision", *operands, **bits)]


SPECIAL["reduce_precision"] = Codec(
    "stablehlo.reduce_precision",
    _encode_precision,
    {"stablehlo.reduce_precision": decode_as("reduce_precision", "exponent_bits", "mantissa_bits")},
)


# --- those with attributes --------------------------------------------------------------------------------------------


def _encode_compare(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    kind = operands[0].dtype.kind
    sort = "FLOAT" if kind in (Kind.FLOAT, Kind.COMPLEX) else "SIGNED" if kind is Kind.INT else "UNSIGNED"
    return [
        e.op(
            "stablehlo.compare", *operands, type=HloType.of(op.result.type),
            comparison_direction=HloEnum("comparison_direction", op.attrs["direction"]),
            compare_type=HloEnum("comparison_type", sort),
        )
    ]  # fmt: skip


def total_order(b: Any, x: Any) -> Any:
    """Floats as integers in IEEE 754's total order: -NaN, -inf, …, -0, 0, …, inf, NaN."""
    if x.dtype.bits == 8:  # not all formats of 8 bits have their NaNs beyond the other numbers
        x = b.op("convert", x, dtype=dtypes.float32)
    dtype = _signed_of(x.dtype)
    bits = b.op("bitcast_convert", x, dtype=dtype)
    zero = _like(b, 0, bits)
    flipped = b.op("xor", bits, _like(b, np.iinfo(dtype.np).max, bits))
    return b.op("select", b.op("compare", bits, zero, direction="LT"), flipped, bits)


def _signed_of(dtype: Any) -> Any:
    return {16: dtypes.int16, 32: dtypes.int32, 64: dtypes.int64}[dtype.bits]


def _like(b: Any, value: Any, like: Any) -> Any:
    made = b.op("constant", value=Dense(np.asarray(value).astype(like.dtype.np)))
    return b.op("broadcast_in_dim", made, shape=like.shape, dims=()) if like.shape else made


def _decode_compare(d: Any, op: HloOp) -> Sequence[Any]:
    x, y = (d.value(v) for v in op.operands)
    sort = op.attrs.get("compare_type")
    if sort is not None and sort.value == "TOTALORDER" and x.dtype.is_float:
        x, y = total_order(d.b, x), total_order(d.b, y)
    return [d.b.op("compare", x, y, direction=op.attrs["comparison_direction"].value)]


compare = Codec("stablehlo.compare", _encode_compare, {"stablehlo.compare": _decode_compare})


def _encode_select(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    return [e.op("stablehlo.select", *operands, type=HloType.of(op.result.type))]


def _decode_select(d: Any, op: HloOp) -> Sequence[Any]:
    chosen, left, right = (d.value(v) for v in op.operands)
    if not chosen.shape and left.shape:
        chosen = d.b.op("broadcast_in_dim", chosen, shape=left.shape, dims=())
    return [d.b.op("select", chosen, left, right)]


select = Codec("stablehlo.select", _encode_select, {"stablehlo.select": _decode_select})


def _decode_clamp(d: Any, op: HloOp) -> Sequence[Any]:
    return [d.b.op("clamp", *(d.value(v) for v in op.operands))]


def _encode_clamp(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    """Write a clamp: in StableHLO both bounds are scalars, or neither."""
    low, x, high = operands
    if bool(low.shape) != bool(high.shape):
        low, high = (v if v.shape else e.spread(v, x.type, ()) for v in (low, high))
    return [e.op("stablehlo.clamp", low, x, high, type=HloType.of(op.result.type))]


clamp = Codec("stablehlo.clamp", _encode_clamp, {"stablehlo.clamp": _decode_clamp})


def _encode_convert(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    (x,) = operands
    if x.dtype is op.result.dtype:
        return [x]  # what changes is whether the dtype is weak, and StableHLO knows nothing of that
    return [e.op("stablehlo.convert", x, type=HloType.of(op.result.type))]


def _decode_convert(d: Any, op: HloOp) -> Sequence[Any]:
    """Complex numbers lose their imaginary part on the way to real ones."""
    x, dtype = d.value(op.operands[0]), op.results[0].dtype
    if x.dtype.kind is Kind.COMPLEX and dtype.kind is not Kind.COMPLEX:
        x = d.b.op("real", x)
    return [x if x.dtype is dtype and not x.type.weak else d.b.op("convert", x, dtype=dtype)]


convert = Codec("stablehlo.convert", _encode_convert, {"stablehlo.convert": _decode_convert})


def _decode_bitcast(d: Any, op: HloOp) -> Sequence[Any]:
    x, to = d.value(op.operands[0]), op.results[0].dtype
    if x.dtype is to:
        return [x]
    return [d.b.op("bitcast_convert" if x.dtype.bits == to.bits else "bitcast_regroup", x, dtype=to)]


bitcast_convert = Codec(
    "stablehlo.bitcast_convert", encode_as("stablehlo.bitcast_convert"), {"stablehlo.bitcast_convert": _decode_bitcast}
)


def _encode_regroup(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    if e.for_xla and not all(isinstance(d, int) for v in (*op.operands, *op.results) for d in v.type.shape):
        raise NotYetError(
            "bits as numbers of another width, of an array with symbolic sizes, have no form that XLA can refine.",
            loc=op.loc, remedy="give the array sizes that are numbers.",
        )  # fmt: skip
    return encode_as("stablehlo.bitcast_convert")(e, op, operands)


#: The same operation, which is read by the codec above.
bitcast_regroup = Codec("stablehlo.bitcast_convert", _encode_regroup)


def _encode_map(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    return e.ops(
        "stablehlo.map", operands, [HloType.of(op.result.type)], [e.region(op.regions[0])],
        dimensions=tuple(range(len(op.result.shape))),
    )  # fmt: skip


def _decode_map(d: Any, op: HloOp) -> Sequence[Any]:
    body = d.scalar_region(op.regions[0])
    return d.b.op_all("map", *(d.value(v) for v in op.operands), regions=(body,))


map_ = Codec("stablehlo.map", _encode_map, {"stablehlo.map": _decode_map})


# --- complex numbers --------------------------------------------------------------------------------------------------


def _decode_real(d: Any, op: HloOp) -> Sequence[Any]:
    x = d.value(op.operands[0])
    return [d.b.op("real", x) if x.dtype.kind is Kind.COMPLEX else x]


def _decode_imag(d: Any, op: HloOp) -> Sequence[Any]:
    x = d.value(op.operands[0])
    return [d.b.op("imag", x) if x.dtype.kind is Kind.COMPLEX else _like(d.b, 0, x)]


complex_ = twin("complex")
real = Codec("stablehlo.real", encode_as("stablehlo.real"), {"stablehlo.real": _decode_real})
imag = Codec("stablehlo.imag", encode_as("stablehlo.imag"), {"stablehlo.imag": _decode_imag})


# --- what StableHLO has no words for ----------------------------------------------------------------------------------


def custom(name: str, *, dtype: bool = False) -> Codec:
    """The custom call ``dyn.<name>``: others cannot run it, and it is read again. ``dtype``: an attribute says it."""
    target = f"dyn.{name}"

    def encode(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
        config = {key: value for key, value in op.attrs.items() if not isinstance(value, DType)}
        types = [HloType.of(v.type) for v in op.results]
        return e.ops(
            "stablehlo.custom_call", operands, types, call_target_name=target, api_version=HloInt(4),
            backend_config=config,
        )  # fmt: skip

    def decode(d: Any, op: HloOp) -> Sequence[Any]:
        attrs = dict(op.attrs.get("backend_config", {}))
        if dtype:
            attrs["dtype"] = op.results[0].dtype
        return d.b.op_all(name, *(d.value(v) for v in op.operands), **attrs)

    return Codec(f"custom_call: {target}", encode, {f"custom_call.{target}": decode})
