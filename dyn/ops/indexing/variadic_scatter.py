"""Scatters into several arrays at once, with a body that sees all of them.

StableHLO's scatter in its general form (https://openxla.org/stablehlo/spec#scatter): n arrays, n updates, and a region
from what n places hold and n updates to what they hold then. Where each result depends on its own array alone, these
are n scatters. The rest, such as a greatest value beside where it came from, is a program here (``scatter_turns``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Region, Value
from dyn.ir.evaluate import RegionFunction
from dyn.ir.opdef import Attrs, Composite, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ir.vectorize import spread
from dyn.ops.expansion import expanded, expanded_jvp, expanded_vjp
from dyn.ops.indexing.dimension_numbers import Windows
from dyn.ops.indexing.places import scatter_numbers
from dyn.ops.indexing.scatter import check_updates, scatter_attrs, update_places
from dyn.ops.indexing.serial_scatters import in_turns
from dyn.ops.indexing.slice_rules import spread_all, with_examples
from dyn.ops.regions import check_scalar_region, scalar_region, taken_apart, way_to_combine
from dyn.ops.rules import require_same_shapes
from dyn.ops.transform_rules import again
from dyn.shapes import Dim

Array = np.ndarray[Any, Any]


def _split(values: Sequence[Any], count: int) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """Arrays, start indices and updates."""
    values = tuple(values)
    return values[:count], values[count:-count], values[-count:]


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    count = len(ctx.regions[0].results) if len(ctx.regions) == 1 else 0
    if not count or len(operands) <= 2 * count:
        raise ctx.fail(f"{len(operands)} operands with {len(ctx.regions)} regions are no arrays, updates and a body")
    arrays, starts, updates = _split(operands, count)
    require_same_shapes(ctx, arrays, "arrays that are scattered into together agree")
    require_same_shapes(ctx, updates, "updates that are scattered together agree")
    for x, new in zip(arrays, updates, strict=True):
        if new.dtype is not x.dtype:
            raise ctx.fail(f"{new} cannot be put into {x}")
    own = [x.dtype for x in arrays]
    check_scalar_region(ctx, ctx.regions[0], "its body", [*own, *own], own)
    windows = Windows.of_scatter(attrs, arrays[0].rank)
    windows.check(ctx, arrays[0], starts)
    check_updates(ctx, windows, starts, updates[0])
    return tuple(TensorType(x.dtype, x.shape) for x in arrays)


def _reference(*operands: Array, regions: tuple[RegionFunction], combine: str, **attrs: Any) -> tuple[Array, ...]:
    """One update after the other. The body's parameters are two for each array."""
    (body,) = regions
    arrays, starts, updates = _split(operands, len(body.region.results))
    where, inside = update_places(attrs, arrays[0].shape, starts, updates[0].shape)
    results = tuple(np.array(x, order="C") for x in arrays)
    flats = [x.reshape(-1) for x in results]
    with np.errstate(all="ignore"):
        for place, *values in zip(where.tolist(), *(u[inside] for u in updates), strict=True):
            for flat, value in zip(flats, body(*(f[place] for f in flats), *values), strict=True):
                flat[place] = value
    return results


# --- the program ------------------------------------------------------------------------------------------------------


def _expand(b: Builder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value]:
    arrays, starts, updates = _split(operands, len(op.results))
    bodies = taken_apart(op.regions[0])
    if len(bodies) < len(arrays):
        return in_turns(b, op, op.regions[0], arrays, starts, updates)
    return [_scattered(b, op, (arrays[n], *starts, updates[n]), body) for (n,), body in bodies]


def _scattered(b: Builder, op: Op, operands: Sequence[Value], body: Region) -> Value:
    """The scatter into one array."""
    combine = way_to_combine(body)
    if combine == "keep":
        return operands[0]
    regions = (body,) if combine == "body" else ()
    (made,) = b.op_all("scatter", *operands, regions=regions, **{**op.attrs, "combine": combine})
    return made


def _batch(b: Builder, op: Op, operands: tuple[Value, ...], batched: tuple[bool, ...], size: Dim) -> tuple[Value, ...]:
    """Examples are one more window axis; one more batching axis where they have places of their own."""
    count = len(op.results)
    own = any(_split(batched, count)[1])
    windows = with_examples(Windows.of_scatter(op.attrs, len(op.operands[0].shape)), array=True, starts=own)
    whole = [v if flag else spread(b, v, size) for v, flag in zip(operands, batched, strict=True)]
    arrays, _, updates = _split(whole, count)
    _, starts, _ = _split(operands, count)
    if own:
        starts = spread_all(b, starts, _split(batched, count)[1], size)
    return again(b, op, (*arrays, *starts, *updates), **scatter_numbers(windows, op.attrs["combine"]))


# --- samples ----------------------------------------------------------------------------------------------------------


def _greatest(b: Builder, best: Value, at: Value, x: Value, i: Value) -> tuple[Value, Value]:
    wins = b.op("compare", x, best, direction="GT")
    return b.op("select", wins, x, best), b.op("select", wins, i, at)


def _apart(b: Builder, x: Value, n: Value, y: Value, i: Value) -> tuple[Value, Value]:
    """A sum and a replacement: two scatters."""
    return b.op("add", x, y), i


def _chained(b: Builder, x: Value, y: Value, z: Value, u: Value, v: Value, w: Value) -> tuple[Value, ...]:
    """Each array gets what the next one has, changed: nothing here may come in another order."""
    return b.op("subtract", y, u), b.op("add", z, v), b.op("subtract", b.op("add", x, x), w)


def _samples() -> list[Sample]:
    calls: list[Sample] = []
    f32, i32, i8 = dtypes.float32, dtypes.int32, dtypes.int8
    greatest, chained = scalar_region((f32, i32) * 2, _greatest), scalar_region((i8,) * 6, _chained)
    apart = scalar_region((f32, i32) * 2, _apart)

    def draw(seed: int, shape: tuple[int, ...], dtype: Any) -> Array:
        return np.random.default_rng(seed).integers(0, 5, shape).astype(dtype.np)

    rows: dict[str, Any] = {"scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1, "inserted_window_dims": (0,)}
    for size, count in ((0, 2), (1, 1), (2, 0), (7, 20), (20, 7)):
        places = (np.arange(count) * 5 % 9 - 1).astype(np.int64)
        single = (draw(1, (size,), f32), draw(2, (size,), i32), places, draw(3, (count,), f32), draw(4, (count,), i32))
        for body in (greatest, apart):
            calls.append(Sample(single, scatter_attrs("body", update_window_dims=(), **rows), (body,)))
        arrays, updates = (tuple(draw(k, s, i8) for k in range(3)) for s in ((4, size), (count, size)))
        attrs = scatter_attrs("body", update_window_dims=(1,), **rows)
        calls.append(Sample((*arrays, places, *updates), attrs, (chained,)))
    # Windows that start at vectors, lie partly outside, and overlap.
    vectors = np.array([[0, 1], [2, 3], [-1, -2], [1, 1], [0, 2**40]], np.int64)
    arrays, updates = (tuple(draw(k, s, i8) for k in range(3)) for s in ((4, 5), (5, 2, 3)))
    attrs = scatter_attrs(
        "body", update_window_dims=(1, 2), scatter_dims_to_operand_dims=(0, 1), index_vector_dim=1
    )  # fmt: skip
    return [*calls, Sample((*arrays, vectors, *updates), attrs, (chained,))]


#: n arrays with n arrays of updates put into them by the region: ``variadic_scatter(*xs, *start_indices, *updates)``,
#: with the attributes of ``scatter``. Updates are taken in their row-major order; those that lie outside are dropped.
variadic_scatter = OpDef(
    "variadic_scatter",
    OpKind.OPAQUE,
    types=_types,
    loops=Composite(),
    reference=_reference,
    samples=_samples,
    vjp=expanded_vjp(_expand), jvp=expanded_jvp(_expand), batch=_batch,
    simplify=expanded(_expand),
)  # fmt: skip
