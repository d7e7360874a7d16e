"""The same BERT, compiled by ``dyn.interop.torch.jit``."""

from __future__ import annotations

import importlib.metadata
import re
from typing import Any

import torch

from benchmarks.peers import torch_hfbert
from dyn.interop import torch as dyn_torch


class Peer(torch_hfbert.Peer):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        super().__init__(config, params, threads)
        self.run = dyn_torch.jit(self.model)

    def compiled(self) -> tuple[int, float]:
        info = self.run.cache_info()
        return info.compiles, info.compile_seconds

    def captured(self) -> float:
        return sum(float(found) / 1000 for found in re.findall(r"^ +trace ([\d.]+) ms$", str(self.run.explain()), re.M))

    def versions(self) -> str:
        return f"dyn {importlib.metadata.version('dyn')} on torch {torch.__version__}"
