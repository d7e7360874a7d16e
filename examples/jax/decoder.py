"""Greedy decoding with a key-value cache: a prompt is read at once, then tokens follow one by one in a compiled loop.

Batch and prompt length change with every request; the number of new tokens is a choice of the caller.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

HEADS, VOCABULARY = 4, 97
#: Tokens that a request adds to its prompt.
NEW = 6


class Cache(NamedTuple):
    """Keys and values of all positions so far: ``(layer, batch, position, head, width)``."""

    keys: jax.Array
    values: jax.Array


def init(seed: int = 0, layers: int = 2, width: int = 32) -> dict[str, Any]:
    keys = iter(jax.random.split(jax.random.key(seed), 5 * layers + 2))

    def dense(rows: int, columns: int) -> jax.Array:
        return jax.random.normal(next(keys), (rows, columns)) / np.sqrt(rows)

    def layer() -> dict[str, jax.Array]:
        return {
            "qkv": dense(width, 3 * width),
            "out": dense(width, width),
            "up": dense(width, 4 * width),
            "down": dense(4 * width, width),
            "scale": jnp.ones(width),
        }

    return {"embed": dense(VOCABULARY, width), "layers": [layer() for _ in range(layers)]}


def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def rotate(x: jax.Array, positions: jax.Array) -> jax.Array:
    """Rotary position embedding of ``x``, ``(batch, position, head, width)``."""
    half = x.shape[-1] // 2
    angles = positions[:, None, None] / 10_000.0 ** (jnp.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(angles) - b * jnp.sin(angles), a * jnp.sin(angles) + b * jnp.cos(angles)], -1)


def forward(params: dict[str, Any], ids: jax.Array, cache: Cache, start: jax.Array) -> tuple[jax.Array, Cache]:
    """Logits of the token after ``ids``, which stand at ``start`` and on, and the cache with them in it."""
    batch, count = ids.shape
    room = cache.keys.shape[2]
    positions = start + jnp.arange(count)
    seen = jnp.arange(room)[None, :] <= positions[:, None]
    x, keys, values = params["embed"][ids], cache.keys, cache.values
    for number, p in enumerate(params["layers"]):
        q, k, v = jnp.split(norm(x, p["scale"]) @ p["qkv"], 3, -1)
        q, k, v = (t.reshape(batch, count, HEADS, -1) for t in (q, k, v))
        zero = jnp.zeros_like(start)
        keys = lax.dynamic_update_slice(keys, rotate(k, positions)[None], (number, zero, start, zero, zero))
        values = lax.dynamic_update_slice(values, v[None], (number, zero, start, zero, zero))
        scores = jnp.einsum("bqhd,bkhd->bhqk", rotate(q, positions), keys[number]) / np.sqrt(q.shape[-1])
        weights = jax.nn.softmax(jnp.where(seen, scores, -1e30), axis=-1)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, values[number])
        x = x + mixed.reshape(x.shape) @ p["out"]
        x = x + jax.nn.silu(norm(x, p["scale"]) @ p["up"]) @ p["down"]
    return x[:, -1] @ params["embed"].T, Cache(keys, values)


def generate(params: dict[str, Any], prompt: jax.Array) -> jax.Array:
    """The prompts, ``(batch, length)`` of int32, and ``NEW`` tokens after each."""
    batch, length = prompt.shape
    width = params["embed"].shape[1]
    empty = jnp.zeros((len(params["layers"]), batch, length + NEW, HEADS, width // HEADS))
    logits, cache = forward(params, prompt, Cache(empty, empty), jnp.int32(0))
    tokens = jnp.concatenate([prompt, jnp.zeros((batch, NEW), prompt.dtype)], axis=1)

    def step(n: jax.Array, state: tuple[jax.Array, jax.Array, Cache]) -> tuple[jax.Array, jax.Array, Cache]:
        tokens, logits, cache = state
        chosen = jnp.argmax(logits, -1).astype(tokens.dtype)[:, None]
        tokens = lax.dynamic_update_slice(tokens, chosen, (jnp.int32(0), length + n))
        logits, cache = forward(params, chosen, cache, length + n)
        return tokens, logits, cache

    return lax.fori_loop(0, NEW, step, (tokens, logits, cache))[0]


def requests(count: int, seed: int = 0) -> list[tuple[jax.Array, ...]]:
    """Prompts of all sizes."""
    rng = np.random.default_rng(seed)
    sizes = [(int(rng.integers(1, 6)), int(rng.integers(1, 40))) for _ in range(count)]
    return [(jnp.asarray(rng.integers(0, VOCABULARY, size), jnp.int32),) for size in sizes]


PROGRAM = generate
