"""Running sums and products along an axis."""

from __future__ import annotations

from dyn.errors import InvalidValueError
from dyn.numpy._joining import concatenate
from dyn.numpy._operands import cast, emit, like, operand, shape_of
from dyn.numpy._public import Array, ArrayLike, DTypeLike, public
from dyn.numpy._reductions import sum_dtype
from dyn.numpy._sorting.sort import flattened_along
from dyn.ops.reduce import identity
from dyn.source import user_loc
from dyn.trace.lift import dtype_of
from dyn.trace.tracer import Tracer

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum"]


def _running(what: str, combine: str, x: ArrayLike, axis: int | None, dtype: DTypeLike) -> tuple[Tracer, int]:
    value, number = flattened_along(what, x, axis)
    value = cast(value, sum_dtype(value.element_type) if dtype is None else dtype_of(dtype))
    return emit("cumulative", value, dimension=number, combine=combine, reverse=False), number


@public
def cumsum(x: ArrayLike, /, axis: int | None = None, dtype: DTypeLike = None) -> Array:
    """Running sum along an axis.

    Args:
        x: array of any dtype, of any shape.
        axis: axis to go along; None: all elements, in one axis.
        dtype: dtype to compute in and of the result; None: int64 for signed integers and booleans, uint64 for unsigned
            ones, that of ``x`` for others.

    Returns:
        An array of the shape of ``x``, or with ``axis=None`` a vector.

    Raises:
        ShapeError: if ``axis`` is not one of ``x``.

    Example:
        >>> dnp.cumsum(np.array([1, 2, 3]))
        array([1, 3, 6])
    """
    return _running("cumsum", "add", x, axis, dtype)[0]


@public
def cumprod(x: ArrayLike, /, axis: int | None = None, dtype: DTypeLike = None) -> Array:
    """Running product along an axis.

    Args:
        x: array of any dtype, of any shape.
        axis: axis to go along; None: all elements, in one axis.
        dtype: dtype to compute in and of the result; None: int64 for signed integers and booleans, uint64 for unsigned
            ones, that of ``x`` for others.

    Returns:
        An array of the shape of ``x``, or with ``axis=None`` a vector.

    Raises:
        ShapeError: if ``axis`` is not one of ``x``.

    Example:
        >>> dnp.cumprod(np.array([1, 2, 3]))
        array([1, 2, 6])
    """
    return _running("cumprod", "multiply", x, axis, dtype)[0]


def _standard(
    what: str, combine: str, x: ArrayLike, axis: int | None, dtype: DTypeLike, include_initial: bool
) -> Tracer:
    value = operand(what, x)
    if axis is None and value.ndim != 1:
        raise InvalidValueError(
            f"{what} of an array with {value.ndim} axes needs axis=.", loc=user_loc(), remedy="name the axis."
        )
    result, number = _running(what, combine, value, 0 if axis is None else axis, dtype)
    if not include_initial:
        return result
    shape = tuple(1 if a == number else d for a, d in enumerate(shape_of(result)))
    first = emit("broadcast_in_dim", like(result, identity(combine, result.element_type)), shape=shape, dims=())
    return concatenate([first, result], axis=number)


@public
def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike = None, include_initial: bool = False
) -> Array:
    """Running sum along an axis, by the standard's name.

    Args:
        x: array of any dtype, of any shape.
        axis: axis to go along; it may be left out for vectors alone.
        dtype: dtype to compute in and of the result; None: as for :func:`cumsum`.
        include_initial: whether a 0 comes first.

    Returns:
        An array of the shape of ``x``, with one more element along the axis where 0 comes first.

    Raises:
        InvalidValueError: if ``axis`` is not given, and ``x`` is no vector.
        ShapeError: if ``axis`` is not one of ``x``.

    Example:
        >>> dnp.cumulative_sum(np.array([1, 2, 3]), include_initial=True)
        array([0, 1, 3, 6])
    """
    return _standard("cumulative_sum", "add", x, axis, dtype, include_initial)


@public
def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike = None, include_initial: bool = False
) -> Array:
    """Running product along an axis, by the standard's name.

    Args:
        x: array of any dtype, of any shape.
        axis: axis to go along; it may be left out for vectors alone.
        dtype: dtype to compute in and of the result; None: as for :func:`cumprod`.
        include_initial: whether a 1 comes first.

    Returns:
        An array of the shape of ``x``, with one more element along the axis where 1 comes first.

    Raises:
        InvalidValueError: if ``axis`` is not given, and ``x`` is no vector.
        ShapeError: if ``axis`` is not one of ``x``.
    """
    return _standard("cumulative_prod", "multiply", x, axis, dtype, include_initial)
