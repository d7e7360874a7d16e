"""Indices of grids, triangles and diagonals, and what lies between an index of many axes and one of a single one.

This file is longer than most: half of it says what each function takes and gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import NotYetError, ShapeError, UnsupportedOpError
from dyn.numpy._axes import shape_in, text_of
from dyn.numpy._binary import floor_divide, minimum, multiply, remainder, subtract
from dyn.numpy._binary import maximum as larger
from dyn.numpy._broadcast import align, expand
from dyn.numpy._creation import arange
from dyn.numpy._creation import indices as places_along
from dyn.numpy._cumulative import cumsum
from dyn.numpy._indexing.getitem import getitem
from dyn.numpy._indexing.nonzero import nonzero
from dyn.numpy._indexing.take import size_of
from dyn.numpy._manipulation import view
from dyn.numpy._operands import cast, default_float, emit, operand, promote, shape_of
from dyn.numpy._options import check_numbers, no_choice, one_of, whole_number
from dyn.numpy._public import Array, ArrayLike, DTypeLike, Shape, Size, checked, public, trace_of
from dyn.numpy._sorting.search import array_of, never_empty, places_in
from dyn.ops.indexing.gather import take_attrs
from dyn.shapes import Dim, RelKind, dim_max, floordiv, format_dim, product
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.dims import wrap_dim
from dyn.trace.lift import dtype_of
from dyn.trace.tracer import Tracer

__all__ = [
    "diag_indices", "diag_indices_from", "fromfunction", "indices", "ix_", "ravel_multi_index", "tril_indices",
    "tril_indices_from", "triu_indices", "triu_indices_from", "unravel_index",
]  # fmt: skip


# ---- grids -----------------------------------------------------------------------------------------------------------


@public
def indices(dimensions: Shape, dtype: DTypeLike = None, sparse: bool = False) -> Any:
    """Index on each axis of every element of a grid.

    Args:
        dimensions: size or sizes of the grid, ints or dimensions.
        dtype: dtype of the result; None: int64.
        sparse: whether the arrays only broadcast to the grid.

    Returns:
        An array with one more axis in front; with ``sparse`` a tuple of arrays.

    Raises:
        ShapeError: if a size is negative.

    Example:
        >>> dnp.indices((2, 2))[0]
        dyn.Array([[0, 0],
                   [1, 1]], dtype=int64)
    """
    trace = trace_of(dimensions)
    dims = shape_in(trace, dimensions, "indices")
    element = dtypes.int64 if dtype is None else dtype_of(dtype)
    lines = [places_along(trace, (size,), 0, element) for size in dims]
    spread = [view(x, tuple(size if a == axis else 1 for a, _ in enumerate(dims)))
              for axis, (x, size) in enumerate(zip(lines, dims, strict=True))]  # fmt: skip
    if sparse:
        return tuple(spread)
    layers = [view(expand(x, dims), (1, *dims)) for x in spread]
    if not layers:
        return cast(places_along(trace, (0,), 0, dtypes.int64), element)
    return layers[0] if len(layers) == 1 else emit("concatenate", *layers, dimension=0)


@public
def fromfunction(function: Callable[..., Any], shape: Shape, *, dtype: DTypeLike = None, **kwargs: Any) -> Any:
    """Function of the indices of every element of a grid.

    Args:
        function: function of as many arrays as there are sizes.
        shape: size or sizes of the grid, ints or dimensions.
        dtype: dtype of the indices; None: the default float dtype.
        **kwargs: further arguments of the function, by name.

    Returns:
        What the function gives.

    Raises:
        ShapeError: if a size is negative.

    Example:
        >>> dnp.fromfunction(lambda i, j: 10 * i + j, (2, 3), dtype=int)
        dyn.Array([[ 0,  1,  2],
                   [10, 11, 12]], dtype=int64)
    """
    grid = indices(shape, default_float() if dtype is None else dtype)
    count = shape_of(operand("fromfunction", grid))[0]
    assert isinstance(count, int)
    return function(*(getitem(grid, axis) for axis in range(count)), **kwargs)


@public
def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Vectors of indices as arrays that broadcast to a grid, for ``x[ix_(rows, columns)]``.

    Args:
        *args: vectors of integers, or of booleans, whose places count: then a size is found out when the program runs.

    Returns:
        A tuple of arrays, each with its size on its own axis and 1 on the others.

    Raises:
        ShapeError: if one is no vector.

    Example:
        >>> [x.shape for x in dnp.ix_(np.array([0, 2]), np.array([1, 3, 4]))]
        [(2, 1), (1, 3)]
    """
    made: list[Array] = []
    for axis, given in enumerate(args):
        value = array_of("ix_", given, *args)
        if value.ndim != 1:
            raise ShapeError(
                f"ix_ takes vectors, and {text_of(value)} has {value.ndim} axes.",
                loc=user_loc(),
                remedy="pass one vector of indices for each axis.",
            )
        if value.element_type.kind is Kind.BOOL:
            (value,) = nonzero(value)
        made.append(view(value, tuple(shape_of(value)[0] if a == axis else 1 for a, _ in enumerate(args))))
    return tuple(made)


# ---- triangles and diagonals -----------------------------------------------------------------------------------------


def _triangle_size(trace: Trace, n: Dim, m: Dim, k: int, what: str) -> Dim:
    """Number of elements of n rows and m columns on or below the k-th diagonal."""
    if isinstance(n, int) and isinstance(m, int):
        return sum(max(0, min(i + k + 1, m)) for i in range(n))
    if n is not m and not trace.facts.eq(n, m).proved:
        raise UnsupportedOpError(
            f"{what}: the size of a triangle of {format_dim(n)} rows and {format_dim(m)} columns is not known.",
            loc=user_loc(),
            remedy="leave the number of columns out, or choose with dyn.numpy.tril and triu.",
        )
    if k <= 0:
        side = dim_max(n + k, 0)
        return floordiv(side * (side + 1), 2)
    rest = dim_max(n - k - 1, 0)
    return n * n - floordiv(rest * (rest + 1), 2)


def _triangle(what: str, n: Size, k: Any, m: Size | None, upper: bool) -> tuple[Array, Array]:
    """Rows and columns: the elements of the rows one after the other, whose numbers say in which row one lies."""
    trace = trace_of(n, m)
    k = whole_number(what, "the diagonal", k)
    rows, columns = shape_in(trace, (n, n if m is None else m), what)
    below = _triangle_size(trace, rows, columns, k - 1 if upper else k, what)
    total = trace.facts.simplify(product((rows, columns)) - below if upper else below)
    line: Array = places_along(trace, (rows,), 0, dtypes.int64)
    width = size_of(line, columns)
    # Up to the diagonal, or from it on.
    edge = minimum(larger(line + (k if upper else k + 1), 0), width)
    counts = subtract(width, edge) if upper else edge
    ends = cumsum(counts)
    numbers: Array = places_along(trace, (total,), 0, dtypes.int64)
    row: Array = places_in(ends, numbers, True)

    def of_row(x: Tracer) -> Array:
        return emit("gather", never_empty(x, 0), row, **take_attrs((rows,), 0, 1))

    column = numbers - (of_row(ends) - of_row(counts))
    return row, column + of_row(edge) if upper else column


@public
def tril_indices(n: Size, k: int = 0, m: Size | None = None) -> tuple[Array, Array]:
    """Rows and columns of the elements on and below a diagonal.

    Args:
        n: number of rows, an int or a dimension.
        k: which diagonal, an int: 0 the main one, positive above it, negative below.
        m: number of columns; None: ``n``. Symbolic ones have to be equal to the rows.

    Returns:
        Two vectors of int64, in row-major order.

    Raises:
        UnsupportedOpError: if ``n`` and ``m`` are symbolic and not equal.
        ArgumentError: if ``k`` is no int.

    Example:
        >>> dnp.tril_indices(2)
        (dyn.Array([0, 1, 1], dtype=int64), dyn.Array([0, 0, 1], dtype=int64))
    """
    return _triangle("tril_indices", n, k, m, False)


@public
def triu_indices(n: Size, k: int = 0, m: Size | None = None) -> tuple[Array, Array]:
    """Rows and columns of the elements on and above a diagonal.

    Args:
        n: number of rows, an int or a dimension.
        k: which diagonal, an int: 0 the main one, positive above it, negative below.
        m: number of columns; None: ``n``. Symbolic ones have to be equal to the rows.

    Returns:
        Two vectors of int64, in row-major order.

    Raises:
        UnsupportedOpError: if ``n`` and ``m`` are symbolic and not equal.
        ArgumentError: if ``k`` is no int.

    Example:
        >>> dnp.triu_indices(2)
        (dyn.Array([0, 0, 1], dtype=int64), dyn.Array([0, 1, 1], dtype=int64))
    """
    return _triangle("triu_indices", n, k, m, True)


def _sides(what: str, x: ArrayLike) -> tuple[Size, Size]:
    value = operand(what, x)
    if value.ndim != 2:
        raise ShapeError(f"{what}: {text_of(value)} has {value.ndim} axes.", loc=user_loc(), remedy="pass a matrix.")
    rows, columns = shape_of(value)
    return wrap_dim(value._trace, rows), wrap_dim(value._trace, columns)


@public
def tril_indices_from(x: ArrayLike, /, k: int = 0) -> tuple[Array, Array]:
    """:func:`tril_indices` of the sizes of a matrix.

    Args:
        x: matrix of any dtype; symbolic sizes have to be equal.
        k: which diagonal, an int.

    Returns:
        Two vectors of int64, in row-major order.

    Raises:
        ShapeError: if ``x`` is no matrix.
        UnsupportedOpError: if the sizes are symbolic and not equal.
    """
    n, m = _sides("tril_indices_from", x)
    return tril_indices(n, k, m)


@public
def triu_indices_from(x: ArrayLike, /, k: int = 0) -> tuple[Array, Array]:
    """:func:`triu_indices` of the sizes of a matrix.

    Args:
        x: matrix of any dtype; symbolic sizes have to be equal.
        k: which diagonal, an int.

    Returns:
        Two vectors of int64, in row-major order.

    Raises:
        ShapeError: if ``x`` is no matrix.
        UnsupportedOpError: if the sizes are symbolic and not equal.
    """
    n, m = _sides("triu_indices_from", x)
    return triu_indices(n, k, m)


@public
def diag_indices(n: Size, ndim: int = 2) -> tuple[Array, ...]:
    """Indices of the main diagonal of an array whose axes are equally long.

    Args:
        n: size of each axis, an int or a dimension.
        ndim: number of axes, an int.

    Returns:
        A tuple of ``ndim`` vectors of int64.

    Example:
        >>> dnp.diag_indices(2)
        (dyn.Array([0, 1], dtype=int64), dyn.Array([0, 1], dtype=int64))
    """
    return (arange(n),) * ndim


@public
def diag_indices_from(x: ArrayLike, /) -> tuple[Array, ...]:
    """Indices of the main diagonal of an array.

    Args:
        x: array of any dtype, of two axes or more, which have to be equally long.

    Returns:
        A tuple of a vector of int64 for each axis.

    Raises:
        ShapeError: if ``x`` has fewer than two axes, or its sizes differ, at the call at the latest.
    """
    value = operand("diag_indices_from", x)
    if value.ndim < 2:
        raise ShapeError(
            f"diag_indices_from: {text_of(value)} has fewer than 2 axes.", loc=user_loc(), remedy="pass a matrix."
        )
    _demand_equal(value)
    return diag_indices(wrap_dim(value._trace, shape_of(value)[0]), value.ndim)


def _demand_equal(x: Tracer) -> None:
    for axis, size in enumerate(shape_of(x)[1:], 1):
        x._trace.demand(RelKind.EQ, shape_of(x)[0], size, f"diag_indices_from takes axis {axis} as long as axis 0")


# ---- one index for many ----------------------------------------------------------------------------------------------


def _sizes(trace: Trace, shape: Any, what: str) -> list[Dim]:
    return list(shape_in(trace, shape if isinstance(shape, tuple | list) else (shape,), what))


def _in_an_array(indices: Any = 0, shape: Any = (), *_: Any, **__: Any) -> None:
    sizes = shape if isinstance(shape, tuple | list) else (shape,)
    if isinstance(indices, int) and all(isinstance(size, int) for size in sizes):
        total = math.prod(sizes)
        remedy = f"use one from {-total} to {total - 1}."
        check_numbers("unravel_index", "the index", indices, lambda number: -total <= number < total, remedy)


@checked(_in_an_array)
@public
def unravel_index(indices: ArrayLike, shape: Shape) -> tuple[Array, ...]:
    """Index on each axis of the elements that have given numbers in an array of a shape.

    Args:
        indices: array of integers of any shape; as in JAX negative ones count from the end, and those out of range take
            the nearest element.
        shape: size or sizes of that array, ints or dimensions.

    Returns:
        A tuple of an array of int64 for each axis.

    Raises:
        InvalidValueError: if a Python number is out of range.
        UnsupportedOpError: if they are not integers.

    Example:
        >>> dnp.unravel_index(np.array([1, 5]), (2, 3))
        (array([0, 1]), array([1, 2]))
    """
    value = array_of("unravel_index", indices, shape)
    dims = _sizes(value._trace, shape, "unravel_index")
    number = cast(_integers("unravel_index", value), dtypes.int64)
    total = size_of(value, product(dims))
    number = minimum(larger(number, subtract(0, total)), subtract(total, 1))
    found: list[Array] = []
    for size in reversed(dims):
        width = size_of(value, size)
        found.append(remainder(number, width))
        number = floor_divide(number, width)
    return tuple(reversed(found))


def _integers(what: str, x: Tracer) -> Tracer:
    if not x.element_type.is_integer:
        raise UnsupportedOpError(
            f"{what} takes integers, not {x.element_type.name}.",
            loc=user_loc(),
            remedy="convert the array with .astype('int32').",
        )
    return x


def _on_its_axis(multi_index: Any = (), dims: Any = (), mode: Any = None, *_: Any, **__: Any) -> None:
    sizes = dims if isinstance(dims, tuple | list) else (dims,)
    for place, size in zip(multi_index, sizes, strict=False):
        if mode is None and isinstance(place, int) and isinstance(size, int):
            remedy = f"use one from 0 to {size - 1}."
            check_numbers("ravel_multi_index", "an index", place, lambda number: 0 <= number < size, remedy)  # noqa: B023


@checked(_on_its_axis)
@public
def ravel_multi_index(multi_index: Sequence[ArrayLike], dims: Shape, mode: Any = None, order: str = "C") -> Array:
    """Numbers of elements in an array of a shape, of their index on each axis.

    Args:
        multi_index: sequence of arrays of integers, one for each axis, that broadcast.
        dims: sizes of that array, ints or dimensions.
        mode: ``"wrap"`` or ``"clip"``, for all axes or one for each; None: indices in arrays are taken as they are.
            NumPy's ``"raise"`` is not there yet: compiled code does not look for indices out of range.
        order: ``"C"`` or ``"F"``.

    Returns:
        An array of int64, of the shape that the indices broadcast to.

    Raises:
        InvalidValueError: if a Python number is out of range and ``mode`` is None; if ``mode`` or ``order`` is another
            one.
        NotYetError: if ``mode`` is ``"raise"``.
        ShapeError: if there is not an index for each axis.
        UnsupportedOpError: if they are not integers.

    Example:
        >>> dnp.ravel_multi_index((np.array([0, 1]), np.array([1, 2])), (2, 3))
        array([1, 5])
    """
    parts = [_integers("ravel_multi_index", array_of("ravel_multi_index", x, *multi_index, dims)) for x in multi_index]
    trace = trace_of(*multi_index, dims)
    sizes = _sizes(trace, dims, "ravel_multi_index")
    modes = list(mode) if isinstance(mode, tuple | list) else [mode] * len(sizes)
    if len(parts) != len(sizes) or len(modes) != len(sizes):
        raise ShapeError(
            f"ravel_multi_index: there are {len(parts)} indices and {len(modes)} modes for {len(sizes)} axes.",
            loc=user_loc(),
            remedy="give one index for each axis.",
        )
    one_of("ravel_multi_index", "order", order, ("C", "F"))
    places = [cast(p, dtypes.int64) for p in align("ravel_multi_index", promote("ravel_multi_index", *parts))]
    result: Array = None
    steps = list(zip(places, sizes, modes, strict=True))
    for place, size, how in steps if order == "C" else reversed(steps):
        width = size_of(place, size)
        inside = _inside(place, width, how)
        result = inside if result is None else multiply(result, width) + inside
    return result


def _inside(place: Tracer, width: Tracer, mode: Any) -> Array:
    if mode is None:
        return place
    if mode == "wrap":
        return remainder(place, width)
    if mode == "clip":
        return minimum(larger(place, 0), subtract(width, 1))
    return _no_mode(mode)


def _no_mode(mode: Any) -> NoReturn:
    if mode == "raise":
        raise NotYetError(
            "ravel_multi_index with mode='raise' comes later: compiled code does not look for indices out of range.",
            loc=user_loc(),
            remedy="leave mode out, or use 'clip' or 'wrap'.",
        )
    raise no_choice("ravel_multi_index", "mode", mode, ("clip", "wrap"))
