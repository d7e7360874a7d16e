"""A GPU to measure on: times between its driver's events, launches, the bandwidth of a copy, its vendor's figures."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

import dyn
from benchmarks.gpu.model import DEVICES, GpuModel
from dyn.errors import DynError
from dyn.runtime.device_memory import DEFAULT_STREAM, DeviceBlock, parse_device, put
from dyn.runtime.driver import Context, context_of


class MeasuredDevice:
    """A device of this machine's.

    Raises ValueError, with the reason, where there is none of that name.
    """

    def __init__(self, name: str) -> None:
        try:
            parsed = parse_device(name)
            if parsed is None:
                raise ValueError("it is no GPU: the other benchmarks measure this machine's processor.")
            self.context: Context = context_of(*parsed)
        except (DynError, ValueError) as error:
            raise ValueError(f"there is nothing to measure on {name}: {error}") from None
        self.name = self.context.name

    def describe(self) -> str:
        """``NVIDIA H100 80GB HBM3 (sm_90a), driver 13.0``"""
        device, driver = self.context.device, self.context.driver
        return f"{device.name} ({device.arch}), {driver.vendor.title} {driver.version}"

    @property
    def model(self) -> GpuModel | None:
        """The vendor's figures; None for a device that the model does not know."""
        return next((model for name, model in DEVICES.items() if name in self.context.device.name), None)

    def seconds(self, call: Callable[[], object], calls: int, rounds: int) -> float:
        """Time of a call between two events on the default stream: of the quickest of so many rounds of calls.

        Where the host takes longer to launch a call's kernels than the device to run them, that is its time.
        """
        driver, times = self.context.driver, list[float]()
        with self.context.current():
            marks = [ctypes.c_void_p(), ctypes.c_void_p()]
            for mark in marks:
                driver.call("create_event", ctypes.byref(mark), 0)
            try:
                for _ in range(rounds):
                    driver.call("record_event", marks[0], ctypes.c_void_p(DEFAULT_STREAM))
                    for _ in range(calls):
                        call()
                    driver.call("record_event", marks[1], ctypes.c_void_p(DEFAULT_STREAM))
                    driver.call("wait_for_event", marks[1])
                    apart = ctypes.c_float()
                    driver.call("elapsed", ctypes.byref(apart), *marks)
                    times.append(apart.value / 1e3 / calls)
            finally:
                for mark in marks:
                    driver.function("destroy_event")(mark)
        return min(times)

    def copy_bandwidth(self, nbytes: int, rounds: int) -> float:
        """Bytes a second that a copy within the device's memory reads and writes."""
        context = self.context
        source, target = (DeviceBlock.allocate(context, nbytes) for _ in range(2))

        def copy() -> None:
            sizes = (ctypes.c_void_p(target.address), ctypes.c_void_p(source.address), ctypes.c_size_t(nbytes))
            context.driver.call("on_device", *sizes, ctypes.c_void_p(DEFAULT_STREAM))

        put(context, np.zeros(1, "u1"))  # the first use of a stream takes longer
        copy()
        return 2 * nbytes / max(self.seconds(copy, 3, rounds), 1e-12)

    def launches(self, call: Callable[[], object]) -> int:
        """Number of kernels that a call of dyn's launches on the device."""
        with dyn.profile() as profile:
            call()
        events = profile.events()
        on_host = {made.thread for made in events.calls}
        return sum(launch.thread not in on_host for launch in events.launches)

    def put(self, array: Any) -> dyn.Array:
        """A copy there."""
        return dyn.device_put(array, self.name)
