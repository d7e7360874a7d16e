"""A small multilayer perceptron under ``jax.jit``: a compile for every batch."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers.jax_bert import STAGES
from benchmarks.tree import map_leaves


class Peer:
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        self.params = map_leaves(lambda _, array: jnp.asarray(array), params)
        self.compiles, self.seconds = 0, 0.0
        self.run = jax.jit(mlp)
        jax.monitoring.register_event_duration_secs_listener(self.count)

    def __call__(self, *arrays: np.ndarray) -> jax.Array:
        return self.run(self.params, *arrays).block_until_ready()

    def count(self, event: str, duration_secs: float, **_: Any) -> None:
        if event in STAGES:
            self.seconds += duration_secs
            self.compiles += event == STAGES[-1]

    def compiled(self) -> tuple[int, float]:
        return self.compiles, self.seconds

    def versions(self) -> str:
        return f"jax {jax.__version__} (XLA, {jax.default_backend()})"


def mlp(params: dict[str, Any], x: jax.Array) -> jax.Array:
    """Log probabilities ``(batch, classes)`` of ``x``, ``(batch, features)``."""
    *hidden, last = params["layers"]
    for p in hidden:
        x = jax.nn.relu(x @ p["kernel"] + p["bias"])
    return jax.nn.log_softmax(x @ last["kernel"] + last["bias"])
