"""Codecs of sorts, and of the greatest elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.interop.stablehlo.hlo import Codec, HloOp, HloType, HloValue

# --- sort, sort_by ----------------------------------------------------------------------------------------------------


def _canonical(e: Any, x: HloValue) -> HloValue:
    """A float whose place in IEEE 754's total order is its place in ours: there is one zero, and one NaN, the last."""

    def replaced(other: HloValue, value: float, direction: str) -> HloValue:
        found = e.op("stablehlo.compare", x, other, type=e.truth, **e.direction(direction, "FLOAT"))
        return e.op("stablehlo.select", found, e.constant(value, x.dtype), x, type=x.type)

    x = replaced(e.constant(0, x.dtype), 0.0, "EQ")
    return replaced(x, np.nan, "NE")


def _encode_sort(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    """Numbers by size, and NaN after all of them; of what is equal in one key by the next."""
    count = op.attrs.get("num_keys", 1)

    def before(inner: Any, params: tuple[HloValue, ...]) -> Sequence[HloValue]:
        result: HloValue | None = None
        for number in reversed(range(count)):
            pair = params[2 * number : 2 * number + 2]
            kind = pair[0].dtype.kind
            sort = "TOTALORDER" if kind is Kind.FLOAT else "SIGNED" if kind is Kind.INT else "UNSIGNED"
            sides = [_canonical(inner, v) for v in pair] if kind is Kind.FLOAT else list(pair)
            a, b = reversed(sides) if op.attrs["descending"] else sides
            less = inner.op("stablehlo.compare", a, b, type=inner.truth, **inner.direction("LT", sort))
            if result is not None:
                equal = inner.op("stablehlo.compare", a, b, type=inner.truth, **inner.direction("EQ", sort))
                less = inner.op("stablehlo.or", less, inner.op("stablehlo.and", equal, result))
            result = less
        assert result is not None
        return [result]

    return _sorted(e, op, operands, e.block(_pairs(operands), before), is_stable=True)


def _pairs(operands: Sequence[HloValue]) -> list[HloType]:
    """Types of a comparator's arguments: of each operand an element on the left and one on the right."""
    return [HloType(v.dtype, ()) for v in operands for _ in range(2)]


def _sorted(
    e: Any, op: Any, operands: tuple[HloValue, ...], comparator: Any, *, is_stable: bool
) -> tuple[HloValue, ...]:
    return e.ops(
        "stablehlo.sort", operands, [HloType.of(v.type) for v in op.results], [comparator],
        dimension=op.attrs["dimension"], is_stable=is_stable,
    )  # fmt: skip


def _encode_sort_by(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    return _sorted(e, op, operands, e.region(op.regions[0]), is_stable=op.attrs["is_stable"])


def _decode_sort(d: Any, op: HloOp) -> Sequence[Any]:
    rank = len(op.results[0].shape)
    return d.b.op_all(
        "sort_by", *(d.value(v) for v in op.operands), regions=(d.scalar_region(op.regions[0]),),
        dimension=op.attrs.get("dimension", -1) % rank, is_stable=op.attrs.get("is_stable", False),
    )  # fmt: skip


#: It is read as ``sort_by``, which finds the keys again that its comparator is made of.
sort = Codec("stablehlo.sort", _encode_sort)
sort_by = Codec("stablehlo.sort", _encode_sort_by, {"stablehlo.sort": _decode_sort})


# --- top_k ------------------------------------------------------------------------------------------------------------


def _encode_top_k(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    """Along the last axis; with a symbolic ``k`` the custom call that JAX's exports have. Bools are small numbers."""
    (x,), axis, k = operands, op.attrs["dimension"], op.attrs["k"]
    rank, own = len(op.results[0].shape), x.dtype
    if own is dtypes.bool_:
        x = e.op("stablehlo.convert", x, type=HloType(dtypes.uint8, x.shape))
    order = (*(a for a in range(rank) if a != axis), axis)
    last = axis == rank - 1
    x = x if last else _transposed(e, x, order)
    types = [HloType(d, (*x.shape[:-1], k)) for d in (x.dtype, dtypes.int32)]
    if isinstance(k, int):
        made = e.ops("chlo.top_k", [x], types, k=k)
    else:
        made = e.ops("stablehlo.custom_call", [x, e.dim(k)], types, call_target_name="stablehlo.dynamic_top_k")
    back = tuple([order.index(a) for a in range(rank)])
    values, places = made if last else [_transposed(e, v, back) for v in made]
    if own is dtypes.bool_:
        values = e.op("stablehlo.convert", values, type=HloType(own, values.shape))
    return [values, places]


def _transposed(e: Any, x: HloValue, order: tuple[int, ...]) -> HloValue:
    type = HloType(x.dtype, tuple([x.shape[a] for a in order]))
    return e.op("stablehlo.transpose", x, type=type, permutation=order)


def _top_k(d: Any, op: HloOp, k: Any) -> Sequence[Any]:
    x = d.value(op.operands[0])
    return d.b.op_all("top_k", x, k=k, dimension=len(x.shape) - 1)


top_k = Codec(
    "chlo.top_k, dynamic_top_k",
    _encode_top_k,
    {
        "chlo.top_k": lambda d, op: _top_k(d, op, op.attrs["k"]),
        "composite.chlo.top_k": lambda d, op: _top_k(d, op, op.attrs["composite_attributes"]["k"]),
        "custom_call.stablehlo.dynamic_top_k": lambda d, op: _top_k(d, op, d.dims(op.operands[1])[0]),
    },
)
