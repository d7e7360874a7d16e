"""Reductions of several arrays in windows, with a body of one's own.

StableHLO's reduce_window in its general form (https://openxla.org/stablehlo/spec#reduce_window): holes in and around
the arrays hold the initial values. A window is folded in the order of its taps, from the initial values too, as
``variadic_reduce`` folds an axis.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Region, Value
from dyn.ir.evaluate import RegionFunction
from dyn.ir.opdef import Attrs, Get, OpDef, OpKind, OrderedWindows, Sample, ScalarBuilder, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.decomposed_rules import vjp_by_parts
from dyn.ops.fold_rules import as_fold, fold_batch, fold_jvp
from dyn.ops.regions import arrays_and_inits, check_scalar_region, scalar_region
from dyn.ops.rules import numbers
from dyn.ops.windows.sliding import all_of, check_windows, dilate_and_pad, window_axes, window_counts
from dyn.ops.windows.window_rules import window_batch
from dyn.shapes import Dim

Array = np.ndarray[Any, Any]


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    arrays = arrays_and_inits(ctx, operands)
    axes = check_windows(ctx, arrays[0], attrs)
    own = [x.dtype for x in arrays]
    check_scalar_region(ctx, ctx.regions[0], "its body", [*own, *own], own)
    shape = tuple(axis.count(ctx) for axis in axes)
    return tuple(TensorType(dtype, shape) for dtype in own)


def _at(
    k: ScalarBuilder, op: Op, number: int, index: tuple[Dim, ...], taps: tuple[Dim, ...], get: Get, hole: Any
) -> Any:
    axes = window_axes(op.operands[number].shape, op.attrs)
    pairs = [axis.read(k, i, tap) for axis, i, tap in zip(axes, index, taps, strict=True)]
    mask = all_of(k, [mask for _, mask in pairs])
    return get(number, tuple(i for i, _ in pairs), mask, None if mask is None else hole)


def _reference(
    *operands: Array,
    window: tuple[int, ...],
    strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    base_dilations: tuple[int, ...],
    window_dilations: tuple[int, ...],
    regions: tuple[RegionFunction],
) -> tuple[Array, ...]:
    """All windows at once, a tap of each after the other."""
    count = len(operands) // 2
    (body,) = regions
    arrays, inits = operands[:count], operands[count:]
    padded = [dilate_and_pad(x, base_dilations, padding, init) for x, init in zip(arrays, inits, strict=True)]
    counts = window_counts(padded[0].shape, window, strides, window_dilations)
    states = tuple(np.full(counts, init, x.dtype) for x, init in zip(arrays, inits, strict=True))
    if 0 in counts:
        return states
    with np.errstate(all="ignore"):
        for taps in itertools.product(*(range(w) for w in window)):
            starts = [t * d for t, d in zip(taps, window_dilations, strict=True)]
            at = tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, counts, strides, strict=True))
            states = tuple(np.asarray(np.broadcast_to(s, counts)) for s in body(*states, *(x[at] for x in padded)))
    return states


def _greatest(b: Builder, best: Value, at: Value, x: Value, i: Value) -> tuple[Value, Value]:
    """The greatest element of a window and where it stands first."""
    wins = b.op("compare", x, best, direction="GT")
    return b.op("select", wins, x, best), b.op("select", wins, i, at)


def _difference(b: Builder, acc: Value, x: Value) -> Value:
    """Neither commutative nor associative."""
    return b.op("subtract", x, acc)


def _samples() -> list[Sample]:
    calls: list[Sample] = []
    names = ("window", "strides", "padding", "base_dilations", "window_dilations")

    def add(shape: tuple[int, ...], types: tuple[DType, ...], inits: Any, body: Region, *geometry: Any) -> None:
        arrays = tuple(numbers(shape, t.np) for t in types)
        scalars = tuple(np.asarray(v).astype(t.np) for v, t in zip(inits, types, strict=True))
        calls.append(Sample((*arrays, *scalars), dict(zip(names, geometry, strict=True)), (body,)))

    f32, i32 = dtypes.float32, dtypes.int32
    greatest = scalar_region((f32, i32) * 2, _greatest)
    difference = {
        t: scalar_region((t, t), _difference)
        for t in (f32, dtypes.float64, dtypes.bfloat16, dtypes.uint8, dtypes.complex64)
    }
    for size in (0, 1, 2, 7, 64):
        for dtype, body in difference.items():
            add((size,), (dtype,), (3,), body, (3,), (2,), ((1, 1),), (1,), (1,))
        add((2, size), (f32, i32), (-np.inf, -1), greatest, (1, 2), (1, 2), ((0, 0), (0, 0)), (1, 1), (1, 1))
        add((size, 5), (f32, i32), (-np.inf, -1), greatest, (3, 2), (1, 3), ((2, -1), (0, 1)), (2, 1), (1, 2))
    return calls


#: The region's folds of n arrays in windows, each from its initial value, in the order of the taps.
variadic_reduce_window = OpDef(
    "variadic_reduce_window",
    OpKind.WINDOW,
    types=_types,
    loops=OrderedWindows(extents=lambda op: op.attrs["window"], at=_at),
    reference=_reference,
    samples=_samples,
    vjp=vjp_by_parts(as_fold), jvp=fold_jvp, batch=fold_batch(window_batch, as_fold),
)  # fmt: skip
