"""Base of the peers that run JAX programs under ``jax.jit``: a compile for every shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.tree import map_leaves

#: The stages of a compile, as JAX's monitoring names them; the last is XLA's own, and happens once for each compile.
STAGES = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


class Jitted:
    """Calls a function of parameters and arrays, and counts what is compiled for it."""

    def __init__(self, function: Callable[..., Any], params: Any) -> None:
        self.params = as_jax(params)
        self.compiles, self.seconds = 0, 0.0
        self.run = jax.jit(function)
        jax.monitoring.register_event_duration_secs_listener(self.count)

    def __call__(self, *arrays: np.ndarray) -> jax.Array:
        return first(jax.block_until_ready(self.run(self.params, *arrays)))

    def count(self, event: str, duration_secs: float, **_: Any) -> None:
        if event in STAGES:
            self.seconds += duration_secs
            self.compiles += event == STAGES[-1]

    def compiled(self) -> tuple[int, float]:
        return self.compiles, self.seconds

    def versions(self) -> str:
        return f"jax {jax.__version__} (XLA, {jax.default_backend()})"


def as_jax(params: Any) -> Any:
    return map_leaves(lambda _, array: jnp.asarray(array), params)


def first(results: Any) -> jax.Array:
    """The result that is compared with another peer's: all that a program has, or the first of several."""
    return results[0] if isinstance(results, tuple) else results
