"""Arrays with elements added, left out or replaced. As in JAX the functions give new arrays: ``inplace=False``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.errors import ShapeError, UnsupportedOpError
from dyn.numpy._axes import one_axis, shape_in, text_of
from dyn.numpy._binary import clip, remainder
from dyn.numpy._broadcast import align, expand
from dyn.numpy._diagonal import diag
from dyn.numpy._index import Range, select
from dyn.numpy._indexing import getitem
from dyn.numpy._joining import concatenate
from dyn.numpy._logic import truth
from dyn.numpy._manipulation import broadcast_to, moveaxis, view
from dyn.numpy._operands import cast, emit, made, operand, promote, shape_of
from dyn.numpy._options import no_choice, one_of
from dyn.numpy._public import Array, ArrayLike, Shape, public
from dyn.numpy._search import array_of, never_empty
from dyn.numpy._selection import where
from dyn.numpy._sorting import cumsum
from dyn.numpy._take import put_along_axis, size_of
from dyn.ops.gather import take_attrs
from dyn.shapes import RelKind, product
from dyn.source import user_loc
from dyn.trace.dims import wrap_dim
from dyn.trace.tracer import Tracer

__all__ = [
    "append", "block", "choose", "delete", "diagflat", "fill_diagonal", "insert", "piecewise", "place", "put", "resize",
    "rollaxis",
]  # fmt: skip


def _flat(x: Tracer) -> Tracer:
    return view(x, (product(shape_of(x)),))


def _new_array(what: str, inplace: bool, call: str) -> None:
    if inplace:
        raise UnsupportedOpError(
            f"{what} cannot change its argument.",
            loc=user_loc(),
            remedy=f"write y = dyn.numpy.{what}({call}, inplace=False).",
        )


def _cycled(values: Tracer, count: Array, places: Tracer) -> Tracer:
    """Elements of a vector at places that go round it."""
    some = never_empty(values, 0)
    turn = where(count > 0, count, 1)
    return emit("gather", some, remainder(places, turn), **take_attrs(shape_of(some), 0, places.ndim))


# ---- longer and shorter ----------------------------------------------------------------------------------------------


@public
def append(x: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """``values`` behind ``x`` along an axis; without ``axis`` all elements of both in one axis."""
    parts = [array_of("append", v, x, values) for v in (x, values)]
    return concatenate(parts, axis=axis)


@public
def resize(x: ArrayLike, new_shape: Shape) -> Array:
    """The elements in their order, and again from the first on, in another shape; of no elements zeros."""
    value = array_of("resize", x, new_shape)
    dims = shape_in(value._trace, new_shape, "resize")
    flat = _flat(value)
    numbers = made(value._trace, "iota", shape=(product(dims),), dimension=0, dtype=dtypes.int64)
    return view(_cycled(flat, size_of(flat, shape_of(flat)[0]), numbers), dims)


def _places(what: str, obj: Any, x: Tracer, axis: int, behind: int) -> list[tuple[int, Any]]:
    """Places that are known while tracing: a number that orders them, and the position from the front.

    They are ints, below 0 counted from the end; up to ``behind`` places behind the last element are allowed.
    """
    if isinstance(obj, np.ndarray | np.generic):
        obj = obj.tolist()
    given: list[Any] = list(obj) if isinstance(obj, list | tuple) else [obj]
    if any(isinstance(i, bool) or not isinstance(i, int) for i in given):
        kinds = ", ".join(sorted({type(i).__name__ for i in given}))
        raise UnsupportedOpError(
            f"{what}: the places are of type {kinds}, and they decide the shape or the order of the result.",
            loc=user_loc(),
            remedy="use ints, lists of ints or slices that are known while tracing.",
        )
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


def _along(x: Tracer, axis: int, part: slice) -> Tracer:
    return getitem(x, (slice(None),) * axis + (part,))


def _slice_of(what: str, x: Tracer, axis: int, obj: slice) -> Range:
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
    """``x`` without the elements at ``obj`` along an axis; without ``axis`` of all elements in one axis.

    ``obj`` is an int, a list of ints or a slice that is known while tracing. Raises ShapeError, when called at the
    latest, for places that are not there.
    """
    value = array_of("delete", x, obj)
    if axis is None:
        value = _flat(value)
    number = one_axis("delete", 0 if axis is None else axis, value.ndim)
    size = shape_of(value)[number]
    if isinstance(obj, slice):
        taken = _slice_of("delete", value, number, obj)
        if taken.step == 1 and not taken.backwards:
            trace = value._trace
            first, last = wrap_dim(trace, taken.start), wrap_dim(trace, taken.start + taken.length)
            return concatenate([_along(value, number, slice(None, first)), _along(value, number, slice(last, None))],
                               axis=number)  # fmt: skip
        assert isinstance(size, int)
        obj = list(range(*obj.indices(size)))
    places = dict(sorted(_places("delete", obj, value, number, 0)))
    bounds = [None, *(p for p in places.values())]
    parts: list[Tracer] = []
    for low, high in zip(bounds, [*bounds[1:], None], strict=True):
        parts.append(_along(value, number, slice(None if low is None else low + 1, high)))
    return concatenate(parts, axis=number)


@public
def insert(x: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None) -> Array:
    """``x`` with ``values`` before the elements at ``obj`` along an axis; without ``axis`` in all elements in one axis.

    ``obj`` is an int, a list of ints or a slice that is known while tracing; places are those in ``x``. Before a single
    int go all of ``values`` along the axis, before each of several one of them. Values take the dtype of ``x``.
    """
    value = array_of("insert", x, obj, values)
    if axis is None:
        value = _flat(value)
    number = one_axis("insert", 0 if axis is None else axis, value.ndim)
    size = shape_of(value)[number]
    new = cast(array_of("insert", values, value), value.element_type)
    if isinstance(obj, slice):
        _slice_of("insert", value, number, obj)
        if not isinstance(size, int):
            raise UnsupportedOpError(
                f"insert: how many places a slice of axis {number} of {text_of(value)} has is not known.",
                loc=user_loc(),
                remedy="use a list of ints.",
            )
        obj = list(range(*obj.indices(size)))
    places = _places("insert", obj, value, number, 1)
    if not isinstance(obj, list | tuple | np.ndarray) or len(places) == 1:
        return _before_one(value, number, places[0][1], new, scalar=not isinstance(obj, list | tuple | np.ndarray))
    shape = tuple(len(places) if a == number else d for a, d in enumerate(shape_of(value)))
    new = broadcast_to(new, tuple(wrap_dim(value._trace, d) for d in shape))
    order = sorted(range(len(places)), key=lambda n: places[n][0])
    parts: list[Tracer] = []
    low: Any = None
    for n in order:
        parts += [_along(value, number, slice(low, places[n][1])), _along(new, number, slice(n, n + 1))]
        low = places[n][1]
    return concatenate([*parts, _along(value, number, slice(low, None))], axis=number)


def _before_one(x: Tracer, axis: int, place: Any, new: Tracer, *, scalar: bool) -> Tracer:
    if new.ndim < x.ndim:
        new = view(new, (1,) * (x.ndim - new.ndim) + shape_of(new))
    if scalar:
        new = moveaxis(new, 0, axis)  # as in x[i] = values, whose first axis is that of the places
    shape = tuple(shape_of(new)[a] if a == axis else d for a, d in enumerate(shape_of(x)))
    new = broadcast_to(new, tuple(wrap_dim(x._trace, d) for d in shape))
    return concatenate([_along(x, axis, slice(None, place)), new, _along(x, axis, slice(place, None))], axis=axis)


# ---- put together ----------------------------------------------------------------------------------------------------


@public
def block(arrays: Any) -> Array:
    """Nested lists of arrays as one: innermost lists along the last axis, those around them along the one before."""

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
    """The square matrix with all elements of ``v`` on its k-th diagonal, and zeros elsewhere."""
    return diag(_flat(array_of("diagflat", v, k)), k)


@public
def rollaxis(x: ArrayLike, axis: int, start: int = 0) -> Array:
    """``x`` with one axis moved before the axis ``start``."""
    value = operand("rollaxis", x)
    number = one_axis("rollaxis", axis, value.ndim)
    to = start + value.ndim if start < 0 else start
    if to != value.ndim:
        one_axis("rollaxis", start, value.ndim)
    return moveaxis(value, number, to - 1 if number < to else to)


# ---- replaced --------------------------------------------------------------------------------------------------------


@public
def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True) -> Array:
    """``a`` with ``val``, a number or a vector that is gone through again and again, on its main diagonal.

    Of more than two axes all have to be equal. ``wrap`` begins again below, after an empty row, in tall matrices.
    """
    _new_array("fill_diagonal", inplace, "a, val")
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


@public
def put(a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str | None = None, *, inplace: bool = True) -> Array:
    """``a`` with ``v``, gone through again and again, at the numbers ``ind`` of its elements.

    ``mode`` "clip" and "wrap" are NumPy's; without one negative numbers count from the end, and what is out of range is
    left out. Of values for one place the last one stays.
    """
    _new_array("put", inplace, "a, ind, v")
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


@public
def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike, *, inplace: bool = True) -> Array:
    """``arr`` with ``vals``, gone through again and again, where the mask is not 0, in the order of the elements."""
    _new_array("place", inplace, "arr, mask, vals")
    value = operand("place", arr, mask, vals)
    flags = truth(array_of("place", mask, value))
    _, flags = align("place", [value, expand(flags, shape_of(value))])
    new = _flat(cast(array_of("place", vals, value), value.element_type))
    number = view(cumsum(_flat(flags)) - 1, shape_of(value))
    return where(flags, _cycled(new, size_of(new, shape_of(new)[0]), number), value)


# ---- chosen ----------------------------------------------------------------------------------------------------------


@public
def choose(a: ArrayLike, choices: Any, *, mode: str = "clip") -> Array:
    """The element of the choice that each integer says; all broadcast. ``mode`` is "clip" or "wrap"."""
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
    """Choose for each element by the last condition that is true for it: a number, or a function of ``x``.

    One entry more than there are conditions is for elements for which none is true, and 0 otherwise. All functions
    compute the whole of ``x``. The dtype is that of ``x``.
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

    def filled_with(function: Any) -> Array:
        made_of = function(value, *args, **kw) if callable(function) else function
        return expand(cast(promote("piecewise", made_of, value)[0], value.element_type), shape_of(value))

    result = filled_with(otherwise)
    for flag, function in zip(flags, functions, strict=True):
        result = where(flag, filled_with(function), result)
    return result
