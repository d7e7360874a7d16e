"""The library ``quantized_decomposed``, which PyTorch's quantizers of exported programs leave in these.

Its operations are functions of PyTorch's in Python, and are traced through. Those that ask for numbers of tensors on
their way are written here.
"""

from __future__ import annotations

from typing import Any

import torch

from dyn.interop.torch.aten.tables import writes_out

_PYTHON = torch._C.DispatchKey.CompositeExplicitAutograd


def _traced_through(name: str, overload: str = "default") -> None:
    def run(*args: Any, **kwargs: Any) -> Any:
        operation = getattr(getattr(torch.ops.quantized_decomposed, name), overload)
        return operation._op_dk(_PYTHON, *args, **kwargs)

    suffix = "" if overload == "default" else f".{overload}"
    writes_out(f"quantized_decomposed::{name}{suffix}")(run)


for _kind in ("quantize", "dequantize"):
    for _of in ("per_tensor", "per_channel", "per_token"):
        _traced_through(f"{_kind}_{_of}")
_traced_through("choose_qparams_per_token")
_traced_through("choose_qparams_per_token_asymmetric")
_traced_through("dequantize_per_channel_group")
_traced_through("convert_element_type", "no_fuse")


def _one(number: torch.Tensor | int) -> Any:
    """The number in a tensor of one, which has no say in dtypes, as Python's has none: a tensor without axes."""
    return number.reshape(()) if isinstance(number, torch.Tensor) else number


@writes_out("quantized_decomposed::quantize_per_tensor.tensor", "quantized_decomposed::quantize_per_tensor.tensor2")
def quantize_per_tensor(
    a: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, quant_min: Any, quant_max: Any, dtype: torch.dtype
) -> torch.Tensor:
    """Numbers as integers, by a scale, a zero point and perhaps limits that tensors have."""
    level = torch.round(a.float() * (1.0 / _one(scale).double())) + _one(zero_point)
    if not isinstance(quant_min, torch.Tensor):
        return torch.clamp(level, quant_min, quant_max).to(dtype)
    return torch.minimum(torch.maximum(level, _one(quant_min)), _one(quant_max)).to(dtype)


@writes_out("quantized_decomposed::dequantize_per_tensor.tensor", "quantized_decomposed::dequantize_per_tensor.tensor2")
def dequantize_per_tensor(
    a: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, quant_min: Any, quant_max: Any,
    dtype: torch.dtype, *, out_dtype: torch.dtype | None = None,
) -> torch.Tensor:  # fmt: skip
    """Integers as numbers, whose limits do not matter."""
    return (a.to(out_dtype or torch.float32) - _one(zero_point)) * _one(scale)


def _chosen(a: torch.Tensor, low: int, high: int, eps: float, dtype: torch.dtype, is_symmetric: bool) -> Any:
    least, most = torch.aminmax(a)
    zero = torch.zeros_like(least)
    negative, positive = torch.minimum(least, zero), torch.maximum(most, zero)
    smallest = torch.full((1,), eps, device=a.device)
    if is_symmetric:
        scale = torch.maximum(torch.maximum(-negative, positive) / (float(high - low) / 2), smallest)
        zero_point = torch.full((1,), 128 if dtype in (torch.uint8, torch.quint8) else 0, device=a.device)
    else:
        scale = torch.maximum((positive - negative) / float(high - low), smallest)
        zero_point = torch.clamp(low - torch.round(negative / scale).to(torch.int), low, high)
    return scale.to(torch.double), zero_point.to(torch.int64)


@writes_out("quantized_decomposed::choose_qparams.tensor")
def choose_qparams(a: torch.Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype) -> Any:
    """The scale and the zero point by which all numbers of a tensor fit."""
    return _chosen(a, quant_min, quant_max, eps, dtype, is_symmetric=False)


@writes_out("quantized_decomposed::choose_qparams_symmetric.tensor")
def choose_qparams_symmetric(a: torch.Tensor, quant_min: int, quant_max: int, eps: float, dtype: torch.dtype) -> Any:
    """The scale by which all numbers of a tensor fit around 0."""
    return _chosen(a, quant_min, quant_max, eps, dtype, is_symmetric=True)


@writes_out("quantized_decomposed::quantize_per_channel_group")
def quantize_per_channel_group(
    a: torch.Tensor, scales: torch.Tensor, zero_points: torch.Tensor, quant_min: int, quant_max: int,
    dtype: torch.dtype, group_size: int = 128,
) -> torch.Tensor:  # fmt: skip
    """Numbers of a matrix as integers, with a scale for so many in a row. PyTorch refuses NaN, which are 0 here."""
    if group_size > a.shape[-1] and scales.shape[-1] == 1:
        group_size = a.shape[-1]
    groups = a.reshape(-1, group_size)
    level = (groups * (1.0 / scales.reshape(-1, 1)) + zero_points.reshape(-1, 1)).round()
    return level.clamp(quant_min, quant_max).to(dtype).reshape(a.shape)
