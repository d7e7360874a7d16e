"""PyTorch tensors on the CPU and on GPUs. PyTorch is never imported here: where there is a tensor, it has been."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import UnsupportedOpError
from dyn.hosts.base import NumpyArray
from dyn.runtime.device_memory import DeviceArray
from dyn.runtime.driver import Context, context_of
from dyn.source import user_loc

#: Dtypes that NumPy has not of its own, by their names here and in PyTorch.
_OWN = frozenset(d.name for d in (dtypes.bfloat16, *dtypes.FLOAT8))


def _bits(dtype: DType) -> Any:
    """PyTorch's integers of that width, which NumPy takes."""
    torch = sys.modules["torch"]
    return torch.int16 if dtype.bits == 16 else torch.int8


def _with_rows(array: NumpyArray) -> NumpyArray:
    """An array without elements with the strides that PyTorch gives it: a size of 0 counts as 1. Others as they are."""
    if array.size:
        return array
    strides, step = [0] * array.ndim, array.itemsize
    for axis in reversed(range(array.ndim)):
        strides[axis] = step
        step *= max(array.shape[axis], 1)
    return np.lib.stride_tricks.as_strided(array, strides=strides)


def current_stream(device: Any) -> Callable[[], int]:
    """A function of the current stream of PyTorch's on a device."""
    torch = sys.modules["torch"]
    ask = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # what PyTorch's own generated code calls
    return (lambda: torch.cuda.current_stream(device).cuda_stream) if ask is None else partial(ask, device.index)


def device_of(value: Any) -> Context:
    """The GPU that a tensor is on."""
    return context_of("cuda" if sys.modules["torch"].version.hip is None else "rocm", value.device.index)


class TorchHost:
    """``torch.Tensor`` and its subclasses."""

    name = "torch"

    def view(self, value: Any) -> NumpyArray:
        """The tensor's own memory, which PyTorch resizes no more. A conjugated or negated view is copied."""
        try:
            return value.numpy()
        except (RuntimeError, TypeError):  # no plain memory on the CPU, a gradient, bfloat16, …
            return self._resolved(value)

    def borrow(self, value: Any) -> NumpyArray | DeviceArray:
        """:meth:`view` for no longer than a call lasts: PyTorch may resize the memory afterwards."""
        torch = sys.modules["torch"]
        if value.is_cuda:  # what PyTorch calls AMD's GPUs, too
            return self._on_device(value, lambda device: current_stream(device)())
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.is_neg() or value._is_zerotensor():
            return self.view(value)
        name = str(value.dtype).removeprefix("torch.")
        own = dtypes.dtype(name) if name in _OWN else None
        try:
            array = np.from_dlpack(value if own is None else value.view(_bits(own)))
        except (RuntimeError, TypeError, BufferError):  # as in view
            return self.view(value)
        if not array.flags.writeable:  # a PyTorch whose capsules do not say that they may be written to
            return self.view(value)
        return array if own is None else array.view(own.np)

    def captured(self, value: Any) -> NumpyArray | DeviceArray:
        """:meth:`borrow` for as long as the tensor lies where it does. One on a GPU belongs to whichever stream is
        PyTorch's current one at a call, as in PyTorch."""
        return self._on_device(value, current_stream) if value.is_cuda else self.borrow(value)

    def _on_device(self, value: Any, stream: Callable[[Any], Any]) -> DeviceArray:
        """A tensor on a GPU. One that does not lie row by row is copied by PyTorch, on its current stream."""
        self._refuse_gradient(value)
        dense = value.detach().resolve_conj().resolve_neg().contiguous()
        own = dtypes.dtype(str(value.dtype).removeprefix("torch.")).np
        return DeviceArray(device_of(value), dense.data_ptr(), tuple(dense.shape), own, dense, stream(value.device))

    def _refuse_gradient(self, value: Any) -> None:
        if value.requires_grad and sys.modules["torch"].is_grad_enabled():
            raise UnsupportedOpError(
                "a torch tensor that requires grad: gradients do not flow through a compiled function.",
                loc=user_loc(),
                remedy="pass tensor.detach(), or make the call under torch.no_grad().",
            )

    def _resolved(self, value: Any) -> NumpyArray:
        torch = sys.modules["torch"]
        self._refuse_gradient(value)
        if value.device.type != "cpu":
            raise UnsupportedOpError(
                f"a torch tensor on {value.device}: it cannot be read by this machine's processor.",
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
        name = str(value.dtype).removeprefix("torch.")
        if name in _OWN:
            own = dtypes.dtype(name)
            return value.view(_bits(own)).numpy().view(own.np)
        try:
            return value.numpy()
        except (RuntimeError, TypeError) as error:  # a dtype or a subclass without plain memory
            raise UnsupportedOpError(
                f"a torch tensor of dtype {name}: {error}",
                loc=user_loc(),
                remedy="convert it to a dtype that NumPy has as well.",
            ) from None

    def has_device(self, context: Context) -> bool:
        torch = sys.modules["torch"]
        family = "cuda" if torch.version.hip is None else "rocm"
        return torch.cuda.is_available() and context.driver.vendor.family == family

    def wrap(self, array: NumpyArray | DeviceArray) -> Any:
        torch = sys.modules["torch"]
        if isinstance(array, DeviceArray):
            return torch.from_dlpack(array)
        own = array.dtype.name
        if own not in _OWN:
            return torch.from_numpy(_with_rows(array))
        if not hasattr(torch, own):
            raise UnsupportedOpError(
                f"a result of dtype {own}, which torch {torch.__version__} does not have.",
                loc=user_loc(),
                remedy="convert it with .astype before it is returned.",
            )
        bits = _with_rows(array.view(f"i{array.itemsize}"))
        return torch.from_numpy(bits).view(getattr(torch, own))
