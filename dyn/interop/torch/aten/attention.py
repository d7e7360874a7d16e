"""Scaled dot-product attention, which PyTorch keeps whole.

As there, narrow floats are computed with in float32 from the operands to the results.
"""

from __future__ import annotations

from typing import Any

import dyn.numpy as dnp
from dyn.errors import NotYetError
from dyn.interop.torch.aten.tables import converts, kept_order
from dyn.shapes import RelKind
from dyn.source import user_loc
from dyn.trace.dims import unwrap_dim
from dyn.trace.tracer import Tracer


@converts(
    "_scaled_dot_product_flash_attention_for_cpu.default",
    order=lambda args, kwargs: [kept_order(args, kwargs), (0, 2, 1)],
)
def attention(
    query: Tracer, key: Tracer, value: Tracer, dropout_p: float = 0.0, is_causal: bool = False,
    attn_mask: Tracer | None = None, scale: float | None = None,
) -> tuple[Tracer, Tracer]:  # fmt: skip
    """The result, and the logarithms of the sums of the exponentials, which the derivative reads."""
    if dropout_p > 0:
        raise NotYetError("attention with dropout.", loc=user_loc(), remedy="call it under model.eval().")
    dtype = query.dtype
    query, key, value = _wide(query), _wide(_repeated(key, query)), _wide(_repeated(value, query))
    scores = _scores(query, key, is_causal, attn_mask, scale)
    most = dnp.max(scores, axis=-1, keepdims=True)
    most = dnp.where(most == -float("inf"), dnp.zeros_like(most), most)  # a row whose every place is masked
    powers = dnp.exp(scores - most)
    total = dnp.sum(powers, axis=-1, keepdims=True)
    result = dnp.matmul(dnp.where(total == 0, dnp.zeros_like(powers), powers / total), value)
    return result.astype(dtype), (most + dnp.log(total))[..., 0]


def _wide(part: Tracer) -> Tracer:
    return part.astype(part.element_type.wide.np)


def _shared_by(part: Tracer, query: Tracer) -> Any:
    """Number of heads of the query that share one of ``part``, a key or a value: more than 1 with ``enable_gqa``."""
    trace, heads, own = query._trace, query.dims[1], part.dims[1]
    if trace.facts.eq(heads, own).proved:
        return 1
    count = query.shape[1] // part.shape[1]
    whole = unwrap_dim(count * part.shape[1])
    assert whole is not None, "sizes times sizes are sizes"
    trace.demand(RelKind.EQ, whole, heads, "heads of a query share those of keys and values evenly")
    return count


def _repeated(part: Tracer, query: Tracer) -> Tracer:
    """A key or value with a head for each of the query's: those of one head follow one another."""
    count = _shared_by(part, query)
    if isinstance(count, int) and count == 1:
        return part
    batch, heads, length, width = part.shape
    whole = dnp.broadcast_to(part[:, :, None], (batch, heads, count, length, width))
    return dnp.reshape(whole, (batch, heads * count, length, width))


def _summed(whole: Tracer, part: Tracer, query: Tracer) -> Tracer:
    """The cotangent of a key or value whose repetition has the cotangent ``whole``."""
    count = _shared_by(part, query)
    if isinstance(count, int) and count == 1:
        return whole
    batch, heads, length, width = part.shape
    return dnp.sum(dnp.reshape(whole, (batch, heads, count, length, width)), axis=2)


def _scale(query: Tracer, scale: float | None) -> Any:
    """The factor of the scores, in the dtype of the query."""
    if scale is None:
        return 1 / dnp.sqrt(dnp.asarray(query.shape[-1], dtype=query.dtype))
    return dnp.asarray(scale, dtype=query.dtype)


def _scores(query: Tracer, key: Tracer, is_causal: bool, mask: Tracer | None, scale: float | None) -> Tracer:
    scores = dnp.matmul(dnp.multiply(query, _scale(query, scale)), dnp.swapaxes(key, -1, -2))
    if mask is not None:
        scores = dnp.add(scores, mask.astype(scores.dtype))
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
    if dropout_p > 0:
        raise NotYetError("attention with dropout.", loc=user_loc(), remedy="call it under model.eval().")
    sums, dtype = logsumexp[..., None], query.dtype
    cotangent, query, key, value, result = (_wide(one) for one in (cotangent, query, key, value, result))
    keys, values = _repeated(key, query), _repeated(value, query)
    scores = _scores(query, keys, is_causal, attn_mask, scale)
    weights = dnp.where(sums == -float("inf"), dnp.zeros_like(scores), dnp.exp(scores - sums))
    of_value = dnp.matmul(dnp.swapaxes(weights, -1, -2), cotangent)
    of_weights = dnp.matmul(cotangent, dnp.swapaxes(values, -1, -2))
    total = dnp.sum(dnp.multiply(cotangent, result), axis=-1, keepdims=True)
    of_scores = dnp.multiply(weights * (of_weights - total), _scale(query, scale))
    of_key = dnp.matmul(dnp.swapaxes(of_scores, -1, -2), query)
    made = dnp.matmul(of_scores, keys), _summed(of_key, key, query), _summed(of_value, value, query)
    return made[0].astype(dtype), made[1].astype(dtype), made[2].astype(dtype)
