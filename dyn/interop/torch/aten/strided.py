"""Tensors by strides: elements of a memory that another tensor lies in, by their places there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

import dyn.numpy as dnp
from dyn.errors import NotYetError
from dyn.interop.sizes import conditions
from dyn.interop.torch.aten.tables import in_place, takes_call
from dyn.interop.torch.layouts import order_of
from dyn.interop.torch.sizes import as_dim
from dyn.interop.torch.tensors import TensorRecord, ViewCall, ViewStep, inverse, record_of
from dyn.interop.torch.tracing import TorchTracing
from dyn.shapes import dim_max, dim_min, product
from dyn.source import user_loc
from dyn.trace.tracer import Tracer


def _places(sizes: Sequence[Any], strides: Sequence[Any], offset: Any) -> Tracer:
    """The places of elements in a memory."""
    rank = len(sizes)
    steps = [
        dnp.reshape(dnp.arange(size) * stride, (-1, *[1] * (rank - axis - 1)))
        for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True))
    ]
    return dnp.asarray(sum(steps, start=dnp.full(tuple(sizes), offset, dtype="int64")))


def _again(tensor: torch.Tensor, sizes: Any, strides: Any, offset: int) -> torch.Tensor:
    """The view of a tensor that is there: places are counted from its own first element."""
    return tensor.as_strided(sizes, strides, tensor.storage_offset() + offset)


#: What is asked of places is asked by the operation that the user calls.
ASKS_FOR_OTHERS = True


def _whole(tensor: Any) -> TensorRecord:
    """The record of the tensor whose memory it is."""
    record = record_of(tensor).root
    if not record.is_dense:
        raise NotYetError("as_strided of a tensor that lies in memory with gaps.", loc=user_loc(),
                          remedy="take a contiguous() one.")  # fmt: skip
    return record


def _require_inside(tracing: TorchTracing, whole: TensorRecord, size: Any, stride: Any, offset: Any) -> None:
    """Raise NotYetError where places are outside of the tensor: its memory may go on there, and the program ends."""
    sizes, strides, start = [as_dim(n) for n in size], [as_dim(n) for n in stride], as_dim(offset)
    last = sum([(n - 1) * step for n, step in zip(sizes, strides, strict=True)], start=start)
    has_any = dim_min(dim_max(product(sizes), 0), 1)
    count = product(whole.value.dims)
    inside = conditions.joined(
        True, conditions.ordered(">=", start * has_any, 0), conditions.ordered(">=", count, (last + 1) * has_any)
    )
    if isinstance(inside, bool) or inside.symbols() <= tracing.trace.sizes.keys():
        if not conditions.decide(inside, tracing.trace):
            raise NotYetError("as_strided of elements outside of the tensor.", loc=user_loc(),
                              remedy="call it of the tensor that has them.")  # fmt: skip
    else:
        inside.require(tracing.trace)


@in_place("as_strided.default")  # of what the record says, and not of the value alone
def as_strided(tracing: TorchTracing, a: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    whole = _whole(a)
    offset = a.storage_offset() if storage_offset is None else storage_offset - tracing.start_of(whole)
    _require_inside(tracing, whole, size, stride, offset)
    known = tracing.known_view(whole, size, stride, offset)
    if known is not None:
        return tracing.strided(a, known, size, stride, offset)
    own = whole.order
    sizes, strides, start = tracing.value(list(size)), tracing.value(list(stride)), tracing.value(offset)

    def flat(value: Tracer) -> Tracer:
        return dnp.reshape(value if own is None else dnp.transpose(value, own), (-1,))

    def write(value: Tracer, new: Tracer) -> Tracer:
        made = flat(value).at[_places(sizes, strides, start)].set(new)
        if own is None:
            return dnp.reshape(made, value.shape)
        return dnp.transpose(dnp.reshape(made, tuple([value.shape[axis] for axis in own])), inverse(own))

    step = ViewStep(lambda value: dnp.take(flat(value), _places(sizes, strides, start)), write)
    call = ViewCall(_again, (list(size), list(stride), offset), {})
    order = order_of([as_dim(n) for n in size], [as_dim(n) for n in stride])
    return tracing.strided(a, TensorRecord(whole.storage, whole, step, order, False, call), size, stride, offset)


@takes_call("as_strided_scatter.default", "prims::as_strided_scatter.default")
def as_strided_scatter(
    tracing: TorchTracing, a: Any, source: Any, size: Any, stride: Any, storage_offset: Any = None
) -> Tracer:
    record = record_of(a)
    if record.order is not None or not record.is_dense:
        raise NotYetError("as_strided_scatter of a tensor that does not lie in rows.", loc=user_loc(),
                          remedy="take a contiguous() one.")  # fmt: skip
    places = _places(tracing.value(list(size)), tracing.value(list(stride)), tracing.value(storage_offset or 0))
    flat = dnp.reshape(record.value, (math.prod(record.value.shape),))
    return dnp.reshape(flat.at[places].set(tracing.value(source)), record.value.shape)


@in_place("_has_same_storage_numel.default")
def has_same_storage_numel(tracing: TorchTracing, a: Any, b: Any) -> bool:
    """Whether the memory of two tensors is known to be as large; where it is not, PyTorch makes a tangent anew."""
    sizes = [product(record_of(one).storage.value.dims) for one in (a, b)]
    return conditions.known(conditions.equal(*sizes), tracing.trace) is True
