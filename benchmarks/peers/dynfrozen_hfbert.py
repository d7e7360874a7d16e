"""The same BERT of Hugging Face, compiled by ``dyn.interop.torch.jit`` with parameters that nothing changes."""

from __future__ import annotations

from typing import Any

from benchmarks.peers import dyn_hfbert
from dyn.interop import torch as dyn_torch


class Peer(dyn_hfbert.Peer):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        super().__init__(config, params, threads)
        self.run = dyn_torch.jit(self.model, freeze=True)
