"""The places of a gather's or a scatter's windows as values of a program, for rules that turn one into the other.

Start indices come in all integer dtypes, in two forms, and counted from either end. Here each component is an array of
its own, of int64, counted from the front of its axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dyn import dtypes
from dyn.frozen import record
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.differentiate import zeros
from dyn.ir.types import TensorType
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.indexing.dimension_numbers import Windows
from dyn.shapes import Dim, dim_max

_GREATEST = 2**63 - 1


def sized(b: Builder, like: Value, dim: Dim) -> Value:
    """A dim, in the shape and integer dtype of ``like``."""
    size = b.op("dim_size", size=dim, dtype=like.dtype)
    return b.op("broadcast_in_dim", size, shape=like.shape, dims=()) if like.shape else size


def clipped(b: Builder, place: Value, low: Dim, high: Dim) -> Value:
    """Places brought into [low, high], to ``low`` where there is no such place."""
    return b.op("maximum", b.op("minimum", place, sized(b, place, high)), sized(b, place, low))


def counted(b: Builder, place: Value, size: Dim, wrap: bool) -> Value:
    """Places as int64 from the front of an axis of ``size``: what the type rules' ``Windows.counted`` does."""
    if place.dtype is dtypes.uint64:
        place = b.op("minimum", place, Arithmetic(b).fill(place, _GREATEST))
    whole = place if place.dtype is dtypes.int64 else b.op("convert", place, dtype=dtypes.int64)
    if not wrap or place.dtype.kind is dtypes.Kind.UINT:
        return whole
    a = Arithmetic(b)
    return a.where(a.cmp(whole, "LT", 0), a.add(whole, sized(b, whole, size)), whole)


def components(b: Builder, windows: Windows, starts: Sequence[Value], shape: tuple[Dim, ...]) -> list[Value]:
    """Each component for every window; ``shape`` is that of the array that the windows lie in."""
    parts, at = list(starts), windows.vector_dim
    if at < len(starts[0].shape):
        (vectors,) = starts
        rank, batch = len(vectors.shape), windows.batch_shape(vectors.type)
        steps, parts = (1,) * rank, list[Value]()
        for number in range(len(windows.start_map)):
            start = tuple(number if a == at else 0 for a in range(rank))
            limit = tuple(number + 1 if a == at else d for a, d in enumerate(vectors.shape))
            part = b.op("slice", vectors, start=start, limit=limit, strides=steps)
            parts.append(b.op("reshape", part, shape=batch))
    return [counted(b, part, shape[axis], windows.wrap) for part, axis in zip(parts, windows.start_map, strict=True)]


def apart(windows: Windows, rank: int) -> Windows:
    """The numbers for components in arrays of their own; ``rank`` is that of the start indices that there were."""
    return replace(
        windows,
        start_batching=tuple(windows.batch_position(a) for a in windows.start_batching),
        vector_dim=rank - (windows.vector_dim < rank),
        wrap=False,
    )


def gather_numbers(windows: Windows, sizes: tuple[Dim, ...]) -> dict[str, Any]:
    """The attributes of a gather of these windows."""
    return {
        "offset_dims": windows.window_dims, "collapsed_slice_dims": windows.dropped,
        "operand_batching_dims": windows.batching, "start_indices_batching_dims": windows.start_batching,
        "start_index_map": windows.start_map, "index_vector_dim": windows.vector_dim, "slice_sizes": sizes,
        "wrap": windows.wrap,
    }  # fmt: skip


def scatter_numbers(windows: Windows, combine: str) -> dict[str, Any]:
    """The attributes of a scatter into these windows."""
    return {
        "update_window_dims": windows.window_dims, "inserted_window_dims": windows.dropped,
        "input_batching_dims": windows.batching, "scatter_indices_batching_dims": windows.start_batching,
        "scatter_dims_to_operand_dims": windows.start_map, "index_vector_dim": windows.vector_dim,
        "combine": combine, "wrap": windows.wrap,
    }  # fmt: skip


@record()
class Points:
    """A scatter's updates, each with a place of its own, but for window axes that run along a whole axis.

    ``windows`` are the numbers of a gather that reads these places, whose batch axes are the axes ``own`` of the
    updates, and ``starts`` its start indices. ``inside`` says which of them lie in the array; None where all do.
    """

    windows: Windows
    starts: tuple[Value, ...]
    own: tuple[int, ...]
    inside: Value | None
    updates: TensorType

    @staticmethod
    def of(b: Builder, op: Op) -> Points:
        x, *starts, updates = op.operands
        w = Windows.of_scatter(op.attrs, len(x.shape))
        rank = len(updates.shape)
        batch = w.batch_axes(rank)
        along = dict(zip(w.axes, w.window_dims, strict=True))
        whole = {
            a: dim
            for a, dim in along.items()
            if a not in w.start_map and b.facts.eq(updates.shape[dim], x.shape[a]).proved
        }
        own = tuple(dim for dim in range(rank) if dim not in whole.values())
        shape, dims = tuple(updates.shape[dim] for dim in own), tuple(own.index(dim) for dim in batch)
        places: dict[int, Value] = {}
        for axis, part in zip(w.start_map, components(b, w, starts, x.shape), strict=True):
            if axis in along:  # so near the axis that nothing overflows; what lay outside still does
                part = clipped(b, part, -updates.shape[along[axis]], x.shape[axis])
            places[axis] = b.op("broadcast_in_dim", part, shape=shape, dims=dims)
        for axis, dim in along.items():
            if axis not in whole:
                step = b.op("iota", shape=shape, dimension=own.index(dim), dtype=dtypes.int64)
                places[axis] = b.op("add", places[axis], step) if axis in places else step
        if not places:  # a gather wants start indices, if only of no components
            places[-1] = zeros(b, TensorType(dtypes.int64, (*shape, 0)))
        numbers = Windows(
            w.rank, tuple(whole.values()), tuple(a for a in range(w.rank) if a not in whole and a not in w.batching),
            w.batching, tuple(own.index(batch[w.batch_position(a)]) for a in w.start_batching),
            tuple(a for a in places if a >= 0), len(own), False,
        )  # fmt: skip
        inside = _inside(b, {a: p for a, p in places.items() if a >= 0}, x.shape)
        return Points(numbers, tuple(places.values()), own, inside, updates.type)

    def take(self, b: Builder, x: Value) -> Value:
        """Elements of ``x``, which has the shape of the array, at the updates' places; zeros outside."""
        x = not_empty(b, x, self.windows.start_map)
        sizes = tuple(d if a in self.windows.axes else 1 for a, d in enumerate(x.shape))
        return self.where_inside(b, b.op("gather", x, *self.starts, **gather_numbers(self.windows, sizes)))

    def where_inside(self, b: Builder, updates: Value) -> Value:
        """Updates; zeros for those whose place lies outside."""
        if self.inside is None:
            return updates
        inside = b.op("broadcast_in_dim", self.inside, shape=self.updates.shape, dims=self.own)
        return b.op("select", inside, updates, zeros(b, updates.type))


def _inside(b: Builder, places: dict[int, Value], shape: tuple[Dim, ...]) -> Value | None:
    a, found = Arithmetic(b), None
    for axis, place in places.items():
        for one in (a.cmp(place, "GE", 0), a.cmp(place, "LT", sized(b, place, shape[axis]))):
            found = one if found is None else b.op("and", found, one)
    return found


def not_empty(b: Builder, x: Value, axes: Sequence[int]) -> Value:
    """``x``, with a zero along each of ``axes`` that may have no element: nothing is gathered from none."""
    more = [dim_max(d, 1) - d if a in axes and not b.facts.ge(d, 1).proved else 0 for a, d in enumerate(x.shape)]
    if all(isinstance(d, int) and d == 0 for d in more):
        return x
    none = (0,) * len(more)
    zero = zeros(b, TensorType(x.dtype, ()))
    return b.op("pad", x, zero, edge_padding_low=none, edge_padding_high=tuple(more), interior_padding=none)
