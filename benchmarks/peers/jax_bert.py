"""BERT under ``jax.jit``, on XLA's CPU backend: a compile for every shape. Parameters are arguments, not constants."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.peers.jitted import Jitted


class Peer(Jitted):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        # The number of threads is set from outside, by affinity: XLA takes a thread for each CPU it may run on.
        self.heads: int = config["heads"]
        self.epsilon: float = config["epsilon"]
        super().__init__(self.encode, params)

    def encode(self, params: dict[str, Any], ids: jax.Array, mask: jax.Array) -> jax.Array:
        p = params["embeddings"]
        x = jnp.take(p["word"], ids, axis=0) + p["position"][: ids.shape[1]] + p["token_type"][0]
        x = self.norm(p["norm"], x)
        bias = jnp.where(mask[:, None, None, :] != 0, 0.0, -1e9)
        for layer in params["layers"]:
            x = self.norm(layer["attention_norm"], x + self.attend(layer, x, bias))
            up = jax.nn.gelu(dense(layer["intermediate"], x), approximate=False)
            x = self.norm(layer["output_norm"], x + dense(layer["output"], up))
        return x

    def attend(self, layer: dict[str, Any], x: jax.Array, bias: jax.Array) -> jax.Array:
        b, s, width = x.shape
        query, key, value = (dense(layer[name], x).reshape(b, s, self.heads, -1) for name in ("query", "key", "value"))
        mixed = jax.nn.dot_product_attention(query, key, value, bias=bias)
        return dense(layer["attention_output"], mixed.reshape(b, s, width))

    def norm(self, p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        centred = x - x.mean(-1, keepdims=True)
        variance = jnp.square(centred).mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(variance + self.epsilon) * p["scale"] + p["bias"]


def dense(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return x @ p["kernel"] + p["bias"]
