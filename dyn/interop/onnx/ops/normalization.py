"""Normalization: what is subtracted is a mean, and what is divided by a spread."""

from __future__ import annotations

import functools
from typing import Any

import dyn.numpy as dnp
from dyn import lax
from dyn.interop.converters import Data, rank_of
from dyn.interop.onnx.evaluation import converts, takes_call

_FLOAT = 1


def _wide(a: Data, stash_type: int) -> Any:
    """An array in the dtype that statistics are computed in."""
    return a.astype("float32") if stash_type == _FLOAT and a.element_type.bits < 32 else a


@takes_call("BatchNormalization", attrs=["epsilon", "momentum", "training_mode"])
def batch_normalization(call: Any) -> Any:
    a, scale, offset, mean, variance = call.values()
    epsilon, momentum = call.attribute("epsilon", 1e-5), call.attribute("momentum", 0.9)
    if not call.attribute("training_mode", 0):
        return _normalized(a, scale, offset, mean, variance, epsilon)
    axes = tuple([axis for axis in range(rank_of(a)) if axis != 1])
    own, spread = dnp.mean(a, axis=axes), dnp.var(a, axis=axes)
    left = [old * momentum + new * (1 - momentum) for old, new in ((mean, own), (variance, spread))]
    return [_normalized(a, scale, offset, own, spread, epsilon), *left]


def _normalized(a: Data, scale: Data, offset: Data, mean: Data, variance: Data, epsilon: float) -> Any:
    factor = scale * lax.rsqrt(variance + epsilon).astype(scale.dtype)
    parts = [dnp.reshape(one, (-1, *[1] * (rank_of(a) - 2))) for one in (mean, factor, offset)]
    return ((a - parts[0]) * parts[1] + parts[2]).astype(a.dtype)


@converts("InstanceNormalization")
def instance_normalization(a: Data, scale: Data, offset: Data, *, epsilon: float = 1e-5) -> Any:
    axes = tuple(range(2, rank_of(a)))
    parts = [dnp.reshape(one, (-1, *[1] * len(axes))) for one in (scale, offset)]
    return _standardized(a, axes, epsilon)[0] * parts[0] + parts[1]


def _standardized(a: Data, axes: tuple[int, ...], epsilon: float) -> tuple[Any, Any, Any]:
    """Elements less their mean along axes, by their spread; the mean, and one over the spread."""
    mean = dnp.mean(a, axis=axes, keepdims=True)
    less = a - mean
    factor = lax.rsqrt(dnp.mean(dnp.square(less), axis=axes, keepdims=True) + epsilon)
    return less * factor, mean, factor


@converts("LayerNormalization")
def layer_normalization(
    a: Data, scale: Data, offset: Data = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    axes = tuple(range(axis % rank_of(a), rank_of(a)))
    made, mean, factor = _standardized(_wide(a, stash_type), axes, epsilon)
    made = made.astype(a.dtype) * scale
    return [made if offset is None else made + offset, mean, factor]


@converts("RMSNormalization")
def rms_normalization(a: Data, scale: Data, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    axes, wide = tuple(range(axis % rank_of(a), rank_of(a))), _wide(a, stash_type)
    made = wide * lax.rsqrt(dnp.mean(dnp.square(wide), axis=axes, keepdims=True) + epsilon)
    return made.astype(a.dtype) * scale


@converts("GroupNormalization")
def group_normalization(
    a: Data, scale: Data, offset: Data, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Any:
    """Scale and offset are of channels; before version 21 they are of groups."""
    batch, channels, *places = a.shape
    grouped = dnp.reshape(_wide(a, stash_type), (batch, num_groups, channels // num_groups, *places))
    made = _standardized(grouped, tuple(range(2, rank_of(a) + 1)), epsilon)[0].astype(a.dtype)
    is_of_groups = scale.dims[0] == num_groups and a.dims[1] != num_groups
    shape = (num_groups, 1 if is_of_groups else channels // num_groups, *[1] * len(places))
    made = made * dnp.reshape(scale, shape) + dnp.reshape(offset, shape)
    return dnp.reshape(made, a.shape)


@converts("LpNormalization")
def lp_normalization(a: Data, *, axis: int = -1, p: int = 2) -> Any:
    size = dnp.sum(dnp.abs(a), axis=axis, keepdims=True) if p == 1 else \
        dnp.sqrt(dnp.sum(dnp.square(a), axis=axis, keepdims=True))  # fmt: skip
    return dnp.where(size == 0, dnp.zeros_like(a), a / dnp.where(size == 0, dnp.ones_like(size), size))


@converts("MeanVarianceNormalization")
def mean_variance_normalization(a: Data, *, axes: list[int] | None = None) -> Any:
    own = tuple(axes or (0, 2, 3))
    less = a - dnp.mean(a, axis=own, keepdims=True)
    return less / (dnp.sqrt(dnp.mean(dnp.square(less), axis=own, keepdims=True)) + 1e-9)


@converts("LRN")
def local_response_normalization(
    a: Data, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Any:
    """Elements by what the squares of the channels around them sum up to."""
    low, high = (size - 1) // 2, size - 1 - (size - 1) // 2
    pads = [(0, 0, 0), (low, high, 0), *[(0, 0, 0)] * (rank_of(a) - 2)]
    wide = lax.pad(dnp.square(a), dnp.zeros((), dtype=a.dtype), pads)
    channels = a.shape[1]
    around = [lax.slice_in_dim(wide, n, n + channels, axis=1) for n in range(size)]
    return a * dnp.power(bias + alpha / size * functools.reduce(dnp.add, around), -beta)
