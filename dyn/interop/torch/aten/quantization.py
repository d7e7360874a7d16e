"""Fake quantization: numbers rounded to those that integers stand for by a scale and a zero point, as floats; and
products of float8 matrices that have scales.

Gradients are straight-through: PyTorch's own formulas take the mask of what was in range.
"""

from __future__ import annotations

from typing import Any

import torch

import dyn.numpy as dnp
from dyn.errors import NotYetError
from dyn.interop.torch.aten.tables import axis_of, converts, kept_order
from dyn.interop.torch.tensors import numpy_dtype
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

#: PyTorch has integers of 64 bits between: NaN becomes the least of them.
_LEAST = -(2.0**63)


def _one(value: Any, dtype: str) -> Any:
    """The number in a tensor of one, or a number."""
    return dnp.asarray(value, dtype=dtype) if not isinstance(value, Tracer) else dnp.reshape(value, ()).astype(dtype)


def _along(values: Tracer, axis: int, rank: int) -> Tracer:
    """One number for each channel, to be broadcast."""
    shape = [1] * rank
    shape[axis_of(axis, rank)] = -1
    return dnp.reshape(values, tuple(shape))


def _wide(a: Tracer) -> Tracer:
    """The dtype that products with a scale are computed in: that of floats of 32 bits at least."""
    return a.astype("float32") if a.element_type.bits < 32 else a


def _level(a: Tracer, scale: Any, zero_point: Any) -> Tracer:
    """The integer, as a float, that stands for each number, before it is clamped."""
    scaled = _wide(a) * (dnp.asarray(1, dtype="float32") / scale)
    level = dnp.rint(scaled) + zero_point
    return _without_nan(level)


def _without_nan(level: Tracer) -> Tracer:
    return dnp.where(dnp.isnan(level), _LEAST, level)


def _number(level: Tracer, scale: Any, zero_point: Any, low: Any, high: Any) -> Tracer:
    """The number that a level stands for, once it is clamped."""
    clamped = dnp.clip(level.astype("float64"), low, high)
    return (clamped - dnp.asarray(zero_point).astype("float64")) * dnp.asarray(scale).astype("float64")


def _quantized(a: Tracer, scale: Any, zero_point: Any, low: Any, high: Any) -> tuple[Tracer, Tracer]:
    """Numbers fake quantized, and the mask of those that were in range."""
    level = _level(a, scale, zero_point)
    mask = (level >= low) & (level <= high)
    return _number(level, scale, zero_point, low, high).astype(a.dtype), mask


@converts("fake_quantize_per_tensor_affine_cachemask.default", order=kept_order)
def per_tensor(a: Tracer, scale: Any, zero_point: Any, quant_min: Any, quant_max: Any) -> tuple[Tracer, Tracer]:
    return _quantized(a, _one(scale, "float32"), _one(zero_point, "float32"), quant_min, quant_max)


@converts("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default", order=kept_order)
def per_tensor_of_tensors(
    a: Tracer, scale: Tracer, zero_point: Tracer, enabled: Tracer, quant_min: Any, quant_max: Any
) -> tuple[Tracer, Tracer]:
    made, mask = per_tensor(a, scale, zero_point.astype("int64"), quant_min, quant_max)
    is_on = _one(enabled, "int64") != 0
    return dnp.where(is_on, made, a), dnp.logical_or(mask, dnp.logical_not(is_on))


@converts("fake_quantize_per_channel_affine_cachemask.default", order=kept_order)
def per_channel(
    a: Tracer, scale: Tracer, zero_point: Tracer, axis: int, quant_min: Any, quant_max: Any
) -> tuple[Tracer, Tracer]:
    is_float = zero_point.dtype.kind not in "iu"
    scale, zero_point = (_along(one.astype("float32"), axis, a.ndim) for one in (scale, zero_point))
    if not is_float:
        return _quantized(a, scale, zero_point, quant_min, quant_max)
    # A zero point that is a float is added before numbers are rounded.
    level = dnp.rint(_wide(a) * (dnp.asarray(1, dtype="float32") / scale) + zero_point)
    level = _without_nan(level)
    mask = (level >= quant_min) & (level <= quant_max)
    return _number(level, scale, zero_point, quant_min, quant_max).astype(a.dtype), mask


# ---- scales that are learned -----------------------------------------------------------------------------------------


def _spread(values: Tracer, axis: int | None, rank: int) -> Any:
    """Scales or zero points in float32, to be broadcast."""
    return _one(values, "float32") if axis is None else _along(values.astype("float32"), axis, rank)


@converts("_fake_quantize_learnable_per_tensor_affine.default", order=kept_order)
def learned_for_all(
    a: Tracer, scale: Tracer, zero_point: Tracer, quant_min: int, quant_max: int, grad_factor: float = 1.0
) -> Tracer:
    whole = dnp.trunc(dnp.clip(_spread(zero_point, None, 0) + 0.5, quant_min, quant_max))
    return _quantized(a, _spread(scale, None, 0), whole, quant_min, quant_max)[0]


@converts("_fake_quantize_learnable_per_channel_affine.default", order=kept_order)
def learned_for_channels(
    a: Tracer, scale: Tracer, zero_point: Tracer, axis: int, quant_min: int, quant_max: int, grad_factor: float = 1.0
) -> Tracer:
    whole = dnp.clip(dnp.rint(_spread(zero_point, axis, a.ndim)), quant_min, quant_max)
    return _quantized(a, _spread(scale, axis, a.ndim), whole, quant_min, quant_max)[0]


@converts("_fake_quantize_learnable_per_tensor_affine_backward.default")
def learned_for_all_backward(
    cotangent: Tracer, a: Tracer, scale: Tracer, zero_point: Tracer, quant_min: int, quant_max: int,
    grad_factor: float = 1.0,
) -> tuple[Tracer, Tracer, Tracer]:  # fmt: skip
    return _learned_backward(cotangent, a, scale, zero_point, None, quant_min, quant_max, grad_factor)


@converts("_fake_quantize_learnable_per_channel_affine_backward.default")
def learned_for_channels_backward(
    cotangent: Tracer, a: Tracer, scale: Tracer, zero_point: Tracer, axis: int, quant_min: int, quant_max: int,
    grad_factor: float = 1.0,
) -> tuple[Tracer, Tracer, Tracer]:  # fmt: skip
    return _learned_backward(cotangent, a, scale, zero_point, axis_of(axis, a.ndim), quant_min, quant_max, grad_factor)


def _learned_backward(
    cotangent: Tracer, a: Tracer, scale: Tracer, zero_point: Tracer, axis: int | None, low: Any, high: Any,
    factor: float,
) -> tuple[Tracer, Tracer, Tracer]:  # fmt: skip
    """Cotangents of numbers, scales and zero points; those of the last two are multiplied by a factor.

    Of what is in range a scale's is the rounding error, in units of the scale; of the rest the level that it is
    clamped to.
    """
    wide: Any = _wide(a)
    one = _spread(scale, axis, a.ndim)
    whole = dnp.clip(dnp.rint(_spread(zero_point, axis, a.ndim)), low, high)
    level: Any = _level(a, one, whole)
    clamped: Any = dnp.clip(level, low, high) - whole
    is_inside = (level >= low) & (level <= high)
    slope = dnp.where(is_inside, clamped - wide / one, clamped) * factor
    offset = dnp.where(is_inside, 0.0, -one) * factor
    others = None if axis is None else tuple([other for other in range(a.ndim) if other != axis])
    of_scale, of_zero = (
        dnp.reshape(dnp.sum(cotangent * part, axis=others), of.shape).astype(of.dtype)
        for part, of in ((slope, scale), (offset, zero_point))
    )
    return cotangent * is_inside, of_scale, of_zero


# ---- products of matrices with scales --------------------------------------------------------------------------------


@converts("_scaled_mm.default")
def scaled_mm(
    a: Tracer, b: Tracer, scale_a: Tracer, scale_b: Tracer, bias: Tracer | None = None,
    scale_result: Tracer | None = None, out_dtype: torch.dtype | None = None, use_fast_accum: bool = False,
) -> Tracer:  # fmt: skip
    """The product of float8 matrices, each times its scale: one for all, or one for each row of ``a`` and column of
    ``b``. It is computed in float32, however fast ``use_fast_accum`` allows it to be."""
    for scale, dims in ((scale_a, (a.dims[0], 1)), (scale_b, (1, b.dims[1]))):
        if scale.dtype.name != "float32" or scale.dims not in ((), (1,), (1, 1), dims):
            raise NotYetError(
                "_scaled_mm with a scale for each block.", loc=user_loc(), remedy="multiply the blocks by their scales."
            )
    left, right = a.astype("float32") * scale_a, b.astype("float32") * scale_b
    made = dnp.matmul(left, right)
    if bias is not None:
        made = made + bias.astype("float32")
    dtype = a.dtype if out_dtype is None else numpy_dtype(out_dtype)
    if scale_result is not None and dtype.itemsize == 1:
        made = made * scale_result
    return made.astype(dtype)
