"""Views: tensors of the same elements under other sizes; and the operations that put tensors together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dyn.numpy as dnp
from dyn.interop.torch.aten.tables import converts, view
from dyn.interop.torch.tensors import Order, Record
from dyn.shapes import RelKind, product
from dyn.trace.context import current_trace
from dyn.trace.dims import unwrap_dim
from dyn.trace.tracer import Tracer

#: PyTorch's word for "to the end" in a slice.
_END = 2**63 - 1


def _axis(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


def _reshaped_back(whole: Tracer, new: Tracer, *rest: Any, **named: Any) -> Tracer:
    return dnp.reshape(new, whole.shape)


# ---- the same elements in the same order -----------------------------------------------------------------------------


@view("view.default", "_unsafe_view.default", "_reshape_alias.default", write=_reshaped_back, in_rows=True)
def reshape(a: Tracer, sizes: Sequence[Any], strides: Any = None) -> Tracer:
    given = [size for size in sizes if not (isinstance(size, int) and size == -1)]
    if len(given) < len(sizes):
        _require_elements(given)
    return dnp.reshape(a, tuple(sizes))


def _require_elements(sizes: Sequence[Any]) -> None:
    """Demand that sizes beside a -1 are not 0, where any number would do for it. PyTorch refuses that."""
    trace = current_trace()
    count = product([dim for dim in map(unwrap_dim, sizes) if dim is not None])
    if trace is not None and not isinstance(count, int):
        trace.demand(RelKind.NONZERO, count, 0, "the sizes beside -1 in a view leave it open where one is 0")


def _kept(record: Record, *rest: Any, **named: Any) -> Order | None:
    return record.order


@view("alias.default", "detach.default", "lift_fresh.default", write=lambda whole, new: new, order=_kept)
def alias(a: Tracer) -> Tracer:
    return a


@view("unsqueeze.default", write=_reshaped_back, in_rows=True)
def unsqueeze(a: Tracer, axis: int) -> Tracer:
    return dnp.expand_dims(a, _axis(axis, a.ndim + 1))


@view("squeeze.default", "squeeze.dim", "squeeze.dims", write=_reshaped_back, in_rows=True)
def squeeze(a: Tracer, axes: Any = None) -> Tracer:
    if a.ndim == 0:
        return a
    if axes is None:
        chosen = range(a.ndim)
    else:
        chosen = [_axis(axis, a.ndim) for axis in ([axes] if isinstance(axes, int) else axes)]
    ones = tuple([axis for axis in chosen if isinstance(a.dims[axis], int) and a.dims[axis] == 1])
    return dnp.squeeze(a, axis=ones) if ones else a


# ---- other orders of axes --------------------------------------------------------------------------------------------


def _inverse(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(axes)), key=lambda i: axes[i]))


def _permuted_order(record: Record, axes: Sequence[int]) -> Order | None:
    rank = len(axes)
    before = record.order or tuple(range(rank))
    where = _inverse([_axis(axis, rank) for axis in axes])
    order = tuple([where[axis] for axis in before])
    return None if order == tuple(range(rank)) else order


def _swap(rank: int, a: int, b: int) -> list[int]:
    axes = list(range(rank))
    if rank:
        a, b = _axis(a, rank), _axis(b, rank)
        axes[a], axes[b] = b, a
    return axes


@view(
    "permute.default",
    write=lambda whole, new, axes: dnp.transpose(new, _inverse([_axis(axis, new.ndim) for axis in axes])),
    order=_permuted_order,
)
def permute(a: Tracer, axes: Sequence[int]) -> Tracer:
    return dnp.transpose(a, [_axis(axis, a.ndim) for axis in axes]) if a.ndim else a


@view(
    "transpose.int",
    write=lambda whole, new, i, j: dnp.transpose(new, _swap(new.ndim, i, j)) if new.ndim else new,
    order=lambda record, i, j: _permuted_order(record, _swap(_rank(record), i, j)),
)
def transpose(a: Tracer, i: int, j: int) -> Tracer:
    return dnp.transpose(a, _swap(a.ndim, i, j)) if a.ndim else a


@view(
    "t.default",
    write=lambda whole, new: dnp.transpose(new),
    order=lambda record: _permuted_order(record, range(_rank(record))[::-1]),
)
def t(a: Tracer) -> Tracer:
    return dnp.transpose(a)


def _rank(record: Record) -> int:
    return record.value.ndim


# ---- parts -----------------------------------------------------------------------------------------------------------


def _index(rank: int, axis: int, at: Any) -> tuple[Any, ...]:
    index: list[Any] = [slice(None)] * rank
    index[_axis(axis, rank)] = at
    return tuple(index)


def _part(a: Tracer, axis: int, start: Any, end: Any, step: Any) -> tuple[Any, ...]:
    if isinstance(start, int) and start == 0:
        start = None
    if isinstance(end, int) and end >= _END:
        end = None
    return _index(a.ndim, axis, slice(start, end, step))


@view(
    "slice.Tensor",
    write=lambda whole, new, axis=0, start=None, end=None, step=1: whole.at[_part(whole, axis, start, end, step)].set(
        new
    ),
)
def slice_(a: Tracer, axis: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Tracer:
    return a[_part(a, axis, start, end, step)]


@view("select.int", write=lambda whole, new, axis, at: whole.at[_index(whole.ndim, axis, at)].set(new))
def select(a: Tracer, axis: int, at: Any) -> Tracer:
    return a[_index(a.ndim, axis, at)]


@view("expand.default")
def expand(a: Tracer, sizes: Sequence[Any], implicit: bool = False) -> Tracer:
    new = len(sizes) - a.ndim
    whole = [a.shape[i - new] if isinstance(size, int) and size == -1 else size for i, size in enumerate(sizes)]
    return dnp.broadcast_to(a, tuple(whole))


def _pieces(rank: int, axis: int, sizes: Sequence[Sequence[Any]], number: int) -> tuple[Any, ...]:
    at = _axis(axis, rank)
    start: Any = 0
    for shape in sizes[:number]:
        start = start + shape[at]
    return _index(rank, axis, slice(start, start + sizes[number][at]))


def _split(a: Tracer, lengths: Any, *rest: Any) -> tuple[Any, ...]:
    given: tuple[Any, ...] = (0, *rest)
    axis, sizes, number = given[-3:]
    return _pieces(a.ndim, axis, sizes, number)


@view(
    "split.Tensor", "split_with_sizes.default", write=lambda whole, new, *rest: whole.at[_split(whole, *rest)].set(new)
)
def split(a: Tracer, *rest: Any) -> Tracer:
    return a[_split(a, *rest)]


def _unbound(a: Tracer, *rest: Any) -> tuple[Any, ...]:
    given: tuple[Any, ...] = (0, *rest)
    axis, _, number = given[-3:]
    return _index(a.ndim, axis, number)


@view("unbind.int", write=lambda whole, new, *rest: whole.at[_unbound(whole, *rest)].set(new))
def unbind(a: Tracer, *rest: Any) -> Tracer:
    return a[_unbound(a, *rest)]


@view("diagonal.default")
def diagonal(a: Tracer, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tracer:
    return dnp.diagonal(a, offset, _axis(dim1, a.ndim), _axis(dim2, a.ndim))


# ---- put together ----------------------------------------------------------------------------------------------------


@converts("cat.default")
def cat(tensors: Sequence[Tracer], axis: int = 0) -> Tracer:
    # PyTorch leaves out what is empty and of rank 1.
    rank = max(tensor.ndim for tensor in tensors)
    kept = [tensor for tensor in tensors if tensor.ndim == rank]
    return dnp.concatenate(kept, axis=_axis(axis, rank))


@converts("stack.default")
def stack(tensors: Sequence[Tracer], axis: int = 0) -> Tracer:
    return dnp.stack(tensors, axis=axis)


@converts("flip.default")
def flip(a: Tracer, axes: Sequence[int]) -> Tracer:
    return dnp.flip(a, axis=tuple(axes)) if axes and a.ndim else a


@converts("roll.default")
def roll(a: Tracer, shifts: Sequence[Any], axes: Sequence[int] = ()) -> Tracer:
    return dnp.roll(a, tuple(shifts) if axes else shifts[0], axis=tuple(axes) if axes else None)


@converts("repeat.default")
def repeat(a: Tracer, times: Sequence[Any]) -> Tracer:
    return dnp.tile(a, tuple(times))


@converts("constant_pad_nd.default")
def constant_pad(a: Tracer, widths: Sequence[Any], value: Any = 0) -> Tracer:
    pairs = [(0, 0)] * (a.ndim - len(widths) // 2)
    pairs += [(widths[i], widths[i + 1]) for i in range(len(widths) - 2, -1, -2)]
    from dyn import lax

    return lax.pad(a, dnp.asarray(value, dtype=a.dtype), [(low, high, 0) for low, high in pairs])


@converts("prims::broadcast_in_dim.default")
def broadcast_in_dim(a: Tracer, shape: Sequence[Any], axes: Sequence[int]) -> Tracer:
    kept = [a.shape[axes.index(axis)] if axis in axes else 1 for axis in range(len(shape))]
    return dnp.broadcast_to(dnp.reshape(a, tuple(kept)), tuple(shape))
