"""Views: tensors of the same elements under other sizes; and the operations that put tensors together."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

import dyn.numpy as dnp
from dyn.errors import ShapeError
from dyn.interop.sizes import conditions
from dyn.interop.torch.aten.tables import (
    CHANNELS_LAST,
    axis_of,
    converts,
    format_order,
    in_place,
    kept_order,
    shared_order,
    view,
)
from dyn.interop.torch.layouts import Order
from dyn.interop.torch.tensors import TensorRecord, inverse, numpy_dtype, torch_dtype
from dyn.late_imports import import_whole
from dyn.shapes import Dim, RelKind, dim_max, dim_min, product
from dyn.source import user_loc
from dyn.trace.context import current_trace
from dyn.trace.dims import counted_from_front, unwrap_dim
from dyn.trace.tracer import Tracer

#: Whether an axis is squeezed is asked for the user, as PyTorch asks it.
ASKS_FOR_OTHERS = True

Axes = Callable[..., list[int]]

#: PyTorch's word for "to the end" in a slice.
_END = 2**63 - 1


def _reshaped_back(whole: Tracer, new: Tracer, *rest: Any, **named: Any) -> Tracer:
    return dnp.reshape(new, whole.shape)


# ---- the same elements in the same order -----------------------------------------------------------------------------


@view("view.default", "_unsafe_view.default", "_reshape_alias.default", write=_reshaped_back, in_rows=True)
def reshape(a: Tracer, sizes: Sequence[Any], strides: Any = None) -> Tracer:
    sizes = [-1 if _is_left_open(size) else size for size in sizes]
    given = [size for size in sizes if not isinstance(size, int) or size != -1]
    if len(given) < len(sizes):
        _require_elements(given)
    return dnp.reshape(a, tuple(sizes))


def _is_left_open(size: Any) -> bool:
    """Whether a size is -1, which stands for what the others leave.

    It is asked of a number that is an argument, as PyTorch asks it; one of the running program's is a size, as there.
    """
    dim, trace = unwrap_dim(size), current_trace()
    if dim is None or trace is None or conditions.is_measured(dim, trace):
        return False
    return conditions.decide(conditions.equal(dim, -1), trace)


def _require_elements(sizes: Sequence[Any]) -> None:
    """Demand that sizes beside a -1 are not 0, where any number would do for it. PyTorch refuses that."""
    trace = current_trace()
    count = product([dim for dim in map(unwrap_dim, sizes) if dim is not None])
    if trace is not None and not isinstance(count, int):
        trace.demand(RelKind.NONZERO, count, 0, "the sizes beside -1 in a view leave it open where one is 0")


def _kept(record: TensorRecord, *rest: Any, **named: Any) -> Order | None:
    return record.order


def _rows_first(order: Sequence[int]) -> Order | None:
    return None if list(order) == list(range(len(order))) else tuple(order)


def _without(record: TensorRecord, axes: Sequence[int]) -> Order | None:
    """The order of what is left when axes are gone."""
    if record.order is None:
        return None
    left = [axis for axis in range(len(record.order)) if axis not in axes]
    return _rows_first([left.index(axis) for axis in record.order if axis not in axes])


@view(
    "alias.default", "detach.default", "lift_fresh.default", "prims::view_of.default",
    write=lambda whole, new: new, order=_kept, is_dense=True,
)  # fmt: skip
def alias(a: Tracer) -> Tracer:
    return a


@in_place("detach_.default")
def detach_(tracing: Any, a: Any) -> Any:
    """The tensor itself: autograd has forgotten its history, and in inference mode it has none."""
    return a


def _with_one(record: TensorRecord, axis: int) -> Order | None:
    """The order with a new axis of size 1: outside of the one that it stands before."""
    if record.order is None:
        return None
    rank = len(record.order)
    axis = axis_of(axis, rank + 1)
    moved = [i + (i >= axis) for i in record.order]
    moved.insert(moved.index(axis + 1) if axis < rank else rank, axis)
    return _rows_first(moved)


@view("unsqueeze.default", write=_reshaped_back, order=_with_one, is_dense=True, in_rows=True)
def unsqueeze(a: Tracer, axis: int) -> Tracer:
    return dnp.expand_dims(a, axis_of(axis, a.ndim + 1))


def _ones(a: Tracer, axes: Any) -> list[int]:
    """The axes of size 1 among ``axes``, or among all. Of a symbolic size it is asked, as PyTorch does."""
    if axes is None:
        chosen = range(a.ndim)
    else:
        chosen = [axis_of(axis, a.ndim) for axis in ([axes] if isinstance(axes, int) else axes)]
    trace = current_trace()
    assert trace is not None, "values of a trace are read in it"
    return [axis for axis in chosen if a.ndim and conditions.decide(conditions.equal(a.dims[axis], 1), trace)]


@view(
    "squeeze.default", "squeeze.dim", "squeeze.dims", "prims::squeeze.default", write=_reshaped_back, is_dense=True,
    in_rows=True, order=lambda record, axes=None: _without(record, _ones(record.value, axes)),
)  # fmt: skip
def squeeze(a: Tracer, axes: Any = None) -> Tracer:
    return dnp.squeeze(a, axis=tuple(_ones(a, axes)))


# ---- other orders of axes --------------------------------------------------------------------------------------------


def _permutation(name: str) -> Callable[[Axes], Axes]:
    """Register the axes of the tensor, in the order of a view's, as that view; by the rank and the call's arguments."""

    def register(axes: Axes) -> Axes:
        def write(whole: Tracer, new: Tracer, *rest: Any) -> Tracer:
            return dnp.transpose(new, inverse(axes(new.ndim, *rest)))

        def order(record: TensorRecord, *rest: Any) -> Order | None:
            where = inverse(axes(_rank(record), *rest))
            return _rows_first([where[axis] for axis in record.order or range(len(where))])

        def place(dims: list[Dim], strides: list[Dim], offset: Dim, *rest: Any) -> tuple[list[Dim], Dim]:
            return [strides[axis] for axis in axes(len(strides), *rest)], offset

        @view(name, write=write, order=order, is_dense=True, place=place, is_placed=True)
        def read(a: Tracer, *rest: Any) -> Tracer:
            return dnp.transpose(a, axes(a.ndim, *rest))

        return axes

    return register


@_permutation("permute.default")
def permute(rank: int, axes: Sequence[int]) -> list[int]:
    return [axis_of(axis, rank) for axis in axes]


@_permutation("transpose.int")
def transpose(rank: int, a: int, b: int) -> list[int]:
    axes = list(range(rank))
    if rank:
        a, b = axis_of(a, rank), axis_of(b, rank)
        axes[a], axes[b] = b, a
    return axes


@_permutation("t.default")
def t(rank: int) -> list[int]:
    if rank > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {rank}D")
    return list(range(rank))[::-1]


def _rank(record: TensorRecord) -> int:
    return record.value.ndim


# ---- parts -----------------------------------------------------------------------------------------------------------


def _index(rank: int, axis: int, at: Any) -> tuple[Any, ...]:
    index: list[Any] = [slice(None)] * rank
    index[axis_of(axis, rank)] = at
    return tuple(index)


def _part(a: Tracer, axis: int, start: Any, end: Any, step: Any) -> tuple[Any, ...]:
    if isinstance(start, int) and start == 0:
        start = None
    if isinstance(end, int) and end >= _END:
        end = None
    return _index(a.ndim, axis, slice(start, end, step))


def _from_front(place: Any, size: Dim) -> Dim:
    """A place that may count from the end, from the front."""
    trace, dim = current_trace(), unwrap_dim(place)
    assert trace is not None, "views are made in a trace"
    assert dim is not None, "views are sized by dims"
    return counted_from_front(trace.facts, dim, size)


def _place_slice(
    dims: list[Dim], strides: list[Dim], offset: Dim, axis: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> tuple[list[Dim], Dim]:
    axis = axis_of(axis, len(dims))
    first = 0 if start is None else dim_min(dim_max(_from_front(start, dims[axis]), 0), dims[axis])
    taken = [stride * step if i == axis else stride for i, stride in enumerate(strides)]
    return taken, offset + first * strides[axis]


def _place_select(dims: list[Dim], strides: list[Dim], offset: Dim, axis: int, at: Any) -> tuple[list[Dim], Dim]:
    axis = axis_of(axis, len(dims))
    return strides[:axis] + strides[axis + 1 :], offset + _from_front(at, dims[axis]) * strides[axis]


@view(
    "slice.Tensor",
    place=_place_slice,
    write=lambda whole, new, axis=0, start=None, end=None, step=1: whole.at[_part(whole, axis, start, end, step)].set(
        new
    ),
    order=_kept,
)
def slice_(a: Tracer, axis: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Tracer:
    return a[_part(a, axis, start, end, step)]


@view(
    "select.int", write=lambda whole, new, axis, at: whole.at[_index(whole.ndim, axis, at)].set(new),
    order=lambda record, axis, at: _without(record, [axis_of(axis, _rank(record))]), place=_place_select,
)  # fmt: skip
def select(a: Tracer, axis: int, at: Any) -> Tracer:
    return a[_index(a.ndim, axis, at)]


@view("expand.default")
def expand(a: Tracer, sizes: Sequence[Any], implicit: bool = False) -> Tracer:
    new = len(sizes) - a.ndim
    whole = [a.shape[i - new] if _is_left_open(size) else size for i, size in enumerate(sizes)]
    return dnp.broadcast_to(a, tuple(whole))


def _pieces(rank: int, axis: int, sizes: Sequence[Sequence[Any]], number: int) -> tuple[Any, ...]:
    at = axis_of(axis, rank)
    start: Any = 0
    for shape in sizes[:number]:
        start = start + shape[at]
    return _index(rank, axis, slice(start, start + sizes[number][at]))


def _split(a: Tracer, lengths: Any, *rest: Any) -> tuple[Any, ...]:
    given: tuple[Any, ...] = (0, *rest)
    axis, sizes, number = given[-3:]
    return _pieces(a.ndim, axis, sizes, number)


@view(
    "split.Tensor", "split_with_sizes.default", order=_kept,
    write=lambda whole, new, *rest: whole.at[_split(whole, *rest)].set(new),
)  # fmt: skip
def split(a: Tracer, *rest: Any) -> Tracer:
    return a[_split(a, *rest)]


def _unbound(a: Tracer, *rest: Any) -> tuple[Any, ...]:
    given: tuple[Any, ...] = (0, *rest)
    axis, _, number = given[-3:]
    return _index(a.ndim, axis, number)


@view(
    "unbind.int", write=lambda whole, new, *rest: whole.at[_unbound(whole, *rest)].set(new),
    order=lambda record, *rest: _without(record, [axis_of((0, *rest)[-3], _rank(record))]),
)  # fmt: skip
def unbind(a: Tracer, *rest: Any) -> Tracer:
    return a[_unbound(a, *rest)]


def _on_diagonal(whole: Tracer, new: Tracer, offset: Any = 0, dim1: int = 0, dim2: int = 1) -> Tracer:
    """``whole`` with other elements on a diagonal, which is the last axis of ``new``."""
    first, second = axis_of(dim1, whole.ndim), axis_of(dim2, whole.ndim)
    index: list[Any] = [slice(None)] * whole.ndim
    place = dnp.arange(new.shape[-1])
    index[first], index[second] = (place, place + offset) if offset >= 0 else (place - offset, place)
    # Where the two axes stand apart, the indexed one comes first; where they stand together, in their place.
    return whole.at[tuple(index)].set(dnp.moveaxis(new, -1, 0 if abs(first - second) > 1 else min(first, second)))


@view("diagonal.default", write=_on_diagonal)
def diagonal(a: Tracer, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tracer:
    return dnp.diagonal(a, offset, axis_of(dim1, a.ndim), axis_of(dim2, a.ndim))


# ---- put together ----------------------------------------------------------------------------------------------------


def _common_channels_last(args: Sequence[Any], kwargs: dict[str, Any]) -> Order | None:
    """Channels last, where all tensors that are put together lie so; rows otherwise."""
    order = shared_order(args[0])
    return order if order in CHANNELS_LAST.values() else None


@converts("cat.default", order=_common_channels_last)
def cat(tensors: Sequence[Tracer], axis: int = 0) -> Tracer:
    rank = max(tensor.ndim for tensor in tensors)
    kept = [tensor for tensor in tensors if tensor.ndim == rank]
    for number, tensor in enumerate(tensors):
        if tensor.ndim != rank:
            _require_empty(tensor, number, rank)
    dtype = _promoted(tensors)
    return dnp.concatenate([tensor.astype(dtype) for tensor in kept], axis=axis_of(axis, rank))


def _promoted(tensors: Sequence[Tracer]) -> Any:
    """The dtype of tensors that are put together, as PyTorch promotes theirs: with floats integers are these."""
    known = [torch_dtype(tensor.element_type) for tensor in tensors]
    return numpy_dtype(functools.reduce(torch.promote_types, [dtype for dtype in known if dtype is not None]))


def _require_empty(tensor: Tracer, number: int, rank: int) -> None:
    """Demand that a tensor that is left out of others of ``rank`` is ``torch.empty(0)``, which PyTorch leaves out."""
    (size,) = tensor.dims if tensor.ndim == 1 else (1,)
    trace, text = current_trace(), f"tensor {number} of torch.cat has rank {tensor.ndim}, others have rank {rank}"
    if trace is None or (isinstance(size, int) and size != 0):
        raise ShapeError(f"{text}, and it is not empty.", loc=user_loc(), remedy="reshape it to the others' rank.")
    if not isinstance(size, int):
        trace.demand(RelKind.EQ, size, 0, f"{text}, and it has to be empty")


@converts("stack.default")
def stack(tensors: Sequence[Tracer], axis: int = 0) -> Tracer:
    dtype = _promoted(tensors)
    return dnp.stack([tensor.astype(dtype) for tensor in tensors], axis=axis)


@converts("flip.default", order=kept_order)
def flip(a: Tracer, axes: Sequence[int]) -> Tracer:
    return dnp.flip(a, axis=tuple(axes)) if axes and a.ndim else a


@converts("roll.default", order=lambda args, kwargs: format_order(args, kwargs) if args[2:] and args[2] else None)
def roll(a: Tracer, shifts: Sequence[Any], axes: Sequence[int] = ()) -> Tracer:
    return dnp.roll(a, tuple(shifts) if axes else shifts[0], axis=tuple(axes) if axes else None)


@converts("repeat.default")
def repeat(a: Tracer, times: Sequence[Any]) -> Tracer:
    return dnp.tile(a, tuple(times))


def _of_padded(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The order of axes of a padded tensor: a clone's where nothing is added, else by the memory format."""
    is_clone = all(isinstance(width, int) and width == 0 for width in args[1])
    return kept_order(args, kwargs) if is_clone else format_order(args, kwargs)


@converts("constant_pad_nd.default", order=_of_padded)
def constant_pad(a: Tracer, widths: Sequence[Any], value: Any = 0) -> Tracer:
    pairs = [(0, 0)] * (a.ndim - len(widths) // 2)
    pairs += [(widths[i], widths[i + 1]) for i in range(len(widths) - 2, -1, -2)]
    import_whole("dyn.lax")
    from dyn import lax

    return lax.pad(a, dnp.asarray(value, dtype=a.dtype), [(low, high, 0) for low, high in pairs])


@view("prims::split_dim.default", write=_reshaped_back, in_rows=True)
def split_dim(a: Tracer, axis: int, outer: Any) -> Tracer:
    """An axis as two, of which the outer one has a size."""
    size = a.shape[axis]
    return dnp.reshape(a, (*a.shape[:axis], outer, size // outer, *a.shape[axis + 1 :]))


@converts("prims::collapse.default")
def collapse(a: Tracer, first: int, last: int) -> Tracer:
    """Several axes, from one to another, as one."""
    return dnp.reshape(a, (*a.shape[:first], math.prod(a.shape[first : last + 1]), *a.shape[last + 1 :]))


@converts("prims::broadcast_in_dim.default")
def broadcast_in_dim(a: Tracer, shape: Sequence[Any], axes: Sequence[int]) -> Tracer:
    kept = [a.shape[axes.index(axis)] if axis in axes else 1 for axis in range(len(shape))]
    return dnp.broadcast_to(dnp.reshape(a, tuple(kept)), tuple(shape))
