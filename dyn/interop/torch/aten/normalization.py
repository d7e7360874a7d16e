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


def _widened(a: Tracer, weight: Tracer | None, bias: Tracer | None) -> Tracer:
    """Halves as floats where the parameters are floats: PyTorch computes with floats, and rounds the result once."""
    parameters = [one.dtype for one in (weight, bias) if one is not None]
    return a.astype(parameters[0]) if parameters and parameters[0] != a.dtype else a


@converts("native_layer_norm.default")
def layer_norm(
    a: Tracer, sizes: Sequence[Any], weight: Tracer | None, bias: Tracer | None, eps: float
) -> tuple[Tracer, Tracer, Tracer]:
    axes, dtype = tuple(range(-len(sizes), 0)), a.dtype
    a = _widened(a, weight, bias)
    mean = dnp.mean(a, axis=axes, keepdims=True)
    centred = a - mean
    scale = 1 / dnp.sqrt(dnp.mean(centred * centred, axis=axes, keepdims=True) + eps)
    result = centred * scale
    if weight is not None:
        result = result * weight
    return (result if bias is None else result + bias).astype(dtype), mean, scale


@converts("native_group_norm.default", order=lambda args, kwargs: [format_order(args, kwargs), None, None])
def group_norm(
    a: Tracer, weight: Tracer | None, bias: Tracer | None, count: Any, channels: Any, places: Any, groups: int,
    eps: float,
) -> tuple[Tracer, Tracer, Tracer]:  # fmt: skip
    dtype = a.dtype
    a = _widened(a, weight, bias)
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
    return result.astype(dtype), mean[:, :, 0, 0], scale[:, :, 0, 0]


@converts("_weight_norm_interface_backward.default", order=lambda args, kwargs: [kept_order(args[1:], {}), None])
def weight_norm_backward(grad: Any, direction: Any, length: Any, norms: Any, axis: int) -> tuple[Tracer, Tracer]:
    """Gradients of direction and length of a weight, ``direction * length / norms``, with norms over all other axes."""
    axes = tuple(other for other in range(direction.ndim) if other != axis % direction.ndim)
    along = dnp.sum(grad * direction, axis=axes, keepdims=True) / norms
    return (grad - direction * (along / norms)) * (length / norms), along
