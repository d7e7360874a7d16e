"""How the native entry reads arrays of a type, and makes results of it, without Python in between.

What it takes is more than an array's memory: it must see what the host's own ``view`` would refuse or resolve, so that
such an array goes the way through Python.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dyn.dtypes import DType
from dyn.hosts.base import Host
from dyn.hosts.jax import JaxHost
from dyn.hosts.numpy import NumpyHost
from dyn.hosts.torch import TorchHost
from dyn.runtime.entry.layout import Reader

#: DLPack's exchange interface: its capsule's name, the major version whose functions lie as here, and which is which.
_EXCHANGE, _MAJOR = b"dlpack_exchange_api", 1
_TO_OBJECT, _READ = 4, 5


@dataclass(frozen=True, eq=False)
class NativeType:
    """A type whose arrays, of no subclass, the entry reads.

    ``where`` is the offset of the ndarray in a HOLDER, ``label`` that of what it says once it holds none; ``where`` is
    also the address of DLPack's reading function. ``make`` is the address of the function that makes an array of a
    DLPack tensor, 0 where there is none.
    """

    type: type
    reader: Reader
    where: int = 0
    make: int = 0
    label: int = 0
    #: Whether gradients are computed, for arrays that may require them.
    gradients: Callable[[], bool] | None = None

    def dtype_tag(self, dtype: DType) -> int:
        """What tells the entry that an array has the dtype."""
        if self.reader is Reader.DLPACK:
            return dtype.dlpack
        return id(dtype.np) if self.reader in (Reader.BUFFER, Reader.ARRAY) else dtype.np.num


_NUMPY = NativeType(np.ndarray, Reader.NUMPY)


def native_type(host: Host, value: Any) -> NativeType | None:
    """How the entry reads arrays of a host's such as this one, of just its type; None where it does not."""
    kind = type(value)
    if isinstance(host, NumpyHost):
        return _NUMPY if kind is np.ndarray else None
    if isinstance(host, TorchHost):
        torch = sys.modules["torch"]
        return _exchange_type(kind) if kind in (torch.Tensor, torch.nn.Parameter) else None
    if isinstance(host, JaxHost):
        return _buffer_type(kind, getattr(value.dtype, "isbuiltin", 1) == 1)
    return None


def tensor_maker() -> int:
    """The address of the function that makes PyTorch's results, 0 where there is none."""
    native = _exchange_type(sys.modules["torch"].Tensor)
    return 0 if native is None else native.make


@lru_cache(maxsize=8)
def _buffer_type(kind: type, is_builtin: bool) -> NativeType | None:
    """A type by CPython's buffers, which have the usual dtypes alone. For others JAX makes an ndarray of the memory.

    It would copy an array that is not on the CPU.
    """
    if (kind.__module__, kind.__name__) != ("jaxlib._jax", "ArrayImpl"):
        return None
    if is_builtin:
        return NativeType(kind, Reader.BUFFER)
    return NativeType(kind, Reader.ARRAY) if sys.modules["jax"].default_backend() == "cpu" else None


@lru_cache(maxsize=64)
def _exchange_type(kind: type) -> NativeType | None:
    """A type with DLPack's C exchange interface (https://dmlc.github.io/dlpack/latest/c_api.html); None without it."""
    capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    address = None if capsule is None else _capsule_address(capsule)
    if address is None:
        return None
    words = (ctypes.c_int64 * (_READ + 1)).from_address(address)
    if words[0] & 0xFFFFFFFF != _MAJOR or not words[_READ] or not words[_TO_OBJECT]:
        return None
    gradients = sys.modules["torch"].is_grad_enabled
    return NativeType(kind, Reader.DLPACK, words[_READ], words[_TO_OBJECT], gradients=gradients)


def _capsule_address(capsule: Any) -> int | None:
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    try:
        return pointer(capsule, _EXCHANGE)
    except (ValueError, ctypes.ArgumentError):
        return None


@lru_cache(maxsize=8)
def holder_type(kind: type, attribute: str, label: str) -> NativeType | None:
    """A type with slots for an ndarray and for a label; None where they are not found in its objects."""
    array, text = np.zeros(3), object()
    where, label_at = _slot(kind, attribute, array), _slot(kind, label, text)
    if where is None or label_at is None:
        return None
    return NativeType(kind, Reader.HOLDER, where, label=label_at)


def _slot(kind: type, attribute: str, value: object) -> int | None:
    """The offset of a slot in a type's objects, found by what it is set to."""
    sample = object.__new__(kind)
    setattr(sample, attribute, value)
    found = [
        at
        for at in range(object.__basicsize__, kind.__basicsize__, ctypes.sizeof(ctypes.c_void_p))
        if ctypes.c_int64.from_address(id(sample) + at).value == id(value)
    ]
    return found[0] if len(found) == 1 else None
