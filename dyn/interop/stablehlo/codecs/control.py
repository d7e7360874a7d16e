"""Codecs of loops and choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dyn import dtypes
from dyn.interop.stablehlo.codecs.indexing import window_at
from dyn.interop.stablehlo.hlo import Codec, HloOp, HloType, HloValue
from dyn.ir.core import Region, Value
from dyn.ir.types import TensorType
from dyn.shapes import RelKind
from dyn.trace.branch_sizes import Unequal
from dyn.trace.control import choice


def _plain(value: Value) -> TensorType:
    return TensorType(value.dtype, value.shape)


def _cast(e: Any, values: Sequence[HloValue], types: Sequence[HloType]) -> list[HloValue]:
    """Values of types that are equal, as far as is known, as values of these very types."""
    return [e.cast(value, type) for value, type in zip(values, types, strict=True)]


def _strong(d: Any, value: Value) -> Value:
    """A loop's start value, which is never weak."""
    return d.b.op("convert", value, dtype=value.dtype) if value.type.weak else value


# --- while ------------------------------------------------------------------------------------------------------------


def _encode_while(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    types = [HloType.of(v.type) for v in op.results]
    condition, body = op.regions
    return e.ops(
        "stablehlo.while", _cast(e, operands, types), types,
        [
            e.block(types, lambda inner, params: inner.inlined(condition, params)),
            e.block(types, lambda inner, params: _cast(inner, inner.inlined(body, params), types)),
        ],
    )  # fmt: skip


def _decode_while(d: Any, op: HloOp) -> Sequence[Any]:
    """Read a loop. Values from around it that its regions read are carried unchanged."""
    starts = [_strong(d, d.value(v)) for v in op.operands]
    (condition, body), free = d.closed(op.regions, [_plain(v) for v in starts])
    handed = body.params[len(starts) :]
    body = replace(body, results=(*body.results, *handed))
    made = d.b.op_all("while", *starts, *free, regions=(condition, body))
    return made[: len(starts)]


while_ = Codec("stablehlo.while", _encode_while, {"stablehlo.while": _decode_while})


# --- scan -------------------------------------------------------------------------------------------------------------


def _row(e: Any, x: HloValue, place: HloValue) -> HloValue:
    """``x[place]``"""
    shape: Any = x.shape
    zero = e.constant(0, dtypes.int64)
    made = window_at(e, x, [place, *(zero for _ in shape[1:])], (1, *shape[1:]))
    return e.reshaped(made, shape[1:])


def _with_row(e: Any, x: HloValue, place: HloValue, row: HloValue) -> HloValue:
    shape: Any = x.shape
    zero = e.constant(0, dtypes.int64)
    update = e.reshaped(row, (1, *shape[1:]))
    return e.op("stablehlo.dynamic_update_slice", x, update, place, *(zero for _ in shape[1:]))


def _encode_scan(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    """A while loop that counts, reads a row of each array and writes a row of each result."""
    count, length = op.attrs["carries"], op.attrs["length"]
    arrays = operands[count:]
    if length == 0:  # there is no row, and StableHLO does not allow to read one
        return [*operands[:count], *(e.full(0, HloType.of(v.type)) for v in op.results[count:])]
    made = [HloType.of(v.type) for v in op.results[count:]]
    counter = HloType(dtypes.int64, ())
    carried = [HloType.of(v.type) for v in op.results[:count]]
    types = [counter, *carried, *made]
    steps = e.dim(length)

    def goes_on(inner: Any, params: tuple[HloValue, ...]) -> Sequence[HloValue]:
        return [inner.op("stablehlo.compare", params[0], steps, type=inner.truth, **inner.direction("LT", "SIGNED"))]

    def step(inner: Any, params: tuple[HloValue, ...]) -> Sequence[HloValue]:
        number, state, rows = params[0], params[1 : 1 + count], params[1 + count :]
        one, place = inner.constant(1, dtypes.int64), number
        if op.attrs["reverse"]:
            last = inner.op("stablehlo.subtract", steps, one)
            place = inner.op("stablehlo.subtract", last, number)
        results = inner.inlined(op.regions[0], [*state, *(_row(inner, x, place) for x in arrays)])
        written = [_with_row(inner, x, place, row) for x, row in zip(rows, results[count:], strict=True)]
        return [inner.op("stablehlo.add", number, one), *_cast(inner, results[:count], carried), *written]

    starts = [e.constant(0, dtypes.int64), *_cast(e, operands[:count], carried), *(e.full(0, type) for type in made)]
    results = e.ops("stablehlo.while", starts, types, [e.block(types, goes_on), e.block(types, step)])
    return results[1:]


def _decode_chlo_scan(d: Any, op: HloOp) -> Sequence[Any]:
    """CHLO's takes rows along any axis, and gives them before what it carries. Order is all that it knows."""
    axis, backward, _ = op.attrs["dimension"], op.attrs.get("is_reverse", False), op.attrs.get("is_associative")
    (count, _), (made, _) = (op.attrs[f"{kind}SegmentSizes"] for kind in ("operand", "result"))
    arrays = [_axis_first(d, d.value(v), axis) for v in op.operands[:count]]
    starts = [_strong(d, d.value(v)) for v in op.operands[count:]]
    length = arrays[0].shape[0] if arrays else op.attrs["scan_dim_size"]
    said = op.attrs.get("scan_dim_size")
    if said is not None:
        d.demand(RelKind.EQ, length, said, f"{op.name} takes {said} steps")
    types = [*[TensorType(x.dtype, x.shape[1:]) for x in arrays], *[_plain(v) for v in starts]]
    (body,), free = d.closed(op.regions, types)
    rows, carried, around = body.params[:count], body.params[count : len(types)], body.params[len(types) :]
    results = (*body.results[made:], *around, *body.results[:made])
    body = replace(body, params=(*carried, *around, *rows), results=results)
    state = [*starts, *free]
    given = d.b.op_all(
        "scan", *state, *arrays, regions=(body,), carries=len(state), length=length, reverse=bool(backward)
    )
    return [*[_axis_back(d, v, axis) for v in given[len(state) :]], *given[: len(starts)]]


def _axis_first(d: Any, x: Value, axis: int) -> Value:
    order = (axis, *(a for a in range(len(x.shape)) if a != axis))
    return _strong(d, x if axis == 0 else d.b.op("transpose", x, permutation=order))


def _axis_back(d: Any, x: Value, axis: int) -> Value:
    order = (*range(1, axis + 1), 0, *range(axis + 1, len(x.shape)))
    return x if axis == 0 else d.b.op("transpose", x, permutation=order)


scan = Codec("decomposed: while", _encode_scan, {"chlo.scan": _decode_chlo_scan})


# --- choices ----------------------------------------------------------------------------------------------------------


def _choice(name: str, own: str) -> Codec:
    """StableHLO's branches take nothing: they use what is around them. Sizes that are ``?`` may differ."""

    def encode(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
        chosen, *given = operands
        types = [HloType.of(v.type) for v in op.results]
        regions = [
            e.block([], lambda inner, params, region=region: _cast(inner, inner.inlined(region, given), types))
            for region in op.regions
        ]
        return e.ops(name, [chosen], types, regions)

    def decode(d: Any, op: HloOp) -> Sequence[Any]:
        chosen = _strong(d, d.value(op.operands[0]))
        regions, free = d.closed(op.regions, [])

        def choose(branches: Sequence[Region]) -> Sequence[Value]:
            return d.b.op_all(own, chosen, *free, regions=tuple(branches))

        names = [f"result {number}" for number in range(len(op.results))]
        return choice(d.block.trace, regions, names, name, Unequal.MEASURED, choose)

    return Codec(name, encode, {name: decode})


if_ = _choice("stablehlo.if", "if")
case = _choice("stablehlo.case", "case")
