"""Arrays of other libraries, by the protocols that they speak: ``__array_interface__``, ``__array__``, DLPack.

NumPy reads and writes DLPack, but for bfloat16 and floats of 8 bits, which it does not have. Their bits go through as
unsigned integers; the dtype's code in the capsule says what they are. (https://dmlc.github.io/dlpack/latest/c_api.html)
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import UnsupportedOpError
from dyn.hosts.base import NumpyArray
from dyn.runtime.device_memory import DeviceArray, borrow, is_on_device
from dyn.runtime.driver import Context
from dyn.source import user_loc

#: ``DLDeviceType.kDLCPU``
CPU = 1
_UINT = 1
#: What NumPy does not have, by ``DLDataTypeCode`` and bits.
_BY_CODE = {
    (dtype.dlpack_code, dtype.bits): dtype
    for dtype in (
        dtypes.bfloat16, dtypes.float8_e3m4, dtypes.float8_e4m3, dtypes.float8_e4m3b11fnuz, dtypes.float8_e4m3fn,
        dtypes.float8_e4m3fnuz, dtypes.float8_e5m2, dtypes.float8_e5m2fnuz, dtypes.float8_e8m0fnu,
    )
}  # fmt: skip
#: Where ``DLDataType`` lies in ``DLManagedTensor`` and in ``DLManagedTensorVersioned``, by the capsule's name.
_DTYPE_AT = {b"dltensor": 20, b"dltensor_versioned": 52}
_get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _Renamed:
    """A producer whose capsule says that there are unsigned integers where it said what NumPy does not have."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.dtype: DType | None = None

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.value.__dlpack__(**options)
        code, bits = _code_of(capsule)
        self.dtype = _BY_CODE.get((code.value, bits))
        if self.dtype is not None:
            code.value = _UINT
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.value.__dlpack_device__()


def _code_of(capsule: Any) -> tuple[ctypes.c_uint8, int]:
    """The code of the dtype, which may be changed, and its width, of a capsule that nobody has taken yet."""
    name = _get_name(capsule)
    at = _get_pointer(capsule, name) + _DTYPE_AT[name]
    return ctypes.c_uint8.from_address(at), ctypes.c_uint8.from_address(at + 1).value


def import_dlpack(value: Any) -> NumpyArray:
    """The memory of an object with ``__dlpack__``, as a NumPy array. BufferError or RuntimeError where it cannot be."""
    renamed = _Renamed(value)
    array = np.from_dlpack(renamed)
    return array if renamed.dtype is None else array.view(renamed.dtype.np)


def export_dlpack(array: NumpyArray, **options: Any) -> Any:
    """DLPack capsule for the memory of an array, also of dtypes for which NumPy has no code.

    Args:
        array: array of any dtype.
        **options: those of ``__dlpack__`` in the array API standard.

    Returns:
        A capsule.

    Raises:
        BufferError: if the options ask for what NumPy does not give.
    """
    own = dtypes.dtype(array.dtype)
    if own not in _BY_CODE.values():
        return array.__dlpack__(**options)
    capsule = array.view(f"u{own.itemsize}").__dlpack__(**options)
    _code_of(capsule)[0].value = own.dlpack_code
    return capsule


class ForeignHost:
    """Host of any object with one of the protocols. Its results are ``dyn.Array``: it has no ``wrap`` of its own."""

    name = "foreign"

    def view(self, value: Any) -> NumpyArray:
        if hasattr(value, "__array_interface__") or not hasattr(value, "__dlpack__"):
            return np.asarray(value)
        kind, number = value.__dlpack_device__()
        if int(kind) != CPU:
            raise UnsupportedOpError(
                f"a {type(value).__name__} on device ({int(kind)}, {number}) of DLPack: it cannot be read by this "
                "machine's processor.",
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

    def borrow(self, value: Any) -> NumpyArray | DeviceArray:
        if isinstance(value, DeviceArray):
            return value
        return borrow(value) if hasattr(value, "__dlpack__") and is_on_device(value) else self.view(value)

    def has_device(self, context: Context) -> bool:
        return False

    def wrap(self, array: NumpyArray | DeviceArray) -> Any:
        raise AssertionError("results of foreign arrays are dyn.Array")
