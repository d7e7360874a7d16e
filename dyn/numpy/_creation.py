"""Arrays from nothing but sizes and numbers.

Floats are of the default float dtype (float32, see ``dyn.config``), integers int64. Sizes may be dimensions.

This file is longer than most: half of it says what each function takes and gives.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.array import asarray as own_asarray
from dyn.array import device_put, needs_copy, read_lists
from dyn.dtypes import DType
from dyn.errors import InvalidValueError, ShapeError, UnsupportedOpError
from dyn.numpy._axes import shape_in
from dyn.numpy._broadcast import expand
from dyn.numpy._joining import stack
from dyn.numpy._manipulation import broadcast_arrays, view
from dyn.numpy._operands import (
    cast,
    constant,
    default_float,
    emit,
    in_int64,
    made,
    operand,
    promote,
    shape_of,
    size_from_value,
    tracer,
)
from dyn.numpy._options import one_of, whole_number
from dyn.numpy._public import Array, ArrayLike, DTypeLike, Shape, Size, found_trace, public, trace_of
from dyn.numpy._standard import check_device
from dyn.numpy._unary import filled
from dyn.shapes import Dim, dim_max, floordiv
from dyn.source import user_loc
from dyn.specialize.runtime_arguments import is_array
from dyn.trace.context import Trace
from dyn.trace.dims import SymbolicDim, unwrap_dim
from dyn.trace.lift import check_integers, dtype_of, settled_dtype
from dyn.trace.tracer import Tracer

__all__ = [
    "arange", "array", "asanyarray", "asarray", "ascontiguousarray", "copy", "empty", "empty_like", "eye",
    "from_dlpack", "full", "full_like", "identity", "linspace", "meshgrid", "ones", "ones_like", "tri", "tril", "triu",
    "zeros", "zeros_like",
]  # fmt: skip


# ---- one value -------------------------------------------------------------------------------------------------------


def _strong(dtype: DType, weak: bool) -> DType:
    """The dtype that a new array of weak values has."""
    return default_float() if weak and dtype.is_float else dtype


def _full(what: str, shape: Shape, value: ArrayLike, dtype: DTypeLike, device: Any) -> Tracer:
    check_device(what, device)
    trace = trace_of(shape, value)
    dims = shape_in(trace, shape, what)
    (scalar,) = promote(what, value)
    scalar = cast(scalar, _strong(scalar.element_type, scalar.weak) if dtype is None else dtype_of(dtype))
    return expand(scalar, dims)


@public
def full(shape: Shape, fill_value: ArrayLike, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Array of one value.

    Args:
        shape: size or sizes, ints or dimensions such as ``x.shape[0]``; a traced integer is a size found out in the
            call.
        fill_value: number or array that broadcasts to ``shape``.
        dtype: dtype of the result; None: that of ``fill_value``, the default float dtype of a Python float.
        device: None or ``"cpu"`` in a trace, whose arrays are all where the program runs; outside of one any device.

    Returns:
        An array of that shape and dtype.

    Raises:
        ShapeError: if a size is negative.

    Example:
        >>> dnp.full((2, 3), 7)
        dyn.Array([[7, 7, 7],
                   [7, 7, 7]], dtype=int64)
    """
    return _full("full", shape, fill_value, dtype, device)


@public
def zeros(shape: Shape, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Array of zeros.

    Args:
        shape: size or sizes, ints or dimensions such as ``x.shape[0]``; a traced integer is a size found out in the
            call.
        dtype: dtype of the result; None: the default float dtype, float32, where NumPy has float64.
        device: None or ``"cpu"`` in a trace, whose arrays are all where the program runs; outside of one any device.

    Returns:
        An array of that shape and dtype.

    Raises:
        ShapeError: if a size is negative.

    Example:
        >>> dnp.zeros((2, 3)).dtype
        dtype('float32')
    """
    return _full("zeros", shape, 0.0, default_float() if dtype is None else dtype, device)


@public
def ones(shape: Shape, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Array of ones.

    Args:
        shape: size or sizes, ints or dimensions such as ``x.shape[0]``; a traced integer is a size found out in the
            call.
        dtype: dtype of the result; None: the default float dtype, float32, where NumPy has float64.
        device: None or ``"cpu"`` in a trace, whose arrays are all where the program runs; outside of one any device.

    Returns:
        An array of that shape and dtype.

    Raises:
        ShapeError: if a size is negative.

    Example:
        >>> dyn.jit(lambda x: x + dnp.ones(x.shape[0], x.dtype))(np.arange(3))
        array([1, 2, 3])
    """
    return _full("ones", shape, 1.0, default_float() if dtype is None else dtype, device)


@public
def empty(shape: Shape, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """Array of zeros: memory without values would make results that differ from run to run.

    Args:
        shape: size or sizes, ints or dimensions such as ``x.shape[0]``; a traced integer is a size found out in the
            call.
        dtype: dtype of the result; None: the default float dtype, float32, where NumPy has float64.
        device: None or ``"cpu"`` in a trace, whose arrays are all where the program runs; outside of one any device.

    Returns:
        An array of that shape and dtype.

    Raises:
        ShapeError: if a size is negative.
    """
    return _full("empty", shape, 0.0, default_float() if dtype is None else dtype, device)


@public
def full_like(
    x: ArrayLike, /, fill_value: ArrayLike, dtype: DTypeLike = None, shape: Shape | None = None, *, device: Any = None
) -> Array:
    """Array of one value, of the shape and dtype of another array.

    Args:
        x: array of any dtype, of any shape.
        fill_value: number or array that broadcasts to the shape.
        dtype: dtype of the result; None: that of ``x``.
        shape: size or sizes; None: those of ``x``, symbolic ones too.
        device: None or ``"cpu"`` in a trace, whose arrays are all where the program runs; outside of one any device.

    Returns:
        An array of that shape and dtype.

    Raises:
        ShapeError: if a size is negative.

    Example:
        >>> dnp.full_like(np.zeros((2, 2), np.int8), 7)
        array([[7, 7],
               [7, 7]], dtype=int8)
    """
    check_device("full_like", device)
    value = operand("full_like", x, fill_value)
    (scalar,) = promote("full_like", fill_value)
    scalar = cast(scalar, value.element_type if dtype is None else dtype_of(dtype))
    return expand(scalar, shape_of(value) if shape is None else shape_in(value._trace, shape, "full_like"))


@public
def zeros_like(x: ArrayLike, /, dtype: DTypeLike = None, shape: Shape | None = None, *, device: Any = None) -> Array:
    """Array of zeros, of the shape and dtype of another array.

    Args:
        x: array of any dtype, of any shape.
        dtype: dtype of the result; None: that of ``x``.
        shape: size or sizes; None: those of ``x``, symbolic ones too.
        device: None or ``"cpu"`` in a trace, whose arrays are all where the program runs; outside of one any device.

    Returns:
        An array of that shape and dtype.

    Raises:
        ShapeError: if a size is negative.
    """
    return full_like(x, 0, dtype, shape, device=device)


@public
def ones_like(x: ArrayLike, /, dtype: DTypeLike = None, shape: Shape | None = None, *, device: Any = None) -> Array:
    """Array of ones, of the shape and dtype of another array.

    Args:
        x: array of any dtype, of any shape.
        dtype: dtype of the result; None: that of ``x``.
        shape: size or sizes; None: those of ``x``, symbolic ones too.
        device: None or ``"cpu"`` in a trace, whose arrays are all where the program runs; outside of one any device.

    Returns:
        An array of that shape and dtype.

    Raises:
        ShapeError: if a size is negative.
    """
    return full_like(x, 1, dtype, shape, device=device)


@public
def empty_like(x: ArrayLike, /, dtype: DTypeLike = None, shape: Shape | None = None, *, device: Any = None) -> Array:
    """Array of zeros, of the shape and dtype of another array, as :func:`empty` makes it.

    Args:
        x: array of any dtype, of any shape.
        dtype: dtype of the result; None: that of ``x``.
        shape: size or sizes; None: those of ``x``, symbolic ones too.
        device: None or ``"cpu"`` in a trace, whose arrays are all where the program runs; outside of one any device.

    Returns:
        An array of that shape and dtype.

    Raises:
        ShapeError: if a size is negative.
    """
    return full_like(x, 0, dtype, shape, device=device)


# ---- ranges ----------------------------------------------------------------------------------------------------------


def indices(trace: Trace, shape: tuple[Dim, ...], axis: int, dtype: DType) -> Tracer:
    """Each element's index along an axis."""
    return made(trace, "iota", shape=shape, dimension=axis, dtype=dtype)


@public
def arange(
    start: Size | float, /, stop: Size | float | None = None, step: Any = 1, *, dtype: DTypeLike = None,
    device: Any = None,
) -> Array:  # fmt: skip
    """Numbers from ``start`` up to ``stop``, without it, at equal distances.

    Of ints and dimensions the length is an expression of them; of Python floats it is fixed while tracing, as in NumPy;
    of traced scalars it is a dim of its own, found out when the program runs.

    Args:
        start: an int, a dimension, a Python float or a traced scalar; the end, from 0 on, where it is the only one.
        stop: the end, which is not reached: as ``start``; None: ``start`` is.
        step: a Python number other than 0, negative to count down; or traced, where a bound is.
        dtype: dtype of the result; None: int64 of integers, the default float dtype of floats.
        device: None or ``"cpu"`` in a trace, whose arrays are all where the program runs; outside of one any device.

    Returns:
        A vector; without elements where the end is not ahead.

    Raises:
        InvalidValueError: if ``step`` is 0 or a dimension, or a bound is not finite.
        UnsupportedOpError: if a bound is neither a number nor a dimension.

    Example:
        >>> dnp.arange(2, 10, 3)
        dyn.Array([2, 5, 8], dtype=int64)
        >>> dyn.jit(lambda x: dnp.arange(x.shape[0]))(np.zeros(4))
        array([0, 1, 2, 3])
    """
    check_device("arange", device)
    trace = trace_of(start, stop, step)
    start, stop, step = (v.item() if isinstance(v, np.generic) else v for v in (start, stop, step))
    low, high = (0, start) if stop is None else (start, stop)
    if any(isinstance(v, Tracer) for v in (low, high, step)):
        return _measured_range(low, high, step, dtype)
    if any(isinstance(v, float) for v in (low, high, step)):
        return _float_range(trace, low, high, step, dtype)
    for bound in (low, high):
        if isinstance(bound, Tracer) or unwrap_dim(bound) is None:
            raise UnsupportedOpError(
                f"arange does not take the {type(bound).__name__} {bound!r} for a bound.",
                loc=user_loc(),
                remedy="use an int, or a dimension such as x.shape[0].",
            )
    if isinstance(step, SymbolicDim | Tracer) or int(step) == 0:
        raise InvalidValueError(
            f"arange does not take {step!r} for a step.", loc=user_loc(), remedy="use an int other than 0."
        )
    first, last, stride = unwrap_dim(low), unwrap_dim(high), int(step)
    assert first is not None
    assert last is not None
    span = last - first if stride > 0 else first - last
    count = trace.facts.simplify(dim_max(floordiv(span + abs(stride) - 1, abs(stride)), 0))
    element = dtypes.int64 if dtype is None else dtype_of(dtype)
    # Steps are taken in int64 where the indices alone may not fit the dtype.
    plain = isinstance(first, int) and first == 0 and stride == 1
    places = indices(trace, (count,), 0, element if plain or element.is_float else dtypes.int64)
    return cast(_scaled(places, low, stride), element)


def _scaled(places: Tracer, start: Any, step: int | float) -> Tracer:
    """``start + step * places``."""
    if step != 1:
        places = emit("multiply", places, filled(places, step))
    if isinstance(start, int | float) and start == 0:
        return places
    (first,) = (promote("arange", places, start)[1],)
    return emit("add", places, expand(first, shape_of(places)))


def _float_range(trace: Trace, low: Any, high: Any, step: Any, dtype: DTypeLike) -> Tracer:
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in (low, high, step)):
        raise UnsupportedOpError(
            "arange of floats takes Python numbers only.",
            loc=user_loc(),
            remedy="compute dyn.numpy.arange(n) * step + start.",
        )
    if step == 0:
        raise InvalidValueError(
            f"arange does not take {step!r} for a step.", loc=user_loc(), remedy="use a number other than 0."
        )
    if not all(math.isfinite(v) for v in (low, high, step)):
        raise InvalidValueError(
            f"arange has no end: it is from {low!r} to {high!r} by {step!r}.",
            loc=user_loc(),
            remedy="use numbers that are finite.",
        )
    count = max(math.ceil((high - low) / step), 0)
    element = default_float() if dtype is None else dtype_of(dtype)
    places = indices(trace, (count,), 0, dtypes.float64)
    return cast(_scaled(places, float(low), float(step)), element)


def _steps_between(start: Tracer, stop: Tracer, by: Tracer) -> Tracer:
    """Number of steps from one integer to another, in uint64, which has every distance; 0 where the step is 0."""
    trace = start._trace
    zero, one = (constant(trace, n, dtypes.uint64) for n in (0, 1))
    none = constant(trace, 0, by.element_type)
    up, down = (emit("compare", by, none, direction=d) for d in ("GT", "LT"))
    ahead, behind = (emit("compare", stop, start, direction=d) for d in ("GT", "LT"))
    first, last, step = (cast(v, dtypes.uint64) for v in (start, stop, by))
    distance = emit("select", up, emit("subtract", last, first), emit("subtract", first, last))
    size = emit("maximum", emit("select", up, step, emit("subtract", zero, step)), one)
    count = emit("add", emit("divide", emit("subtract", distance, one), size), one)
    some = emit("or", emit("and", up, ahead), emit("and", down, behind))
    return emit("select", some, count, zero)


def _measured_range(low: Any, high: Any, step: Any, dtype: DTypeLike) -> Tracer:
    """``arange`` of traced bounds: ``ceil((high - low) / step)`` numbers, none where that is negative."""
    start, stop, by = promote("arange", low, high, step)
    trace, element = start._trace, start.element_type
    for value in (start, stop, by):
        if value.ndim or not (element.is_integer or element.is_float):
            raise UnsupportedOpError(
                f"arange does not take a bound that is {value._value.type}.", loc=user_loc(), remedy="use scalars."
            )
    wide = dtypes.int64 if element.is_integer else dtypes.float64
    if element.is_integer:
        length = _steps_between(start, stop, by)
        start, by = (cast(v, wide) for v in (start, by))
    else:
        start, stop, by = (cast(v, wide) for v in (start, stop, by))
        count = emit("ceil", emit("divide", emit("subtract", stop, start), by))
        length = cast(emit("maximum", count, constant(trace, 0, wide)), dtypes.int64)
    size = size_from_value(length, "length", "the number of elements of an arange")
    places = indices(trace, (size,), 0, wide)
    values = emit("add", expand(start, (size,)), emit("multiply", places, expand(by, (size,))))
    if dtype is not None:
        return cast(values, dtype_of(dtype))
    return cast(values, settled_dtype(dtypes.int64 if element.is_integer and start.weak else element))


@public
def linspace(
    start: float, stop: float, /, num: Size = 50, *, dtype: DTypeLike = None, device: Any = None, endpoint: bool = True
) -> Array:
    """``num`` numbers from ``start`` to ``stop`` at equal distances.

    Args:
        start: first number; a Python number or a traced scalar.
        stop: last number, or the one behind it.
        num: how many: an int, a dimension, or a traced integer, whose length is then found out when the program runs.
        dtype: dtype of the result; None: the default float dtype. It is computed in float64.
        device: None or ``"cpu"`` in a trace, whose arrays are all where the program runs; outside of one any device.
        endpoint: whether ``stop`` is the last of them.

    Returns:
        An array of shape ``(num,)``. Of one number it is ``start``.

    Raises:
        ShapeError: if ``num`` is negative.

    Example:
        >>> dnp.linspace(0, 1, 5)
        dyn.Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    check_device("linspace", device)
    trace = trace_of(start, stop, num)
    (count,) = shape_in(trace, num, "linspace")
    element = default_float() if dtype is None else dtype_of(dtype)
    places = indices(trace, (count,), 0, dtypes.float64)
    low, high = (expand(v, (count,)) for v in promote("linspace", places, start, stop)[1:])
    steps = trace.facts.simplify(dim_max(count - 1, 1) if endpoint else dim_max(count, 1))
    size = expand(made(trace, "dim_size", size=steps, dtype=dtypes.float64), (count,))
    value = emit("add", low, emit("divide", emit("multiply", places, emit("subtract", high, low)), size))
    if endpoint:
        # The last one exactly, but of a single number the first.
        at_end = emit("compare", places, size, direction="EQ")
        value = emit("select", at_end, high, value)
    return cast(value, element)


# ---- matrices --------------------------------------------------------------------------------------------------------


def diagonal_mask(trace: Trace, shape: tuple[Dim, ...], k: Any, direction: str) -> Tracer:
    """The comparison of the column with the row plus ``k``, over the last two axes."""
    rank = len(shape)
    rows = indices(trace, shape, rank - 2, dtypes.int64)
    columns = indices(trace, shape, rank - 1, dtypes.int64)
    # No axis is so long that the sum would wrap.
    if isinstance(k, Tracer):
        k = emit("clamp", constant(trace, -(2**62), dtypes.int64), in_int64(k), constant(trace, 2**62, dtypes.int64))
    elif isinstance(k, int | np.integer):
        k = max(-(2**62), min(int(k), 2**62))
    return emit("compare", columns, _scaled(rows, k, 1), direction=direction)


def _check_diagonal(what: str, k: Any) -> None:
    if isinstance(k, float | complex):
        whole_number(what, "the diagonal", k)


@public
def eye(
    n_rows: Size, n_cols: Size | None = None, /, k: Any = 0, dtype: DTypeLike = None, *, device: Any = None
) -> Array:
    """Matrix with ones on a diagonal and zeros elsewhere.

    Args:
        n_rows: number of rows, an int or a dimension.
        n_cols: number of columns; None: as many as rows.
        k: which diagonal: 0 the main one, positive above it, negative below; an int, a dimension or a traced integer.
        dtype: dtype of the result; None: the default float dtype.
        device: None or ``"cpu"`` in a trace, whose arrays are all where the program runs; outside of one any device.

    Returns:
        An array of shape ``(n_rows, n_cols)``.

    Raises:
        ArgumentError: if ``k`` is a float.
        ShapeError: if a size is negative.

    Example:
        >>> dnp.eye(2, 3, 1)
        dyn.Array([[0., 1., 0.],
                   [0., 0., 1.]], dtype=float32)
    """
    check_device("eye", device)
    trace = trace_of(n_rows, n_cols, k)
    _check_diagonal("eye", k)
    shape = shape_in(trace, (n_rows, n_rows if n_cols is None else n_cols), "eye")
    return cast(diagonal_mask(trace, shape, k, "EQ"), default_float() if dtype is None else dtype_of(dtype))


@public
def identity(n: Size, dtype: DTypeLike = None) -> Array:
    """Square matrix with ones on the main diagonal and zeros elsewhere.

    Args:
        n: number of rows and columns, an int or a dimension.
        dtype: dtype of the result; None: the default float dtype.

    Returns:
        An array of shape ``(n, n)``.

    Raises:
        ShapeError: if ``n`` is negative.
    """
    return eye(n, n, 0, dtype)


@public
def tri(n_rows: Size, n_cols: Size | None = None, /, k: Any = 0, dtype: DTypeLike = None) -> Array:
    """Matrix with ones on and below a diagonal and zeros above.

    Args:
        n_rows: number of rows, an int or a dimension.
        n_cols: number of columns; None: as many as rows.
        k: which diagonal: 0 the main one, positive above it, negative below; an int, a dimension or a traced integer.
        dtype: dtype of the result; None: the default float dtype.

    Returns:
        An array of shape ``(n_rows, n_cols)``.

    Raises:
        ArgumentError: if ``k`` is a float.
        ShapeError: if a size is negative.

    Example:
        >>> dnp.tri(3, dtype=int)
        dyn.Array([[1, 0, 0],
                   [1, 1, 0],
                   [1, 1, 1]], dtype=int64)
    """
    trace = trace_of(n_rows, n_cols, k)
    _check_diagonal("tri", k)
    shape = shape_in(trace, (n_rows, n_rows if n_cols is None else n_cols), "tri")
    return cast(diagonal_mask(trace, shape, k, "LE"), default_float() if dtype is None else dtype_of(dtype))


def _triangle(what: str, x: ArrayLike, k: Any, direction: str) -> Tracer:
    value = operand(what, x, k)
    _check_diagonal(what, k)
    if value.ndim == 0:
        raise ShapeError(f"{what}: an array without axes is no matrix.", loc=user_loc(), remedy="pass a matrix.")
    if value.ndim < 2:
        # As NumPy: a vector is every row of a square matrix.
        size = shape_of(value)[0]
        value = expand(value, (size, size))
    keep = diagonal_mask(value._trace, shape_of(value), k, direction)
    return emit("select", keep, value, filled(value, 0))


@public
def tril(x: ArrayLike, /, k: Any = 0) -> Array:
    """Lower triangle of matrices: what is above a diagonal is 0.

    Args:
        x: array of any dtype; its last two axes are matrices, and a vector is every row of a square one, as in NumPy.
        k: which diagonal: 0 the main one, positive above it, negative below; an int, a dimension or a traced integer.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        ShapeError: if ``x`` has no axes.
        ArgumentError: if ``k`` is a float.

    Example:
        >>> dnp.tril(np.arange(9).reshape(3, 3))
        array([[0, 0, 0],
               [3, 4, 0],
               [6, 7, 8]])
    """
    return _triangle("tril", x, k, "LE")


@public
def triu(x: ArrayLike, /, k: Any = 0) -> Array:
    """Upper triangle of matrices: what is below a diagonal is 0.

    Args:
        x: array of any dtype; its last two axes are matrices, and a vector is every row of a square one, as in NumPy.
        k: which diagonal: 0 the main one, positive above it, negative below; an int, a dimension or a traced integer.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        ShapeError: if ``x`` has no axes.
        ArgumentError: if ``k`` is a float.

    Example:
        >>> dnp.triu(np.arange(9).reshape(3, 3), 1)
        array([[0, 1, 2],
               [0, 0, 5],
               [0, 0, 0]])
    """
    return _triangle("triu", x, k, "GE")


@public
def meshgrid(*arrays: ArrayLike, indexing: str = "xy") -> list[Array]:
    """Coordinates of a grid: one array for each vector, all of the shape of the grid.

    Args:
        *arrays: vectors, or arrays that are flattened, of any dtype; their sizes may be symbolic.
        indexing: ``"xy"``: the first vector goes along the second axis, as in NumPy; ``"ij"``: each along its own.

    Returns:
        A list of as many arrays as were given, each in its own dtype.

    Raises:
        InvalidValueError: if ``indexing`` is another one.

    Example:
        >>> dnp.meshgrid(np.arange(2), np.arange(3), indexing="ij")[1]
        array([[0, 1, 2],
               [0, 1, 2]])
    """
    one_of("meshgrid", "indexing", indexing, ("xy", "ij"))
    values = [operand("meshgrid", x, *arrays) for x in arrays]
    rank = len(values)
    places = [1, 0, *range(2, rank)] if indexing == "xy" and rank > 1 else list(range(rank))
    spread: list[Tracer] = []
    for value, place in zip(values, places, strict=True):
        (size,) = shape_of(view(value, (value._value.type.size,)))
        spread.append(view(value, tuple(size if a == place else 1 for a in range(rank))))
    return broadcast_arrays(*spread)


# ---- conversion ------------------------------------------------------------------------------------------------------


def asarray(x: Any, /, dtype: DTypeLike = None, *, device: Any = None, copy: bool | None = None) -> Array:
    """Array of dyn of numbers, nested lists, or an array of any library.

    Outside of a trace it is a ``dyn.Array``, a copy, as ``x`` may change; see :func:`dyn.asarray`. In a trace a NumPy
    array is read anew at each call, and numbers in lists are part of the program; an array of the trace is given back
    itself unless ``copy`` is True.

    Args:
        x: array, Python number, dimension, or nested lists of these.
        dtype: dtype of the result; None: that of ``x``, the default float dtype of Python floats.
        device: None or ``"cpu"`` in a trace, whose arrays are all where the program runs; outside of one any device.
        copy: True: always a copy; False: never one; None: where it is needed.

    Returns:
        An array of the shape of ``x``.

    Raises:
        InvalidValueError: if ``copy`` is False and a copy is needed.
        UnsupportedOpError: if nested lists are not equally long.

    Example:
        >>> dnp.asarray([[1, 2], [3, 4]]).shape
        (2, 2)
    """
    if found_trace(x) is None:
        parts = isinstance(x, list | tuple) and _holds_arrays(x)
        if parts and copy is False:
            raise needs_copy("asarray", f"a {type(x).__name__} of arrays")
        made = own_asarray(stack_lists(x) if parts else x, dtype, copy=copy)
        there = made if device is None else device_put(made, str(device))
        if there is not made and copy is False:
            raise needs_copy("asarray", f"a {type(x).__name__} on {made.device}", f" on {there.device}")
        return there
    check_device("asarray", device)
    value = _in_trace(x, dtype)
    if copy is False and not (value is x or (is_array(x) and value.dtype == x.dtype)):
        raise needs_copy("asarray", f"a {type(x).__name__}")
    return value.renewed() if copy else value


def _in_trace(x: Any, dtype: DTypeLike) -> Tracer:
    if isinstance(x, list | tuple | range):
        value = _from_list(trace_of(x), x, None if dtype is None else dtype_of(dtype))
    else:
        (value,) = promote("asarray", x)
        if dtype is None:
            return cast(value, _strong(value.element_type, value.weak))
    return value if dtype is None else cast(value, dtype_of(dtype))


@public
def stack_lists(x: Any) -> Array:
    """Nested lists of numbers and arrays as an array."""
    return _from_list(trace_of(x), x)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Array of dyn of an array that has ``__dlpack__``, of any library.

    Its memory may be written to by others, and arrays of dyn do not change: it is copied, unless ``copy=False``
    promises that nobody writes to it any more. It stays on its device, unless another one is said.

    Args:
        x: array with ``__dlpack__`` and ``__dlpack_device__``.
        device: device that it goes to; None: where it is.
        copy: False: its memory is used; None or True: it is copied.

    Returns:
        A ``dyn.Array``; in a trace an array of it.

    Raises:
        UnsupportedOpError: if ``x`` has no ``__dlpack__``.
        InvalidValueError: if ``copy`` is False and a copy is needed.
    """
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        once = "pass the array that it is of: a capsule can be read once."
        raise UnsupportedOpError(
            f"from_dlpack: a {type(x).__name__} has no __dlpack__.",
            loc=user_loc(),
            remedy=once if type(x).__name__ == "PyCapsule" else "use dyn.numpy.asarray.",
        )
    return asarray(x, device=device, copy=copy)


def _from_list(trace: Trace, items: Any, dtype: DType | None = None) -> Tracer:
    """Nested lists as an array in the dtype that their elements have, all of which ``dtype`` has to have too."""
    if _holds_arrays(items):
        parts = [_from_list(trace, v, dtype) if isinstance(v, list | tuple) else v for v in items]
        if dtype is not None:
            return stack([cast(tracer(trace, v, "asarray"), dtype) for v in parts])
        values = promote("asarray", *parts)
        element = _strong(values[0].element_type, values[0].weak)
        return stack([cast(v, element) for v in values])
    array = read_lists(items)
    if dtype is not None:
        check_integers(items, dtype)
    if array.dtype == np.float64:
        array = array.astype(default_float().np)
    if array.ndim == 0 or array.size == 1:
        return view(constant(trace, array.item(), dtypes.dtype(array.dtype)), array.shape)
    shape: tuple[int, ...] = tuple(int(n) for n in array.shape)
    return Tracer(trace, trace.captured(array, dtypes.dtype(array.dtype), shape, "literal", literal=True))


def _holds_arrays(items: Any) -> bool:
    return any(
        _holds_arrays(v) if isinstance(v, list | tuple) else not isinstance(v, bool | int | float | complex | str)
        for v in items
    )


asanyarray = asarray
ascontiguousarray = asarray


def array(x: Any, /, dtype: DTypeLike = None, *, copy: bool | None = True) -> Array:
    """:func:`asarray` that copies unless it is told not to.

    Args:
        x: array, Python number, dimension, or nested lists of these.
        dtype: dtype of the result; None: that of ``x``, the default float dtype of Python floats.
        copy: True: always a copy; False: never one; None: where it is needed.

    Returns:
        An array of the shape of ``x``.

    Raises:
        InvalidValueError: if ``copy`` is False and a copy is needed.
        UnsupportedOpError: if nested lists are not equally long.

    Example:
        >>> dnp.array([1.0, 2.0]).dtype
        dtype('float32')
    """
    return asarray(x, dtype, copy=copy)


@public
def copy(x: ArrayLike, /) -> Array:
    """Copy of an array, which is another one.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape and dtype of ``x``.
    """
    return operand("copy", x)
