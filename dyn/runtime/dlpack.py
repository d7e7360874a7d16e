"""DLPack capsules of memory that NumPy cannot describe: on devices. (https://dmlc.github.io/dlpack/latest/c_api.html)"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from dyn.frozen import record

_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"
_USED = {_PLAIN: b"used_dltensor", _VERSIONED: b"used_dltensor_versioned"}
_READ_ONLY = 1


class _DLTensorStruct(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("number", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )


_DELETER = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _DLTensorStruct), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensorStruct),
    )


_KINDS: dict[bytes, type[Any]] = {_PLAIN: _Managed, _VERSIONED: _ManagedVersioned}
_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", ctypes.pythonapi)
)
_get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_set_name = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
# Of a capsule that is about to end: no reference to it may be made.
_dying_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_GetName", ctypes.pythonapi))
_dying_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

#: Tensors that others hold, with what keeps them and their memory alive, by address.
_held: dict[int, tuple[Any, ...]] = {}


def _delete(address: int | None) -> None:
    _held.pop(address or 0, None)


def _end(capsule: int | None) -> None:
    name = _dying_name(capsule)
    if name in _KINDS:  # nobody has taken the tensor
        _delete(_dying_pointer(capsule, name))


# Others call these as long as the process lives.
_deleter, _destructor = _DELETER(_delete), _DELETER(_end)
_deleter_address = ctypes.cast(_deleter, ctypes.c_void_p)
_destructor_address = ctypes.cast(_destructor, ctypes.c_void_p)


@record()
class DeviceTensor:
    """A tensor as DLPack describes it: ``dtype`` is its ``DLDataType`` as one number, strides are in elements."""

    address: int
    device: tuple[int, int]
    dtype: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None

    def is_dense(self) -> bool:
        """Whether elements lie row by row."""
        if self.strides is None or 0 in self.shape:
            return True
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != step:
                return False
            step *= size
        return True


def export_capsule(tensor: DeviceTensor, owner: object, *, versioned: bool) -> Any:
    """A capsule for memory that nobody writes to, which keeps ``owner`` alive until its taker is done with it."""
    name = _VERSIONED if versioned else _PLAIN
    made = _KINDS[name]()
    rank = len(tensor.shape)
    shape = (ctypes.c_int64 * max(rank, 1))(*tensor.shape)
    steps = [1] * rank
    for axis in reversed(range(rank - 1)):
        steps[axis] = steps[axis + 1] * max(tensor.shape[axis + 1], 1)
    strides = (ctypes.c_int64 * max(rank, 1))(*steps)
    inner = made.tensor
    inner.data, (inner.device, inner.number), inner.rank = tensor.address, tensor.device, rank
    inner.code, inner.bits, inner.lanes = tensor.dtype & 255, tensor.dtype >> 8 & 255, tensor.dtype >> 16
    inner.shape, inner.strides = shape, strides
    made.deleter = _deleter_address
    if versioned:
        made.major, made.minor, made.flags = 1, 0, _READ_ONLY
    address = ctypes.addressof(made)
    _held[address] = (made, shape, strides, owner)
    return _new(address, name, _destructor_address)


class _ImportedTensor:
    """Holder of a tensor that a capsule was for; gives it back at its end."""

    def __init__(self, address: int, delete: Callable[[int], None] | None) -> None:
        self.address, self.delete = address, delete

    def __del__(self) -> None:
        if self.delete is not None:
            self.delete(self.address)


def import_capsule(capsule: Any) -> tuple[DeviceTensor, object]:
    """The tensor of a capsule, and what keeps its memory alive."""
    name = _get_name(capsule)
    if name not in _KINDS:
        raise TypeError("this is no DLPack capsule, or somebody has taken it already")
    address = _get_pointer(capsule, name)
    found = _KINDS[name].from_address(address)
    inner = found.tensor
    rank = inner.rank
    shape, strides = tuple(inner.shape[:rank]), tuple(inner.strides[:rank]) if inner.strides else None
    dtype = inner.code | inner.bits << 8 | inner.lanes << 16
    tensor = DeviceTensor((inner.data or 0) + inner.offset, (inner.device, inner.number), dtype, shape, strides)
    _set_name(capsule, _USED[name])
    return tensor, _ImportedTensor(address, _DELETER(found.deleter) if found.deleter else None)
