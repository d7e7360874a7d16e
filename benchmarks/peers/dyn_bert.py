"""BERT in dyn: the example's own model, compiled once."""

from __future__ import annotations

import importlib.metadata
import time
from typing import Any

import numpy as np

import dyn
from dyn.requirements import DISTRIBUTION
from examples.bert import BertConfig, encode


class Peer:
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        bert = BertConfig(**config)
        self.seconds = 0.0

        @dyn.jit(shapes="b s, b s", constraints=f"s <= {bert.positions}")
        def model(ids: Any, mask: Any) -> Any:
            return encode(params, ids, mask, config=bert)

        self.model = model
        self.compiles = 0
        #: Calls that compiled: their arguments and seconds.
        self.fresh: list[tuple[tuple[np.ndarray, ...], float]] = []

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        start = time.perf_counter()
        result = self.model(*arrays)
        seconds = time.perf_counter() - start
        compiles = self.model.cache_info().compiles
        if compiles > self.compiles:
            self.compiles = compiles
            self.fresh.append((arrays, seconds))
        return result

    def compiled(self) -> tuple[int, float]:
        # A compile takes what the call took longer than the same call takes now: tracing and loading are in it.
        for arrays, seconds in self.fresh:
            start = time.perf_counter()
            self.model(*arrays)
            self.seconds += seconds - (time.perf_counter() - start)
        self.fresh.clear()
        return self.compiles, self.seconds

    def versions(self) -> str:
        return f"dyn {importlib.metadata.version(DISTRIBUTION)}"
