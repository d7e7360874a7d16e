"""Diagonals: taken out of arrays, and put into matrices."""

from __future__ import annotations

from typing import Any

from dyn import dtypes
from dyn.errors import ShapeError
from dyn.numpy._axes import distinct_axes, text_of
from dyn.numpy._creation import diagonal_mask
from dyn.numpy._indexing.getitem import getitem
from dyn.numpy._operands import emit, made, offset_in, operand, shape_of
from dyn.numpy._padding import pad
from dyn.numpy._public import Array, ArrayLike, DTypeLike, public
from dyn.numpy._reductions import sum
from dyn.numpy._unary import filled
from dyn.ops.indexing.gather import gather_attrs
from dyn.shapes import dim_max, dim_min
from dyn.source import user_loc
from dyn.trace.dims import wrap_dim
from dyn.trace.tracer import Tracer

__all__ = ["diag", "diagonal", "trace"]


def main_diagonal(x: Tracer, axis1: int, axis2: int) -> Tracer:
    """The elements whose indices on two axes are equal, along a last axis in place of the two."""
    trace, dims = x._trace, shape_of(x)
    length = trace.facts.simplify(dim_min(dims[axis1], dims[axis2]))
    places = made(trace, "iota", shape=(length,), dimension=0, dtype=dtypes.int64)
    both = (axis1, axis2)
    attrs = gather_attrs(
        tuple(1 if a in both else d for a, d in enumerate(dims)), offset_dims=tuple(range(x.ndim - 2)),
        start_index_map=both, index_vector_dim=1, collapsed_slice_dims=tuple(sorted(both)),
    )  # fmt: skip
    return emit("gather", x, places, places, **attrs)


@public
def diagonal(x: ArrayLike, /, offset: Any = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Elements of a diagonal of two axes, along a new last axis.

    Args:
        x: array of any dtype, of two axes or more.
        offset: 0: the main diagonal; positive: one above it, negative: below; an int or a dimension.
        axis1: axis of the rows.
        axis2: axis of the columns.

    Returns:
        An array of the dtype of ``x``, without the two axes and with one of the length of the diagonal: 0 where it lies
        outside.

    Raises:
        ShapeError: if ``x`` has fewer than two axes, or the two are one.

    Example:
        >>> dnp.diagonal(np.arange(9).reshape(3, 3), 1)
        array([1, 5])
    """
    value = operand("diagonal", x, offset)
    if value.ndim < 2:
        raise ShapeError(f"diagonal: {text_of(value)} has fewer than 2 axes.", loc=user_loc(), remedy="pass a matrix.")
    rows, columns = distinct_axes("diagonal", (axis1, axis2), value.ndim)
    trace = value._trace
    k = offset_in(trace, offset, "diagonal")
    index: list[slice] = [slice(None)] * value.ndim
    for axis, first in ((rows, -k), (columns, k)):
        if not trace.facts.ge(0, first).proved:
            index[axis] = slice(wrap_dim(trace, trace.facts.simplify(dim_max(first, 0))), None)
    return main_diagonal(getitem(value, tuple(index)), rows, columns)


@public
def trace(x: ArrayLike, /, offset: Any = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike = None) -> Array:
    """Sum of a diagonal of two axes, the first two unless others are named; ``linalg.trace`` is of the last two.

    Args:
        x: array of any dtype, of two axes or more.
        offset: 0: the main diagonal; positive: one above it, negative: below; an int or a dimension.
        axis1: axis of the rows.
        axis2: axis of the columns.
        dtype: dtype to compute in and of the result; None: as for :func:`sum`.

    Returns:
        An array of the other axes.

    Raises:
        ShapeError: if ``x`` has fewer than two axes, or the axes are not two of ``x``.

    Example:
        >>> dnp.trace(np.array([[1, 2], [3, 4]]))
        array(5)
    """
    return sum(diagonal(operand("trace", x), offset, axis1, axis2), -1, dtype)


@public
def diag(x: ArrayLike, /, k: Any = 0) -> Array:
    """Diagonal of a matrix, or the matrix that has a vector for its diagonal and zeros elsewhere.

    Args:
        x: vector or matrix of any dtype; its sizes may be symbolic.
        k: 0: the main diagonal; positive: one above it, negative: below; an int or a dimension.

    Returns:
        Of a matrix a vector, of a vector of n elements a square matrix of n + abs(k) rows, in the dtype of ``x``.

    Raises:
        ShapeError: if ``x`` has neither one axis nor two.

    Example:
        >>> dnp.diag(np.array([1, 2]), 1)
        array([[0, 1, 0],
               [0, 0, 2],
               [0, 0, 0]])
    """
    value = operand("diag", x, k)
    if value.ndim == 2:
        return diagonal(value, k)
    if value.ndim != 1:
        raise ShapeError(
            f"diag: {text_of(value)} has {value.ndim} axes.", loc=user_loc(), remedy="pass a vector or a matrix."
        )
    trace = value._trace
    offset = offset_in(trace, k, "diag")
    above, below = (trace.facts.simplify(dim_max(d, 0)) for d in (offset, -offset))
    # The element of row i is x[i - below]: each row has its own, spread over the columns.
    rows = pad(value, (wrap_dim(trace, below), wrap_dim(trace, above)))
    (size,) = shape_of(rows)
    spread = emit("broadcast_in_dim", rows, shape=(size, size), dims=(0,))
    here = diagonal_mask(trace, (size, size), k, "EQ")
    return emit("select", here, spread, filled(spread, 0))
