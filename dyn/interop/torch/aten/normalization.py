"""Softmax and the normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dyn.numpy as dnp
from dyn import nn
from dyn.interop.torch.aten.tables import converts, format_order, kept_order
from dyn.interop.torch.tensors import numpy_dtype
from dyn.trace.tracer import Tracer


@converts("_softmax.default")
def softmax(a: Tracer, axis: int, half_to_float: Any = False) -> Tracer:
    a = a.astype("float32") if half_to_float else a
    return nn.softmax(a, axis=axis) if a.ndim else dnp.ones_like(a)


@converts("_safe_softmax.default")
def safe_softmax(a: Tracer, axis: int, dtype: Any = None) -> Tracer:
    """0 where all along the axis is -inf: a row whose every place is masked."""
    if dtype is not None:
        a = a.astype(numpy_dtype(dtype))
    made = softmax(a, axis)
    masked = a == -dnp.inf
    return dnp.where(dnp.all(masked, axis=axis, keepdims=True) if a.ndim else masked, dnp.zeros_like(made), made)


@converts("_log_softmax.default")
def log_softmax(a: Tracer, axis: int, half_to_float: bool = False) -> Tracer:
    a = a.astype("float32") if half_to_float else a
    return nn.log_softmax(a, axis=axis) if a.ndim else dnp.zeros_like(a)


def _widened(a: Any) -> Any:
    """Halves as floats: PyTorch computes with floats, and rounds each result once."""
    return a.astype("float32") if a.dtype.itemsize == 2 else a


def _statistics_dtype(a: Tracer, weight: Tracer | None, bias: Tracer | None) -> Any:
    """The dtype of means and scales, which the derivative reads: the parameters' where there are any, as PyTorch's."""
    return next((one.dtype for one in (weight, bias) if one is not None), a.dtype)


@converts("native_layer_norm.default")
def layer_norm(
    a: Tracer, sizes: Sequence[Any], weight: Tracer | None, bias: Tracer | None, eps: float
) -> tuple[Tracer, Tracer, Tracer]:
    axes, dtype, of_statistics = tuple(range(-len(sizes), 0)), a.dtype, _statistics_dtype(a, weight, bias)
    a = _widened(a)
    mean = dnp.mean(a, axis=axes, keepdims=True)
    centred = a - mean
    scale = 1 / dnp.sqrt(dnp.mean(centred * centred, axis=axes, keepdims=True) + eps)
    result = centred * scale
    if weight is not None:
        result = result * weight
    result = result if bias is None else result + bias
    return result.astype(dtype), mean.astype(of_statistics), scale.astype(of_statistics)


@converts("native_layer_norm_backward.default")
def layer_norm_backward(
    cotangent: Any, a: Any, sizes: Sequence[Any], mean: Any, scale: Any, weight: Any,
    bias: Any, wanted: Sequence[bool],
) -> tuple[Tracer | None, Tracer | None, Tracer | None]:  # fmt: skip
    """Gradients of the operand and the parameters, those that are wanted.

    PyTorch's form for traces divides a scale that is a half by the number of places as halves are divided.
    """
    axes, rows = tuple(range(-len(sizes), 0)), tuple(range(a.ndim - len(sizes)))
    dtype, cotangent = a.dtype, _widened(cotangent)
    normal = (_widened(a) - _widened(mean)) * _widened(scale)
    inner = cotangent if weight is None else cotangent * weight
    made: Tracer | None = None
    if wanted[0]:
        along = dnp.mean(inner, axis=axes, keepdims=True)
        across = dnp.mean(inner * normal, axis=axes, keepdims=True)
        made = ((inner - along - normal * across) * _widened(scale)).astype(dtype)
    of_weight = of_bias = None
    if wanted[1] and weight is not None:
        of_weight = dnp.sum(cotangent * normal, axis=rows).astype(weight.dtype)
    if wanted[2] and bias is not None:
        of_bias = dnp.sum(cotangent, axis=rows).astype(bias.dtype)
    return made, of_weight, of_bias


@converts("native_group_norm.default", order=lambda args, kwargs: [format_order(args, kwargs), None, None])
def group_norm(
    a: Tracer, weight: Tracer | None, bias: Tracer | None, count: Any, channels: Any, places: Any, groups: int,
    eps: float,
) -> tuple[Tracer, Tracer, Tracer]:  # fmt: skip
    dtype, of_statistics = a.dtype, _statistics_dtype(a, weight, bias)
    a = _widened(a)
    rows = dnp.reshape(a, (count, groups, channels // groups, places))
    mean = dnp.mean(rows, axis=(2, 3), keepdims=True)
    centred = rows - mean
    scale = 1 / dnp.sqrt(dnp.mean(centred * centred, axis=(2, 3), keepdims=True) + eps)
    result = dnp.reshape(centred * scale, a.shape)
    per_channel = (-1, *[1] * (a.ndim - 2))
    if weight is not None:
        result = result * dnp.reshape(weight, per_channel)
    if bias is not None:
        result = result + dnp.reshape(bias, per_channel)
    mean, scale = mean[:, :, 0, 0].astype(of_statistics), scale[:, :, 0, 0].astype(of_statistics)
    return result.astype(dtype), mean, scale


@converts("_weight_norm_interface_backward.default", order=lambda args, kwargs: [kept_order(args[1:], {}), None])
def weight_norm_backward(grad: Any, direction: Any, length: Any, norms: Any, axis: int) -> tuple[Tracer, Tracer]:
    """Gradients of direction and length of a weight, ``direction * length / norms``, with norms over all other axes."""
    axes = tuple(other for other in range(direction.ndim) if other != axis % direction.ndim)
    along = dnp.sum(grad * direction, axis=axes, keepdims=True) / norms
    return (grad - direction * (along / norms)) * (length / norms), along
