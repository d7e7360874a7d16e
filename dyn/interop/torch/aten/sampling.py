"""Images at places between their elements."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import dyn.numpy as dnp
from dyn.interop.torch.aten.tables import converts
from dyn.trace.tracer import Tracer
from dyn.transforms import vjp

_BILINEAR, _NEAREST, _BICUBIC = 0, 1, 2
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2


def _place(at: Any, size: Any, align_corners: bool) -> Tracer:
    """Place among the elements of an axis of a coordinate from -1 to 1."""
    length = dnp.asarray(size, dtype=at.dtype)
    return (at + 1) / 2 * (length - 1) if align_corners else ((at + 1) * length - 1) / 2


def _inside(place: Any, size: Any, padding_mode: int, align_corners: bool) -> Tracer:
    """The place that is read for one that may be outside, but for ``_ZEROS``. Its slope is 0 at the borders."""
    length = dnp.asarray(size, dtype=place.dtype)
    if padding_mode == _REFLECTION:
        low = dnp.asarray(0 if align_corners else -0.5, dtype=place.dtype)
        span = length - 1 if align_corners else length
        distance = dnp.where(place < low, low - place, place - low)
        # Back and forth over the span, as often as it takes; of one element there is but one place.
        safe = dnp.where(span > 0, span, dnp.ones_like(span))
        times = dnp.floor(distance / safe)
        extra = distance - times * safe
        turned = dnp.where(dnp.remainder(times, 2) == 0, extra + low, safe - extra + low)
        place = dnp.where(span > 0, turned, dnp.zeros_like(place))
    if padding_mode != _ZEROS:
        place = dnp.where(place <= 0, dnp.zeros_like(length), dnp.where(place >= length - 1, length - 1, place))
    return place


def _cubic_weights(t: Any) -> list[Any]:
    """The weights of the four elements around a place, ``t`` after the second one: Keys' kernel with a = -0.75."""
    a = -0.75

    def outer(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    def inner(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    return [outer(t + 1), inner(t), inner(1 - t), outer(2 - t)]


@converts("grid_sampler_2d.default", "grid_sampler_3d.default")
def grid_sampler(a: Tracer, grid: Tracer, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Tracer:
    """Of ``a`` (N, C, …) the elements at ``grid`` (N, …, rank), whose last axis has places on a's axes, the last first.

    Elements outside are 0 with the padding mode ``_ZEROS``, and others' places are brought inside.
    """
    rank = a.ndim - 2
    sizes = a.shape[2:]
    places = [_place(grid[..., rank - 1 - axis], sizes[axis], align_corners) for axis in range(rank)]

    def padded(places: Sequence[Tracer]) -> list[Tracer]:
        return [_inside(one, size, padding_mode, align_corners) for one, size in zip(places, sizes, strict=True)]

    if interpolation_mode == _NEAREST:
        return _taken(a, [dnp.round(place) for place in padded(places)])
    if interpolation_mode == _BILINEAR:
        places = padded(places)
    floors = [dnp.floor(place) for place in places]
    along: list[list[tuple[int, Any]]] = []
    for place, floor in zip(places, floors, strict=True):
        t = place - floor
        along.append(list(enumerate(_cubic_weights(t), -1)) if interpolation_mode == _BICUBIC else [(0, 1 - t), (1, t)])
    made: Any = 0
    for corner in itertools.product(*along):
        numbers = [floor + step for floor, (step, _) in zip(floors, corner, strict=True)]
        weight: Any = 1
        for _, one in corner:
            weight = weight * one
        made = made + _taken(a, padded(numbers) if interpolation_mode == _BICUBIC else numbers) * weight[:, None]
    return made


def _taken(a: Tracer, numbers: Sequence[Any]) -> Tracer:
    """The elements at whole places; 0 outside."""
    ones = (1,) * (a.ndim - 2)
    inside = dnp.ones((), dtype="bool")
    index: list[Any] = [dnp.reshape(dnp.arange(a.shape[0]), (-1, 1, *ones))]
    index.append(dnp.reshape(dnp.arange(a.shape[1]), (1, -1, *ones)))
    for number, size in zip(numbers, a.shape[2:], strict=True):
        fits = (number >= 0) & (number < dnp.asarray(size, dtype=number.dtype))
        inside = inside & fits
        index.append(dnp.where(fits, number, dnp.zeros_like(number)).astype("int64")[:, None])
    values = a[tuple(index)]
    return dnp.where(inside[:, None], values, dnp.zeros_like(values))


@converts("grid_sampler_2d_backward.default", "grid_sampler_3d_backward.default")
def grid_sampler_backward(
    cotangent: Tracer, a: Tracer, grid: Tracer, interpolation_mode: int, padding_mode: int, align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[Tracer | None, Tracer]:  # fmt: skip
    """The cotangents of the image, where it is asked for, and of the grid."""

    def sampled(a: Tracer, grid: Tracer) -> Tracer:
        return grid_sampler(a, grid, interpolation_mode, padding_mode, align_corners)

    if not output_mask[0]:
        return None, vjp(lambda grid: sampled(a, grid), grid)[1](cotangent)[0]
    of_image, of_grid = vjp(sampled, a, grid)[1](cotangent)
    return of_image, of_grid
