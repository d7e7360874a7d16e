"""The same PyTorch BERT under ``torch.compile(dynamic=True)``, with Inductor's own choices. It needs a C++ compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._dynamo import utils

from benchmarks.peers import torch_bert


class Peer(torch_bert.Peer):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        super().__init__(config, params, threads)
        self.run = torch.compile(self.encode, dynamic=True)

    @torch.no_grad()
    def __call__(self, *arrays: np.ndarray) -> Tensor:
        return self.run(*(torch.from_numpy(array) for array in arrays))

    def compiled(self) -> tuple[int, float]:
        seconds = utils.calculate_time_spent().get("total_wall_time", 0.0)
        return utils.counters["stats"]["unique_graphs"], seconds

    def versions(self) -> str:
        return f"torch.compile {torch.__version__} (Inductor, {torch.backends.cpu.get_cpu_capability()})"
