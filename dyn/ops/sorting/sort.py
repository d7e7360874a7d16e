"""Sorting by the order of numbers, and its derivatives.

A result element *is* an operand element, and passes its cotangent to that one: a scatter along the axis, and for
tangents a gather. The place of that element is found by the op itself, with places beside the operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.opdef import Attrs, LibraryRoutine, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.counts import log2
from dyn.ops.indexing.along import add_along, take_along
from dyn.ops.rules import axis_samples, require_same_shapes
from dyn.ops.sorting.stable_sort import sort_into, stable_order
from dyn.ops.transform_rules import again, one_later, shifted
from dyn.shapes import product

Array = np.ndarray[Any, Any]


def _order(b: Builder, op: Op) -> Value:
    """Places where the elements of the sorted arrays stood before: sorted beside them."""
    axis = op.attrs["dimension"]
    places = b.op("iota", shape=op.operands[0].shape, dimension=axis, dtype=dtypes.int64)
    return again(b, op, (*op.operands, places))[-1]


def sort_vjp(b: Builder, op: Op, cts: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    order = _order(b, op)
    return tuple(None if ct is None else add_along(b, ct, order, op.attrs["dimension"]) for ct in cts)


def sort_jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    order = _order(b, op)
    return tuple(None if t is None else take_along(b, t, order, op.attrs["dimension"]) for t in tangents)


def _sort_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    require_same_shapes(ctx, operands)
    if not 0 <= attrs["dimension"] < operands[0].rank:
        raise ctx.fail(f"{attrs['dimension']} is no axis of {operands[0]}")
    count = attrs.get("num_keys", 1)
    if not 1 <= count <= len(operands):
        raise ctx.fail(f"{count} of {len(operands)} operands cannot be keys", "there is at least one operand a key.")
    for key in operands[:count]:
        if key.dtype.kind is Kind.COMPLEX:
            raise ctx.unsupported(
                f"keys are not {key.dtype.name}, which has no order", "sort by real and imaginary parts"
            )
    return tuple(TensorType(x.dtype, x.shape) for x in operands)


def _sort_into(results: Sequence[Array], *operands: Array, dimension: int, descending: bool, num_keys: int = 1) -> None:
    if len(operands) == 1:
        sort_into(results[0], operands[0], dimension, descending)
        return
    order = stable_order(operands[:num_keys], dimension, descending)
    for result, x in zip(results, operands, strict=True):
        if x.ndim == 1:
            x.take(order, out=result, mode="clip")  # in any other mode NumPy writes into a buffer first
        else:
            result[...] = np.take_along_axis(x, order, axis=dimension)


def _sort(*operands: Array, **attrs: Any) -> Array | tuple[Array, ...]:
    results = tuple(np.empty_like(x, order="C") for x in operands)
    _sort_into(results, *operands, **attrs)
    return results[0] if len(operands) == 1 else results


def _key_samples() -> list[Sample]:
    """Samples of sorting by two and three keys, with equal ones among them."""
    calls: list[Sample] = []
    for size in (0, 1, 2, 7, 64):
        rng = np.random.default_rng(size)
        first = rng.integers(0, 3, (2, size)).astype(np.int32)
        second = np.where(rng.random((2, size)) < 0.2, np.nan, rng.integers(0, 3, (2, size))).astype(np.float32)
        places = np.broadcast_to(np.arange(size), (2, size)).copy()
        for descending in (False, True):
            attrs = {"dimension": 1, "descending": descending, "num_keys": 2}
            calls.append(Sample((first, second, places), attrs))
    return [*calls, Sample((first, second.astype(np.float16), second > 1, places), {**attrs, "num_keys": 3})]


#: The operands in the order of the first one's elements along ``dimension``, of equal ones in that of the second one's,
#: and so on for ``num_keys`` of them (1 where it is left out); what is equal in all keeps its order, and NaN is more
#: than any number. Other orders are ``sort_by``'s.
sort = OpDef(
    "sort",
    OpKind.OPAQUE,
    types=_sort_types,
    loops=LibraryRoutine("sort", into=_sort_into),
    flops=lambda op: product(op.operands[0].shape) * log2(op.operands[0].shape[op.attrs["dimension"]]),
    reference=_sort,
    samples=lambda: axis_samples({"descending": False}, {"descending": True})
    + [
        Sample((keys, np.arange(5)[None]), {"dimension": 1, "descending": descending})
        for keys in (np.array([[2.0, np.nan, -0.0, 2.0, 0.0]], np.float32), np.array([[3, 1, 3, 2, 1]], np.int8))
        for descending in (False, True)
    ]
    + _key_samples(),
    vjp=sort_vjp, jvp=sort_jvp, batch=shifted(dimension=one_later),
)  # fmt: skip
