"""Arrays on their way to a device through pinned memory: neither side waits, and nothing is written too early."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import dyn
from dyn.errors import DeviceError
from dyn.runtime import device_memory
from dyn.runtime.driver import context_of
from dyn.runtime.staging import MOST_BYTES, RING_BYTES
from dyn.runtime.vendors import VENDORS
from tests.gpu.programs import Device, names, new_stream


def test_arguments_are_free_to_change_and_nobody_waits(device: Device) -> None:
    f = dyn.jit(lambda x: x * 2, device=device.name)
    x = np.arange(1000, dtype="f4")
    f(x)
    waits = [names(device)[name] for name in ("synchronize", "wait_for_event")]
    before = [device.gpu.calls(name) for name in waits]
    results: list[Any] = []
    for n in range(20):
        x[:] = n
        results.append(f(x))
    assert [device.gpu.calls(name) for name in waits] == before
    x[:] = -1
    for n, found in enumerate(results):
        np.testing.assert_array_equal(found.to_numpy(), np.full(1000, 2.0 * n))


def test_the_ring_goes_round(device: Device) -> None:
    """More than the ring holds, in sizes that leave gaps at its end, on two streams: what is read late is not lost."""
    context = context_of(device.name)
    sizes = [0, 1, 255, 257, MOST_BYTES, MOST_BYTES - 1, MOST_BYTES + 1, MOST_BYTES // 2 + 3, 10]
    with new_stream(device) as stream:
        wanted: list[np.ndarray[Any, Any]] = []
        there: list[device_memory.DeviceArray] = []
        for n, size in enumerate(sizes * 3):
            x = np.full(size, n % 251, np.uint8)
            there.append(device_memory.put(context, x, stream if n % 2 else 0))
            wanted.append(x.copy())
            x[:] = 255
        assert sum(sizes) * 3 > 2 * RING_BYTES
        for n, own in enumerate(wanted):
            np.testing.assert_array_equal(there[n].to_numpy(), own)
        del there


def test_threads_share_it(device: Device) -> None:
    context, bad = context_of(device.name), list[int]()

    def run(number: int) -> None:
        for n in range(30):
            x = np.full(50_000 + n, number * 31 + n, np.int32)
            if not (device_memory.put(context, x).to_numpy() == number * 31 + n).all():
                bad.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bad == []


def test_without_pinned_memory_arrays_are_copied_from_where_they_lie(device: Device) -> None:
    device.gpu.fail(2, 1, names(device)["pinned"])
    assert dyn.device_put(np.arange(5), device.name).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", ["to_device", "record_event", "create_event"])
def test_faults(device: Device, name: str) -> None:
    x = np.arange(5)
    device.gpu.fail(999, 1, VENDORS[device.name].names[name])
    with pytest.raises(DeviceError, match=r"\(999\)"):
        dyn.device_put(x, device.name)
    assert dyn.device_put(x, device.name).tolist() == [0, 1, 2, 3, 4]
