"""Place of each window's greatest or least element: the one that StableHLO's select_and_scatter selects."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.ir.core import Op
from dyn.ir.opdef import (
    NOT_CONTINUOUS,
    Attrs,
    Get,
    OpDef,
    OpKind,
    Sample,
    ScalarBuilder,
    TypeContext,
    WindowFold,
)
from dyn.ir.types import TensorType
from dyn.ops.scalar import Scalar
from dyn.ops.transform_rules import later, shifted
from dyn.ops.windows.reduce_window import reduce_window
from dyn.ops.windows.sliding import all_of, check_windows, dilate_and_pad, window_axes, window_counts
from dyn.ops.windows.window_rules import BATCH_CHANGES
from dyn.shapes import Dim, RelKind

Array = np.ndarray[Any, Any]
_NONE = 2**63 - 1


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    x, chosen = operands
    if chosen.dtype is not x.dtype or chosen.rank != x.rank:
        raise ctx.fail(f"{chosen} has no element for each window of {x}")
    shape = tuple(axis.count(ctx) for axis in check_windows(ctx, x, attrs))
    for axis, (own, size) in enumerate(zip(chosen.shape, shape, strict=True)):
        ctx.require(RelKind.EQ, own, size, f"there is a chosen element for each window along axis {axis}")
    return (TensorType(dtypes.int64, shape),)


def _number(place: tuple[Dim, ...], shape: tuple[Dim, ...], axes: tuple[int, ...]) -> Dim:
    """The row-major number of a place among those along ``axes``."""
    number: Dim = 0
    for a in axes:
        number = number * shape[a] + place[a]
    return number


def _at(k: ScalarBuilder, op: Op, index: tuple[Dim, ...], taps: tuple[Dim, ...], get: Get, wide: DType) -> Any:
    x = op.operands[0]
    pairs = [a.read(k, i, tap) for a, i, tap in zip(window_axes(x.shape, op.attrs), index, taps, strict=True)]
    mask = all_of(k, [mask for _, mask in pairs])
    place = tuple(i for i, _ in pairs)
    value = get(0, place, mask, None if mask is None else k.const(x.dtype, 0))
    same = k.apply(Scalar.EQ, [value, get(1, index)], dtypes.bool_)
    is_it = k.apply(Scalar.OR, [same, k.apply(Scalar.NE, [value, value], dtypes.bool_)], dtypes.bool_)
    number = k.index(wide, _number(place, x.shape, op.attrs["axes"]))
    return k.apply(Scalar.SELECT, [all_of(k, [is_it, mask]), number, k.const(wide, _NONE)], wide)


def _reference(x: Array, chosen: Array, axes: tuple[int, ...], **attrs: Any) -> Array:
    sizes = tuple(x.shape[a] for a in axes)
    numbers = np.arange(int(np.prod(sizes)), dtype=np.int64).reshape(
        [n if a in axes else 1 for a, n in enumerate(x.shape)]
    )
    base, padding = attrs["base_dilations"], attrs["padding"]
    where = dilate_and_pad(np.broadcast_to(numbers, x.shape), base, padding, _NONE)
    values = dilate_and_pad(x, base, padding, x.dtype.type(0))
    counts = window_counts(where.shape, attrs["window"], attrs["strides"], attrs["window_dilations"])
    result = np.full(counts, _NONE, np.int64)
    for taps in itertools.product(*(range(w) for w in attrs["window"])) if result.size else ():
        starts = [t * d for t, d in zip(taps, attrs["window_dilations"], strict=True)]
        at = tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, counts, attrs["strides"], strict=True))
        is_it = (values[at] == chosen) | (values[at] != values[at])
        result = np.minimum(result, np.where(is_it, where[at], _NONE))
    return result


def _samples() -> list[Sample]:
    """The windows of every extreme that reduce_window has samples of, and of NaN."""
    calls: list[Sample] = []
    for sample in reduce_window.samples():
        if sample.attrs["combine"] not in ("maximum", "minimum"):
            continue
        attrs = {name: value for name, value in sample.attrs.items() if name != "combine"}
        (x,) = sample.operands
        chosen = np.asarray(reduce_window.reference(x, **sample.attrs))
        calls.append(Sample((x, chosen), {**attrs, "axes": tuple(range(x.ndim))}))
        if x.ndim == 1 and x.size > 2 and x.dtype.kind == "f":
            broken = x.copy()
            broken[1:3] = np.nan
            with_nan = np.asarray(reduce_window.reference(broken, **sample.attrs))
            calls.append(Sample((broken, with_nan), {**attrs, "axes": (0,)}))
    image = np.random.default_rng(0).integers(0, 4, (2, 5, 4, 3)).astype(np.float32)
    pool = {
        "window": (1, 3, 2, 1), "strides": (1, 2, 1, 1), "padding": ((0, 0), (1, 1), (0, 0), (0, 0)),
        "base_dilations": (1,) * 4, "window_dilations": (1,) * 4,
    }  # fmt: skip
    chosen = np.asarray(reduce_window.reference(image, **pool, combine="maximum"))
    return [*calls, Sample((image, chosen), {**pool, "axes": (1, 2)})]


#: For each window, where its first element lies that is ``chosen``, the second operand's element for that window, or is
#: NaN: a row-major number along ``axes``, int64; the greatest int64 where there is none, as in a window of holes.
window_choice = OpDef(
    "window_choice",
    OpKind.WINDOW,
    types=_types,
    loops=WindowFold(
        combine=lambda attrs: Scalar.MIN,
        identity=lambda attrs, dtype: _NONE,
        extents=lambda op: op.attrs["window"],
        at=_at,
    ),
    reference=_reference,
    samples=_samples,
    vjp=NOT_CONTINUOUS, jvp=NOT_CONTINUOUS, batch=shifted(**BATCH_CHANGES, axes=later),
)  # fmt: skip
