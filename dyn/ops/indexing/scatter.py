"""Scatter: windows of updates combined into an array, at computed places and in a fixed order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.differentiate import zeros
from dyn.ir.evaluate import RegionFunction
from dyn.ir.inline_regions import build_region
from dyn.ir.opdef import Attrs, OpDef, OpKind, Sample, Scatter, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.complex_parts import componentwise
from dyn.ops.indexing.dimension_numbers import Windows
from dyn.ops.indexing.scatter_rules import scatter_batch, scatter_jvp, scatter_vjp
from dyn.ops.indexing.serial_scatters import in_turns
from dyn.ops.reduce import COMBINES, UFUNCS
from dyn.ops.regions import check_scalar_region, scalar_region
from dyn.ops.rules import ALL_DTYPES
from dyn.shapes import RelKind

Array = np.ndarray[Any, Any]


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    x, *starts, updates = operands
    windows, combine = Windows.of_scatter(attrs, x.rank), attrs["combine"]
    windows.check(ctx, x, starts)
    if updates.dtype is not x.dtype:
        raise ctx.fail(f"{updates} cannot be put into {x}")
    if combine == "body":
        if len(ctx.regions) != 1:
            raise ctx.fail(f"{len(ctx.regions)} regions are no body")
        check_scalar_region(ctx, ctx.regions[0], "its body", [x.dtype, x.dtype], [x.dtype])
    elif combine != "replace" and (combine not in COMBINES or not _combines(x, combine)):
        raise ctx.unsupported(f"cannot combine {x.dtype.name} with {combine}", "convert it with .astype")
    check_updates(ctx, windows, starts, updates)
    return (TensorType(x.dtype, x.shape, x.weak and updates.weak),)


def check_updates(ctx: TypeContext, windows: Windows, starts: Sequence[TensorType], updates: TensorType) -> None:
    """Demand that there is an update for each start index."""
    batch = windows.batch_shape(starts[0])
    if updates.rank != len(batch) + len(windows.window_dims):
        raise ctx.fail(
            f"{updates} does not have the {len(batch)} axes of the indices and {len(windows.axes)} of windows"
        )
    for axis, size in zip(windows.batch_axes(updates.rank), batch, strict=True):
        ctx.require(RelKind.EQ, updates.shape[axis], size, f"there is an update for each index along axis {axis}")


def _combines(x: TensorType, combine: str) -> bool:
    if combine in ("maximum", "minimum"):
        return x.dtype.kind is not Kind.COMPLEX
    if combine in ("and", "or", "xor"):
        return x.dtype.kind is Kind.BOOL or x.dtype.is_integer
    return x.dtype.kind is not Kind.BOOL


def update_places(
    attrs: Attrs, shape: tuple[int, ...], starts: Sequence[Array], updates: tuple[int, ...]
) -> tuple[Array, Array]:
    """The places, as numbers of elements, of those updates that lie inside of an array; and which those are."""
    windows = Windows.of_scatter(attrs, len(shape))
    places = windows.places(windows.starts(starts, shape), updates)
    inside = np.ones(updates, bool)
    for place, size in zip(places, shape, strict=True):
        inside &= (place >= 0) & (place < size)
    where: Array = np.zeros(int(inside.sum()), np.int64)
    for place, size in zip(places, shape, strict=True):
        where = where * size + place[inside]
    return where, inside


def _reference(x: Array, *rest: Array, combine: str, regions: tuple[RegionFunction, ...] = (), **attrs: Any) -> Array:
    *arrays, updates = rest
    where, inside = update_places(attrs, x.shape, arrays, updates.shape)
    result = np.array(x, order="C")  # so that ``flat`` is a view of it
    flat: Array = result.reshape(-1)
    values: Array = updates[inside]
    if combine == "replace":
        for place, value in zip(where.tolist(), values, strict=True):  # the last one stays: NumPy does not promise it
            flat[place] = value
    elif combine == "body":
        (body,) = regions
        with np.errstate(all="ignore"):
            for place, value in zip(where.tolist(), values, strict=True):
                (flat[place],) = body(flat[place], value)
    elif dtypes.dtype(x.dtype).is_narrow:
        for place, value in zip(where.tolist(), values.astype(np.float32), strict=True):
            flat[place] = UFUNCS[combine](flat[place].astype(np.float32), value)
    else:
        with np.errstate(all="ignore"):
            UFUNCS[combine].at(flat, where, values)
    return result


def scatter_attrs(
    combine: str, *, update_window_dims: tuple[int, ...], scatter_dims_to_operand_dims: tuple[int, ...],
    index_vector_dim: int, inserted_window_dims: tuple[int, ...] = (), input_batching_dims: tuple[int, ...] = (),
    scatter_indices_batching_dims: tuple[int, ...] = (), wrap: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """The attributes of a scatter, those that it has nothing to say in left out."""
    return {
        "update_window_dims": update_window_dims, "inserted_window_dims": inserted_window_dims,
        "input_batching_dims": input_batching_dims, "scatter_indices_batching_dims": scatter_indices_batching_dims,
        "scatter_dims_to_operand_dims": scatter_dims_to_operand_dims, "index_vector_dim": index_vector_dim,
        "combine": combine, "wrap": wrap,
    }  # fmt: skip


def _values(shape: tuple[int, ...], dtype: Any, seed: int) -> Array:
    values = np.random.default_rng(seed).integers(0, 4, shape)
    return values.astype(dtype) if np.dtype(dtype) != np.bool_ else values > 1


def _allowed(combine: str, dtype: Any) -> bool:
    return combine == "replace" or _combines(TensorType(dtypes.dtype(dtype), ()), combine)


_ROWS: dict[str, Any] = {"scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1, "inserted_window_dims": (0,)}


def _sized_samples() -> list[Sample]:
    """Rows; single elements; and elements each in a column of its own."""
    calls: list[Sample] = []
    for n, count in ((0, 2), (1, 1), (2, 0), (7, 64), (64, 7)):
        places = (np.arange(count) * 5 % 9 - 1).astype(np.int64)
        rows = _values((4, n), np.float32, 2), places, _values((count, n), np.float32, 3)
        calls.append(Sample(rows, scatter_attrs("add", update_window_dims=(1,), **_ROWS)))
        for combine in ("add", "replace"):
            single = _values((n,), np.int32, 4), places, _values((count,), np.int32, 5)
            calls.append(Sample(single, scatter_attrs(combine, update_window_dims=(), **_ROWS)))
        columns: dict[str, Any] = {**_ROWS, "index_vector_dim": 2}
        attrs = scatter_attrs(
            "replace", update_window_dims=(), input_batching_dims=(1,), scatter_indices_batching_dims=(1,),
            **columns,
        )  # fmt: skip
        along = np.random.default_rng(6).integers(-1, 5, (count, n)).astype(np.int32)
        calls.append(Sample((_values((4, n), np.float32, 7), along, _values((count, n), np.float32, 8)), attrs))
    return calls


def _reflected(b: Builder, old: Any, new: Any) -> Any:
    """An update that depends on the order: what is there, doubled, less what comes."""
    return b.op("subtract", b.op("add", old, old), new)


def _toggled(b: Builder, old: Any, new: Any) -> Any:
    return b.op("and", b.op("not", old), new)


def _samples() -> list[Sample]:
    calls = _sized_samples()
    rows = np.array([4, 0, 4, -1, 9, 4, 2])
    for combine in ("replace", *COMBINES):
        for t in ALL_DTYPES:
            if _allowed(combine, t):
                operands = _values((5, 3), t, 0), rows.astype(np.int32), _values((7, 3), t, 1)
                attrs = scatter_attrs(combine, update_window_dims=(1,), wrap=combine == "add", **_ROWS)
                calls.append(Sample(operands, attrs))
    for t in (dtypes.float32, dtypes.bfloat16, dtypes.float8_e4m3fn, dtypes.int8, dtypes.bool_, dtypes.uint64):
        body = scalar_region((t, t), _toggled if t is dtypes.bool_ else _reflected)
        operands = _values((5, 3), t.np, 0), rows.astype(np.int32), _values((7, 3), t.np, 1)
        calls.append(Sample(operands, scatter_attrs("body", update_window_dims=(1,), **_ROWS), (body,)))
        single = _values((5,), t.np, 4), rows, _values((7,), t.np, 5)
        calls.append(Sample(single, scatter_attrs("body", update_window_dims=(), **_ROWS), (body,)))
    pair = (dtypes.complex64, dtypes.complex64)
    body = scalar_region(pair, _reflected)
    operands = _values((5, 3), np.complex64, 0) * 1j, rows, _values((7, 3), np.complex64, 1) * np.complex64(1 - 1j)
    calls.append(Sample(operands, scatter_attrs("body", update_window_dims=(1,), **_ROWS), (body,)))
    # Windows that start at vectors, lie partly outside, overlap, and come first in the updates.
    vectors = np.array([[0, 1], [2, 3], [-1, -2], [1, 1], [0, 2**40]], np.int64)
    x = _values((4, 5), np.float32, 9)
    for combine in ("add", "replace"):
        for window, shape in (((1, 2), (5, 2, 3)), ((0, 1), (2, 3, 5)), ((0, 2), (2, 5, 3))):
            attrs = scatter_attrs(
                combine, update_window_dims=window, scatter_dims_to_operand_dims=(0, 1), index_vector_dim=1
            )
            calls.append(Sample((x, vectors, _values(shape, np.float32, 10)), attrs))
        columns: dict[str, Any] = {**_ROWS, "scatter_dims_to_operand_dims": (1,), "inserted_window_dims": (1,)}
        attrs = scatter_attrs(combine, update_window_dims=(0,), **columns)
        calls.append(Sample((x, rows, _values((4, 7), np.float32, 13)), attrs))
    return calls


def _elementwise(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """Equal numbers, with one update at a place of each row along an axis: at each element a choice. Such is what a
    cross-entropy takes of a row, differentiated."""
    x, *arrays, updates = op.operands
    windows, combine = Windows.of_scatter(op.attrs, len(x.shape)), op.attrs["combine"]
    if combine == "body" or x.dtype.kind is Kind.COMPLEX or len(arrays) != 1 or b.uniform(x) is None:
        return None
    (starts,) = arrays
    batching, rank = windows.start_batching, len(starts.shape)
    alone = len(windows.start_map) == 1 and windows.vector_dim == rank and not windows.axes
    single = all(d == 1 for a, d in enumerate(starts.shape) if a not in batching)
    in_order = all(list(axes) == sorted(axes) for axes in (windows.batching, batching))
    if not (alone and single and in_order):
        return None
    kept = tuple([starts.shape[a] for a in batching])
    if len(kept) != len(x.shape) - 1 or not all(
        b.facts.same(size, x.shape[a]) for a, size in zip(windows.batching, kept, strict=True)
    ):
        return None

    def spread(value: Value) -> Value:
        return b.op("broadcast_in_dim", b.op("reshape", value, shape=kept), shape=x.shape, dims=windows.batching)

    (axis,) = windows.start_map
    place = b.op("convert", starts, dtype=dtypes.int64)
    if windows.wrap and starts.dtype.kind is Kind.INT:
        zero = zeros(b, TensorType(dtypes.int64, starts.shape))
        size = b.op("dim_size", size=x.shape[axis], dtype=dtypes.int64)
        size = b.op("broadcast_in_dim", size, shape=starts.shape, dims=())
        place = b.op("select", b.op("compare", place, zero, direction="LT"), b.op("add", place, size), place)
    places = b.op("iota", shape=x.shape, dimension=axis, dtype=dtypes.int64)
    here = b.op("compare", places, spread(place), direction="EQ")
    update = spread(updates)
    return (b.op("select", here, update if combine == "replace" else b.op(combine, x, update), x),)


def _simplify(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """Single updates of equal numbers are no scatter. Bodies of complex numbers mix their parts, which a kernel has
    apart: they go in turns."""
    combine, single = op.attrs["combine"], _elementwise(b, op)
    if single is not None:
        return single
    if op.result.dtype.kind is not Kind.COMPLEX or combine in ("add", "replace"):
        return None
    x, *starts, updates = op.operands
    types = [TensorType(x.dtype, ())] * 2
    body = op.regions[0] if op.regions else build_region(b, types, lambda inner, p: (inner.op(combine, *p),))
    return tuple(in_turns(b, op, body, (x,), starts, (updates,)))


#: The first operand with the last, the updates, combined into it: ``scatter(x, *start_indices, updates)``.
#:
#: Updates are taken in their row-major order: the last of several that ``combine="replace"`` puts in one place stays.
#: Sums are rounded in that order; of many updates those of parts of them, and then the sums of the parts. An update
#: whose place lies outside is dropped, each for itself. With ``combine="body"`` the region says what will be in a
#: place, from what is there and the update.
scatter = OpDef(
    "scatter",
    OpKind.SCATTER,
    types=_types,
    loops=Scatter(
        updates=lambda op: op.operands[-1],
        windows=lambda op: (Windows.of_scatter(op.attrs, len(op.result.shape)), op.operands[1:-1]),
        combine=lambda attrs: COMBINES.get(attrs["combine"]),
    ),
    reference=_reference,
    samples=_samples,
    vjp=scatter_vjp, jvp=scatter_jvp, batch=scatter_batch,
    parts=componentwise, simplify=_simplify,
)  # fmt: skip
