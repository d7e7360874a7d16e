"""An LSTM over sequences under ``jax.jit``: a loop by ``lax.scan``, compiled for every batch and length."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.peers.jitted import Jitted


class Peer(Jitted):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        super().__init__(lstm, params)


def lstm(params: dict[str, Any], xs: jax.Array) -> jax.Array:
    """Outputs of the cell for each step of ``xs``, ``(time, batch, features)``."""
    width = params["hidden"].shape[0]

    def cell(state: tuple[jax.Array, jax.Array], x: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
        h, c = state
        i, f, g, o = jnp.split(x + h @ params["hidden"], 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((xs.shape[1], width), xs.dtype)
    return jax.lax.scan(cell, (zero, zero), xs @ params["input"] + params["bias"])[1]
