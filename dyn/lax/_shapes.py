"""Raw operations that move elements about, by ``jax.lax``'s names. Sizes, places and paddings may be dimensions.

This file is longer than most: half of it says what each function takes and gives.
"""

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
from dyn.trace.lift import converted, dtype_of, settled_dtype
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
    """Array repeated along new axes in front.

    Args:
        operand: array of any dtype.
        sizes: sizes of the new axes, ints or dimensions.

    Returns:
        An array of these sizes and those of ``operand``, in its dtype.

    Raises:
        ShapeError: if a size is negative.

    Example:
        >>> lax.broadcast(np.array([1, 2]), (2,))
        array([[1, 2],
               [1, 2]])
    """
    trace, x = _one("broadcast", operand, sizes)
    new = sizes_of("broadcast", sizes)
    dims = tuple(range(len(new), len(new) + len(x.shape)))
    return Tracer(trace, trace.emit("broadcast_in_dim", x, shape=(*new, *x.shape), dims=dims))


@raw
def broadcast_in_dim(operand: ArrayLike, shape: Shape, broadcast_dimensions: Sequence[int]) -> Array:
    """Array in a larger shape, with each axis where it is told.

    Args:
        operand: array of any dtype.
        shape: sizes of the result, ints or dimensions.
        broadcast_dimensions: for each axis of ``operand`` that of the result, in rising order; an axis of size 1 is
            stretched.

    Returns:
        An array of that shape, in the dtype of ``operand``.

    Raises:
        ShapeError: if a size is neither 1 nor that of the result, at the call at the latest; if the axes do not fit.

    Example:
        >>> lax.broadcast_in_dim(np.array([1, 2]), (2, 3), (0,))
        array([[1, 1, 1],
               [2, 2, 2]])
    """
    trace, x = _one("broadcast_in_dim", operand, shape)
    dims = tuple(int(d) for d in broadcast_dimensions)
    return Tracer(trace, trace.emit("broadcast_in_dim", x, shape=sizes_of("broadcast_in_dim", shape), dims=dims))


@raw
def reshape(operand: ArrayLike, new_sizes: Shape, dimensions: Sequence[int] | None = None) -> Array:
    """Elements in their order, in another shape.

    Args:
        operand: array of any dtype.
        new_sizes: sizes of the result, ints or dimensions; -1 is none of them.
        dimensions: order that axes are put into first; None: their own.

    Returns:
        An array of that shape, in the dtype of ``operand``.

    Raises:
        ShapeError: if the numbers of elements differ: at once where that is proved, otherwise when called.

    Example:
        >>> lax.reshape(np.arange(6), (2, 3))
        array([[0, 1, 2],
               [3, 4, 5]])
    """
    trace, x = _one("reshape", operand, new_sizes)
    if dimensions is not None:
        x = trace.emit("transpose", x, permutation=_axes("reshape", dimensions, len(x.shape)))
    return Tracer(trace, trace.emit("reshape", x, shape=sizes_of("reshape", new_sizes)))


@raw
def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Neighbouring axes as one, whose size is their product.

    Args:
        operand: array of any dtype.
        start_dimension: first of the axes.
        stop_dimension: the one behind the last; None: all others.

    Returns:
        An array in the dtype of ``operand``.

    Raises:
        ShapeError: if ``start_dimension`` is not one of ``operand``.

    Example:
        >>> lax.collapse(np.ones((2, 3, 4)), 1).shape
        (2, 12)
    """
    trace, x = _one("collapse", operand)
    rank = len(x.shape)
    start = axis_of("collapse", start_dimension, rank)
    stop = rank if stop_dimension is None else stop_dimension + rank * (stop_dimension < 0)
    shape = (*x.shape[:start], product(x.shape[start:stop]), *x.shape[stop:])
    return Tracer(trace, trace.emit("reshape", x, shape=shape))


@raw
def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Array with new axes of size 1.

    Args:
        array: array of any dtype.
        dimensions: places of the new axes in the result.

    Returns:
        An array in the dtype of ``array``.

    Raises:
        ShapeError: if a place is not there, or is named twice.

    Example:
        >>> lax.expand_dims(np.ones(3), (0,)).shape
        (1, 3)
    """
    trace, x = _one("expand_dims", array)
    rank = len(x.shape) + len(dimensions)
    new, own = set(_axes("expand_dims", dimensions, rank)), iter(x.shape)
    return Tracer(trace, trace.emit("reshape", x, shape=tuple(1 if a in new else next(own) for a in range(rank))))


@raw
def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Array without axes of size 1.

    Args:
        array: array of any dtype.
        dimensions: axes to leave out; a symbolic size has to be 1 when called.

    Returns:
        An array in the dtype of ``array``.

    Raises:
        ShapeError: if an axis has another size, at the call at the latest, or is not there.

    Example:
        >>> lax.squeeze(np.ones((1, 3)), (0,)).shape
        (3,)
    """
    trace, x = _one("squeeze", array)
    gone = _axes("squeeze", dimensions, len(x.shape))
    return Tracer(trace, trace.emit("reshape", x, shape=tuple(d for a, d in enumerate(x.shape) if a not in gone)))


@raw
def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """Array with its axes in another order.

    Args:
        operand: array of any dtype.
        permutation: for each axis of the result that of ``operand``.

    Returns:
        An array in the dtype of ``operand``.

    Raises:
        ShapeError: if not each axis is named once.

    Example:
        >>> lax.transpose(np.ones((2, 3)), (1, 0)).shape
        (3, 2)
    """
    trace, x = _one("transpose", operand)
    return Tracer(trace, trace.emit("transpose", x, permutation=_axes("transpose", permutation, len(x.shape))))


@raw
def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Elements in reverse order along axes.

    Args:
        operand: array of any dtype.
        dimensions: axes to reverse.

    Returns:
        An array of the shape and dtype of ``operand``.

    Raises:
        ShapeError: if an axis is not there, or is named twice.

    Example:
        >>> lax.rev(np.array([1, 2, 3]), (0,))
        array([3, 2, 1])
    """
    trace, x = _one("rev", operand)
    return Tracer(trace, trace.emit("reverse", x, dimensions=tuple(sorted(_axes("rev", dimensions, len(x.shape))))))


@raw
def concatenate(operands: Sequence[ArrayLike], dimension: int) -> Array:
    """Arrays of one dtype, one behind the other along an axis.

    Args:
        operands: list or tuple of arrays of one dtype, whose other sizes are equal.
        dimension: axis along which they follow one another; symbolic sizes add up to an expression.

    Returns:
        An array of that dtype.

    Raises:
        ShapeError: if other sizes differ: at once where that is proved, otherwise when called; if there is no array.
        UnsupportedOpError: if the dtypes differ.

    Example:
        >>> lax.concatenate([np.array([1, 2]), np.array([3])], 0)
        array([1, 2, 3])
    """
    trace = trace_of(*operands)
    values = lifted_all("concatenate", trace, operands)
    if not values:
        raise ShapeError("concatenate: there are no arrays.", loc=user_loc(), remedy="give at least one.")
    axis = axis_of("concatenate", dimension, len(values[0].shape))
    return Tracer(trace, trace.emit("concatenate", *values, dimension=axis))


@raw
def split(operand: ArrayLike, sizes: Sequence[Size], axis: int = 0) -> list[Array]:
    """Parts of given sizes along an axis.

    Args:
        operand: array of any dtype.
        sizes: sizes of the parts, ints or dimensions; what they leave over, where JAX raises, is left out.
        axis: axis to cut.

    Returns:
        A list of arrays in the dtype of ``operand``.

    Raises:
        ShapeError: if the parts are more than there is, at the call at the latest.

    Example:
        >>> lax.split(np.arange(5), (2, 3))
        [array([0, 1]), array([2, 3, 4])]
    """
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
    """Array repeated as a whole along its axes.

    Args:
        operand: array of any dtype.
        reps: how often along each axis, ints or dimensions.

    Returns:
        An array in the dtype of ``operand``, each size times its number.

    Raises:
        ShapeError: if there is not a number for each axis.

    Example:
        >>> lax.tile(np.array([1, 2]), (2,))
        array([1, 2, 1, 2])
    """
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
    """Elements from given places up to others along each axis, every so many.

    Args:
        operand: array of any dtype.
        start_indices: first places, one for each axis, ints or dimensions.
        limit_indices: places behind the last, no greater than the sizes.
        strides: distances, of 1 or more; None: 1.

    Returns:
        An array in the dtype of ``operand``.

    Raises:
        ShapeError: if places lie outside, at the call at the latest, a stride is 0, or there is not one for each axis.

    Example:
        >>> lax.slice(np.arange(6), (1,), (6,), (2,))
        array([1, 3, 5])
    """
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
    """``operand[start_index:limit_index:stride]`` along an axis.

    Args:
        operand: array of any dtype.
        start_index: first place, an int or a dimension, from the end where it is negative; None: 0.
        limit_index: place behind the last; None: the size of the axis.
        stride: distance, of 1 or more.
        axis: axis to go along.

    Returns:
        An array in the dtype of ``operand``.

    Raises:
        ShapeError: if places lie outside, at the call at the latest, or ``axis`` is not one of ``operand``.

    Example:
        >>> lax.slice_in_dim(np.arange(5), 1, -1)
        array([1, 2, 3])
    """
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
    """Slice at one place along an axis.

    Args:
        operand: array of any dtype.
        index: the place, an int or a dimension, from the end where it is negative.
        axis: axis to go along.
        keepdims: whether the axis stays, with size 1.

    Returns:
        An array in the dtype of ``operand``.

    Raises:
        ShapeError: if the place lies outside, at the call at the latest, or ``axis`` is not one of ``operand``.

    Example:
        >>> lax.index_in_dim(np.array([[1, 2], [3, 4]]), -1, keepdims=False)
        array([3, 4])
    """
    trace, x = _one("index_in_dim", operand, index)
    number = axis_of("index_in_dim", axis, len(x.shape))
    place = counted_from_front(trace.facts, size_of("index_in_dim", index), x.shape[number])
    return Tracer(trace, _without(trace, _cut(trace, x, number, place, place + 1, 1), number, keepdims))


def _without(trace: Trace, x: Value, axis: int, keepdims: bool) -> Value:
    return x if keepdims else trace.emit("reshape", x, shape=(*x.shape[:axis], *x.shape[axis + 1 :]))


@raw
def pad(operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[Size, Size, Size]]) -> Array:
    """Array with places around and between its elements.

    Args:
        operand: array of any dtype.
        padding_value: scalar of the same dtype, or a Python number, for these places.
        padding_config: ``(low, high, interior)`` for each axis: how many in front, behind, and between each two; ints
            or dimensions. Negative ones in front and behind cut elements off.

    Returns:
        An array in the dtype of ``operand``.

    Raises:
        ShapeError: if there are not three numbers for each axis, the dtypes differ, or more is cut off than there is,
            at the call at the latest.

    Example:
        >>> lax.pad(np.array([1, 2]), 0, [(1, 0, 1)])
        array([0, 1, 0, 2])
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
    """Window of an array that starts at computed places.

    One that would leave the array is moved inside, as in JAX.

    Args:
        operand: array of any dtype.
        start_indices: integer scalars, one for each axis, or a vector of them; negative ones count from the end.
        slice_sizes: sizes of the window, ints or dimensions, no greater than those of ``operand``.

    Returns:
        An array of the window's shape, in the dtype of ``operand``.

    Raises:
        ShapeError: if the window is greater than the array, at the call at the latest; if there is not a place for each
            axis.

    Example:
        >>> lax.dynamic_slice(np.arange(5), (3,), (3,))
        array([2, 3, 4])
    """
    trace, x = _one("dynamic_slice", operand, start_indices, slice_sizes)
    starts = _starts("dynamic_slice", trace, x, _unpacked(trace, "dynamic_slice", start_indices))
    sizes = sizes_of("dynamic_slice", slice_sizes)
    return Tracer(trace, trace.emit("dynamic_slice", x, *starts, slice_sizes=sizes))


@raw
def dynamic_update_slice(operand: ArrayLike, update: ArrayLike, start_indices: Any) -> Array:
    """Array with another one in the window that starts at computed places.

    One that would leave the array is moved inside, as in JAX.

    Args:
        operand: array of any dtype.
        update: array of the same dtype and number of axes, no greater.
        start_indices: integer scalars, one for each axis, or a vector of them; negative ones count from the end.

    Returns:
        An array of the shape and dtype of ``operand``.

    Raises:
        ShapeError: if the update is greater than the array, at the call at the latest; if there is not a place for each
            axis.
        UnsupportedOpError: if the dtypes differ.

    Example:
        >>> lax.dynamic_update_slice(np.zeros(4), np.ones(2), (1,))
        array([0., 1., 1., 0.])
    """
    trace, x = _one("dynamic_update_slice", operand, update, start_indices)
    x, new = lifted_all("dynamic_update_slice", trace, (Tracer(trace, x), update))
    starts = _starts("dynamic_update_slice", trace, x, _unpacked(trace, "dynamic_update_slice", start_indices))
    return Tracer(trace, trace.emit("dynamic_update_slice", x, new, *starts))


@raw
def dynamic_slice_in_dim(operand: ArrayLike, start_index: ArrayLike, slice_size: Size, axis: int = 0) -> Array:
    """Slices from a computed place on along an axis.

    Args:
        operand: array of any dtype.
        start_index: integer scalar, traced or not; negative ones count from the end.
        slice_size: how many, an int or a dimension.
        axis: axis to go along.

    Returns:
        An array in the dtype of ``operand``.

    Raises:
        ShapeError: if there are fewer, at the call at the latest, or ``axis`` is not one of ``operand``.

    Example:
        >>> lax.dynamic_slice_in_dim(np.arange(5), 1, 2)
        array([1, 2])
    """
    trace, x = _one("dynamic_slice_in_dim", operand, start_index, slice_size)
    number = axis_of("dynamic_slice_in_dim", axis, len(x.shape))
    starts = [start_index if a == number else 0 for a in range(len(x.shape))]
    sizes = tuple(size_of("dynamic_slice_in_dim", slice_size) if a == number else d for a, d in enumerate(x.shape))
    places = _starts("dynamic_slice_in_dim", trace, x, starts)
    return Tracer(trace, trace.emit("dynamic_slice", x, *places, slice_sizes=sizes))


@raw
def dynamic_index_in_dim(operand: ArrayLike, index: ArrayLike, axis: int = 0, keepdims: bool = True) -> Array:
    """Slice at a computed place along an axis.

    Args:
        operand: array of any dtype.
        index: integer scalar, traced or not; negative ones count from the end, and outside it is the nearest place.
        axis: axis to go along.
        keepdims: whether the axis stays, with size 1.

    Returns:
        An array in the dtype of ``operand``.

    Raises:
        ShapeError: if the axis is empty, at the call at the latest, or ``axis`` is not one of ``operand``.

    Example:
        >>> lax.dynamic_index_in_dim(np.array([[1, 2], [3, 4]]), 1, keepdims=False)
        array([3, 4])
    """
    made = dynamic_slice_in_dim(operand, index, 1, axis)
    trace = made._trace
    number = axis_of("dynamic_index_in_dim", axis, made.ndim)
    return Tracer(trace, _without(trace, made._value, number, keepdims))


@raw
def dynamic_update_slice_in_dim(operand: ArrayLike, update: ArrayLike, start_index: ArrayLike, axis: int) -> Array:
    """Array with another one from a computed place on along an axis.

    Args:
        operand: array of any dtype.
        update: array of the same dtype and number of axes.
        start_index: integer scalar, traced or not; negative ones count from the end.
        axis: axis to go along.

    Returns:
        An array of the shape and dtype of ``operand``.

    Raises:
        ShapeError: if the update is greater than the array, at the call at the latest, or ``axis`` is not one of
            ``operand``.
        UnsupportedOpError: if the dtypes differ.

    Example:
        >>> lax.dynamic_update_slice_in_dim(np.zeros(4), np.ones(2), 1, 0)
        array([0., 1., 1., 0.])
    """
    trace, x = _one("dynamic_update_slice_in_dim", operand, update, start_index)
    number = axis_of("dynamic_update_slice_in_dim", axis, len(x.shape))
    starts = tuple(start_index if a == number else 0 for a in range(len(x.shape)))
    return dynamic_update_slice(Tracer(trace, x), update, starts)


@raw
def dynamic_update_index_in_dim(operand: ArrayLike, update: ArrayLike, index: ArrayLike, axis: int) -> Array:
    """Array with another slice at a computed place along an axis.

    Args:
        operand: array of any dtype.
        update: the slice, of the same dtype, with the axis, of size 1, or without it.
        index: integer scalar, traced or not; negative ones count from the end, and outside it is the nearest place.
        axis: axis to go along.

    Returns:
        An array of the shape and dtype of ``operand``.

    Raises:
        ShapeError: if the slice does not fit, at the call at the latest, or ``axis`` is not one of ``operand``.
        UnsupportedOpError: if the dtypes differ.

    Example:
        >>> lax.dynamic_update_index_in_dim(np.zeros((2, 2)), np.ones(2), 1, 0)
        array([[0., 0.],
               [1., 1.]])
    """
    trace, x = _one("dynamic_update_index_in_dim", operand, update, index)
    number = axis_of("dynamic_update_index_in_dim", axis, len(x.shape))
    new = lifted("dynamic_update_index_in_dim", trace, update)
    if len(new.shape) != len(x.shape):
        new = trace.emit("reshape", new, shape=(*new.shape[:number], 1, *new.shape[number:]))
    return dynamic_update_slice_in_dim(Tracer(trace, x), Tracer(trace, new), index, number)


# --- makers -------------------------------------------------------------------------------------------------------


@raw
def iota(dtype: DTypeLike, size: Size) -> Array:
    """0, 1, 2, … in a vector.

    Args:
        dtype: dtype of the result.
        size: how many, an int or a dimension.

    Returns:
        An array of shape ``(size,)``.

    Raises:
        ShapeError: if ``size`` is negative.

    Example:
        >>> lax.iota(np.int32, 3)
        dyn.Array([0, 1, 2], dtype=int32)
    """
    trace = trace_of(size)
    count = size_of("iota", size)
    return Tracer(trace, trace.emit("iota", shape=(count,), dimension=0, dtype=dtype_of(dtype)))


@raw
def broadcasted_iota(dtype: DTypeLike, shape: Shape, dimension: int) -> Array:
    """0, 1, 2, … along one axis of an array.

    Args:
        dtype: dtype of the result.
        shape: sizes of the result, ints or dimensions.
        dimension: axis that is counted along.

    Returns:
        An array of that shape and dtype.

    Raises:
        ShapeError: if a size is negative, or the axis is not there.

    Example:
        >>> lax.broadcasted_iota(np.int32, (2, 3), 1)
        dyn.Array([[0, 1, 2],
                   [0, 1, 2]], dtype=int32)
    """
    trace = trace_of(shape)
    sizes = sizes_of("broadcasted_iota", shape)
    axis = axis_of("broadcasted_iota", dimension, len(sizes))
    return Tracer(trace, trace.emit("iota", shape=sizes, dimension=axis, dtype=dtype_of(dtype)))


@raw
def full(shape: Shape | Size, fill_value: ArrayLike, dtype: DTypeLike = None) -> Array:
    """Array of one value.

    Args:
        shape: size or sizes, ints or dimensions.
        fill_value: the value, a scalar.
        dtype: dtype of the result; None: that of the value.

    Returns:
        An array of that shape and dtype.

    Raises:
        ShapeError: if a size is negative.

    Example:
        >>> lax.full((2,), 7, np.int8)
        dyn.Array([7, 7], dtype=int8)
    """
    trace = trace_of(shape, fill_value)
    sizes: Any = (shape,) if is_dim(shape) else shape
    value = lifted("full", trace, fill_value)
    wanted = settled_dtype(value.dtype) if value.type.weak else value.dtype
    wanted = wanted if dtype is None else dtype_of(dtype)
    value = converted(trace, value, wanted) if value.type.weak or value.dtype is not wanted else value
    return Tracer(trace, trace.emit("broadcast_in_dim", value, shape=sizes_of("full", sizes), dims=()))


@raw
def full_like(x: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike = None, shape: Shape | None = None) -> Array:
    """Array of one value, of the shape and dtype of another.

    Args:
        x: array of any dtype.
        fill_value: the value, a scalar.
        dtype: dtype of the result; None: that of ``x``.
        shape: sizes; None: those of ``x``, symbolic ones too.

    Returns:
        An array of that shape and dtype.

    Raises:
        ShapeError: if a size is negative.
    """
    trace, value = _one("full_like", x, fill_value, shape)
    sizes = value.shape if shape is None else sizes_of("full_like", shape)
    fill = lifted("full_like", trace, fill_value)
    wanted = value.dtype if dtype is None else dtype_of(dtype)
    fill = converted(trace, fill, wanted)
    return Tracer(trace, trace.emit("broadcast_in_dim", fill, shape=sizes, dims=()) if sizes else fill)
