"""Elements by their order: the greatest ones, medians, the most frequent, running extremes, histograms.

A NaN is greater than any number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ShapeError
from dyn.interop.torch.aten.tables import converts
from dyn.shapes import RelKind
from dyn.source import user_loc
from dyn.trace.dims import max_dim, unwrap_dim
from dyn.trace.tracer import Tracer
from dyn.transforms import vmap


def _sorted(a: Tracer, axis: int, descending: bool = False) -> tuple[Tracer, Tracer]:
    places = dnp.argsort(a, axis=axis, descending=descending, stable=True)
    return dnp.take_along_axis(a, places, axis=axis), places


def _without(axis: int, keepdim: bool, *values: Tracer) -> tuple[Tracer, ...]:
    """Values without an axis of one element, unless it is kept."""
    return values if keepdim else tuple([dnp.squeeze(value, axis=axis) for value in values])


def _scalar(a: Tracer) -> tuple[Tracer, Tracer]:
    """A number and its place."""
    return a, dnp.zeros((), dtype="int64")


def _require_count(a: Tracer, axis: int, count: Any, least: int, text: str) -> None:
    """Demand that an axis has so many elements, and that they are ``least`` or more."""
    trace, dim = a._trace.here, unwrap_dim(count)
    assert dim is not None, "it is a size"
    trace.demand(RelKind.GE, a.dims[axis], dim, text)
    if isinstance(dim, int) and dim < least:
        raise ShapeError(f"{text}: it is {dim}.", loc=user_loc(), remedy=f"use a number from {least} on.")
    trace.demand(RelKind.GE, dim, least, text)


@converts("topk.default")
def topk(a: Tracer, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Tracer, Tracer]:
    if a.ndim == 0:
        return _scalar(a) if k else (dnp.reshape(a, (1,))[:0], dnp.zeros((0,), dtype="int64"))
    _require_count(a, dim, k, 0, "topk(): selected index k is out of range")
    values, places = _sorted(a, dim, descending=largest)
    index: list[Any] = [slice(None)] * a.ndim
    index[dim] = slice(0, k)
    return values[tuple(index)], places[tuple(index)]


@converts("kthvalue.default")
def kthvalue(a: Tracer, k: Any, dim: int = -1, keepdim: bool = False) -> tuple[Tracer, Tracer]:
    if a.ndim == 0:
        return _scalar(a)
    _require_count(a, dim, k, 1, "kthvalue(): selected number k is out of range")
    at = dnp.reshape(dnp.asarray(k) - 1, (1,))
    values, places = (dnp.take(one, at, axis=dim) for one in _sorted(a, dim))
    return _without(dim, keepdim, values, places)  # pyright: ignore[reportReturnType]


def _median(a: Tracer, dim: int, keepdim: bool, ignored: bool) -> tuple[Tracer, Tracer]:
    """The lower median with its place: of NaN where there is one, unless they are ignored."""
    if a.ndim == 0:
        return _scalar(a)
    values, places = _sorted(a, dim)
    size = a.shape[dim]
    at = dnp.full((), (size - 1) // 2, dtype="int64")
    if a.element_type.is_float:
        numbers = dnp.sum(~dnp.isnan(a), axis=dim, keepdims=True)
        if ignored:
            at = dnp.maximum((numbers - 1) // 2, 0)
        else:
            at = dnp.where(numbers < size, numbers, at)
    at = dnp.broadcast_to(at, tuple([1 if axis == dim % a.ndim else n for axis, n in enumerate(a.shape)]))
    found = (dnp.take_along_axis(one, at, axis=dim) for one in (values, places))
    return _without(dim, keepdim, *found)  # pyright: ignore[reportReturnType]


@converts("median.dim")
def median_dim(a: Tracer, dim: int, keepdim: bool = False) -> tuple[Tracer, Tracer]:
    return _median(a, dim, keepdim, False)


@converts("nanmedian.dim")
def nanmedian_dim(a: Tracer, dim: int, keepdim: bool = False) -> tuple[Tracer, Tracer]:
    return _median(a, dim, keepdim, True)


def _one_at_least(a: Tracer) -> Tracer:
    """The elements in a row; where there are none, what PyTorch has for the median of these: NaN, as an integer."""
    flat = dnp.reshape(a, (-1,))
    wide = np.iinfo(a.element_type.np) if a.element_type.np.kind == "i" and a.element_type.np.itemsize >= 4 else None
    nothing = np.nan if a.element_type.is_float else 0 if wide is None else wide.min
    missing = max_dim(1 - flat.shape[0], 0)
    return dnp.concatenate([flat, dnp.full((missing,), nothing, dtype=a.dtype)])


@converts("median.default")
def median(a: Tracer) -> Tracer:
    return _median(_one_at_least(a), 0, False, False)[0]


@converts("nanmedian.default")
def nanmedian(a: Tracer) -> Tracer:
    return _median(_one_at_least(a), 0, False, True)[0]


@converts("mode.default")
def mode(a: Tracer, dim: int = -1, keepdim: bool = False) -> tuple[Tracer, Tracer]:
    """The most frequent element, the least of several; and its last place."""
    if a.ndim == 0:
        return _scalar(a)
    values, places = _sorted(a, dim)
    number = dnp.moveaxis(dnp.broadcast_to(dnp.arange(a.shape[dim]), dnp.moveaxis(a, dim, -1).shape), -1, dim)
    shifted = dnp.roll(values, 1, axis=dim)
    begins = (number == 0) | (values != shifted)
    start = lax.cummax(dnp.where(begins, number, 0), axis=dim % a.ndim)
    at = dnp.argmax(number - start, axis=dim, keepdims=True)
    found = (dnp.take_along_axis(one, at, axis=dim) for one in (values, places))
    return _without(dim, keepdim, *found)  # pyright: ignore[reportReturnType]


def _running(a: Tracer, dim: int, is_later: Any) -> tuple[Tracer, Tracer]:
    """Extremes of the elements so far, with the last places where they are."""
    if a.ndim == 0:
        return _scalar(a)
    axis = dim % a.ndim
    places = dnp.reshape(dnp.arange(a.shape[axis]), (-1, *[1] * (a.ndim - axis - 1)))

    def later(x: Any, y: Any) -> Any:
        (a, i), (b, j) = x, y
        second = is_later(b, a) | dnp.isnan(b) if a.element_type.is_float else is_later(b, a)
        if a.element_type.is_float:
            second = second & (~dnp.isnan(a) | dnp.isnan(b))
        return dnp.where(second, b, a), dnp.where(second, j, i)

    return lax.associative_scan(later, (a, dnp.broadcast_to(places, a.shape)), axis=axis)


@converts("cummax.default")
def cummax(a: Tracer, dim: int) -> tuple[Tracer, Tracer]:
    return _running(a, dim, dnp.greater_equal)


@converts("cummin.default")
def cummin(a: Tracer, dim: int) -> tuple[Tracer, Tracer]:
    return _running(a, dim, dnp.less_equal)


@converts("logcumsumexp.default")
def logcumsumexp(a: Tracer, dim: int) -> Tracer:
    return lax.cumlogsumexp(a, axis=dim % a.ndim) if a.ndim else a


# ---- places in sorted sequences --------------------------------------------------------------------------------------


@converts("searchsorted.Tensor", "searchsorted.Scalar")
def searchsorted(
    sequence: Tracer, values: Any, out_int32: bool = False, right: bool = False, side: str | None = None,
    sorter: Tracer | None = None,
) -> Tracer:  # fmt: skip
    if sorter is not None:
        sequence = dnp.take_along_axis(sequence, sorter, axis=-1)
    side, values = "right" if right or side == "right" else "left", dnp.asarray(values)
    if sequence.ndim <= 1:
        made = dnp.searchsorted(sequence, values, side=side)
    else:
        lead = math.prod(sequence.shape[:-1])
        rows, wanted = (dnp.reshape(one, (lead, one.shape[-1])) for one in (sequence, values))
        made = vmap(lambda row, one: dnp.searchsorted(row, one, side=side))(rows, wanted)
        made = dnp.reshape(made, values.shape)
    return made.astype("int32" if out_int32 else "int64")


@converts("bucketize.Tensor", "bucketize.Scalar")
def bucketize(values: Any, boundaries: Tracer, out_int32: bool = False, right: bool = False) -> Tracer:
    if boundaries.ndim != 1:
        raise ShapeError(
            f"bucketize: the boundaries have {boundaries.ndim} axes, and must have one.",
            loc=user_loc(),
            remedy="use searchsorted for boundaries of each row.",
        )
    return searchsorted(boundaries, values, out_int32, right)


@converts("isin.Tensor_Tensor", "isin.Tensor_Scalar", "isin.Scalar_Tensor")
def isin(elements: Any, among: Any, assume_unique: bool = False, invert: bool = False) -> Tracer:
    return dnp.isin(dnp.asarray(elements), dnp.reshape(dnp.asarray(among), (-1,)), invert=invert)


# ---- histograms ------------------------------------------------------------------------------------------------------


@converts("histc.default")
def histc(a: Tracer, bins: int = 100, min: Any = 0, max: Any = 0) -> Tracer:
    flat = dnp.reshape(a, (-1,))
    low: Any = dnp.asarray(min, dtype=a.dtype)
    high: Any = dnp.asarray(max, dtype=a.dtype)
    if not isinstance(min, Tracer) and min == max:
        low, high = _range(flat, 1)
    inside = (flat >= low) & (flat <= high)
    # In the order in which PyTorch computes the number of a bin.
    number = ((flat - low) / (high - low) * bins).astype("int64")
    number = dnp.where(inside, dnp.clip(number, 0, bins - 1), bins)
    return dnp.zeros((bins + 1,), dtype=a.dtype).at[number].add(dnp.ones_like(flat))[:bins]


def _range(flat: Tracer, margin: float) -> tuple[Any, Any]:
    """The least and the greatest element, 0 and 1 where there are none; with a margin where one is the other."""
    low = dnp.min(flat, initial=dnp.inf)
    high = dnp.max(flat, initial=-dnp.inf)
    none = high < low
    low, high = dnp.where(none, 0, low).astype(flat.dtype), dnp.where(none, 1, high).astype(flat.dtype)
    return _parted(low, high, margin)


def _parted(low: Any, high: Any, margin: float) -> tuple[Any, Any]:
    one = low == high
    return dnp.where(one, low - margin, low), dnp.where(one, high + margin, high)


def _histogram(flat: Tracer, edges: Tracer, weight: Tracer | None, density: bool) -> Tracer:
    """Counts of elements between edges, or sums of their weights; the last bin has its upper edge too."""
    bins = edges.shape[0] - 1
    number = dnp.searchsorted(edges, flat, side="right") - 1
    number = dnp.where(flat == edges[-1], bins - 1, number)
    inside = (flat >= edges[0]) & (flat <= edges[-1])
    counted = dnp.ones_like(flat) if weight is None else dnp.reshape(weight, (-1,)).astype(flat.dtype)
    number = dnp.where(inside, number, bins)
    made = dnp.zeros((bins + 1,), dtype=flat.dtype).at[number].add(counted)[:bins]
    return made / (dnp.sum(made) * (edges[1:] - edges[:-1])) if density else made


@converts("histogram.bins_tensor")
def histogram_edges(
    a: Tracer, bins: Tracer, weight: Tracer | None = None, density: bool = False
) -> tuple[Tracer, Tracer]:
    return _histogram(dnp.reshape(a, (-1,)), bins, weight, density), bins


@converts("histogram.bin_ct")
def histogram(
    a: Tracer, bins: int = 100, range: Sequence[float] | None = None, weight: Tracer | None = None,
    density: bool = False,
) -> tuple[Tracer, Tracer]:  # fmt: skip
    flat = dnp.reshape(a, (-1,))
    if range is None:
        low, high = _range(flat, 0.5)
    else:
        first, last = range
        low, high = _parted(dnp.asarray(first, dtype=a.dtype), dnp.asarray(last, dtype=a.dtype), 0.5)
    edges = dnp.linspace(low, high, bins + 1, dtype=a.dtype)
    return _histogram(flat, edges, weight, density), edges
