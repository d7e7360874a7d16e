"""The greatest elements along an axis, and where they stand (CHLO's top_k)."""

from __future__ import annotations

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
from dyn.ops.rules import samples
from dyn.ops.transform_rules import one_later, shifted
from dyn.shapes import RelKind, product

Array = np.ndarray[Any, Any]


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,), k, axis = operands, attrs["k"], attrs["dimension"]
    if not 0 <= axis < x.rank:
        raise ctx.fail(f"{axis} is no axis of {x}")
    if x.dtype.kind is Kind.COMPLEX:
        raise ctx.unsupported(f"{x.dtype.name} has no order", "take the absolute values, or a part")
    ctx.require(RelKind.GE, k, 0, "there is no negative number of greatest elements")
    ctx.require(RelKind.GE, x.shape[axis], k, f"axis {axis} has as many elements as are taken of it")
    shape = tuple(k if a == axis else d for a, d in enumerate(x.shape))
    return TensorType(x.dtype, shape), TensorType(dtypes.int32, shape)


def total_order(x: Array) -> Array:
    """Numbers in the order of the elements; of floats in that of IEEE 754's totalOrder.

    The bits of a float that is not negative are in its order as a signed integer; of a negative one in the other.
    """
    if x.dtype.kind in "iub":
        return x
    if x.dtype.itemsize == 1:  # not all formats of 8 bits have their NaNs beyond the other numbers
        x = x.astype(np.float32)
    bits = np.dtype(f"i{x.dtype.itemsize}")
    pattern = x.view(bits)
    flips = pattern >> (8 * x.dtype.itemsize - 1)
    flips &= np.iinfo(bits).max
    flips ^= pattern
    return flips


#: Lanes from this size on are pruned one by one: a dozen calls of NumPy are nothing beside a pass over that many.
_LONG = 1 << 14


def _reference(x: Array, k: int, dimension: int) -> tuple[Array, Array]:
    lanes = np.ascontiguousarray(np.moveaxis(x, dimension, -1))
    shape, size = (*lanes.shape[:-1], k), lanes.shape[-1]
    if k == 0 or lanes.size == 0:
        found = np.zeros(shape, np.int64)
    elif size >= _LONG and 8 * k < size:
        found = np.array([_of_a_long_lane(lane, k) for lane in lanes.reshape(-1, size)]).reshape(shape)
    else:
        found = _places(total_order(lanes), k)
    found = np.moveaxis(found, -1, dimension)
    return np.take_along_axis(x, found, dimension), found.astype(np.int32)


def _of_a_long_lane(x: Array, k: int) -> Array:
    """The places of the ``k`` greatest, at most an eighth of the lane.

    The lane is cut into at least 2k groups: the k-th of their greatest elements is no more than the k-th of all, and
    random lanes have little above k elements that reach it. Those alone are then put in order. A group's elements lie
    far apart, so that the greatest of a lane that is in order already don't all lie in one group.
    """
    # NumPy compares 16-bit floats one by one. What it compares as floats has no NaN, and zeros of both signs are equal:
    # either one reaches the bound where the other does.
    plain = x.dtype.kind in "iub" or (x.dtype.kind == "f" and x.dtype.itemsize > 2)
    values = x if plain else total_order(x)
    rows = min(64, x.size // (2 * k))
    groups = x.size // rows
    whole = rows * groups
    greatest = values[:whole].reshape(rows, groups).max(axis=0)
    # The few elements that are in no group do not move the bound, but may be NaN.
    if values.dtype.kind == "f" and (np.isnan(greatest).any() or np.isnan(values[whole:]).any()):
        values = total_order(x)
        greatest = values[:whole].reshape(rows, groups).max(axis=0)
    places = np.flatnonzero(values >= np.partition(greatest, groups - k)[groups - k])
    keys = total_order(values[places])
    if 8 * k < places.size:
        least = np.partition(keys, keys.size - k)[keys.size - k]
        above, equal = np.flatnonzero(keys > least), np.flatnonzero(keys == least)
        chosen = np.sort(np.concatenate([above, equal[: k - above.size]]))
        keys, places = keys[chosen], places[chosen]
    return places[_places(keys, k)]


def _places(keys: Array, k: int) -> Array:
    """Places of the ``k`` greatest keys of each lane, the greatest first, and of equal ones the first."""
    size = keys.shape[-1]
    if keys.dtype.itemsize <= 4:
        # With its place below it a key is like no other: sorting them need not be stable, which is much quicker.
        packed = keys.astype(np.int64)
        if keys.dtype == np.uint32:
            packed -= 1 << 31
        packed <<= 32
        packed |= np.arange(size - 1, -1, -1)
        if 8 * k < size:
            packed = np.partition(packed, size - k, axis=-1)[..., size - k :]
        packed.sort(axis=-1)
        return size - 1 - (np.flip(packed, -1)[..., :k] & 0xFFFFFFFF)
    if 8 * k < size:
        keys, places = _candidates(keys, k)
        return np.take_along_axis(places, _places(keys, k), -1)
    # Turned round, so that equal ones keep their order.
    return np.flip(size - 1 - np.argsort(np.flip(keys, -1), axis=-1, kind="stable"), -1)[..., :k]


def _candidates(keys: Array, k: int) -> tuple[Array, Array]:
    """The ``k`` greatest keys of each lane in the order in which they stand, and where: of equal ones the first."""
    lanes, size = keys.shape[:-1], keys.shape[-1]
    least = np.partition(keys, size - k, axis=-1)[..., size - k, None]
    chosen = keys > least
    room = k - np.count_nonzero(chosen, axis=-1)[..., None]
    equal = keys == least
    if (np.count_nonzero(equal, axis=-1)[..., None] != room).any():
        equal &= np.cumsum(equal, axis=-1) <= room
    places = np.nonzero((chosen | equal).reshape(-1, size))[1].reshape(*lanes, k)
    return np.take_along_axis(keys, places, -1), places


def _vjp(b: Builder, op: Op, cts: tuple[Value | None, ...]) -> tuple[Value | None]:
    (x,), axis = op.operands, op.attrs["dimension"]
    return (None if cts[0] is None else add_along(b, cts[0], op.results[1], axis, x.shape[axis]),)


def _jvp(b: Builder, op: Op, tangents: tuple[Value, ...]) -> tuple[Value | None, None]:
    return take_along(b, tangents[0], op.results[1], op.attrs["dimension"]), None


def _samples() -> list[Sample]:
    types = (
        dtypes.float32,
        dtypes.bfloat16,
        dtypes.float64,
        dtypes.int64,
        dtypes.uint8,
        dtypes.bool_,
        dtypes.float8_e4m3,
    )
    calls = [
        Sample(s.operands, {"dimension": axis, "k": k})
        for s in samples(1, types, -3.0, 3.0, ((0,), (1, 1), (2, 0, 3), (5, 7), (64,)))()
        for axis in range(s.operands[0].ndim)
        for k in {0, min(1, s.operands[0].shape[axis]), s.operands[0].shape[axis] // 9 + 0, s.operands[0].shape[axis]}
    ]
    special = np.array([np.nan, 1, -0.0, 0.0, np.inf, np.nan, 0.0, -0.0, -np.nan, -np.inf, 1] + [-1] * 30, np.float32)
    equal = np.arange(40, dtype=np.int32)[None] % 3
    calls += [Sample((special,), {"dimension": 0, "k": k}) for k in (1, 3, 5, 9, 41)]
    return [*calls, Sample((equal,), {"dimension": 1, "k": 2}), Sample((equal,), {"dimension": 1, "k": 20})]


#: The ``k`` greatest elements along ``dimension``, the greatest first, and their places, int32; of equal ones the first
#: comes first. Floats are in the order of IEEE 754's totalOrder: NaN is more than inf, 0.0 is more than -0.0.
top_k = OpDef(
    "top_k",
    OpKind.OPAQUE,
    types=_types,
    loops=LibraryRoutine("top_k"),
    flops=lambda op: product(op.operands[0].shape) * log2(op.results[0].shape[op.attrs["dimension"]]),
    reference=_reference,
    samples=_samples,
    vjp=_vjp, jvp=_jvp, batch=shifted(dimension=one_later),
)  # fmt: skip
