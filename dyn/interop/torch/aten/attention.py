"""Scaled dot-product attention, which PyTorch keeps whole."""

from __future__ import annotations

import dyn.numpy as dnp
from dyn.errors import NotYetError
from dyn.interop.torch.aten.tables import common_order, converts
from dyn.source import user_loc
from dyn.trace.tracer import Tracer


@converts(
    "_scaled_dot_product_flash_attention_for_cpu.default",
    order=lambda args, kwargs: [common_order(args[:1], kwargs), (0, 2, 1)],
)
def attention(
    query: Tracer, key: Tracer, value: Tracer, dropout_p: float = 0.0, is_causal: bool = False,
    attn_mask: Tracer | None = None, scale: float | None = None,
) -> tuple[Tracer, Tracer]:  # fmt: skip
    """The result, and the logarithms of the sums of the exponentials, which the derivative reads."""
    if dropout_p > 0:
        raise NotYetError("attention with dropout.", loc=user_loc(), remedy="call it under model.eval().")
    factor = 1 / dnp.sqrt(dnp.asarray(query.shape[-1], dtype=query.dtype)) if scale is None else scale
    scores = dnp.matmul(dnp.multiply(query, factor), dnp.swapaxes(key, -1, -2))
    if attn_mask is not None:
        scores = scores + attn_mask
    if is_causal:
        rows, columns = dnp.arange(query.shape[-2])[:, None], dnp.arange(key.shape[-2])[None, :]
        scores = dnp.where(rows >= columns, scores, dnp.asarray(-float("inf"), dtype=scores.dtype))
    most = dnp.max(scores, axis=-1, keepdims=True)
    most = dnp.where(most == -float("inf"), dnp.zeros_like(most), most)  # a row whose every place is masked
    powers = dnp.exp(scores - most)
    total = dnp.sum(powers, axis=-1, keepdims=True)
    result = dnp.matmul(dnp.where(total == 0, dnp.zeros_like(powers), powers / total), value)
    return result, (most + dnp.log(total))[..., 0]
