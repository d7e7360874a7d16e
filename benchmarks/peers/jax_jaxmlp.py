"""A small multilayer perceptron under ``jax.jit``: a compile for every batch."""

from __future__ import annotations

from typing import Any

import jax

from benchmarks.peers.jitted import Jitted


class Peer(Jitted):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        super().__init__(mlp, params)


def mlp(params: dict[str, Any], x: jax.Array) -> jax.Array:
    """Log probabilities ``(batch, classes)`` of ``x``, ``(batch, features)``."""
    *hidden, last = params["layers"]
    for p in hidden:
        x = jax.nn.relu(x @ p["kernel"] + p["bias"])
    return jax.nn.log_softmax(x @ last["kernel"] + last["bias"])
