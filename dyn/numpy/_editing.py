"""Arrays with elements added, left out or replaced. What changes its argument gives a new array with ``inplace=False``.

This file is longer than most: half of it says what each function takes and gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import ShapeError, UnsupportedOpError
from dyn.numpy._axes import one_axis, shape_in, text_of
from dyn.numpy._binary import clip, remainder
from dyn.numpy._broadcast import align, expand
from dyn.numpy._changing import changing
from dyn.numpy._cumulative import cumsum
from dyn.numpy._diagonal import diag
from dyn.numpy._indexing.getitem import getitem
from dyn.numpy._indexing.index import SliceRange, is_number, position, select
from dyn.numpy._indexing.nonzero import scattered
from dyn.numpy._indexing.selection import where
from dyn.numpy._indexing.take import in_int64, put_along_axis, size_of
from dyn.numpy._joining import concatenate
from dyn.numpy._logic import truth
from dyn.numpy._manipulation import broadcast_to, moveaxis, view
from dyn.numpy._operands import cast, constant, emit, made, operand, promote, shape_of, vector_of
from dyn.numpy._options import no_choice, one_of
from dyn.numpy._public import Array, ArrayLike, Shape, public
from dyn.numpy._sorting.search import array_of, never_empty
from dyn.numpy._sorting.sort import argsort
from dyn.ops.indexing.gather import take_attrs
from dyn.shapes import Dim, RelKind, product
from dyn.source import user_loc
from dyn.trace.dims import SymbolicDim, wrap_dim
from dyn.trace.tracer import Tracer

__all__ = [
    "append", "block", "choose", "delete", "diagflat", "fill_diagonal", "insert", "piecewise", "place", "put", "resize",
    "rollaxis",
]  # fmt: skip


def _flat(x: Tracer) -> Tracer:
    return view(x, (product(shape_of(x)),))


def _cycled(values: Tracer, count: Array, places: Tracer) -> Tracer:
    """Elements of a vector at places that go round it."""
    some = never_empty(values, 0)
    turn = where(count > 0, count, 1)
    return emit("gather", some, remainder(places, turn), **take_attrs(shape_of(some), 0, places.ndim))


# ---- longer and shorter ----------------------------------------------------------------------------------------------


@public
def append(x: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Array with others behind it, along an axis or as one vector.

    Args:
        x: array of any dtype.
        values: array to put behind it, equal in all other sizes.
        axis: axis to go on along; None: all elements of both, in one axis.

    Returns:
        An array in the dtype that both promote to.

    Raises:
        ShapeError: if other sizes differ, at the call at the latest.

    Example:
        >>> dnp.append(np.array([1, 2]), np.array([3]))
        array([1, 2, 3])
    """
    parts = [array_of("append", v, x, values) for v in (x, values)]
    return concatenate(parts, axis=axis)


@public
def resize(x: ArrayLike, new_shape: Shape) -> Array:
    """Elements gone through again and again until a shape is full.

    Args:
        x: array of any dtype; of no elements it gives zeros.
        new_shape: size or sizes, ints or dimensions.

    Returns:
        An array of that shape, in the dtype of ``x``.

    Raises:
        ShapeError: if a size is negative.

    Example:
        >>> dnp.resize(np.array([1, 2, 3]), (2, 4))
        array([[1, 2, 3, 1],
               [2, 3, 1, 2]])
    """
    value = array_of("resize", x, new_shape)
    dims = shape_in(value._trace, new_shape, "resize")
    flat = _flat(value)
    return view(_cycled(flat, size_of(flat, shape_of(flat)[0]), _numbers(flat, product(dims))), dims)


def _computed_places(what: str, x: Tracer, obj: Any) -> Tracer | None:
    """Places that the program computes, as a scalar or a vector of integers or a mask; None for those known now."""
    trace = x._trace
    if isinstance(obj, list | tuple):
        if not any(isinstance(i, Tracer) or (isinstance(i, SymbolicDim) and len(obj) > 1) for i in obj):
            return None
        if not all(map(is_number, obj)):
            raise _no_places(what, obj)
        return vector_of(trace, obj)
    if not isinstance(obj, Tracer):
        return None
    if not (obj.element_type.is_integer or (obj.element_type.kind is Kind.BOOL and obj.ndim)):
        raise _no_places(what, [obj])
    if obj.ndim > 1:
        raise ShapeError(
            f"{what}: the places {text_of(obj)} have {obj.ndim} axes.",
            loc=user_loc(),
            remedy="pass places.reshape(-1).",
        )
    # One place in a vector is one place: the size of the result is known.
    return view(obj, ()) if what == "delete" and shape_of(obj) == (1,) and obj.element_type.is_integer else obj


def _no_places(what: str, given: Sequence[Any]) -> UnsupportedOpError:
    kinds = ", ".join(sorted({str(i._value.type) if isinstance(i, Tracer) else type(i).__name__ for i in given}))
    return UnsupportedOpError(
        f"{what}: the places are of type {kinds}, not integers.",
        loc=user_loc(),
        remedy="use integers, dimensions, lists or arrays of integers, or slices.",
    )


def _places(what: str, obj: Any, x: Tracer, axis: int, behind: int) -> list[tuple[int, Any]]:
    """Places that are known while tracing: a number that orders them, and the position from the front.

    They are ints, below 0 counted from the end, or one dimension; up to ``behind`` places behind the last element are
    allowed.
    """
    if isinstance(obj, np.ndarray | np.generic):
        obj = obj.tolist()
    given: list[Any] = list(obj) if isinstance(obj, list | tuple) else [obj]
    if len(given) == 1 and isinstance(given[0], SymbolicDim):
        return [(0, wrap_dim(x._trace, position(x, axis, given[0], behind=behind)))]
    if any(isinstance(i, bool) or not isinstance(i, int) for i in given):
        raise _no_places(what, given)
    size = shape_of(x)[axis]
    if len({i < 0 for i in given}) > 1 and not isinstance(size, int):
        raise UnsupportedOpError(
            f"{what}: places are counted from both ends of axis {axis} of {text_of(x)}, whose size is not known.",
            loc=user_loc(),
            remedy="count them all from one end.",
        )
    for i in given:
        text = f"{what}: place {i} is inside of axis {axis}"
        x._trace.demand(RelKind.GE, size + behind, i + 1 if i >= 0 else behind - i, text)
    if isinstance(size, int):
        return [(i % (size + behind) if i >= 0 else size + i, i if i >= 0 else size + i) for i in given]
    return [(i, i if i >= 0 else wrap_dim(x._trace, size + i)) for i in given]


def _from_front(places: Tracer, size: Array) -> Array:
    """Computed places in int64, counted from the front where they are negative."""
    whole: Array = in_int64(places)
    return where(whole < 0, whole + size, whole)


def _numbers(x: Tracer, count: Dim) -> Array:
    return made(x._trace, "iota", shape=(count,), dimension=0, dtype=dtypes.int64)


def _taken(x: Tracer, axis: int, places: Tracer) -> Tracer:
    return emit("gather", x, places, **take_attrs(shape_of(x), axis, 1))


def _along(x: Tracer, axis: int, part: Any) -> Tracer:
    return getitem(x, (slice(None),) * axis + (part,))


def _slice_of(what: str, x: Tracer, axis: int, obj: slice) -> SliceRange:
    """The elements that a slice takes; of a step other than 1 only where the size is known."""
    chosen = select(x, (slice(None),) * axis + (obj,)).ranges[axis]
    if (chosen.step != 1 or chosen.backwards) and not isinstance(shape_of(x)[axis], int):
        raise UnsupportedOpError(
            f"{what}: a slice with the step {obj.step} of axis {axis} of {text_of(x)}, whose size is not known.",
            loc=user_loc(),
            remedy="use a slice without a step.",
        )
    return chosen


@public
def delete(x: ArrayLike, obj: Any, axis: int | None = None) -> Array:
    """Array without what is at some places along an axis.

    Args:
        x: array of any dtype.
        obj: an integer, a list or an array of integers, or a slice: places, from the end where they are negative; or an
            array of booleans, true for what is left out.
        axis: the axis; None: all elements, in one axis.

    Returns:
        An array of the dtype of ``x``. Places that are known while tracing, a dimension and one computed integer give a
        size that is known then too; of several computed places and of a mask it is known when the program runs.

    Raises:
        ShapeError: for places that are not there, when called at the latest. Of a computed integer it is the nearest
            element there is, as in ``x[i]``; of several computed ones those that are not there are left out.
        UnsupportedOpError: if places are not integers, or are counted from both ends of a symbolic size.

    Example:
        >>> dnp.delete(np.array([1, 2, 3]), 1)
        array([1, 3])
    """
    value = array_of("delete", x, obj)
    if axis is None:
        value = _flat(value)
    number = one_axis("delete", 0 if axis is None else axis, value.ndim)
    trace, size = value._trace, shape_of(value)[number]
    if isinstance(obj, slice):
        taken = _slice_of("delete", value, number, obj)
        if taken.step == 1 and not taken.backwards:
            first, last = wrap_dim(trace, taken.start), wrap_dim(trace, taken.start + taken.length)
            return concatenate([_along(value, number, slice(None, first)), _along(value, number, slice(last, None))],
                               axis=number)  # fmt: skip
        assert isinstance(size, int)
        obj = list(range(*obj.indices(size)))
    elif isinstance(obj, list | tuple | np.ndarray) and {type(i) for i in obj} in ({bool}, {np.bool_}):
        trace.demand(RelKind.EQ, size, len(obj), f"delete: a mask has the size of axis {number} of {text_of(value)}")
        obj = np.flatnonzero(obj)
    computed = _computed_places("delete", value, obj)
    if computed is None:
        places = dict(sorted(_places("delete", obj, value, number, 0)))
        bounds = [None, *(p for p in places.values())]
        parts: list[Tracer] = []
        for low, high in zip(bounds, [*bounds[1:], None], strict=True):
            parts.append(_along(value, number, slice(None if low is None else low + 1, high)))
        return concatenate(parts, axis=number)
    if computed.element_type.kind is Kind.BOOL:
        return _along(value, number, emit("not", computed))
    place = _from_front(computed, size_of(value, size))
    if computed.ndim:
        here = emit("broadcast_in_dim", constant(trace, True, dtypes.bool_), shape=(size,), dims=())
        gone = emit("broadcast_in_dim", constant(trace, False, dtypes.bool_), shape=shape_of(computed), dims=())
        return _along(value, number, scattered(here, place, gone, "replace"))
    trace.demand(RelKind.GE, size, 1, f"delete: axis {number} has an element")
    left = _numbers(value, trace.facts.simplify(size - 1))
    return _taken(value, number, where(left < clip(place, 0, None), left, left + 1))


@public
def insert(x: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """Array with others between its elements, before given places along an axis.

    Args:
        x: array of any dtype.
        obj: an integer, a list or an array of integers, or a slice: places in ``x``, from the end where they are
            negative, up to the one behind the last element.
        values: array that is converted to the dtype of ``x``. Before a single place go all of ``values`` along the
            axis, before each of several one of them. A vector of places whose size is not known is taken for several.
        axis: the axis; None: all elements, in one axis.

    Returns:
        An array of the dtype of ``x``.

    Raises:
        ShapeError: for places that are not there, when called at the latest; computed ones are moved to the nearest
            that is. If ``values`` do not broadcast.
        UnsupportedOpError: if places are not integers, or are counted from both ends of a symbolic size.

    Example:
        >>> dnp.insert(np.array([1, 3]), 1, 2)
        array([1, 2, 3])
    """
    value = array_of("insert", x, obj, values)
    if axis is None:
        value = _flat(value)
    number = one_axis("insert", 0 if axis is None else axis, value.ndim)
    size = shape_of(value)[number]
    new = cast(array_of("insert", values, value), value.element_type)
    if isinstance(obj, slice):
        if isinstance(size, int):
            obj = list(range(*obj.indices(size)))
        else:
            obj = _numbers_of(value, select(value, (slice(None),) * number + (obj,)).ranges[number], size)
    computed = _computed_places("insert", value, obj)
    if computed is None:
        return _before_known(value, number, obj, new)
    if computed.element_type.kind is Kind.BOOL:
        raise _no_places("insert", [computed])
    place = clip(_from_front(computed, size_of(value, size)), 0, size_of(value, size))
    if computed.ndim and shape_of(computed) != (1,):
        new = _spread(value, number, new, shape_of(computed)[0])
        places = concatenate([place, _numbers(value, size)])  # what is new comes before the element at its place
        both = concatenate([new, value], axis=number)
        return _taken(never_empty(both, number), number, argsort(places))
    new = _at_one(value, number, new, scalar=not computed.ndim)
    both, count = concatenate([value, new], axis=number), shape_of(new)[number]
    first: Array = view(place, ())
    behind: Array = size_of(value, count)
    k = _numbers(value, value._trace.facts.simplify(size + count))
    moved = where(k < first + behind, k - first + size_of(value, size), k - behind)
    return _taken(never_empty(both, number), number, where(k < first, k, moved))


def _numbers_of(x: Tracer, taken: SliceRange, size: Dim) -> Tracer:
    """The places that a slice takes of an axis of ``size``."""
    whole: Array = size_of(x, size)
    places = _numbers(x, x._trace.facts.simplify(taken.count)) * taken.step + size_of(x, taken.start)
    return whole - 1 - places if taken.backwards else places


def _before_known(x: Tracer, axis: int, obj: Any, new: Tracer) -> Tracer:
    """``x`` with ``new`` at places that are known while tracing."""
    several = isinstance(obj, list | tuple | np.ndarray)
    places = _places("insert", obj, x, axis, 1)
    if not several or len(places) == 1:
        new, place = _at_one(x, axis, new, scalar=not several), places[0][1]
        return concatenate([_along(x, axis, slice(None, place)), new, _along(x, axis, slice(place, None))], axis=axis)
    new = _spread(x, axis, new, len(places))
    order = sorted(range(len(places)), key=lambda n: places[n][0])
    parts: list[Tracer] = []
    low: Any = None
    for n in order:
        parts += [_along(x, axis, slice(low, places[n][1])), _along(new, axis, slice(n, n + 1))]
        low = places[n][1]
    return concatenate([*parts, _along(x, axis, slice(low, None))], axis=axis)


def _spread(x: Tracer, axis: int, new: Tracer, count: Dim) -> Tracer:
    """Values with the shape of ``x``, but for ``count`` along the axis."""
    shape = tuple(count if a == axis else d for a, d in enumerate(shape_of(x)))
    return broadcast_to(new, tuple(wrap_dim(x._trace, d) for d in shape))


def _at_one(x: Tracer, axis: int, new: Tracer, *, scalar: bool) -> Tracer:
    """Values that all go to one place: with the shape of ``x``, but for their own size along the axis."""
    if new.ndim < x.ndim:
        new = view(new, (1,) * (x.ndim - new.ndim) + shape_of(new))
    if scalar:
        new = moveaxis(new, 0, axis)  # as in x[i] = values, whose first axis is that of the places
    return _spread(x, axis, new, shape_of(new)[axis])


# ---- put together ----------------------------------------------------------------------------------------------------


@public
def block(arrays: Any) -> Array:
    """Array put together from nested lists: the innermost go along the last axis, those around along others.

    Args:
        arrays: array, or nested lists of arrays, all equally deep.

    Returns:
        An array in the dtype that all promote to, with as many axes as lists are deep or more.

    Raises:
        ShapeError: if lists are empty or not equally deep, or sizes do not fit, at the call at the latest.

    Example:
        >>> dnp.block([[np.eye(2), np.zeros((2, 1))]]).shape
        (2, 3)
    """

    def depth(part: Any) -> int:
        return 1 + max((depth(p) for p in part), default=0) if isinstance(part, list) else 0

    def parts(part: Any) -> list[Any]:
        return [leaf for p in part for leaf in parts(p)] if isinstance(part, list) else [part]

    levels = depth(arrays)
    leaves = [operand("block", p, *parts(arrays)) for p in parts(arrays)]
    rank = max([levels, *(v.ndim for v in leaves)])
    rest = iter(leaves)

    def build(part: Any, level: int) -> Tracer:
        if not isinstance(part, list):
            if level != levels:
                raise ShapeError(
                    f"block: an array stands {level} lists deep, and another one {levels}.",
                    loc=user_loc(),
                    remedy="nest all arrays equally deep.",
                )
            own = next(rest)
            return view(own, (1,) * (rank - own.ndim) + shape_of(own))
        if not part:
            raise ShapeError("block: a list is empty.", loc=user_loc(), remedy="leave it out.")
        return concatenate([build(p, level + 1) for p in part], axis=rank - levels + level)

    return build(arrays, 0)


@public
def diagflat(v: ArrayLike, k: Any = 0) -> Array:
    """Matrix that has all elements of an array on a diagonal, and zeros elsewhere.

    Args:
        v: array of any dtype, which is flattened.
        k: 0: the main diagonal; positive: one above it, negative: below; an int or a dimension.

    Returns:
        A square matrix of ``v.size + abs(k)`` rows, in the dtype of ``v``.

    Example:
        >>> dnp.diagflat(np.array([1, 2]))
        array([[1, 0],
               [0, 2]])
    """
    return diag(_flat(array_of("diagflat", v, k)), k)


@public
def rollaxis(x: ArrayLike, axis: int, start: int = 0) -> Array:
    """Array with one axis moved before another: NumPy's older form of :func:`moveaxis`.

    Args:
        x: array of any dtype.
        axis: axis to move.
        start: axis that it is to stand before; the number of axes: behind all.

    Returns:
        An array of the dtype of ``x``.

    Raises:
        ShapeError: if an axis is not one of ``x``.

    Example:
        >>> dnp.rollaxis(np.ones((2, 3, 4)), 2).shape
        (4, 2, 3)
    """
    value = operand("rollaxis", x)
    number = one_axis("rollaxis", axis, value.ndim)
    to = start + value.ndim if start < 0 else start
    if to != value.ndim:
        one_axis("rollaxis", start, value.ndim)
    return moveaxis(value, number, to - 1 if number < to else to)


# ---- replaced --------------------------------------------------------------------------------------------------------


@changing
@public
def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Array:
    """Array with its main diagonal replaced.

    As in NumPy ``a`` changes, an array of dyn's; ``inplace=False`` gives a new one, as in JAX.

    Args:
        a: array of any dtype, of two axes or more: of more than two all have to be equal.
        val: number or array, whose elements are gone through again and again, converted to the dtype of ``a``.
        wrap: whether in a tall matrix the diagonal begins again below, after a row without it.
        inplace: False for a new array.

    Returns:
        An array of the shape and dtype of ``a``.

    Raises:
        UnsupportedOpError: for an array of another library's to change.
        ShapeError: if ``a`` has fewer than two axes, or more whose sizes differ, at the call at the latest.

    Example:
        >>> dnp.fill_diagonal(np.zeros((2, 2)), 5, inplace=False)
        array([[5., 0.],
               [0., 5.]])
    """
    value = operand("fill_diagonal", a, val)
    if value.ndim < 2:
        raise ShapeError(
            f"fill_diagonal: {text_of(value)} has fewer than 2 axes.", loc=user_loc(), remedy="pass a matrix."
        )
    trace, dims = value._trace, shape_of(value)
    if value.ndim > 2:
        for axis, size in enumerate(dims[1:], 1):
            trace.demand(RelKind.EQ, dims[0], size, f"fill_diagonal takes axis {axis} as long as axis 0")
    places = [made(trace, "iota", shape=dims, dimension=a, dtype=dtypes.int64) for a in range(value.ndim)]
    row: Array = places[0]
    here: Array = None
    for other in places[1:]:
        # With wrap the diagonal of a tall matrix begins again in every (columns + 1)-th row.
        turn = remainder(row, size_of(value, dims[1] + 1)) if wrap and value.ndim == 2 else row
        same = emit("compare", turn, other, direction="EQ")
        here = same if here is None else here & same
    new = cast(array_of("fill_diagonal", val, value), value.element_type)
    if new.ndim == 0:
        return where(here, new, value)
    flat = _flat(new)
    number = row if not wrap else _full_rows(row, size_of(value, dims[1]))
    return where(here, _cycled(flat, size_of(flat, shape_of(flat)[0]), number), value)


def _full_rows(row: Array, columns: Array) -> Array:
    """Number of elements of the wrapped diagonal above a row: one for each row that is not left empty."""
    return row - (row // (columns + 1))


@changing
@public
def put(a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True) -> Array:
    """Array with values at given numbers of its elements.

    As in NumPy ``a`` changes, an array of dyn's; ``inplace=False`` gives a new one, as in JAX.

    Args:
        a: array of any dtype.
        ind: array of integers of any shape: numbers of elements in row-major order.
        v: array whose elements are gone through again and again, converted to the dtype of ``a``; of several for one
            place the last one stays.
        mode: ``"clip"`` or ``"wrap"``; None: negative numbers count from the end, and those out of range are left out.
        inplace: False for a new array.

    Returns:
        An array of the shape and dtype of ``a``.

    Raises:
        UnsupportedOpError: for an array of another library's to change.
        InvalidValueError: if ``mode`` is another one.

    Example:
        >>> dnp.put(np.zeros(3), np.array([0, 2]), np.array([1, 2]), inplace=False)
        array([1., 0., 2.])
    """
    value = operand("put", a, ind, v)
    flat = _flat(value)
    numbers: Array = cast(_flat(array_of("put", ind, value)), dtypes.int64)
    size: Array = size_of(flat, shape_of(flat)[0])
    if mode == "wrap":
        numbers = remainder(numbers, size)
    elif mode == "clip":
        numbers = clip(numbers, 0, size - 1)
    elif mode is not None:
        raise no_choice("put", "mode", mode, ("clip", "wrap"))
    new = _flat(cast(array_of("put", v, value), value.element_type))
    order = made(value._trace, "iota", shape=shape_of(numbers), dimension=0, dtype=dtypes.int64)
    own = _cycled(new, size_of(new, shape_of(new)[0]), order)
    return view(put_along_axis(flat, numbers, own, 0, inplace=False), shape_of(value))


@changing
@public
def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """Array with values, one after the other, where a mask is true.

    As in NumPy ``arr`` changes, an array of dyn's; ``inplace=False`` gives a new one, as in JAX.

    Args:
        arr: array of any dtype.
        mask: array that broadcasts to ``arr``; other than 0 is true.
        vals: array whose elements are gone through again and again, converted to the dtype of ``arr``.
        inplace: False for a new array.

    Returns:
        An array of the shape and dtype of ``arr``.

    Raises:
        UnsupportedOpError: for an array of another library's to change.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.

    Example:
        >>> dnp.place(np.zeros(3), np.array([True, False, True]), np.array([1, 2]), inplace=False)
        array([1., 0., 2.])
    """
    value = operand("place", arr, mask, vals)
    flags = truth(array_of("place", mask, value))
    _, flags = align("place", [value, expand(flags, shape_of(value))])
    new = _flat(cast(array_of("place", vals, value), value.element_type))
    number = view(cumsum(_flat(flags)) - 1, shape_of(value))
    return where(flags, _cycled(new, size_of(new, shape_of(new)[0]), number), value)


# ---- chosen ----------------------------------------------------------------------------------------------------------


@public
def choose(a: ArrayLike, choices: Any, *, mode: str = "clip") -> Array:
    """Elements of the choice that each integer names.

    Args:
        a: array of integers, which broadcasts with the choices.
        choices: list of arrays, or an array whose rows they are: how many is known while tracing.
        mode: treatment of integers that name no choice: ``"clip"`` takes the nearest, ``"wrap"`` counts round. NumPy's
            ``"raise"`` is not there.

    Returns:
        An array of the shape that all broadcast to, in the dtype that the choices promote to.

    Raises:
        ShapeError: if there are no choices, or their number is symbolic.
        InvalidValueError: if ``mode`` is another one.

    Example:
        >>> dnp.choose(np.array([0, 1, 1]), [np.array([1, 2, 3]), 10])
        array([ 1, 10, 10])
    """
    number = array_of("choose", a, choices)
    parts = list(choices) if isinstance(choices, list | tuple) else _rows("choose", choices, number)
    one_of("choose", "mode", mode, ("clip", "wrap"))
    if not parts:
        raise ShapeError("choose: there are no choices.", loc=user_loc(), remedy="give at least one.")
    index = remainder(number, len(parts)) if mode == "wrap" else clip(number, 0, len(parts) - 1)
    result: Array = parts[0]
    for i, part in enumerate(parts[1:], 1):
        result = where(index == i, part, result)
    return expand(result, shape_of(index)) if len(parts) == 1 and isinstance(result, Tracer) else result


def _rows(what: str, x: Any, other: Tracer) -> list[Tracer]:
    value = operand(what, x, other)
    count = shape_of(value)[0] if value.ndim else 0
    if not isinstance(count, int):
        raise ShapeError(
            f"{what}: how many choices {text_of(value)} has is not known.", loc=user_loc(), remedy="pass a list."
        )
    return [getitem(value, i) for i in range(count)]


@public
def piecewise(
    x: ArrayLike, condlist: Sequence[ArrayLike], funclist: Sequence[ArrayLike | Callable[..., Any]], *args: Any,
    **kw: Any,
) -> Array:  # fmt: skip
    """Values of the last function whose condition is true, element by element.

    All functions compute the whole of ``x``, where NumPy calls each for its own elements.

    Args:
        x: array of any dtype.
        condlist: list of arrays that broadcast with ``x``; other than 0 is true.
        funclist: list of numbers, and of functions of ``x``, one for each condition; one more is for elements of which
            no condition is true, which are 0 otherwise.
        *args: further arguments of the functions.
        **kw: further arguments of the functions, by name.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        ShapeError: if there are not as many functions as conditions, or one more.

    Example:
        >>> dnp.piecewise(np.array([-1.0, 2.0]), [np.array([True, False])], [0.0, lambda x: x * x])
        array([0., 4.])
    """
    value = operand("piecewise", x)
    conditions = list(condlist) if isinstance(condlist, list | tuple) else [condlist]
    flags = [truth(array_of("piecewise", c, value)) for c in conditions]
    functions = list(funclist)
    if len(functions) == len(flags) + 1:
        otherwise = functions.pop()
    elif len(functions) == len(flags):
        otherwise = 0
    else:
        raise ShapeError(
            f"piecewise: {len(functions)} functions are given for {len(flags)} conditions.",
            loc=user_loc(),
            remedy="give one for each, and one more for the rest.",
        )

    def filled_with(function: Any, chosen: Any) -> Array:
        """A function's values; derivatives come through the elements that it is chosen for, and no others."""
        given = value
        if callable(function) and value.element_type.is_inexact:
            given = emit("select", expand(chosen, shape_of(value)), value, emit("stop_gradient", value))
        made_of = function(given, *args, **kw) if callable(function) else function
        return expand(cast(promote("piecewise", made_of, value)[0], value.element_type), shape_of(value))

    left = expand(constant(value._trace, True, dtypes.bool_), shape_of(value))
    pieces: list[tuple[Any, Any]] = []
    for flag, function in reversed([*zip(flags, functions, strict=True)]):  # the last condition that holds counts
        flag = expand(flag, shape_of(value))
        pieces.append((flag, filled_with(function, emit("and", flag, left))))
        left = emit("and", left, emit("not", flag))
    result = filled_with(otherwise, left)
    for flag, piece in reversed(pieces):
        result = where(flag, piece, result)
    return result
