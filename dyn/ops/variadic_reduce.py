"""Reductions of several arrays at once, with a body of one's own.

StableHLO's reduce in its general form (https://openxla.org/stablehlo/spec#reduce). Its order is up to the
implementation; here it is that of memory for every result: ``body(…body(body(init, x[0]), x[1])…, x[n-1])``, whatever
the body is. So the first of equal elements is the first, nothing is assumed to be an identity, and a fold of nothing
gives ``init``. Bodies that are known monoids are ``reduce``, which may go in any order.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.ir.builder import Builder
from dyn.ir.core import Dense, Region, Value
from dyn.ir.evaluate import RegionFunction
from dyn.ir.opdef import Attrs, OpDef, OpKind, OrderedReductionLoops, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.decomposed_rules import vjp_by_parts
from dyn.ops.fold_rules import as_scan, fold_batch, fold_jvp
from dyn.ops.reduce import identity
from dyn.ops.regions import arrays_and_inits, check_scalar_region, monoid_of, scalar_region, taken_apart
from dyn.ops.rules import numbers
from dyn.ops.transform_rules import later, shifted

Array = np.ndarray[Any, Any]


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    arrays, axes = arrays_and_inits(ctx, operands), attrs["axes"]
    first = arrays[0]
    if any(not 0 <= a < first.rank for a in axes) or len(set(axes)) != len(axes):
        raise ctx.fail(f"axes {axes} are not distinct axes of {first}")
    own = [x.dtype for x in arrays]
    check_scalar_region(ctx, ctx.regions[0], "its body", [*own, *own], own)
    kept = tuple(d for axis, d in enumerate(first.shape) if axis not in axes)
    return tuple(TensorType(dtype, kept) for dtype in own)


def _reference(*operands: Array, axes: tuple[int, ...], regions: tuple[RegionFunction]) -> tuple[Array, ...]:
    """All results at once, an element of each after the other."""
    count = len(operands) // 2
    (body,) = regions
    arrays, inits = operands[:count], operands[count:]
    kept = tuple(n for axis, n in enumerate(arrays[0].shape) if axis not in axes)
    states = tuple(np.full(kept, init, x.dtype) for x, init in zip(arrays, inits, strict=True))
    folded = sorted(axes)
    moved = [np.moveaxis(x, folded, range(len(folded))) for x in arrays]
    with np.errstate(all="ignore"):
        for place in itertools.product(*(range(arrays[0].shape[a]) for a in folded)):
            states = tuple(np.asarray(np.broadcast_to(s, kept)) for s in body(*states, *(x[place] for x in moved)))
    return states


def reduced(
    b: Builder, arrays: Sequence[Value], inits: Sequence[Value], axes: tuple[int, ...], body: Region
) -> tuple[Value, ...]:
    """The reduction of some arrays with a body: what has nothing to do with the rest of it is an op of its own.

    What is a monoid is a ``reduce``, joined with its initial value where that is more than the identity.
    """
    results: dict[int, Value] = {}
    for places, part in taken_apart(body):
        own, starts = [arrays[n] for n in places], [inits[n] for n in places]
        monoid = monoid_of(part)
        if monoid is None:
            found = b.op_all("variadic_reduce", *own, *starts, regions=(part,), axes=axes)
        else:
            found = map(partial(_joined, b, axes), monoid, own, starts)
        results.update(zip(places, found, strict=True))
    return tuple(results[n] for n in range(len(arrays)))


def _joined(b: Builder, axes: tuple[int, ...], combine: str, x: Value, init: Value) -> Value:
    made = b.op("reduce", x, axes=axes, combine=combine, nonempty=False)
    start = b.uniform(init)
    if start is not None and bool(start == np.asarray(identity(combine, init.dtype)).astype(init.dtype.np)):
        return made
    return b.op(combine, b.op("broadcast_in_dim", init, shape=made.shape, dims=()) if made.shape else init, made)


# --- samples ------------------------------------------------------------------------------------------------------


def _argmax(b: Builder, best: Value, at: Value, x: Value, i: Value) -> tuple[Value, Value]:
    """The greatest element and where it stands first; NaN is greater than any."""
    wins = b.op("compare", x, best, direction="GT")
    unordered = b.op("compare", x, x, direction="NE")
    known = b.op("compare", best, best, direction="EQ")
    wins = b.op("or", wins, b.op("and", unordered, known))
    return b.op("select", wins, x, best), b.op("select", wins, i, at)


def _moments(b: Builder, n: Value, mean: Value, m2: Value, n1: Value, x: Value, more: Value) -> tuple[Value, ...]:
    """Count, mean and squared distances, joined (Chan, Golub and LeVeque, 1983)."""
    count = b.op("add", n, n1)
    off = b.op("subtract", x, mean)
    share = b.op("divide", n1, count)
    grown = b.op("add", mean, b.op("multiply", off, share))
    spread = b.op("multiply", b.op("multiply", off, off), b.op("multiply", n, share))
    return count, grown, b.op("add", b.op("add", m2, more), spread)


def _affine(b: Builder, acc: Value, x: Value) -> Value:
    """``acc * 3 - x``: neither commutative nor associative."""
    three = b.op("constant", value=Dense(np.asarray(3).astype(acc.dtype.np)))
    return b.op("subtract", b.op("multiply", acc, three), x)


def _product(b: Builder, acc: Value, x: Value) -> Value:
    return b.op("multiply", acc, x)


def _last(b: Builder, acc: Value, x: Value) -> Value:
    return x


def _both(b: Builder, p: Value, n: Value, x: Value, y: Value) -> tuple[Value, Value]:
    """Whether the numbers so far were all above the one before."""
    return b.op("and", p, b.op("and", x, b.op("compare", n, y, direction="LT"))), y


def _samples() -> list[Sample]:
    calls: list[Sample] = []
    folded = ((), (0,), (1,), (0, 1))

    def add(shape: tuple[int, ...], axes: tuple[int, ...], types: tuple[DType, ...], inits: Any, body: Region) -> None:
        arrays = tuple(numbers(shape, t.np) for t in types)
        scalars = tuple(np.asarray(v).astype(t.np) for v, t in zip(inits, types, strict=True))
        calls.append(Sample((*arrays, *scalars), {"axes": axes}, (body,)))

    f32, i64 = dtypes.float32, dtypes.int64
    affine = {
        t: scalar_region((t, t), _affine)
        for t in (f32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int8, dtypes.uint32, i64)
    }
    argmax, moments = scalar_region((f32, i64) * 2, _argmax), scalar_region((f32,) * 6, _moments)
    chain = scalar_region((dtypes.bool_, dtypes.int32) * 2, _both)
    square = scalar_region((dtypes.complex64,) * 2, _product)
    last = scalar_region((dtypes.int16,) * 2, _last)
    for size in (0, 1, 2, 7, 64):
        for axes in folded:
            add((3, size), axes, (f32, i64), (-np.inf, -1), argmax)
        for dtype, body in affine.items():
            add((size,), (0,), (dtype,), (2,), body)
        add((size, 5), (0,), (f32,) * 3, (1, 0, 0), moments)
        add((2, size), (1,), (dtypes.bool_, dtypes.int32), (True, -1), chain)
        add((2, size, 3), (0, 2), (dtypes.int16,), (9,), last)
        add((min(size, 7), 2), (0,), (dtypes.complex64,), (1,), square)
    return calls


#: The region's folds of n arrays along ``axes``, each from its initial value, in the order of the elements.
variadic_reduce = OpDef(
    "variadic_reduce",
    OpKind.REDUCE,
    types=_types,
    loops=OrderedReductionLoops(),
    reference=_reference,
    samples=_samples,
    vjp=vjp_by_parts(as_scan), jvp=fold_jvp, batch=fold_batch(shifted(axes=later), as_scan),
)  # fmt: skip
