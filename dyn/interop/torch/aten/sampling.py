"""Images at places between their elements."""

from __future__ import annotations

import itertools
from typing import Any

import dyn.numpy as dnp
from dyn.interop.torch.aten.tables import converts
from dyn.trace.tracer import Tracer

_BILINEAR, _NEAREST = 0, 1
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2


def _source(at: Any, size: Any, padding_mode: int, align_corners: bool) -> Tracer:
    """Place among the elements of an axis of a coordinate from -1 to 1."""
    length = dnp.asarray(size, dtype=at.dtype)
    place = (at + 1) / 2 * (length - 1) if align_corners else ((at + 1) * length - 1) / 2
    if padding_mode == _REFLECTION:
        low = dnp.asarray(0 if align_corners else -0.5, dtype=at.dtype)
        span = length - 1 if align_corners else length
        distance = dnp.abs(place - low)
        # Back and forth over the span, as often as it takes; of one element there is but one place.
        safe = dnp.where(span > 0, span, dnp.ones_like(span))
        times = dnp.floor(distance / safe)
        extra = distance - times * safe
        turned = dnp.where(dnp.remainder(times, 2) == 0, extra + low, safe - extra + low)
        place = dnp.where(span > 0, turned, dnp.zeros_like(place))
    if padding_mode != _ZEROS:
        place = dnp.clip(place, dnp.zeros_like(length), length - 1)
    return place


@converts("grid_sampler_3d.default")
def grid_sampler_3d(a: Tracer, grid: Tracer, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tracer:
    """Of ``a`` (N, C, D, H, W) the elements at ``grid`` (N, …, 3), whose last axis has places on W, H and D."""
    sizes = a.shape[2:]
    places = [_source(grid[..., 2 - axis], sizes[axis], padding_mode, align_corners) for axis in range(3)]
    batch = dnp.reshape(dnp.arange(a.shape[0]), (-1, 1, 1, 1, 1))
    channel = dnp.reshape(dnp.arange(a.shape[1]), (1, -1, 1, 1, 1))

    def taken(numbers: list[Any]) -> Tracer:
        """The elements at whole places; 0 outside."""
        inside = dnp.ones((), dtype="bool")
        index: list[Any] = []
        for number, size in zip(numbers, sizes, strict=True):
            fits = (number >= 0) & (number < dnp.asarray(size, dtype=number.dtype))
            inside = inside & fits
            index.append(dnp.where(fits, number, dnp.zeros_like(number)).astype("int64")[:, None])
        values = a[(batch, channel, *index)]
        return dnp.where(inside[:, None], values, dnp.zeros_like(values))

    if interpolation_mode == _NEAREST:
        return taken([dnp.round(place) for place in places])
    floors = [dnp.floor(place) for place in places]
    made: Any = 0
    for corner in itertools.product((0, 1), repeat=3):
        numbers = [floor + one for floor, one in zip(floors, corner, strict=True)]
        weight: Any = 1
        for place, floor, one in zip(places, floors, corner, strict=True):
            weight = weight * (place - floor if one else 1 - (place - floor))
        made = made + taken(numbers) * weight[:, None]
    return made
