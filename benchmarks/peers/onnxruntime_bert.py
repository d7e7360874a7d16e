"""The same PyTorch BERT, exported to ONNX with dynamic dims and run by ONNX Runtime with all of its optimisations."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import Tensor

from benchmarks.peers import torch_bert


class Peer:
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "bert.onnx"
            export(torch_bert.Peer(config, params, threads), path)
            self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        names = (value.name for value in self.session.get_inputs())
        (result,) = self.session.run(None, dict(zip(names, arrays, strict=True)))
        return np.asarray(result)

    def compiled(self) -> tuple[int, float]:
        return 0, 0.0  # an interpreter of graphs: it is optimised once, when it is loaded

    def versions(self) -> str:
        return f"onnxruntime {onnxruntime.__version__}"


class _Module(torch.nn.Module):  # pyright: ignore[reportUntypedBaseClass]  # where PyTorch is not installed
    """The peer's function in the form that the exporter takes."""

    def __init__(self, peer: torch_bert.Peer) -> None:
        super().__init__()
        self.peer = peer

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        return self.peer.encode(ids, mask)


def export(peer: torch_bert.Peer, path: Path) -> None:
    """Write the model, whose batch and length are free."""
    ids, mask = torch.ones((2, 7), dtype=torch.int64), torch.ones((2, 7), dtype=torch.int64)
    axes = {0: "batch", 1: "length"}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of the older exporter, which needs no example of every branch
        torch.onnx.export(
            _Module(peer), (ids, mask), str(path), input_names=["ids", "mask"], output_names=["x"],
            dynamic_axes={"ids": axes, "mask": axes, "x": axes}, dynamo=False, opset_version=18,
        )  # fmt: skip
