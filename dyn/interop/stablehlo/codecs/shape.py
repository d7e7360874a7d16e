"""Codecs of the ops that move elements about, and of those that make them of nothing.

Where a size is symbolic the dynamic form is written, whose sizes are operands; both are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn import dtypes
from dyn.interop.stablehlo.codecs.elementwise import decode_as
from dyn.interop.stablehlo.hlo import Codec, HloOp, HloType, HloValue, is_static
from dyn.ir.core import Dense
from dyn.shapes import RelKind, SymExpr
from dyn.shapes import broadcast as broadcast_dims

# --- views ------------------------------------------------------------------------------------------------------------


def _encode_broadcast(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    return [e.spread(operands[0], HloType.of(op.result.type), op.attrs["dims"])]


def _broadcast(d: Any, x: Any, shape: tuple[Any, ...], dims: tuple[int, ...]) -> Any:
    """dyn's has its axes in order."""
    order = sorted(range(len(dims)), key=lambda i: dims[i])
    if order != list(range(len(dims))):
        x = d.b.op("transpose", x, permutation=tuple(order))
    return d.b.op("broadcast_in_dim", x, shape=shape, dims=tuple(sorted(dims)))


def _decode_broadcast(d: Any, op: HloOp) -> Sequence[Any]:
    shape = op.results[0].shape
    if not is_static(shape):
        d.fail("has sizes that are not known", "dynamic_broadcast_in_dim has its sizes as an operand.")
    return [_broadcast(d, d.value(op.operands[0]), shape, op.attrs["broadcast_dimensions"])]


def _decode_dynamic_broadcast(d: Any, op: HloOp) -> Sequence[Any]:
    """An axis is as long as its target, or 1: which of these may be known when the program runs, or said here."""
    x, shape, dims = d.value(op.operands[0]), d.dims(op.operands[1]), op.attrs["broadcast_dimensions"]
    for axis, target in enumerate(dims):
        size, wanted = x.shape[axis], shape[target]
        if axis in op.attrs.get("known_expanding_dimensions", ()):
            d.demand(RelKind.EQ, size, 1, f"{op.name} expands axis {axis}")
        elif axis in op.attrs.get("known_nonexpanding_dimensions", ()):
            d.demand(RelKind.EQ, size, wanted, f"{op.name} does not expand axis {axis}")
        elif isinstance(size, SymExpr) and not d.b.facts.eq(size, wanted).proved:
            text = f"axis {axis} is broadcast to axis {target}"
            d.demand(RelKind.BROADCASTS, size, wanted, text)
            d.demand(RelKind.EQ, broadcast_dims(size, wanted), wanted, text)
    return [_broadcast(d, x, shape, dims)]


broadcast_in_dim = Codec(
    "stablehlo.broadcast_in_dim, dynamic_broadcast_in_dim",
    _encode_broadcast,
    {
        "stablehlo.broadcast_in_dim": _decode_broadcast,
        "stablehlo.dynamic_broadcast_in_dim": _decode_dynamic_broadcast,
    },
)


def _encode_reshape(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    return [e.reshaped(operands[0], op.attrs["shape"])]


def _decode_reshape(d: Any, op: HloOp) -> Sequence[Any]:
    x, shape = d.value(op.operands[0]), op.results[0].shape
    if not is_static(shape):
        d.fail("has sizes that are not known", "dynamic_reshape has its sizes as an operand.")
    return [d.b.op("reshape", x, shape=shape)]


def _decode_dynamic_reshape(d: Any, op: HloOp) -> Sequence[Any]:
    return [d.b.op("reshape", d.value(op.operands[0]), shape=d.dims(op.operands[1]))]


reshape = Codec(
    "stablehlo.reshape, dynamic_reshape",
    _encode_reshape,
    {"stablehlo.reshape": _decode_reshape, "stablehlo.dynamic_reshape": _decode_dynamic_reshape},
)


def _encode_transpose(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    return [
        e.op("stablehlo.transpose", *operands, type=HloType.of(op.result.type), permutation=op.attrs["permutation"])
    ]


transpose = Codec(
    "stablehlo.transpose", _encode_transpose, {"stablehlo.transpose": decode_as("transpose", "permutation")}
)


def _encode_slice(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    numbers = (op.attrs[name] for name in ("start", "limit", "strides"))
    return [e.sliced(*operands, *numbers, HloType.of(op.result.type))]


def _decode_slice(d: Any, op: HloOp) -> Sequence[Any]:
    start, limit, strides = (op.attrs[name] for name in ("start_indices", "limit_indices", "strides"))
    return [d.b.op("slice", d.value(op.operands[0]), start=start, limit=limit, strides=strides)]


def _decode_dynamic_slice(d: Any, op: HloOp) -> Sequence[Any]:
    """Between sizes; or a window of known sizes, from where data say, to there and its sizes."""
    x = d.value(op.operands[0])
    if all(d.known(v) is not None for v in op.operands[1:]):
        start, limit, strides = (d.dims(v) for v in op.operands[1:])
        return [d.b.op("slice", x, start=start, limit=limit, strides=strides)]
    sizes = d.difference(op.operands[2], op.operands[1])
    strides = d.dims(op.operands[3])
    if sizes is None or any(s != 1 for s in strides):  # how far is a size that data say
        start, limit = d.dims(op.operands[1]), d.dims(op.operands[2])
        return [d.b.op("slice", x, start=start, limit=limit, strides=strides)]
    starts = _components(d, op.operands[1], len(sizes))
    return [d.b.op("dynamic_slice", x, *starts, slice_sizes=sizes)]


def _components(d: Any, value: HloValue, count: int) -> list[Any]:
    """The elements of a vector as scalars."""
    vector = d.value(value)
    parts = [d.b.op("slice", vector, start=(i,), limit=(i + 1,), strides=(1,)) for i in range(count)]
    return [d.b.op("reshape", part, shape=()) for part in parts]


slice_ = Codec(
    "stablehlo.slice, real_dynamic_slice",
    _encode_slice,
    {"stablehlo.slice": _decode_slice, "stablehlo.real_dynamic_slice": _decode_dynamic_slice},
)


def _encode_reverse(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    return [e.op("stablehlo.reverse", *operands, dimensions=op.attrs["dimensions"])]


reverse = Codec("stablehlo.reverse", _encode_reverse, {"stablehlo.reverse": decode_as("reverse", "dimensions")})


def _encode_concatenate(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    return [e.op("stablehlo.concatenate", *operands, type=HloType.of(op.result.type), dimension=op.attrs["dimension"])]


concatenate = Codec(
    "stablehlo.concatenate", _encode_concatenate, {"stablehlo.concatenate": decode_as("concatenate", "dimension")}
)


# --- pad --------------------------------------------------------------------------------------------------------------

_PADDING = ("edge_padding_low", "edge_padding_high", "interior_padding")


def _encode_pad(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    return [e.padded(*operands, [op.attrs[name] for name in _PADDING], HloType.of(op.result.type))]


def _decode_dynamic_pad(d: Any, op: HloOp) -> Sequence[Any]:
    x, value = (d.value(v) for v in op.operands[:2])
    paddings = (d.dims(v) for v in op.operands[2:])
    return [d.b.op("pad", x, value, **dict(zip(_PADDING, paddings, strict=True)))]


pad = Codec(
    "stablehlo.pad, dynamic_pad",
    _encode_pad,
    {"stablehlo.pad": decode_as("pad", *_PADDING), "stablehlo.dynamic_pad": _decode_dynamic_pad},
)


# --- makers -----------------------------------------------------------------------------------------------------------


def _encode_constant(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    dense = op.attrs["value"]
    if dense.is_splat:
        return [e.full(dense.element, HloType.of(op.result.type))]
    return [e.constant(dense.array)]


def _decode_constant(d: Any, op: HloOp) -> Sequence[Any]:
    return [d.b.op("constant", value=Dense(op.attrs["value"]))]


constant = Codec("stablehlo.constant", _encode_constant, {"stablehlo.constant": _decode_constant})


def _encode_iota(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    """Numbers and complex numbers; of bools, whether the place is not 0."""
    shape, dimension, dtype = op.attrs["shape"], op.attrs["dimension"], op.attrs["dtype"]
    own = dtypes.int32 if dtype is dtypes.bool_ else dtype
    type = HloType(own, shape)
    if is_static(shape):
        made = e.op("stablehlo.iota", type=type, iota_dimension=dimension)
    else:
        made = e.op("stablehlo.dynamic_iota", e.dims(shape), type=type, iota_dimension=dimension)
    return [made if own is dtype else e.op("stablehlo.convert", made, type=HloType(dtype, shape))]


def _iota(d: Any, op: HloOp, shape: tuple[Any, ...]) -> Sequence[Any]:
    return [d.b.op("iota", shape=shape, dimension=op.attrs["iota_dimension"], dtype=op.results[0].dtype)]


iota = Codec(
    "stablehlo.iota, dynamic_iota",
    _encode_iota,
    {
        "stablehlo.iota": lambda d, op: _iota(d, op, op.results[0].shape),
        "stablehlo.dynamic_iota": lambda d, op: _iota(d, op, d.dims(op.operands[0])),
    },
)


def _converted(e: Any, value: HloValue, type: HloType) -> HloValue:
    return value if value.dtype is type.dtype else e.op("stablehlo.convert", value, type=type)


def _encode_dim_size(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    return [_converted(e, e.dim(op.attrs["size"]), HloType.of(op.result.type))]


dim_size = Codec("decomposed: get_dimension_size and arithmetic", _encode_dim_size)


def _encode_size(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    size = op.operands[0].shape[op.attrs["dimension"]]
    return [_converted(e, e.dim(size), HloType.of(op.result.type))]


def _decode_size(d: Any, op: HloOp) -> Sequence[Any]:
    size = d.value(op.operands[0]).shape[op.attrs["dimension"]]
    made = d.b.op("dim_size", size=size, dtype=dtypes.int32)
    return [d.b.op("convert", made, dtype=dtypes.int32)]


get_dimension_size = Codec("stablehlo.get_dimension_size", _encode_size, {"stablehlo.get_dimension_size": _decode_size})
