"""The same BERT, compiled by ``dyn.interop.torch.jit``."""

from __future__ import annotations

import importlib.metadata
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.peers import torch_hfbert
from benchmarks.samples import Samples
from dyn.interop import torch as dyn_torch
from dyn.requirements import DISTRIBUTION


class Peer(torch_hfbert.Peer):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        super().__init__(config, params, threads)
        self.run = dyn_torch.jit(self.model)
        self.seconds = self.captured_seconds = 0.0

    def __call__(self, *arrays: np.ndarray) -> Tensor:
        compiles, samples = self.run.cache_info().compiles, Samples()
        start = time.perf_counter()
        with samples:
            result = super().__call__(*arrays)
        if self.run.cache_info().compiles > compiles:
            # The whole call counts but for the program's own run: what comes after the compile, too.
            spent = time.perf_counter() - start
            self.seconds += spent * (1 - samples.share("run"))
            self.captured_seconds += spent * samples.share("PyTorch")
        return result

    def compiled(self) -> tuple[int, float]:
        return self.run.cache_info().compiles, self.seconds

    def captured(self) -> float:
        """PyTorch's part of the capture: converters, and what PyTorch asks of sizes, are dyn's."""
        return self.captured_seconds

    def versions(self) -> str:
        return f"dyn {importlib.metadata.version(DISTRIBUTION)} on torch {torch.__version__}"
