"""The operations of :class:`~benchmarks.gpu.families.Ops`, by dyn and by PyTorch."""

from __future__ import annotations

from typing import Any

import dyn.numpy as dnp
from dyn import nn


class DynOps:
    """By dyn's own namespaces."""

    relu, sigmoid, log_softmax = staticmethod(nn.relu), staticmethod(nn.sigmoid), staticmethod(nn.log_softmax)
    tanh, embedding = staticmethod(dnp.tanh), staticmethod(nn.embedding)

    def gelu(self, x: Any) -> Any:
        return nn.gelu(x, approximate=False)

    def norm(self, x: Any, weight: Any, bias: Any) -> Any:
        return nn.layer_norm(x, weight=weight, bias=bias)

    def conv(self, x: Any, kernel: Any, stride: int = 1) -> Any:
        half = kernel.shape[0] // 2
        return nn.conv(x, kernel, stride, [(half, half)], dimension_numbers=("NWC", "WIO", "NWC"))

    def attention(self, q: Any, k: Any, v: Any, heads: int, mask: Any = None, causal: bool = False) -> Any:
        split = [x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads) for x in (q, k, v)]
        kept = None if mask is None else mask[:, None, None, :]
        return nn.dot_product_attention(*split, mask=kept, is_causal=causal).reshape(q.shape)

    def concat(self, arrays: list[Any]) -> Any:
        return dnp.concat(arrays, axis=1)

    def transposed(self, x: Any) -> Any:
        return dnp.swapaxes(x, 1, 2)


class TorchOps:
    """By ``torch.nn.functional``, as users write it."""

    def __init__(self, torch: Any) -> None:
        self.torch, self.functional = torch, torch.nn.functional
        self.relu, self.sigmoid, self.tanh = torch.relu, torch.sigmoid, torch.tanh
        self.gelu, self.embedding = self.functional.gelu, self.functional.embedding

    def log_softmax(self, x: Any) -> Any:
        return self.functional.log_softmax(x, -1)

    def norm(self, x: Any, weight: Any, bias: Any) -> Any:
        return self.functional.layer_norm(x, x.shape[-1:], weight, bias)

    def conv(self, x: Any, kernel: Any, stride: int = 1) -> Any:
        half = kernel.shape[0] // 2
        made = self.functional.conv1d(x.transpose(1, 2), kernel.permute(2, 1, 0), stride=stride, padding=half)
        return made.transpose(1, 2)

    def attention(self, q: Any, k: Any, v: Any, heads: int, mask: Any = None, causal: bool = False) -> Any:
        split = [x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v)]
        kept = None if mask is None else mask[:, None, None, :]
        made = self.functional.scaled_dot_product_attention(*split, attn_mask=kept, is_causal=causal)
        return made.transpose(1, 2).flatten(2)

    def concat(self, arrays: list[Any]) -> Any:
        return self.torch.cat(arrays, 1)

    def transposed(self, x: Any) -> Any:
        return x.transpose(1, 2)
