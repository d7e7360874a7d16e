"""Scaled dot-product attention, which PyTorch keeps whole."""

from __future__ import annotations

from typing import Any

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
    scores = _scores(query, key, is_causal, attn_mask, scale)
    most = dnp.max(scores, axis=-1, keepdims=True)
    most = dnp.where(most == -float("inf"), dnp.zeros_like(most), most)  # a row whose every place is masked
    powers = dnp.exp(scores - most)
    total = dnp.sum(powers, axis=-1, keepdims=True)
    result = dnp.matmul(dnp.where(total == 0, dnp.zeros_like(powers), powers / total), value)
    return result, (most + dnp.log(total))[..., 0]


def _scale(query: Tracer, scale: float | None) -> Any:
    return 1 / dnp.sqrt(dnp.asarray(query.shape[-1], dtype=query.dtype)) if scale is None else scale


def _scores(query: Tracer, key: Tracer, is_causal: bool, mask: Tracer | None, scale: float | None) -> Tracer:
    scores = dnp.matmul(dnp.multiply(query, _scale(query, scale)), dnp.swapaxes(key, -1, -2))
    if mask is not None:
        scores = dnp.add(scores, mask)
    if is_causal:
        rows, columns = dnp.arange(query.shape[-2])[:, None], dnp.arange(key.shape[-2])[None, :]
        scores = dnp.where(rows >= columns, scores, dnp.asarray(-float("inf"), dtype=scores.dtype))
    return scores


@converts("_scaled_dot_product_flash_attention_for_cpu_backward.default")
def attention_backward(
    cotangent: Tracer, query: Tracer, key: Tracer, value: Tracer, result: Tracer, logsumexp: Tracer, dropout_p: float,
    is_causal: bool, attn_mask: Tracer | None = None, scale: float | None = None,
) -> tuple[Tracer, Tracer, Tracer]:  # fmt: skip
    """Cotangents of query, key and value, by the weights that the logarithms of the sums give again.

    As in FlashAttention-2 (Dao, 2023), section 3.1, in one block.
    """
    sums = logsumexp[..., None]
    scores = _scores(query, key, is_causal, attn_mask, scale)
    weights = dnp.where(sums == -float("inf"), dnp.zeros_like(scores), dnp.exp(scores - sums))
    of_value = dnp.matmul(dnp.swapaxes(weights, -1, -2), cotangent)
    of_weights = dnp.matmul(cotangent, dnp.swapaxes(value, -1, -2))
    total = dnp.sum(dnp.multiply(cotangent, result), axis=-1, keepdims=True)
    of_scores = dnp.multiply(weights * (of_weights - total), _scale(query, scale))
    return dnp.matmul(of_scores, key), dnp.matmul(dnp.swapaxes(of_scores, -1, -2), query), of_value
