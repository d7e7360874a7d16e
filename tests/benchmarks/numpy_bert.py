"""BERT in NumPy and float64, written apart from the example: what every framework's numbers are held against."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import erf

Array = np.ndarray[Any, Any]


def numpy_bert(params: dict[str, Any], ids: Array, mask: Array, *, heads: int, epsilon: float) -> Array:
    """The last hidden states ``[b, s, width]``, one text at a time, without its padding; padded places are NaN."""
    hidden = np.full((*ids.shape, params["embeddings"]["word"].shape[1]), np.nan)
    for row, keep in enumerate(mask.astype(bool)):
        hidden[row, keep] = _one(params, ids[row, keep], np.flatnonzero(keep), heads, epsilon)
    return hidden


def _one(params: dict[str, Any], ids: Array, positions: Array, heads: int, epsilon: float) -> Array:
    p = params["embeddings"]
    x = p["word"].astype(np.float64)[ids] + p["position"][positions] + p["token_type"][0]
    x = _norm(p["norm"], x, epsilon)
    for layer in params["layers"]:
        query, key, value = (np.split(_dense(layer[n], x), heads, axis=1) for n in ("query", "key", "value"))
        mixed: list[Array] = []
        for q, k, v in zip(query, key, value, strict=True):
            weights = np.exp(np.einsum("ic,jc->ij", q, k) / np.sqrt(q.shape[1]))
            mixed.append(weights / weights.sum(axis=1, keepdims=True) @ v)
        x = _norm(layer["attention_norm"], x + _dense(layer["attention_output"], np.hstack(mixed)), epsilon)
        up = _dense(layer["intermediate"], x)
        x = _norm(layer["output_norm"], x + _dense(layer["output"], up * (1 + erf(up / np.sqrt(2))) / 2), epsilon)
    return x


def _dense(p: dict[str, Array], x: Array) -> Array:
    return x @ p["kernel"].astype(np.float64) + p["bias"]


def _norm(p: dict[str, Array], x: Array, epsilon: float) -> Array:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * p["scale"] + p["bias"]
