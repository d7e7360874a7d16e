"""Sorting, which a library computes for now, and what runs along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.ir.opdef import Attrs, Library, OpDef, OpKind, Running, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.codecs import folds
from dyn.ops.order_rules import cumulative_jvp, cumulative_vjp, sort_jvp, sort_vjp
from dyn.ops.reduce import COMBINES, identity
from dyn.ops.rules import require_same_shapes, samples
from dyn.ops.transform_rules import one_later, shifted

Array = np.ndarray[Any, Any]
_DTYPES = (dtypes.float32, dtypes.bfloat16, dtypes.int64, dtypes.uint8, dtypes.bool_)


def _wide(x: Array) -> Array:
    """16-bit floats as float32, which holds them exactly: NumPy is slow at them, and adds them up in their own."""
    half = dtypes.dtype(x.dtype) in (dtypes.float16, dtypes.bfloat16)
    return x.astype(np.float32) if half else x


def _axis_samples(*attrs: dict[str, Any]) -> list[Sample]:
    return [
        Sample(sample.operands, {"dimension": axis, **own})
        for sample in samples(1, _DTYPES, -9.0, 9.0)()
        for axis in range(sample.operands[0].ndim)
        for own in attrs
    ]


# --- sort ---------------------------------------------------------------------------------------------------------


def _sort_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    require_same_shapes(ctx, operands)
    if not 0 <= attrs["dimension"] < operands[0].rank:
        raise ctx.fail(f"{attrs['dimension']} is no axis of {operands[0]}")
    return tuple(TensorType(x.dtype, x.shape) for x in operands)


def _sort(*operands: Array, dimension: int, descending: bool) -> Array | tuple[Array, ...]:
    keys = _wide(operands[0])
    if len(operands) == 1:
        ordered = np.sort(keys, axis=dimension, kind="stable").astype(operands[0].dtype)
        return np.flip(ordered, dimension) if descending else ordered
    # Equal keys keep their order in both directions: a reversed array is sorted, and reversed back.
    turned = np.flip(keys, dimension) if descending else keys
    order = np.argsort(turned, axis=dimension, kind="stable")
    if descending:
        order = keys.shape[dimension] - 1 - np.flip(order, dimension)
    return tuple(np.take_along_axis(x, order, axis=dimension) for x in operands)


#: The operands in the order of the first one's elements along ``dimension``; equal ones keep their order, and NaN is
#: more than any number. StableHLO's sort with its usual comparators.
sort = OpDef(
    "sort",
    OpKind.OPAQUE,
    types=_sort_types,
    loops=Library(),
    reference=_sort,
    samples=lambda: _axis_samples({"descending": False}, {"descending": True})
    + [
        Sample((keys, np.arange(5)[None]), {"dimension": 1, "descending": descending})
        for keys in (np.array([[2.0, np.nan, -0.0, 2.0, 0.0]], np.float32), np.array([[3, 1, 3, 2, 1]], np.int8))
        for descending in (False, True)
    ],
    vjp=sort_vjp, jvp=sort_jvp, batch=shifted(dimension=one_later), stablehlo=folds.sort,
)  # fmt: skip


# --- running reductions -------------------------------------------------------------------------------------------

_RUNNING = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def _running_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,) = operands
    if not 0 <= attrs["dimension"] < x.rank:
        raise ctx.fail(f"{attrs['dimension']} is no axis of {x}")
    if x.dtype.kind is Kind.BOOL and attrs["combine"] in ("add", "multiply"):
        raise ctx.unsupported(f"cannot {attrs['combine']} {x.dtype.name}", "convert it with .astype('int64')")
    return (TensorType(x.dtype, x.shape),)


def _running(x: Array, dimension: int, combine: str, reverse: bool) -> Array:
    wide = np.flip(_wide(x), dimension) if reverse else _wide(x)
    with np.errstate(all="ignore"):
        result = _RUNNING[combine].accumulate(wide, axis=dimension, dtype=wide.dtype).astype(x.dtype)
    return np.flip(result, dimension) if reverse else result


#: Along ``dimension``, each element combined with all before it (after it, where ``reverse``): JAX's cumsum and kin.
cumulative = OpDef(
    "cumulative",
    OpKind.RUNNING,
    types=_running_types,
    loops=Running(combine=lambda attrs: COMBINES[attrs["combine"]]),
    reference=_running,
    samples=lambda: [
        s
        for s in _axis_samples(*({"combine": c, "reverse": r} for c in _RUNNING for r in (False, True)))
        if s.operands[0].dtype != np.bool_ or s.attrs["combine"] in ("maximum", "minimum")
    ],
    vjp=cumulative_vjp, jvp=cumulative_jvp, batch=shifted(dimension=one_later), stablehlo=folds.cumulative(identity),
)  # fmt: skip
