"""Elements at places that tensors say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dyn.numpy as dnp
from dyn.errors import ShapeError
from dyn.interop.index_ranges import OUT, require_in_range
from dyn.interop.torch.aten.tables import axis_of, converts, kept_order, kept_orders
from dyn.shapes import RelKind, product
from dyn.source import user_loc
from dyn.trace.context import current_trace
from dyn.trace.tracer import Tracer


@converts("embedding.default")
def embedding(table: Tracer, at: Tracer, padding_idx: int = -1, *rest: Any) -> Tracer:
    require_in_range(at, table.shape[0], "embedding(): index {} is out of range for a table of {} rows")
    return dnp.take(table, at, axis=0)


@converts("index_select.default")
def index_select(a: Tracer, axis: int, at: Tracer) -> Tracer:
    if a.ndim == 0:
        require_in_range(at, 1, "index_select(): " + OUT.format(0))
        return a
    axis = axis_of(axis, a.ndim)
    require_in_range(at, a.shape[axis], "index_select(): " + OUT.format(axis))
    return dnp.take(a, dnp.reshape(at, (-1,)), axis=axis)


@converts("gather.default")
def gather(a: Tracer, axis: int, at: Tracer, sparse_grad: bool = False) -> Tracer:
    if a.ndim == 0:
        require_in_range(at, 1, "gather(): " + OUT.format(0))
        return dnp.broadcast_to(a, at.shape)
    if at.ndim != a.ndim and at.ndim:
        _require_nothing(at, a)
        return dnp.zeros(at.shape, dtype=a.dtype)
    axis = axis_of(axis, a.ndim)
    require_in_range(at, a.shape[axis], "gather(): " + OUT.format(axis))
    if at.ndim == 0:
        return dnp.take(a, at, axis=axis)
    first = tuple([slice(None) if i == axis else slice(0, n) for i, n in enumerate(at.shape)])
    return dnp.take_along_axis(a[first], at, axis=axis)


def _require_nothing(at: Tracer, a: Tracer) -> None:
    """Demand that an index has no places: of none PyTorch takes any number of axes."""
    text = f"the index of gather has {at.ndim} axes and the tensor {a.ndim}, and so it has to be empty"
    trace, count = current_trace(), product(at.dims)
    if trace is None or (isinstance(count, int) and count != 0):
        raise ShapeError(f"{text}.", loc=user_loc(), remedy="give the index as many axes as the tensor has.")
    trace.demand(RelKind.EQ, count, 0, text)


def _places(a: Tracer, indices: Sequence[Any]) -> tuple[Any, ...]:
    """The indices of ``x[…]``, each of which the axis has that it is for: a mask is for as many as it has itself."""
    axis = 0
    for at in indices:
        is_mask = isinstance(at, Tracer) and at.dtype.kind == "b"
        if isinstance(at, Tracer) and not is_mask and axis < a.ndim:
            require_in_range(at, a.shape[axis], OUT.format(axis), wraps=True)
        axis += at.ndim if is_mask else 1
    return tuple([slice(None) if at is None else at for at in indices])


@converts("index.Tensor")
def index(a: Tracer, indices: Sequence[Any]) -> Tracer:
    return a[_places(a, indices)]


@converts("index_put.default", "_index_put_impl.default", "_unsafe_index_put.default", order=kept_order)
def index_put(
    a: Tracer, indices: Sequence[Any], values: Tracer, accumulate: bool = False, unsafe: bool = False
) -> Tracer:
    """Elements written at places. ``unsafe`` is PyTorch's leave not to look whether these are in range."""
    target = a.at[_places(a, indices)]
    values = values.astype(a.dtype)
    return added(target, values) if accumulate else target.set(values)


def added(target: Any, values: Any) -> Tracer:
    """``x.at[…].add(values)``; of truth values whether one of them is true."""
    return target.max(values) if values.dtype.kind == "b" else target.add(values)


def along(a: Tracer, axis: int, at: Tracer) -> tuple[Any, ...]:
    """Indices of the elements that ``scatter`` writes: those of ``at``, and the place itself on other axes."""
    axis = axis_of(axis, a.ndim)
    require_in_range(at, a.shape[axis], "scatter(): " + OUT.format(axis))
    for i in range(at.ndim):
        if i != axis:
            text = f"the index of scatter is no larger than the tensor on axis {i}"
            a._trace.here.demand(RelKind.GE, a.dims[i], at.dims[i], text)
    places: list[Any] = []
    for i, n in enumerate(at.shape):
        shape: list[Any] = [1] * a.ndim
        shape[i] = n
        places.append(at if i == axis else dnp.reshape(dnp.arange(n), tuple(shape)))
    return tuple(places)


def _one_element(a: Tracer, at: Tracer, source: Any) -> tuple[Tracer, Tracer, Any]:
    """A tensor without axes, with what is written to it, as tensors of one axis."""
    one = dnp.reshape(source, (-1,)) if isinstance(source, Tracer) else source
    return dnp.reshape(a, (1,)), dnp.reshape(at, (-1,)), one


@converts("scatter.src", "scatter.value")
def scatter(a: Tracer, axis: int, at: Tracer, source: Any) -> Tracer:
    if a.ndim == 0:
        a, at, source = _one_element(a, at, source)
        return scatter(a, 0, at, source)[0]
    if isinstance(source, Tracer) and source.ndim:
        source = source[tuple([slice(0, n) for n in at.shape])]
    return a.at[along(a, axis, at)].set(dnp.broadcast_to(dnp.asarray(source).astype(a.dtype), at.shape))


@converts("scatter_add.default")
def scatter_add(a: Tracer, axis: int, at: Tracer, source: Tracer) -> Tracer:
    if a.ndim == 0:
        a, at, source = _one_element(a, at, source)
        return scatter_add(a, 0, at, source)[0]
    if at.ndim != a.ndim:  # the cotangents of what was gathered at no places
        _require_nothing(at, a)
        return a
    return added(a.at[along(a, axis, at)], source[tuple([slice(0, n) for n in at.shape])])


@converts("index_add.default")
def index_add(a: Tracer, axis: int, at: Tracer, source: Tracer, alpha: Any = 1) -> Tracer:
    if a.ndim:
        require_in_range(at, a.shape[axis_of(axis, a.ndim)], "index_add(): " + OUT.format(axis_of(axis, a.ndim)))
    else:
        return index_add(dnp.reshape(a, (1,)), 0, dnp.reshape(at, (-1,)), dnp.reshape(source, (-1,)), alpha)[0]
    index: list[Any] = [slice(None)] * a.ndim
    index[axis_of(axis, a.ndim)] = at
    scaled = source if isinstance(alpha, int) and alpha == 1 else source * dnp.asarray(alpha, dtype=source.dtype)
    return added(a.at[tuple(index)], scaled)


@converts("tril.default")
def tril(a: Tracer, diagonal: Any = 0) -> Tracer:
    return dnp.tril(a, diagonal)


@converts("triu.default")
def triu(a: Tracer, diagonal: Any = 0) -> Tracer:
    return dnp.triu(a, diagonal)


@converts("sort.default", order=kept_orders)
def sort(a: Tracer, dim: int = -1, descending: bool = False) -> tuple[Tracer, Tracer]:
    return sort_stable(a, dim=dim, descending=descending)


@converts("sort.stable", order=kept_orders)
def sort_stable(
    a: Tracer, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> tuple[Tracer, Tracer]:
    """The elements in order, and where each was. It is stable whether that is asked for or not."""
    if a.ndim == 0:
        return a, dnp.zeros((), dtype="int64")
    places = dnp.argsort(a, axis=dim, descending=descending, stable=True)
    return dnp.take_along_axis(a, places, axis=dim), places
