"""Gather: windows of an array, read at computed places."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn.ir.core import Op
from dyn.ir.opdef import Attrs, ElementLoops, Get, OpDef, OpKind, Sample, ScalarBuilder, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.indexing.dimension_numbers import Windows, clamped
from dyn.ops.indexing.slice_rules import gather_batch, gather_vjp
from dyn.ops.rules import ALL_DTYPES, numbers
from dyn.ops.transform_rules import linear
from dyn.shapes import Dim, RelKind, dim_min, product

Array = np.ndarray[Any, Any]


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    x, *starts = operands
    windows, sizes = Windows.of_gather(attrs, x.rank), attrs["slice_sizes"]
    windows.check(ctx, x, starts)
    if len(sizes) != x.rank:
        raise ctx.fail(f"{len(sizes)} slice sizes are given for {x}")
    batch = windows.batch_shape(starts[0])
    count = product(batch)
    for axis, size in enumerate(sizes):
        if axis in (*windows.dropped, *windows.batching):
            if size not in (0, 1):
                raise ctx.fail(f"axis {axis} has no axis in the result, and slices of {size}")
        if axis in windows.batching or size is x.shape[axis]:
            continue
        ctx.require(RelKind.GE, size, 0, f"a slice of axis {axis} has no negative size")
        # Places are brought inside; from nothing, nothing can be taken, but nothing can.
        text = "elements are taken from an axis that has some" if size == 1 else f"a slice of axis {axis} fits"
        ctx.require(RelKind.GE, x.shape[axis], size * dim_min(count, 1), text)
    inner, outer = iter([sizes[a] for a in windows.axes]), iter(batch)
    rank = len(batch) + len(windows.window_dims)
    shape = tuple(next(inner) if a in windows.window_dims else next(outer) for a in range(rank))
    return (TensorType(x.dtype, shape, x.weak),)


def _at(k: ScalarBuilder, op: Op, index: tuple[Dim, ...], get: Get) -> Any:
    x, *starts = op.operands
    windows, sizes = Windows.of_gather(op.attrs, len(x.shape)), op.attrs["slice_sizes"]
    batch = tuple(index[a] for a in windows.batch_axes(len(index)))
    places: list[Dim] = [0] * windows.rank
    for axis, dim in zip(windows.axes, windows.window_dims, strict=True):
        places[axis] = index[dim]
    for axis, start_axis in zip(windows.batching, windows.start_batching, strict=True):
        places[axis] = batch[windows.batch_position(start_axis)]
    for component, axis in enumerate(windows.start_map):
        if sizes[axis] is x.shape[axis]:
            continue
        which, at = windows.start_place(len(starts[0].shape), batch, component)
        start = windows.counted(k, get(1 + which, at), starts[which].dtype, x.shape[axis])
        places[axis] = places[axis] + k.bind(clamped(k, start, x.shape[axis] - sizes[axis]))
    return get(0, tuple(places))


def _reference(x: Array, *arrays: Array, slice_sizes: tuple[int, ...], **attrs: Any) -> Array:
    windows = Windows.of_gather(attrs, x.ndim)
    starts = [
        np.clip(start, 0, max(x.shape[axis] - slice_sizes[axis], 0))
        for start, axis in zip(windows.starts(arrays, x.shape), windows.start_map, strict=True)
    ]
    batch = [n for a, n in enumerate(arrays[0].shape) if a != windows.vector_dim]
    inner, outer = iter([slice_sizes[a] for a in windows.axes]), iter(batch)
    shape = tuple(
        next(inner) if a in windows.window_dims else next(outer) for a in range(len(batch) + len(windows.axes))
    )
    return np.asarray(x[windows.places(starts, shape)]) if x.ndim else np.broadcast_to(x, shape)


def gather_attrs(
    slice_sizes: tuple[Dim, ...], *, offset_dims: tuple[int, ...], start_index_map: tuple[int, ...],
    index_vector_dim: int, collapsed_slice_dims: tuple[int, ...] = (), operand_batching_dims: tuple[int, ...] = (),
    start_indices_batching_dims: tuple[int, ...] = (), wrap: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """The attributes of a gather, those that it has nothing to say in left out."""
    return {
        "offset_dims": offset_dims, "collapsed_slice_dims": collapsed_slice_dims,
        "operand_batching_dims": operand_batching_dims, "start_indices_batching_dims": start_indices_batching_dims,
        "start_index_map": start_index_map, "index_vector_dim": index_vector_dim, "slice_sizes": slice_sizes,
        "wrap": wrap,
    }  # fmt: skip


def take_attrs(shape: tuple[Dim, ...], axis: int, rank: int) -> dict[str, Any]:
    """The gather that is NumPy's ``take``: one axis is replaced by the ``rank`` axes of an array of places on it."""
    offsets = (*range(axis), *range(axis + rank, len(shape) - 1 + rank))
    sizes = (*shape[:axis], 1, *shape[axis + 1 :])
    return gather_attrs(
        sizes,
        offset_dims=offsets,
        start_index_map=(axis,),
        index_vector_dim=rank,
        collapsed_slice_dims=(axis,),
        wrap=True,
    )


def _row_samples() -> list[Sample]:
    """Whole rows, of every dtype and by every kind of integer; from an empty table, of no columns, of one row."""
    rows = np.array([[2, 0, -1], [9, -9, 1]])
    kinds = [(t, np.int32) for t in ALL_DTYPES] + [(np.float32, i) for i in (np.int8, np.uint8, np.uint64, np.int64)]
    lookup: dict[str, Any] = {"collapsed_slice_dims": (0,), "start_index_map": (0,)}
    calls: list[Sample] = []
    for element, integer in kinds:
        for wrap in (False, True):
            attrs = gather_attrs((1, 4), offset_dims=(2,), index_vector_dim=2, wrap=wrap, **lookup)
            calls.append(Sample((numbers((3, 4), element), rows.astype(integer)), attrs))
    for (height, width), count in (((0, 3), 0), ((2, 0), 3), ((1, 64), 1)):
        attrs = gather_attrs((1, width), offset_dims=(1,), index_vector_dim=1, **lookup)
        calls.append(Sample((numbers((height, width)), np.zeros((count,), np.int32)), attrs))
    return calls


def _samples() -> list[Sample]:
    calls, x = _row_samples(), numbers((3, 4))
    # Several components, in one array and each in its own; windows in the middle, with sizes of their own.
    vectors = np.array([[[0, 1], [2, 3]], [[-5, 9], [1, 1]]], np.int64)
    together, apart = (np.moveaxis(vectors, -1, 1).copy(),), (vectors[..., 0].copy(), vectors[..., 1].copy())
    forms = (((1, 1), (0, 1), ()), ((2, 1), (1,), (1,)), ((2, 3), (), (0, 2)), ((3, 4), (), (1, 3)))
    for sizes, collapsed, offset in forms:
        for starts, dim in ((together, 1), (apart, 2)):
            attrs = gather_attrs(
                sizes, start_index_map=(1, 0), index_vector_dim=dim, offset_dims=offset, collapsed_slice_dims=collapsed
            )
            calls.append(Sample((x, *starts), attrs))
    # Batching axes: each row looks up in its own.
    for n in (0, 1, 2, 7):
        attrs = gather_attrs(
            (1, 1), offset_dims=(), start_index_map=(1,), index_vector_dim=2, collapsed_slice_dims=(1,),
            operand_batching_dims=(0,), start_indices_batching_dims=(0,), wrap=True,
        )  # fmt: skip
        calls.append(Sample((numbers((n, 5)), (np.arange(3 * n).reshape(n, 3) % 7 - 3).astype(np.int32)), attrs))
    return calls


#: The windows of ``slice_sizes`` that start where the indices say; one that would leave the array is moved inside.
gather = OpDef(
    "gather",
    OpKind.INDEXED,
    types=_types,
    loops=ElementLoops(_at),
    reference=_reference,
    samples=_samples,
    vjp=gather_vjp, jvp=linear(0), batch=gather_batch,
)  # fmt: skip
