"""Operations that are no op of dyn's, and are read as several; composites and custom calls that others emit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.ir.core import Dense
from dyn.ir.hlo import DecodeRule, HloOp
from dyn.ops.codecs.elementwise import total_order


def _broadcast(d: Any, op: HloOp) -> Sequence[Any]:
    """``stablehlo.broadcast``: new axes in front."""
    x, sizes = d.value(op.operands[0]), op.attrs["broadcast_sizes"]
    rank = len(sizes)
    dims = tuple(range(rank, rank + len(x.shape)))
    return [d.b.op("broadcast_in_dim", x, shape=(*sizes, *x.shape), dims=dims)]


def _zero(d: Any, op: HloOp) -> Sequence[Any]:
    """The number of this process among those that run a program: there is one."""
    return [d.b.op("constant", value=Dense(np.zeros((), np.uint32)))]


def _first(d: Any, op: HloOp) -> Sequence[Any]:
    return [d.value(op.operands[0])]


def _top_k(d: Any, x: Any, k: Any) -> Sequence[Any]:
    """The greatest elements of the last axis and where they stand, the first of equal ones first.

    Floats are in IEEE 754's total order, as XLA has them: NaN is greatest, and least where its sign is set.
    """
    axis = len(x.shape) - 1
    key = total_order(d.b, x) if x.dtype.is_float else x
    places = d.b.op("iota", shape=x.shape, dimension=axis, dtype=dtypes.int32)
    _, *ordered = d.b.op_all("sort", key, x, places, dimension=axis, descending=True)
    limit, ones = (*x.shape[:-1], k), (1,) * len(x.shape)
    return [d.b.op("slice", v, start=(0,) * len(x.shape), limit=limit, strides=ones) for v in ordered]


def _chlo_top_k(d: Any, op: HloOp) -> Sequence[Any]:
    return _top_k(d, d.value(op.operands[0]), op.attrs["k"])


def _dynamic_top_k(d: Any, op: HloOp) -> Sequence[Any]:
    return _top_k(d, d.value(op.operands[0]), d.dims(op.operands[1])[0])


def _composite_top_k(d: Any, op: HloOp) -> Sequence[Any]:
    return _top_k(d, d.value(op.operands[0]), op.attrs["composite_attributes"]["k"])


def _unary(name: str) -> DecodeRule:
    return lambda d, op: [d.b.op(name, d.value(op.operands[0]))]


EXTRA: Mapping[str, DecodeRule] = {
    "stablehlo.broadcast": _broadcast,
    "stablehlo.partition_id": _zero,
    "stablehlo.replica_id": _zero,
    "chlo.top_k": _chlo_top_k,
    "composite.chlo.erf": _unary("erf"),
    "composite.chlo.erf_inv": _unary("erf_inv"),
    "composite.chlo.top_k": _composite_top_k,
    "custom_call.stablehlo.dynamic_top_k": _dynamic_top_k,
    "custom_call.Sharding": _first,
    "custom_call.annotate_device_placement": _first,
}
