"""Operations whose sizes depend on values, and the numbers that tensors have."""

from __future__ import annotations

from typing import Any

import torch

import dyn.numpy as dnp
from dyn.errors import UnsupportedOpError
from dyn.interop.torch.aten.tables import converts, in_place
from dyn.interop.torch.composites import composite
from dyn.interop.torch.data_dependent_numbers import number_of
from dyn.interop.torch.sizes import require_true
from dyn.interop.torch.tensors import record_of
from dyn.interop.torch.tracing import TorchTracing
from dyn.shapes import RelKind
from dyn.source import user_loc
from dyn.trace.context import Trace, current_trace
from dyn.trace.dims import unwrap_dim
from dyn.trace.tracer import Tracer


def _trace() -> Trace:
    trace = current_trace()
    assert trace is not None, "converters run in a trace"
    return trace


def _none() -> Any:
    return dnp.zeros((0,), dtype="int64")


# ---- places and elements ---------------------------------------------------------------------------------------------


@converts("nonzero.default", order=lambda args, kwargs: (1, 0))
def nonzero(a: Tracer) -> Tracer:
    return dnp.argwhere(a)


@converts("nonzero_static.default")
def nonzero_static(a: Tracer, size: Any, fill_value: int = -1) -> Tracer:
    return dnp.argwhere(a, size=size, fill_value=fill_value)


@converts("masked_select.default")
def masked_select(a: Tracer, mask: Tracer) -> Tracer:
    a, mask = dnp.broadcast_arrays(a, mask)
    return a[mask] if a.ndim else dnp.reshape(a, (1,))[dnp.reshape(mask, (1,))]


@converts("repeat_interleave.Tensor")
def repeat_interleave(times: Tracer, output_size: Any = None) -> Tracer:
    made = dnp.repeat(dnp.arange(times.shape[0], dtype=times.dtype), times)
    if output_size is not None:
        wanted: Any = unwrap_dim(output_size)
        _trace().demand(RelKind.EQ, made.dims[0], wanted, "output_size= is the sum of the repeats")
    return made


@converts("bincount.default")
def bincount(a: Tracer, weights: Tracer | None = None, minlength: Any = 0) -> Tracer:
    require_true(
        _trace(), dnp.all(dnp.greater_equal(a, 0)), "bincount counts integers that are not negative", "pass others."
    )
    if weights is not None and weights.dtype.name != "float32":
        weights = weights.astype("float64")
    return dnp.bincount(a, weights, minlength)


# ---- distinct elements -----------------------------------------------------------------------------------------------


@converts("_unique2.default")
def unique(a: Tracer, sorted: bool = True, inverse: bool = False, counts: bool = False) -> tuple[Any, ...]:
    made, places, numbers = dnp.unique(a, return_inverse=True, return_counts=True, equal_nan=False)
    return made, places if inverse or counts else _none(), numbers if counts else _none()


def _apart(axis: Any, tensor: Any) -> Any:
    """The orders in memory of rows that were put together in front, and of the vectors beside them."""
    rank = tensor.ndim
    order = None if axis is None else (axis % rank, *[other for other in range(rank) if other != axis % rank])
    return [None if order == tuple(range(rank)) else order, None, None]


@converts("unique_dim.default", order=lambda args, kwargs: _apart(args[1], args[0]))
def unique_dim(
    a: Tracer, axis: int, sorted: bool = True, inverse: bool = False, counts: bool = False
) -> tuple[Any, ...]:
    return dnp.unique(a, return_inverse=True, return_counts=True, equal_nan=False, axis=axis)


@converts("unique_consecutive.default", order=lambda args, kwargs: _apart(args[3] if len(args) > 3 else None, args[0]))
def unique_consecutive(
    a: Tracer, inverse: bool = False, counts: bool = False, axis: int | None = None
) -> tuple[Any, ...]:
    rows = dnp.reshape(a, (-1,)) if axis is None else dnp.moveaxis(a, axis, 0)
    numbers = dnp.arange(rows.shape[0])
    differs = rows != dnp.take(rows, dnp.maximum(numbers - 1, 0), axis=0)
    starts = dnp.any(differs, axis=tuple(range(1, rows.ndim))) | (numbers == 0)
    (places,) = dnp.nonzero(starts)
    made = dnp.take(rows, places, axis=0)
    run = dnp.cumsum(starts.astype("int64")) - 1
    lengths = dnp.concatenate([places[1:], dnp.asarray(rows.shape[0], dtype="int64")[None]])[: places.shape[0]] - places
    return (
        made if axis is None else dnp.moveaxis(made, 0, axis),
        (dnp.reshape(run, a.shape) if axis is None else run) if inverse else _none(),
        lengths if counts else _none(),
    )


@composite("one_hot.default")
def one_hot(a: Any, classes: Any = -1) -> Any:
    """Rows of zeros with a 1 where ``a`` says; as many columns as the greatest of its numbers asks for without one."""
    if isinstance(classes, int) and classes == -1:
        classes = a.max().item() + 1
    torch.ops.aten._assert_async.msg(((a >= 0) & (a < classes)).all(), "one_hot takes numbers of classes, from 0 on")
    return (a[..., None] == torch.arange(classes)).to(torch.int64).contiguous()


# ---- numbers ---------------------------------------------------------------------------------------------------------


@in_place("_local_scalar_dense.default", "prims::item.default")
def item(tracing: TorchTracing, tensor: Any) -> Any:
    return number_of(tracing.env, record_of(tensor).value)


@composite("narrow.Tensor")
def narrow(a: Any, dim: int, start: Any, length: Any) -> Any:
    """``length`` elements of an axis from the place that a tensor says, which may count from the end."""
    size = a.shape[dim]
    place = torch.where(start < 0, start + size, start).item()
    torch._check(place >= 0, lambda: "start of narrow() is a place on the axis")
    torch._check(place + length <= size, lambda: "narrow() ends on the axis")
    return a.narrow(dim, place, length)


@composite("take_along_dim.default")
def take_along_dim(a: Any, at: Any, dim: int | None = None) -> Any:
    """The elements of an axis at places that are broadcast against the other axes; of all elements without an axis.

    Places on an axis go round it, in both directions, as in PyTorch.
    """
    if dim is None:
        return a.reshape(-1).gather(0, at.reshape(-1))
    if a.ndim != at.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {a.ndim} dimensions for input, and {at.ndim} dimensions for indices"
        )
    axis = dim + a.ndim if dim < 0 else dim
    if not 0 <= axis < a.ndim:
        raise IndexError(f"take_along_dim(): tensors of {a.ndim} axes have no axis {dim}")
    shape = list(torch.broadcast_shapes(*[[*one.shape[:axis], *one.shape[axis + 1 :]] for one in (a, at)]))
    wide = [one.expand([*shape[:axis], one.shape[axis], *shape[axis:]]) for one in (a, at)]
    return wide[0].gather(axis, wide[1].remainder(a.shape[axis]))


@composite("tensor_split.tensor_indices_or_sections")
def tensor_split(a: Any, at: Any, dim: int = 0) -> Any:
    """The parts of an axis that end at the places that a tensor says."""
    if at.ndim == 0:
        raise UnsupportedOpError(
            "tensor_split() into as many parts as a tensor says.", loc=user_loc(), remedy="pass the number of parts."
        )
    return a.tensor_split([at[i].item() for i in range(at.shape[0])], dim)


@composite("tensor_split.sections")
def tensor_split_evenly(a: Any, sections: int, dim: int = 0) -> Any:
    """The parts of an axis that is cut into ``sections``: the first are one longer where these do not divide it."""
    if sections <= 0:
        raise RuntimeError(f"number of sections must be larger than 0, got {sections}")
    count = a.shape[dim]
    sizes = [(count + sections - 1 - number) // sections for number in range(sections)]
    starts = [sum(sizes[:number], 0) for number in range(1, sections)]
    return a.tensor_split(starts, dim)


@in_place("equal.default")
def equal(tracing: TorchTracing, tensor: Any, other: Any) -> Any:
    a, b = record_of(tensor).value, record_of(other).value
    if tuple(tensor.shape) != tuple(other.shape):
        return False
    return number_of(tracing.env, dnp.all(a == b))


@in_place("_assert_async.default", "_assert_async.msg")
def assert_async(tracing: TorchTracing, tensor: Any, text: str = "torch._assert_async") -> None:
    require_true(tracing.trace, dnp.reshape(record_of(tensor).value, ()) != 0, text)


@in_place("_assert_scalar.default")
def assert_scalar(tracing: TorchTracing, condition: Any, text: str = "torch._assert_scalar") -> None:
    torch._check(condition, lambda: text)


@in_place("sym_constrain_range.default", "sym_constrain_range_for_size.default")
def constrain_range(tracing: TorchTracing, size: Any, *, min: int | None = None, max: int | None = None) -> None:
    if min is not None:
        torch._check(size >= min)
    if max is not None:
        torch._check(size <= max)
