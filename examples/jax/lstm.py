"""A step of training an LSTM, run by ``lax.scan`` over sequences of any length, some of them padded."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

FEATURES = 6


def init(seed: int = 0, width: int = 24) -> dict[str, Any]:
    keys = iter(jax.random.split(jax.random.key(seed), 3))
    return {
        "cell": {
            "input": jax.random.normal(next(keys), (FEATURES, 4 * width)) / np.sqrt(FEATURES),
            "hidden": jax.random.normal(next(keys), (width, 4 * width)) / np.sqrt(width),
            "bias": jnp.zeros(4 * width),
        },
        "head": {"w": jax.random.normal(next(keys), (width, 1)) / np.sqrt(width), "b": jnp.zeros(1)},
    }


def run(cell: dict[str, jax.Array], xs: jax.Array, lengths: jax.Array) -> jax.Array:
    """What the cell holds after each of the sequences ``(time, batch, features)``, whose own lengths may be less."""
    width = cell["hidden"].shape[0]

    def step(state: tuple[jax.Array, jax.Array], now: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
        h, c = state
        x, t = now
        i, f, g, o = jnp.split(x @ cell["input"] + h @ cell["hidden"] + cell["bias"], 4, axis=-1)
        c_new = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h_new = jax.nn.sigmoid(o) * jnp.tanh(c_new)
        alive = (t < lengths)[:, None]
        return (jnp.where(alive, h_new, h), jnp.where(alive, c_new, c)), None

    zero = jnp.zeros((xs.shape[1], width))
    (h, _), _ = lax.scan(step, (zero, zero), (xs, jnp.arange(xs.shape[0])))
    return h


def train(
    params: dict[str, Any], xs: jax.Array, lengths: jax.Array, wanted: jax.Array
) -> tuple[jax.Array, dict[str, Any]]:
    """The squared error, and the parameters after a step of gradient descent."""

    def loss(params: dict[str, Any]) -> jax.Array:
        h = run(params["cell"], xs, lengths)
        made = (h @ params["head"]["w"] + params["head"]["b"])[:, 0]
        return jnp.mean((made - wanted) ** 2)

    value, gradients = jax.value_and_grad(loss)(params)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradients)))
    scale = 0.05 * jnp.minimum(1.0, 1.0 / norm)
    return value, jax.tree.map(lambda p, g: p - scale * g, params, gradients)


def requests(count: int, seed: int = 0) -> list[tuple[jax.Array, ...]]:
    """Batches of sequences of all lengths."""
    rng = np.random.default_rng(seed)
    made: list[tuple[jax.Array, ...]] = []
    for _ in range(count):
        time, batch = int(rng.integers(1, 60)), int(rng.integers(1, 10))
        xs = jnp.asarray(rng.standard_normal((time, batch, FEATURES)), jnp.float32)
        lengths = jnp.asarray(rng.integers(1, time + 1, batch), jnp.int32)
        made.append((xs, lengths, jnp.asarray(rng.standard_normal(batch), jnp.float32)))
    return made


PROGRAM = train
#: A length and a number for each sequence.
SHAPES = f"..., t b {FEATURES}, b, b"
