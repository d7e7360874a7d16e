"""Sorting along an axis, which NumPy's own code does, called from the compiled program."""

from __future__ import annotations

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import UnsupportedOpError
from dyn.numpy._axes import one_axis
from dyn.numpy._manipulation import view
from dyn.numpy._operands import cast, emit, emit_all, made, operand, shape_of
from dyn.numpy._public import Array, ArrayLike, public
from dyn.shapes import product
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = ["argsort", "flattened_along", "sort", "sort_complex"]


def flattened_along(what: str, x: ArrayLike, axis: int | None) -> tuple[Tracer, int]:
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
    """Elements in order along an axis; NaN is more than any number.

    Args:
        x: array of any real dtype, of any shape.
        axis: axis to sort along; None: all elements, in one axis.
        descending: whether the greatest comes first; NaN then too.
        stable: taken for the standard's sake: sorts are stable.

    Returns:
        An array of the dtype of ``x``, of its shape or, with ``axis=None``, a vector.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
        ShapeError: if ``axis`` is not one of ``x``.

    Example:
        >>> dnp.sort(np.array([3, 1, 2]), descending=True)
        array([3, 2, 1])
    """
    value, number = flattened_along("sort", x, axis)
    return emit("sort", _sortable("sort", value), dimension=number, descending=bool(descending))


@public
def argsort(x: ArrayLike, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True) -> Array:
    """Places of elements in their order along an axis; NaN is more than any number.

    Args:
        x: array of any real dtype, of any shape.
        axis: axis to sort along; None: all elements, in one axis.
        descending: whether the greatest comes first; what is equal keeps its order all the same.
        stable: taken for the standard's sake: sorts are stable.

    Returns:
        An array of int64, of the shape of ``x`` or, with ``axis=None``, a vector.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
        ShapeError: if ``axis`` is not one of ``x``.

    Example:
        >>> dnp.argsort(np.array([3, 1, 2]))
        array([1, 2, 0])
    """
    value, number = flattened_along("argsort", x, axis)
    places = made(value._trace, "iota", shape=shape_of(value), dimension=number, dtype=dtypes.int64)
    _, order = emit_all("sort", _sortable("argsort", value), places, dimension=number, descending=bool(descending))
    return order


@public
def sort_complex(x: ArrayLike, /) -> Array:
    """Elements as complex numbers, in order along the last axis: by real parts, then by imaginary ones.

    Args:
        x: array of any dtype, of one axis or more.

    Returns:
        An array of the shape of ``x``: complex128 of float64 and complex128, complex64 of others, where NumPy has
        complex128 of integers of 32 and 64 bits too.

    Raises:
        ShapeError: if ``x`` has no axes.
    """
    value = operand("sort_complex", x)
    last = one_axis("sort_complex", -1, value.ndim)
    element = dtypes.complex128 if value.element_type in (dtypes.complex128, dtypes.float64) else dtypes.complex64
    value = cast(value, element)
    real, imag = emit("real", value), emit("imag", value)
    # By the lesser key first: sorting keeps the order of what is equal.
    imag, real = emit_all("sort", imag, real, dimension=last, descending=False)
    real, imag = emit_all("sort", real, imag, dimension=last, descending=False)
    return emit("complex", real, imag)
