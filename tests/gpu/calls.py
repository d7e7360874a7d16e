"""The drivers' functions under one name for both vendors, so that one test is for both."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_size_t, c_uint, c_ulonglong, c_void_p
from typing import Any

import numpy as np

from tests.gpu.software import SoftwareGpu

Array = np.ndarray[Any, Any]
#: A stream that does not wait for the default stream.
NON_BLOCKING = 1
_HIP = {
    "MemAlloc_v2": "Malloc", "MemFree_v2": "Free", "MemAllocAsync": "MallocAsync", "MemFreeAsync": "FreeAsync",
    "MemHostAlloc": "HostMalloc", "MemFreeHost": "HostFree", "CtxSynchronize": "DeviceSynchronize",
    "LaunchKernel": "ModuleLaunchKernel", "StreamCreate": "StreamCreateWithFlags",
    "EventCreate": "EventCreateWithFlags", "MemHostRegister_v2": "HostRegister", "MemHostUnregister": "HostUnregister",
}  # fmt: skip


class DriverError(Exception):
    """What the driver answers, where that is no success."""

    def __init__(self, name: str, status: int) -> None:
        super().__init__(f"{name} answers {status}")
        self.status = status


class Calls:
    """A driver with a context on its device 0."""

    def __init__(self, gpu: SoftwareGpu) -> None:
        self.gpu, self.cuda = gpu, gpu.family == "cuda"
        self("Init", 0)
        self.use_device(0)

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call a function by CUDA's name without ``cu``. Raises DriverError."""
        known = f"cu{name}" if self.cuda else "hip" + _HIP.get(name, name.removesuffix("_v2"))
        status = getattr(self.gpu.library, known)(*arguments)
        if status:
            raise DriverError(known, status)

    def _new(self, kind: Any, name: str, *arguments: Any) -> int:
        value = kind()
        self(name, byref(value), *arguments)
        return value.value or 0

    def use_device(self, number: int) -> None:
        if not self.cuda:
            return self("SetDevice", number)
        return self("CtxSetCurrent", c_void_p(self._new(c_void_p, "DevicePrimaryCtxRetain", number)))

    def reset(self) -> None:
        if self.cuda:
            self("DevicePrimaryCtxReset_v2", 0)
        else:
            self("DeviceReset")

    def function(self, image: bytes, name: str) -> int:
        module = self._new(c_void_p, "ModuleLoadData", image)
        return self._new(c_void_p, "ModuleGetFunction", c_void_p(module), name.encode())

    def alloc(self, size: int, stream: int | None = None) -> int:
        """Memory, or memory of the pool in the order of a stream."""
        if stream is None:
            return self._new(c_void_p, "MemAlloc_v2", c_size_t(size))
        return self._new(c_void_p, "MemAllocAsync", c_size_t(size), c_void_p(stream))

    def free(self, address: int, stream: int | None = None) -> None:
        if stream is None:
            self("MemFree_v2", c_void_p(address))
        else:
            self("MemFreeAsync", c_void_p(address), c_void_p(stream))

    def pinned(self, size: int) -> Array:
        """Page-locked memory of the host, as bytes; freed by its address."""
        address = self._new(c_void_p, "MemHostAlloc", c_size_t(size), 0)
        return np.ctypeslib.as_array((ctypes.c_ubyte * size).from_address(address))

    def free_pinned(self, array: Array) -> None:
        self("MemFreeHost", c_void_p(array.ctypes.data))

    def stream(self, flags: int = NON_BLOCKING) -> int:
        return self._new(c_void_p, "StreamCreate", flags)

    def event(self, stream: int) -> int:
        """A new event, recorded on a stream."""
        event = self._new(c_void_p, "EventCreate", 0)
        self("EventRecord", c_void_p(event), c_void_p(stream))
        return event

    def wait(self, stream: int, event: int) -> None:
        self("StreamWaitEvent", c_void_p(stream), c_void_p(event), 0)

    def synchronize(self, stream: int | None = None) -> None:
        if stream is None:
            self("CtxSynchronize")
        else:
            self("StreamSynchronize", c_void_p(stream))

    def copy_in(self, to: int, array: Array, stream: int | None = None) -> None:
        source, size = c_void_p(array.ctypes.data), c_size_t(array.nbytes)
        if stream is None:
            self("MemcpyHtoD_v2", c_void_p(to), source, size)
        else:
            self(f"MemcpyHtoDAsync{'_v2' if self.cuda else ''}", c_void_p(to), source, size, c_void_p(stream))

    def copy_out(self, array: Array, source: int, stream: int | None = None) -> None:
        to, size = c_void_p(array.ctypes.data), c_size_t(array.nbytes)
        if stream is None:
            self("MemcpyDtoH_v2", to, c_void_p(source), size)
        else:
            self(f"MemcpyDtoHAsync{'_v2' if self.cuda else ''}", to, c_void_p(source), size, c_void_p(stream))

    def launch(
        self, function: int, *words: int, grid: int = 1, block: int = 64, shared: int = 0, stream: int = 0
    ) -> None:
        """Launch a kernel of pointers and 64-bit integers."""
        values = [c_ulonglong(word & (1 << 64) - 1) for word in words]
        pointers = (c_void_p * max(len(values), 1))(*[ctypes.addressof(value) for value in values])
        sizes = [c_uint(size) for size in (grid, 1, 1, block, 1, 1, shared)]
        self("LaunchKernel", c_void_p(function), *sizes, c_void_p(stream), pointers, None)

    def host_function(self, function: Any, stream: int) -> None:
        self("LaunchHostFunc", c_void_p(stream), function, None)


HOST_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)
