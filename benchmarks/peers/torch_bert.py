"""BERT in eager PyTorch as it is written for speed: fused attention, fused layer norm, inference mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.tree import map_leaves


class Peer:
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        torch.set_num_threads(threads)
        if torch.get_num_interop_threads() != 1:  # may be set once in a process
            torch.set_num_interop_threads(1)
        self.heads: int = config["heads"]
        self.epsilon: float = config["epsilon"]
        # F.linear wants [outputs, inputs], and is quickest where that is how they lie in memory.
        self.params = map_leaves(
            lambda name, array: torch.from_numpy(np.ascontiguousarray(array.T) if name == "kernel" else array), params
        )

    @torch.inference_mode()
    def __call__(self, *arrays: np.ndarray) -> Tensor:
        return self.encode(*(torch.from_numpy(array) for array in arrays))

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        params = self.params
        p = params["embeddings"]
        x = F.embedding(ids, p["word"]) + p["position"][: ids.shape[1]] + p["token_type"][0]
        x = self.norm(p["norm"], x)
        bias = torch.zeros(mask.shape).masked_fill_(mask == 0, -1e9)[:, None, None, :]
        for layer in params["layers"]:
            x = self.norm(layer["attention_norm"], x + self.attend(layer, x, bias))
            up = F.gelu(self.dense(layer["intermediate"], x))
            x = self.norm(layer["output_norm"], x + self.dense(layer["output"], up))
        return x

    def attend(self, layer: dict[str, Any], x: Tensor, bias: Tensor) -> Tensor:
        b, s, width = x.shape
        query, key, value = (
            self.dense(layer[name], x).view(b, s, self.heads, -1).transpose(1, 2) for name in ("query", "key", "value")
        )
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        return self.dense(layer["attention_output"], mixed.transpose(1, 2).reshape(b, s, width))

    def dense(self, p: dict[str, Tensor], x: Tensor) -> Tensor:
        return F.linear(x, p["kernel"], p["bias"])

    def norm(self, p: dict[str, Tensor], x: Tensor) -> Tensor:
        return F.layer_norm(x, p["scale"].shape, p["scale"], p["bias"], self.epsilon)

    def compiled(self) -> tuple[int, float]:
        return 0, 0.0

    def versions(self) -> str:
        blas = "MKL" if torch.backends.mkl.is_available() else "no MKL"
        return f"torch {torch.__version__} ({blas}, {torch.backends.cpu.get_cpu_capability()})"
