"""Sums, means and maxima of bags of a table's rows, and of segments of an array."""

from __future__ import annotations

import math
from typing import Any

import torch

import dyn.numpy as dnp
from dyn import lax
from dyn.errors import NotYetError
from dyn.frozen import record
from dyn.interop.index_ranges import require_in_range
from dyn.interop.torch.aten.scatters import least
from dyn.interop.torch.aten.tables import converts, takes_call
from dyn.interop.torch.tracing import TorchTracing
from dyn.source import user_loc
from dyn.trace.tracer import Tracer
from dyn.transforms import vjp

_SUM, _MEAN, _MAX = 0, 1, 2
#: The dtypes that PyTorch has a kernel for that needs no numbers of bags.
_QUICK = (torch.float32, torch.float16, torch.bfloat16)


@takes_call("_embedding_bag.default")
def embedding_bag(tracing: TorchTracing, weight: Any, at: Any, offsets: Any, *rest: Any, **named: Any) -> Any:
    return _Bags.of(tracing, weight, at, offsets, *rest, **named).results(is_for_gradient=True)


@takes_call("_embedding_bag_forward_only.default")
def embedding_bag_forward_only(
    tracing: TorchTracing, weight: Any, at: Any, offsets: Any, *rest: Any, **named: Any
) -> Any:
    return _Bags.of(tracing, weight, at, offsets, *rest, **named).results(is_for_gradient=False)


@record()
class _Bags:
    """Bags of a table's rows: ``at`` has the rows, ``offsets`` the first of each bag.

    ``is_quick`` says that PyTorch sums them by a kernel that needs no numbers of bags, and gives none.
    """

    weight: Tracer
    at: Tracer
    offsets: Tracer
    mode: int
    factors: Tracer | None
    includes_last: bool
    padding: int
    is_quick: bool

    @staticmethod
    def of(
        tracing: TorchTracing, weight: Any, at: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = _SUM,
        sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False,
        padding_idx: int = -1,
    ) -> _Bags:  # fmt: skip
        """The bags of a call. How its gradient is scaled, and whether it is sparse, is the gradient's own business."""
        is_quick = mode == _SUM and padding_idx < 0 and weight.dtype in _QUICK and weight.stride(1) == 1
        if per_sample_weights is not None:
            is_quick = is_quick and per_sample_weights.stride(0) == 1
        table, rows, starts, factors = tracing.value([weight, at, offsets, per_sample_weights])
        return _Bags(table, rows, starts, mode, factors, include_last_offset, padding_idx, is_quick)

    def results(self, is_for_gradient: bool) -> tuple[Tracer, Tracer, Tracer, Tracer]:
        """The sum, mean or maximum of the rows of each bag; the bag of each row, the sizes of bags, and rows of maxima,
        each of the shape that PyTorch's has: what its gradient does not need is empty, or anything."""
        weight, at, offsets = self.weight, self.at, self.offsets
        count = offsets.shape[0] - 1 if self.includes_last else offsets.shape[0]
        starts = offsets if self.includes_last else _with_end(offsets, at.shape[0])
        bag = _bag_of_each(at, offsets[:count])
        require_in_range(at, weight.shape[0], "embedding_bag(): index {} is out of range for a table of {} rows")
        taken = _is_taken(at, weight.shape[0], self.padding)
        if self.padding == -1:  # there is no padding
            sizes: Any = (starts[1:] - starts[:-1]).astype(at.dtype)
        else:
            sizes = _sum_of_segments(dnp.where(taken, dnp.ones_like(at), dnp.zeros_like(at)), starts)
        if self.mode == _MAX:
            made, rows = self._greatest(bag, taken, sizes, count)
            return made, bag, sizes, rows
        factors = dnp.ones((at.shape[0],), dtype=weight.dtype) if self.factors is None else self.factors
        made = lax.csr_matmul(factors, dnp.where(taken, at, -dnp.ones_like(at)), starts, weight)
        if self.mode == _MEAN:
            made = made / dnp.maximum(sizes, 1).astype(made.dtype)[:, None]
        else:
            sizes = dnp.zeros(sizes.shape if is_for_gradient else offsets.shape, dtype=at.dtype)
        none = dnp.zeros(sizes.shape, dtype=at.dtype)
        return made, dnp.zeros((0,), dtype=at.dtype) if self.is_quick else bag, sizes, none

    def _greatest(self, bag: Tracer, taken: Tracer, sizes: Any, count: Any) -> tuple[Tracer, Tracer]:
        """The maxima of bags, and the row that each is of."""
        at, shape = self.at, (count + 1, self.weight.shape[1])
        rows = dnp.take(self.weight, at, axis=0)
        places = dnp.where(taken, bag, count)  # what is padding goes to a bag of its own, at the end
        greatest = dnp.full(shape, least(rows.dtype), dtype=rows.dtype).at[places].max(rows)
        number = dnp.where(rows == dnp.take(greatest, places, axis=0), dnp.arange(at.shape[0])[:, None], at.shape[0])
        first = dnp.broadcast_to(dnp.asarray(at.shape[0]), shape).at[places].min(number)[:count]
        known = dnp.concatenate([at, dnp.zeros((1,), dtype=at.dtype)])
        empty, none = (sizes == 0)[:, None], dnp.zeros((count, self.weight.shape[1]), dtype=at.dtype)
        made = dnp.where(empty, dnp.zeros_like(greatest[:count]), greatest[:count])
        return made, dnp.where(empty, none, dnp.take(known, first))


def _bag_of_each(at: Tracer, offsets: Tracer) -> Any:
    """The number of the bag that each row is in."""
    return (dnp.searchsorted(offsets, dnp.arange(at.shape[0]), side="right") - 1).astype(at.dtype)


def _with_end(offsets: Tracer, end: Any) -> Tracer:
    """Offsets of segments, with the end of the last one."""
    return dnp.concatenate([offsets, dnp.full((1,), end, dtype=offsets.dtype)])


def _with_begin(ends: Tracer) -> Tracer:
    """Offsets of segments, and the end of the last one, from the ends of all."""
    return dnp.concatenate([dnp.zeros((1,), dtype=ends.dtype), ends])


def _sum_of_segments(data: Tracer, starts: Tracer) -> Any:
    """Sums over the first axis from each start to the next."""
    places = dnp.arange(data.shape[0], dtype="int64")
    return lax.csr_matmul(dnp.ones((data.shape[0],), dtype=data.dtype), places, starts, data)


def _is_taken(at: Any, count: Any, padding_idx: int) -> Tracer:
    """Whether each of some indices into ``count`` rows is not the one of padding, which is -1 where there is none."""
    return at != (padding_idx + count if padding_idx < -1 else padding_idx)


def _is_left_out(bag: Tracer) -> bool:
    """Whether the numbers of bags were not needed before."""
    return isinstance(bag.shape[0], int) and bag.shape[0] == 0


@converts("_embedding_bag_backward.default")
def embedding_bag_backward(
    cotangent: Tracer, at: Tracer, offsets: Tracer, bag: Tracer, sizes: Any, rows_of_maxima: Tracer,
    num_weights: Any, scale_grad_by_freq: bool, mode: int, sparse: bool, per_sample_weights: Tracer | None,
    padding_idx: int = -1,
) -> Tracer:  # fmt: skip
    """The cotangent of the table, for that of the bags."""
    if sparse:
        raise NotYetError("a sparse gradient.", loc=user_loc(), remedy="make the embedding with sparse=False.")
    made = dnp.zeros((num_weights, cotangent.shape[1]), dtype=cotangent.dtype)
    if mode == _MAX:
        given = dnp.where((sizes > 0)[:, None], cotangent, dnp.zeros_like(cotangent))
        return made.at[rows_of_maxima, dnp.arange(cotangent.shape[1])].add(given)
    bag = _bag_of_each(at, offsets) if _is_left_out(bag) else bag
    given = dnp.take(cotangent, bag, axis=0)
    if mode == _MEAN:
        given = given / dnp.maximum(dnp.take(sizes, bag), 1).astype(given.dtype)[:, None]
    if per_sample_weights is not None:
        given = given * per_sample_weights[:, None]
    if scale_grad_by_freq:
        times = dnp.zeros((num_weights,), dtype="int64").at[at].add(dnp.ones_like(at).astype("int64"))
        given = given / dnp.take(times, at).astype(given.dtype)[:, None]
    taken = _is_taken(at, num_weights, padding_idx)
    return made.at[at].add(dnp.where(taken[:, None], given, dnp.zeros_like(given)))


@converts("_embedding_bag_per_sample_weights_backward.default")
def embedding_bag_per_sample_weights_backward(
    cotangent: Tracer, weight: Tracer, at: Tracer, offsets: Tracer, bag: Tracer, mode: int, padding_idx: int = -1
) -> Tracer:
    """The cotangents of the weights of rows in their bags."""
    if mode != _SUM:
        raise NotYetError("weights of rows of which there is no sum.", loc=user_loc(), remedy='pass mode="sum".')
    bag = _bag_of_each(at, offsets) if _is_left_out(bag) else bag
    made = dnp.sum(dnp.take(cotangent, bag, axis=0) * dnp.take(weight, at, axis=0), axis=1)
    return dnp.where(_is_taken(at, weight.shape[0], padding_idx), made, dnp.zeros_like(made))


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
    if indices is not None:
        raise NotYetError("segments by indices.", loc=user_loc(), remedy="pass lengths= or offsets=.")
    if offsets is None:
        assert lengths is not None, "PyTorch demands lengths or offsets"
        ends = dnp.cumsum(lengths, axis=-1)
        starts = ends - lengths
    else:
        starts, ends = offsets[..., :-1], offsets[..., 1:]
    number = dnp.reshape((ends - starts).astype(data.dtype), (*starts.shape, *[1] * (data.ndim - axis - 1)))
    if reduce in ("sum", "mean") and axis == 0:
        made = _sum_of_segments(data, _with_begin(ends) if offsets is None else offsets)
        made = made if initial is None else made + dnp.asarray(initial, dtype=data.dtype)
        return made if reduce == "sum" else _mean(made, number, initial)
    place = dnp.arange(data.shape[axis])
    inside = (place >= starts[..., None]) & (place < ends[..., None])
    inside = dnp.reshape(inside, (*inside.shape, *[1] * (data.ndim - axis - 1)))
    start = {"sum": 0, "mean": 0, "prod": 1, "max": -math.inf, "min": math.inf}[reduce] if initial is None else initial
    method = {"sum": dnp.sum, "mean": dnp.sum, "prod": dnp.prod, "max": dnp.max, "min": dnp.min}[reduce]
    identity = {"sum": 0, "mean": 0, "prod": 1, "max": -math.inf, "min": math.inf}[reduce]
    values = dnp.where(inside, dnp.expand_dims(data, axis), dnp.asarray(identity, dtype=data.dtype))
    made = method(values, axis=axis + 1, initial=dnp.asarray(start, dtype=data.dtype))
    return made if reduce != "mean" else _mean(made, number, initial)


def _mean(total: Any, number: Any, initial: Any) -> Tracer:
    """Of nothing the mean is NaN, unless it has something to begin with."""
    nothing = dnp.asarray(math.nan, dtype=total.dtype) if initial is None else total
    return dnp.where(number == 0, nothing, total / number)


@converts("_segment_reduce_backward.default")
def segment_reduce_backward(
    cotangent: Tracer, made: Tracer, data: Tracer, reduce: str, *, lengths: Tracer | None = None,
    offsets: Tracer | None = None, axis: int = 0, initial: Any = None,
) -> Tracer:  # fmt: skip
    def forward(data: Tracer) -> Tracer:
        return segment_reduce(data, reduce, lengths, None, offsets, axis, False, initial)

    return vjp(forward, data)[1](cotangent)[0]
