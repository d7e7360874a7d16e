"""Derivatives and batching of slices at computed places, of their updates, of padding and of gathers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.ir.builder import Builder
from dyn.ir.core import Dense, Op, Value
from dyn.ir.differentiate import zeros
from dyn.ir.types import TensorType
from dyn.ir.vectorize import spread
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.indexing.dimension_numbers import Windows
from dyn.ops.indexing.places import apart, clipped, components, counted, gather_numbers, scatter_numbers
from dyn.ops.transform_rules import again, later
from dyn.shapes import Dim

Flags = tuple[bool, ...]
_PADDING = ("edge_padding_low", "edge_padding_high", "interior_padding")


def spread_all(b: Builder, operands: tuple[Value, ...], batched: Flags, size: Dim) -> list[Value]:
    """All operands with the axis of examples."""
    return [v if own else spread(b, v, size) for v, own in zip(operands, batched, strict=True)]


def _zero_index(b: Builder) -> Value:
    return b.op("constant", value=Dense(np.asarray(0, np.int64)))


# --- dynamic_slice, dynamic_update_slice --------------------------------------------------------------------------


def slice_vjp(b: Builder, op: Op, cts: tuple[Value, ...]) -> tuple[Value | None, ...]:
    """The cotangent, in zeros."""
    x, *starts = op.operands
    return (b.op("dynamic_update_slice", zeros(b, x.type), cts[0], *starts), *(None,) * len(starts))


def slice_batch(b: Builder, op: Op, operands: tuple[Value, ...], batched: Flags, size: Dim) -> tuple[Value, ...]:
    """A slice of all examples; a gather of one window an example where those start at places of their own."""
    sizes: tuple[Dim, ...] = op.attrs["slice_sizes"]
    if not any(batched[1:]):
        x, *starts = operands
        return (b.op("dynamic_slice", x, _zero_index(b), *starts, slice_sizes=(size, *sizes)),)
    _, *starts = spread_all(b, operands, (True, *batched[1:]), size)
    windows = _an_example_each(len(sizes), with_array=batched[0])
    taken = (1, *sizes) if batched[0] else sizes
    return (b.op("gather", operands[0], *starts, **gather_numbers(windows, taken)),)


def _an_example_each(rank: int, *, with_array: bool) -> Windows:
    """A window of ``rank`` axes for each example, of an array that has the axis of examples or has not."""
    axes = tuple(range(rank))
    batching = (0,) if with_array else ()
    return Windows(
        rank + len(batching), later(axes), (), batching, batching, later(axes) if batching else axes, 1, False
    )


def update_vjp(b: Builder, op: Op, cts: tuple[Value]) -> tuple[Value | None, ...]:
    """The cotangent with zeros in place of the update; and what is in that place."""
    (ct,), (_, update, *starts) = cts, op.operands
    around = b.op("dynamic_update_slice", ct, zeros(b, update.type), *starts)
    return around, b.op("dynamic_slice", ct, *starts, slice_sizes=update.shape), *(None,) * len(starts)


def update_batch(b: Builder, op: Op, operands: tuple[Value, ...], batched: Flags, size: Dim) -> tuple[Value, ...]:
    """An update of all examples; a scatter of one window an example where those start at places of their own."""
    if not any(batched[2:]):
        x, update = spread_all(b, operands[:2], batched[:2], size)
        return (b.op("dynamic_update_slice", x, update, _zero_index(b), *operands[2:]),)
    x, update, *starts = spread_all(b, operands, batched, size)
    places = [
        clipped(b, counted(b, start, n, False), 0, n - own)
        for start, n, own in zip(starts, x.shape[1:], update.shape[1:], strict=True)
    ]
    windows = _an_example_each(len(places), with_array=True)
    return (b.op("scatter", x, *places, update, **scatter_numbers(windows, "replace")),)


# --- pad ----------------------------------------------------------------------------------------------------------


def _padding_elements(b: Builder, op: Op) -> Value:
    """Mask of the padding in a pad's result."""
    inner = zeros(b, TensorType(dtypes.bool_, op.operands[0].shape))
    return again(b, op, (inner, b.op("constant", value=Dense(np.asarray(True)))))[0]


def pad_vjp(b: Builder, op: Op, cts: tuple[Value]) -> tuple[Value, Value]:
    """The elements of the cotangent, without those in front, behind and between; and the sum of these."""
    (ct,), (x, _) = cts, op.operands
    low, high, interior = (op.attrs[name] for name in _PADDING)
    zero = zeros(b, TensorType(ct.dtype, ()))
    cut: dict[str, Any] = {"edge_padding_low": tuple(-d for d in low), "edge_padding_high": tuple(-d for d in high)}
    own = b.op("pad", ct, zero, **cut, interior_padding=(0,) * len(low))
    if any(not isinstance(d, int) or d != 0 for d in interior):
        steps = tuple(d + 1 for d in interior)
        own = b.op("slice", own, start=(0,) * len(low), limit=own.shape, strides=steps)
    own = own if own.shape == x.shape else b.op("reshape", own, shape=x.shape)
    added = Arithmetic(b).where(_padding_elements(b, op), ct, 0)
    return own, b.op("reduce", added, axes=tuple(range(len(low))), combine="add", nonempty=False)


def pad_batch(b: Builder, op: Op, operands: tuple[Value, ...], batched: Flags, size: Dim) -> tuple[Value, ...]:
    """Nothing is put before, after or between examples; what is put into them may be their own."""
    attrs = {name: (0, *op.attrs[name]) for name in _PADDING}
    x, value = operands
    x = x if batched[0] else spread(b, x, size)
    if not batched[1]:
        return again(b, op, (x, value), **attrs)
    (made,) = again(b, op, (x, zeros(b, TensorType(x.dtype, ()))), **attrs)
    own = b.op("broadcast_in_dim", value, shape=made.shape, dims=(0,))
    added = b.op("broadcast_in_dim", _padding_elements(b, op), shape=made.shape, dims=tuple(range(1, len(made.shape))))
    return (b.op("select", added, own, made),)


# --- gather -------------------------------------------------------------------------------------------------------


def gather_vjp(b: Builder, op: Op, cts: tuple[Value, ...]) -> tuple[Value | None, ...]:
    """The cotangent added to zeros at the places that the windows came from, which all lie inside."""
    x, *starts = op.operands
    w = Windows.of_gather(op.attrs, len(x.shape))
    sizes = op.attrs["slice_sizes"]
    parts = [
        clipped(b, part, 0, x.shape[axis] - sizes[axis])
        for part, axis in zip(components(b, w, starts, x.shape), w.start_map, strict=True)
    ]
    numbers, places = (apart(w, len(starts[0].shape)), parts) if parts else (w, starts)
    made = b.op("scatter", zeros(b, x.type), *places, cts[0], **scatter_numbers(numbers, "add"))
    return made, *(None,) * len(starts)


def gather_batch(b: Builder, op: Op, operands: tuple[Value, ...], batched: Flags, size: Dim) -> tuple[Value, ...]:
    """Examples of the array are one more window axis, those of the places one more batch axis, and both go together."""
    x, *starts = operands
    w, sizes = Windows.of_gather(op.attrs, len(op.operands[0].shape)), op.attrs["slice_sizes"]
    windows = with_examples(w, array=batched[0], starts=any(batched[1:]))
    if not any(batched[1:]):
        return (b.op("gather", x, *starts, **gather_numbers(windows, (size, *sizes))),)
    starts = spread_all(b, operands[1:], batched[1:], size)
    taken = (1, *sizes) if batched[0] else sizes
    return (b.op("gather", x, *starts, **gather_numbers(windows, taken)),)


def with_examples(w: Windows, *, array: bool, starts: bool) -> Windows:
    """The numbers where the array, the start indices or both, and always the windows, have the axis of examples."""
    made = replace(w, window_dims=later(w.window_dims))
    if array:
        made = replace(
            made, rank=w.rank + 1, dropped=later(w.dropped), batching=later(w.batching), start_map=later(w.start_map)
        )
    if not starts:
        return replace(made, window_dims=(0, *made.window_dims))
    made = replace(made, start_batching=later(w.start_batching), vector_dim=w.vector_dim + 1)
    if not array:
        return made
    return replace(made, batching=(0, *made.batching), start_batching=(0, *made.start_batching))
