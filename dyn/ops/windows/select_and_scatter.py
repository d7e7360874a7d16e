"""Values scattered to the places that windows select (https://openxla.org/stablehlo/spec#select_and_scatter).

The gradient of max pooling: each window selects one of its elements, the one that is left when the selected one is
compared with the next, in the order of the taps; the window's source goes there. Padding is never selected.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.ir.builder import Builder
from dyn.ir.core import Dense, Op, Region, Value
from dyn.ir.evaluate import RegionFunction
from dyn.ir.inline_regions import build_region, splice
from dyn.ir.opdef import Attrs, Composite, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ir.vectorize import spread
from dyn.ops.expansion import expanded, expanded_jvp, expanded_vjp
from dyn.ops.indexing.scatter import scatter_attrs
from dyn.ops.regions import check_scalar_region, monoid_of, scalar_region
from dyn.ops.windows.sliding import check_windows, dilate_and_pad, window_counts
from dyn.shapes import Dim, RelKind, product

Array = np.ndarray[Any, Any]


def _geometry(attrs: Attrs) -> dict[str, Any]:
    """The windows of the op as those of a reduction, which may have holes between elements as well."""
    ones = (1,) * len(attrs["window"])
    return {
        "window": attrs["window"], "strides": attrs["strides"], "padding": attrs["padding"], "base_dilations": ones,
        "window_dilations": ones,
    }  # fmt: skip


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    x, source, init = operands
    if len(ctx.regions) != 2:
        raise ctx.fail(f"{len(ctx.regions)} regions do not select and scatter")
    if source.dtype is not x.dtype or init.dtype is not x.dtype or init.rank or source.rank != x.rank:
        raise ctx.fail(f"{x} does not go with the sources {source} and the initial value {init}")
    shape = tuple(axis.count(ctx) for axis in check_windows(ctx, x, _geometry(attrs)))
    for axis, (own, size) in enumerate(zip(source.shape, shape, strict=True)):
        ctx.require(RelKind.EQ, own, size, f"there is a source for each window along axis {axis}")
    check_scalar_region(ctx, ctx.regions[0], "what selects", [x.dtype, x.dtype], [dtypes.bool_])
    check_scalar_region(ctx, ctx.regions[1], "what scatters", [x.dtype, x.dtype], [x.dtype])
    return (TensorType(x.dtype, x.shape),)


def _reference(
    x: Array, source: Array, init: Array, window: tuple[int, ...], strides: tuple[int, ...],
    padding: tuple[tuple[int, int], ...], regions: tuple[RegionFunction, RegionFunction],
) -> Array:  # fmt: skip
    select, scatter = regions
    ones = (1,) * x.ndim
    numbers = dilate_and_pad(np.arange(x.size).reshape(x.shape), ones, padding, -1)
    counts = window_counts(numbers.shape, window, strides, ones)
    flat, result = x.reshape(-1), np.full(x.size, init, x.dtype)
    with np.errstate(all="ignore"):
        for place in itertools.product(*(range(n) for n in counts)):
            chosen = -1
            for taps in itertools.product(*(range(w) for w in window)):
                number = int(numbers[tuple(p * s + t for p, s, t in zip(place, strides, taps, strict=True))])
                if number >= 0 and (chosen < 0 or not select(flat[chosen], flat[number])[0]):
                    chosen = number
            if chosen >= 0:
                (result[chosen],) = scatter(result[chosen], source[place])
    return result.reshape(x.shape)


# --- the program --------------------------------------------------------------------------------------------------


def _chosen(b: Builder, x: Value, attrs: Attrs, select: Region) -> Value:
    """The number of the element that each window selects, in the order of all elements; -1 where it has none."""
    element, number = TensorType(x.dtype, ()), TensorType(dtypes.int64, ())

    def body(inner: Builder, params: tuple[Value, ...]) -> tuple[Value, ...]:
        best, at, value, i = params
        none = inner.op("constant", value=Dense(np.array(0, np.int64)))
        is_element = inner.op("compare", i, none, direction="GE")
        first = inner.op("compare", at, none, direction="LT")
        (stays,) = splice(inner, select, (best, value))
        wins = inner.op("and", is_element, inner.op("or", first, inner.op("not", stays)))
        return inner.op("select", wins, value, best), inner.op("select", wins, i, at)

    region = build_region(b, (element, number, element, number), body)
    numbers = b.op("iota", shape=(product(x.shape),), dimension=0, dtype=dtypes.int64)
    numbers = b.op("reshape", numbers, shape=x.shape)
    start = (
        b.op("constant", value=Dense(np.array(0).astype(x.dtype.np))),
        b.op("constant", value=Dense(np.array(-1, np.int64))),
    )
    return b.op_all("variadic_reduce_window", x, numbers, *start, regions=(region,), **_geometry(attrs))[1]


def _scattered(b: Builder, x: Value, source: Value, base: Value, attrs: Attrs, regions: Sequence[Region]) -> Value:
    """``base`` with each window's source at the element that it selects."""
    select, scatter = regions
    places = b.op("reshape", _chosen(b, x, attrs, select), shape=(product(source.shape),))
    monoid = monoid_of(scatter)
    if monoid is None:
        types = [param.type for param in scatter.params]
        region = build_region(b, types, lambda inner, params: splice(inner, scatter, params))
        combine, regions = "body", (region,)
    else:
        combine, regions = monoid[0], ()
    numbers = scatter_attrs(
        combine, update_window_dims=(), scatter_dims_to_operand_dims=(0,), index_vector_dim=1, inserted_window_dims=(0,)
    )
    flat = b.op("reshape", base, shape=(product(base.shape),))
    updates = b.op("reshape", source, shape=(product(source.shape),))
    (made,) = b.op_all("scatter", flat, places, updates, regions=regions, **numbers)
    return b.op("reshape", made, shape=x.shape)


def _expand(b: Builder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value]:
    x, source, init = operands
    base = b.op("broadcast_in_dim", init, shape=x.shape, dims=()) if x.shape else init
    return (_scattered(b, x, source, base, op.attrs, op.regions),)


def _jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> Sequence[Any]:
    """Tangent of the result. The selection does not move with the elements; what is scattered there does."""
    if tangents[1] is None and tangents[2] is None:
        return (None,)
    return expanded_jvp(_expand)(b, op, (None, *tangents[1:]))


def _batch(b: Builder, op: Op, operands: tuple[Value, ...], batched: tuple[bool, ...], size: Dim) -> tuple[Value, ...]:
    x, source = (v if own else spread(b, v, size) for v, own in zip(operands[:2], batched, strict=False))
    base = b.op("broadcast_in_dim", operands[2], shape=x.shape, dims=(0,) if batched[2] else ())
    attrs = {
        "window": (1, *op.attrs["window"]), "strides": (1, *op.attrs["strides"]),
        "padding": ((0, 0), *op.attrs["padding"]),
    }  # fmt: skip
    return (_scattered(b, x, source, base, attrs, op.regions),)


# --- samples ------------------------------------------------------------------------------------------------------


def _ge(b: Builder, x: Value, y: Value) -> Value:
    return b.op("compare", x, y, direction="GE")


def _smaller(b: Builder, x: Value, y: Value) -> Value:
    return b.op("compare", b.op("abs", x), b.op("abs", y), direction="LT")


def _add(b: Builder, x: Value, y: Value) -> Value:
    return b.op("add", x, y)


def _less(b: Builder, x: Value, y: Value) -> Value:
    return b.op("subtract", y, x)


def _samples() -> list[Sample]:
    calls: list[Sample] = []

    def add(shape: tuple[int, ...], dtype: Any, select: Any, scatter: Any, *geometry: Any) -> None:
        rng = np.random.default_rng(len(calls))
        attrs: dict[str, Any] = dict(zip(("window", "strides", "padding"), geometry, strict=True))
        ones = (1,) * len(shape)
        padded = tuple(n + low + high for n, (low, high) in zip(shape, attrs["padding"], strict=True))
        counts = window_counts(padded, attrs["window"], attrs["strides"], ones)
        x, source = (rng.integers(-4, 5, s).astype(dtype.np) for s in (shape, counts))
        regions = scalar_region((dtype, dtype), select), scalar_region((dtype, dtype), scatter)
        calls.append(Sample((x, source, np.array(3).astype(dtype.np)), attrs, regions))

    f64 = dtypes.float64
    for size in (0, 1, 2, 7, 64):
        add((size,), f64, _ge, _add, (3,), (2,), ((1, 1),))
        add((size, 4), f64, _smaller, _add, (2, 2), (1, 2), ((0, 0), (1, 1)))
        add((size,), dtypes.int32, _ge, _less, (2,), (1,), ((0, 1),))
    return calls


#: ``init`` where no source goes, else what the second region makes of it and each source that goes there, in order. The
#: first region says of two elements of a window whether the first one stays selected.
select_and_scatter = OpDef(
    "select_and_scatter",
    OpKind.OPAQUE,
    types=_types,
    loops=Composite(),
    reference=_reference,
    samples=_samples,
    vjp=expanded_vjp(_expand), jvp=_jvp, batch=_batch,
    simplify=expanded(_expand),
)  # fmt: skip
