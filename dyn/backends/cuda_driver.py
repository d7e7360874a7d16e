"""NVIDIA's driver, asked which GPUs there are: by ctypes, so that the answer needs no package.

The functions and numbers are those of the CUDA Driver API, which keeps them for ever.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76
#: What cuInit answers where all is well but for the hardware.
_ANSWERS = {
    100: "it finds no GPU (CUDA_ERROR_NO_DEVICE)",
    803: "it is older or newer than the kernel's part of it (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)",
    804: "it does not run on this GPU (CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE)",
    999: "the GPU does not answer (CUDA_ERROR_UNKNOWN)",
}


@dataclass(frozen=True, slots=True)
class DriverDevice:
    """A GPU as the driver describes it."""

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    memory: int

    @property
    def arch(self) -> str:
        """``sm_90a``: from compute capability 9.0 on, with the features of that one architecture."""
        major, minor = self.capability
        return f"sm_{major}{minor}{'a' if major >= 9 else ''}"


class NoDriverError(Exception):
    """There is no driver, or it has no GPU; the message says which."""


def driver_devices(library: str = "libcuda.so.1") -> tuple[str, tuple[DriverDevice, ...]]:
    """The newest CUDA version that the driver runs, as ``"13.0"``, and its GPUs in its order.

    Raises NoDriverError.
    """
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        raise NoDriverError(f"NVIDIA's driver is not installed ({library} is not there)") from None
    status = driver.cuInit(0)
    if status:
        raise NoDriverError(f"NVIDIA's driver is installed, and {_ANSWERS.get(status, f'cuInit answers {status}')}")
    version = _number(driver.cuDriverGetVersion)
    count = _number(driver.cuDeviceGetCount)
    found = f"{version // 1000}.{version % 1000 // 10}"
    return found, tuple([_device(driver, _number(driver.cuDeviceGet, ordinal)) for ordinal in range(count)])


def _device(driver: ctypes.CDLL, handle: int) -> DriverDevice:
    name = ctypes.create_string_buffer(256)
    _check(driver.cuDeviceGetName(name, len(name), handle), "cuDeviceGetName")
    memory = ctypes.c_size_t()
    _check(driver.cuDeviceTotalMem_v2(ctypes.byref(memory), handle), "cuDeviceTotalMem")
    count, major, minor = [
        _number(driver.cuDeviceGetAttribute, attribute, handle) for attribute in (_MULTIPROCESSORS, _MAJOR, _MINOR)
    ]
    return DriverDevice(name.value.decode(errors="replace"), (major, minor), count, memory.value)


def _number(function: Any, *arguments: int) -> int:
    value = ctypes.c_int()
    _check(function(ctypes.byref(value), *arguments), function.__name__)
    return value.value


def _check(status: int, name: str) -> None:
    if status:
        raise NoDriverError(f"NVIDIA's driver is installed, and {name} answers {status}")
