"""Arrays put together and taken apart.

This file is longer than most: half of it says what each function takes and gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import InvalidValueError, ShapeError, UnsupportedOpError
from dyn.numpy._axes import all_axes, one_axis, shape_in, text_of, times_in
from dyn.numpy._binary import remainder
from dyn.numpy._broadcast import expand
from dyn.numpy._indexing.getitem import getitem
from dyn.numpy._indexing.nonzero import scattered
from dyn.numpy._manipulation import atleast_3d, expand_dims, view
from dyn.numpy._operands import (
    cast,
    constant,
    demand_none,
    emit,
    in_int64,
    made,
    operand,
    promote,
    shape_of,
    size_from_value,
    size_in,
    tracer,
    vector_of,
)
from dyn.numpy._public import Array, ArrayLike, Axis, DTypeLike, Shape, Size, found_trace, public
from dyn.shapes import Dim, Reason, Relation, RelKind, broadcast, dim_max, dim_min, floordiv, format_dim, mod, product
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.dims import wrap_dim
from dyn.trace.lift import dtype_of
from dyn.trace.tracer import Tracer

__all__ = [
    "array_split", "column_stack", "concat", "concatenate", "dsplit", "dstack", "hsplit", "hstack", "repeat", "roll",
    "split", "stack", "tile", "unstack", "vsplit", "vstack",
]  # fmt: skip


# ---- together --------------------------------------------------------------------------------------------------------


@public
def concatenate(arrays: Sequence[ArrayLike], /, axis: int | None = 0, *, dtype: DTypeLike = None) -> Array:
    """Arrays one after the other along an axis that they have.

    Sizes along it add up, symbolic ones to an expression such as ``n + m``; the other sizes have to be equal.

    Args:
        arrays: list or tuple of arrays of any dtypes, of one rank.
        axis: axis along which they follow one another; None: all elements of each, in one axis.
        dtype: dtype of the result; None: the one that all promote to.

    Returns:
        An array of that dtype.

    Raises:
        ShapeError: if other sizes differ: at once where that is proved, otherwise when called; if there is no array.

    Example:
        >>> dnp.concatenate([np.array([1, 2]), np.array([3])])
        array([1, 2, 3])
    """
    values = _several("concatenate", arrays)
    if dtype is not None:
        values = [cast(v, dtype_of(dtype)) for v in values]
    if axis is None:
        values = [view(v, (product(shape_of(v)),)) for v in values]
    number = one_axis("concatenate", 0 if axis is None else axis, values[0].ndim)
    _check_joined("concatenate", values, number)
    return values[0] if len(values) == 1 else emit("concatenate", *values, dimension=number)


concat = concatenate


def _several(what: str, arrays: Sequence[ArrayLike]) -> list[Tracer]:
    if not isinstance(arrays, list | tuple) or not arrays:
        raise ShapeError(f"{what} takes a list of at least one array.", loc=user_loc(), remedy=f"write {what}([x, y]).")
    return promote(what, *arrays)


def _check_joined(what: str, values: list[Tracer], axis: int | None) -> None:
    """Refuse arrays that differ on another axis than ``axis``, or on any where it is None."""
    facts, first = values[0]._trace.facts, shape_of(values[0])
    for other in values[1:]:
        dims = shape_of(other)
        bad = "the numbers of axes differ" if len(dims) != len(first) else ""
        for a, (d, e) in enumerate(zip(first, dims, strict=False)):
            if not bad and a != axis and facts.eq(d, e).refuted:
                bad = f"axis {a} has {format_dim(d)} and {format_dim(e)} elements"
        if bad:
            raise ShapeError(
                f"{what}: {text_of(values[0])} and {text_of(other)} do not fit: {bad}.",
                loc=user_loc(),
                remedy="all axes have to be equal." if axis is None else f"all axes but axis {axis} have to be equal.",
            )


@public
def stack(arrays: Sequence[ArrayLike], /, axis: int = 0) -> Array:
    """Arrays one after the other along a new axis.

    Args:
        arrays: list or tuple of arrays of any dtypes, of one shape.
        axis: place of the new axis in the result.

    Returns:
        An array of one more axis, in the dtype that all promote to.

    Raises:
        ShapeError: if shapes differ: at once where that is proved, otherwise when called; if there is no array.

    Example:
        >>> dnp.stack([np.array([1, 2]), np.array([3, 4])], axis=1)
        array([[1, 3],
               [2, 4]])
    """
    values = _several("stack", arrays)
    number = one_axis("stack", axis, values[0].ndim + 1)
    _check_joined("stack", values, None)
    return concatenate([expand_dims(v, number) for v in values], number)


@public
def vstack(arrays: Sequence[ArrayLike], /) -> Array:
    """Arrays one below the other: along the first axis, vectors as rows.

    Args:
        arrays: list or tuple of arrays of any dtypes.

    Returns:
        An array of two axes or more, in the dtype that all promote to.

    Raises:
        ShapeError: if other sizes differ, at the call at the latest; if there is no array.

    Example:
        >>> dnp.vstack([np.array([1, 2]), np.array([3, 4])])
        array([[1, 2],
               [3, 4]])
    """
    values = _several("vstack", arrays)
    return concatenate([view(v, (1,) * (2 - v.ndim) + shape_of(v)) if v.ndim < 2 else v for v in values], 0)


@public
def hstack(arrays: Sequence[ArrayLike], /) -> Array:
    """Arrays one beside the other: along the second axis, vectors along their only one.

    Args:
        arrays: list or tuple of arrays of any dtypes.

    Returns:
        An array in the dtype that all promote to.

    Raises:
        ShapeError: if other sizes differ, at the call at the latest; if there is no array.

    Example:
        >>> dnp.hstack([np.array([1, 2]), np.array([3])])
        array([1, 2, 3])
    """
    values = [view(v, (1,)) if v.ndim == 0 else v for v in _several("hstack", arrays)]
    return concatenate(values, 0 if values[0].ndim == 1 else 1)


@public
def dstack(arrays: Sequence[ArrayLike], /) -> Array:
    """Arrays one behind the other: along the third axis, which matrices and vectors get.

    Args:
        arrays: list or tuple of arrays of any dtypes.

    Returns:
        An array of three axes or more, in the dtype that all promote to.

    Raises:
        ShapeError: if other sizes differ, at the call at the latest; if there is no array.

    Example:
        >>> dnp.dstack([np.ones((2, 3)), np.ones((2, 3))]).shape
        (2, 3, 2)
    """
    values = [atleast_3d(v) for v in _several("dstack", arrays)]
    return concatenate(values, 2)


@public
def column_stack(arrays: Sequence[ArrayLike], /) -> Array:
    """Vectors as the columns of a matrix, and matrices beside them.

    Args:
        arrays: list or tuple of vectors and matrices of any dtypes.

    Returns:
        An array in the dtype that all promote to.

    Raises:
        ShapeError: if numbers of rows differ, at the call at the latest; if there is no array.

    Example:
        >>> dnp.column_stack([np.array([1, 2]), np.array([3, 4])])
        array([[1, 3],
               [2, 4]])
    """
    values = _several("column_stack", arrays)
    return concatenate([view(v, (v._value.type.size, 1)) if v.ndim < 2 else v for v in values], 1)


@public
def tile(x: ArrayLike, /, reps: Shape) -> Array:
    """Array repeated as a whole along its axes.

    Args:
        x: array of any dtype, of any shape.
        reps: how often along each axis, aligned at the last one: ints, dimensions or traced integers; 0 gives no
            elements.

    Returns:
        An array of the dtype of ``x``, each size times its number.

    Raises:
        ShapeError: if a number is negative, at the call at the latest.

    Example:
        >>> dnp.tile(np.array([1, 2]), (2, 2))
        array([[1, 2, 1, 2],
               [1, 2, 1, 2]])
    """
    value = operand("tile", x, reps)
    times: list[Dim] = list(times_in(value._trace, reps, "tile"))
    rank = max(len(times), value.ndim)
    times = [1] * (rank - len(times)) + times
    dims: list[Dim] = [1] * (rank - value.ndim) + list(shape_of(value))
    pairs = [d for t, n in zip(times, dims, strict=True) for d in (t, n)]
    spread = expand(view(value, tuple(d for n in dims for d in (1, n))), tuple(pairs))
    return view(spread, tuple(t * n for t, n in zip(times, dims, strict=True)))


@public
def repeat(x: ArrayLike, /, repeats: Any, axis: int | None = None, *, total_repeat_length: Size | None = None) -> Array:
    """Each element along an axis several times.

    A vector of numbers that is computed makes an axis as long as their sum: a dim that is found out when the program
    runs.

    Args:
        x: array of any dtype.
        repeats: how often: one number, which may be traced, or a vector with one for each element.
        axis: axis along which elements are repeated; None: all elements, in one axis.
        total_repeat_length: size of the axis, as in JAX: what is more is left out, and the last element stands for what
            is missing.

    Returns:
        An array of the dtype of ``x``.

    Raises:
        ShapeError: if a number is negative, when the function is traced or, of an array of them, when it is called:
            with ``total_repeat_length`` those in an array count for 0.
        UnsupportedOpError: if the numbers are no integers that int64 holds.

    Example:
        >>> dnp.repeat(np.array([1, 2]), np.array([0, 3]))
        array([2, 2, 2])
    """
    value = operand("repeat", x, repeats)
    if axis is None:
        value = view(value, (product(shape_of(value)),))
    number = one_axis("repeat", 0 if axis is None else axis, value.ndim)
    each = repeats
    if isinstance(repeats, list | tuple):
        if any(isinstance(each, list | tuple) for each in repeats):
            raise _no_vector(np.ndim(repeats))
        given = times_in(value._trace, repeats, "repeat")
        plain = all(isinstance(number, int) for number in given)
        every = np.asarray(given, np.int64) if plain else vector_of(value._trace, given)
        each = given[0] if len(given) == 1 else every
        if total_repeat_length is None:
            total_repeat_length = wrap_dim(value._trace, sum(given, 0))
    if getattr(each, "ndim", 0):
        return _repeat_each(value, each, number, total_repeat_length)
    (times,) = times_in(value._trace, each, "repeat")
    dims = shape_of(value)
    before, size, after = dims[:number], dims[number], dims[number + 1 :]
    spread = expand(view(value, (*before, size, 1, *after)), (*before, size, times, *after))
    return view(spread, (*before, size * times, *after))


def _no_vector(rank: int) -> ShapeError:
    return ShapeError(
        f"repeat: the numbers have {rank} axes, and are a vector.", loc=user_loc(), remedy="flatten them."
    )


def _repeat_each(x: Tracer, repeats: Any, axis: int, total: Size | None) -> Tracer:
    """Element ``i`` of an axis ``repeats[i]`` times: each place of the result counts how many have begun before it."""
    trace, size = x._trace, shape_of(x)[axis]
    counts = tracer(trace, repeats, "repeat")
    dtype = counts.element_type
    if counts.ndim != 1:
        raise _no_vector(counts.ndim)
    if dtype.kind not in (Kind.BOOL, Kind.INT, Kind.UINT):
        raise UnsupportedOpError(
            f"repeat takes integers, not {dtype.name}.", loc=user_loc(), remedy="convert them with .astype('int64')."
        )
    times = in_int64(counts)
    text = f"repeat: there is a number for each element of axis {axis}, or one for all"
    given = shape_of(times)[0]
    trace.demand(RelKind.BROADCASTS, given, size, text)
    trace.demand(RelKind.EQ, broadcast(given, size), size, text)
    zero = constant(trace, 0, dtypes.int64)
    if total is None and dtype.kind is Kind.INT:
        below = emit("compare", times, expand(zero, shape_of(times)), direction="LT")
        demand_none(below, "negative", "the number of negative numbers of repeat", "repeat takes no negative numbers")
    times = expand(times, (size,))
    times = emit("maximum", times, expand(zero, shape_of(times)))
    if total is None:
        whole = _sum_without_wrap(times)
        count = size_from_value(whole, "total", "the sum of the numbers of repeat")
    else:
        (count,) = shape_in(trace, total, "repeat")
    ends = emit("cumulative", times, dimension=0, combine="add", reverse=False)
    ones = expand(constant(trace, 1, dtypes.int64), shape_of(ends))
    begun = scattered(expand(zero, (count,)), ends, ones, "add")
    places = emit("cumulative", begun, dimension=0, combine="add", reverse=False)
    return getitem(x, (*[slice(None)] * axis, places))


def _sum_without_wrap(counts: Tracer) -> Tracer:
    """The sum of numbers that are not negative; the greatest of int64, which no array has, where it passes 2^62."""
    whole, near = (
        emit("reduce", v, axes=(0,), combine="add", nonempty=False) for v in (counts, cast(counts, dtypes.float64))
    )
    beyond = emit("compare", near, constant(counts._trace, 2.0**62, dtypes.float64), direction="GE")
    return emit("select", beyond, constant(counts._trace, 2**63 - 1, dtypes.int64), whole)


# ---- apart -----------------------------------------------------------------------------------------------------------


def cut(x: Tracer, axis: int, start: Dim, limit: Dim) -> Tracer:
    """The elements from ``start`` to ``limit`` of an axis; both must be inside."""
    dims = shape_of(x)
    if start == 0 and limit is dims[axis]:
        return x
    starts = tuple(start if a == axis else 0 for a in range(len(dims)))
    limits = tuple(limit if a == axis else d for a, d in enumerate(dims))
    return emit("slice", x, start=starts, limit=limits, strides=(1,) * len(dims))


@public
def split(x: ArrayLike, /, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Parts of an array along an axis, of equal size or at given places.

    Args:
        x: array of any dtype.
        indices_or_sections: int: how many equal parts; list: the places where parts begin, ints or dimensions.
        axis: axis to cut.

    Returns:
        A list of arrays of the dtype of ``x``.

    Raises:
        ShapeError: if the parts cannot be equal: at once where that is proved, otherwise when called; if the number of
            parts is not an int of 1 or more.

    Example:
        >>> dnp.split(np.arange(4), 2)
        [array([0, 1]), array([2, 3])]
    """
    value = operand("split", x)
    number = one_axis("split", axis, value.ndim)
    size = shape_of(value)[number]
    if isinstance(indices_or_sections, list | tuple):
        return _split_at(value, number, indices_or_sections)
    parts = _parts("split", indices_or_sections)
    if value._trace.facts.divides(parts, size).refuted:
        raise ShapeError(
            f"split: axis {number} of {text_of(value)} cannot be cut in {parts} equal parts.",
            loc=user_loc(),
            remedy="use array_split, or a list of indices.",
        )
    reason = Reason(f"split cuts axis {number} in {parts} equal parts", user_loc())
    value._trace.require(Relation(RelKind.DIVIDES, parts, size, reason))
    each = value._trace.facts.simplify(floordiv(size, parts))
    return [cut(value, number, each * i, each * (i + 1)) for i in range(parts)]


def _parts(what: str, sections: Any) -> int:
    index = getattr(type(sections), "__index__", None)
    parts = int(index(sections)) if index is not None else 0
    if parts < 1:
        raise ShapeError(
            f"{what}: {sections!r} is no number of parts.", loc=user_loc(), remedy="use an int of 1 or more."
        )
    return parts


def _split_at(x: Tracer, axis: int, places: Sequence[Any]) -> list[Tracer]:
    """The slices between neighbouring places, which count from the end where they are negative."""
    wrapped = [p if isinstance(p, Tracer) else wrap_dim(x._trace, size_in(x._trace, p, "split")) for p in places]
    lead = (slice(None),) * axis
    return [getitem(x, (*lead, slice(low, high))) for low, high in pairwise([None, *wrapped, None])]


@public
def array_split(x: ArrayLike, /, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Parts of an array along an axis, the first ones longer by one element where it does not go out even.

    Args:
        x: array of any dtype.
        indices_or_sections: int: how many parts; list: the places where parts begin, ints or dimensions.
        axis: axis to cut.

    Returns:
        A list of arrays of the dtype of ``x``; some are empty where there are fewer elements than parts.

    Raises:
        ShapeError: if the number of parts is not an int of 1 or more.

    Example:
        >>> dnp.array_split(np.arange(5), 2)
        [array([0, 1, 2]), array([3, 4])]
    """
    value = operand("array_split", x)
    number = one_axis("array_split", axis, value.ndim)
    if isinstance(indices_or_sections, list | tuple):
        return split(value, indices_or_sections, number)
    parts = _parts("array_split", indices_or_sections)
    size = shape_of(value)[number]
    each, longer = floordiv(size, parts), mod(size, parts)
    bounds = [value._trace.facts.simplify(each * i + dim_min(longer, i)) for i in range(parts)] + [size]
    return [cut(value, number, low, high) for low, high in pairwise(bounds)]


def _along(what: str, x: ArrayLike, indices_or_sections: Any, axis: int, rank: int) -> list[Tracer]:
    value = operand(what, x)
    if value.ndim < rank:
        raise ShapeError(
            f"{what}: {text_of(value)} has fewer than {rank} axes.",
            loc=user_loc(),
            remedy="use split, and name the axis.",
        )
    return split(value, indices_or_sections, axis)


@public
def hsplit(x: ArrayLike, /, indices_or_sections: Any) -> list[Array]:
    """Parts of an array along its second axis, of a vector along its only one: see :func:`split`.

    Args:
        x: array of any dtype, of one axis or more.
        indices_or_sections: int: how many equal parts; list: the places where parts begin.

    Returns:
        A list of arrays of the dtype of ``x``.

    Raises:
        ShapeError: if the parts cannot be equal, at the call at the latest, or ``x`` has no axes.
    """
    value = operand("hsplit", x)
    return _along("hsplit", value, indices_or_sections, 0 if value.ndim == 1 else 1, 1)


@public
def vsplit(x: ArrayLike, /, indices_or_sections: Any) -> list[Array]:
    """Parts of an array along its first axis: see :func:`split`.

    Args:
        x: array of any dtype, of two axes or more.
        indices_or_sections: int: how many equal parts; list: the places where parts begin.

    Returns:
        A list of arrays of the dtype of ``x``.

    Raises:
        ShapeError: if the parts cannot be equal, at the call at the latest, or ``x`` has fewer than two axes.
    """
    return _along("vsplit", x, indices_or_sections, 0, 2)


@public
def dsplit(x: ArrayLike, /, indices_or_sections: Any) -> list[Array]:
    """Parts of an array along its third axis: see :func:`split`.

    Args:
        x: array of any dtype, of three axes or more.
        indices_or_sections: int: how many equal parts; list: the places where parts begin.

    Returns:
        A list of arrays of the dtype of ``x``.

    Raises:
        ShapeError: if the parts cannot be equal, at the call at the latest, or ``x`` has fewer than three axes.
    """
    return _along("dsplit", x, indices_or_sections, 2, 3)


def unstack(x: ArrayLike, /, axis: int = 0) -> tuple[Array, ...]:
    """Arrays that stand along an axis, without it.

    Args:
        x: array of any dtype, of one axis or more.
        axis: axis to take apart: its size is static, as it says how many arrays there are.

    Returns:
        A tuple of arrays of the dtype of ``x``.

    Raises:
        ShapeError: if the size is symbolic, or ``axis`` is not one of ``x``.

    Example:
        >>> dnp.unstack(np.array([[1, 2], [3, 4]]))
        (array([1, 2]), array([3, 4]))
    """
    if found_trace(x) is None:
        number = one_axis("unstack", axis, x.ndim)
        return tuple(x[(*(slice(None),) * number, place, ...)] for place in range(x.shape[number]))
    value = operand("unstack", x)
    number = one_axis("unstack", axis, value.ndim)
    dims = shape_of(value)
    count = dims[number]
    if not isinstance(count, int):
        raise ShapeError(
            f"unstack: axis {number} of {text_of(value)} has no static size, so how many arrays it gives is open.",
            loc=user_loc(),
            remedy="declare the size with shapes=, or compute on the whole array.",
        )
    rest = (*dims[:number], *dims[number + 1 :])
    return tuple(view(cut(value, number, i, i + 1), rest) for i in range(count))


# ---- moved -----------------------------------------------------------------------------------------------------------


@public
def roll(x: ArrayLike, /, shift: Any, axis: Axis = None) -> Array:
    """Elements moved along an axis, those that leave it at one end coming in at the other.

    Args:
        x: array of any dtype.
        shift: by how many places: an int, a dimension, or a traced integer; or one for each axis; negative ones move
            back.
        axis: axis or axes; None: all elements in their order.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        InvalidValueError: if there are not as many shifts as axes.
        ShapeError: if an axis is not one of ``x``.

    Example:
        >>> dnp.roll(np.arange(5), 2)
        array([3, 4, 0, 1, 2])
    """
    value = operand("roll", x, shift)
    if axis is None:
        return view(roll(view(value, (product(shape_of(value)),)), shift, 0), shape_of(value))
    axes = all_axes("roll", axis, value.ndim) if not isinstance(axis, tuple | list) else tuple(axis)
    if isinstance(shift, np.ndarray) and shift.ndim == 1:
        shift = shift.tolist()
    elif isinstance(shift, Tracer) and shift.ndim == 1 and isinstance(shape_of(shift)[0], int):
        shift = [getitem(shift, place) for place in range(len(shift))]
    shifts = tuple(shift) if isinstance(shift, tuple | list) else (shift,)
    count = max(len(axes), len(shifts))
    axes, shifts = (v * count if len(v) == 1 else v for v in (axes, shifts))
    if len(axes) != len(shifts):
        raise InvalidValueError(
            f"roll: there are {len(shifts)} shifts and {len(axes)} axes.",
            loc=user_loc(),
            remedy="give one shift for each axis, or one for all.",
        )
    for a, s in zip(axes, shifts, strict=True):
        number = one_axis("roll", a, value.ndim)
        size = shape_of(value)[number]
        # Of an empty axis nothing moves; the divisor only has to be a number.
        first = value._trace.facts.simplify(size - _shift_in(value._trace, s, dim_max(size, 1)))
        value = emit("concatenate", cut(value, number, first, size), cut(value, number, 0, first), dimension=number)
    return value


def _shift_in(trace: Trace, shift: Any, size: Dim) -> Dim:
    """Places to roll an axis of a size of 1 or more by, from 0 on: the rest of the shift, of any sign and size."""
    if not isinstance(shift, Tracer) or shift.ndim or not shift.element_type.is_integer:
        return mod(size_in(trace, shift, "roll"), size)
    wide = dtypes.uint64 if shift.element_type is dtypes.uint64 else dtypes.int64
    divisor = made(trace, "dim_size", size=size, dtype=wide)
    rest = remainder(cast(tracer(trace, shift, "roll"), wide), divisor)
    return size_from_value(rest, "shift", "the places that roll moves elements by", size)
