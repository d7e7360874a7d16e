"""Scatters whose bodies no single kernel has, as programs.

An update meets those before it in its own place only. So the program goes in *turns*: in turn t every place takes its
t-th update, all of them at once. There are as many turns as updates in the place that has the most, often one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dyn import dtypes
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Region, Value
from dyn.ir.inline_regions import build_region
from dyn.ir.types import TensorType
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.indexing.along import put_along, take_along
from dyn.ops.indexing.dimension_numbers import Windows
from dyn.ops.indexing.places import Points, not_empty, scatter_numbers
from dyn.ops.map import whole_arrays

#: Elements of a vector, each at a place of its own.
_ELEMENTS = Windows(
    rank=1, window_dims=(), dropped=(0,), batching=(), start_batching=(), start_map=(0,), vector_dim=1, wrap=False
)


def in_turns(
    b: Builder, op: Op, body: Region, arrays: Sequence[Value], starts: Sequence[Value], updates: Sequence[Value]
) -> Sequence[Value]:
    """The arrays with the updates put in by ``body``, in a scatter with the attributes of ``op``."""
    a = Arithmetic(b)
    size, count = arrays[0].type.size, updates[0].type.size
    flat = [b.op("reshape", x, shape=(size,)) for x in arrays]
    news = [b.op("reshape", u, shape=(count,)) for u in updates]
    # The places' numbers are read like elements of the array, counted from 1: there are zeros outside.
    numbers = b.op("reshape", a.add(b.op("iota", shape=(size,), dimension=0, dtype=dtypes.int64), 1),
                   shape=arrays[0].shape)  # fmt: skip
    single = dataclasses.replace(op, operands=(arrays[0], *starts, updates[0]))
    place = a.sub(b.op("reshape", Points.of(b, single).take(b, numbers), shape=(count,)), 1)
    turn = _turns(b, place)
    most = b.op("reduce", turn, axes=(0,), combine="maximum", nonempty=False)
    turns = a.add(a.f("maximum", most, a.fill(most, -1)), 1)
    fixed = (turns, turn, place, *news)
    state = (a.fill(most, 0), *fixed, *flat)

    def more(inner: Builder, params: tuple[Value, ...]) -> tuple[Value, ...]:
        return (Arithmetic(inner).cmp(params[0], "LT", params[1]),)

    def one(inner: Builder, params: tuple[Value, ...]) -> tuple[Value, ...]:
        now, rest = params[0], params[1 : 1 + len(fixed)]
        made = _turn(inner, body, now, rest[1], rest[2], rest[3:], params[1 + len(fixed) :])
        return (Arithmetic(inner).add(now, 1), *rest, *made)

    types = [TensorType(v.dtype, v.shape) for v in state]
    regions = (build_region(b, types, more), build_region(b, types, one))
    found = b.op_all("while", *state, regions=regions)[1 + len(fixed) :]
    return [b.op("reshape", x, shape=arrays[0].shape) for x in found]


def _turns(b: Builder, place: Value) -> Value:
    """Number of earlier updates with the same place, for each update; -1 for those that have no place."""
    a = Arithmetic(b)
    at = b.op("iota", shape=place.shape, dimension=0, dtype=dtypes.int64)
    ordered, order = b.op_all("sort", place, at, dimension=0, descending=False, num_keys=1)
    none = b.op("reshape", a.fill(Value(TensorType(dtypes.int64, (1,))), -2), shape=())
    before = b.op("pad", ordered, none, edge_padding_low=(1,), edge_padding_high=(-1,), interior_padding=(0,))
    first = a.where(a.cmp(ordered, "NE", before), at, 0)
    first = b.op("cumulative", first, dimension=0, combine="maximum", reverse=False)
    turn = a.where(a.cmp(ordered, "LT", 0), a.fill(at, -1), a.sub(at, first))
    return put_along(b, turn, order, 0)


def _turn(
    b: Builder, body: Region, now: Value, turn: Value, place: Value, news: Sequence[Value], flat: Sequence[Value]
) -> list[Value]:
    """Every place with what the body makes of it and its update of this turn."""
    a = Arithmetic(b)
    ours = b.op("compare", turn, b.op("broadcast_in_dim", now, shape=turn.shape, dims=()), direction="EQ")
    there = a.where(ours, place, 0)
    olds = [take_along(b, not_empty(b, x, (0,)), there, 0) for x in flat]
    made = whole_arrays(b, body, [*olds, *news])
    target = a.where(ours, place, -1)  # those of other turns go nowhere
    return [
        b.op("scatter", x, target, new, **scatter_numbers(_ELEMENTS, "replace"))
        for x, new in zip(flat, made, strict=True)
    ]
