"""Writes to places that tensors say, with what is there reduced; sums of bags and segments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dyn.numpy as dnp
from dyn.interop.torch.aten import shapes
from dyn.interop.torch.aten.indexing import added, along
from dyn.interop.torch.aten.ranges import OUT, require_in_range
from dyn.interop.torch.aten.tables import axis_of, common_order, converts
from dyn.interop.torch.aten.tables import operation as operation_named
from dyn.interop.torch.sizes import measured
from dyn.interop.torch.tracing import VIEWS
from dyn.shapes import RelKind, product
from dyn.trace.tracer import Tracer

_ = shapes  # whose views are read below


def _least(dtype: Any) -> Any:
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
    "amax": ("max", _least),
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
    count = measured(trace, dnp.sum(mask), "the number of elements that the mask chooses")
    trace.demand(RelKind.GE, product(source.dims), count, "masked_scatter() has an element for each that it writes")
    number = dnp.reshape(dnp.cumsum(dnp.reshape(mask, (-1,)).astype("int64")) - 1, a.shape)
    given = dnp.concatenate([dnp.reshape(source, (-1,)), dnp.zeros((1,), dtype=source.dtype)])
    return dnp.where(mask, dnp.take(given, dnp.where(mask, number, 0)), a)


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

    @converts(f"{name}.default", order=lambda args, kwargs: common_order(args[:1], kwargs))
    def scattered(a: Tracer, source: Tracer, *where: Any, **named: Any) -> Tracer:
        return write(a, source.astype(a.dtype), *where, **named)

    @converts(f"{name.removesuffix('_scatter')}_backward.default")
    def backward(cotangent: Tracer, sizes: Sequence[Any], *where: Any, **named: Any) -> Tracer:
        return write(dnp.zeros(tuple(sizes), dtype=cotangent.dtype), cotangent, *where, **named)


_of_view("diagonal_scatter", "diagonal.default")
_of_view("slice_scatter", "slice.Tensor")
_of_view("select_scatter", "select.int")


# ---- bags and segments -----------------------------------------------------------------------------------------------

_SUM, _MEAN, _MAX = 0, 1, 2


@converts("_embedding_bag.default", "_embedding_bag_forward_only.default")
def embedding_bag(
    weight: Tracer, at: Tracer, offsets: Tracer, scale_grad_by_freq: bool = False, mode: int = _SUM,
    sparse: bool = False, per_sample_weights: Tracer | None = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tracer, Tracer, Tracer, Tracer]:  # fmt: skip
    """The sum, mean or maximum of the rows of each bag; the bag of each row, the sizes of bags, and rows of maxima."""
    count = offsets.shape[0] - 1 if include_last_offset else offsets.shape[0]
    bag = dnp.searchsorted(offsets[:count], dnp.arange(at.shape[0]), side="right") - 1
    require_in_range(at, weight.shape[0], "embedding_bag(): index {} is out of range for a table of {} rows")
    rows = dnp.take(weight, at, axis=0)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    taken = at != (padding_idx + weight.shape[0] if padding_idx < -1 else padding_idx)
    places = dnp.where(taken, bag, count)  # what is padding goes to a bag of its own, at the end
    sizes = dnp.zeros((count + 1,), dtype="int64").at[places].add(dnp.ones_like(places))[:count]
    none, shape = dnp.zeros((count, rows.shape[1]), dtype="int64"), (count + 1, rows.shape[1])
    if mode == _MAX:
        least = dnp.full(shape, _least(rows.dtype), dtype=rows.dtype).at[places].max(rows)
        number = dnp.where(rows == dnp.take(least, places, axis=0), dnp.arange(at.shape[0])[:, None], at.shape[0])
        first = dnp.broadcast_to(dnp.asarray(at.shape[0]), shape).at[places].min(number)[:count]
        known = dnp.concatenate([at, dnp.zeros((1,), dtype=at.dtype)])
        empty = (sizes == 0)[:, None]
        made = dnp.where(empty, dnp.zeros_like(least[:count]), least[:count])
        return made, bag, sizes, dnp.where(empty, none, dnp.take(known, first))
    made = dnp.zeros(shape, dtype=rows.dtype).at[places].add(rows)[:count]
    if mode == _MEAN:
        made = made / dnp.maximum(sizes, 1).astype(made.dtype)[:, None]
    return made, bag, sizes, none


@converts("embedding_renorm.default")
def embedding_renorm(weight: Tracer, at: Tracer, max_norm: float, norm_type: float) -> Tracer:
    """Rows that are read, made shorter where their norm is more than ``max_norm``."""
    is_read = dnp.zeros((weight.shape[0],), dtype="bool").at[dnp.reshape(at, (-1,))].set(True)
    norm = dnp.linalg.vector_norm(weight, axis=1, ord=norm_type)
    factor = dnp.where(is_read & (norm > max_norm), max_norm / (norm + 1e-7), dnp.ones_like(norm))
    return weight * factor[:, None]


@converts("segment_reduce.default")
def segment_reduce(
    data: Tracer, reduce: str, lengths: Tracer | None = None, indices: Tracer | None = None,
    offsets: Tracer | None = None, axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Tracer:  # fmt: skip
    """Segments along an axis, one after the other; the axes before it have segments of their own."""
    if offsets is None:
        assert lengths is not None, "PyTorch demands lengths or offsets"
        ends = dnp.cumsum(lengths, axis=-1)
        starts = ends - lengths
    else:
        starts, ends = offsets[..., :-1], offsets[..., 1:]
    place = dnp.arange(data.shape[axis])
    inside = (place >= starts[..., None]) & (place < ends[..., None])
    inside = dnp.reshape(inside, (*inside.shape, *[1] * (data.ndim - axis - 1)))
    start = {"sum": 0, "mean": 0, "prod": 1, "max": -math.inf, "min": math.inf}[reduce] if initial is None else initial
    method = {"sum": dnp.sum, "mean": dnp.sum, "prod": dnp.prod, "max": dnp.max, "min": dnp.min}[reduce]
    identity = {"sum": 0, "mean": 0, "prod": 1, "max": -math.inf, "min": math.inf}[reduce]
    values = dnp.where(inside, dnp.expand_dims(data, axis), dnp.asarray(identity, dtype=data.dtype))
    made = method(values, axis=axis + 1, initial=dnp.asarray(start, dtype=data.dtype))
    if reduce != "mean":
        return made
    number = dnp.reshape((ends - starts).astype(data.dtype), (*starts.shape, *[1] * (data.ndim - axis - 1)))
    # Of nothing the mean is NaN, unless it has something to begin with.
    nothing = dnp.asarray(math.nan, dtype=data.dtype) if initial is None else made
    return dnp.where(number == 0, nothing, made / number)
