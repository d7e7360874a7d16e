"""Operations that take and change elements by their places."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import lax, nn
from dyn.errors import ShapeError, UnsupportedOpError
from dyn.interop.converters import Data, rank_of
from dyn.interop.index_ranges import require_in_range
from dyn.interop.sizes import conditions
from dyn.interop.tf.converter_registry import converts, takes_call
from dyn.interop.tf.ops.assertions import refuse
from dyn.interop.tf.ops.pointwise import divide
from dyn.interop.tf.ops.shapes import MASKS, subscript
from dyn.interop.tf.values import known_dtype
from dyn.ir.core import Value
from dyn.shapes import Dim, free_symbols
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.data_dependent import dim_from_value, memoized_dim
from dyn.trace.dims import max_dim, wrap_dim
from dyn.transforms import vjp

ASKS_FOR_OTHERS = True


@converts("GatherV2", numbers=(2,))
def gather(a: Data, indices: Data, axis: Any, *, batch_dims: int = 0) -> Any:
    rank = rank_of(a)
    axis, batch_dims = int(axis) % rank, batch_dims + rank_of(indices) if batch_dims < 0 else batch_dims
    in_range(indices, a.shape[axis], axis)
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


@converts("Gather")
def gather_rows(a: Data, indices: Data) -> Any:
    return gather(a, indices, 0)


def in_range(indices: Data, size: Any, axis: int, form: str = "") -> Data:
    """Indices into an axis of ``size`` elements, which has to have all of them, as TensorFlow demands on processors.

    ``form`` is the text of the error, with the index and the size in its places ``{}``.

    Not in a branch or a loop: what is demanded there would end calls in which TensorFlow runs none of it.
    """
    if indices._trace.here.outer is None:
        require_in_range(indices, size, form or f"index {{}} is out of range for axis {axis}, of {{}} elements")
    return indices


def parts_in_range(indices: Data, shape: Sequence[Any]) -> tuple[Any, ...]:
    """The places that an index has, in the axes of ``shape`` from the first one on."""
    parts = parts_of(indices, len(shape))
    return tuple([in_range(part, size, axis) for axis, (part, size) in enumerate(zip(parts, shape, strict=False))])


def parts_of(indices: Data, rank: int) -> tuple[Any, ...]:
    """The places that the last axis of an index into ``rank`` axes has, one array for each.

    Of how many axes it has places is decided for the program: where that is open, by a guard.
    """
    trace, depth = indices._trace, indices._trace.facts.simplify(indices.dims[-1])
    if not isinstance(depth, int):
        depth = _decided(trace, depth, rank)
    return tuple([indices[..., n] for n in range(depth)])


def _decided(trace: Trace, depth: Dim, rank: int) -> int:
    """The number of axes, at most ``rank``, that an index is about in this call. Guarded."""
    if any(symbol.data_dependent for symbol in free_symbols(depth)):
        raise UnsupportedOpError("an index into a number of axes that the program computes.", loc=user_loc())
    for count in range(rank, -1, -1):
        is_count = conditions.Comparison.of("==", depth, count)
        if is_count.symbols() <= trace.sizes.keys() and not is_count.holds(trace.sizes):
            continue
        if conditions.decide(is_count, trace):
            return count
    raise ShapeError(f"an index into an array of {rank} axes is about more of them.", loc=user_loc())


def check_policy(policy: str) -> None:
    """Raise UnsupportedOpError for indices that TensorFlow is told to pass over where they are out of range."""
    if policy not in ("", "DEFAULT", "ERROR"):
        raise UnsupportedOpError(f"indices out of range by the policy {policy}.", loc=user_loc())


@converts("GatherNd")
def gather_nd(a: Data, indices: Data, *, bad_indices_policy: str = "") -> Any:
    check_policy(bad_indices_policy)
    parts = parts_in_range(indices, a.shape)
    return a[parts] if parts else dnp.broadcast_to(a, (*indices.shape[:-1], *a.shape))


@converts("ScatterNd", sizes=(2,))
def scatter_nd(indices: Data, updates: Data, shape: Any, *, bad_indices_policy: str = "") -> Any:
    check_policy(bad_indices_policy)
    if updates.dtype.kind == "b":
        return scatter_nd(indices, updates.astype("int32"), shape) != 0
    return dnp.zeros(tuple(shape), dtype=updates.dtype).at[parts_in_range(indices, tuple(shape))].add(updates)


def _tensor_scatter(name: str, method: str) -> None:
    @converts(name)
    def scatter(a: Data, indices: Data, updates: Data, *, bad_indices_policy: str = "") -> Any:
        check_policy(bad_indices_policy)
        return getattr(a.at[parts_in_range(indices, a.shape)], method)(updates)


for _name, _method in {
    "TensorScatterUpdate": "set", "TensorScatterAdd": "add", "TensorScatterMax": "max", "TensorScatterMin": "min",
}.items():  # fmt: skip
    _tensor_scatter(_name, _method)


@converts("TensorScatterSub")
def scatter_sub(a: Data, indices: Data, updates: Data, *, bad_indices_policy: str = "") -> Any:
    check_policy(bad_indices_policy)
    return a.at[parts_in_range(indices, a.shape)].add(-updates)


@takes_call("StridedSliceGrad", attrs=MASKS)
def strided_slice_grad(call: Any) -> Any:
    cotangent = call.value(4)
    zeros = dnp.zeros(tuple(call.sizes(0)), dtype=cotangent.dtype)
    index = subscript(call)
    return vjp(lambda a: a[index], zeros)[1](cotangent)[0]


@takes_call("TensorStridedSliceUpdate", attrs=MASKS)
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


def _lowest(dtype: Any) -> Any:
    return dnp.iinfo(dtype).min if dtype.kind in "iu" else dnp.finfo(dtype).min


def _highest(dtype: Any) -> Any:
    return dnp.iinfo(dtype).max if dtype.kind in "iu" else dnp.finfo(dtype).max


#: How rows of a segment are put together: a method of ``at``, what of no rows comes, and what gaps in sorted ones have.
_FOLDS: Mapping[str, tuple[str, Callable[[Any], Any], int]] = {
    "Sum": ("add", lambda dtype: 0, 0),
    "Prod": ("multiply", lambda dtype: 1, 1),
    "Max": ("max", _lowest, 0),
    "Min": ("min", _highest, 0),
}


def _segments(name: str) -> None:
    method, nothing, _ = _FOLDS[name]

    @converts(f"UnsortedSegment{name}", sizes=(2,))
    def segment(data: Data, segments: Data, count: Any) -> Any:
        """Rows with a number below 0 are left out."""
        flat = dnp.reshape(segments, (-1,))
        in_range(dnp.maximum(flat, 0), max_dim(count, 1), 0, "segment {} is out of range for {} of them")
        rows = dnp.reshape(data, (flat.shape[0], *data.shape[rank_of(segments) :]))
        start = nothing(rows.dtype)
        places = dnp.where(flat < 0, count, flat)
        made = dnp.full((count + 1, *rows.shape[1:]), start, dtype=rows.dtype)
        return getattr(made.at[places], method)(rows)[:count]


for _name in _FOLDS:
    _segments(_name)


@takes_call("Bincount", "DenseBincount", attrs=["binary_output"])
def bincount(call: Any) -> Any:
    """Counts of the numbers below a size, of a matrix in each of its rows; those above are left out."""
    indices, size, weights = call.value(0), call.sizes(1), call.value(2)
    refuse(call, dnp.any(indices < 0), "bincount of a number below 0", "count numbers that are not negative.")
    given = dnp.ones(indices.shape, dtype=weights.dtype) if weights.dims == (0,) else weights
    places = dnp.where((indices >= 0) & (indices < size), indices, size)
    if rank_of(indices) == 2:
        rows = lax.broadcasted_iota("int64", indices.shape, 0)
        made = dnp.zeros((indices.shape[0], size + 1), dtype=weights.dtype).at[rows, places].add(given)[:, :size]
    else:
        flat, given = dnp.reshape(places, (-1,)), dnp.reshape(given, (-1,))
        made = dnp.zeros((size + 1,), dtype=weights.dtype).at[flat].add(given)[:size]
    is_binary = call.attributes(["binary_output"]).get("binary_output")
    return (made != 0).astype(made.dtype) if is_binary else made


def _distinct(a: Data, axis: int | None, out_idx: str) -> list[Any]:
    """The slices of an axis that are distinct, in the order in which they are first met; for each slice the number of
    its value; and counts. A NaN is no other one."""
    along = None if rank_of(a) == 1 else axis
    values, first, inverse, counts = dnp.unique(
        a, return_index=True, return_inverse=True, return_counts=True, axis=along, equal_nan=False
    )
    order = dnp.argsort(first)
    numbers = dnp.argsort(order)
    wide = known_dtype(out_idx).np
    made = dnp.take(values, order, axis=along or 0)
    return [made, dnp.take(numbers, inverse).astype(wide), counts[order].astype(wide)]


def _axis_of(a: Data, axis: Any) -> int | None:
    """The axis that a vector says; None where it has none, which TensorFlow takes of vectors alone."""
    axes = [int(one) for one in axis.reshape(-1)]
    if len(axes) > 1 or (not axes and rank_of(a) != 1):
        raise ShapeError(f"distinct values along the axes {axes} of {rank_of(a)}.", loc=user_loc())
    return axes[0] % rank_of(a) if axes else None


@converts("Unique")
def unique(a: Data, *, out_idx: str = "int32") -> Any:
    return _distinct(a, None, out_idx)[:2]


@converts("UniqueV2", numbers=(1,))
def unique_along(a: Data, axis: Any, *, out_idx: str = "int32") -> Any:
    return _distinct(a, _axis_of(a, axis), out_idx)[:2]


@converts("UniqueWithCounts")
def unique_with_counts(a: Data, *, out_idx: str = "int32") -> Any:
    return _distinct(a, None, out_idx)


@converts("UniqueWithCountsV2", numbers=(1,))
def unique_with_counts_along(a: Data, axis: Any, *, out_idx: str = "int32") -> Any:
    return _distinct(a, _axis_of(a, axis), out_idx)


def _counted(numbers: Data, what: str) -> Any:
    """Number of things that are numbered so: the greatest, and 1. Numbers have to be at least 0."""
    trace = numbers._trace.here

    def make() -> tuple[Value, Dim]:
        most = dnp.max(numbers, initial=-1).astype("int64") + 1
        worst = dnp.where(dnp.min(numbers, initial=0) < 0, -1, most)
        origin = f"1 more than the greatest number of {what}, or -1 where one is below 0"
        return numbers._value, dim_from_value(trace, worst._value, what, origin)

    return wrap_dim(trace, memoized_dim(trace, ("counted", numbers._value), make)[1])


def segment_counts(segments: Data, count: Any) -> Any:
    """The number of rows of each of ``count`` segments."""
    return dnp.zeros((count,), dtype="int64").at[segments].add(1)


def _sorted_segments(name: str, fold: str, *, taken: bool = False, per: Callable[[Any], Any] | None = None) -> None:
    """Register a fold of rows whose numbers go up; ``taken`` from a table by their places, ``per`` their count."""
    method, nothing, gap = _FOLDS[fold]

    @converts(name)
    def segment(data: Data, *places: Data) -> Any:
        segments = places[-1]
        rows = gather_rows(data, places[0]) if taken else data
        count = _counted(segments, "segments")
        start = dnp.full((count, *rows.shape[1:]), nothing(rows.dtype), dtype=rows.dtype)
        made = getattr(start.at[segments], method)(rows)
        if fold == "Sum" and per is None:
            return made
        each = dnp.reshape(segment_counts(segments, count), (count, *[1] * (rank_of(rows) - 1)))
        if per is not None:
            wide = made.dtype if made.dtype == np.float64 else np.dtype("float32")
            return divide(made, per(dnp.maximum(each, 1).astype(wide)).astype(made.dtype))
        return dnp.where(each == 0, dnp.asarray(gap, dtype=made.dtype), made)


for _name in _FOLDS:
    _sorted_segments(f"Segment{_name}", _name)
_sorted_segments("SegmentMean", "Sum", per=lambda count: count)
_sorted_segments("SparseSegmentSum", "Sum", taken=True)
_sorted_segments("SparseSegmentMean", "Sum", taken=True, per=lambda count: count)
_sorted_segments("SparseSegmentSqrtN", "Sum", taken=True, per=dnp.sqrt)


@converts("DynamicPartition")
def dynamic_partition(data: Data, places: Data, *, num_partitions: int) -> Any:
    """The rows of each number, in their order."""
    flat = dnp.reshape(places, (-1,))
    in_range(flat, num_partitions, 0, "partition {} is out of range for {} of them")
    rows = dnp.reshape(data, (flat.shape[0], *data.shape[rank_of(places) :]))
    return [rows[flat == number] for number in range(num_partitions)]


@takes_call("DynamicStitch", "ParallelDynamicStitch")
def dynamic_stitch(call: Any) -> Any:
    """Rows put together by their numbers: of several with one number the last. Those that nobody has are 0."""
    count = len(call.inputs) // 2
    if all(isinstance(value, np.ndarray) for value in call.inputs[:count]):
        return _stitched(call, count)
    pairs = list(zip(call.values(0, count), call.values(count), strict=True))
    numbers = dnp.concatenate([dnp.reshape(places, (-1,)) for places, _ in pairs])
    parts = [dnp.reshape(rows, (math.prod(places.shape), *rows.shape[rank_of(places) :])) for places, rows in pairs]
    rows = dnp.concatenate(parts)
    size = _counted(numbers, "rows")
    order = dnp.arange(numbers.shape[0]).astype("int64")
    last = dnp.full((size,), -1, dtype="int64").at[numbers].max(order)
    is_there = dnp.reshape(last >= 0, (size, *[1] * (rank_of(rows) - 1)))
    return dnp.where(is_there, dnp.take(rows, dnp.maximum(last, 0), axis=0), dnp.zeros((), dtype=rows.dtype))


def _stitched(call: Any, count: int) -> Any:
    """Rows by numbers that are known."""
    rows: dict[int, Any] = {}
    for number in range(count):
        places, values = call.numbers(number), call.value(count + number)
        flat = dnp.reshape(values, (places.size, *values.shape[places.ndim :]))
        rows.update({int(place): flat[k] for k, place in enumerate(places.reshape(-1))})
    return dnp.stack([rows[place] for place in sorted(rows)], axis=0)


@converts("Bucketize")
def bucketize(a: Data, *, boundaries: Sequence[float]) -> Any:
    """Numbers of buckets, whose edges are float32: integers are compared as such, float64 as it is."""
    edges = np.array(boundaries, np.float32).astype("float64" if a.dtype == np.float64 else "float32")
    return dnp.searchsorted(dnp.asarray(edges), a.astype(edges.dtype), side="right").astype("int32")


def _bounds(name: str, is_before: Callable[[Any, Any], Any]) -> None:
    @converts(name)
    def bound(ordered: Data, values: Data, *, out_type: str = "int32") -> Any:
        """Places in sorted rows: how many elements of the row come before each value."""
        before = is_before(ordered[:, None, :], values[:, :, None])
        return dnp.sum(before, axis=-1, dtype=known_dtype(out_type).np)


_bounds("LowerBound", dnp.less)
_bounds("UpperBound", dnp.less_equal)


@converts("ReverseSequence")
def reverse_sequence(a: Data, lengths: Data, *, seq_dim: int, batch_dim: int = 0) -> Any:
    places = lax.broadcasted_iota("int64", a.shape, seq_dim)
    along = [1] * rank_of(a)
    along[batch_dim] = a.shape[batch_dim]
    ends = dnp.reshape(lengths.astype("int64"), tuple(along))
    return dnp.take_along_axis(a, dnp.where(places < ends, ends - 1 - places, places), axis=seq_dim)
