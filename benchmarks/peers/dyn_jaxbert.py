"""The same JAX program, compiled by ``dyn.interop.jax.jit``: one trace by JAX and one compile by dyn."""

from __future__ import annotations

from typing import Any

from benchmarks.peers import jax_bert
from benchmarks.peers.counting import Counting


class Peer(Counting):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        from dyn.interop import jax as dyn_jax

        model = jax_bert.Peer(config, params, threads)
        super().__init__(dyn_jax.jit(model.encode, shapes="..., b s, b s"), model.params)
