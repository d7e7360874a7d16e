"""Raw gathers and scatters: windows at computed places, by ``jax.lax``'s names and dimension numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import UnsupportedOpError
from dyn.ir.core import Value
from dyn.lax._operands import Array, ArrayLike, Size, in_dtype, lifted, lifted_all, raw, settled, sizes_of, trace_of
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.indexing.gather import gather_attrs
from dyn.ops.indexing.places import sized
from dyn.ops.indexing.scatter import scatter_attrs
from dyn.shapes import Dim
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.tracer import Tracer


class GatherDimensionNumbers(NamedTuple):
    """Roles of a gather's axes, as in JAX; the components of a start index lie along the indices' last axis.

    Args:
        offset_dims: axes of the result that a window's axes become.
        collapsed_slice_dims: axes of the operand, of window size 1, that are left out.
        start_index_map: for each component of a start index the axis of the operand.
        operand_batching_dims: axes of the operand that go together with axes of the indices.
        start_indices_batching_dims: these axes of the indices.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Roles of a scatter's axes, as in JAX; the components of a start index lie along the indices' last axis.

    Args:
        update_window_dims: axes of the updates that lie in a window.
        inserted_window_dims: axes of the operand, of window size 1, that updates do not have.
        scatter_dims_to_operand_dims: for each component of a start index the axis of the operand.
        operand_batching_dims: axes of the operand that go together with axes of the indices.
        scatter_indices_batching_dims: these axes of the indices.
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


class GatherScatterMode(Enum):
    """Treatment of indices that are out of range, by JAX's names.

    Attributes:
        CLIP: a window is moved inside.
        FILL_OR_DROP: what lies outside is filled in by a gather, and dropped by a scatter.
        PROMISE_IN_BOUNDS: indices are not out of range; the same as ``CLIP``, so that a broken promise harms nobody.
    """

    #: A window is moved inside.
    CLIP = "clip"
    #: What lies outside is filled in by a gather, and dropped by a scatter.
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise_in_bounds"


Mode = GatherScatterMode | str | None
_NAMES = {"clip": "clip", "fill": "fill", "drop": "fill", "promise_in_bounds": "clip"}


def _mode(what: str, mode: Any) -> str:
    """A mode as "clip" or "fill". One of JAX's own enumeration is known by its name."""
    name = getattr(mode, "name", mode)
    if name is None:
        return "clip" if what == "gather" else "fill"
    name = str(name).lower().replace("fill_or_drop", "fill")
    if name not in _NAMES:
        raise UnsupportedOpError(
            f"{what}: {mode!r} is no mode.", loc=user_loc(), remedy='use "clip", "fill" or "promise_in_bounds".'
        )
    return _NAMES[name]


def _ints(numbers: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(n) for n in numbers)


def _components(trace: Trace, starts: Value, count: int) -> list[Value]:
    """The components of start indices, each in an array of its own, as int64."""
    rank, parts = len(starts.shape), list[Value]()
    for i in range(count):
        first, last = [0] * rank, list(starts.shape)
        first[-1], last[-1] = i, i + 1
        part = trace.emit("slice", starts, start=tuple(first), limit=tuple(last), strides=(1,) * rank)
        part = trace.emit("reshape", part, shape=starts.shape[:-1])
        if part.dtype is dtypes.uint64:  # what int64 does not have is out of range on the same side
            a = Arithmetic(trace.builder)
            part = a.f("minimum", part, a.fill(part, 2**63 - 1))
        parts.append(part if part.dtype is dtypes.int64 else trace.emit("convert", part, dtype=dtypes.int64))
    return parts


# --- gather -------------------------------------------------------------------------------------------------------


@raw
def gather(
    operand: ArrayLike, start_indices: ArrayLike, dimension_numbers: Any, slice_sizes: Sequence[Size], *,
    unique_indices: bool = False, indices_are_sorted: bool = False, mode: Mode = None, fill_value: Any = None,
) -> Array:  # fmt: skip
    """Windows of an array that start at computed places, as in ``jax.lax.gather``.

    Args:
        operand: array of any dtype.
        start_indices: array of integers: places, whose components lie along the last axis.
        dimension_numbers: a :class:`GatherDimensionNumbers`, or JAX's.
        slice_sizes: sizes of a window, ints or dimensions.
        unique_indices: promise that nothing depends on.
        indices_are_sorted: promise that nothing depends on.
        mode: treatment of a window that would leave the array: ``"clip"`` or None moves it inside, ``"fill"`` gives
            ``fill_value`` for all of it, ``"promise_in_bounds"`` is ``"clip"``.
        fill_value: value of ``"fill"``; None: NaN, the least signed, the greatest unsigned integer, True.

    Returns:
        An array of the dtype of ``operand``.

    Raises:
        ShapeError: if shapes and dimension numbers do not fit, at the call at the latest.
        UnsupportedOpError: if the indices are not integers, or ``mode`` is another one.

    Example:
        >>> rows = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
        >>> lax.gather(np.array([[1, 2], [3, 4], [5, 6]]), np.array([[2], [0]]), rows, (1, 2))
        array([[5, 6],
               [1, 2]])
    """
    trace = trace_of(operand, start_indices, slice_sizes)
    x = settled(trace, lifted("gather", trace, operand))
    starts = settled(trace, lifted("gather", trace, start_indices))
    n, sizes = dimension_numbers, sizes_of("gather", slice_sizes)
    offsets, index_map = _ints(n.offset_dims), _ints(n.start_index_map)
    attrs = gather_attrs(
        sizes, offset_dims=offsets, start_index_map=index_map, index_vector_dim=len(starts.shape) - 1,
        collapsed_slice_dims=_ints(n.collapsed_slice_dims), operand_batching_dims=_ints(n.operand_batching_dims),
        start_indices_batching_dims=_ints(n.start_indices_batching_dims),
    )  # fmt: skip
    made = trace.emit("gather", x, starts, **attrs)
    if _mode("gather", mode) == "clip":
        return Tracer(trace, made)
    inside = _inside(trace, x, starts, index_map, sizes)
    if inside is None:
        return Tracer(trace, made)
    batch = tuple(a for a in range(len(made.shape)) if a not in offsets)
    mask = trace.emit("broadcast_in_dim", inside, shape=made.shape, dims=batch)
    value = _fill(x.dtype) if fill_value is None else fill_value
    fill = lifted("gather", trace, value)
    fill = in_dtype("gather", trace, fill, x.dtype) if fill.type.weak else fill
    if made.shape:
        fill = trace.emit("broadcast_in_dim", fill, shape=made.shape, dims=())
    return Tracer(trace, trace.emit("select", mask, made, fill))


def _inside(trace: Trace, x: Value, starts: Value, index_map: tuple[int, ...], sizes: tuple[Dim, ...]) -> Value | None:
    """Mask of the windows that lie in the array; None where all do."""
    a, found = Arithmetic(trace.builder), None
    for axis, part in zip(index_map, _components(trace, starts, len(index_map)), strict=True):
        last = sized(trace.builder, part, x.shape[axis] - sizes[axis])
        for one in (a.cmp(part, "GE", 0), a.cmp(part, "LE", last)):
            found = one if found is None else a.f("and", found, one)
    return found


def _fill(dtype: DType) -> Any:
    if dtype.is_inexact:
        return np.asarray(np.nan).astype(dtype.np)[()]
    if dtype.kind is Kind.BOOL:
        return True
    info = np.iinfo(dtype.np)
    return dtype.np.type(info.min if dtype.kind is Kind.INT else info.max)


# --- scatter ------------------------------------------------------------------------------------------------------


def _scattered(combine: str, what: str, operand: Any, indices: Any, updates: Any, numbers: Any, mode: Mode) -> Tracer:
    trace = trace_of(operand, indices, updates)
    x, new = lifted_all(what, trace, (operand, updates))
    x, new = settled(trace, x), settled(trace, new)
    starts = settled(trace, lifted(what, trace, indices))
    rank, index_map = len(starts.shape), _ints(numbers.scatter_dims_to_operand_dims)
    window = _ints(numbers.update_window_dims)
    places, vector_dim = [starts], rank - 1
    if _mode(what, mode) == "clip":
        places, vector_dim = _clipped(trace, x, starts, numbers, new), rank - 1
    attrs = scatter_attrs(
        combine, update_window_dims=window, scatter_dims_to_operand_dims=index_map, index_vector_dim=vector_dim,
        inserted_window_dims=_ints(numbers.inserted_window_dims),
        input_batching_dims=_ints(numbers.operand_batching_dims),
        scatter_indices_batching_dims=_ints(numbers.scatter_indices_batching_dims),
    )  # fmt: skip
    return Tracer(trace, trace.emit("scatter", x, *places, new, **attrs))


def _clipped(trace: Trace, x: Value, starts: Value, numbers: Any, updates: Value) -> list[Value]:
    """Start indices brought to where whole windows lie in the array."""
    gone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    kept = [a for a in range(len(x.shape)) if a not in gone]
    reach = {a: updates.shape[d] for a, d in zip(kept, numbers.update_window_dims, strict=True)}
    a, parts = Arithmetic(trace.builder), list[Value]()
    index_map = _ints(numbers.scatter_dims_to_operand_dims)
    for axis, part in zip(index_map, _components(trace, starts, len(index_map)), strict=True):
        last = sized(trace.builder, part, x.shape[axis] - reach.get(axis, 1))
        part = a.f("maximum", a.f("minimum", part, last), a.fill(part, 0))
        parts.append(trace.emit("reshape", part, shape=(*part.shape, 1)))
    return [trace.emit("concatenate", *parts, dimension=len(parts[0].shape) - 1) if len(parts) > 1 else parts[0]]


def _defined(name: str, combine: str, text: str) -> Callable[..., Array]:
    def fn(
        operand: ArrayLike, scatter_indices: ArrayLike, updates: ArrayLike, dimension_numbers: Any, *,
        indices_are_sorted: bool = False, unique_indices: bool = False, mode: Mode = None,
    ) -> Array:  # fmt: skip
        return _scattered(combine, name, operand, scatter_indices, updates, dimension_numbers, mode)

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = f"""Array with windows of updates at computed places, {text}, as in ``jax.lax.{name}``.

    Args:
        operand: array of any dtype that the combination takes.
        scatter_indices: array of integers: places of windows, whose components lie along the last axis.
        updates: array of the dtype of ``operand``: the windows, taken in their order.
        dimension_numbers: a :class:`ScatterDimensionNumbers`, or JAX's.
        indices_are_sorted: promise that nothing depends on.
        unique_indices: promise that nothing depends on.
        mode: ``"clip"``: a window that would leave the array is moved inside; ``"fill"``, ``"drop"`` or None: what lies
            outside is left out; ``"promise_in_bounds"`` is ``"clip"``.

    Returns:
        An array of the shape and dtype of ``operand``.

    Raises:
        UnsupportedOpError: if dtypes differ, or ``mode`` is another one.
        ShapeError: if shapes and dimension numbers do not fit, at the call at the latest.
    """
    return raw(fn)


scatter = _defined("scatter", "replace", "in place of what was there")
scatter_add = _defined("scatter_add", "add", "added to what was there")
scatter_max = _defined("scatter_max", "maximum", "the greater of them and what was there")
scatter_min = _defined("scatter_min", "minimum", "the lesser of them and what was there")
scatter_mul = _defined("scatter_mul", "multiply", "multiplied with what was there")


@raw
def scatter_sub(
    operand: ArrayLike, scatter_indices: ArrayLike, updates: ArrayLike, dimension_numbers: Any, *,
    indices_are_sorted: bool = False, unique_indices: bool = False, mode: Mode = None,
) -> Array:  # fmt: skip
    """Array with windows of updates at computed places, subtracted from what was there, as in ``jax.lax.scatter_sub``.

    Args:
        operand: array of any dtype but bool.
        scatter_indices: array of integers: places of windows, whose components lie along the last axis.
        updates: array of the dtype of ``operand``: the windows, taken in their order.
        dimension_numbers: a :class:`ScatterDimensionNumbers`, or JAX's.
        indices_are_sorted: promise that nothing depends on.
        unique_indices: promise that nothing depends on.
        mode: as for :func:`scatter`.

    Returns:
        An array of the shape and dtype of ``operand``.

    Raises:
        UnsupportedOpError: if dtypes differ, or ``mode`` is another one.
        ShapeError: if shapes and dimension numbers do not fit, at the call at the latest.
    """
    trace = trace_of(operand, scatter_indices, updates)
    negative = Tracer(trace, trace.emit("negate", lifted("scatter_sub", trace, updates)))
    return _scattered("add", "scatter_sub", operand, scatter_indices, negative, dimension_numbers, mode)
