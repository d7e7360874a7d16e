"""Sorting by a comparator (https://openxla.org/stablehlo/spec#sort).

A comparator that orders by keys (``comparators``) is a sort by these. Any other is called in a merge sort that compares
all elements at once: in runs of 1, 2, 4, … elements each element finds, by halving, how many elements of the
neighbouring run go before it, and that is how far it moves. The sort is stable, and has the same parallel steps for
every order of the elements (K. E. Batcher's merging has them too, but is not stable).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.ir.builder import Builder
from dyn.ir.core import Attr, Dense, Op, Region, Value
from dyn.ir.evaluate import RegionFunction
from dyn.ir.inline_regions import build_region, splice
from dyn.ir.opdef import Attrs, Composite, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.expansion import expanded
from dyn.ops.indexing.along import add_along, put_along, take_along
from dyn.ops.indexing.places import sized
from dyn.ops.map import whole_arrays
from dyn.ops.regions import check_scalar_region, scalar_region
from dyn.ops.rules import require_same_shapes
from dyn.ops.sorting.comparators import Key, keys_of
from dyn.ops.transform_rules import one_later, shifted

Array = np.ndarray[Any, Any]


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    if not operands or len(ctx.regions) != 1:
        raise ctx.fail(f"{len(operands)} operands with {len(ctx.regions)} regions are no arrays and a comparator")
    require_same_shapes(ctx, operands)
    if not 0 <= attrs["dimension"] < operands[0].rank:
        raise ctx.fail(f"{attrs['dimension']} is no axis of {operands[0]}")
    params = [x.dtype for x in operands for _ in range(2)]
    check_scalar_region(ctx, ctx.regions[0], "its comparator", params, [dtypes.bool_])
    return tuple(TensorType(x.dtype, x.shape) for x in operands)


def _reference(
    *operands: Array, dimension: int, is_stable: bool, regions: tuple[RegionFunction]
) -> Array | tuple[Array, ...]:
    """Lane by lane, with Python's sort."""
    (comparator,) = regions
    moved = [np.moveaxis(x, dimension, -1) for x in operands]
    order = np.zeros(moved[0].shape, np.int64)

    for lane in np.ndindex(order.shape[:-1]):

        def compared(i: Any, j: Any, lane: tuple[int, ...] = lane) -> int:
            sides = [[x[(*lane, k)] for x in moved for k in pair] for pair in ((j, i), (i, j))]
            with np.errstate(all="ignore"):
                after, before = (bool(comparator(*side)[0]) for side in sides)
            return after - before

        order[lane] = sorted(range(order.shape[-1]), key=functools.cmp_to_key(compared))
    made = tuple(np.moveaxis(np.take_along_axis(x, order, -1), -1, dimension) for x in moved)
    return made[0] if len(operands) == 1 else made


# --- the program --------------------------------------------------------------------------------------------------


def _expand(b: Builder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value]:
    keys = keys_of(op.regions[0])
    if keys is None or any(key.value.dtype.kind is Kind.COMPLEX for key in keys):
        order = _merge_sorted(b, op, operands)
        return [take_along(b, x, order, op.attrs["dimension"]) for x in operands]
    return _by_keys(b, op, operands, keys)


def _by_keys(b: Builder, op: Op, operands: tuple[Value, ...], keys: tuple[Key, ...]) -> Sequence[Value]:
    """Sorted by arrays of keys. A key that is an operand is sorted by, and needs not be carried as well."""
    axis, comparator = op.attrs["dimension"], op.regions[0]
    arrays = _of_left(b, comparator, operands, [key.value for key in keys])
    carried = [x for x in dict.fromkeys(operands) if x not in arrays and x.dtype.kind is not Kind.COMPLEX]
    rest = [x for x in operands if x.dtype.kind is Kind.COMPLEX]
    if rest:
        carried.append(b.op("iota", shape=operands[0].shape, dimension=axis, dtype=dtypes.int64))
    moving = [*dict.fromkeys([*arrays, *carried])]
    found = dict(zip(moving, moving, strict=True))
    if len({key.descending for key in keys}) == 1:
        attrs: dict[str, Attr] = {"dimension": axis, "descending": keys[0].descending}
        distinct = len(dict.fromkeys(arrays))
        if distinct > 1:
            attrs["num_keys"] = distinct
        found = dict(zip(moving, b.op_all("sort", *moving, **attrs), strict=True))
    else:  # by the least significant key first: what is equal keeps that order
        for array, key in reversed(list(zip(arrays, keys, strict=True))):
            first = [array, *(x for x in moving if x is not array)]
            made = b.op_all("sort", *(found[x] for x in first), dimension=axis, descending=key.descending)
            found = dict(zip(first, made, strict=True))
    order = found[carried[-1]] if rest else None
    return [found[x] if x in found else take_along(b, x, _known(order), axis) for x in operands]


def _known(order: Value | None) -> Value:
    assert order is not None
    return order


def _of_left(b: Builder, comparator: Region, operands: Sequence[Value], wanted: Sequence[Value]) -> list[Value]:
    """Values that a comparator makes of the elements on its left, for all elements."""
    needed, kept = set(wanted), list[Op]()
    for inner in reversed(comparator.ops):
        if needed.intersection(inner.results):
            kept.append(inner)
            needed.update(inner.operands)
    both = [x for x in operands for _ in range(2)]
    return list(whole_arrays(b, replace(comparator, ops=tuple(reversed(kept)), results=tuple(wanted)), both))


def _merge_sorted(b: Builder, op: Op, operands: tuple[Value, ...]) -> Value:
    """Places of the sorted arrays' elements: merged in runs whose width doubles."""
    axis, shape = op.attrs["dimension"], operands[0].shape
    places = b.op("iota", shape=shape, dimension=axis, dtype=dtypes.int64)
    width = b.op("constant", value=Dense(np.array(1, np.int64)))
    types = [width.type, *(TensorType(v.dtype, v.shape) for v in (places, *operands))]

    def unsorted(inner: Builder, state: tuple[Value, ...]) -> tuple[Value, ...]:
        size = inner.op("dim_size", size=shape[axis], dtype=dtypes.int64)
        return (inner.op("compare", state[0], size, direction="LT"),)

    def merged(inner: Builder, state: tuple[Value, ...]) -> tuple[Value, ...]:
        width, order, *arrays = state
        order = _merged(inner, op, width, order, arrays)
        return inner.op("add", width, width), order, *arrays

    regions = (build_region(b, types, unsorted), build_region(b, types, merged))
    return b.op_all("while", width, places, *operands, regions=regions)[1]


def _merged(b: Builder, op: Op, width: Value, order: Value, arrays: Sequence[Value]) -> Value:
    """``order``, sorted in runs of ``width``, sorted in runs of twice that."""
    a, axis, shape = Arithmetic(b), op.attrs["dimension"], order.shape
    wide = b.op("broadcast_in_dim", width, shape=shape, dims=())
    place = b.op("iota", shape=shape, dimension=axis, dtype=dtypes.int64)
    run = a.div(place, wide)
    is_right = a.cmp(a.f("remainder", run, a.fill(run, 2)), "EQ", 1)
    start = a.mul(run, wide)
    neighbour = a.where(is_right, a.sub(start, wide), a.add(start, wide))
    length = a.f("minimum", wide, a.f("maximum", a.sub(sized(b, place, shape[axis]), neighbour), a.fill(place, 0)))
    own = [take_along(b, x, order, axis) for x in arrays]
    count = _go_before(b, op, width, neighbour, length, is_right, own)
    left = a.where(is_right, neighbour, start)
    return put_along(b, order, a.add(a.add(left, a.sub(place, start)), count), axis)


def _go_before(
    b: Builder, op: Op, width: Value, neighbour: Value, length: Value, is_right: Value, own: Sequence[Value]
) -> Value:
    """Number of elements of the neighbouring run before each element, by bisection: equal ones on the left are."""
    axis = op.attrs["dimension"]
    none = Arithmetic(b).fill(length, 0)
    fixed = (neighbour, is_right, *own)
    types = [TensorType(v.dtype, v.shape) for v in (width, none, length, *fixed)]

    def wider(inner: Builder, state: tuple[Value, ...]) -> tuple[Value, ...]:
        return (Arithmetic(inner).cmp(state[0], "GT", 0),)

    def halved(inner: Builder, state: tuple[Value, ...]) -> tuple[Value, ...]:
        a, (step, low, high, neighbour, is_right, *own) = Arithmetic(inner), state
        middle = a.add(low, a.div(a.sub(high, low), 2))
        there = [take_along(inner, x, a.add(neighbour, middle), axis) for x in own]
        first = [v for pair in zip(there, own, strict=True) for v in pair]
        last = [v for pair in zip(own, there, strict=True) for v in pair]
        (before,) = whole_arrays(inner, op.regions[0], first)
        (after,) = whole_arrays(inner, op.regions[0], last)
        goes = a.where(is_right, a.f("not", after), before)
        open_ = a.cmp(low, "LT", high)
        up, down = a.f("and", open_, goes), a.f("and", open_, a.f("not", goes))
        low, high = a.where(up, a.add(middle, 1), low), a.where(down, middle, high)
        return a.div(step, 2), low, high, neighbour, is_right, *own

    regions = (build_region(b, types, wider), build_region(b, types, halved))
    return b.op_all("while", width, none, length, *fixed, regions=regions)[1]


# --- derivatives --------------------------------------------------------------------------------------------------


def _order(b: Builder, op: Op) -> Value:
    """Places where the elements of the sorted arrays stood before: carried along."""
    axis, (comparator,) = op.attrs["dimension"], op.regions
    places = b.op("iota", shape=op.operands[0].shape, dimension=axis, dtype=dtypes.int64)
    types = [*(v.type for v in comparator.params), *(TensorType(dtypes.int64, ()) for _ in range(2))]
    region = build_region(b, types, lambda inner, params: splice(inner, comparator, params[:-2]))
    return b.emit(op.opdef, (*op.operands, places), (region,), **op.attrs)[-1]


def _vjp(b: Builder, op: Op, cts: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    order = _order(b, op)
    return tuple(None if ct is None else add_along(b, ct, order, op.attrs["dimension"]) for ct in cts)


def _jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    order = _order(b, op)
    return tuple(None if t is None else take_along(b, t, order, op.attrs["dimension"]) for t in tangents)


# --- samples ------------------------------------------------------------------------------------------------------


def _less(b: Builder, x: Value, y: Value, *rest: Value) -> Value:
    return b.op("compare", x, y, direction="LT")


def _greater_size(b: Builder, x: Value, y: Value, *rest: Value) -> Value:
    return b.op("compare", b.op("abs", y), b.op("abs", x), direction="LT")


def _less_and_greater(b: Builder, x: Value, y: Value, p: Value, q: Value) -> Value:
    """Comparator: by the first operand upward, and of equal ones by the second one downward."""
    equal = b.op("compare", x, y, direction="EQ")
    return b.op("or", _less(b, x, y), b.op("and", equal, b.op("compare", p, q, direction="GT")))


def _sums_less(b: Builder, x: Value, y: Value, p: Value, q: Value) -> Value:
    """An order that is none of keys, as it is written: ``x + p < y + q`` is ``x - q < y - p``."""
    return b.op("compare", b.op("subtract", x, q), b.op("subtract", y, p), direction="LT")


def _samples() -> list[Sample]:
    calls: list[Sample] = []
    f64, i32 = dtypes.float64, dtypes.int32
    for size in (0, 1, 2, 3, 7, 33):
        rng = np.random.default_rng(size)
        x = rng.integers(-4, 4, (2, size)).astype(np.float64)
        y = rng.integers(-3, 3, (2, size)).astype(np.float64)
        i = np.arange(2 * size, dtype=np.int32).reshape(2, size)
        for types, operands, build in (
            ((f64,), (x,), _less), ((f64, i32), (x, i), _greater_size), ((f64, f64), (x, y), _less_and_greater),
            ((f64, f64), (x, y), _sums_less),
        ):  # fmt: skip
            region = scalar_region([t for t in types for _ in range(2)], build)
            calls.append(Sample(operands, {"dimension": 1, "is_stable": True}, (region,)))
    region = scalar_region((f64, f64, i32, i32), _greater_size)
    columns = {"dimension": 0, "is_stable": False}
    return [*calls, Sample((np.ascontiguousarray(x.T), np.ascontiguousarray(i.T)), columns, (region,))]


#: The operands in the order of the region, which says of two elements of each whether the first ones go before the
#: second ones. What goes before neither way keeps its order, with ``is_stable`` or without.
sort_by = OpDef(
    "sort_by",
    OpKind.OPAQUE,
    types=_types,
    loops=Composite(),
    reference=_reference,
    samples=_samples,
    vjp=_vjp, jvp=_jvp, batch=shifted(dimension=one_later),
    simplify=expanded(_expand),
)  # fmt: skip
