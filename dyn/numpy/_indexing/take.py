"""Elements at the places that integer arrays say, along one axis.

Nothing that compiled code reads can be an error, so ``mode`` says what an index does that is out of range. Without one,
negative indices count from the end, and what is further out takes the nearest element there is, as in ``x[i]``.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import NotYetError, ShapeError, UnsupportedOpError
from dyn.numpy._axes import one_axis, text_of
from dyn.numpy._binary import clip, remainder
from dyn.numpy._broadcast import expand, join_shapes
from dyn.numpy._changing import changing
from dyn.numpy._logic import greater_equal, less, logical_and
from dyn.numpy._manipulation import view
from dyn.numpy._operands import cast, constant, emit, in_int64, made, operand, promote, shape_of
from dyn.numpy._options import no_choice
from dyn.numpy._public import Array, ArrayLike, public
from dyn.ops.indexing.gather import gather_attrs, take_attrs
from dyn.ops.indexing.scatter import scatter_attrs
from dyn.shapes import Dim, dim_max, product
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = ["put_along_axis", "take", "take_along_axis"]

_MODES = ("clip", "wrap", "fill")


@public
def take(
    x: ArrayLike, indices: ArrayLike, /, axis: int | None = None, mode: str | None = None, *, fill_value: Any = None
) -> Array:
    """Elements at given places along an axis.

    Args:
        x: array of any dtype.
        indices: array or list of integers, of any shape.
        axis: axis to take from; None: all elements, in one axis.
        mode: None: negative indices count from the end, and what is out of range takes the nearest element; ``"clip"``:
            negative ones take the first element; ``"wrap"``: indices count round the axis; JAX's ``"fill"``: negative
            ones count from the end, and what is out of range gives ``fill_value``. NumPy's ``"raise"`` is not there
            yet.
        fill_value: value of ``mode="fill"``; None: NaN, the least signed, the greatest unsigned integer, True.

    Returns:
        An array of the dtype of ``x``: the axes of ``indices`` stand in the place of the axis.

    Raises:
        ShapeError: if elements are taken from an empty axis, at the call at the latest; if ``axis`` is not one of
            ``x``.
        UnsupportedOpError: if the indices are not integers.
        NotYetError: if ``mode`` is ``"raise"``.
        InvalidValueError: if ``mode`` is another one.

    Example:
        >>> dnp.take(np.array([10, 20, 30]), np.array([[0, -1]]))
        array([[10, 30]])
    """
    value = operand("take", x, indices)
    if axis is None:
        value = view(value, (product(shape_of(value)),))
    number = one_axis("take", 0 if axis is None else axis, value.ndim)
    size = shape_of(value)[number]
    places = _places("take", value, indices)
    if mode is None:
        return _taken(value, places, number)
    if mode not in _MODES:
        _no_mode("take", mode)
    whole = in_int64(places)
    if mode == "wrap":
        return _taken(value, remainder(whole, size_of(value, dim_max(size, 1))), number)
    if mode == "clip":
        return _taken(value, clip(whole, 0, None), number)
    inside = logical_and(greater_equal(whole, size_of(value, -size)), less(whole, size_of(value, size)))
    taken = _taken(value, whole, number)
    dims = tuple(range(number, number + places.ndim))
    mask = emit("broadcast_in_dim", inside, shape=shape_of(taken), dims=dims)
    fill = constant(value._trace, fill_of(value) if fill_value is None else fill_value, value.element_type)
    return emit("select", mask, taken, expand(fill, shape_of(taken)))


def _no_mode(what: str, mode: str) -> NoReturn:
    if mode == "raise":
        raise NotYetError(
            f"{what} with mode='raise' comes later: compiled code does not look for indices out of range.",
            loc=user_loc(),
            remedy="leave mode out, or use 'clip', 'wrap' or 'fill'.",
        )
    raise no_choice(what, "mode", mode, ("clip", "wrap", "fill"))


def _places(what: str, x: Tracer, indices: ArrayLike) -> Tracer:
    """Indices as an integer array."""
    if isinstance(indices, list | tuple):
        indices = np.array(indices, None if indices else np.int64)
    (places,) = promote(what, indices)
    if not places.element_type.is_integer:
        raise UnsupportedOpError(
            f"{what}: the indices of {text_of(x)} are {places.element_type.name}, not integers.",
            loc=user_loc(),
            remedy="convert them with .astype('int32').",
        )
    return cast(places, dtypes.int64) if places.weak else places


def size_of(x: Tracer, size: Dim) -> Tracer:
    """A size as a number of the program that ``x`` is in."""
    return made(x._trace, "dim_size", size=size, dtype=dtypes.int64)


def _taken(x: Tracer, places: Tracer, axis: int) -> Tracer:
    return emit("gather", x, places, **take_attrs(shape_of(x), axis, places.ndim))


def fill_of(x: Tracer) -> bool | int | float:
    """The number that JAX fills places out of range with."""
    kind = x.element_type.kind
    if kind is Kind.BOOL:
        return True
    if x.element_type.is_integer:
        info = np.iinfo(x.element_type.np)
        return int(info.max if kind is Kind.UINT else info.min)
    return float("nan")


# ---- along an axis ---------------------------------------------------------------------------------------------------


def _along(what: str, x: ArrayLike, indices: ArrayLike, axis: int | None) -> tuple[Tracer, Tracer, int]:
    value = operand(what, x, indices)
    if axis is None:
        value = view(value, (product(shape_of(value)),))
    number = one_axis(what, 0 if axis is None else axis, value.ndim)
    places = _places(what, value, indices)
    if places.ndim != value.ndim:
        raise ShapeError(
            f"{what}: {text_of(value)} has {value.ndim} axes, and the indices have {places.ndim}.",
            loc=user_loc(),
            remedy="give indices with as many axes, of size 1 where they are the same for all.",
        )
    return value, places, number


def _spread(what: str, x: Tracer, places: Tracer, axis: int) -> tuple[Tracer, Tracer]:
    """Both with the same sizes on all axes but one."""
    sizes = [tuple(1 if a == axis else d for a, d in enumerate(shape_of(v))) for v in (x, places)]
    joined = join_shapes(what, x._trace, sizes)
    first, second = (
        expand(v, tuple(shape_of(v)[axis] if a == axis else d for a, d in enumerate(joined))) for v in (x, places)
    )
    return first, second


@public
def take_along_axis(x: ArrayLike, indices: ArrayLike, /, axis: int | None = -1) -> Array:
    """Elements at places along an axis that are given for each place of the others.

    Args:
        x: array of any dtype.
        indices: array of integers with as many axes, which broadcasts with ``x`` on the others; negative ones count
            from the end, and what is out of range takes the nearest element.
        axis: axis that indices are for; None: all elements, in one axis.

    Returns:
        An array of the dtype of ``x``, whose axis is as long as that of ``indices``.

    Raises:
        ShapeError: if the numbers of axes differ, or other sizes do not broadcast, at the call at the latest.
        UnsupportedOpError: if the indices are not integers.

    Example:
        >>> dnp.take_along_axis(np.array([[3, 1, 2]]), np.array([[1, 2]]))
        array([[1, 2]])
    """
    value, places, number = _along("take_along_axis", x, indices, axis)
    value, places = _spread("take_along_axis", value, places, number)
    others = tuple(a for a in range(value.ndim) if a != number)
    attrs = gather_attrs(
        (1,) * value.ndim, offset_dims=(), start_index_map=(number,), index_vector_dim=value.ndim,
        collapsed_slice_dims=(number,), operand_batching_dims=others, start_indices_batching_dims=others, wrap=True,
    )  # fmt: skip
    return emit("gather", value, places, **attrs)


@changing
@public
def put_along_axis(
    arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int | None = -1, *, inplace: bool = True
) -> Array:
    """Array with values at places along an axis that are given for each place of the others.

    As in NumPy ``arr`` changes, an array of dyn's; ``inplace=False`` gives a new one, as in JAX.

    Args:
        arr: array of any dtype.
        indices: array of integers with as many axes, which broadcasts to ``arr`` on the others; negative ones count
            from the end, those out of range are left out.
        values: array that broadcasts to the indices, converted to the dtype of ``arr``; of several for one place the
            last one stays.
        axis: axis that indices are for; None: all elements, in one axis.
        inplace: False for a new array.

    Returns:
        An array of the shape and dtype of ``arr``.

    Raises:
        UnsupportedOpError: for an array of another library's to change, or indices that are no integers.
        ShapeError: if the numbers of axes differ, or sizes do not broadcast, at the call at the latest.

    Example:
        >>> dnp.put_along_axis(np.array([[3, 1, 2]]), np.array([[1]]), 9, inplace=False)
        array([[3, 9, 2]])
    """
    value, places, number = _along("put_along_axis", arr, indices, axis)
    shape = shape_of(value)
    others = tuple(a for a in range(value.ndim) if a != number)
    target = tuple(shape_of(places)[a] if a == number else shape[a] for a in range(value.ndim))
    places = expand(places, target)
    new = expand(cast(operand("put_along_axis", values, arr), value.element_type), target)
    attrs = scatter_attrs(
        "replace", update_window_dims=(), scatter_dims_to_operand_dims=(number,), index_vector_dim=value.ndim,
        inserted_window_dims=(number,), input_batching_dims=others, scatter_indices_batching_dims=others, wrap=True,
    )  # fmt: skip
    result = emit("scatter", value, places, new, **attrs)
    return result if axis is not None else view(result, shape_of(operand("put_along_axis", arr)))
