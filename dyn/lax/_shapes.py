"""Raw operations that move elements about, by ``jax.lax``'s names. Sizes, places and paddings may be dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.errors import ShapeError, UnsupportedOpError
from dyn.ir.core import Value
from dyn.lax._operands import (
    Array,
    ArrayLike,
    DTypeLike,
    Size,
    axis_of,
    dtype_of,
    in_dtype,
    is_dim,
    lifted,
    lifted_all,
    raw,
    settled,
    size_of,
    sizes_of,
    trace_of,
)
from dyn.shapes import Dim, product
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.dims import counted_from_front
from dyn.trace.lift import converted, settled_dtype
from dyn.trace.tracer import Tracer

Shape = Sequence[Size]


def _one(what: str, x: ArrayLike, *others: Any) -> tuple[Trace, Value]:
    trace = trace_of(x, *others)
    return trace, settled(trace, lifted(what, trace, x))


def _axes(what: str, axes: Sequence[int], rank: int) -> tuple[int, ...]:
    numbers = tuple(axis_of(what, axis, rank) for axis in axes)
    if len(set(numbers)) != len(numbers):
        raise ShapeError(f"{what}: the axes {tuple(axes)} are not distinct.", loc=user_loc(), remedy="name each once.")
    return numbers


# --- shapes -------------------------------------------------------------------------------------------------------


@raw
def broadcast(operand: ArrayLike, sizes: Shape) -> Array:
    """The array again and again along new axes in front, of these sizes."""
    trace, x = _one("broadcast", operand, sizes)
    new = sizes_of("broadcast", sizes)
    dims = tuple(range(len(new), len(new) + len(x.shape)))
    return Tracer(trace, trace.emit("broadcast_in_dim", x, shape=(*new, *x.shape), dims=dims))


@raw
def broadcast_in_dim(operand: ArrayLike, shape: Shape, broadcast_dimensions: Sequence[int]) -> Array:
    """The array in ``shape``, its axes at ``broadcast_dimensions``; axes of size 1 are stretched."""
    trace, x = _one("broadcast_in_dim", operand, shape)
    dims = tuple(int(d) for d in broadcast_dimensions)
    return Tracer(trace, trace.emit("broadcast_in_dim", x, shape=sizes_of("broadcast_in_dim", shape), dims=dims))


@raw
def reshape(operand: ArrayLike, new_sizes: Shape, dimensions: Sequence[int] | None = None) -> Array:
    """The elements in their order in another shape; with ``dimensions`` the axes are first put in that order."""
    trace, x = _one("reshape", operand, new_sizes)
    if dimensions is not None:
        x = trace.emit("transpose", x, permutation=_axes("reshape", dimensions, len(x.shape)))
    return Tracer(trace, trace.emit("reshape", x, shape=sizes_of("reshape", new_sizes)))


@raw
def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """The axes from ``start_dimension`` up to ``stop_dimension`` as one."""
    trace, x = _one("collapse", operand)
    rank = len(x.shape)
    start = axis_of("collapse", start_dimension, rank)
    stop = rank if stop_dimension is None else stop_dimension + rank * (stop_dimension < 0)
    shape = (*x.shape[:start], product(x.shape[start:stop]), *x.shape[stop:])
    return Tracer(trace, trace.emit("reshape", x, shape=shape))


@raw
def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """The array with axes of size 1 at ``dimensions`` of the result."""
    trace, x = _one("expand_dims", array)
    rank = len(x.shape) + len(dimensions)
    new, own = set(_axes("expand_dims", dimensions, rank)), iter(x.shape)
    return Tracer(trace, trace.emit("reshape", x, shape=tuple(1 if a in new else next(own) for a in range(rank))))


@raw
def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """The array without axes of size 1."""
    trace, x = _one("squeeze", array)
    gone = _axes("squeeze", dimensions, len(x.shape))
    return Tracer(trace, trace.emit("reshape", x, shape=tuple(d for a, d in enumerate(x.shape) if a not in gone)))


@raw
def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """The array whose axis ``i`` is axis ``permutation[i]``."""
    trace, x = _one("transpose", operand)
    return Tracer(trace, trace.emit("transpose", x, permutation=_axes("transpose", permutation, len(x.shape))))


@raw
def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """The array turned round along these axes."""
    trace, x = _one("rev", operand)
    return Tracer(trace, trace.emit("reverse", x, dimensions=tuple(sorted(_axes("rev", dimensions, len(x.shape))))))


@raw
def concatenate(operands: Sequence[ArrayLike], dimension: int) -> Array:
    """Arrays of one dtype, one behind the other along an axis."""
    trace = trace_of(*operands)
    values = lifted_all("concatenate", trace, operands)
    if not values:
        raise ShapeError("concatenate: there are no arrays.", loc=user_loc(), remedy="give at least one.")
    axis = axis_of("concatenate", dimension, len(values[0].shape))
    return Tracer(trace, trace.emit("concatenate", *values, dimension=axis))


@raw
def split(operand: ArrayLike, sizes: Sequence[Size], axis: int = 0) -> list[Array]:
    """The array cut into pieces of these sizes along an axis."""
    trace, x = _one("split", operand, sizes)
    number = axis_of("split", axis, len(x.shape))
    parts: list[Array] = []
    start: Dim = 0
    for size in sizes_of("split", sizes):
        parts.append(Tracer(trace, _cut(trace, x, number, start, start + size, 1)))
        start = start + size
    return parts


@raw
def tile(operand: ArrayLike, reps: Sequence[Size]) -> Array:
    """The array ``reps`` times over along each axis."""
    trace, x = _one("tile", operand, reps)
    counts = sizes_of("tile", reps)
    if len(counts) != len(x.shape):
        raise ShapeError(
            f"tile: {len(counts)} repetitions are given for an array with {len(x.shape)} axes.",
            loc=user_loc(),
            remedy="give one for each axis.",
        )
    pairs = tuple(d for pair in zip(counts, x.shape, strict=True) for d in pair)
    spread = trace.emit("broadcast_in_dim", x, shape=pairs, dims=tuple(range(1, len(pairs), 2)))
    return Tracer(
        trace, trace.emit("reshape", spread, shape=tuple(n * d for n, d in zip(counts, x.shape, strict=True)))
    )


# --- slices and padding -------------------------------------------------------------------------------------------


def _cut(trace: Trace, x: Value, axis: int, start: Dim, limit: Dim, stride: Dim) -> Value:
    first: list[Dim] = [0] * len(x.shape)
    last, steps = list(x.shape), list[Dim]([1] * len(x.shape))
    first[axis], last[axis], steps[axis] = start, limit, stride
    return trace.emit("slice", x, start=tuple(first), limit=tuple(last), strides=tuple(steps))


@raw
def slice(operand: ArrayLike, start_indices: Shape, limit_indices: Shape, strides: Shape | None = None) -> Array:
    """The elements from ``start_indices`` up to ``limit_indices``, every ``strides``-th; all may be dimensions."""
    trace, x = _one("slice", operand, start_indices, limit_indices, strides)
    steps = (1,) * len(x.shape) if strides is None else sizes_of("slice", strides)
    first, last = (sizes_of("slice", numbers) for numbers in (start_indices, limit_indices))
    if not len(first) == len(last) == len(steps) == len(x.shape):
        raise ShapeError(
            f"slice: {len(first)} starts, {len(last)} limits and {len(steps)} strides are given for an array with "
            f"{len(x.shape)} axes.",
            loc=user_loc(),
            remedy="give one of each for each axis.",
        )
    return Tracer(trace, trace.emit("slice", x, start=first, limit=last, strides=steps))


@raw
def slice_in_dim(
    operand: ArrayLike, start_index: Size | None, limit_index: Size | None, stride: Size = 1, axis: int = 0
) -> Array:
    """``operand[start_index:limit_index:stride]`` along an axis."""
    trace, x = _one("slice_in_dim", operand, start_index, limit_index, stride)
    number = axis_of("slice_in_dim", axis, len(x.shape))
    size = x.shape[number]
    start, limit = (
        default if given is None else counted_from_front(trace.facts, size_of("slice_in_dim", given), size)
        for given, default in ((start_index, 0), (limit_index, size))
    )
    return Tracer(trace, _cut(trace, x, number, start, limit, size_of("slice_in_dim", stride)))


@raw
def index_in_dim(operand: ArrayLike, index: Size, axis: int = 0, keepdims: bool = True) -> Array:
    """The slice at ``index`` along an axis."""
    trace, x = _one("index_in_dim", operand, index)
    number = axis_of("index_in_dim", axis, len(x.shape))
    place = counted_from_front(trace.facts, size_of("index_in_dim", index), x.shape[number])
    return Tracer(trace, _without(trace, _cut(trace, x, number, place, place + 1, 1), number, keepdims))


def _without(trace: Trace, x: Value, axis: int, keepdims: bool) -> Value:
    return x if keepdims else trace.emit("reshape", x, shape=(*x.shape[:axis], *x.shape[axis + 1 :]))


@raw
def pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[Size, Size, Size]]) -> Array:
    """The array with ``(low, high, interior)`` places around and between its elements along each axis.

    Negative ones cut elements off. All of them may be dimensions.
    """
    trace, x = _one("pad", operand, padding_config)
    value = lifted("pad", trace, padding_value)
    value = in_dtype("pad", trace, value, x.dtype) if value.type.weak else value
    rows = [sizes_of("pad", config) for config in padding_config]
    if len(rows) != len(x.shape) or any(len(row) != 3 for row in rows):
        raise ShapeError(
            f"pad: {len(rows)} configurations are given for an array with {len(x.shape)} axes.",
            loc=user_loc(),
            remedy="give (low, high, interior) for each axis.",
        )
    low, high, interior = (tuple(row[i] for row in rows) for i in range(3))
    made = trace.emit("pad", x, value, edge_padding_low=low, edge_padding_high=high, interior_padding=interior)
    return Tracer(trace, made)


# --- places that are computed ---------------------------------------------------------------------------------------


def _starts(what: str, trace: Trace, x: Value, given: Sequence[Any]) -> list[Value]:
    """A scalar for each axis; negative ones count from the end, as in JAX."""
    if len(given) != len(x.shape):
        raise ShapeError(
            f"{what}: {len(given)} start indices are given for an array with {len(x.shape)} axes.",
            loc=user_loc(),
            remedy="give one for each axis.",
        )
    return [_place(what, trace, start, size) for start, size in zip(given, x.shape, strict=True)]


def _place(what: str, trace: Trace, start: Any, size: Dim) -> Value:
    if isinstance(start, int):
        start = start + size if start < 0 and isinstance(size, int) else start
    value = settled(trace, lifted(what, trace, start))
    if value.dtype.kind is dtypes.Kind.UINT:
        return value
    if value.dtype is not dtypes.int64:  # the size may be no number of a narrower dtype
        value = trace.emit("convert", value, dtype=dtypes.int64)
    zero = trace.constant(np.zeros((), np.int64))
    whole = trace.emit("convert", trace.emit("dim_size", size=size, dtype=dtypes.int64), dtype=dtypes.int64)
    negative = trace.emit("compare", value, zero, direction="LT")
    return trace.emit("select", negative, trace.emit("add", value, whole), value)


def _unpacked(trace: Trace, what: str, starts: Any) -> list[Any]:
    """Start indices one by one: from a sequence, or the elements of an array."""
    if isinstance(starts, tuple | list):
        return [*starts]
    value = lifted(what, trace, starts)
    count = value.shape[0] if len(value.shape) == 1 else None
    if not isinstance(count, int):
        raise UnsupportedOpError(
            f"{what}: the start indices are {value.type}, and how many there are has to be known.",
            loc=user_loc(),
            remedy="pass a tuple of scalars.",
        )
    cuts = [trace.emit("slice", value, start=(i,), limit=(i + 1,), strides=(1,)) for i in range(count)]
    return [Tracer(trace, trace.emit("reshape", cut, shape=())) for cut in cuts]


@raw
def dynamic_slice(operand: ArrayLike, start_indices: Any, slice_sizes: Shape) -> Array:
    """The window of ``slice_sizes`` that starts at integer scalars; one that would leave the array is moved inside."""
    trace, x = _one("dynamic_slice", operand, start_indices, slice_sizes)
    starts = _starts("dynamic_slice", trace, x, _unpacked(trace, "dynamic_slice", start_indices))
    sizes = sizes_of("dynamic_slice", slice_sizes)
    return Tracer(trace, trace.emit("dynamic_slice", x, *starts, slice_sizes=sizes))


@raw
def dynamic_update_slice(operand: ArrayLike, update: ArrayLike, start_indices: Any) -> Array:
    """The array with ``update`` in the window that starts at integer scalars; it is moved inside like a slice."""
    trace, x = _one("dynamic_update_slice", operand, update, start_indices)
    x, new = lifted_all("dynamic_update_slice", trace, (Tracer(trace, x), update))
    starts = _starts("dynamic_update_slice", trace, x, _unpacked(trace, "dynamic_update_slice", start_indices))
    return Tracer(trace, trace.emit("dynamic_update_slice", x, new, *starts))


@raw
def dynamic_slice_in_dim(operand: ArrayLike, start_index: ArrayLike, slice_size: Size, axis: int = 0) -> Array:
    """``slice_size`` slices from ``start_index`` on along an axis."""
    trace, x = _one("dynamic_slice_in_dim", operand, start_index, slice_size)
    number = axis_of("dynamic_slice_in_dim", axis, len(x.shape))
    starts = [start_index if a == number else 0 for a in range(len(x.shape))]
    sizes = tuple(size_of("dynamic_slice_in_dim", slice_size) if a == number else d for a, d in enumerate(x.shape))
    places = _starts("dynamic_slice_in_dim", trace, x, starts)
    return Tracer(trace, trace.emit("dynamic_slice", x, *places, slice_sizes=sizes))


@raw
def dynamic_index_in_dim(operand: ArrayLike, index: ArrayLike, axis: int = 0, keepdims: bool = True) -> Array:
    """The slice at ``index`` along an axis."""
    made = dynamic_slice_in_dim(operand, index, 1, axis)
    trace = made._trace
    number = axis_of("dynamic_index_in_dim", axis, made.ndim)
    return Tracer(trace, _without(trace, made._value, number, keepdims))


@raw
def dynamic_update_slice_in_dim(operand: ArrayLike, update: ArrayLike, start_index: ArrayLike, axis: int) -> Array:
    """The array with ``update`` from ``start_index`` on along an axis."""
    trace, x = _one("dynamic_update_slice_in_dim", operand, update, start_index)
    number = axis_of("dynamic_update_slice_in_dim", axis, len(x.shape))
    starts = tuple(start_index if a == number else 0 for a in range(len(x.shape)))
    return dynamic_update_slice(Tracer(trace, x), update, starts)


@raw
def dynamic_update_index_in_dim(operand: ArrayLike, update: ArrayLike, index: ArrayLike, axis: int) -> Array:
    """The array with the slice ``update``, with that axis or without it, at ``index`` along an axis."""
    trace, x = _one("dynamic_update_index_in_dim", operand, update, index)
    number = axis_of("dynamic_update_index_in_dim", axis, len(x.shape))
    new = lifted("dynamic_update_index_in_dim", trace, update)
    if len(new.shape) != len(x.shape):
        new = trace.emit("reshape", new, shape=(*new.shape[:number], 1, *new.shape[number:]))
    return dynamic_update_slice_in_dim(Tracer(trace, x), Tracer(trace, new), index, number)


# --- makers -------------------------------------------------------------------------------------------------------


@raw
def iota(dtype: DTypeLike, size: Size) -> Array:
    """0, 1, 2, …"""
    trace = trace_of(size)
    count = size_of("iota", size)
    return Tracer(trace, trace.emit("iota", shape=(count,), dimension=0, dtype=dtype_of(dtype)))


@raw
def broadcasted_iota(dtype: DTypeLike, shape: Shape, dimension: int) -> Array:
    """0, 1, 2, … along an axis of an array of that shape."""
    trace = trace_of(shape)
    sizes = sizes_of("broadcasted_iota", shape)
    axis = axis_of("broadcasted_iota", dimension, len(sizes))
    return Tracer(trace, trace.emit("iota", shape=sizes, dimension=axis, dtype=dtype_of(dtype)))


@raw
def full(shape: Shape | Size, fill_value: ArrayLike, dtype: DTypeLike = None) -> Array:
    """An array of one value; in its own dtype unless another is given."""
    trace = trace_of(shape, fill_value)
    sizes: Any = (shape,) if is_dim(shape) else shape
    value = lifted("full", trace, fill_value)
    wanted = settled_dtype(value.dtype) if value.type.weak else value.dtype
    wanted = wanted if dtype is None else dtype_of(dtype)
    value = converted(trace, value, wanted) if value.type.weak or value.dtype is not wanted else value
    return Tracer(trace, trace.emit("broadcast_in_dim", value, shape=sizes_of("full", sizes), dims=()))


@raw
def full_like(x: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike = None, shape: Shape | None = None) -> Array:
    """An array of one value, in the shape and dtype of another unless others are given."""
    trace, value = _one("full_like", x, fill_value, shape)
    sizes = value.shape if shape is None else sizes_of("full_like", shape)
    fill = lifted("full_like", trace, fill_value)
    wanted = value.dtype if dtype is None else dtype_of(dtype)
    fill = converted(trace, fill, wanted)
    return Tracer(trace, trace.emit("broadcast_in_dim", fill, shape=sizes, dims=()) if sizes else fill)
