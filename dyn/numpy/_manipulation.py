"""Shapes of arrays: reshaping, moving axes, broadcasting. None of these copies elements by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from dyn.errors import InvalidValueError, ShapeError
from dyn.numpy._axes import all_axes, distinct_axes, one_axis, shape_in, sizes_in, text_of
from dyn.numpy._broadcast import expand, join_shapes
from dyn.numpy._operands import cast, dtype_of, emit, operand, shape_of, tracer
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
from dyn.trace.context import Trace
from dyn.trace.dims import wrap_dim
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
    """The elements of ``x`` in their order, in another shape; one size may be -1. ``copy`` is as it is: none is seen.

    Raises ShapeError where the numbers of elements differ: at once where that is proved, otherwise when called.
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
    """All elements in one axis."""
    value = operand("ravel", x)
    if order not in ("C", "K", "A"):
        raise ShapeError("ravel: only order='C' is there.", loc=user_loc(), remedy="transpose first.")
    return view(value, (product(shape_of(value)),))


@public
def flatten(x: ArrayLike, /, order: str = "C") -> Array:
    """All elements in one axis; ``ravel`` by its method's name."""
    return ravel(x, order)


@public
def expand_dims(x: ArrayLike, /, axis: int | tuple[int, ...]) -> Array:
    """``x`` with axes of size 1 where ``axis`` says, counted in the result."""
    value = operand("expand_dims", x)
    given = axis if isinstance(axis, tuple | list) else (axis,)
    rank = value.ndim + len(given)
    new = set(distinct_axes("expand_dims", given, rank))
    rest = iter(shape_of(value))
    return view(value, tuple(1 if a in new else next(rest) for a in range(rank)))


@public
def squeeze(x: ArrayLike, /, axis: Axis = None) -> Array:
    """``x`` without axes of size 1: those named, or all that are known to be 1.

    A named axis whose size is undecided must be 1 when called. Without names only sizes that are proved count, because
    the rank of the result is fixed while tracing.
    """
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
    """Arrays with at least one axis; a list of them for several."""
    return _at_least("atleast_1d", 1, arrays)


@public
def atleast_3d(*arrays: ArrayLike) -> Any:
    """Arrays with at least three axes; a vector gets one on either side, a matrix a last one. A list for several."""
    grown: list[Tracer] = []
    for value in [operand("atleast_3d", x, *arrays) for x in arrays]:
        dims = shape_of(value)
        grown.append(view(value, (1, *dims, 1) if len(dims) == 1 else (*dims, *(1,) * (3 - len(dims)))))
    return grown[0] if len(grown) == 1 else grown


@public
def atleast_2d(*arrays: ArrayLike) -> Any:
    """Arrays with at least two axes, new ones in front; a list of them for several."""
    return _at_least("atleast_2d", 2, arrays)


# ---- the order of axes -----------------------------------------------------------------------------------------------


def permuted(x: Tracer, permutation: Sequence[int]) -> Tracer:
    """``x`` with its axes in that order; itself where it is their own."""
    if list(permutation) == list(range(x.ndim)):
        return x
    return emit("transpose", x, permutation=tuple(permutation))


@public
def transpose(x: ArrayLike, /, axes: Sequence[int] | None = None) -> Array:
    """``x`` with its axes in the order ``axes``, or reversed."""
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
    """``x`` with its axes in the order ``axes``."""
    return transpose(x, axes)


@public
def matrix_transpose(x: ArrayLike, /) -> Array:
    """``x`` with its last two axes exchanged. Raises ShapeError for fewer than two axes."""
    value = operand("matrix_transpose", x)
    if value.ndim < 2:
        raise ShapeError(
            f"matrix_transpose: {text_of(value)} has fewer than 2 axes.", loc=user_loc(), remedy="pass a matrix."
        )
    return swapaxes(value, -1, -2)


@public
def swapaxes(x: ArrayLike, /, axis1: int, axis2: int) -> Array:
    """``x`` with two axes exchanged."""
    value = operand("swapaxes", x)
    a, b = one_axis("swapaxes", axis1, value.ndim), one_axis("swapaxes", axis2, value.ndim)
    order = list(range(value.ndim))
    order[a], order[b] = b, a
    return permuted(value, order)


@public
def moveaxis(x: ArrayLike, /, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """``x`` with axes moved to other places; the rest keep their order."""
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
    """``x`` with the elements of some axes, or all, in reverse order."""
    value = operand("flip", x)
    axes = all_axes("flip", axis, value.ndim)
    return emit("reverse", value, dimensions=axes) if axes else value


@public
def flipud(x: ArrayLike, /) -> Array:
    """``x`` with its first axis reversed."""
    return flip(x, 0)


@public
def fliplr(x: ArrayLike, /) -> Array:
    """``x`` with its second axis reversed."""
    return flip(x, 1)


@public
def rot90(x: ArrayLike, /, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """``x`` turned by ``k`` quarters in the plane of two axes, from the first towards the second."""
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
    """``x`` with axes of size 1 stretched, and axes in front added, to have that shape.

    Raises ShapeError where a size is neither 1 nor the wanted one.
    """
    value = operand("broadcast_to", x, shape)
    trace = value._trace
    target = shape_in(trace, shape, "broadcast_to")
    own = shape_of(value)
    if len(own) > len(target):
        _no_broadcast(value, target)
    for axis, (size, wanted) in enumerate(zip(own[::-1], target[::-1], strict=False)):
        _require_stretch(trace, value, target, len(target) - 1 - axis, size, wanted)
    return expand(value, target)


def _require_stretch(trace: Trace, x: Tracer, target: tuple[Dim, ...], axis: int, size: Dim, wanted: Dim) -> None:
    if size == 1 or trace.facts.eq(size, wanted).proved:
        return
    if isinstance(size, int):
        # Of a known size above 1 (or 0) nothing but that size can be made.
        if trace.facts.eq(size, wanted).refuted:
            _no_broadcast(x, target)
        joined: Dim = size
    elif trace.facts.broadcasts(size, wanted).refuted:
        _no_broadcast(x, target)
    else:
        joined = broadcast(size, wanted)
    reason = Reason(f"axis {axis} of {format_shape(target)} is broadcast from {format_shape(shape_of(x))}", user_loc())
    if isinstance(joined, SymExpr):  # first that the two fit: only then is there a broadcast size to compare
        trace.require(Relation(RelKind.BROADCASTS, size, wanted, reason))
    trace.require(Relation(RelKind.EQ, joined, wanted, reason))


def _no_broadcast(x: Tracer, target: tuple[Dim, ...]) -> NoReturn:
    raise ShapeError(
        f"broadcast_to: {text_of(x)} cannot be broadcast to {format_shape(target)}.",
        loc=user_loc(),
        remedy="sizes must be 1 or the wanted ones, aligned at the last axis.",
    )


@public
def broadcast_arrays(*arrays: ArrayLike) -> list[Array]:
    """The arrays, each broadcast to the one shape they have together."""
    trace = trace_of(*arrays)
    values = [tracer(trace, x, "broadcast_arrays") for x in arrays]
    shape = join_shapes("broadcast_arrays", trace, [shape_of(v) for v in values])
    return [expand(v, shape) for v in values]


def broadcast_shapes(*shapes: Shape) -> tuple[Size, ...]:
    """The shape that shapes broadcast to. Outside of a trace the sizes are ints, and NumPy answers."""
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
    """``x`` in another dtype. Floats become integers by truncation; out of range they saturate, and NaN gives 0."""
    check_device("astype", device)
    return cast(operand("astype", x), dtype_of(dtype))


def shape(x: ArrayLike, /) -> tuple[Size, ...]:
    """The size of each axis."""
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)


def ndim(x: ArrayLike, /) -> int:
    """The number of axes."""
    return len(shape(x))


def size(x: ArrayLike, /, axis: int | None = None) -> Size:
    """The number of elements, or of those along one axis."""
    dims = shape(x)
    if axis is not None:
        return dims[axis]
    total: Any = 1
    for dim in dims:
        total = total * dim
    return total
