"""Slices whose place is computed, updates of them, and padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.ir.core import Op
from dyn.ir.opdef import Attrs, ElementLoops, Get, OpDef, OpKind, Sample, ScalarBuilder, Scatter, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.complex_parts import componentwise
from dyn.ops.indexing.dimension_numbers import Windows, clamped
from dyn.ops.indexing.slice_rules import pad_batch, pad_vjp, slice_batch, slice_vjp, update_batch, update_vjp
from dyn.ops.rules import ALL_DTYPES, numbers
from dyn.ops.scalar import Scalar
from dyn.ops.transform_rules import linear
from dyn.shapes import Dim, RelKind, dim_max, floordiv, mod

Array = np.ndarray[Any, Any]


def _all(k: ScalarBuilder, conditions: Sequence[Any]) -> Any | None:
    """The conjunction of conditions; None where there are none."""
    whole = None
    for condition in conditions:
        whole = condition if whole is None else k.apply(Scalar.AND, [whole, condition], dtypes.bool_)
    return whole


# --- dynamic_slice, dynamic_update_slice --------------------------------------------------------------------------


def _require_starts(ctx: TypeContext, x: TensorType, starts: Sequence[TensorType]) -> None:
    if len(starts) != x.rank or any(s.rank != 0 for s in starts):
        raise ctx.fail(f"{len(starts)} start indices are given for {x}", "give a scalar for each axis")
    for start in starts:
        if not start.dtype.is_integer:
            raise ctx.unsupported(f"a start index is {start.dtype.name}, not an integer", "convert it with .astype")


def _slice_windows(rank: int) -> Windows:
    """A dynamic slice as a gather of one window."""
    return Windows(rank, tuple(range(rank)), (), (), (), tuple(range(rank)), 0, False)


def _dynamic_starts(k: ScalarBuilder, x: Any, sizes: Sequence[Dim], starts: Sequence[Any], get: Get) -> list[Dim]:
    """Start of a window of ``sizes`` on each axis: it is moved so that it lies inside."""
    windows, places = _slice_windows(len(sizes)), list[Dim]()
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        whole = x.shape[axis]
        if size is whole or size == whole:
            places.append(0)
            continue
        value = windows.counted(k, get(1 + axis, ()), start.dtype, whole)
        places.append(k.bind(clamped(k, value, whole - size)))
    return places


def _numpy_starts(x: Array, sizes: Sequence[int], starts: Sequence[Array]) -> list[int]:
    return [max(min(int(s), n - size), 0) for s, n, size in zip(starts, x.shape, sizes, strict=True)]


def _dynamic_slice_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    x, *starts = operands
    sizes = attrs["slice_sizes"]
    _require_starts(ctx, x, starts)
    if len(sizes) != x.rank:
        raise ctx.fail(f"{len(sizes)} slice sizes are given for {x}")
    for axis, size in enumerate(sizes):
        ctx.require(RelKind.GE, size, 0, f"a slice of axis {axis} has no negative size")
        ctx.require(RelKind.GE, x.shape[axis], size, f"a slice of axis {axis} fits")
    return (TensorType(x.dtype, tuple(sizes), x.weak),)


def _dynamic_slice_at(k: ScalarBuilder, op: Op, index: tuple[Dim, ...], get: Get) -> Any:
    x, *starts = op.operands
    places = _dynamic_starts(k, x, op.attrs["slice_sizes"], starts, get)
    return get(0, tuple(p + i for p, i in zip(places, index, strict=True)))


def _dynamic_slice(x: Array, *starts: Array, slice_sizes: tuple[int, ...]) -> Array:
    firsts = _numpy_starts(x, slice_sizes, starts)
    return x[tuple(slice(p, p + n) for p, n in zip(firsts, slice_sizes, strict=True))]


def _slice_samples() -> list[Sample]:
    calls = [
        Sample((numbers((5, 7), dtype), np.array(a, np.int32), np.array(b, np.int64)), {"slice_sizes": (2, 3)})
        for dtype in ALL_DTYPES
        for a, b in ((1, 2), (-3, 9))
    ]
    calls += [
        Sample((numbers((n, 64)), np.array(a, np.uint64), np.array(b, np.uint8)), {"slice_sizes": (n, size)})
        for n in (0, 1, 2, 7)
        for a, b, size in ((0, 255, 7), (2**64 - 1, 3, 0), (1, 60, 64), (2**63, 1, 1))
    ]
    return [*calls, Sample((np.array(3.0, np.float32),), {"slice_sizes": ()})]


#: ``slice_sizes`` elements from where the scalar operands say; a slice that would leave the array is moved inside.
dynamic_slice = OpDef(
    "dynamic_slice",
    OpKind.INDEXED,
    types=_dynamic_slice_types,
    loops=ElementLoops(_dynamic_slice_at),
    reference=_dynamic_slice,
    samples=_slice_samples,
    vjp=slice_vjp, jvp=linear(0), batch=slice_batch,
    simplify=lambda b, op: op.operands[:1] if op.operands[0].shape == op.result.shape else None,
)  # fmt: skip


def _update_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    x, update, *starts = operands
    _require_starts(ctx, x, starts)
    if update.rank != x.rank or update.dtype is not x.dtype:
        raise ctx.fail(f"{update} is no part of {x}")
    for axis, size in enumerate(update.shape):
        ctx.require(RelKind.GE, x.shape[axis], size, f"an update of axis {axis} fits")
    return (TensorType(x.dtype, x.shape, x.weak and update.weak),)


def _update_windows(op: Op) -> tuple[Windows, tuple[Any, ...]]:
    """The one window of an update; an axis that it covers has no start to look up."""
    x, update, *starts = op.operands
    rank = len(x.shape)
    own = [a for a in range(rank) if not (update.shape[a] is x.shape[a] or update.shape[a] == x.shape[a])]
    return replace(_slice_windows(rank), start_map=tuple(own)), tuple(starts[a] for a in own)


def _update(x: Array, update: Array, *starts: Array) -> Array:
    firsts = _numpy_starts(x, update.shape, starts)
    result = np.array(x)
    result[tuple(slice(p, p + n) for p, n in zip(firsts, update.shape, strict=True))] = update
    return result


def _update_samples() -> list[Sample]:
    calls: list[Sample] = []
    for sample in _slice_samples():
        x, *starts = sample.operands
        calls.append(Sample((x, np.full(sample.attrs["slice_sizes"], 1).astype(x.dtype), *starts)))
    return calls


#: The first operand with the second in place of what lies where the scalar operands say, moved inside where needed.
dynamic_update_slice = OpDef(
    "dynamic_update_slice",
    OpKind.SCATTER,
    types=_update_types,
    loops=Scatter(updates=lambda op: op.operands[1], windows=_update_windows, combine=lambda attrs: None, clamp=True),
    reference=_update,
    samples=_update_samples,
    vjp=update_vjp, jvp=linear(0, 1), batch=update_batch,
    parts=componentwise,
    simplify=lambda b, op: op.operands[1:2] if op.operands[0].type == op.operands[1].type else None,
)  # fmt: skip


# --- pad ----------------------------------------------------------------------------------------------------------


def _padding(attrs: Attrs) -> list[tuple[Dim, Dim, Dim]]:
    return list(zip(attrs["edge_padding_low"], attrs["edge_padding_high"], attrs["interior_padding"], strict=True))


def _pad_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    x, value = operands
    if value.rank != 0 or value.dtype is not x.dtype:
        raise ctx.fail(f"{x} is padded with {value}", "pad with a scalar of the same dtype")
    if any(len(attrs[name]) != x.rank for name in ("edge_padding_low", "edge_padding_high", "interior_padding")):
        raise ctx.fail(f"paddings for other than the {x.rank} axes of {x}")
    shape: list[Dim] = []
    for axis, (low, high, interior) in enumerate(_padding(attrs)):
        size = x.shape[axis]
        ctx.require(RelKind.GE, interior, 0, f"no less than nothing is put between the elements of axis {axis}")
        spread = size if interior == 0 else size + dim_max(size - 1, 0) * interior
        ctx.require(RelKind.GE, low + spread + high, 0, f"no more is cut off axis {axis} than it has")
        shape.append(low + spread + high)
    return (TensorType(x.dtype, tuple(shape), x.weak and value.weak),)


def _pad_at(k: ScalarBuilder, op: Op, index: tuple[Dim, ...], get: Get) -> Any:
    x = op.operands[0]
    zero = k.const(dtypes.int64, 0)
    inside: list[Any] = []
    places: list[Dim] = []
    for axis, (low, high, interior) in enumerate(_padding(op.attrs)):
        place = index[axis] - low
        if interior != 0:
            rest = k.index(dtypes.int64, mod(place, interior + 1))
            inside.append(k.apply(Scalar.EQ, [rest, zero], dtypes.bool_))
            place = floordiv(place, interior + 1)
        # A crop leaves nothing outside on its side; a size that is not known may be either.
        at = k.index(dtypes.int64, place)
        if not (isinstance(low, int) and low <= 0):
            inside.append(k.apply(Scalar.GE, [at, zero], dtypes.bool_))
        if not (isinstance(high, int) and high <= 0):
            inside.append(k.apply(Scalar.LT, [at, k.index(dtypes.int64, x.shape[axis])], dtypes.bool_))
        places.append(place)
    mask = _all(k, inside)
    if mask is None:
        return get(0, tuple(places))
    value = get(0, tuple(places), mask, k.const(x.dtype, 0))
    return k.apply(Scalar.SELECT, [mask, value, get(1, ())], x.dtype)


def _pad(
    x: Array, value: Array, edge_padding_low: tuple[int, ...], edge_padding_high: tuple[int, ...],
    interior_padding: tuple[int, ...],
) -> Array:  # fmt: skip
    spread = [n + max(n - 1, 0) * i for n, i in zip(x.shape, interior_padding, strict=True)]
    whole = np.full(
        [s + max(lo, 0) + max(hi, 0) for s, lo, hi in zip(spread, edge_padding_low, edge_padding_high, strict=True)],
        value,
        x.dtype,
    )
    inner = [
        slice(max(lo, 0), max(lo, 0) + s, i + 1)
        for lo, s, i in zip(edge_padding_low, spread, interior_padding, strict=True)
    ]
    whole[tuple(inner)] = x
    cut = [
        slice(max(-lo, 0), n - max(-hi, 0))
        for lo, hi, n in zip(edge_padding_low, edge_padding_high, whole.shape, strict=True)
    ]
    return whole[tuple(cut)]


def _pad_samples() -> list[Sample]:
    paddings = (
        ((1, 0), (0, 2), (0, 0)),
        ((-1, 2), (3, -1), (0, 1)),
        ((0, 0), (0, 0), (2, 0)),
        ((0, -1), (-1, 0), (0, 0)),
    )
    calls = [
        Sample((numbers((4, 7), t), np.asarray(1).astype(t)), dict(zip(_PADDING, p, strict=True)))
        for t in ALL_DTYPES
        for p in paddings
    ]
    for n in (0, 1, 2, 64):
        for low, high, interior in ((2, 0, 3), (0, 1, 1), (1, 1, 0), (0, 0, 0)):
            attrs = {"edge_padding_low": (low,), "edge_padding_high": (high,), "interior_padding": (interior,)}
            calls.append(Sample((numbers((n,)), np.asarray(-1.0, np.float32)), attrs))
    return calls


_PADDING = ("edge_padding_low", "edge_padding_high", "interior_padding")


#: The first operand with the second, a scalar, before, after and between its elements; negative edges cut off.
pad = OpDef(
    "pad",
    OpKind.INDEXED,
    types=_pad_types,
    loops=ElementLoops(_pad_at),
    reference=_pad,
    samples=_pad_samples,
    vjp=pad_vjp, jvp=linear(), batch=pad_batch,
    simplify=lambda b, op: op.operands[:1] if all(d == 0 for name in _PADDING for d in op.attrs[name]) else None,
)  # fmt: skip
