"""Images in other sizes, one axis after the other: each new element is one of the old, or some of them weighed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn.errors import UnsupportedOpError
from dyn.interop.converters import Data, rank_of
from dyn.interop.onnx.evaluation import takes_call
from dyn.trace.dims import unwrap_dim


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis that is resized: its old and its new size, and the scale between both, a number where that is said."""

    number: int
    own: Any
    size: Any
    scale: Any


def _float(size: Any) -> Any:
    return dnp.asarray(size).astype("float32")


def _half_pixel(x: Data, axis: _Axis) -> Any:
    return (x + 0.5) / axis.scale - 0.5


def _symmetric(x: Data, axis: _Axis) -> Any:
    own = _float(axis.own)
    adjustment = _float(axis.size) / (own * axis.scale)
    return own / 2 * (1 - adjustment) + _half_pixel(x, axis)


def _pytorch(x: Data, axis: _Axis) -> Any:
    return dnp.where(_float(axis.size) > 1, _half_pixel(x, axis), 0)


def _corners(x: Data, axis: _Axis) -> Any:
    last = _float(axis.size) - 1
    return dnp.where(last > 0, x * (_float(axis.own) - 1) / dnp.maximum(last, 1), 0)


#: Places of new elements among the old ones, by ONNX's name.
_PLACES: dict[str, Callable[[Data, _Axis], Any]] = {
    "half_pixel": _half_pixel, "half_pixel_symmetric": _symmetric, "pytorch_half_pixel": _pytorch,
    "align_corners": _corners, "asymmetric": lambda x, axis: x / axis.scale,
}  # fmt: skip
#: The old element that is the nearest to a place, by ONNX's name.
_NEAREST: dict[str, Callable[[Data], Any]] = {
    "round_prefer_floor": lambda x: dnp.ceil(x - 0.5), "round_prefer_ceil": lambda x: dnp.floor(x + 0.5),
    "floor": dnp.floor, "ceil": dnp.ceil,
}  # fmt: skip


@takes_call(
    "Resize", attrs=[
        "antialias", "axes", "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside",
        "extrapolation_value", "keep_aspect_ratio_policy", "mode", "nearest_mode",
    ],
)  # fmt: skip
def resize(call: Any) -> Any:
    a, mode = call.value(0), call.attribute("mode", "nearest")
    place = _PLACES.get(call.attribute("coordinate_transformation_mode", "half_pixel"))
    policy = call.attribute("keep_aspect_ratio_policy", "stretch")
    if place is None or policy != "stretch" or call.attribute("antialias", 0):
        raise UnsupportedOpError("Resize with a crop, a policy of aspect ratios, or antialias.")
    axes = call.attribute("axes") or range(rank_of(a))
    made = a if mode == "nearest" else a.astype("float32")
    for axis in _resized(call, a, [n % rank_of(a) for n in axes]):
        places = place(dnp.arange(axis.size).astype("float32"), axis)
        if mode == "nearest":
            made = _taken(made, axis, _NEAREST[call.attribute("nearest_mode", "round_prefer_floor")](places))
        else:
            weights = _linear if mode == "linear" else functools.partial(_cubic, call.attribute("cubic_coeff_a", -0.75))
            made = _weighed(made, axis, places, weights, bool(call.attribute("exclude_outside", 0)))
    return made.astype(a.dtype)


def _resized(call: Any, a: Data, axes: Sequence[int]) -> list[_Axis]:
    """The axes that get another size."""
    found: list[_Axis] = []
    if call.has(3):
        for n, size in zip(axes, call.sizes(3), strict=True):
            if unwrap_dim(size) != a.dims[n]:
                found.append(_Axis(n, a.shape[n], size, _float(size) / _float(a.shape[n])))
        return found
    for n, scale in zip(axes, call.numbers(2).tolist(), strict=True):
        if scale != 1:
            exact = Fraction(float(np.float32(scale))).limit_denominator(1 << 20)
            size = a.shape[n] * exact.numerator // exact.denominator
            found.append(_Axis(n, a.shape[n], size, float(scale)))
    return found


def _taken(a: Data, axis: _Axis, places: Data) -> Any:
    """Elements at whole places, those off the axis at its nearest end."""
    return dnp.take(a, dnp.clip(places.astype("int64"), 0, axis.own - 1), axis=axis.number)


def _linear(part: Data) -> list[tuple[int, Any]]:
    return [(0, 1 - part), (1, part)]


def _cubic(sharpness: float, part: Data) -> list[tuple[int, Any]]:
    """Weights by "Cubic convolution interpolation for digital image processing" (Keys, 1981)."""
    s = sharpness

    def near(x: Data) -> Any:
        return ((s + 2) * x - (s + 3)) * x * x + 1

    def far(x: Data) -> Any:
        return ((s * x - 5 * s) * x + 8 * s) * x - 4 * s

    return [(-1, far(part + 1)), (0, near(part)), (1, near(1 - part)), (2, far(2 - part))]


def _weighed(a: Data, axis: _Axis, places: Data, weights: Callable[[Data], Any], excludes: bool) -> Any:
    """Sums of weighed elements; those off the axis are its ends, or are left out where it ``excludes`` them."""
    low = dnp.floor(places)
    pairs = [(low + n, weight) for n, weight in weights(places - low)]
    if excludes:
        inside = [(at >= 0) & (at < _float(axis.own)) for at, _ in pairs]
        kept = [dnp.where(one, weight, 0) for one, (_, weight) in zip(inside, pairs, strict=True)]
        whole = functools.reduce(dnp.add, kept)
        pairs = [(at, weight / whole) for (at, _), weight in zip(pairs, kept, strict=True)]
    shape = (-1, *[1] * (rank_of(a) - 1 - axis.number))
    return functools.reduce(dnp.add, [_taken(a, axis, at) * dnp.reshape(weight, shape) for at, weight in pairs])
