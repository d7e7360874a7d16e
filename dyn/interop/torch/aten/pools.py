"""Pools: means and maxima of windows, of a fixed length or of as many as there shall be results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import dyn.numpy as dnp
from dyn import lax
from dyn.interop.torch.aten.convolutions import spread
from dyn.interop.torch.aten.tables import converts, format_order, kept_order
from dyn.shapes import RelKind
from dyn.trace.context import current_trace
from dyn.trace.dims import max_dim, min_dim, unwrap_dim
from dyn.trace.tracer import Tracer
from dyn.transforms import vjp


class _PoolWindows:
    """The windows of a pool along one axis: how many there are, and the padding that makes them so many.

    With ``ceil_mode`` the last window may begin inside and end outside, but none begins in the padding on the right.
    """

    def __init__(self, size: Any, window: Any, stride: Any, pad: Any, dilation: Any, ceil_mode: bool) -> None:
        self.size, self.window, self.stride, self.pad = size, window, stride, pad
        reach = dilation * (window - 1) + 1
        self.count = (size + 2 * pad - reach) // stride + 1
        self.padding = (pad, pad)
        if ceil_mode:
            self.count = min_dim(-(-(size + 2 * pad - reach) // stride) + 1, -(-(size + pad) // stride))
            self.padding = (pad, (self.count - 1) * stride + reach - size - pad)

    def lengths(self, count_include_pad: bool) -> Tracer:
        """Number of elements of each window, with the padding on both sides or without."""
        starts = dnp.arange(self.count) * self.stride
        if count_include_pad:
            return dnp.minimum(starts + self.window, self.size + 2 * self.pad) - starts
        return dnp.minimum(starts - self.pad + self.window, self.size) - dnp.maximum(starts - self.pad, 0)


def _windows(
    a: Tracer, rank: int, window: Sequence[Any], stride: Sequence[Any], padding: Any, dilation: Any, ceil_mode: bool
) -> list[_PoolWindows]:
    given = [spread(one, rank) for one in (window, stride or window, padding, dilation)]
    windows = [
        _PoolWindows(size, long, step, pad, apart, ceil_mode)
        for size, long, step, pad, apart in zip(a.shape[-rank:], *given, strict=True)
    ]
    for number, one in enumerate(windows):
        count = unwrap_dim(one.count)
        assert count is not None, "it is a size"
        a._trace.here.demand(RelKind.GE, count, 1, f"a pool has a window on axis {a.ndim - rank + number}")
    return windows


def _of_windows(
    a: Any, nothing: Any, fold: Any, windows: Sequence[_PoolWindows], dilation: Sequence[Any] | None = None
) -> Any:
    """Each window of the last axes, folded."""
    rank = (a if isinstance(a, Tracer) else a[0]).ndim - len(windows)
    return lax.reduce_window(
        a, nothing, fold, [*[1] * rank, *[w.window for w in windows]], [*[1] * rank, *[w.stride for w in windows]],
        [*[(0, 0)] * rank, *[w.padding for w in windows]],
        window_dilation=None if dilation is None else [*[1] * rank, *dilation],
    )  # fmt: skip


def _order(args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return format_order(args, kwargs)


def _avg_pool(rank: int) -> Any:
    @converts(f"avg_pool{rank}d.default", order=_order)
    def avg_pool(
        a: Tracer, window: Sequence[Any], stride: Sequence[Any] = (), padding: Any = (0,), ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: Any = None,
    ) -> Tracer:  # fmt: skip
        windows = _windows(a, rank, window, stride, padding, [1], ceil_mode)
        computed = a.astype("float32") if a.dtype.itemsize < 4 and a.dtype.kind != "i" else a
        total = _of_windows(computed, dnp.asarray(0, dtype=computed.dtype), lax.add, windows)
        if divisor_override is not None:
            divisor = dnp.asarray(divisor_override)
        elif not ceil_mode and (count_include_pad or not any_of(spread(padding, rank))):
            divisor = dnp.asarray(math.prod(spread(window, rank)))
        else:
            lengths = [one.lengths(count_include_pad) for one in windows]
            divisor = dnp.asarray(1)
            for axis, length in enumerate(lengths):
                divisor = dnp.multiply(divisor, dnp.reshape(length, (-1, *[1] * (rank - 1 - axis))))
        divisor = divisor.astype(total.dtype)
        if a.dtype.kind == "i":  # towards 0
            return dnp.sign(total) * dnp.floor_divide(dnp.abs(total), divisor)
        return dnp.true_divide(total, divisor).astype(a.dtype)

    return avg_pool


def any_of(padding: Sequence[Any]) -> bool:
    """Whether there is padding."""
    return any(not (isinstance(pad, int) and pad == 0) for pad in padding)


avg_pool1d, avg_pool2d, avg_pool3d = (_avg_pool(rank) for rank in (1, 2, 3))


def _avg_pool_backward(rank: int, forward: Any) -> None:
    @converts(f"avg_pool{rank}d_backward.default", order=_order)
    def avg_pool_backward(cotangent: Tracer, a: Tracer, *rest: Any) -> Tracer:
        return vjp(lambda a: forward(a, *rest), a)[1](cotangent)[0]


_avg_pool_backward(2, avg_pool2d)
_avg_pool_backward(3, avg_pool3d)


def _places(a: Tracer, rank: int) -> Tracer:
    """The numbers of the elements of each plane, in rows."""
    plane = a.shape[-rank:]
    numbers = dnp.reshape(dnp.arange(math.prod(plane)), plane)
    return dnp.broadcast_to(numbers, a.shape)


def _later(a: Any, b: Any) -> Any:
    """Of two elements with their places the greater one, of equal ones the first; a NaN is greater, the last of all."""
    (x, i), (y, j) = a, b
    is_second = (y > x) | ((y == x) & (j < i)) if x.dtype.kind in "iu" else _is_second(x, i, y, j)
    return dnp.where(is_second, y, x), dnp.where(is_second, j, i)


def _is_second(x: Any, i: Any, y: Any, j: Any) -> Any:
    either = (y > x) | ((y == x) & (j < i))
    return (dnp.isnan(y) & (~dnp.isnan(x) | (j > i))) | (~dnp.isnan(x) & either)


def _least(dtype: Any) -> Any:
    return dnp.iinfo(dtype).min if dtype.kind in "iu" else -math.inf


def _max_pool(rank: int) -> None:
    @converts(f"max_pool{rank}d_with_indices.default", order=_order)
    def max_pool(
        a: Tracer, window: Sequence[Any], stride: Sequence[Any] = (), padding: Any = (0,), dilation: Any = (1,),
        ceil_mode: bool = False,
    ) -> tuple[Tracer, Tracer]:  # fmt: skip
        windows = _windows(a, rank, window, stride, padding, dilation, ceil_mode)
        nothing = (dnp.asarray(_least(a.dtype), dtype=a.dtype), dnp.asarray(dnp.iinfo("int64").max, dtype="int64"))
        return _of_windows((a, _places(a, rank)), nothing, _later, windows, spread(dilation, rank))

    @converts(f"max_pool{rank}d_with_indices_backward.default", order=lambda args, kwargs: kept_order(args[1:], {}))
    def max_pool_backward(
        cotangent: Tracer, a: Tracer, window: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, at: Tracer
    ) -> Tracer:
        return unpool(cotangent, at, a.shape, rank)


def unpool(a: Tracer, at: Tracer, shape: Sequence[Any], rank: int) -> Tracer:
    """Zeros of a shape, with each element added at its place in its plane."""
    lead = tuple(shape[: len(shape) - rank])
    count, planes = math.prod(lead), math.prod(shape[-rank:])
    rows = dnp.arange(count)[:, None]
    flat = (count, math.prod(a.shape[-rank:]))
    made = dnp.zeros((count, planes), dtype=a.dtype)
    made = made.at[rows, dnp.reshape(at, flat)].add(dnp.reshape(a, flat))
    return dnp.reshape(made, tuple(shape))


_max_pool(2)
_max_pool(3)


# ---- as many windows as there shall be results -----------------------------------------------------------------------


def _adapted(a: Tracer, axis: int, count: Any) -> tuple[Tracer, Tracer, Tracer]:
    """``count`` windows along an axis, as one more axis after it: the elements, which are of the window, and places.

    Window ``i`` begins at ``i * n // count`` and ends before ``(i + 1) * n / count``, rounded up.
    """
    size = a.shape[axis]
    number = dnp.arange(count)
    start, end = number * size // max_dim(count, 1), -(-(number + 1) * size // max_dim(count, 1))
    places = start[:, None] + dnp.arange(-(-size // max_dim(count, 1)) + 1)[None, :]
    inside = places < end[:, None]
    taken = dnp.take(a, dnp.where(inside, places, 0), axis=axis)
    return taken, inside, places


def _along(value: Tracer, axis: int, rank: int) -> Tracer:
    """Two axes, of an array of ``rank`` ones where the first of them is ``axis``."""
    return dnp.reshape(value, (*[1] * axis, *value.shape, *[1] * (rank - axis - 2)))


def _adaptive_avg_pool(rank: int) -> None:
    def forward(a: Tracer, sizes: Sequence[Any]) -> Tracer:
        computed = a.astype("float32") if a.dtype.itemsize < 4 else a
        for axis, count in zip(range(a.ndim - rank, a.ndim), spread(sizes, rank), strict=True):
            taken, inside, _ = _adapted(computed, axis, count)
            kept = dnp.where(_along(inside, axis, taken.ndim), taken, dnp.asarray(0, dtype=taken.dtype))
            lengths = dnp.sum(inside, axis=1).astype(taken.dtype)
            computed = dnp.sum(kept, axis=axis + 1) / dnp.reshape(lengths, (-1, *[1] * (a.ndim - axis - 1)))
        return computed.astype(a.dtype)

    if rank == 1:
        converts("adaptive_avg_pool1d.default")(forward)
        return
    converts(f"_adaptive_avg_pool{rank}d.default", order=_order)(forward)

    @converts(f"_adaptive_avg_pool{rank}d_backward.default", order=lambda args, kwargs: kept_order(args[1:], {}))
    def backward(cotangent: Tracer, a: Tracer) -> Tracer:
        return vjp(lambda a: forward(a, cotangent.shape[-rank:]), a)[1](cotangent)[0]


def _adaptive_max_pool(rank: int) -> None:
    @converts(f"adaptive_max_pool{rank}d.default", order=_order)
    def adaptive_max_pool(a: Tracer, sizes: Sequence[Any]) -> tuple[Tracer, Tracer]:
        best, at = a, _places(a, rank)
        least = dnp.asarray(_least(a.dtype), dtype=a.dtype)
        for axis, count in zip(range(a.ndim - rank, a.ndim), spread(sizes, rank), strict=True):
            taken, inside, _ = _adapted(best, axis, count)
            mask = _along(inside, axis, taken.ndim)
            numbers = dnp.where(mask, _adapted(at, axis, count)[0], dnp.iinfo("int64").max)
            nothing = (least, dnp.asarray(dnp.iinfo("int64").max))
            best, at = lax.reduce((dnp.where(mask, taken, least), numbers), nothing, _later, [axis + 1])
        return best, at

    @converts(f"adaptive_max_pool{rank}d_backward.default", order=lambda args, kwargs: kept_order(args[1:], {}))
    def backward(cotangent: Tracer, a: Tracer, at: Tracer) -> Tracer:
        return unpool(cotangent, at, a.shape, rank)


for _rank in (1, 2, 3):
    _adaptive_avg_pool(_rank)
for _rank in (2, 3):
    _adaptive_max_pool(_rank)


def _max_unpool(rank: int) -> None:
    @converts(f"max_unpool{rank}d.default", order=_order)
    def max_unpool(a: Tracer, at: Tracer, sizes: Sequence[Any], *rest: Any) -> Tracer:
        """Elements at the places where they were the greatest; of several the last."""
        shape = (*a.shape[: a.ndim - rank], *sizes)
        count = math.prod(shape[: a.ndim - rank])
        flat = (count, math.prod(a.shape[-rank:]))
        made = dnp.zeros((count, math.prod(sizes)), dtype=a.dtype)
        made = made.at[dnp.arange(count)[:, None], dnp.reshape(at, flat)].set(dnp.reshape(a, flat))
        return dnp.reshape(made, shape)


_max_unpool(2)
_max_unpool(3)


# ---- windows at random places ----------------------------------------------------------------------------------------


def _random_starts(sample: Tracer, size: Any, count: Any, window: Any) -> Tracer:
    """Starts of ``count`` windows on an axis, for a number from 0 to 1 of each plane, which sets them off."""
    trace, least, given = current_trace(), unwrap_dim(count + window - 1), unwrap_dim(size)
    if trace is not None and least is not None and given is not None:
        trace.demand(RelKind.GE, given, least, "windows of fractional_max_pool start at different places")
    number = dnp.arange(count)
    step = dnp.asarray(size - window, dtype=sample.dtype) / dnp.asarray(max_dim(count - 1, 1), dtype=sample.dtype)
    offset = sample[..., None]
    starts = ((number + offset) * step).astype("int64") - (offset * step).astype("int64")
    return dnp.where(number == count - 1, size - window, starts)


def _fractional_max_pool(rank: int) -> None:
    @converts(f"fractional_max_pool{rank}d.default")
    def fractional_max_pool(
        a: Tracer, window: Sequence[Any], counts: Sequence[Any], samples: Tracer
    ) -> tuple[Tracer, Tracer]:
        if a.ndim == rank + 1:
            return tuple([made[0] for made in fractional_max_pool(a[None], window, counts, samples)])
        sizes, window = a.shape[-rank:], spread(window, rank)
        flat: Any = dnp.zeros((), dtype="int64")
        for axis, (size, long, count) in enumerate(zip(sizes, window, counts, strict=True)):
            # Of images the first number is for columns.
            sample = samples[: a.shape[0], :, rank - 1 - axis if rank == 2 else axis]
            places = _random_starts(sample, size, count, long)[..., None] + dnp.arange(long)
            shape = [*a.shape[:2], *[1] * (2 * rank)]
            shape[2 + axis], shape[2 + rank + axis] = count, long
            flat = flat * size + dnp.reshape(places, tuple(shape))
        flat = dnp.reshape(flat, (*a.shape[:2], *counts, math.prod(window)))
        planes = dnp.reshape(a, (*a.shape[:2], -1))
        batch, channel = (dnp.arange(n) for n in a.shape[:2])
        ones = (1,) * (rank + 1)
        taken = planes[dnp.reshape(batch, (-1, 1, *ones)), dnp.reshape(channel, (1, -1, *ones)), flat]
        best = dnp.argmax(taken, axis=-1, keepdims=True)
        return tuple([dnp.take_along_axis(one, best, axis=-1)[..., 0] for one in (taken, flat)])

    @converts(f"fractional_max_pool{rank}d_backward.default")
    def fractional_max_pool_backward(cotangent: Tracer, a: Tracer, window: Any, counts: Any, at: Tracer) -> Tracer:
        return unpool(cotangent, at, a.shape, rank)


_fractional_max_pool(2)
_fractional_max_pool(3)
