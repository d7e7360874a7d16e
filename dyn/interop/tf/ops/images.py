"""Operations of images: other sizes, places of one's own, and patches.

A resize is linear along one axis after the other. Where few elements make one (nearest, bilinear, bicubic), they are
taken by their places; where their number depends on the sizes (areas, antialiasing), a matrix has their weights.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import lax
from dyn.interop.converters import Data, rank_of
from dyn.interop.tf.converter_registry import converts, takes_call
from dyn.interop.tf.ops.indexing import in_range
from dyn.shapes import RelKind
from dyn.trace.dims import max_dim
from dyn.transforms import vjp

#: One axis of images resized: of the images, the axis, its new size, ``align_corners`` and ``half_pixel_centers``.
Along = Callable[[Any, int, Any, bool, bool], Any]


def _float(size: Any) -> Any:
    """A size as float32, in which TensorFlow computes places."""
    return dnp.asarray(size).astype("float32")


def _scale(own: Any, size: Any, align_corners: bool) -> Any:
    """Distance of ``size`` samples of an axis of ``own`` elements from one another."""
    numerator, denominator = _float(own), _float(size)
    if not align_corners:
        return numerator / denominator
    return dnp.where(denominator > 1, (numerator - 1) / dnp.maximum(denominator - 1, 1), numerator / denominator)


def _places(own: Any, size: Any, align_corners: bool, half_pixel_centers: bool) -> Any:
    """Places of ``size`` samples on an axis of ``own`` elements."""
    whole, scale = dnp.arange(size).astype("float32"), _scale(own, size, align_corners)
    return (whole + 0.5) * scale - 0.5 if half_pixel_centers and not align_corners else whole * scale


def _taken(a: Data, axis: int, places: Data) -> Any:
    """Elements at whole places, those off the axis at its nearest end."""
    return dnp.take(a, dnp.clip(places.astype("int64"), 0, a.shape[axis] - 1), axis=axis)


def _along(weights: Data, axis: int, rank: int = 4) -> Any:
    """Weights of places on an axis, for images."""
    return dnp.reshape(weights, (-1, *[1] * (rank - 1 - axis)))


def _nearest(a: Data, axis: int, size: Any, align_corners: bool, half_pixel_centers: bool) -> Any:
    if half_pixel_centers:
        whole = dnp.arange(size).astype("float32")
        return _taken(a, axis, dnp.floor((whole + 0.5) * _scale(a.shape[axis], size, align_corners)))
    places = _places(a.shape[axis], size, align_corners, half_pixel_centers)
    return _taken(a, axis, dnp.floor(places + 0.5) if align_corners else dnp.floor(places))


def _bilinear(a: Data, axis: int, size: Any, align_corners: bool, half_pixel_centers: bool) -> Any:
    a = a.astype("float32")
    places = _places(a.shape[axis], size, align_corners, half_pixel_centers)
    low = dnp.floor(places)
    under, over = _taken(a, axis, low), _taken(a, axis, dnp.ceil(places))
    return under + (over - under) * _along(places - low, axis)


#: TensorFlow has the weights of a bicubic resize for so many parts of the distance between two elements.
_BICUBIC_PARTS = 1024


def _bicubic(a: Data, axis: int, size: Any, align_corners: bool, half_pixel_centers: bool) -> Any:
    """Four elements by "Cubic convolution interpolation for digital image processing" (Keys, 1981).

    With centers of pixels, elements off the image weigh nothing, and the others' weights are scaled to a sum of 1.
    """
    own, a = a.shape[axis], a.astype("float32")
    places = _places(own, size, align_corners, half_pixel_centers)
    low = dnp.floor(places)
    part = dnp.rint((places - low) * _BICUBIC_PARTS) / _BICUBIC_PARTS
    sharpness = -0.5 if half_pixel_centers else -0.75
    weights = [_cubic(distance, sharpness) for distance in (part + 1, part, 1 - part, 2 - part)]
    at = [low + (n - 1) for n in range(4)]
    if half_pixel_centers:
        weights = [
            dnp.where((place >= 0) & (place < _float(own)), one, 0) for place, one in zip(at, weights, strict=True)
        ]
        whole = functools.reduce(dnp.add, weights)
        weights = [_per(one, whole) for one in weights]
    taken = [_taken(a, axis, place) * _along(one, axis) for place, one in zip(at, weights, strict=True)]
    return functools.reduce(dnp.add, taken)


def _cubic(distance: Data, sharpness: float) -> Any:
    """The weight of an element at a distance from 0 to 2."""
    s = sharpness
    near = ((s + 2) * distance - (s + 3)) * distance * distance + 1
    far = ((s * distance - 5 * s) * distance + 8 * s) * distance - 4 * s
    return dnp.where(distance <= 1, near, far)


def _per(weights: Data, whole: Data) -> Any:
    """Weights by their sum, where that is not 0."""
    is_some = dnp.abs(whole) >= 1000 * float(np.finfo(np.float32).tiny)
    return dnp.where(is_some, weights / dnp.where(is_some, whole, 1), weights)


def _mixed(a: Data, axis: int, weights: Data) -> Any:
    """Sums of the elements along an axis, 1 or 2, by a matrix that has a row of weights for each of them."""
    a._trace.here.demand(RelKind.GE, a.dims[axis], 1, "an image that is resized has elements")
    return dnp.einsum("oi,nihc->nohc" if axis == 1 else "oi,nhic->nhoc", weights, a.astype("float32"))


def _area(a: Data, axis: int, size: Any, align_corners: bool, half_pixel_centers: bool) -> Any:
    """Means of stretches of the axis; what is beyond its end is as its last element."""
    own, number = a.shape[axis], dnp.arange(size).astype("float32")[:, None]
    scale = _scale(own, size, align_corners)
    scale = dnp.where(scale > 0, scale, 1 / _float(size))  # of one element, whose corners are one place
    cell = dnp.arange(own).astype("float32")
    start, end = number * scale, (number + 1) * scale
    last = dnp.where(cell == _float(own) - 1, math.inf, cell + 1)
    return _mixed(a, axis, dnp.maximum(dnp.minimum(last, end) - dnp.maximum(cell, start), 0) / scale)


def _resizes(name: str, derivative: str | None, along: Along) -> None:
    """Register a resize, and its derivative, which is given the image or its sizes."""

    def resized(a: Data, sizes: Sequence[Any], align_corners: bool, half_pixel_centers: bool) -> Any:
        for axis, size in zip((1, 2), sizes, strict=True):
            a = along(a, axis, size, align_corners, half_pixel_centers)
        return a

    @converts(name, sizes=(1,))
    def resize(a: Data, sizes: Any, *, align_corners: bool = False, half_pixel_centers: bool = False) -> Any:
        return resized(a, sizes, align_corners, half_pixel_centers)

    if derivative is None:
        return

    @takes_call(derivative, attrs=["align_corners", "half_pixel_centers"])
    def resize_grad(call: Any) -> Any:
        cotangent, attrs = call.value(0), [call.attr(one) for one in ("align_corners", "half_pixel_centers")]
        if len(call.dims(1)) == 4:
            zeros = dnp.zeros_like(call.value(1))
        else:
            height, width = call.sizes(1)
            zeros = dnp.zeros((cotangent.shape[0], height, width, cotangent.shape[3]), dtype=cotangent.dtype)
        return vjp(lambda a: resized(a, cotangent.shape[1:3], *attrs), zeros)[1](cotangent)[0]


_resizes("ResizeNearestNeighbor", "ResizeNearestNeighborGrad", _nearest)
_resizes("ResizeBilinear", "ResizeBilinearGrad", _bilinear)
_resizes("ResizeBicubic", "ResizeBicubicGrad", _bicubic)
_resizes("ResizeArea", None, _area)


# ---- resampling with a kernel ----------------------------------------------------------------------------------------


def _lanczos(radius: int) -> Callable[[Any], Any]:
    def weight(x: Any) -> Any:
        angle = dnp.where(x > 1e-3, x, 1) * math.pi
        wave = radius * dnp.sin(angle) * dnp.sin(angle / radius) / (angle * angle)
        return dnp.where(x > radius, 0, dnp.where(x > 1e-3, wave, 1))

    return weight


def _mitchell(x: Any) -> Any:
    """The filter of "Reconstruction Filters in Computer Graphics" (Mitchell and Netravali, 1988), with B = C = 1/3."""
    near = (7 / 6 * x - 2) * x * x + 8 / 9
    far = ((-7 / 18 * x + 2) * x - 10 / 3) * x + 16 / 9
    return dnp.where(x < 1, near, dnp.where(x < 2, far, 0))


#: Kernels by name: how far they reach, and their weights by the distance.
_KERNELS: Mapping[str, tuple[float, Callable[[Any], Any]]] = {
    "lanczos1": (1, _lanczos(1)),
    "lanczos3": (3, _lanczos(3)),
    "lanczos5": (5, _lanczos(5)),
    "gaussian": (1.5, lambda x: dnp.where(x < 1.5, dnp.exp(-x * x / (2 * 0.5 * 0.5)), 0)),
    "box": (1, lambda x: dnp.where(x < 0.5, 1, dnp.where(x == 0.5, 0.5, 0)).astype("float32")),
    "triangle": (1, lambda x: dnp.maximum(1 - x, 0)),
    "keyscubic": (2, lambda x: dnp.where(x < 2, _cubic(x, -0.5), 0)),
    "mitchellcubic": (2, _mitchell),
}


def _resampling(own: Any, size: Any, scale: Data, shift: Data, kernel: str, antialias: bool) -> Any:
    """The weights of an axis's elements in ``size`` samples of it, scaled and moved. A sample outside of it is 0."""
    reach, function = _KERNELS[kernel]
    step = 1 / scale
    sample = (dnp.arange(size).astype("float32")[:, None] + 0.5) * step - step * shift
    wide = dnp.maximum(step, 1) if antialias else dnp.ones((), dtype="float32")
    cell, last = dnp.arange(own).astype("float32"), _float(own) - 1
    start = dnp.clip(dnp.ceil(sample - reach * wide - 0.5), 0, last)
    end = dnp.clip(dnp.floor(sample + reach * wide - 0.5), 0, last)
    weights = dnp.where((cell >= start) & (cell <= end), function(dnp.abs((cell + 0.5 - sample) * (1 / wide))), 0)
    made = _per(weights, dnp.sum(weights, axis=1, keepdims=True))
    return dnp.where((sample >= 0) & (sample <= _float(own)), made, 0)


def _resampled(
    a: Data, sizes: Sequence[Any], scale: Data, shift: Data, *, kernel_type: str = "lanczos3", antialias: bool = True
) -> Any:
    for n, size in enumerate(sizes):
        a = _mixed(a, n + 1, _resampling(a.shape[n + 1], size, scale[n], shift[n], kernel_type, antialias))
    return a


@converts("ScaleAndTranslate", sizes=(1,))
def scale_and_translate(
    a: Data, sizes: Any, scale: Data, shift: Data, *, kernel_type: str = "lanczos3", antialias: bool = True
) -> Any:
    return _resampled(a, sizes, scale, shift, kernel_type=kernel_type, antialias=antialias)


@converts("ScaleAndTranslateGrad")
def scale_and_translate_grad(
    cotangent: Data, image: Data, scale: Data, shift: Data, *, kernel_type: str = "lanczos3", antialias: bool = True
) -> Any:
    def forward(a: Data) -> Any:
        return _resampled(a, cotangent.shape[1:3], scale, shift, kernel_type=kernel_type, antialias=antialias)

    return vjp(forward, dnp.zeros_like(image))[1](cotangent)[0]


# ---- images at places of one's own -----------------------------------------------------------------------------------


def _inside(place: Data, own: Any) -> Any:
    return (place >= 0) & (place <= _float(own) - 1)


def _pixels(a: Data, image: Data, y: Data, x: Data) -> Any:
    """Pixels at whole places, those off the image at its nearest edge: (image, y, x), with channels last."""
    rows, columns = (dnp.clip(one.astype("int64"), 0, size - 1) for one, size in ((y, a.shape[1]), (x, a.shape[2])))
    return a[image, rows, columns]


def _cut(low: Data, high: Data, own: Any, size: Any) -> Any:
    """Places on an axis of ``size`` elements of boxes, a row for each box: one alone is in the middle."""
    last, count = _float(own) - 1, _float(size)
    apart = (high - low) * last / dnp.maximum(count - 1, 1)
    spread = (low * last)[:, None] + dnp.arange(size).astype("float32") * apart[:, None]
    return dnp.where(count > 1, spread, (0.5 * (low + high) * last)[:, None])


def _cropped(a: Data, boxes: Data, image: Data, sizes: Sequence[Any], method: str, outside: float) -> Any:
    y, x = (_cut(boxes[:, n], boxes[:, n + 2], a.shape[n + 1], size) for n, size in enumerate(sizes))
    y, x, image = y[:, :, None], x[:, None, :], image.astype("int64")[:, None, None]
    is_inside = (_inside(y, a.shape[1]) & _inside(x, a.shape[2]))[..., None]
    a = a.astype("float32")
    if method == "nearest":
        made = _pixels(a, image, lax.round(y), lax.round(x))
    else:
        top, left = dnp.floor(y), dnp.floor(x)
        down, right = (y - top)[..., None], (x - left)[..., None]
        rows = [
            (one := _pixels(a, image, row, left)) + (_pixels(a, image, row, dnp.ceil(x)) - one) * right
            for row in (top, dnp.ceil(y))
        ]
        made = rows[0] + (rows[1] - rows[0]) * down
    return dnp.where(is_inside, made, outside)


@converts("CropAndResize", sizes=(3,))
def crop_and_resize(
    a: Data, boxes: Data, image: Data, sizes: Any, *, method: str = "bilinear", extrapolation_value: float = 0.0
) -> Any:
    in_range(image, a.shape[0], 0, "box_ind {} is out of range for {} images")
    return _cropped(a, boxes, image, sizes, method, extrapolation_value)


@converts("CropAndResizeGradImage", sizes=(3,))
def crop_and_resize_grad_image(
    cotangent: Data, boxes: Data, image: Data, sizes: Any, *, T: str, method: str = "bilinear"
) -> Any:
    in_range(image, sizes[0], 0, "box_ind {} is out of range for {} images")
    zeros, cut = dnp.zeros(tuple(sizes), dtype=T), cotangent.shape[1:3]
    return vjp(lambda a: _cropped(a, boxes, image, cut, method, 0.0), zeros)[1](cotangent)[0]


@converts("CropAndResizeGradBoxes")
def crop_and_resize_grad_boxes(cotangent: Data, a: Data, boxes: Data, image: Data, *, method: str = "bilinear") -> Any:
    in_range(image, a.shape[0], 0, "box_ind {} is out of range for {} images")
    cut = cotangent.shape[1:3]
    return vjp(lambda boxes: _cropped(a, boxes, image, cut, method, 0.0), boxes)[1](cotangent)[0]


def _reflected(at: Data, size: Data) -> Any:
    """[abcd] as [dcba|abcd|dcba]."""
    twice = 2 * size
    below = at + twice * dnp.trunc(-at / twice)
    below = dnp.where(below < -size, below + twice, -below - 1)
    above = at - twice * dnp.trunc(at / twice)
    above = dnp.where(above >= size, twice - above - 1, above)
    return dnp.where(at < 0, below, dnp.where(at > size - 1, above, at))


def _wrapped(at: Data, size: Data) -> Any:
    """[abcd] as [abcd|abcd|abcd], with one element between the last and the first."""
    last = dnp.maximum(size - 1, 1)
    below, above = at + size * (dnp.trunc(-at / last) + 1), at - size * dnp.trunc(at / last)
    return dnp.where(at < 0, below, dnp.where(at > size - 1, above, at))


#: Places on an axis for places off it.
_FILLED: Mapping[str, Callable[[Any, Any], Any]] = {
    "REFLECT": _reflected, "WRAP": _wrapped, "NEAREST": lambda at, size: at,
}  # fmt: skip


def _onto(at: Data, own: Any, mode: str) -> Any:
    if mode == "CONSTANT":
        return at
    size = _float(own)
    return dnp.clip(_FILLED[mode](at, size), 0, dnp.maximum(size - 1, 0))


@converts("ImageProjectiveTransformV3", "ImageProjectiveTransformV2", sizes=(2,))
def projective_transform(
    a: Data, transforms: Data, sizes: Any, outside: Data | None = None, *, interpolation: str,
    fill_mode: str = "CONSTANT",
) -> Any:  # fmt: skip
    """Pixels at places by eight numbers for each image, or for all of them."""
    count, fill = a.shape[0], dnp.asarray(0 if outside is None else outside).astype(a.dtype)
    y, x = (dnp.arange(size).astype("float32") for size in sizes)
    y, x = y[:, None], x[None, :]
    t = [transforms[:, n, None, None] for n in range(8)]
    by = t[6] * x + t[7] * y + 1
    shape = (count, *sizes)
    across, down = (dnp.broadcast_to((t[n] * x + t[n + 1] * y + t[n + 2]) / by, shape) for n in (0, 3))
    across, down = _onto(across, a.shape[2], fill_mode), _onto(down, a.shape[1], fill_mode)
    image = dnp.arange(count)[:, None, None]

    def pixels(y: Data, x: Data) -> Any:
        is_inside = _inside(y, a.shape[1]) & _inside(x, a.shape[2])
        y, x = (dnp.where(is_inside, one, 0) for one in (y, x))
        return dnp.where(is_inside[..., None], _pixels(a, image, y, x), fill)

    def between(low: Data, high: Data, at: Data, start: Data) -> Any:
        return (start + 1 - at)[..., None] * low.astype("float32") + (at - start)[..., None] * high.astype("float32")

    if interpolation == "NEAREST":
        made = pixels(lax.round(down), lax.round(across))
    else:
        top, left = dnp.floor(down), dnp.floor(across)
        rows = [between(pixels(row, left), pixels(row, left + 1), across, left) for row in (top, top + 1)]
        made = between(rows[0], rows[1], down, top).astype(a.dtype)
    is_nowhere = dnp.broadcast_to(by == 0, shape)[..., None]
    return dnp.where(is_nowhere, fill, made)


# ---- patches ---------------------------------------------------------------------------------------------------------


@converts("ExtractImagePatches")
def extract_patches(
    a: Data, *, ksizes: Sequence[int], strides: Sequence[int], rates: Sequence[int], padding: str
) -> Any:
    """Windows of images, each flat along the last axis."""
    made = a
    for axis, (size, stride, rate) in enumerate(zip(ksizes[1:3], strides[1:3], rates[1:3], strict=True)):
        own, reach = a.shape[axis + 1], (size - 1) * rate + 1
        count = -(-own // stride) if padding == "SAME" else max_dim((own - reach) // stride + 1, 0)
        before = max_dim((count - 1) * stride + reach - own, 0) // 2 if padding == "SAME" else 0
        first = dnp.arange(count) * stride - before
        at = first[:, None] + np.arange(size) * rate
        along = 2 * axis + 1
        taken = dnp.take(made, dnp.clip(at, 0, dnp.maximum(own - 1, 0)), axis=along)
        is_on = dnp.reshape((at >= 0) & (at < own), (count, size, *[1] * (rank_of(made) - along - 1)))
        made = dnp.where(is_on, taken, 0)
    made = dnp.transpose(made, (0, 1, 3, 2, 4, 5))
    return dnp.reshape(made, (*made.shape[:3], ksizes[1] * ksizes[2] * a.shape[3]))
