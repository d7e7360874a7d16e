"""A product of matrices by ``jax.jit``. XLA takes a thread for each CPU it may run on: affinity is set from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from benchmarks.products.product import Product
from benchmarks.products.rotation import Rotation


class Peer(Rotation):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        product = Product(**config)
        x, *weights = (jax.numpy.asarray(array) for array in (params["x"], *params["weights"]))
        scales = [jax.numpy.asarray(params["scales"])] if product.scales else []

        @jax.jit
        def f(x: Any, w: Any, *scales: Any) -> Any:
            return product.compute(jax, x, w, *scales)

        def call(w: Any) -> Callable[[], Any]:
            if product.captured:
                own = jax.jit(lambda x: product.compute(jax, x, w, *scales))
                return lambda: own(x).block_until_ready()
            return lambda: f(x, w, *scales).block_until_ready()

        super().__init__([call(w) for w in weights], f"jax {jax.__version__} (XLA)")
