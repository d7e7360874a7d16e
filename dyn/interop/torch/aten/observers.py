"""The operation of quantization-aware training: it observes the range of numbers by moving averages, chooses scale and
zero point by that, and fake quantizes with these.

PyTorch's own is C++ that reads numbers out of its buffers. Its arithmetic is that of FBGEMM's
``ChooseQuantizationParams``: float64, but for ranges and scales, which are rounded to float32 where they are stored.
"""

from __future__ import annotations

from typing import Any

import torch

from dyn.errors import NotYetError
from dyn.interop.torch.aten.tables import writes_out
from dyn.source import user_loc

_Tensor = torch.Tensor
_aten = torch.ops.aten
#: Scales are no smaller, so that products with their inverses are finite.
_LEAST_SCALE = float(torch.tensor(6.1e-5))


@writes_out("aten::_fused_moving_avg_obs_fq_helper")
def observed_in_place(
    a: _Tensor, observer_on: _Tensor, fake_quant_on: _Tensor, running_min: _Tensor, running_max: _Tensor,
    scale: _Tensor, zero_point: _Tensor, *rest: Any, **options: Any,
) -> tuple[_Tensor, ...]:  # fmt: skip
    """Numbers fake quantized, and the mask of those in range; four buffers are written (:func:`observed`)."""
    buffers = running_min, running_max, scale, zero_point
    made, mask, *new = observed(a, observer_on, fake_quant_on, *buffers, *rest, **options)
    for buffer, value in zip(buffers, new, strict=True):
        buffer.copy_(value)
    return made, mask


@writes_out("aten::_fused_moving_avg_obs_fq_helper_functional")
def observed(
    a: _Tensor, observer_on: _Tensor, fake_quant_on: _Tensor, running_min: _Tensor, running_max: _Tensor,
    scale: _Tensor, zero_point: _Tensor, averaging_const: float, quant_min: int, quant_max: int, ch_axis: int,
    per_row_fake_quant: bool = False, symmetric_quant: bool = False,
) -> tuple[_Tensor, ...]:  # fmt: skip
    """Numbers fake quantized, the mask of those in range, and the new contents of the four buffers."""
    if a.dtype is not torch.float32:
        raise NotYetError(f"an observer of {a.dtype}.", loc=user_loc(), remedy="observe floats of 32 bits.")
    if per_row_fake_quant:
        least, most = torch.aminmax(_rows(a, ch_axis, running_min), dim=1)
    else:
        least, most = torch.aminmax(a)
    is_observed = observer_on.reshape(()) != 0
    running_min, running_max = (
        torch.where(is_observed, _averaged(old, new.float(), averaging_const), old)
        for old, new in ((running_min, least), (running_max, most))
    )
    is_quantized = fake_quant_on.reshape(()) != 0
    found, place = _chosen(running_min, running_max, quant_min, quant_max, symmetric_quant)
    scale = torch.where(is_quantized, found, scale)
    zero_point = torch.where(is_quantized, place.to(zero_point.dtype), zero_point)
    if per_row_fake_quant:
        made, mask = _aten.fake_quantize_per_channel_affine_cachemask(
            a, scale, zero_point, ch_axis, quant_min, quant_max
        )
        made, mask = torch.where(is_quantized, made, a), mask | ~is_quantized
    else:
        made, mask = _aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
            a, scale, zero_point, fake_quant_on, quant_min, quant_max
        )
    return made, mask, running_min, running_max, scale, zero_point


def _rows(a: _Tensor, axis: int, buffer: _Tensor) -> _Tensor:
    """A row for each channel."""
    if isinstance(buffer.shape[0], int) and buffer.shape[0] == 0:
        remedy = "call the function once in eager PyTorch."
        raise NotYetError("an observer's first call, which sizes its buffers.", loc=user_loc(), remedy=remedy)
    if axis != 0:
        remedy = "observe the transposed tensor along axis 0."
        raise NotYetError(f"an observer of channels along axis {axis}.", loc=user_loc(), remedy=remedy)
    return a if a.ndim == 2 else a.flatten(1)


def _averaged(old: _Tensor, new: _Tensor, averaging_const: float) -> _Tensor:
    """The first range that is seen, and moving averages after it."""
    return torch.where(torch.isinf(old), new, old + averaging_const * (new - old))


def _chosen(least: _Tensor, most: _Tensor, low: int, high: int, is_symmetric: bool) -> tuple[_Tensor, _Tensor]:
    """Scales in float32 and zero points, as floats, by which ranges fit into the integers from ``low`` to ``high``."""
    levels = high - low
    if is_symmetric:
        lowest, highest = -(levels // 2 + 1), levels // 2
        widest = torch.maximum((least / lowest).abs(), (most / highest).abs()).double()
        is_around_0 = (least < 0) & (most > 0)
        least = torch.where(is_around_0, (widest * lowest).float(), least)
        most = torch.where(is_around_0, (widest * highest).float(), most)
    least, most = least.clamp(max=0.0), most.clamp(min=0.0)
    scale = ((most.double() - least) / levels).float()
    scale = torch.where((scale == 0) | torch.isinf(1.0 / scale), 0.1, scale)
    # The range becomes wider with a scale that is raised to the least one.
    is_small = scale < _LEAST_SCALE
    factor = _LEAST_SCALE / scale
    ends_at_0, begins_at_0 = most == 0, least == 0
    greatest = torch.full_like(most, _LEAST_SCALE) * levels
    wider_least = torch.where(begins_at_0, least, torch.where(ends_at_0, -greatest, least * factor))
    wider_most = torch.where(begins_at_0, greatest, torch.where(ends_at_0, most, most * factor))
    least, most = torch.where(is_small, wider_least, least), torch.where(is_small, wider_most, most)
    scale = torch.where(is_small, _LEAST_SCALE, scale)
    below, above = least / scale.double(), most / scale.double()
    place = torch.where(abs(low) - below.abs() < abs(high) - above.abs(), low - below, high - above)
    if is_symmetric:
        place = torch.where((least < 0) & (most > 0), (low + high) / 2, place)
    return scale, torch.round(place.clamp(low, high))
