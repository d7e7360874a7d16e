"""The same perceptron, compiled by ``dyn.interop.jax.jit``."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from benchmarks.peers.counting import Counting
from benchmarks.peers.jax_jaxmlp import mlp
from benchmarks.tree import map_leaves


class Peer(Counting):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        from dyn.interop import jax as dyn_jax

        super().__init__(dyn_jax.jit(mlp), map_leaves(lambda _, array: jnp.asarray(array), params))
