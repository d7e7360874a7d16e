"""Derivatives and batching of folds with a body of one's own.

Tangents are folded with the values: a body of pairs makes of the tangents so far, and of those of the next elements,
what the derivative of its own says. Backward a fold is a scan, which keeps what each step was given. Windows are, for
that, gathered first, each with the initial values where it reaches a hole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn import dtypes
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Region, Value
from dyn.ir.differentiate import push_forward, zeros
from dyn.ir.inline_regions import build_region, splice
from dyn.ir.opdef import BatchRule
from dyn.ir.types import TensorType
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.decomposed_rules import Parts, batch_by_parts
from dyn.ops.indexing.dimension_numbers import Windows
from dyn.ops.indexing.places import gather_numbers, not_empty
from dyn.ops.map import whole_arrays
from dyn.ops.windows.sliding import window_axes
from dyn.shapes import Dim, product


def _or_zeros(b: Builder, tangent: Value | None, like: Value) -> Value:
    return zeros(b, TensorType(like.dtype, like.shape)) if tangent is None else tangent


def fold_jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> Sequence[Value | None]:
    """One fold of the values and of their tangents, by a body of both."""
    count = len(op.results)
    smooth = [i for i, v in enumerate(op.results) if v.dtype.is_inexact]
    if all(t is None for t in tangents):
        return (None,) * count
    arrays, inits = op.operands[:count], op.operands[count:]
    moving = [_or_zeros(b, tangents[i], arrays[i]) for i in smooth]
    starting = [_or_zeros(b, tangents[count + i], inits[i]) for i in smooth]
    body = _of_pairs(b, op.regions[0], smooth)
    made = b.emit(op.opdef, (*arrays, *moving, *inits, *starting), (body,), **op.attrs)
    found: list[Value | None] = [None] * count
    for place, i in enumerate(smooth):
        found[i] = made[count + place]
    return found


def _of_pairs(b: Builder, body: Region, smooth: Sequence[int]) -> Region:
    """The body on n states with the tangents of those that are ``smooth``, and n elements with theirs."""
    count = len(body.results)
    half = [TensorType(v.dtype, ()) for v in (*body.results, *(body.results[i] for i in smooth))]

    def build(inner: Builder, params: tuple[Value, ...]) -> list[Value]:
        sides = params[: len(half)], params[len(half) :]
        given = tuple([v for side in sides for v in side[:count]])
        known = {side[i]: side[count + place] for side in sides for place, i in enumerate(smooth)}
        start = len(inner.ops)
        results = splice(inner, body, given)
        push_forward(inner, tuple(inner.ops[start:]), known)
        return [*results, *(_or_zeros(inner, known.get(results[i]), results[i]) for i in smooth)]

    return build_region(b, [*half, *half], build)


# --- as other ops -------------------------------------------------------------------------------------------------


def as_scan(b: Builder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value]:
    """A fold along axes as a scan along one: each step goes on with all results, by an element of each."""
    count, (body,) = len(op.results), op.regions
    arrays, inits = operands[:count], operands[count:]
    folded = tuple(sorted(op.attrs["axes"]))
    order = (*folded, *(a for a in range(len(arrays[0].shape)) if a not in folded))
    kept = op.results[0].shape
    length = product([arrays[0].shape[a] for a in folded])
    rows = [b.op("reshape", b.op("transpose", x, permutation=order), shape=(length, *kept)) for x in arrays]
    states = [b.op("broadcast_in_dim", init, shape=kept, dims=()) for init in inits]
    types = [TensorType(v.dtype, kept) for v in (*states, *rows)]
    step = build_region(b, types, lambda inner, params: whole_arrays(inner, body, params))
    return b.op_all("scan", *states, *rows, regions=(step,), carries=count, length=length, reverse=False)


def as_fold(b: Builder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value]:
    """Folds in windows as folds along the taps of all windows, which are gathered."""
    count = len(op.results)
    arrays, inits = operands[:count], operands[count:]
    taps = [_all_taps(b, op, x, init) for x, init in zip(arrays, inits, strict=True)]
    rank = len(op.attrs["window"])
    return b.op_all("variadic_reduce", *taps, *inits, regions=op.regions, axes=tuple(range(rank, 2 * rank)))


def _all_taps(b: Builder, op: Op, x: Value, init: Value) -> Value:
    """Elements under the taps of each window, ``init`` for holes; the axes of taps are the last ones."""
    axes, counts = window_axes(x.shape, op.attrs), op.results[0].shape
    low, high = ([axis.low for axis in axes], [axis.high for axis in axes])
    numbers = {"edge_padding_low": tuple(low), "edge_padding_high": tuple(high)}
    x = b.op("pad", x, init, **numbers, interior_padding=tuple(axis.base - 1 for axis in axes))
    split: list[Dim] = []
    for number, (axis, windows) in enumerate(zip(axes, counts, strict=True)):
        a, shape = Arithmetic(b), (windows, axis.window)
        first, tap = (b.op("iota", shape=shape, dimension=d, dtype=dtypes.int64) for d in range(2))
        places = a.add(a.mul(first, axis.stride), a.mul(tap, axis.dilation))
        x = _taken(b, x, b.op("reshape", places, shape=(product(shape),)), number)
        split += shape
    whole = b.op("reshape", x, shape=tuple(split))
    rank = len(axes)
    return b.op("transpose", whole, permutation=(*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)))


def _taken(b: Builder, x: Value, places: Value, axis: int) -> Value:
    """The slices at places on an axis."""
    rank = len(x.shape)
    others = tuple(a for a in range(rank) if a != axis)
    x = not_empty(b, x, (axis,))
    sizes = tuple(1 if a == axis else d for a, d in enumerate(x.shape))
    return b.op("gather", x, places, **gather_numbers(Windows(rank, others, (axis,), (), (), (axis,), 1, False), sizes))


def fold_batch(one_by_one: BatchRule, parts: Parts) -> BatchRule:
    """``one_by_one`` where all examples start from the same values, else as ``parts``: initial values are scalars."""
    apart = batch_by_parts(parts)

    def rule(b: Builder, op: Op, operands: tuple[Value, ...], flags: tuple[bool, ...], size: Dim) -> Sequence[Any]:
        count = len(op.results)
        if any(flags[count:]):
            return apart(b, op, operands, flags, size)
        # Scalars that are the same for all examples are what they have to be: nothing is spread.
        return one_by_one(b, op, operands, (*flags[:count], *(True,) * count), size)

    return rule
