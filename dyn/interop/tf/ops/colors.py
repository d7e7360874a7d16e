"""Colours of images: hue, saturation, contrast."""

from __future__ import annotations

from typing import Any

import dyn.numpy as dnp
from dyn.interop.converters import Data
from dyn.interop.tf.converter_registry import converts


def _channels(a: Data) -> list[Any]:
    return [a[..., n] for n in range(3)]


def _hue(r: Data, g: Data, b: Data, most: Data, span: Data) -> Any:
    """The hue from 0 to 1 of colours, of which the greatest channel and its distance from the least are given."""
    is_grey = span <= 0
    unit = 1 / (6 * dnp.where(is_grey, 1, span))
    hue = dnp.where(r == most, unit * (g - b), dnp.where(g == most, unit * (b - r) + 2 / 6, unit * (r - g) + 4 / 6))
    hue = dnp.where(is_grey, 0, hue)
    return dnp.where(hue < 0, hue + 1, hue)


def _hsv(a: Data) -> tuple[Any, Any, Any]:
    r, g, b = _channels(a)
    most = dnp.maximum(dnp.maximum(r, g), b)
    span = most - dnp.minimum(dnp.minimum(r, g), b)
    is_light = most > 0
    return _hue(r, g, b, most, span), dnp.where(is_light, span / dnp.where(is_light, most, 1), 0), most


def _of_hue(hue: Data) -> list[Any]:
    """The channels from 0 to 1 of the pure colour of a hue."""
    sixths = hue * 6
    made = [dnp.abs(sixths - 3) - 1, 2 - dnp.abs(sixths - 2), 2 - dnp.abs(sixths - 4)]
    return [dnp.clip(one, 0, 1) for one in made]


def _rgb(hue: Data, saturation: Data, value: Data) -> Any:
    return dnp.stack([(1 - saturation + saturation * one) * value for one in _of_hue(hue)], axis=-1)


@converts("RGBToHSV")
def rgb_to_hsv(a: Data) -> Any:
    return dnp.stack(_hsv(a), axis=-1)


@converts("HSVToRGB")
def hsv_to_rgb(a: Data) -> Any:
    return _rgb(*_channels(a))


@converts("AdjustHue")
def adjust_hue(a: Data, delta: Data) -> Any:
    r, g, b = _channels(a)
    most, least = dnp.maximum(dnp.maximum(r, g), b), dnp.minimum(dnp.minimum(r, g), b)
    hue = dnp.remainder(_hue(r, g, b, most, most - least) + delta.astype(a.dtype), 1)
    return dnp.stack([least + (most - least) * one for one in _of_hue(hue)], axis=-1)


@converts("AdjustSaturation")
def adjust_saturation(a: Data, scale: Data) -> Any:
    hue, saturation, value = _hsv(a)
    return _rgb(hue, dnp.clip(saturation * scale.astype(a.dtype), 0, 1), value)


@converts("AdjustContrastv2")
def adjust_contrast(a: Data, factor: Data) -> Any:
    """Distances from the mean of each channel of each image, by a factor."""
    mean = dnp.mean(a, axis=(-3, -2), keepdims=True).astype(a.dtype)
    return (a - mean) * factor.astype(a.dtype) + mean
