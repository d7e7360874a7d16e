"""Attention in JAX's layout: ``[batch, length, heads, width]``."""

from __future__ import annotations

import math

import dyn.numpy as dnp
from dyn import dtypes
from dyn.errors import ShapeError
from dyn.nn._normalization import softmax
from dyn.numpy._axes import text_of
from dyn.numpy._creation import indices
from dyn.numpy._operands import cast, constant, promote, shape_of
from dyn.numpy._public import Array, ArrayLike, public
from dyn.shapes import floordiv
from dyn.source import user_loc
from dyn.trace.dims import wrap_dim
from dyn.trace.tracer import Tracer

__all__ = ["dot_product_attention"]


@public
def dot_product_attention(
    query: ArrayLike, key: ArrayLike, value: ArrayLike, /, bias: ArrayLike | None = None,
    mask: ArrayLike | None = None, *, scale: ArrayLike | None = None, is_causal: bool = False,
) -> Array:  # fmt: skip
    """Attention ``softmax(query @ key * scale + bias) @ value`` for each head (https://arxiv.org/abs/1706.03762).

    The softmax is computed in float32 at least. As in JAX, masked scores become a large negative number, so a row that
    is masked altogether is the mean of all values. All sizes may be symbolic, or 0.

    Args:
        query: array ``[b, t, n, h]`` or ``[t, n, h]``, of any real dtype.
        key: array ``[b, s, k, h]``, or without ``b``: each of the k heads serves n / k heads of the query.
        value: array like ``key``.
        bias: array that broadcasts to the scores ``[b, n, t, s]``, and is added to them.
        mask: array of booleans that broadcasts to the scores: which of them count.
        scale: factor of the scores; None: ``h ** -0.5``.
        is_causal: whether keys behind the query are left out.

    Returns:
        An array of the shape of ``query``, in the dtype that the three promote to.

    Raises:
        ShapeError: if arrays have other numbers of axes, heads cannot be shared, or sizes differ, at the call at the
            latest.

    Example:
        >>> nn.dot_product_attention(*(np.ones((1, 2, 1, 4), np.float32),) * 3, is_causal=True).shape
        (1, 2, 1, 4)
    """
    q, k, v = promote("dot_product_attention", query, key, value)
    if q.ndim == 3 and k.ndim == 3 and v.ndim == 3:
        return dot_product_attention(q[None], k[None], v[None], bias, mask, scale=scale, is_causal=is_causal)[0]
    for name, x in (("query", q), ("key", k), ("value", v)):
        if x.ndim != 4:
            raise ShapeError(
                f"dot_product_attention: the {name} is {text_of(x)}, and needs 4 axes.",
                loc=user_loc(),
                remedy="give query, key and value as [batch, length, heads, width].",
            )
    k, v = (_as_many_heads(q, x) for x in (k, v))
    scores = _scores(q, k, scale)
    if bias is not None:
        scores = scores + bias
    keep = _kept(scores, mask, is_causal)
    if keep is not None:
        low = -0.7 * float(dtypes_max(scores))
        scores = dnp.where(keep, scores, constant(scores._trace, low, scores.element_type))
    weights = cast(softmax(scores, -1), v.element_type)
    return dnp.transpose(weights @ dnp.transpose(v, (0, 2, 1, 3)), (0, 2, 1, 3))


def _scores(q: Tracer, k: Tracer, scale: ArrayLike | None) -> Tracer:
    """The scaled scores ``[b, n, t, s]``."""
    wide = q.element_type.wide
    width = shape_of(q)[-1]
    if scale is None:
        scale = 1 / math.sqrt(width) if isinstance(width, int) and width > 0 else wrap_dim(q._trace, width) ** -0.5
    products: Array = dnp.transpose(q, (0, 2, 1, 3)) @ dnp.transpose(k, (0, 2, 3, 1))
    return dnp.multiply(cast(products, wide), scale)


def _as_many_heads(q: Tracer, x: Tracer) -> Tracer:
    """``x`` with each head as often as heads of the query use it."""
    wanted, heads = shape_of(q)[2], shape_of(x)[2]
    if q._trace.facts.eq(wanted, heads).proved or not isinstance(wanted, int) or not isinstance(heads, int):
        return x
    if heads == 0 or wanted % heads:
        raise ShapeError(
            f"dot_product_attention: {wanted} heads of the query cannot share {heads} heads of {text_of(x)}.",
            loc=user_loc(),
            remedy="the number of query heads is a multiple of the number of key and value heads.",
        )
    return dnp.repeat(x, floordiv(wanted, heads), 2)


def _kept(scores: Tracer, mask: ArrayLike | None, is_causal: bool) -> Array | None:
    """The mask of the scores that count; None for all."""
    if not is_causal:
        return mask
    t, s = shape_of(scores)[-2:]
    rows = indices(scores._trace, (t, 1), 0, dtypes.int64)
    columns = indices(scores._trace, (1, s), 1, dtypes.int64)
    causal = dnp.greater_equal(rows, columns)
    return causal if mask is None else dnp.logical_and(mask, causal)


def dtypes_max(x: Tracer) -> float:
    """The greatest finite number of a float dtype."""
    import ml_dtypes

    return float(ml_dtypes.finfo(x.element_type.np).max)
