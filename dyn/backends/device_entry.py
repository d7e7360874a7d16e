"""Devices as the native entry sees them: records of their drivers' functions, and of where Python's objects for memory
there have their slots (``dyn.runtime.entry.device``)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dyn.backends.device_functions import staging_copier
from dyn.backends.device_staging import state_words
from dyn.fork_safety import lock
from dyn.runtime.device_memory import DeviceArray, DeviceBlock
from dyn.runtime.driver import Context
from dyn.runtime.entry.layout import DeviceRecord, DeviceSlots
from dyn.runtime.staging import staging

_SLOTS = {
    DeviceArray: {
        "address": DeviceSlots.ADDRESS, "context": DeviceSlots.CONTEXT, "dtype": DeviceSlots.DTYPE,
        "owner": DeviceSlots.OWNER, "shape": DeviceSlots.SHAPE, "_stream": DeviceSlots.STREAM,
        "_is_shared": DeviceSlots.IS_SHARED,
    },
    DeviceBlock: {
        "address": DeviceSlots.BLOCK_ADDRESS, "context": DeviceSlots.BLOCK_CONTEXT, "stream": DeviceSlots.BLOCK_STREAM,
    },
}  # fmt: skip
_TYPES = {DeviceArray: DeviceSlots.ARRAY_TYPE, DeviceBlock: DeviceSlots.BLOCK_TYPE}
#: The records of this process, which plans of calls lead to: they stay.
_DEVICES: dict[Context, EntryDevice] = {}
_lock = lock()


class EntryDevice:
    """The record of a device, for the native entry."""

    def __init__(self, context: Context, slots: ctypes.Array[ctypes.c_int64]) -> None:
        driver, state, ring = context.driver, state_words(context), staging(context)
        self._words = _words_of(
            {
                DeviceRecord.CONTEXT: id(context),
                DeviceRecord.GET_CURRENT: driver.address("get_current"),
                DeviceRecord.SET_CURRENT: driver.address("set_current"),
                DeviceRecord.HANDLE: context.handle,
                DeviceRecord.ALIVE: ctypes.addressof(driver.alive),
                DeviceRecord.STATE: ctypes.addressof(state),
                DeviceRecord.SLOTS: ctypes.addressof(slots),
                DeviceRecord.STAGING: ring.address,
                DeviceRecord.COPY: staging_copier(),
            },
            DeviceRecord.BYTES // 8,
        )
        self._kept = context, slots, state, ring
        self.address = ctypes.addressof(self._words)


def entry_device(context: Context) -> EntryDevice | None:
    """The record of a device; None where the entry cannot read arrays there."""
    slots = _slots()
    if slots is None:
        return None
    with _lock:
        known = _DEVICES.get(context)
        if known is None:
            known = _DEVICES[context] = EntryDevice(context, slots)
        return known


@lru_cache(maxsize=1)
def _slots() -> ctypes.Array[ctypes.c_int64] | None:
    """The DeviceSlots, found in objects whose slots have values of their own; None where they are not found."""
    fields: dict[int, int] = {}
    for kind, slots in _SLOTS.items():
        fields[_TYPES[kind]] = id(kind)
        made: Any = object.__new__(kind)
        values = {name: object() for name in slots}
        for name, value in values.items():
            setattr(made, name, value)
        places = range(object.__basicsize__, kind.__basicsize__, ctypes.sizeof(ctypes.c_void_p))
        for name, field in slots.items():
            found = [at for at in places if ctypes.c_int64.from_address(id(made) + at).value == id(values[name])]
            if len(found) != 1:
                return None
            fields[field] = found[0]
    return _words_of(fields, DeviceSlots.BYTES // 8)


def _words_of(fields: Mapping[int, int], count: int) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * count)(*[fields.get(8 * n, 0) for n in range(count)])
