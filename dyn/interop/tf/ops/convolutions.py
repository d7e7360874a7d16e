"""Convolutions, pools and what goes with them, with their derivatives."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import dyn.numpy as dnp
from dyn import dtypes, lax, nn
from dyn.errors import UnsupportedOpError
from dyn.interop.converters import Data, attributes_of, rank_of
from dyn.interop.sizes import conditions
from dyn.interop.tf.converter_registry import converts, takes_call
from dyn.interop.tf.ops.reductions import above_lowest
from dyn.interop.tf.ops.shapes import pairs_of
from dyn.shapes import dim_max, evaluate, floordiv
from dyn.transforms import vjp

ASKS_FOR_OTHERS = True


def _spatial(values: Sequence[Any], layout: str) -> list[Any]:
    """What is said of the axes of an image that are neither examples nor channels."""
    return [value for value, letter in zip(values, layout, strict=True) if letter not in "NC"]


def _pads(padding: str, explicit: Sequence[int] | None, layout: str) -> Any:
    if padding != "EXPLICIT":
        return padding
    return _spatial(list(zip((explicit or ())[::2], (explicit or ())[1::2], strict=True)), layout)


def _letters(layout: str) -> str:
    return "".join([letter for letter in layout if letter not in "NC"])


def _conv(
    image: Data, kernel: Data, strides: Sequence[int], padding: Any, dilations: Sequence[int] | None, layout: str
) -> Any:
    groups: Any = 1
    channels, own, trace = image.dims[layout.index("C")], kernel.dims[-2], image._trace.here
    condition = conditions.equal(channels, own)
    if conditions.for_this_call(condition, trace) is not None and not conditions.decide(condition, trace):
        count = evaluate(floordiv(channels, dim_max(own, 1)), trace.sizes)
        is_count = conditions.equal(channels, own * count)
        if conditions.for_this_call(is_count, trace):  # other numbers of groups have programs of their own
            conditions.decide(is_count, trace)
        groups = count
    return nn.conv(
        image, kernel, _spatial(strides, layout), padding,
        rhs_dilation=_spatial(dilations, layout) if dilations else None,
        dimension_numbers=(layout, f"{_letters(layout)}IO", layout), feature_group_count=groups,
    )  # fmt: skip


@converts("Conv2D")
def conv2d(
    image: Data, kernel: Data, *, strides: Any, padding: str, explicit_paddings: Any = None,
    data_format: str = "NHWC", dilations: Any = None,
) -> Any:  # fmt: skip
    return _conv(image, kernel, strides, _pads(padding, explicit_paddings, data_format), dilations, data_format)


@converts("Conv3D")
def conv3d(
    image: Data, kernel: Data, *, strides: Any, padding: str, data_format: str = "NDHWC", dilations: Any = None
) -> Any:
    return _conv(image, kernel, strides, padding, dilations, data_format)


@converts("DepthwiseConv2dNative")
def depthwise_conv2d(
    image: Data, kernel: Data, *, strides: Any, padding: str, explicit_paddings: Any = None,
    data_format: str = "NHWC", dilations: Any = None,
) -> Any:  # fmt: skip
    height, width, channels, multiplier = kernel.shape
    kernel = dnp.reshape(kernel, (height, width, 1, channels * multiplier))
    return nn.conv(
        image, kernel, _spatial(strides, data_format), _pads(padding, explicit_paddings, data_format),
        rhs_dilation=_spatial(dilations, data_format) if dilations else None,
        dimension_numbers=(data_format, "HWIO", data_format), feature_group_count=channels,
    )  # fmt: skip


def _derivatives(
    of_image: Sequence[str], of_kernel: Sequence[str], forward: Callable[..., Any], *, by_value: bool = False
) -> None:
    """Register the derivatives of a convolution: by the image, of which the sizes are given, and by the kernel."""

    @takes_call(*of_image, attrs=attributes_of(forward))
    def by_image(call: Any) -> Any:
        kernel, cotangent = call.value(1), call.value(2)
        shape = call.dims(0) if by_value else call.sizes(0)
        zeros = dnp.zeros(tuple(shape), dtype=cotangent.dtype)
        attrs = call.attributes(attributes_of(forward))
        return vjp(lambda image: forward(image, kernel, **attrs), zeros)[1](cotangent)[0]

    @takes_call(*of_kernel, attrs=attributes_of(forward))
    def by_kernel(call: Any) -> Any:
        image, cotangent = call.value(0), call.value(2)
        zeros = dnp.zeros(tuple(call.sizes(1)), dtype=cotangent.dtype)
        attrs = call.attributes(attributes_of(forward))
        return vjp(lambda kernel: forward(image, kernel, **attrs), zeros)[1](cotangent)[0]


_derivatives(["Conv2DBackpropInput"], ["Conv2DBackpropFilter"], conv2d)
_derivatives(["Conv3DBackpropInputV2"], ["Conv3DBackpropFilterV2"], conv3d)
_derivatives(
    ["DepthwiseConv2dNativeBackpropInput"], ["DepthwiseConv2dNativeBackpropFilter"], depthwise_conv2d
)  # fmt: skip


@converts("BiasAdd", "BiasAddV1")
def bias_add(a: Data, bias: Data, *, data_format: str = "NHWC") -> Any:
    if data_format.startswith("NC") and rank_of(a) > 2:
        bias = dnp.reshape(bias, (-1, *[1] * (rank_of(a) - 2)))
    else:
        bias = dnp.reshape(bias, (*[1] * (rank_of(a) - 1), -1))
    return dnp.add(a, dnp.broadcast_to(bias, _with_channels(a, bias, data_format)))


def _with_channels(a: Data, bias: Data, data_format: str) -> tuple[Any, ...]:
    """The shape of an image whose channels are as many as there are of a bias: it is not repeated."""
    axis = 1 if data_format.startswith("NC") and rank_of(a) > 2 else rank_of(a) - 1
    shape = list(a.shape)
    shape[axis] = bias.size
    return tuple(shape)


@converts("BiasAddGrad")
def bias_add_grad(cotangent: Data, *, data_format: str = "NHWC") -> Any:
    axis = 1 if data_format.startswith("NC") else rank_of(cotangent) - 1
    return dnp.sum(cotangent, axis=tuple([n for n in range(rank_of(cotangent)) if n != axis]), dtype=cotangent.dtype)


# ---- pools -----------------------------------------------------------------------------------------------------------


@converts("MaxPool", "MaxPool3D")
def max_pool(
    a: Data, *, ksize: Any, strides: Any, padding: str, explicit_paddings: Any = None, data_format: str = "NHWC"
) -> Any:
    # TensorFlow's bfloat16 begins with the lowest float32, which is an infinity there.
    lowest = -math.inf if a.element_type is dtypes.bfloat16 else None
    return _greatest(
        above_lowest(a, lowest), ksize, strides, _pads(padding, explicit_paddings, data_format), data_format
    )


def _greatest(a: Data, ksize: Any, strides: Any, pads: Any, data_format: str) -> Any:
    """The greatest element of each window."""
    windows, steps = _spatial(ksize, data_format), _spatial(strides, data_format)
    return nn.max_pool(a, windows, steps, pads, dimension_numbers=data_format)


@converts("AvgPool", "AvgPool3D")
def avg_pool(a: Data, *, ksize: Any, strides: Any, padding: str, data_format: str = "NHWC") -> Any:
    return nn.avg_pool(
        a, _spatial(ksize, data_format), _spatial(strides, data_format), padding, count_include_pad=False,
        dimension_numbers=data_format,
    )  # fmt: skip


@takes_call("MaxPoolGrad", "MaxPool3DGrad", attrs=attributes_of(max_pool))
def max_pool_grad(call: Any) -> Any:
    """Each window's cotangent goes to its greatest element, the first of equal ones. NaN is less than all."""
    a, cotangent = call.value(0), call.value(2)
    attrs: dict[str, Any] = {
        "explicit_paddings": None,
        "data_format": "NHWC",
        **call.attributes(attributes_of(max_pool)),
    }
    data_format = attrs["data_format"]
    pads = _pads(attrs["padding"], attrs["explicit_paddings"], data_format)
    numbers = dnp.where(dnp.isnan(a), dnp.asarray(-dnp.inf, dtype=a.dtype), a)
    return vjp(lambda a: _greatest(a, attrs["ksize"], attrs["strides"], pads, data_format), numbers)[1](cotangent)[0]


@takes_call("AvgPoolGrad", "AvgPool3DGrad", attrs=attributes_of(avg_pool))
def avg_pool_grad(call: Any) -> Any:
    cotangent = call.value(1)
    attrs = call.attributes(attributes_of(avg_pool))
    zeros = dnp.zeros(tuple(call.sizes(0)), dtype=cotangent.dtype)
    return vjp(lambda a: avg_pool(a, **attrs), zeros)[1](cotangent)[0]


# ---- normalization ---------------------------------------------------------------------------------------------------


def _channels(values: Sequence[Data], a: Data, data_format: str) -> list[Any]:
    if data_format.startswith("NC"):
        return [dnp.reshape(value, (-1, *[1] * (rank_of(a) - 2))) for value in values]
    return list(values)


@converts("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def fused_batch_norm(
    a: Data, scale: Data, offset: Data, mean: Data, variance: Data, *, epsilon: float = 1e-4,
    data_format: str = "NHWC", is_training: bool = True, exponential_avg_factor: float = 1.0,
) -> Any:  # fmt: skip
    wide = a.astype(scale.dtype)
    if not is_training:
        m, v, s, o = _channels([mean, variance, scale, offset], a, data_format)
        made = (wide - m) * (lax.rsqrt(v + epsilon) * s) + o
        return [made.astype(a.dtype), mean, variance, mean, variance, dnp.zeros((0,), dtype=scale.dtype)]
    channel = 1 if data_format.startswith("NC") else rank_of(a) - 1
    axes = tuple([axis for axis in range(rank_of(a)) if axis != channel])
    own_mean = dnp.mean(wide, axis=axes)
    (m, s, o) = _channels([own_mean, scale, offset], a, data_format)
    own_variance = dnp.mean(dnp.square(wide - m), axis=axes)
    (v,) = _channels([own_variance], a, data_format)
    made = (wide - m) * (lax.rsqrt(v + epsilon) * s) + o
    count: Any = 1
    for axis in axes:
        count = count * a.shape[axis]
    total = dnp.asarray(count).astype(scale.dtype)
    unbiased = own_variance * (total / dnp.maximum(total - 1, 1))
    new_mean, new_variance = own_mean, unbiased
    if exponential_avg_factor != 1.0:
        keep = 1 - exponential_avg_factor
        new_mean = mean * keep + own_mean * exponential_avg_factor
        new_variance = variance * keep + unbiased * exponential_avg_factor
    return [made.astype(a.dtype), new_mean, new_variance, own_mean, own_variance, dnp.zeros((0,), dtype=scale.dtype)]


@takes_call(
    "FusedBatchNormGrad",
    "FusedBatchNormGradV2",
    "FusedBatchNormGradV3",
    attrs=["epsilon", "data_format", "is_training"],
)
def fused_batch_norm_grad(call: Any) -> Any:
    cotangent, a, scale = call.value(0), call.value(1), call.value(2)
    attrs = dict(call.attributes(("epsilon", "data_format", "is_training")))
    saved = call.value(3), call.value(4)

    def forward(a: Data, scale: Data, offset: Data) -> Any:
        return fused_batch_norm(a, scale, offset, *saved, **attrs)[0]

    made = vjp(forward, a, scale, dnp.zeros_like(scale))[1](cotangent.astype(a.dtype))
    nothing = dnp.zeros((0,), dtype=scale.dtype)
    return [made[0], made[1], made[2], nothing, nothing]


@converts("LRN")
def local_response_normalization(
    a: Data, *, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5
) -> Any:
    """Elements by what the squares of the channels around them sum up to."""
    squares = dnp.square(a.astype("float32"))
    wide = lax.pad(squares, dnp.zeros((), dtype="float32"), [*[(0, 0, 0)] * 3, (depth_radius, depth_radius, 0)])
    channels = a.shape[3]
    around = [lax.slice_in_dim(wide, n, n + channels, axis=3) for n in range(2 * depth_radius + 1)]
    scale = bias + alpha * functools.reduce(dnp.add, around)
    return (a.astype("float32") * dnp.power(scale, -beta)).astype(a.dtype)


@takes_call("LRNGrad", attrs=attributes_of(local_response_normalization))
def local_response_normalization_grad(call: Any) -> Any:
    attrs = call.attributes(attributes_of(local_response_normalization))
    return vjp(lambda a: local_response_normalization(a, **attrs), call.value(1))[1](call.value(0))[0]


# ---- blocks of pixels ------------------------------------------------------------------------------------------------


@takes_call("SpaceToBatchND")
def space_to_batch(call: Any) -> Any:
    block, paddings = list(map(int, call.numbers(1))), pairs_of(call, 2)
    count, a = len(block), call.value(0)
    pads = [(0, 0, 0), *[(low, high, 0) for low, high in paddings], *[(0, 0, 0)] * (rank_of(a) - 1 - count)]
    a = lax.pad(a, dnp.zeros((), dtype=a.dtype), pads)
    shape: list[Any] = [a.shape[0]]
    for axis, size in enumerate(block):
        shape += [a.shape[axis + 1] // size, size]
    rest = a.shape[count + 1 :]
    made = dnp.reshape(a, (*shape, *rest))
    order = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), *range(2 * count + 1, rank_of(made))]
    made = dnp.transpose(made, order)
    return dnp.reshape(made, (a.shape[0] * math.prod(block), *[shape[2 * n + 1] for n in range(count)], *rest))


@takes_call("BatchToSpaceND")
def batch_to_space(call: Any) -> Any:
    block, crops = list(map(int, call.numbers(1))), pairs_of(call, 2)
    count, a = len(block), call.value(0)
    batch, rest = a.shape[0] // math.prod(block), a.shape[count + 1 :]
    made = dnp.reshape(a, (*block, batch, *a.shape[1:]))
    order = [count]
    for axis in range(count):
        order += [count + 1 + axis, axis]
    made = dnp.transpose(made, [*order, *range(2 * count + 1, rank_of(made))])
    sizes = [a.shape[axis + 1] * block[axis] for axis in range(count)]
    made = dnp.reshape(made, (batch, *sizes, *rest))
    ends = [size - high for (_, high), size in zip(crops, sizes, strict=True)]
    starts, whole = [low for low, _ in crops], [0] * len(rest)
    return lax.slice(made, [0, *starts, *whole], [batch, *ends, *rest])


def _channels_last(a: Data, data_format: str, function: Callable[[Any], Any]) -> Any:
    """A function of images that have their channels last, of such that have them first."""
    if data_format != "NCHW":
        raise UnsupportedOpError(f"images whose axes are {data_format}.")
    return dnp.moveaxis(function(dnp.moveaxis(a, 1, -1)), -1, 1)


@converts("SpaceToDepth")
def space_to_depth(a: Data, *, block_size: int, data_format: str = "NHWC") -> Any:
    if data_format != "NHWC":
        return _channels_last(a, data_format, lambda image: space_to_depth(image, block_size=block_size))
    n, height, width, channels = a.shape
    made = dnp.reshape(a, (n, height // block_size, block_size, width // block_size, block_size, channels))
    made = dnp.transpose(made, (0, 1, 3, 2, 4, 5))
    return dnp.reshape(made, (n, height // block_size, width // block_size, channels * block_size**2))


@converts("DepthToSpace")
def depth_to_space(a: Data, *, block_size: int, data_format: str = "NHWC") -> Any:
    if data_format != "NHWC":
        return _channels_last(a, data_format, lambda image: depth_to_space(image, block_size=block_size))
    n, height, width, channels = a.shape
    made = dnp.reshape(a, (n, height, width, block_size, block_size, channels // block_size**2))
    made = dnp.transpose(made, (0, 1, 3, 2, 4, 5))
    return dnp.reshape(made, (n, height * block_size, width * block_size, channels // block_size**2))
