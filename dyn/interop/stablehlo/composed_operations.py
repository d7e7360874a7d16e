"""Operations that are no op of dyn's, and are read as several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dyn.interop.stablehlo.custom_calls import CUSTOM_CALLS
from dyn.interop.stablehlo.hlo import DecodeRule, HloOp
from dyn.ir.core import Dense


def _broadcast(d: Any, op: HloOp) -> Sequence[Any]:
    """``stablehlo.broadcast``: new axes in front."""
    x, sizes = d.value(op.operands[0]), op.attrs["broadcast_sizes"]
    rank = len(sizes)
    dims = tuple(range(rank, rank + len(x.shape)))
    return [d.b.op("broadcast_in_dim", x, shape=(*sizes, *x.shape), dims=dims)]


def _number_of(count: str) -> DecodeRule:
    """The number of this process among those that run a program: there is one, and the module is for so many."""

    def rule(d: Any, op: HloOp) -> Sequence[Any]:
        wanted = d.module.attrs.get(count, 1)
        if wanted != 1:
            d.fail(f"tells {wanted} processes apart ({count})", "export the program for one device.")
        return [d.b.op("constant", value=Dense(np.zeros((), np.uint32)))]

    return rule


def _same(d: Any, op: HloOp) -> Sequence[Any]:
    """The array itself: its place among the devices says nothing of its elements."""
    return [d.value(op.operands[0])]


EXTRA: Mapping[str, DecodeRule] = {
    "stablehlo.broadcast": _broadcast,
    "stablehlo.partition_id": _number_of("mhlo.num_partitions"),
    "stablehlo.replica_id": _number_of("mhlo.num_replicas"),
    "sdy.sharding_constraint": _same,
    **{f"custom_call.{name}": rule for name, rule in CUSTOM_CALLS.items()},
}
