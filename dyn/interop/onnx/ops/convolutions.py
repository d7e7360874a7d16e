"""Convolutions and pools of images that have their channels first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dyn.numpy as dnp
from dyn import lax, nn
from dyn.errors import NotYetError, UnsupportedOpError
from dyn.interop.converters import Data, rank_of
from dyn.interop.onnx.evaluation import converts, takes_call
from dyn.trace.dims import max_dim, min_dim

#: What ONNX says of the padding of windows: its own name, or low and high ends.
Padding = Any


def _padding(auto_pad: str, pads: Sequence[int] | None, count: int) -> Padding:
    match auto_pad:
        case "SAME_UPPER":
            return "SAME"
        case "SAME_LOWER" | "VALID":
            return auto_pad
        case _:
            return _pairs(pads, count)


def _pairs(pads: Sequence[int] | None, count: int) -> list[tuple[int, int]]:
    return list(zip(pads[:count], pads[count:], strict=True)) if pads else [(0, 0)] * count


def _letters(count: int) -> str:
    return "DHW"[3 - count :] if count <= 3 else "XYZWVU"[:count]


@converts("Conv")
def conv(
    a: Data, kernel: Data, bias: Data = None, *, auto_pad: str = "NOTSET", dilations: Sequence[int] | None = None,
    group: int = 1, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None,
) -> Any:  # fmt: skip
    count = rank_of(kernel) - 2
    made = nn.conv(
        a, kernel, strides or 1, _padding(auto_pad, pads, count), rhs_dilation=dilations, feature_group_count=group
    )
    return made if bias is None else made + _of_channels(bias, count)


def _of_channels(values: Data, count: int) -> Any:
    return dnp.reshape(values, (1, -1, *[1] * count))


@converts("ConvTranspose")
def conv_transpose(
    a: Data, kernel: Data, bias: Data = None, *, auto_pad: str = "NOTSET", dilations: Sequence[int] | None = None,
    group: int = 1, output_padding: Sequence[int] | None = None, output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None, strides: Sequence[int] | None = None,
) -> Any:  # fmt: skip
    """A convolution with the kernel turned around, of an image between whose elements there are zeros."""
    count = rank_of(kernel) - 2
    steps, spread, more = (list(one or [filler] * count) for one, filler in
                           ((strides, 1), (dilations, 1), (output_padding, 0)))  # fmt: skip
    windows = [(kernel.shape[n + 2] - 1) * spread[n] + 1 for n in range(count)]
    if output_shape is not None or auto_pad.startswith("SAME"):
        wanted = list(output_shape or [])[-count:] or [a.shape[n + 2] * steps[n] for n in range(count)]
        pairs: list[tuple[Any, Any]] = []
        for n in range(count):
            total = steps[n] * (a.shape[n + 2] - 1) + more[n] + windows[n] - wanted[n]
            cut = _most(total, 0)  # what lacks is behind
            low = cut // 2 if auto_pad == "SAME_UPPER" else cut - cut // 2
            pairs.append((low, total - low))
    else:
        pairs = list(_pairs(None if auto_pad == "VALID" else pads, count))
    padding = [
        (window - 1 - low, window - 1 - high + extra)
        for window, (low, high), extra in zip(windows, pairs, more, strict=True)
    ]
    channels, own, *places = kernel.shape
    turned = dnp.flip(kernel, axis=tuple(range(2, count + 2)))
    turned = dnp.swapaxes(dnp.reshape(turned, (group, channels // group, own, *places)), 1, 2)
    turned = dnp.reshape(turned, (own * group, channels // group, *places))
    made = nn.conv(a, turned, 1, padding, lhs_dilation=steps, rhs_dilation=spread, feature_group_count=group)
    return made if bias is None else made + _of_channels(bias, count)


# ---- pools -----------------------------------------------------------------------------------------------------------


def _with_ends(
    a: Data, pairs: Sequence[Any], window: Sequence[int], steps: Sequence[int], spread: Sequence[int]
) -> Any:
    """Padding with which places are rounded up: no window lies behind the image and its low padding alone."""
    made: list[tuple[Any, Any]] = []
    for axis, (low, high) in enumerate(pairs, 2):
        n = axis - 2
        size, whole = a.shape[axis], (window[n] - 1) * spread[n] + 1
        places = (size + low + high - whole + steps[n] - 1) // steps[n] + 1
        inside = (size + low + steps[n] - 1) // steps[n]
        count = _least(places, inside)
        made.append((low, _most((count - 1) * steps[n] + whole - size - low, high)))
    return made


def _least(a: Any, b: Any) -> Any:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else min_dim(a, b)


def _most(a: Any, b: Any) -> Any:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else max_dim(a, b)


@takes_call(
    "MaxPool", attrs=["auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"]
)  # fmt: skip
def max_pool(call: Any) -> Any:
    if call.count > 1:
        raise NotYetError("MaxPool that gives the places of its elements.", remedy="export it without Indices.")
    a, window = call.value(0), call.attribute("kernel_shape")
    count = len(window)
    steps, spread = (call.attribute(name) or [1] * count for name in ("strides", "dilations"))
    padding = _padding(call.attribute("auto_pad", "NOTSET"), call.attribute("pads"), count)
    if call.attribute("ceil_mode", 0) and not isinstance(padding, str):
        padding = _with_ends(a, padding, window, steps, spread)
    return nn.max_pool(a, window, steps, padding, window_dilation=spread, dimension_numbers=f"NC{_letters(count)}")


@converts("AveragePool")
def average_pool(
    a: Data, *, kernel_shape: Sequence[int], auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
    dilations: Sequence[int] | None = None, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None,
) -> Any:  # fmt: skip
    count = len(kernel_shape)
    if dilations and any(n != 1 for n in dilations):
        raise UnsupportedOpError("AveragePool with dilations.")
    padding, steps, counts = _padding(auto_pad, pads, count), strides or [1] * count, bool(count_include_pad)
    if ceil_mode and not isinstance(padding, str):
        ends = _with_ends(a, padding, kernel_shape, steps, [1] * count)
        if counts:  # the padding that is said counts, and what is behind it does not
            a = lax.pad(a, dnp.zeros((), dtype=a.dtype), [*[(0, 0, 0)] * 2, *[(*one, 0) for one in padding]])
            ends = [(0, end - high) for (_, high), (_, end) in zip(padding, ends, strict=True)]
        padding, counts = ends, False
    return nn.avg_pool(
        a, kernel_shape, steps, padding, count_include_pad=counts, dimension_numbers=f"NC{_letters(count)}"
    )


@converts("GlobalAveragePool")
def global_average_pool(a: Data) -> Any:
    return dnp.mean(a, axis=tuple(range(2, rank_of(a))), keepdims=True).astype(a.dtype)


@converts("GlobalMaxPool")
def global_max_pool(a: Data) -> Any:
    return dnp.max(a, axis=tuple(range(2, rank_of(a))), keepdims=True)
