"""Arrays in the memory of GPUs: where they lie, who holds them, and how they are copied to and from this machine's.

An array belongs to a stream, on which what computes it was launched. Whoever uses it on another stream has that one
wait (:meth:`DeviceArray.ready_on`), and memory goes back to the driver on the stream that it came from, behind all of
it.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.errors import INVALID_HANDLE, ArgumentError, UnsupportedOpError
from dyn.runtime.dlpack import DeviceTensor, export_capsule, import_capsule
from dyn.runtime.driver import Context, context_of
from dyn.runtime.staging import staging
from dyn.runtime.vendors import VENDORS

NumpyArray = np.ndarray[Any, Any]

#: The stream of a device that every other one waits for, and that waits for them.
DEFAULT_STREAM = 0


#: References to an object in one slot, while they are counted.
_ONE_HOLDER = 2


class DeviceBlock:
    """Memory of a device that the driver has given on a stream, and that goes back when nobody holds it any more."""

    __slots__ = ("__weakref__", "address", "context", "stream")

    def __init__(self, context: Context, address: int, stream: int) -> None:
        self.context, self.address, self.stream = context, address, stream

    @staticmethod
    def allocate(context: Context, nbytes: int, stream: int = DEFAULT_STREAM) -> DeviceBlock:
        """A new block; MemoryError where there is no memory."""
        address = ctypes.c_void_p()
        with context.current():
            arguments = (ctypes.byref(address), ctypes.c_size_t(max(nbytes, 1)), ctypes.c_void_p(stream))
            context.driver.call("alloc", *arguments)
        return DeviceBlock(context, address.value or 0, stream)

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if is_finalizing():  # the process gives all of it back, and this module may be empty already
            return
        try:
            context, address = self.context, ctypes.c_void_p(self.address)
            with context.current():
                if context.driver.answer("free", address, ctypes.c_void_p(self.stream)) == INVALID_HANDLE:
                    # Its stream was destroyed: what is still to run there may read it.
                    context.driver.call("synchronize_all")
                    context.driver.call("free", address, ctypes.c_void_p(DEFAULT_STREAM))
        except Exception:  # a device that failed, or a forked child's: there is nobody to tell
            return


class DeviceArray:
    """A dense array in a device's memory, which nobody writes to while it is there. ``owner`` keeps that alive.

    ``stream`` is a number, or, of another library's array that is used again and again, what gives that of the
    library's current one: the array belongs to any that is, and its library sees to the order.
    """

    __slots__ = ("__weakref__", "_is_shared", "_stream", "address", "context", "dtype", "owner", "shape")

    def __init__(
        self, context: Context, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], owner: object,
        stream: int | Callable[[], int],
    ) -> None:  # fmt: skip
        self.context, self.address, self.shape, self.dtype = context, address, shape, dtype
        self.owner, self._stream = owner, stream
        self._is_shared = False

    @property
    def stream(self) -> int:
        """The stream that it belongs to."""
        return self._stream if isinstance(self._stream, int) else self._stream()

    @property
    def is_on_current(self) -> bool:
        """Whether it belongs to whichever stream is its library's current one."""
        return not isinstance(self._stream, int)

    def share(self) -> None:
        """Note that a library or a program has the array itself from now on."""
        self._is_shared = True

    def is_sole(self) -> bool:
        """Whether nobody else has its memory: it is a block of the driver's that no other array has."""
        return (
            isinstance(self.owner, DeviceBlock) and not self._is_shared and sys.getrefcount(self.owner) <= _ONE_HOLDER
        )

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def device(self) -> str:
        """``cuda``, ``cuda:1``"""
        return self.context.name

    def ready_on(self, stream: int) -> None:
        """Have what comes on a stream see the elements, and the memory's end wait for it (:meth:`used_on`)."""
        self.context.order(self.stream, stream)

    def used_on(self, stream: int) -> None:
        """Have the memory stay until what was launched on another stream is done."""
        self.context.order(stream, self.stream)

    def synchronize(self) -> None:
        """Wait until the elements are there."""
        self.context.synchronize(self.stream)

    def to_numpy(self) -> NumpyArray:
        """A copy in this machine's memory."""
        made = np.empty(self.shape, self.dtype)
        copy_to_host(self.context, made.__array_interface__["data"][0], self.address, made.nbytes, self.stream)
        return made

    def reshape(self, shape: tuple[int, ...]) -> DeviceArray:
        """The same memory as an array of another shape with as many elements."""
        return DeviceArray(self.context, self.address, shape, self.dtype, self.owner, self._stream)

    # DLPack ---------------------------------------------------------------------------------------------------------

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.context.driver.vendor.dlpack, self.context.ordinal)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A capsule of the memory itself, for which the consumer's ``stream`` waits, as the array API has it."""
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"an array on {self.device} is not exported to the device {tuple(dl_device)}")
        if copy:
            raise BufferError("an array on a device is exported without a copy")
        self.share()
        consumer = _stream_of(self.context, stream)
        if consumer is not None:
            self.ready_on(consumer)
        dtype = dtypes.dtype(self.dtype).dlpack
        tensor = DeviceTensor(self.address, self.__dlpack_device__(), dtype, self.shape)
        return export_capsule(tensor, self, versioned=max_version is not None and max_version[0] >= 1)


def _stream_of(context: Context, stream: int | None) -> int | None:
    """The driver's stream of DLPack's number for it; None where the consumer asks for no order."""
    if stream == -1:
        return None
    if stream is None or stream == context.driver.vendor.default_stream:
        return DEFAULT_STREAM
    if not isinstance(stream, int) or stream < 0 or (stream == 0 and context.driver.vendor.default_stream):
        raise BufferError(f"{stream!r} is no stream of {context.name}")
    return stream


def export_stream(context: Context, stream: int) -> int:
    """DLPack's number of a stream."""
    return context.driver.vendor.default_stream if stream == DEFAULT_STREAM else stream


def copy_to_host(context: Context, into: int, address: int, nbytes: int, stream: int) -> None:
    """Copy from a device, once what is on the stream is done, and wait for it."""
    with context.current():
        if nbytes:
            sizes = (ctypes.c_void_p(into), ctypes.c_void_p(address), ctypes.c_size_t(nbytes), ctypes.c_void_p(stream))
            context.driver.call("to_host", *sizes)
        context.driver.call("synchronize", ctypes.c_void_p(stream))


def copy_to_device(context: Context, into: int, address: int, nbytes: int, stream: int) -> None:
    """Copy from this machine's memory, which is free to change when this returns.

    What is not too large goes through pinned memory, and nobody waits for the stream.
    """
    if nbytes:
        staging(context).copy(into, address, nbytes, stream)


def put(context: Context, array: NumpyArray, stream: int = DEFAULT_STREAM) -> DeviceArray:
    """A copy of an array on a device."""
    dense = np.array(array, array.dtype.newbyteorder("="), order="C", copy=None, subok=False)
    block = DeviceBlock.allocate(context, dense.nbytes, stream)
    copy_to_device(context, block.address, dense.__array_interface__["data"][0], dense.nbytes, stream)
    return DeviceArray(context, block.address, dense.shape, dtypes.dtype(dense.dtype).np, block, stream)


def copied(array: DeviceArray) -> DeviceArray:
    """A copy of an array on its device and stream."""
    context, stream = array.context, array.stream
    block = DeviceBlock.allocate(context, array.nbytes, stream)
    if array.nbytes:
        with context.current():
            sizes = (ctypes.c_void_p(block.address), ctypes.c_void_p(array.address), ctypes.c_size_t(array.nbytes))
            context.driver.call("on_device", *sizes, ctypes.c_void_p(stream))
    return DeviceArray(context, block.address, array.shape, array.dtype, block, stream)


def is_on_device(value: Any) -> bool:
    """Whether an object with DLPack's protocol says that it is in the memory of a GPU that dyn has a name for."""
    return int(value.__dlpack_device__()[0]) in _FAMILIES


_FAMILIES = {vendor.dlpack: family for family, vendor in VENDORS.items()}


def borrow(value: Any, stream: int | None = None) -> DeviceArray:
    """The memory of an object with ``__dlpack__`` on a GPU; ``stream`` is the library's current one, where it says so.

    UnsupportedOpError where elements do not lie row by row.
    """
    kind, number = value.__dlpack_device__()
    context = context_of(_FAMILIES[int(kind)], int(number))
    own = DEFAULT_STREAM if stream is None else stream
    tensor, owner = import_capsule(value.__dlpack__(stream=export_stream(context, own)))
    if not tensor.is_dense():
        raise UnsupportedOpError(
            f"a {type(value).__name__} on {context.name} whose elements do not lie row by row.",
            remedy="pass a contiguous copy: x.contiguous() in PyTorch.",
        )
    dtype = dtypes.from_dlpack(tensor.dtype).np
    return DeviceArray(context, tensor.address, tensor.shape, dtype, owner, own)


def parse_device(device: str) -> tuple[str, int] | None:
    """The family and the number of a device's name; None for the processor. ArgumentError for what is neither."""
    kind, _, number = device.partition(":")
    if kind == "cpu" and number in ("", "0"):
        return None
    if kind in VENDORS and (not number or number.isdecimal()):
        return kind, int(number or 0)
    names = ", ".join(['"cpu"', *[f'"{family}", "{family}:1"' for family in VENDORS]])
    raise ArgumentError(f"there is no device {device!r}.", remedy=f"use one of {names}; see dyn.devices().")
