"""A step of GPT-2's decoding under ``jax.jit``: one token a text, behind keys and values that grow with each step."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.peers.jitted import Jitted


class Peer(Jitted):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        super().__init__(decode, params)


def decode(
    params: dict[str, Any], tokens: jax.Array, keys: jax.Array, values: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Logits ``(batch, vocabulary)`` of the tokens after ``tokens``, ``(batch,)``; and the keys and values so far,
    ``(layer, batch, head, position, width)``, with those of these tokens behind them."""
    _, batch, heads, position, width = keys.shape
    x = params["tokens"][tokens] + params["positions"][position]
    new_keys, new_values = [], []
    for number, p in enumerate(params["layers"]):
        parts = jnp.split(norm(x, p["norm1"]) @ p["qkv"]["kernel"] + p["qkv"]["bias"], 3, axis=-1)
        q, k, v = [part.reshape(batch, heads, 1, width) for part in parts]
        new_keys.append(jnp.concatenate([keys[number], k], axis=2))
        new_values.append(jnp.concatenate([values[number], v], axis=2))
        scores = q @ jnp.swapaxes(new_keys[-1], 2, 3) / width**0.5
        mixed = (jax.nn.softmax(scores, axis=-1) @ new_values[-1]).reshape(batch, heads * width)
        x = x + mixed @ p["out"]["kernel"] + p["out"]["bias"]
        inner = jax.nn.gelu(norm(x, p["norm2"]) @ p["up"]["kernel"] + p["up"]["bias"])
        x = x + inner @ p["down"]["kernel"] + p["down"]["bias"]
    return norm(x, params["norm"]) @ params["tokens"].T, jnp.stack(new_keys), jnp.stack(new_values)


def norm(x: jax.Array, p: dict[str, jax.Array]) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * p["scale"] + p["bias"]
