"""``torch.nn.TransformerEncoder`` in a trace: by the ways that it takes in eager PyTorch.

In inference a layer is one operation, unless somebody looks at what functions of tensors are called, as a trace does.
With a padding mask the layers work on nested tensors, where places of padding come last in each row, and leave zeros at
those places. In a trace these are written there.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.nn import functional as F

from dyn.interop.torch.subclasses import is_wrapper
from dyn.trace.patched_names import Replacement

_ENCODER = torch.nn.TransformerEncoder
_ENCODE: Any = _ENCODER.forward
_HAS_FUNCTION: Any = torch.overrides.has_torch_function
_MODULE = "torch.nn.modules.transformer"


def _has_function(tensors: Any) -> bool:
    """Return True if calls with tensors are looked at by others than the trace."""
    if _LOOKED_AT.current is None or sys._getframe(1).f_globals.get("__name__") != _MODULE:
        return _HAS_FUNCTION(tensors)
    return any(is_wrapper(one) for one in tensors)


def _forward(
    encoder: Any, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
) -> Any:
    """``TransformerEncoder.forward``."""
    if _FORWARD.current is None or mask is not None or not _is_nested(encoder, src, src_key_padding_mask):
        return _ENCODE(encoder, src, mask, src_key_padding_mask, is_causal)
    padding: Any = F._canonical_mask(src_key_padding_mask, "src_key_padding_mask", None, "mask", src.dtype)
    padded = padding.to(torch.bool)
    counts = torch.logical_not(padded).sum(1, keepdim=True)
    last = torch.arange(src.shape[1], device=src.device) >= counts
    if getattr(encoder, "mask_check", True):
        zeros = padded & (padded == last).all()
    else:
        zeros, padding = last, torch.zeros_like(padding).masked_fill(last, -torch.inf)
    output = src
    for layer in encoder.layers:
        output = layer(output, src_key_padding_mask=padding)
    output = output.masked_fill(zeros[..., None], 0.0)
    return output if encoder.norm is None else encoder.norm(output)


def _is_nested(encoder: Any, src: Any, padding: Any) -> bool:
    """Return True if the layers work on nested tensors in eager PyTorch, where the mask allows it."""
    layer = encoder.layers[0]
    if not torch.backends.mha.get_fastpath_enabled() or not getattr(encoder, "use_nested_tensor", False):
        return False
    if layer.training or src.dim() != 3 or padding is None or torch.is_autocast_enabled():
        return False
    attention, norms, products = layer.self_attn, (layer.norm1, layer.norm2), (layer.linear1, layer.linear2)
    weights = [
        src, attention.in_proj_weight, attention.in_proj_bias, attention.out_proj.weight, attention.out_proj.bias,
        *[one for module in (*norms, *products) for one in (module.weight, module.bias)],
    ]  # fmt: skip
    return not (torch.is_grad_enabled() and any(one.requires_grad for one in weights))


_LOOKED_AT: Replacement[bool] = Replacement(torch.overrides, "has_torch_function", _has_function)
_FORWARD: Replacement[bool] = Replacement(_ENCODER, "forward", _forward)
#: What is there while a function is traced.
ENCODERS = (_LOOKED_AT, _FORWARD)
