"""Reductions in windows that slide over an array."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.ir.core import Op
from dyn.ir.opdef import Attrs, Get, OpDef, OpKind, Sample, ScalarBuilder, TypeContext, WindowFold
from dyn.ir.types import TensorType
from dyn.ops import complex_parts
from dyn.ops.reduce import COMBINES, UFUNCS, identity, require_combinable
from dyn.ops.scalar import Scalar
from dyn.ops.windows.sliding import all_of, check_windows, dilate_and_pad, window_axes, window_counts
from dyn.ops.windows.window_rules import window_batch, window_jvp, window_vjp
from dyn.shapes import Dim

Array = np.ndarray[Any, Any]


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,) = operands
    require_combinable(ctx, x.dtype, attrs["combine"])
    axes = check_windows(ctx, x, attrs)
    return (TensorType(x.dtype, tuple(axis.count(ctx) for axis in axes), x.weak),)


def _at(k: ScalarBuilder, op: Op, index: tuple[Dim, ...], taps: tuple[Dim, ...], get: Get, wide: DType) -> Any:
    (x,) = op.operands
    pairs = [a.read(k, i, tap) for a, i, tap in zip(window_axes(x.shape, op.attrs), index, taps, strict=True)]
    mask = all_of(k, [mask for _, mask in pairs])
    place = tuple(i for i, _ in pairs)
    other = None if mask is None else k.const(x.dtype, identity(op.attrs["combine"], x.dtype))
    return k.apply(Scalar.CAST, [get(0, place, mask, other)], wide)


def _reference(
    x: Array,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    base_dilations: tuple[int, ...],
    window_dilations: tuple[int, ...],
    combine: str,
) -> Array:
    wide = dtypes.widened(x)
    neutral = identity(combine, dtypes.dtype(x.dtype))
    padded = dilate_and_pad(wide, base_dilations, padding, neutral)
    counts = window_counts(padded.shape, window, strides, window_dilations)
    result = np.full(counts, neutral, wide.dtype)
    if result.size == 0:
        return result.astype(x.dtype)
    with np.errstate(all="ignore"):
        for taps in itertools.product(*(range(w) for w in window)):
            starts = [t * d for t, d in zip(taps, window_dilations, strict=True)]
            at = tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, counts, strides, strict=True))
            result = UFUNCS[combine](result, padded[at])
    return result.astype(x.dtype)


def _samples() -> list[Sample]:
    rng = np.random.default_rng(0)
    calls: list[Sample] = []

    def add(shape: tuple[int, ...], dtype: DType, combine: str, *numbers: Any) -> None:
        if dtype.kind is Kind.BOOL:
            x = rng.random(shape) < 0.5
        else:
            x = rng.integers(0 if dtype.kind is Kind.UINT else -4, 5, shape).astype(dtype.np)
        names = ("window", "strides", "padding", "base_dilations", "window_dilations")
        calls.append(Sample((x,), {**dict(zip(names, numbers, strict=True)), "combine": combine}))

    for size in (0, 1, 2, 7, 64):
        for dtype, combine in (
            (dtypes.float32, "maximum"), (dtypes.float64, "add"), (dtypes.bfloat16, "add"), (dtypes.float16, "minimum"),
            (dtypes.int32, "multiply"), (dtypes.uint8, "maximum"), (dtypes.int8, "minimum"), (dtypes.bool_, "or"),
            (dtypes.int16, "xor"), (dtypes.uint32, "and"), (dtypes.float8_e5m2fnuz, "add"),
            (dtypes.float8_e4m3fn, "maximum"), (dtypes.float8_e4m3fnuz, "minimum"),
        ):  # fmt: skip
            add((size,), dtype, combine, (3,), (2,), ((1, 1),), (1,), (1,))
        add((2, size), dtypes.float32, "add", (1, 2), (1, 2), ((0, 0), (0, 0)), (1, 1), (1, 1))
        add((size, 5), dtypes.float32, "maximum", (3, 2), (1, 3), ((2, -1), (0, 1)), (2, 1), (1, 2))
    return calls


#: ``combine`` over the elements in each window; holes count as nothing, and so does a window of holes alone.
reduce_window = OpDef(
    "reduce_window",
    OpKind.WINDOW,
    types=_types,
    loops=WindowFold(
        combine=lambda attrs: COMBINES[attrs["combine"]],
        identity=lambda attrs, dtype: identity(attrs["combine"], dtype),
        extents=lambda op: op.attrs["window"],
        at=_at,
    ),
    reference=_reference,
    samples=_samples,
    vjp=window_vjp, jvp=window_jvp, batch=window_batch,
    parts=complex_parts.folded("variadic_reduce_window"),
)  # fmt: skip
