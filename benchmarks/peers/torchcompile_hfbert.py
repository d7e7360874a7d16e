"""The same BERT under ``torch.compile(dynamic=True)``, with Inductor's own choices. It needs a C++ compiler."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo import utils

from benchmarks.peers import torch_hfbert

#: What Inductor itself does in a compile: the rest is Dynamo's and AOTAutograd's.
INDUCTOR = "compile_fx_inner"


class Peer(torch_hfbert.Peer):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        super().__init__(config, params, threads)
        self.run = torch.compile(self.model, dynamic=True)

    def compiled(self) -> tuple[int, float]:
        seconds = utils.calculate_time_spent().get("total_wall_time", 0.0)
        return utils.counters["stats"]["unique_graphs"], seconds

    def captured(self) -> float:
        whole = self.compiled()[1]
        return whole - sum(utils.compilation_time_metrics.get(INDUCTOR, [])) if whole else 0.0

    def versions(self) -> str:
        return f"torch.compile {torch.__version__} (Inductor, {torch.backends.cpu.get_cpu_capability()})"
