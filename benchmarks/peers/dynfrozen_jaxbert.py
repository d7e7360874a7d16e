"""The same JAX program, compiled by ``dyn.interop.jax.jit``, which closes over its parameters."""

from __future__ import annotations

from typing import Any

from benchmarks.peers import jax_bert
from benchmarks.peers.counting import Counting


class Peer(Counting):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        from dyn.interop import jax as dyn_jax

        model = jax_bert.Peer(config, params, threads)

        def encode(nothing: tuple[()], ids: Any, mask: Any) -> Any:
            return model.encode(model.params, ids, mask)

        super().__init__(dyn_jax.jit(encode, shapes="..., b s, b s"), ())
