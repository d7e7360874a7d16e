"""PyTorch tensors on the CPU. PyTorch is never imported here: where there is a tensor, it has been already."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np

from dyn.errors import UnsupportedOpError
from dyn.hosts.base import NumpyArray
from dyn.source import user_loc


class TorchHost:
    """``torch.Tensor`` and its subclasses."""

    name = "torch"

    def view(self, value: Any) -> NumpyArray:
        """The tensor's own memory. A conjugated or negated view is resolved, which copies it."""
        try:
            return value.numpy()
        except (RuntimeError, TypeError):  # no plain memory on the CPU, a gradient, bfloat16, …
            return self._resolved(value)

    def _resolved(self, value: Any) -> NumpyArray:
        torch = sys.modules["torch"]
        if value.requires_grad and torch.is_grad_enabled():
            raise UnsupportedOpError(
                "a torch tensor that requires grad: gradients do not flow through a compiled function.",
                loc=user_loc(),
                remedy="pass tensor.detach(), or make the call under torch.no_grad().",
            )
        if value.device.type != "cpu":
            raise UnsupportedOpError(
                f"a torch tensor on {value.device}: this version computes on the CPU.",
                loc=user_loc(),
                remedy="pass tensor.cpu().",
            )
        if value.layout is not torch.strided or value.is_quantized:
            kind = "quantized" if value.is_quantized else str(value.layout).removeprefix("torch.")
            raise UnsupportedOpError(
                f"a torch tensor whose elements do not lie in an array ({kind}).",
                loc=user_loc(),
                remedy="pass tensor.dequantize()." if value.is_quantized else "pass tensor.to_dense().",
            )
        value = value.detach().resolve_conj().resolve_neg()
        if value.dtype is torch.bfloat16:
            return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        try:
            return value.numpy()
        except (RuntimeError, TypeError) as error:  # a dtype or a subclass without plain memory
            raise UnsupportedOpError(
                f"a torch tensor of dtype {str(value.dtype).removeprefix('torch.')}: {error}",
                loc=user_loc(),
                remedy="convert it to a dtype that NumPy has as well.",
            ) from None

    def wrap(self, array: NumpyArray) -> Any:
        torch = sys.modules["torch"]
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)
