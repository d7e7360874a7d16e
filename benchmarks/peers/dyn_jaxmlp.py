"""The same perceptron, compiled by ``dyn.interop.jax.jit``."""

from __future__ import annotations

from typing import Any

from benchmarks.peers.counting import Counting
from benchmarks.peers.jax_jaxmlp import mlp
from benchmarks.peers.jitted import as_jax


class Peer(Counting):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        from dyn.interop import jax as dyn_jax

        super().__init__(dyn_jax.jit(mlp), as_jax(params))
