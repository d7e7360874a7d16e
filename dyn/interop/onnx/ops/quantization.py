"""Integers that stand for floats, by a scale and the integer of 0: quantization, and products of such integers."""

from __future__ import annotations

from typing import Any

import dyn.numpy as dnp
from dyn import dtypes
from dyn.interop.converters import Data, rank_of
from dyn.interop.onnx.evaluation import converts
from dyn.interop.onnx.graphs import dtype_of
from dyn.interop.onnx.ops.convolutions import conv
from dyn.interop.onnx.ops.pointwise import converted


def _along(values: Data, a: Data, axis: int, block_size: int) -> Any:
    """Scales, or zero points, for elements: one, one for each place on an axis, or one for each block there."""
    if rank_of(values) == 0 or (rank_of(values) == 1 and values.dims[0] == 1):
        return dnp.reshape(values, ())
    at = axis % rank_of(a)
    if block_size:
        return _first(dnp.repeat(values, block_size, axis=at), a.shape[at], at)
    return dnp.reshape(values, tuple([-1 if n == at else 1 for n in range(rank_of(a))]))


def _first(a: Data, count: Any, axis: int) -> Any:
    return a[tuple([slice(None)] * axis + [slice(0, count)])]


def _limits(dtype: Any) -> tuple[int, int]:
    info = dnp.iinfo(dtype)
    return int(info.min), int(info.max)


def quantized(a: Data, scale: Data, zero: Data | None, dtype: Any) -> Any:
    """Floats as integers of a dtype: the nearest one, even of two, and the outermost where there is none."""
    made = dnp.rint(a / scale)
    least, most = _limits(dtype)
    shifted = made if zero is None else made + zero.astype(made.dtype)
    return dnp.clip(shifted, least, most).astype(dtype)


@converts("QuantizeLinear")
def quantize(
    a: Data, scale: Data, zero: Data = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0,
    precision: int = 0, saturate: int = 1,
) -> Any:  # fmt: skip
    dtype = dtype_of(output_dtype).np if output_dtype else "uint8" if zero is None else zero.dtype
    if not dtypes.dtype(dtype).is_integer:
        made = a / _along(scale, a, axis, block_size).astype(a.dtype)
        return converted(made, dtypes.dtype(dtype), bool(saturate))
    own = a.astype(dtype_of(precision).np) if precision else a.astype(scale.dtype)
    point = None if zero is None else _along(zero, a, axis, block_size)
    return quantized(own, _along(scale, a, axis, block_size).astype(own.dtype), point, dtype)


@converts("DequantizeLinear")
def dequantize(
    a: Data, scale: Data, zero: Data = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Any:
    dtype = dtype_of(output_dtype).np if output_dtype else scale.dtype
    wide = a.astype("int32") if a.element_type.is_integer else a.astype(scale.dtype)
    if zero is not None:
        wide = wide - _along(zero, a, axis, block_size).astype(wide.dtype)
    return (wide.astype(scale.dtype) * _along(scale, a, axis, block_size)).astype(dtype)


@converts("DynamicQuantizeLinear")
def dynamic_quantize(a: Data) -> Any:
    """Floats as uint8, by the least scale that has all of them and 0."""
    low, high = dnp.minimum(dnp.min(a, initial=0), 0), dnp.maximum(dnp.max(a, initial=0), 0)
    scale = (high - low) / 255
    scale = dnp.where(scale == 0, 1, scale).astype(a.dtype)
    zero = dnp.clip(dnp.rint((0 - low) / scale), 0, 255)
    made = dnp.clip(dnp.rint(a / scale) + zero, 0, 255).astype("uint8")
    return [made, scale, zero.astype("uint8")]


def _less(a: Data, zero: Data | None, shape: tuple[int, ...] = ()) -> Any:
    """Integers less their zero point, of which there may be one for each row or column."""
    wide = a.astype("int32")
    if zero is None:
        return wide
    point = zero.astype("int32")
    return wide - (dnp.reshape(point, shape) if rank_of(point) == 1 and shape else point)


@converts("MatMulInteger")
def matmul_integer(a: Data, b: Data, a_zero: Data = None, b_zero: Data = None) -> Any:
    return dnp.matmul(_less(a, a_zero, (-1, 1)), _less(b, b_zero))


@converts("QLinearMatMul")
def quantized_matmul(
    a: Data, a_scale: Data, a_zero: Data, b: Data, b_scale: Data, b_zero: Data, scale: Data, zero: Data
) -> Any:
    made = dnp.matmul(_less(a, a_zero), _less(b, b_zero)).astype("float32")
    return quantized(made * (a_scale.astype("float32") * b_scale / scale), dnp.asarray(1, "float32"), zero, zero.dtype)


@converts("ConvInteger")
def conv_integer(
    a: Data, kernel: Data, a_zero: Data = None, kernel_zero: Data = None, *, auto_pad: str = "NOTSET",
    dilations: list[int] | None = None, group: int = 1, pads: list[int] | None = None, strides: list[int] | None = None,
) -> Any:  # fmt: skip
    own = _less(kernel, kernel_zero, (-1, *[1] * (rank_of(kernel) - 1)))
    return conv(_less(a, a_zero), own, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)


@converts("QLinearConv")
def quantized_conv(
    a: Data, a_scale: Data, a_zero: Data, kernel: Data, kernel_scale: Data, kernel_zero: Data, scale: Data, zero: Data,
    bias: Data = None, *, auto_pad: str = "NOTSET", dilations: list[int] | None = None, group: int = 1,
    pads: list[int] | None = None, strides: list[int] | None = None,
) -> Any:  # fmt: skip
    made = conv_integer(
        a, kernel, a_zero, kernel_zero, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides
    )
    shape = (-1, *[1] * (rank_of(kernel) - 2))
    if bias is not None:
        made = made + dnp.reshape(bias, shape)
    factor = a_scale * kernel_scale / scale
    factor = dnp.reshape(factor, shape) if rank_of(factor) else factor
    return quantized(made.astype("float32") * factor, dnp.asarray(1, "float32"), zero, zero.dtype)
