"""Pads by elements of the array itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dyn.numpy as dnp
from dyn.interop.torch.aten.tables import converts, kept_order
from dyn.trace.tracer import Tracer
from dyn.transforms import vjp


def _replicated(a: Tracer, padding: Sequence[Any], rank: int) -> Tracer:
    """The last axes with their first and last elements repeated: widths before and after, of the last axis first."""
    for number in range(rank):
        axis, low, high = a.ndim - 1 - number, padding[2 * number], padding[2 * number + 1]
        size = a.shape[axis]
        places = dnp.clip(dnp.arange(size + low + high) - low, 0, size - 1)
        a = dnp.take(a, places, axis=axis)
    return a


def _replication_pad(rank: int) -> None:
    @converts(f"replication_pad{rank}d_backward.default", order=lambda args, kwargs: kept_order(args[1:], {}))
    def backward(cotangent: Tracer, a: Tracer, padding: Sequence[Any]) -> Tracer:
        return vjp(lambda a: _replicated(a, padding, rank), a)[1](cotangent)[0]


for _rank in (1, 2, 3):
    _replication_pad(_rank)
