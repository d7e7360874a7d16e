"""A recommender under ``jax.jit``: tables of embeddings, products of all pairs, two perceptrons (DLRM)."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.peers.jitted import Jitted


class Peer(Jitted):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        super().__init__(recommend, params)


def recommend(params: dict[str, Any], numbers: jax.Array, ids: jax.Array) -> jax.Array:
    """Logits ``(batch, 1)`` of ``numbers``, ``(batch, features)``, and one id a table, ``(batch, tables)``."""
    x = dense(params["bottom"], numbers)
    rows = jnp.stack([x, *[table[ids[:, n]] for n, table in enumerate(params["tables"])]], axis=1)
    products = rows @ jnp.swapaxes(rows, 1, 2)
    i, j = zip(*itertools.combinations(range(rows.shape[1]), 2), strict=True)
    return dense(params["top"], jnp.concatenate([x, products[:, jnp.array(i), jnp.array(j)]], axis=1))


def dense(layers: list[dict[str, jax.Array]], x: jax.Array) -> jax.Array:
    *hidden, last = layers
    for p in hidden:
        x = jax.nn.relu(x @ p["kernel"] + p["bias"])
    return x @ last["kernel"] + last["bias"]
