"""GPU drivers by ctypes: NVIDIA's and AMD's, through one table of names, and the devices that they show.

Both vendors' driver interfaces have the same functions with the same parameters, but for their names and the numbers of
some attributes (:mod:`dyn.runtime.vendors`). The library is loaded once a process, on first use; after a fork the child
cannot use it, as neither vendor's driver survives one.
"""

from __future__ import annotations

import ctypes
import os
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from dyn.errors import BackendUnavailableError, DeviceError, device_remedy
from dyn.fork_safety import lock
from dyn.frozen import record
from dyn.runtime.vendors import CUDA, ROCM, VENDORS, Vendor

#: Of either vendor: there is no memory. Both number their errors alike.
OUT_OF_MEMORY = 2
#: What initialisation answers where all is well but for the hardware.
_ANSWERS = {
    100: "it finds no GPU ({name})",
    101: "it finds no GPU ({name})",  # of HIP, where the kernel has no driver
    803: "it is older or newer than the kernel's part of it ({name})",
    804: "it does not run on this GPU ({name})",
    999: "the GPU does not answer ({name})",
}
_NAMES_OF_ANSWERS = {
    100: "CUDA_ERROR_NO_DEVICE", 803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", 999: "CUDA_ERROR_UNKNOWN",
}  # fmt: skip
#: What drivers answer where a binary, or PTX, is of another architecture or of a newer compiler.
_REFUSED_IMAGES = (200, 209, 218, 222, 223)
#: NVIDIA's attributes of the compute capability.
_MAJOR, _MINOR = 75, 76
#: Of functions: the dynamic shared memory that a launch may ask for. Of pools: the bytes that stay with the process.
_FUNCTION_SHARED, _POOL_THRESHOLD = 8, 4
#: Shared memory of a block that no device has to be asked for.
_PLAIN_SHARED = 48 << 10
_NO_TIMING = 2
_MOST_BYTES = 2**64 - 1


#: A word for each driver, which is 0 in a process that was forked since it was loaded.
_ALIVE: list[ctypes.c_int64] = []


def _end_drivers() -> None:
    for word in _ALIVE:
        word.value = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_end_drivers)


class NoDriverError(Exception):
    """There is no driver, or it has no GPU; the message says which."""


@record()
class DriverDevice:
    """A GPU as the driver describes it; ``arch`` is ``"sm_90a"`` or ``"gfx90a"``."""

    name: str
    arch: str
    multiprocessors: int
    memory: int
    most_blocks: int = 2**31 - 1


class Driver:
    """A vendor's driver, loaded into this process. Every method may be called from many threads.

    Raises NoDriverError where there is none, or it has no GPU.
    """

    def __init__(self, vendor: Vendor, library: str | None = None) -> None:
        self.vendor = vendor
        self._library = _load(vendor, library)
        self._lock = lock()
        self._contexts: dict[int, Context] = {}
        self._functions: dict[str, Any] = {}
        #: 0 in a process that was forked since. Native code reads it.
        self.alive = ctypes.c_int64(1)
        _ALIVE.append(self.alive)
        status = self._status("init", 0)
        if status:
            told = _ANSWERS.get(status, f"{vendor.names['init']} answers {status}").format(name=self._answer(status))
            raise NoDriverError(f"{vendor.title} is installed, and {told}")
        version = self._number("version")
        #: The newest version of CUDA, or HIP's own, that it runs: ``"13.0"``.
        self.version = f"{version // 1000}.{version % 1000 // 10}"
        if vendor is ROCM:
            self.version = f"{version // 10_000_000}.{version // 100_000 % 100}"
        self.devices = tuple([self._device(ordinal) for ordinal in range(self._number("count"))])

    def _answer(self, status: int) -> str:
        known = _NAMES_OF_ANSWERS.get(status)
        return known if known is not None and self.vendor is CUDA else self.error_name(status)

    def function(self, name: str) -> Any:
        """A function of the driver by its name here. Its results and arguments are ctypes' own."""
        found = self._functions.get(name)
        if found is None:
            found = self._functions[name] = getattr(self._library, self.vendor.names[name])
        return found

    def address(self, name: str) -> int:
        """The address of a function, for native code."""
        return ctypes.cast(self.function(name), ctypes.c_void_p).value or 0

    def error_name(self, status: int) -> str:
        """The vendor's name of an error: ``CUDA_ERROR_OUT_OF_MEMORY``."""
        try:
            ask = self.function("error_name")
        except AttributeError:
            return str(status)
        if self.vendor is ROCM:  # which gives the text itself
            ask.restype = ctypes.c_char_p
            text: bytes | None = ask(status)
        else:
            found = ctypes.c_char_p()
            text = None if ask(status, ctypes.byref(found)) else found.value
        return str(status) if text is None else text.decode(errors="replace")

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; DeviceError, or MemoryError, for what it answers but 0."""
        status = self.answer(name, *arguments)
        if status:
            raise self.failure(status, self.vendor.names[name])

    def answer(self, name: str, *arguments: Any) -> int:
        """Answer of a function, 0 where all is well; DeviceError in a forked child."""
        if not self.alive:
            raise DeviceError(
                f"{self.vendor.title} was initialised before this process was forked, and does not work in the child.",
                remedy="start processes with multiprocessing's 'spawn', or fork before the first use of a GPU.",
            )
        return self._status(name, *arguments)

    def failure(self, status: int, what: str) -> Exception:
        """The error for an answer of the driver to ``what``."""
        answer = f"{self.error_name(status)} ({status})"
        if status == OUT_OF_MEMORY:
            return MemoryError(f"no memory on the GPU: {what} answers {answer}")
        return DeviceError(f"{what} answers {answer}.", remedy=device_remedy(answer))

    def context(self, ordinal: int) -> Context:
        """What is needed to use a device, made once; BackendUnavailableError where there is no such device."""
        with self._lock:
            known = self._contexts.get(ordinal)
            if known is None:
                if not 0 <= ordinal < len(self.devices):
                    have = ", ".join([f"{self.vendor.family}:{n}" for n in range(len(self.devices))]) or "none"
                    raise BackendUnavailableError(
                        f"there is no device {self.vendor.family}:{ordinal}: the driver shows {have}.",
                        remedy="see dyn.devices().",
                    )
                known = self._contexts[ordinal] = Context(self, ordinal)
            return known

    def _status(self, name: str, *arguments: Any) -> int:
        return self.function(name)(*arguments)

    def _number(self, name: str, *arguments: int) -> int:
        value = ctypes.c_int()
        status = self._status(name, ctypes.byref(value), *arguments)
        if status:
            raise NoDriverError(f"{self.vendor.title} is installed, and {self.vendor.names[name]} answers {status}")
        return value.value

    def _device(self, ordinal: int) -> DriverDevice:
        handle = self._number("device", ordinal)
        name, memory = ctypes.create_string_buffer(256), ctypes.c_size_t()
        for what, arguments in (
            ("device_name", (name, len(name), handle)),
            ("device_memory", (ctypes.byref(memory), handle)),
        ):
            status = self._status(what, *arguments)
            if status:
                raise NoDriverError(f"{self.vendor.title} is installed, and {self.vendor.names[what]} answers {status}")
        count = self._number("attribute", self.vendor.multiprocessors, handle)
        return DriverDevice(name.value.decode(errors="replace"), self._arch(ordinal, handle), count, memory.value)

    def _arch(self, ordinal: int, handle: int) -> str:
        if self.vendor is CUDA:  # from 9.0 on with the features of that one architecture
            major, minor = self._number("attribute", _MAJOR, handle), self._number("attribute", _MINOR, handle)
            return f"sm_{major}{minor}{'a' if major >= 9 else ''}"
        # hipDeviceProp_t grows from version to version: the name of the architecture is the text in it that is one.
        properties = ctypes.create_string_buffer(1 << 14)
        ask = getattr(self._library, "hipGetDevicePropertiesR0600", None) or self._library.hipGetDeviceProperties
        found = None if ask(properties, ordinal) else re.search(rb"gfx[0-9a-f]+", properties.raw)
        if found is None:
            raise NoDriverError(f"{self.vendor.title} is installed, and does not say what the GPU {ordinal} is")
        return found[0].decode()


def _load(vendor: Vendor, library: str | None) -> ctypes.CDLL:
    names = vendor.libraries if library is None else (library,)
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise NoDriverError(f"{vendor.title} is not installed ({names[-1]} is not there)")


@dataclass(eq=False)
class Context:
    """A device of a driver, made ready: its primary context, and its pool of memory, which keeps what is freed.

    ``handle`` is what makes it a thread's current device: the context, of AMD's the device's number.
    """

    driver: Driver
    ordinal: int
    handle: int = field(init=False)

    def __post_init__(self) -> None:
        driver, device = self.driver, ctypes.c_int()
        driver.call("device", ctypes.byref(device), self.ordinal)
        self.handle = self.ordinal
        if driver.vendor is CUDA:
            context = ctypes.c_void_p()
            driver.call("retain", ctypes.byref(context), device)
            self.handle = context.value or 0
        with self.current():
            pool, most = ctypes.c_void_p(), ctypes.c_uint64(_MOST_BYTES)
            driver.call("pool", ctypes.byref(pool), device)
            driver.call("set_pool", pool, _POOL_THRESHOLD, ctypes.byref(most))

    @property
    def device(self) -> DriverDevice:
        return self.driver.devices[self.ordinal]

    @property
    def name(self) -> str:
        """``cuda``, ``cuda:1``"""
        family = self.driver.vendor.family
        return f"{family}:{self.ordinal}" if self.ordinal else family

    def current(self) -> _Current:
        """The block's driver calls, on this thread, are about this device."""
        return _Current(self)

    def load_module(self, image: bytes) -> int:
        """Load a module's binary or PTX. It is never unloaded."""
        module, driver = ctypes.c_void_p(), self.driver
        with self.current():
            status = driver.answer("load_module", ctypes.byref(module), ctypes.c_char_p(image))
        name, toolkit = driver.vendor.names["load_module"], driver.vendor.toolkit
        if status in _REFUSED_IMAGES:
            raise DeviceError(
                f"{driver.vendor.title}, which runs programs of {toolkit} {driver.version} and older, does not load "
                f"the kernels: {name} answers {driver.error_name(status)} ({status}).",
                remedy=f"where the kernels were compiled by a newer {toolkit}, install a newer driver, or a compiler "
                "of the driver's version.",
            )
        if status:
            raise driver.failure(status, name)
        return module.value or 0

    def kernel(self, module: int, symbol: str, threads: int) -> tuple[int, int]:
        """The handle of a module's kernel, and how many of its blocks the device runs at once."""
        function, blocks = ctypes.c_void_p(), ctypes.c_int()
        driver = self.driver
        with self.current():
            driver.call("get_function", ctypes.byref(function), ctypes.c_void_p(module), symbol.encode())
            if driver.vendor.shared is not None:
                most, device = ctypes.c_int(), ctypes.c_int()
                driver.call("device", ctypes.byref(device), self.ordinal)
                driver.call("attribute", ctypes.byref(most), driver.vendor.shared, device)
                if most.value > _PLAIN_SHARED:
                    driver.call("set_function", function, _FUNCTION_SHARED, most)
            driver.call("occupancy", ctypes.byref(blocks), function, threads, ctypes.c_size_t(0))
        return function.value or 0, max(blocks.value, 1) * self.device.multiprocessors

    def synchronize(self, stream: int) -> None:
        """Wait until everything is done that is on a stream."""
        with self.current():
            self.driver.call("synchronize", ctypes.c_void_p(stream))

    def order(self, first: int, second: int) -> None:
        """Have what comes on the stream ``second`` wait for what is on ``first``."""
        if first == second:
            return
        driver, event = self.driver, ctypes.c_void_p()
        with self.current():
            driver.call("create_event", ctypes.byref(event), _NO_TIMING)
            try:
                driver.call("record_event", event, ctypes.c_void_p(first))
                driver.call("wait_event", ctypes.c_void_p(second), event, 0)
            finally:
                driver.call("destroy_event", event)


class _Current:
    """A block in which a device is a thread's current one."""

    __slots__ = ("_before", "_context")

    def __init__(self, context: Context) -> None:
        self._context = context
        #: What was current before, if that has to be set again.
        self._before: int | None = None

    def __enter__(self) -> None:
        context, driver, before = self._context, self._context.driver, ctypes.c_uint64(0)
        driver.call("get_current", ctypes.byref(before))
        if before.value != context.handle or not (context.handle or driver.vendor is ROCM):
            driver.call("set_current", _word(driver.vendor, context.handle))
            self._before = before.value

    def __exit__(self, *exc: object) -> None:
        if self._before is not None:
            driver = self._context.driver
            driver.call("set_current", _word(driver.vendor, self._before))


def _word(vendor: Vendor, handle: int) -> Any:
    return ctypes.c_void_p(handle) if vendor is CUDA else ctypes.c_int(handle)


def driver_devices(family: str = "cuda", library: str | None = None) -> tuple[str, tuple[DriverDevice, ...]]:
    """The newest version that a family's driver runs, as ``"13.0"``, and its GPUs in its order.

    Raises NoDriverError.
    """
    driver = driver_of(family, library)
    return driver.version, driver.devices


@lru_cache(maxsize=8)
def driver_of(family: str, library: str | None = None) -> Driver:
    """The driver of a family of GPUs. NoDriverError where there is none; asked again, it is looked for again."""
    return Driver(VENDORS[family], library)


def context_of(family: str, ordinal: int = 0) -> Context:
    """A device, ready to be used; BackendUnavailableError where there is none."""
    vendor = VENDORS[family]
    try:
        driver = driver_of(family)
    except NoDriverError as error:
        raise BackendUnavailableError(f"{family} programs cannot be run here: {error}.", remedy=vendor.remedy) from None
    return driver.context(ordinal)
