"""Writes to places that tensors say, with what is there reduced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dyn.numpy as dnp
from dyn.interop.index_ranges import OUT, require_in_range
from dyn.interop.torch.aten import shapes
from dyn.interop.torch.aten.indexing import added, along
from dyn.interop.torch.aten.tables import axis_of, converts, kept_order
from dyn.interop.torch.aten.tables import operation as operation_named
from dyn.interop.torch.converters import VIEWS
from dyn.interop.torch.sizes import size_from_value
from dyn.shapes import RelKind, product
from dyn.trace.tracer import Tracer

_ = shapes  # whose views are read below


def least(dtype: Any) -> Any:
    if dtype.kind == "b":
        return False
    return dnp.iinfo(dtype).min if dtype.kind in "iu" else -math.inf


def _greatest(dtype: Any) -> Any:
    if dtype.kind == "b":
        return True
    return dnp.iinfo(dtype).max if dtype.kind in "iu" else math.inf


#: By PyTorch's names: the method of ``x.at[…]``, and what it leaves as it is, by the dtype.
_REDUCTIONS: dict[str, tuple[str, Any]] = {
    "sum": ("add", lambda dtype: 0),
    "add": ("add", lambda dtype: 0),
    "mean": ("add", lambda dtype: 0),
    "prod": ("multiply", lambda dtype: 1),
    "multiply": ("multiply", lambda dtype: 1),
    "amax": ("max", least),
    "amin": ("min", _greatest),
}


def _reduced(a: Tracer, index: Any, values: Any, reduce: str, include_self: bool) -> Tracer:
    if a.dtype.kind == "b":  # sums and products of truth values are maxima and minima
        reduce = {"sum": "amax", "add": "amax", "prod": "amin", "multiply": "amin"}.get(reduce, reduce)
    method, identity = _REDUCTIONS[reduce]
    start = a if include_self else a.at[index].set(dnp.asarray(identity(a.dtype), dtype=a.dtype))
    made = getattr(start.at[index], method)(values)
    if reduce != "mean":
        return made
    counted = dnp.zeros_like(a).at[index].add(dnp.ones_like(values))
    counted = counted + 1 if include_self else dnp.maximum(counted, dnp.asarray(1, dtype=a.dtype))
    return dnp.floor_divide(made, counted) if a.dtype.kind in "iu" else made / counted


@converts("scatter_reduce.two")
def scatter_reduce(a: Tracer, dim: int, at: Tracer, source: Tracer, reduce: str, include_self: bool = True) -> Tracer:
    if a.ndim == 0:
        one = scatter_reduce(*[dnp.reshape(x, (1,)) if isinstance(x, Tracer) else x for x in (a, 0, at, source)],
                             reduce, include_self)  # fmt: skip
        return one[0]
    if at.ndim == 0:
        at, source = dnp.reshape(at, (1,)), dnp.reshape(source, (1,))
    values = source[tuple([slice(0, n) for n in at.shape])]
    return _reduced(a, along(a, dim, at), values, reduce, include_self)


@converts("scatter.reduce", "scatter.value_reduce")
def scatter_with(a: Tracer, dim: int, at: Tracer, source: Any, *, reduce: str) -> Tracer:
    if not isinstance(source, Tracer):
        source = dnp.full(at.shape, source, dtype=a.dtype)
    return scatter_reduce(a, dim, at, source, reduce)


@converts("index_reduce.default")
def index_reduce(a: Tracer, dim: int, at: Tracer, source: Tracer, reduce: str, include_self: bool = True) -> Tracer:
    if a.ndim == 0:
        return index_reduce(dnp.reshape(a, (1,)), 0, at, dnp.reshape(source, (-1,)), reduce, include_self)[0]
    index: list[Any] = [slice(None)] * a.ndim
    dim = axis_of(dim, a.ndim)
    require_in_range(at, a.shape[dim], "index_reduce(): " + OUT.format(dim))
    index[dim] = dnp.reshape(at, (-1,))
    return _reduced(a, tuple(index), source, reduce, include_self)


@converts("masked_scatter.default")
def masked_scatter(a: Tracer, mask: Tracer, source: Tracer) -> Tracer:
    """The next element of ``source`` wherever the mask is true."""
    a, mask = dnp.broadcast_arrays(a, mask)
    trace = a._trace.here
    count = size_from_value(trace, dnp.sum(mask), "the number of elements that the mask chooses")
    trace.demand(RelKind.GE, product(source.dims), count, "masked_scatter() has an element for each that it writes")
    number = dnp.reshape(dnp.cumsum(dnp.reshape(mask, (-1,)).astype("int64")) - 1, a.shape)
    given = dnp.concatenate([dnp.reshape(source, (-1,)), dnp.zeros((1,), dtype=source.dtype)])
    return dnp.where(mask, dnp.take(given, dnp.where(mask, number, 0)), a)


@converts("masked_scatter_backward.default")
def masked_scatter_backward(cotangent: Tracer, mask: Tracer, sizes: Sequence[Any]) -> Tracer:
    """The cotangents of the places that were written, in the order of the elements written there; 0 for the rest."""
    cotangent, mask = (dnp.reshape(one, (-1,)) for one in dnp.broadcast_arrays(cotangent, mask))
    count = math.prod(sizes)
    number = dnp.where(
        mask, dnp.cumsum(mask.astype("int64")) - 1, count
    )  # others go to a place of their own, at the end
    made = dnp.zeros((count + 1,), dtype=cotangent.dtype).at[number].add(dnp.where(mask, cotangent, 0))
    return dnp.reshape(made[:count], tuple(sizes))


_OUT_OF_ALL = "index {} is out of range for a tensor of {} elements"


@converts("put.default")
def put(a: Tracer, at: Tracer, source: Tracer, accumulate: bool = False) -> Tracer:
    require_in_range(at, a.size, "put(): " + _OUT_OF_ALL, wraps=True)
    target = dnp.reshape(a, (-1,)).at[dnp.reshape(at, (-1,))]
    values = dnp.reshape(source, (-1,))
    return dnp.reshape(added(target, values) if accumulate else target.set(values), a.shape)


@converts("take.default")
def take(a: Tracer, at: Tracer) -> Tracer:
    require_in_range(at, a.size, "take(): " + _OUT_OF_ALL, wraps=True)
    return dnp.take(dnp.reshape(a, (-1,)), at)


def _of_view(name: str, operation: str) -> None:
    """``diagonal_scatter`` and its kin, what is written to a view in a tensor of its own; and the view's derivative."""
    write = VIEWS[operation_named(operation)].write
    assert write is not None, "the view can be written"

    @converts(f"{name}.default", order=kept_order)
    def scattered(a: Tracer, source: Tracer, *where: Any, **named: Any) -> Tracer:
        return write(a, source.astype(a.dtype), *where, **named)

    @converts(f"{name.removesuffix('_scatter')}_backward.default")
    def backward(cotangent: Tracer, sizes: Sequence[Any], *where: Any, **named: Any) -> Tracer:
        return write(dnp.zeros(tuple(sizes), dtype=cotangent.dtype), cotangent, *where, **named)


_of_view("diagonal_scatter", "diagonal.default")
_of_view("slice_scatter", "slice.Tensor")
_of_view("select_scatter", "select.int")
