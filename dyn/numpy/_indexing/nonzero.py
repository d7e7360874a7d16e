"""Selections by masks: results with one element for each true one, as many as the values say.

The number of true elements is counted and becomes a dim (``dyn.trace.data_dependent``); the places of the true
elements are then compacted into an array of that size. Of one mask there is one number: ``x[m] + y[m]`` have the same
shape.
"""

from __future__ import annotations

from typing import Any

from dyn import dtypes
from dyn.errors import ShapeError
from dyn.numpy._axes import one_axis, text_of
from dyn.numpy._binary import floor_divide, remainder
from dyn.numpy._broadcast import expand
from dyn.numpy._indexing.take import take
from dyn.numpy._logic import truth
from dyn.numpy._manipulation import view
from dyn.numpy._operands import cast, constant, emit, made, operand, shape_of, size_in, tracer
from dyn.numpy._public import Array, ArrayLike, Size, public
from dyn.ops.indexing.scatter import scatter_attrs
from dyn.shapes import Dim, Reason, Relation, RelKind, product
from dyn.source import user_loc
from dyn.trace.data_dependent import dim_from_value, memoized_dim
from dyn.trace.dims import wrap_dim
from dyn.trace.tracer import Tracer

__all__ = ["argwhere", "compress", "extract", "flatnonzero", "nonzero"]


@public
def nonzero(x: ArrayLike, /, *, size: Size | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """Places of the elements that are not 0, in row-major order: an array of indices for each axis.

    How many there are is a dim of its own, ``count``, between 0 and the number of elements: the program goes on
    computing with it.

    Args:
        x: array of any dtype, of one axis or more.
        size: None: as many as there are, a dim that is found out when the program runs; an int or a dimension: so many,
            what is more being left out.
        fill_value: index for places that are missing, one number, or one for each axis; None: 0.

    Returns:
        A tuple of vectors of int64, all of one size.

    Raises:
        ShapeError: if ``x`` has no axes.

    Example:
        >>> dnp.nonzero(np.array([[3, 0], [0, 5]]))
        (array([0, 1]), array([0, 1]))
        >>> dyn.jit(lambda x: x[dnp.nonzero(x)] * 2)(np.array([3, 0, 5]))
        array([ 6, 10])
    """
    value = operand("nonzero", x, size)
    if value.ndim == 0:
        raise ShapeError(
            "nonzero: an array without axes has no places.",
            loc=user_loc(),
            remedy="pass dyn.numpy.reshape(x, (1,)), or take the array itself for a number.",
        )
    return places_of(value, size, fill_value)


def places_of(x: Tracer, size: Size | None = None, fill_value: Any = None) -> tuple[Tracer, ...]:
    """The places of what is not 0 in an array of at least one axis."""
    flat = flat_places(x, size)
    dims, found = shape_of(x), list[Tracer]()
    for axis in range(len(dims)):
        inner = product(dims[axis + 1 :])
        place = flat if inner == 1 else floor_divide(flat, wrap_dim(x._trace, inner))
        found.append(place if axis == 0 else remainder(place, wrap_dim(x._trace, dims[axis])))
    if size is None or fill_value is None:
        return tuple(found)
    fills = fill_value if isinstance(fill_value, tuple | list) else [fill_value] * len(dims)
    there = _below_count(x, shape_of(flat)[0])
    return tuple(
        emit("select", there, place, expand(constant(x._trace, fill, dtypes.int64), shape_of(place)))
        for place, fill in zip(found, fills, strict=True)
    )


def flat_places(x: Tracer, size: Size | None = None) -> Tracer:
    """The places of what is not 0 among all elements, in a dim that is measured; 0 where ``size`` asks for more."""
    if size is not None:
        return _packed(x, size_in(x._trace, size, "nonzero"))
    value, _ = memoized_dim(x._trace, ("nonzero", x._value), lambda: _measured(x))
    return Tracer(x._trace, value)


def _measured(x: Tracer) -> tuple[Any, Dim]:
    count = dim_from_value(
        x._trace, _count(x)._value, "count", f"the number of nonzero elements of {text_of(x)}", x._value.type.size
    )
    return _packed(x, count)._value, count


def _flat_mask(x: Tracer) -> Tracer:
    return view(truth(x), (x._value.type.size,))


def _count(x: Tracer) -> Tracer:
    return emit("reduce", cast(_flat_mask(x), dtypes.int64), axes=(0,), combine="add", nonempty=False)


def _below_count(x: Tracer, size: Dim) -> Tracer:
    numbers = made(x._trace, "iota", shape=(size,), dimension=0, dtype=dtypes.int64)
    return emit("compare", numbers, expand(_count(x), (size,)), direction="LT")


def _packed(x: Tracer, size: Dim) -> Tracer:
    """The places of what is not 0, in an array of ``size``."""
    mask = _flat_mask(x)
    numbers = made(x._trace, "iota", shape=shape_of(mask), dimension=0, dtype=dtypes.int64)
    return pack(numbers, mask, size)


def pack(values: Tracer, mask: Tracer, size: Dim) -> Tracer:
    """Elements of a vector where a mask is true: an array of ``size``, with zeros where there are fewer."""
    return emit("compact", truth(mask), values, dimension=0, size=size)


def scattered(x: Tracer, places: Tracer, values: Tracer, combine: str) -> Tracer:
    """A vector with ``values``, of the shape of ``places``, combined into it there; what lies outside is left out."""
    attrs = scatter_attrs(
        combine, update_window_dims=(), scatter_dims_to_operand_dims=(0,), index_vector_dim=places.ndim,
        inserted_window_dims=(0,),
    )  # fmt: skip
    return emit("scatter", x, places, values, **attrs)


# ---- by mask ---------------------------------------------------------------------------------------------------------


def merged_by_mask(x: Tracer, mask: Tracer) -> tuple[Tracer, Tracer]:
    """``x`` with the axes that a mask of its first ones has as one axis, and the places that the mask takes of it."""
    check_mask(x, 0, mask)
    merged = view(x, (mask._value.type.size, *shape_of(x)[mask.ndim :]))
    return merged, flat_places(mask)


def mask_indices(x: Tracer, axis: int, mask: Tracer) -> tuple[Tracer, ...]:
    """The places that a mask takes of the axes of ``x`` from ``axis`` on; demands that it has their sizes."""
    check_mask(x, axis, mask)
    return places_of(mask)


def check_mask(x: Tracer, axis: int, mask: Tracer) -> None:
    """Demand that a mask has the sizes of the axes of ``x`` from ``axis`` on."""
    trace = x._trace
    for number, size in enumerate(shape_of(mask)):
        own = shape_of(x)[axis + number]
        text = f"axis {number} of a mask has the size of axis {axis + number} of {text_of(x)}"
        trace.require(Relation(RelKind.EQ, own, size, Reason(text, user_loc())))


@public
def flatnonzero(x: ArrayLike, /, *, size: Size | None = None, fill_value: Any = None) -> Array:
    """Places of the elements that are not 0, counted through all axes in row-major order.

    Args:
        x: array of any dtype, of any shape.
        size: None: as many as there are, a dim that is found out when the program runs; an int or a dimension: so many,
            what is more being left out.
        fill_value: index for places that are missing; None: 0.

    Returns:
        A vector of int64.

    Example:
        >>> dnp.flatnonzero(np.array([[3, 0], [0, 5]]))
        array([0, 3])
    """
    value = operand("flatnonzero", x, size)
    return places_of(view(value, (value._value.type.size,)), size, fill_value)[0]


@public
def argwhere(x: ArrayLike, /, *, size: Size | None = None, fill_value: Any = None) -> Array:
    """Places of the elements that are not 0, in row-major order: a row for each.

    Args:
        x: array of any dtype, of any shape.
        size: None: as many as there are, a dim that is found out when the program runs; an int or a dimension: so many,
            what is more being left out.
        fill_value: index for places that are missing, one number, or one for each axis; None: 0.

    Returns:
        A matrix of int64, with as many columns as ``x`` has axes.

    Example:
        >>> dnp.argwhere(np.array([[3, 0], [0, 5]]))
        array([[0, 0],
               [1, 1]])
    """
    value = operand("argwhere", x, size)
    if value.ndim == 0:  # a row without places, or none
        (count,) = shape_of(flat_places(view(value, (1,)), size))
        return expand(constant(value._trace, 0, dtypes.int64), (count, 0))
    places = places_of(value, size, fill_value)
    columns = [view(place, (*shape_of(place), 1)) for place in places]
    return columns[0] if len(columns) == 1 else emit("concatenate", *columns, dimension=1)


@public
def compress(condition: ArrayLike, x: ArrayLike, /, axis: int | None = None) -> Array:
    """Elements along an axis at which a vector is not 0.

    How many there are is a dim of its own, found out when the program runs. The vector may be shorter than the axis:
    what it has nothing to say of is left out.

    Args:
        condition: vector of any dtype.
        x: array of any dtype.
        axis: axis to choose along; None: all elements, in one axis.

    Returns:
        An array of the dtype of ``x``.

    Raises:
        ShapeError: if ``condition`` is no vector, or longer than the axis, at the call at the latest.

    Example:
        >>> dnp.compress(np.array([False, True]), np.array([[1, 2], [3, 4]]), axis=0)
        array([[3, 4]])
    """
    value = operand("compress", x, condition)
    if axis is None:
        value = view(value, (value._value.type.size,))
    number = one_axis("compress", 0 if axis is None else axis, value.ndim)
    trace = value._trace
    mask = tracer(trace, condition, "compress")
    if mask.ndim != 1:
        raise ShapeError(
            f"compress: the condition has {mask.ndim} axes, and is a vector.", loc=user_loc(), remedy="flatten it."
        )
    text = f"compress: the condition is no longer than axis {number} of {text_of(value)}"
    trace.demand(RelKind.GE, shape_of(value)[number], shape_of(mask)[0], text)
    return take(value, places_of(mask)[0], axis=number)


@public
def extract(condition: ArrayLike, x: ArrayLike, /) -> Array:
    """Elements of an array at which another one is not 0.

    How many there are is a dim of its own, found out when the program runs.

    Args:
        condition: array of any dtype, with as many elements as ``x``.
        x: array of any dtype.

    Returns:
        A vector of the dtype of ``x``.

    Raises:
        ShapeError: if there are not as many elements, at the call at the latest.

    Example:
        >>> dnp.extract(np.array([True, False, True]), np.array([1, 2, 3]))
        array([1, 3])
    """
    value = operand("extract", x, condition)
    trace = value._trace
    mask, flat = tracer(trace, condition, "extract"), view(value, (value._value.type.size,))
    trace.demand(
        RelKind.EQ, flat._value.type.size, mask._value.type.size, "extract: the condition has as many elements"
    )
    return take(flat, flat_places(mask))
