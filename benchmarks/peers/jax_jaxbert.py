"""BERT as a JAX program, under ``jax.jit``: the same as the peer of ``bert``."""

from benchmarks.peers.jax_bert import Peer

__all__ = ["Peer"]
