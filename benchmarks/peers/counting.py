"""What the peers have in common that run JAX programs by ``dyn.interop.jax.jit``."""

from __future__ import annotations

import importlib.metadata
import time
from typing import Any

import jax
import numpy as np

from benchmarks.peers.jitted import first
from dyn.requirements import DISTRIBUTION


class Counting:
    """Calls a jitted function on parameters and arrays, and finds out what its compiles took."""

    def __init__(self, jitted: Any, params: Any) -> None:
        self.jitted, self.params = jitted, params
        self.compiles, self.seconds = 0, 0.0
        #: Calls that compiled: their arguments and seconds.
        self.fresh: list[tuple[tuple[np.ndarray, ...], float]] = []

    def __call__(self, *arrays: np.ndarray) -> jax.Array:
        start = time.perf_counter()
        result = first(jax.block_until_ready(self.jitted(self.params, *arrays)))
        seconds = time.perf_counter() - start
        compiles = self.jitted.cache_info()[1]
        if compiles > self.compiles:
            self.compiles = compiles
            self.fresh.append((arrays, seconds))
        return result

    def compiled(self) -> tuple[int, float]:
        # A compile takes what the call took longer than the same call takes now: JAX's trace and the import are in it.
        for arrays, seconds in self.fresh:
            start = time.perf_counter()
            jax.block_until_ready(self.jitted(self.params, *arrays))
            self.seconds += seconds - (time.perf_counter() - start)
        self.fresh.clear()
        return self.compiles, self.seconds

    def versions(self) -> str:
        return f"dyn {importlib.metadata.version(DISTRIBUTION)} on jax {jax.__version__}"
