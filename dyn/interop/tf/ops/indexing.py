"""Operations that take and change elements by their places."""

from __future__ import annotations

from typing import Any

import dyn.numpy as dnp
from dyn import lax, nn
from dyn.interop.tf.ops.shapes import subscript
from dyn.interop.tf.tables import Data, converts, rank_of, takes_call
from dyn.interop.tf.values import known_dtype
from dyn.transforms import vjp


@converts("GatherV2", numbers=(2,))
def gather(a: Data, indices: Data, axis: Any, *, batch_dims: int = 0) -> Any:
    rank = rank_of(a)
    axis, batch_dims = int(axis) % rank, batch_dims % rank if batch_dims < 0 else batch_dims
    if not batch_dims:
        return dnp.take(a, indices, axis=axis)
    lead = a.shape[:batch_dims]
    grids = [
        dnp.reshape(lax.broadcasted_iota("int64", lead, n), (*lead, *[1] * (rank_of(indices) - batch_dims)))
        for n in range(batch_dims)
    ]
    moved = dnp.moveaxis(a, axis, batch_dims)
    taken = moved[(*grids, indices)]
    # The axes between are those that were before the one that is taken from.
    count = rank_of(indices) - batch_dims
    order = list(range(rank_of(taken)))
    picked, between = order[batch_dims : batch_dims + count], order[batch_dims + count : count + axis]
    return dnp.transpose(taken, [*order[:batch_dims], *between, *picked, *order[count + axis :]])


@converts("Gather", "ResourceGather")
def gather_rows(a: Data, indices: Data) -> Any:
    return dnp.take(a, indices, axis=0)


def parts_of(indices: Data) -> tuple[Any, ...]:
    """The places that the last axis of an index has, one array for each."""
    depth = indices._trace.facts.simplify(indices.dims[-1])
    assert isinstance(depth, int), "an index of an unknown number of axes"
    return tuple([indices[..., n] for n in range(depth)])


@converts("GatherNd")
def gather_nd(a: Data, indices: Data) -> Any:
    parts = parts_of(indices)
    return a[parts] if parts else dnp.broadcast_to(a, (*indices.shape[:-1], *a.shape))


@converts("ScatterNd", sizes=(2,))
def scatter_nd(indices: Data, updates: Data, shape: Any) -> Any:
    if updates.dtype.kind == "b":
        return scatter_nd(indices, updates.astype("int32"), shape) != 0
    return dnp.zeros(tuple(shape), dtype=updates.dtype).at[parts_of(indices)].add(updates)


def _tensor_scatter(name: str, method: str) -> None:
    @converts(name)
    def scatter(a: Data, indices: Data, updates: Data) -> Any:
        return getattr(a.at[parts_of(indices)], method)(updates)


for _name, _method in {
    "TensorScatterUpdate": "set", "TensorScatterAdd": "add", "TensorScatterMax": "max", "TensorScatterMin": "min",
}.items():  # fmt: skip
    _tensor_scatter(_name, _method)


@takes_call("StridedSliceGrad")
def strided_slice_grad(call: Any) -> Any:
    cotangent = call.value(4)
    zeros = dnp.zeros(tuple(call.sizes(0)), dtype=cotangent.dtype)
    index = subscript(call)
    return vjp(lambda a: a[index], zeros)[1](cotangent)[0]


@takes_call("TensorStridedSliceUpdate")
def strided_slice_update(call: Any) -> Any:
    return call.value(0).at[subscript(call)].set(call.value(4))


@converts("OneHot", sizes=(1,), numbers=())
def one_hot(indices: Data, depth: Any, on: Data, off: Data, *, axis: int = -1) -> Any:
    return dnp.where(nn.one_hot(indices, depth, dtype="bool", axis=axis), on, off)


@converts("Where")
def where(condition: Data) -> Any:
    if condition.dtype.kind != "b":
        condition = condition != 0
    return dnp.argwhere(condition).astype("int64")


def _segments(name: str, method: str, nothing: Any) -> None:
    @converts(name, sizes=(2,))
    def segment(data: Data, segments: Data, count: Any) -> Any:
        """Rows with a number below 0 are left out."""
        flat = dnp.reshape(segments, (-1,))
        rows = dnp.reshape(data, (flat.shape[0], *data.shape[rank_of(segments) :]))
        start = nothing(rows.dtype)
        places = dnp.where(flat < 0, count, flat)
        made = dnp.full((count + 1, *rows.shape[1:]), start, dtype=rows.dtype)
        return getattr(made.at[places], method)(rows)[:count]


_segments("UnsortedSegmentSum", "add", lambda dtype: 0)
_segments("UnsortedSegmentProd", "multiply", lambda dtype: 1)
_segments(
    "UnsortedSegmentMax", "max", lambda dtype: dnp.finfo(dtype).min if dtype.kind == "f" else dnp.iinfo(dtype).min
)
_segments(
    "UnsortedSegmentMin", "min", lambda dtype: dnp.finfo(dtype).max if dtype.kind == "f" else dnp.iinfo(dtype).max
)


@converts("Bincount", "DenseBincount", sizes=(1,))
def bincount(indices: Data, size: Any, weights: Data, *, binary_output: bool = False) -> Any:
    flat = dnp.reshape(indices, (-1,))
    inside = (flat >= 0) & (flat < size)
    given = dnp.ones(flat.shape, dtype=weights.dtype) if weights.dims == (0,) else dnp.reshape(weights, (-1,))
    made = dnp.zeros((size + 1,), dtype=weights.dtype).at[dnp.where(inside, flat, size)].add(given)[:size]
    return (made != 0).astype(made.dtype) if binary_output else made


@converts("Unique", "UniqueV2")
def unique(a: Data, *rest: Data, out_idx: str = "int32") -> Any:
    """The values in the order in which they are first met, and for each element the number of its value."""
    values, first, inverse = dnp.unique(a, return_index=True, return_inverse=True)
    order = dnp.argsort(first)
    numbers = dnp.argsort(order)
    return [values[order], dnp.take(numbers, inverse).astype(known_dtype(out_idx).np)]
