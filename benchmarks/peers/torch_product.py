"""A product of matrices by eager PyTorch, whose products are oneDNN's and MKL's.

Captured weights are what a module's parameters are: nothing is packed, but of one row weights of int8 with a scale for
each column go to the operation that PyTorch has for them, in the order that it wants.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from benchmarks.products.product import GROUP, Product
from benchmarks.products.rotation import Rotation


class Peer(Rotation):
    def __init__(self, config: dict[str, Any], params: dict[str, Any], threads: int) -> None:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        product = Product(**config)
        x = _tensor(params["x"])
        x = x.mT if product.transposed_left else x
        scales = _tensor(params["scales"]) if product.scales else None
        weights = [w.mT if product.transposed_right else w for w in map(_tensor, params["weights"])]
        version = f"torch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()})"
        super().__init__([_call(product, x, w, scales) for w in weights], version)

    def to_numpy(self, result: Any) -> np.ndarray:
        return (result.float() if result.is_floating_point() else result).numpy()


def _call(product: Product, x: Tensor, w: Tensor, scales: Tensor | None) -> Callable[[], Tensor]:
    if scales is not None:
        return _scaled(product, x, w, scales)
    if product.dtype == "int8":
        return lambda: torch.ops.aten._int_mm(x, w)
    return lambda: x @ w


def _scaled(product: Product, x: Tensor, w: Tensor, scales: Tensor) -> Callable[[], Tensor]:
    if product.scales == "groups":
        grouped = scales[:, None, :]
        return lambda: x @ (w.view(-1, GROUP, product.columns).float() * grouped).view(product.depth, -1)
    if not product.captured or product.rows > 1:  # its operation has but a slow loop for more rows of float32
        return lambda: x @ (w.float() * scales)
    packed = w.t().contiguous()
    return lambda: torch.ops.aten._weight_int8pack_mm(x, packed, scales)


def _tensor(array: np.ndarray) -> Tensor:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)
