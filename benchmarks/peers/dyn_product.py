"""A product of matrices by ``dyn.jit``. The number of threads is set from outside, by affinity."""

from __future__ import annotations

import functools
import importlib.metadata
from typing import Any

import dyn
from benchmarks.products.product import Product
from benchmarks.products.rotation import Rotation
from dyn.requirements import DISTRIBUTION


class Peer(Rotation):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        product = Product(**config)
        x, scales = params["x"], [params["scales"]] if product.scales else []

        def captured(weight: Any) -> Any:
            w, *own = map(dyn.asarray, (weight, *scales))  # which nothing can change, as constants of others
            return dyn.jit(lambda x: product.compute(dyn, x, w, *own))

        if product.captured:
            calls = [functools.partial(captured(w), x) for w in params["weights"]]
        else:
            f = dyn.jit(functools.partial(product.compute, dyn))
            calls = [functools.partial(f, x, w, *scales) for w in params["weights"]]
        super().__init__(calls, f"dyn {importlib.metadata.version(DISTRIBUTION)}")
