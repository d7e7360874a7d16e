"""Elements by their places: gathers, scatters, and the places of what is not 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dyn.numpy as dnp
from dyn import lax
from dyn.errors import UnsupportedOpError
from dyn.interop.converters import Data, axis_of, rank_of
from dyn.interop.index_ranges import OUT, require_in_range
from dyn.interop.onnx.evaluation import converts, takes_call


def _counted(places: Data, size: Any, axis: int) -> Any:
    """Indices from the start of an axis, of which it has to have all; those below 0 count from its end."""
    here = places._trace.here
    if here is here.program:  # what is demanded in a branch would end calls that go another way
        require_in_range(places, size, OUT.format(axis), wraps=True)
    return dnp.where(places < 0, places + size, places)


@converts("Gather")
def gather(a: Data, places: Data, *, axis: int = 0) -> Any:
    at = axis_of(axis, a)
    return dnp.take(a, _counted(places, a.shape[at], at), axis=at)


@converts("GatherElements")
def gather_elements(a: Data, places: Data, *, axis: int = 0) -> Any:
    at = axis_of(axis, a)
    return a[_grid(_counted(places, a.shape[at], at), at)]


def _grid(places: Data, axis: int) -> tuple[Any, ...]:
    """Indices of elements: in each axis but one an element's own place."""
    return tuple([
        places if n == axis else lax.broadcasted_iota("int64", places.shape, n) for n in range(rank_of(places))
    ])  # fmt: skip


def _parts(places: Data, shape: Sequence[Any], first: int = 0) -> tuple[Any, ...]:
    """The indices in the last axis, one for each axis of ``shape`` from ``first`` on."""
    count = places.dims[-1]
    if not isinstance(count, int):
        raise UnsupportedOpError("indices of an unknown number of axes.")
    return tuple([_counted(places[..., n], shape[first + n], first + n) for n in range(count)])


@converts("GatherND")
def gather_nd(a: Data, places: Data, *, batch_dims: int = 0) -> Any:
    lead = places.shape[:batch_dims]
    rest = rank_of(places) - 1 - batch_dims
    grids = [
        dnp.reshape(lax.broadcasted_iota("int64", lead, n), (*lead, *[1] * rest)) for n in range(batch_dims)
    ]  # fmt: skip
    return a[(*grids, *_parts(places, a.shape, batch_dims))]


def _scattered(a: Data, index: tuple[Any, ...], updates: Data, reduction: str) -> Any:
    at = a.at[index]
    match reduction:
        case "none":
            return at.set(updates)
        case "add":
            return at.add(updates)
        case "mul":
            return at.multiply(updates)
        case "max":
            return at.max(updates)
        case "min":
            return at.min(updates)
        case _:
            raise UnsupportedOpError(f"a scatter with reduction={reduction!r}.")


@converts("ScatterElements", "Scatter")
def scatter_elements(a: Data, places: Data, updates: Data, *, axis: int = 0, reduction: str = "none") -> Any:
    at = axis_of(axis, a)
    return _scattered(a, _grid(_counted(places, a.shape[at], at), at), updates, reduction)


@converts("ScatterND")
def scatter_nd(a: Data, places: Data, updates: Data, *, reduction: str = "none") -> Any:
    return _scattered(a, _parts(places, a.shape), updates, reduction)


@converts("NonZero")
def nonzero(a: Data) -> Any:
    found = dnp.nonzero(dnp.reshape(a, (1,)) if not rank_of(a) else a)
    return dnp.stack([one.astype("int64") for one in found])


@converts("Compress")
def compress(a: Data, condition: Data, *, axis: int | None = None) -> Any:
    return dnp.compress(condition, a, axis=axis)


@takes_call("OneHot", attrs=["axis"])
def one_hot(call: Any) -> Any:
    places, values = call.value(0), call.value(2)
    if call.dtype(1).kind in "iu":
        depth = call.sizes(1)
        size = depth[0] if isinstance(depth, list) else depth
    else:  # a float stands for a size here
        size = int(call.numbers(1).reshape(()))
    axis = call.attribute("axis", -1) % (rank_of(places) + 1)
    wide = dnp.expand_dims(places.astype("int64"), axis)
    shape = [*places.shape[:axis], size, *places.shape[axis:]]
    own = lax.broadcasted_iota("int64", tuple(shape), axis)
    return dnp.where(dnp.equal(own, dnp.where(wide < 0, wide + size, wide)), values[1], values[0])
