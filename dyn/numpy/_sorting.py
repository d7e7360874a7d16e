"""Sorting, which NumPy's own code does, called from the compiled program; and what runs along an axis."""

from __future__ import annotations

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import InvalidValueError, UnsupportedOpError
from dyn.numpy._axes import one_axis
from dyn.numpy._joining import concatenate
from dyn.numpy._manipulation import view
from dyn.numpy._operands import cast, dtype_of, emit, emit_all, like, made, operand, shape_of
from dyn.numpy._public import Array, ArrayLike, DTypeLike, public
from dyn.numpy._reductions import sum_dtype
from dyn.ops.reduce import identity
from dyn.shapes import product
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = ["argsort", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "sort", "sort_complex"]


def _along(what: str, x: ArrayLike, axis: int | None) -> tuple[Tracer, int]:
    """The operand, flat where there is no axis, and the axis."""
    value = operand(what, x)
    if axis is None:
        return view(value, (product(shape_of(value)),)), 0
    return value, one_axis(what, axis, value.ndim)


def _sortable(what: str, x: Tracer) -> Tracer:
    if x.element_type.kind is Kind.COMPLEX:
        raise UnsupportedOpError(
            f"{what} does not take {x.element_type.name}.", loc=user_loc(), remedy="sort the real or imaginary part."
        )
    return x


@public
def sort(x: ArrayLike, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Array:
    """The elements in order along ``axis`` (None: all of them, flat). NaN is more than any number."""
    value, number = _along("sort", x, axis)
    return emit("sort", _sortable("sort", value), dimension=number, descending=bool(descending))


@public
def argsort(x: ArrayLike, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Array:
    """The places of the elements of the sorted array, as int64; equal ones keep their order."""
    value, number = _along("argsort", x, axis)
    places = made(value._trace, "iota", shape=shape_of(value), dimension=number, dtype=dtypes.int64)
    _, order = emit_all("sort", _sortable("argsort", value), places, dimension=number, descending=bool(descending))
    return order


@public
def sort_complex(x: ArrayLike, /) -> Array:
    """The elements along the last axis in order, as complex numbers: by real parts, equal ones by imaginary parts."""
    value = operand("sort_complex", x)
    last = one_axis("sort_complex", -1, value.ndim)
    element = dtypes.complex128 if value.element_type in (dtypes.complex128, dtypes.float64) else dtypes.complex64
    value = cast(value, element)
    real, imag = emit("real", value), emit("imag", value)
    # By the lesser key first: sorting keeps the order of what is equal.
    imag, real = emit_all("sort", imag, real, dimension=last, descending=False)
    real, imag = emit_all("sort", real, imag, dimension=last, descending=False)
    return emit("complex", real, imag)


def _running(what: str, combine: str, x: ArrayLike, axis: int | None, dtype: DTypeLike) -> tuple[Tracer, int]:
    value, number = _along(what, x, axis)
    value = cast(value, sum_dtype(value.element_type) if dtype is None else dtype_of(dtype))
    return emit("cumulative", value, dimension=number, combine=combine, reverse=False), number


@public
def cumsum(x: ArrayLike, /, axis: int | None = None, dtype: DTypeLike = None) -> Array:
    """The sums of all elements up to each, along ``axis`` (None: of the flat array). Integers are added in int64."""
    return _running("cumsum", "add", x, axis, dtype)[0]


@public
def cumprod(x: ArrayLike, /, axis: int | None = None, dtype: DTypeLike = None) -> Array:
    """The products of all elements up to each, along ``axis`` (None: of the flat array)."""
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
    """The array API's cumsum: ``axis`` may be left out in one dimension; ``include_initial`` starts with a 0."""
    return _standard("cumulative_sum", "add", x, axis, dtype, include_initial)


@public
def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike = None, include_initial: bool = False
) -> Array:
    """The array API's cumprod: ``axis`` may be left out in one dimension; ``include_initial`` starts with a 1."""
    return _standard("cumulative_prod", "multiply", x, axis, dtype, include_initial)
