"""Descriptions of hosts' array types by which the native entry reads and makes them without Python.

What it takes is more than an array's memory: it must see what the host's own ``view`` would refuse or resolve, so that
such an array goes the way through Python.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from dyn.dtypes import DType
from dyn.hosts.base import Host
from dyn.hosts.jax import JaxHost
from dyn.hosts.numpy import NumpyHost
from dyn.hosts.torch import TorchHost, current_stream, device_of
from dyn.runtime.driver import Context
from dyn.runtime.entry.layout import ArrayReader, DLTensor, HeldTensorRecord

#: DLPack's exchange interface: its capsule's name, the major version whose functions lie as here, and which is which.
_EXCHANGE, _MAJOR = b"dlpack_exchange_api", 1
_TO_OBJECT, _READ = 4, 5
#: What PyTorch's objects for tensors, ``c10::TensorImpl``, have at least.
_IMPL_BYTES = 8 * (HeldTensorRecord.FIRST_WORD + HeldTensorRecord.WORD_COUNT)
#: And their storages, ``c10::StorageImpl``.
_STORAGE_BYTES = 48


@dataclass(frozen=True, eq=False)
class NativeType:
    """A type whose arrays, of no subclass, the entry reads.

    ``where`` is the offset of the ndarray in a HOLDER, ``label`` that of what it says once it holds none; ``where`` is
    also the address of DLPack's reading function. ``make`` is the address of the function that makes an array of a
    DLPack tensor, 0 where there is none. The others are what ``HostRecord`` says of PyTorch's.
    """

    type: type
    reader: ArrayReader
    where: int = 0
    make: int = 0
    label: int = 0
    #: The device that arrays are on, the kind and number by which DLPack knows it, and the library's current stream.
    device: Context | None = None
    place: int = DLTensor.CPU
    current: Callable[[], int] | None = None
    #: Whether gradients are computed, for arrays that may require them.
    gradients: Callable[[], bool] | None = None
    impl: int = 0
    keys: int = 0
    odd_keys: int = 0
    storage: int = 0
    data: int = 0

    def dtype_tag(self, dtype: DType) -> int:
        """The word by which the entry sees that an array has the dtype: a type number, an address or DLPack's code."""
        if self.reader is ArrayReader.DLPACK:
            return dtype.dlpack
        return id(dtype.np) if self.reader in _BY_OBJECT else dtype.np.num


_NUMPY = NativeType(np.ndarray, ArrayReader.NUMPY)
#: Readers of arrays whose dtype is an object of NumPy's.
_BY_OBJECT = frozenset({ArrayReader.BUFFER, ArrayReader.ARRAY, ArrayReader.DEVICE_HOLDER})


def native_type(host: Host, value: Any) -> NativeType | None:
    """Description of arrays of just this one's type for the entry; None where it does not read them."""
    kind = type(value)
    if isinstance(host, NumpyHost):
        return _NUMPY if kind is np.ndarray else None
    if isinstance(host, TorchHost):
        torch = sys.modules["torch"]
        known = _exchange_type(kind) if kind in (torch.Tensor, torch.nn.Parameter) else None
        return known if known is None or not value.is_cuda else _exchange_type_on(known, value.device, device_of(value))
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
        return NativeType(kind, ArrayReader.BUFFER)
    return NativeType(kind, ArrayReader.ARRAY) if sys.modules["jax"].default_backend() == "cpu" else None


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
    torch = sys.modules["torch"]
    with torch._C.DisableTorchFunction(), torch.inference_mode(False):  # the samples are plain tensors on the CPU
        keys = _dispatch_keys()
        storage = None if keys is None else _storage(keys[0])
    if keys is None or storage is None:
        return None
    impl, at_keys, odd = keys
    memory, data = storage
    return NativeType(
        kind, ArrayReader.DLPACK, words[_READ], words[_TO_OBJECT], gradients=torch.is_grad_enabled, impl=impl,
        keys=at_keys, odd_keys=odd, storage=memory, data=data,
    )  # fmt: skip


@lru_cache(maxsize=64)
def _exchange_type_on(known: NativeType, device: Any, context: Context) -> NativeType:
    """A tensor type as the native entry reads and makes it on a GPU; its results share the device's memory."""
    torch = sys.modules["torch"]
    with torch._C.DisableTorchFunction(), torch.inference_mode(False):
        keys = torch._C._dispatch_keys(torch.empty((), device=device)).raw_repr()
    place = context.driver.vendor.dlpack | context.ordinal << 32
    return replace(
        known, make=0, device=context, place=place, current=current_stream(device), odd_keys=~keys & (2**64 - 1)
    )


@lru_cache(maxsize=1)
def _dispatch_keys() -> tuple[int, int, int] | None:
    """Where PyTorch's tensors keep their dispatch keys, and the keys that a plain one on the CPU has not; None where
    they are not found.

    The first is the offset in an object of the address of what it stands for, the second that of the keys from there:
    where the keys are that PyTorch tells of tensors of several kinds.
    """
    torch = sys.modules["torch"]
    tell = getattr(torch._C, "_dispatch_keys", None)
    plain, complex = torch.zeros(3, 2), torch.zeros(2, dtype=torch.complex64)
    samples = [plain, plain[1:], complex.conj(), complex.conj().imag, torch.zeros((1,) * 7), torch.nn.Parameter(plain)]
    with torch.inference_mode():
        samples.append(torch.zeros(()))
    if tell is None or not hasattr(tell(plain), "raw_repr") or not hasattr(plain, "_cdata"):
        return None
    told = [tell(sample).raw_repr() for sample in samples]
    word = ctypes.sizeof(ctypes.c_void_p)
    objects = [
        at
        for at in range(object.__basicsize__, torch.Tensor.__basicsize__, word)
        if all(_word(id(sample) + at) == sample._cdata for sample in samples)
    ]
    keys = [
        at
        for at in range(0, _IMPL_BYTES, word)
        if all(_word(sample._cdata + at) == keys for sample, keys in zip(samples, told, strict=True))
    ]
    if len(objects) != 1 or len(keys) != 1 or len({*told}) < 4:
        return None
    return objects[0], keys[0], ~told[0] & (2**64 - 1)


@lru_cache(maxsize=1)
def _storage(impl: int) -> tuple[int, int]:
    """Where the impl of a tensor has the address of its storage, and this that of its memory; zeros where that is not
    found, or where there is something that can be changed of a tensor and does not show in these words."""
    torch = sys.modules["torch"]
    tensors = [torch.zeros(n, 3) for n in (2, 5, 7)]
    storages = [tensor.untyped_storage() for tensor in tensors]
    word = ctypes.sizeof(ctypes.c_void_p)
    at_storage = [
        at
        for at in range(0, _IMPL_BYTES, word)
        if all(_word(one._cdata + at) == storage._cdata for one, storage in zip(tensors, storages, strict=True))
    ]
    at_data = [
        at
        for at in range(word, _STORAGE_BYTES, word)
        if all(_word(storage._cdata + at) == storage.data_ptr() for storage in storages)
    ]
    if len(at_storage) != 1 or not at_data:
        return 0, 0
    complex = torch.zeros(2, dtype=torch.complex64)
    changes: list[tuple[Any, Callable[[Any], Any]]] = [
        (torch.zeros(2, 3), lambda t: t.t_()),
        (torch.zeros(2, 3), lambda t: t.unsqueeze_(0)),
        (torch.zeros(2, 3), lambda t: t.resize_(3, 2)),
        (torch.zeros(2, 3)[:1], lambda t: t.as_strided_((1, 3), (3, 1), 3)),
        (torch.zeros(2, 3), lambda t: t.as_strided_((2, 3), (1, 1))),
        (torch.zeros(1, 1, 1, 1, 2), lambda t: t.transpose_(0, 4)),
        (torch.zeros(2, 3), lambda t: t.set_(torch.zeros(2, 3))),
        (torch.zeros(2, 3), lambda t: t.untyped_storage().resize_(0)),
        (torch.zeros(2, 3), lambda t: setattr(t, "data", torch.zeros(2, 3))),
        (torch.zeros(2, 3), lambda t: setattr(t, "data", t.detach().view(torch.int32))),
        (complex.imag, lambda t: setattr(t, "data", complex.conj().imag)),
        (complex, lambda t: setattr(t, "data", t.detach().conj())),
    ]
    first, count = HeldTensorRecord.FIRST_WORD, HeldTensorRecord.WORD_COUNT

    def words(tensor: Any) -> list[int]:
        address = _word(id(tensor) + impl)
        held = _word(_word(address + at_storage[0]) + at_data[0])
        return [held, *(_word(address + word * at) for at in range(first, first + count))]

    with torch.no_grad():
        for tensor, change in changes:
            before = words(tensor)
            if words(tensor) != before:
                return 0, 0
            change(tensor)
            if words(tensor) == before:
                return 0, 0
    return at_storage[0], at_data[0]


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


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
    return NativeType(kind, ArrayReader.HOLDER, where, label=label_at)


@lru_cache(maxsize=64)
def device_holder(held: NativeType, context: Context) -> NativeType:
    """A type that holds an array, as the native entry reads it where that array lies on a device."""
    return replace(held, reader=ArrayReader.DEVICE_HOLDER, device=context)


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
