"""Layers of a transformer's encoder, which PyTorch runs as one operation in inference."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F

from dyn.errors import NotYetError
from dyn.interop.torch.aten.tables import writes_out
from dyn.source import user_loc


@writes_out("aten::_transformer_encoder_layer_fwd")
def encoder_layer(
    src: Any, embed_dim: int, num_heads: int, qkv_weight: Any, qkv_bias: Any, proj_weight: Any, proj_bias: Any,
    use_gelu: bool, norm_first: bool, eps: float, norm_weight_1: Any, norm_bias_1: Any, norm_weight_2: Any,
    norm_bias_2: Any, ffn_weight_1: Any, ffn_bias_1: Any, ffn_weight_2: Any, ffn_bias_2: Any, mask: Any = None,
    mask_type: int | None = None,
) -> Any:  # fmt: skip
    """A layer of ``torch.nn.TransformerEncoderLayer``. What the mask is not 0 for takes no part; where nothing is left
    the result is NaN, as PyTorch's is."""
    batch, length, width = src.shape
    masked = None if mask is None else _masked(mask, mask_type, batch, length)

    def normed(x: Any, weight: Any, bias: Any) -> Any:
        return F.layer_norm(x, (embed_dim,), weight, bias, eps)

    def attention(x: Any) -> Any:
        parts = F.linear(x, qkv_weight, qkv_bias).view(batch, length, 3, num_heads, width // num_heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (query / math.sqrt(width // num_heads)) @ key.transpose(-2, -1)
        if masked is not None:
            scores = scores.masked_fill(masked, -math.inf)
        made = scores.softmax(-1) @ value
        return F.linear(made.transpose(1, 2).reshape(batch, length, width), proj_weight, proj_bias)

    def feed_forward(x: Any) -> Any:
        hidden = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(hidden) if use_gelu else F.relu(hidden), ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attention(normed(src, norm_weight_1, norm_bias_1))
        return x + feed_forward(normed(x, norm_weight_2, norm_bias_2))
    x = normed(src + attention(src), norm_weight_1, norm_bias_1)
    return normed(x + feed_forward(x), norm_weight_2, norm_bias_2)


def _masked(mask: Any, mask_type: int | None, batch: Any, length: Any) -> Any:
    """The pairs of places that do not attend, as scores lie: batch, heads, queries, keys."""
    masked = mask.to(torch.bool)
    match mask_type:
        case 0:
            return masked.view(1, 1, length, length)
        case 1:
            return masked.view(batch, 1, 1, length)
        case 2:
            return masked
        case _:
            raise NotYetError(
                f"a mask of the type {mask_type} of _transformer_encoder_layer_fwd.",
                loc=user_loc(),
                remedy="pass mask_type= 0, 1 or 2.",
            )
