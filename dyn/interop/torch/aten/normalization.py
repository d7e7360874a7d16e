"""Softmax and the normalisations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dyn.numpy as dnp
from dyn import nn
from dyn.interop.torch.aten.tables import converts
from dyn.trace.tracer import Tracer


@converts("_softmax.default", "_safe_softmax.default")
def softmax(a: Tracer, axis: int, half_to_float: Any = False) -> Tracer:
    return nn.softmax(a, axis=axis) if a.ndim else dnp.ones_like(a)


@converts("_log_softmax.default")
def log_softmax(a: Tracer, axis: int, half_to_float: bool = False) -> Tracer:
    return nn.log_softmax(a, axis=axis) if a.ndim else dnp.zeros_like(a)


@converts("native_layer_norm.default")
def layer_norm(
    a: Tracer, sizes: Sequence[Any], weight: Tracer | None, bias: Tracer | None, eps: float
) -> tuple[Tracer, Tracer, Tracer]:
    axes = tuple(range(-len(sizes), 0))
    mean = dnp.mean(a, axis=axes, keepdims=True)
    centred = a - mean
    scale = 1 / dnp.sqrt(dnp.mean(centred * centred, axis=axes, keepdims=True) + eps)
    result = centred * scale
    if weight is not None:
        result = result * weight
    return (result if bias is None else result + bias), mean, scale
