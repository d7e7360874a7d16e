"""Shapes of arrays: reshaping, moving axes, broadcasting. None of these copies elements by itself.

This file is longer than most: half of it says what each function takes and gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from dyn.errors import InvalidValueError, ShapeError
from dyn.frozen import record
from dyn.numpy._axes import all_axes, distinct_axes, one_axis, shape_in, sizes_in, text_of
from dyn.numpy._broadcast import expand, join_shapes
from dyn.numpy._operands import cast, emit, operand, shape_of, tracer
from dyn.numpy._options import whole_number
from dyn.numpy._public import Array, ArrayLike, Axis, DTypeLike, Shape, Size, found_trace, public, trace_of
from dyn.numpy._standard import check_device
from dyn.shapes import (
    Dim,
    Reason,
    Relation,
    RelKind,
    SymExpr,
    broadcast,
    floordiv,
    format_dim,
    format_shape,
    numel_relation,
    product,
)
from dyn.source import user_loc
from dyn.trace.dims import wrap_dim
from dyn.trace.lift import dtype_of
from dyn.trace.tracer import Tracer

__all__ = [
    "astype", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes", "broadcast_to",
    "expand_dims", "flatten", "flip", "fliplr", "flipud", "matrix_transpose", "moveaxis", "ndim", "permute_dims",
    "ravel", "reshape", "rot90", "shape", "size", "squeeze", "swapaxes", "transpose",
]  # fmt: skip


# ---- reshaping -------------------------------------------------------------------------------------------------------


def view(x: Tracer, shape: tuple[Dim, ...]) -> Tracer:
    """``x`` with another shape of as many elements; itself where it has that shape."""
    if shape_of(x) == shape:
        return x
    return emit("reshape", x, shape=shape)


@public
def reshape(x: ArrayLike, /, shape: Shape, order: str = "C", *, copy: bool | None = None) -> Array:
    """Elements in their order, in another shape.

    One size may be -1, and follows from the others: symbolic sizes that both shapes have are taken out first, so that
    ``(b, s, 768)`` as ``(b, s, 12, -1)`` gives 64 where b is 0 too.

    Args:
        x: array of any dtype, of any shape.
        shape: size or sizes, ints or dimensions, whose product is the number of elements; -1 once.
        order: ``"C"``, the only one.
        copy: taken for the standard's sake: arrays of dyn never change, so a view is as good as a copy.

    Returns:
        An array of that shape, in the dtype of ``x``.

    Raises:
        ShapeError: if the numbers of elements differ: at once where that is proved, otherwise when called; if -1 stands
            twice, or a size of 0 leaves it undecided; if ``order`` is another one.

    Example:
        >>> dnp.reshape(np.arange(6), (2, -1))
        array([[0, 1, 2],
               [3, 4, 5]])
        >>> dyn.jit(lambda x: dnp.reshape(x, (x.shape[0], 2, -1)))(np.zeros((3, 8))).shape
        (3, 2, 4)
    """
    value = operand("reshape", x, shape)
    if order != "C":
        raise ShapeError("reshape: only order='C' is there.", loc=user_loc(), remedy="transpose before and after.")
    written = tuple(sizes_in(value._trace, shape, "reshape"))
    new = _with_inferred(value, list(written))
    _require_same_size(value, new, written)
    return view(value, new)


def _require_same_size(x: Tracer, new: tuple[Dim, ...], written: tuple[Dim, ...]) -> None:
    trace, old = x._trace, shape_of(x)
    answer = trace.facts.same_numel(old, new)
    if answer.refuted:
        raise ShapeError(
            f"reshape: {text_of(x)} has {format_dim(product(old))} elements, and the shape {format_shape(new)} "
            f"has {format_dim(product(new))}.",
            loc=user_loc(),
            remedy="give sizes with as many elements; -1 stands for the one size that follows from the others.",
        )
    if not answer.proved:
        text = f"{format_shape(old)} is reshaped to {format_shape(written)}"
        trace.require(numel_relation(old, new, Reason(text, user_loc())))


def _with_inferred(x: Tracer, sizes: list[Dim]) -> tuple[Dim, ...]:
    """The sizes with -1 replaced by what is left."""
    unknown = [axis for axis, size in enumerate(sizes) if size == -1]
    negative = any(isinstance(size, int) and size < -1 for size in sizes)
    if len(unknown) > 1 or negative:
        problem = "a negative size" if negative else "more than one -1"
        raise ShapeError(
            f"reshape: the shape {format_shape(tuple(sizes))} has {problem}.",
            loc=user_loc(),
            remedy="use -1 once, and sizes of 0 or more elsewhere.",
        )
    if unknown:
        sizes[unknown[0]] = _left_over(x, [size for size in sizes if size != -1], tuple(sizes))
    return tuple(sizes)


def _left_over(x: Tracer, known: list[Dim], written: tuple[Dim, ...]) -> Dim:
    """The size that -1 stands for: the number of elements over the product of the known sizes.

    Sizes that are in both shapes are taken out first, so that (b, s, 768) as (b, s, 12, -1) is 64 even where b is 0.
    """
    facts = x._trace.facts
    left = [facts.simplify(size) for size in shape_of(x)]
    rest: list[Dim] = []
    for size in (facts.simplify(size) for size in known):
        if size in left:
            left.remove(size)
        else:
            rest.append(size)
    total, divisor = product(left), product(rest)
    if isinstance(divisor, int) and divisor == 0:
        raise ShapeError(
            f"reshape: the shape {format_shape(written)} leaves -1 undecided, because a size is 0.",
            loc=user_loc(),
            remedy="write the size instead of -1.",
        )
    if isinstance(total, int) and isinstance(divisor, int) and total % divisor:
        raise ShapeError(
            f"reshape: {text_of(x)} does not fit in {format_shape(written)}: "
            f"{total} elements are no multiple of {divisor}.",
            loc=user_loc(),
            remedy="give sizes whose product divides the number of elements.",
        )
    if isinstance(divisor, int) and divisor > 1 and isinstance(total, SymExpr):
        text = f"{format_shape(shape_of(x))} is reshaped to {format_shape(written)}"
        x._trace.require(Relation(RelKind.DIVIDES, divisor, total, Reason(text, user_loc())))
    return x._trace.facts.simplify(floordiv(total, divisor))


@public
def ravel(x: ArrayLike, /, order: str = "C") -> Array:
    """All elements in their order, in one axis.

    Args:
        x: array of any dtype, of any shape.
        order: ``"C"``, or ``"K"`` or ``"A"``, which are the same here.

    Returns:
        A vector of the dtype of ``x``, whose size is the product of its sizes.

    Raises:
        ShapeError: if ``order`` is another one.

    Example:
        >>> dnp.ravel(np.ones((2, 3))).shape
        (6,)
    """
    value = operand("ravel", x)
    if order not in ("C", "K", "A"):
        raise ShapeError("ravel: only order='C' is there.", loc=user_loc(), remedy="transpose first.")
    return view(value, (product(shape_of(value)),))


@public
def flatten(x: ArrayLike, /, order: str = "C") -> Array:
    """All elements in their order, in one axis: :func:`ravel`, as arrays of dyn never change.

    Args:
        x: array of any dtype, of any shape.
        order: ``"C"``, or ``"K"`` or ``"A"``, which are the same here.

    Returns:
        A vector of the dtype of ``x``, whose size is the product of its sizes.

    Raises:
        ShapeError: if ``order`` is another one.
    """
    return ravel(x, order)


@public
def expand_dims(x: ArrayLike, /, axis: int | tuple[int, ...]) -> Array:
    """Array with new axes of size 1.

    Args:
        x: array of any dtype, of any shape.
        axis: place or places of the new axes in the result, negative ones from its end.

    Returns:
        An array with as many more axes, in the dtype of ``x``.

    Raises:
        ShapeError: if a place is not there, or is named twice.

    Example:
        >>> dnp.expand_dims(np.ones(3), (0, -1)).shape
        (1, 3, 1)
    """
    value = operand("expand_dims", x)
    given = axis if isinstance(axis, tuple | list) else (axis,)
    rank = value.ndim + len(given)
    new = set(distinct_axes("expand_dims", given, rank))
    rest = iter(shape_of(value))
    return view(value, tuple(1 if a in new else next(rest) for a in range(rank)))


def squeeze(x: ArrayLike, /, axis: Axis = None) -> Array:
    """Array without axes of size 1.

    In a compiled function a named axis whose size is symbolic has to be 1 when called. Without names only sizes that
    are proved to be 1 count there, because the rank of the result is fixed while tracing: dyn departs from NumPy.

    Args:
        x: array of any dtype, of any shape.
        axis: axis or axes to leave out; None: all whose size is 1, in a compiled function all of which that is proved.

    Returns:
        An array of the dtype of ``x`` with the axes that are left.

    Raises:
        ShapeError: if a named axis has another size, at the call at the latest, or is not one of ``x``.

    Example:
        >>> dnp.squeeze(np.ones((1, 3, 1)), 0).shape
        (3, 1)
    """
    if axis is None and found_trace(x) is None:
        axis = tuple([a for a, size in enumerate(np.shape(x)) if size == 1])
    return _squeezed(x, axis)


@public
def _squeezed(x: ArrayLike, /, axis: Axis = None) -> Array:
    value = operand("squeeze", x)
    dims, trace = shape_of(value), value._trace
    if axis is None:
        gone = {a for a, d in enumerate(dims) if trace.facts.eq(d, 1).proved}
    else:
        gone = set(all_axes("squeeze", axis, len(dims)))
        for a in sorted(gone):
            _require_one(value, a)
    return view(value, tuple(d for a, d in enumerate(dims) if a not in gone))


def _require_one(x: Tracer, axis: int) -> None:
    size = shape_of(x)[axis]
    if x._trace.facts.eq(size, 1).refuted:
        raise ShapeError(
            f"squeeze: axis {axis} of {text_of(x)} has {format_dim(size)} elements, not 1.",
            loc=user_loc(),
            remedy="name only axes of size 1.",
        )
    x._trace.require(Relation(RelKind.EQ, size, 1, Reason(f"squeeze drops axis {axis}", user_loc())))


def _at_least(what: str, rank: int, arrays: tuple[ArrayLike, ...]) -> Any:
    values = [operand(what, x, *arrays) for x in arrays]
    grown = [view(v, (1,) * (rank - v.ndim) + shape_of(v)) if v.ndim < rank else v for v in values]
    return grown[0] if len(grown) == 1 else grown


@public
def atleast_1d(*arrays: ArrayLike) -> Any:
    """Arrays with one axis or more: 0-d ones get an axis of size 1.

    Args:
        *arrays: arrays of any dtype.

    Returns:
        The array, or a list of them where several are given.

    Example:
        >>> dnp.atleast_1d(np.float32(3)).shape
        (1,)
    """
    return _at_least("atleast_1d", 1, arrays)


@public
def atleast_3d(*arrays: ArrayLike) -> Any:
    """Arrays with three axes or more: vectors go along the second, matrices along the first two.

    Args:
        *arrays: arrays of any dtype.

    Returns:
        The array, or a list of them where several are given.

    Example:
        >>> dnp.atleast_3d(np.ones(4)).shape
        (1, 4, 1)
    """
    grown: list[Tracer] = []
    for value in [operand("atleast_3d", x, *arrays) for x in arrays]:
        dims = shape_of(value)
        grown.append(view(value, (1, *dims, 1) if len(dims) == 1 else (*dims, *(1,) * (3 - len(dims)))))
    return grown[0] if len(grown) == 1 else grown


@public
def atleast_2d(*arrays: ArrayLike) -> Any:
    """Arrays with two axes or more: axes of size 1 come in front.

    Args:
        *arrays: arrays of any dtype.

    Returns:
        The array, or a list of them where several are given.

    Example:
        >>> dnp.atleast_2d(np.ones(4)).shape
        (1, 4)
    """
    return _at_least("atleast_2d", 2, arrays)


# ---- the order of axes -----------------------------------------------------------------------------------------------


def permuted(x: Tracer, permutation: Sequence[int]) -> Tracer:
    """``x`` with its axes in that order; itself where it is their own."""
    if list(permutation) == list(range(x.ndim)):
        return x
    return emit("transpose", x, permutation=tuple(permutation))


@public
def transpose(x: ArrayLike, /, axes: Sequence[int] | None = None) -> Array:
    """Array with its axes in another order.

    Args:
        x: array of any dtype, of any shape.
        axes: for each axis of the result the axis of ``x``; None: the reverse of their order.

    Returns:
        An array of the dtype of ``x``: a view, which costs nothing where its consumer reads it in that order.

    Raises:
        ShapeError: if ``axes`` does not name each axis once.

    Example:
        >>> dnp.transpose(np.ones((2, 3, 4)), (2, 0, 1)).shape
        (4, 2, 3)
    """
    value = operand("transpose", x)
    if axes is None:
        return permuted(value, range(value.ndim)[::-1])
    numbers = distinct_axes("transpose", tuple(axes), value.ndim)
    if len(numbers) != value.ndim:
        raise ShapeError(
            f"transpose: {len(numbers)} axes are named, and {text_of(value)} has {value.ndim}.",
            loc=user_loc(),
            remedy="name every axis once.",
        )
    return permuted(value, numbers)


@public
def permute_dims(x: ArrayLike, /, axes: Sequence[int]) -> Array:
    """:func:`transpose` with all axes named, by the standard's name.

    Args:
        x: array of any dtype, of any shape.
        axes: for each axis of the result the axis of ``x``.

    Returns:
        An array of the dtype of ``x``.

    Raises:
        ShapeError: if ``axes`` does not name each axis once.

    Example:
        >>> dnp.permute_dims(np.ones((2, 3)), (1, 0)).shape
        (3, 2)
    """
    return transpose(x, axes)


@public
def matrix_transpose(x: ArrayLike, /) -> Array:
    """Array with its last two axes exchanged.

    Args:
        x: array of any dtype, of two axes or more.

    Returns:
        An array of the dtype of ``x``.

    Raises:
        ShapeError: if ``x`` has fewer than two axes.

    Example:
        >>> dnp.matrix_transpose(np.ones((5, 2, 3))).shape
        (5, 3, 2)
    """
    value = operand("matrix_transpose", x)
    if value.ndim < 2:
        raise ShapeError(
            f"matrix_transpose: {text_of(value)} has fewer than 2 axes.", loc=user_loc(), remedy="pass a matrix."
        )
    return swapaxes(value, -1, -2)


@public
def swapaxes(x: ArrayLike, /, axis1: int, axis2: int) -> Array:
    """Array with two axes exchanged.

    Args:
        x: array of any dtype, of any shape.
        axis1: one of its axes.
        axis2: the other.

    Returns:
        An array of the dtype of ``x``.

    Raises:
        ShapeError: if one of them is not an axis of ``x``.

    Example:
        >>> dnp.swapaxes(np.ones((2, 3, 4)), 0, -1).shape
        (4, 3, 2)
    """
    value = operand("swapaxes", x)
    a, b = one_axis("swapaxes", axis1, value.ndim), one_axis("swapaxes", axis2, value.ndim)
    order = list(range(value.ndim))
    order[a], order[b] = b, a
    return permuted(value, order)


@public
def moveaxis(x: ArrayLike, /, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Array with some axes moved to other places; the others keep their order.

    Args:
        x: array of any dtype, of any shape.
        source: axis or axes to move.
        destination: their places in the result, as many.

    Returns:
        An array of the dtype of ``x``.

    Raises:
        ShapeError: if an axis is not there or is named twice, or if there are not as many places.

    Example:
        >>> dnp.moveaxis(np.ones((2, 3, 4)), 0, -1).shape
        (3, 4, 2)
    """
    value = operand("moveaxis", x)
    old, new = (
        distinct_axes("moveaxis", axes if isinstance(axes, tuple | list) else (axes,), value.ndim)
        for axes in (source, destination)
    )
    if len(old) != len(new):
        raise ShapeError(
            f"moveaxis: {len(old)} axes are to move to {len(new)} places.",
            loc=user_loc(),
            remedy="give as many destinations as sources.",
        )
    order = [a for a in range(value.ndim) if a not in old]
    for place, axis in sorted(zip(new, old, strict=True)):
        order.insert(place, axis)
    return permuted(value, order)


@public
def flip(x: ArrayLike, /, axis: Axis = None) -> Array:
    """Elements in reverse order along axes.

    Args:
        x: array of any dtype, of any shape.
        axis: axis or axes to reverse; None: all.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice.

    Example:
        >>> dnp.flip(np.array([[1, 2], [3, 4]]), 0)
        array([[3, 4],
               [1, 2]])
    """
    value = operand("flip", x)
    axes = all_axes("flip", axis, value.ndim)
    return emit("reverse", value, dimensions=axes) if axes else value


@public
def flipud(x: ArrayLike, /) -> Array:
    """Elements in reverse order along the first axis.

    Args:
        x: array of any dtype, of one axis or more.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        ShapeError: if ``x`` has no axes.
    """
    return flip(x, 0)


@public
def fliplr(x: ArrayLike, /) -> Array:
    """Elements in reverse order along the second axis.

    Args:
        x: array of any dtype, of two axes or more.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        ShapeError: if ``x`` has fewer than two axes.
    """
    return flip(x, 1)


@public
def rot90(x: ArrayLike, /, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Array turned by quarters of a turn in the plane of two axes, from the first to the second.

    Args:
        x: array of any dtype, of two axes or more.
        k: how many quarters, an int; negative ones turn back.
        axes: the two axes of the plane.

    Returns:
        An array of the dtype of ``x``; of an odd number of quarters the two sizes are exchanged.

    Raises:
        InvalidValueError: if ``axes`` are not two.
        ArgumentError: if ``k`` is no int.
        ShapeError: if an axis is not one of ``x``.

    Example:
        >>> dnp.rot90(np.array([[1, 2], [3, 4]]))
        array([[2, 4],
               [1, 3]])
    """
    value = operand("rot90", x)
    if len(axes) != 2:
        raise InvalidValueError(f"rot90: axes are {axes!r}.", loc=user_loc(), remedy="name the two of a plane.")
    a, b = distinct_axes("rot90", tuple(axes), value.ndim)
    quarters = whole_number("rot90", "k", k) % 4
    if quarters == 0:
        return value
    if quarters == 2:
        return flip(value, (a, b))
    return swapaxes(flip(value, b), a, b) if quarters == 1 else flip(swapaxes(value, a, b), b)


# ---- broadcasting ----------------------------------------------------------------------------------------------------


@public
def broadcast_to(x: ArrayLike, /, shape: Shape) -> Array:
    """Array in a larger shape, its axes of size 1 repeated.

    A symbolic size may be 1 or the wanted one: which is looked at when called.

    Args:
        x: array of any dtype, of any shape.
        shape: size or sizes, ints or dimensions, no fewer than ``x`` has.

    Returns:
        An array of that shape, in the dtype of ``x``.

    Raises:
        ShapeError: if a size is neither 1 nor the wanted one, at the call at the latest.

    Example:
        >>> dnp.broadcast_to(np.array([1, 2]), (2, 2))
        array([[1, 2],
               [1, 2]])
    """
    value = operand("broadcast_to", x, shape)
    target = shape_in(value._trace, shape, "broadcast_to")
    return _stretched(value, target, _PLAIN)


def put_values(values: Tracer, target: tuple[Dim, ...]) -> Tracer:
    """Values for the elements ``x[index]``, in the shape ``target`` of these."""
    return _stretched(values, target, _VALUES)


@record()
class _BroadcastWords:
    """Words for errors of broadcasting: what cannot be, and both shapes."""

    problem: str
    wanted: str
    own: str

    def refuse(self, x: Tracer, target: tuple[Dim, ...]) -> NoReturn:
        raise ShapeError(
            f"{self.problem.format(text_of(x), format_shape(target))}.",
            loc=user_loc(),
            remedy="sizes must be 1 or the wanted ones, aligned at the last axis.",
        )


_PLAIN = _BroadcastWords("broadcast_to: {} cannot be broadcast to {}", "{}", "{}")
_VALUES = _BroadcastWords("the values {} cannot be broadcast to x[index], {}", "x[index], {},", "the values, {}")


def _stretched(x: Tracer, target: tuple[Dim, ...], words: _BroadcastWords) -> Tracer:
    own = shape_of(x)
    if len(own) > len(target):
        words.refuse(x, target)
    for axis, (size, wanted) in enumerate(zip(own[::-1], target[::-1], strict=False)):
        if size != 1 and not x._trace.facts.eq(size, wanted).proved:
            _require_stretch(x, target, len(target) - 1 - axis, words, (size, wanted))
    return expand(x, target)


def _require_stretch(
    x: Tracer, target: tuple[Dim, ...], axis: int, words: _BroadcastWords, sizes: tuple[Dim, Dim]
) -> None:
    trace, (size, wanted) = x._trace, sizes
    if isinstance(size, int):
        # Of a known size above 1 (or 0) nothing but that size can be made.
        if trace.facts.eq(size, wanted).refuted:
            words.refuse(x, target)
        joined: Dim = size
    elif trace.facts.broadcasts(size, wanted).refuted:
        words.refuse(x, target)
    else:
        joined = broadcast(size, wanted)
    own, whole = words.own.format(format_shape(shape_of(x))), words.wanted.format(format_shape(target))
    reason = Reason(f"axis {axis} of {whole} is broadcast from {own}", user_loc())
    if isinstance(joined, SymExpr):  # first that the two fit: only then is there a broadcast size to compare
        trace.require(Relation(RelKind.BROADCASTS, size, wanted, reason))
    trace.require(Relation(RelKind.EQ, joined, wanted, reason))


@public
def broadcast_arrays(*arrays: ArrayLike) -> list[Array]:
    """Arrays in the shape that they all broadcast to.

    Args:
        *arrays: arrays of any dtypes; sizes may be symbolic, whose common size is a broadcast dim where it is not
            decided.

    Returns:
        A list of arrays of one shape, each in its own dtype.

    Raises:
        ShapeError: if the shapes do not broadcast, at the call at the latest.

    Example:
        >>> [x.shape for x in dnp.broadcast_arrays(np.ones((2, 1)), np.ones(3))]
        [(2, 3), (2, 3)]
    """
    trace = trace_of(*arrays)
    values = [tracer(trace, x, "broadcast_arrays") for x in arrays]
    shape = join_shapes("broadcast_arrays", trace, [shape_of(v) for v in values])
    return [expand(v, shape) for v in values]


def broadcast_shapes(*shapes: Shape) -> tuple[Size, ...]:
    """Shape that arrays of these shapes broadcast to.

    Args:
        *shapes: sizes or tuples of sizes, ints or dimensions.

    Returns:
        A tuple of ints and dimensions.

    Raises:
        ShapeError: if they do not broadcast; of dimensions when called, at the latest.

    Example:
        >>> dnp.broadcast_shapes((2, 1), (3,))
        (2, 3)
    """
    trace = found_trace(*shapes)
    if trace is None:
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError as error:
            listed = ", ".join(map(str, shapes))
            raise ShapeError(
                f"broadcast_shapes: {listed} do not broadcast: {error}.",
                loc=user_loc(),
                remedy="sizes must be equal, or 1, aligned at the last axis.",
            ) from None
    dims = [tuple(sizes_in(trace, shape, "broadcast_shapes")) for shape in shapes]
    return tuple(wrap_dim(trace, d) for d in join_shapes("broadcast_shapes", trace, dims))


# ---- what an array is ------------------------------------------------------------------------------------------------


@public
def astype(x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = True, device: Any = None) -> Array:
    """Array in another dtype.

    Floats are cut towards 0 for integers; those that the integer dtype does not have take the nearest that it has, and
    NaN is 0, as in XLA.

    Args:
        x: array of any dtype, of any shape.
        dtype: dtype of the result.
        copy: taken for the standard's sake: arrays of dyn never change.
        device: None or ``"cpu"`` in a trace, whose arrays are all where the program runs; outside of one any device.

    Returns:
        An array of the shape of ``x``.

    Raises:
        ArgumentError: if ``device`` is another one, in a trace.
        UnsupportedOpError: if dyn has no such dtype.

    Example:
        >>> dnp.astype(np.array([1.7, -1.7]), np.int32)
        array([ 1, -1], dtype=int32)
    """
    check_device("astype", device)
    return cast(operand("astype", x), dtype_of(dtype))


def shape(x: ArrayLike, /) -> tuple[Size, ...]:
    """Sizes of an array.

    Args:
        x: array, nested lists or a number.

    Returns:
        A tuple of ints; in a trace dimensions where sizes are symbolic.

    Example:
        >>> dnp.shape(np.ones((2, 3)))
        (2, 3)
    """
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


def ndim(x: ArrayLike, /) -> int:
    """Number of axes of an array, which is known while tracing.

    Args:
        x: array, nested lists or a number.

    Returns:
        An int.

    Example:
        >>> dnp.ndim(np.ones((2, 3)))
        2
    """
    return len(shape(x))


def size(x: ArrayLike, /, axis: int | None = None) -> Size:
    """Number of elements of an array, or of those along one axis.

    Args:
        x: array, nested lists or a number.
        axis: the axis; None: all elements.

    Returns:
        An int, or a dimension where sizes are symbolic.

    Example:
        >>> dnp.size(np.ones((2, 3)))
        6
    """
    dims = shape(x)
    if axis is not None:
        return dims[axis]
    total: Any = 1
    for dim in dims:
        total = total * dim
    return total
