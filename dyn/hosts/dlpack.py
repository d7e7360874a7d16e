"""Arrays of other libraries, by the protocols that they speak: ``__array_interface__``, ``__array__``, DLPack.

NumPy reads and writes DLPack, but for bfloat16, which it does not have. Its bits go through as uint16; the dtype's code
in the capsule says what they are. (https://dmlc.github.io/dlpack/latest/c_api.html)
"""

from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np

from dyn.errors import UnsupportedOpError
from dyn.hosts.base import NumpyArray
from dyn.source import user_loc

#: ``DLDeviceType.kDLCPU``
CPU = 1
_UINT, _BFLOAT = 1, 4
#: Where ``DLDataType`` lies in ``DLManagedTensor`` and in ``DLManagedTensorVersioned``, by the capsule's name.
_DTYPE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}
_get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _Renamed:
    """A producer whose capsule says uint16 where it said bfloat16."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.bfloat16 = False

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.value.__dlpack__(**options)
        self.bfloat16 = _rename(capsule, _BFLOAT, _UINT)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.value.__dlpack_device__()


def _rename(capsule: Any, old: int, new: int) -> bool:
    """Change the code of a 16-bit dtype in a capsule that nobody has taken yet; whether there was one."""
    name = _get_name(capsule)
    at = _get_pointer(capsule, name) + _DTYPE_AT[name]
    code = ctypes.c_uint8.from_address(at)
    if code.value != old or ctypes.c_uint8.from_address(at + 1).value != 16:
        return False
    code.value = new
    return True


def import_dlpack(value: Any) -> NumpyArray:
    """The memory of an object with ``__dlpack__``, as a NumPy array. BufferError or RuntimeError where it cannot be."""
    renamed = _Renamed(value)
    array = np.from_dlpack(renamed)
    return array.view(ml_dtypes.bfloat16) if renamed.bfloat16 else array


def export_dlpack(array: NumpyArray, **options: Any) -> Any:
    """A capsule for the memory of an array; ``options`` are those of ``__dlpack__``."""
    if array.dtype != ml_dtypes.bfloat16:
        return array.__dlpack__(**options)
    capsule = array.view(np.uint16).__dlpack__(**options)
    _rename(capsule, _UINT, _BFLOAT)
    return capsule


class ForeignHost:
    """Any object with one of the protocols. Its results are ``dyn.Array``, so that it has no ``wrap`` of its own."""

    name = "foreign"

    def view(self, value: Any) -> NumpyArray:
        if hasattr(value, "__array_interface__") or not hasattr(value, "__dlpack__"):
            return np.asarray(value)
        kind, number = value.__dlpack_device__()
        if int(kind) != CPU:
            raise UnsupportedOpError(
                f"a {type(value).__name__} on device ({int(kind)}, {number}) of DLPack: this version computes on the "
                "CPU.",
                loc=user_loc(),
                remedy="copy it to the CPU first.",
            )
        try:
            return import_dlpack(value)
        except (BufferError, RuntimeError, TypeError) as error:
            if hasattr(value, "__array__"):
                return np.asarray(value)
            raise UnsupportedOpError(
                f"a {type(value).__name__} that does not give its elements: {error}",
                loc=user_loc(),
                remedy="convert it to a NumPy array first.",
            ) from None

    def wrap(self, array: NumpyArray) -> Any:
        raise AssertionError("results of foreign arrays are dyn.Array")
