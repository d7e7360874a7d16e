"""Pinned memory through which arrays go to a device, so that neither the caller nor the device waits for the other.

The driver copies from memory of the process that may be paged out by waiting for what is on the stream, or by a copy of
its own; from pinned memory it copies when the stream gets there. Each device has one ring of it. A part of the ring is
taken again once the event behind its copy has come.
"""

from __future__ import annotations

import ctypes
from collections import deque
from weakref import WeakKeyDictionary

from dyn.errors import DeviceError
from dyn.fork_safety import lock
from dyn.runtime.driver import Context

#: Bytes of a ring, and of the largest array that goes through it: larger ones are copied from where they lie.
RING_BYTES, MOST_BYTES = 4 << 20, 1 << 20
#: What parts of the ring begin at multiples of.
_ALIGNED = 256
_NO_TIMING = 2


class Staging:
    """The ring of one device. Its memory is taken with the first copy, and kept as long as the process lives."""

    def __init__(self, context: Context) -> None:
        self._context, self._lock = context, lock()
        self._ring: int | None = None
        #: Where the next part begins, and the parts whose copies may not be done: first, last + 1, event.
        self._next = 0
        self._pending: deque[tuple[int, int, int]] = deque()
        #: Events that nothing waits for.
        self._events: list[int] = []

    def copy(self, into: int, address: int, nbytes: int, stream: int) -> bool:
        """Copy to the device on a stream, from memory that may change when this returns.

        False, and nothing is done, for what is too large and where there is no pinned memory.
        """
        if not 0 < nbytes <= MOST_BYTES:
            return nbytes == 0
        driver = self._context.driver
        with self._lock, self._context.current():
            ring = self._memory()
            if ring is None:
                return False
            first = self._next if self._next + nbytes <= RING_BYTES else 0
            self._wait_for(first, first + nbytes)
            ctypes.memmove(ring + first, address, nbytes)
            event = self._event()
            try:
                size = ctypes.c_size_t(nbytes)
                driver.call("to_device", ctypes.c_void_p(into), ctypes.c_void_p(ring + first), size, _word(stream))
                driver.call("record_event", _word(event), _word(stream))
            except DeviceError:
                self._events.append(event)
                raise
            self._pending.append((first, first + nbytes, event))
            self._next = -(-(first + nbytes) // _ALIGNED) * _ALIGNED
        return True

    def release(self) -> None:
        """Give the memory back, once all copies are done; the next copy takes it anew."""
        with self._lock, self._context.current():
            self._wait_for(0, RING_BYTES)
            for event in self._events:
                self._context.driver.call("destroy_event", _word(event))
            self._events.clear()
            if self._ring is not None:
                self._context.driver.call("free_pinned", _word(self._ring))
            self._ring, self._next = None, 0

    def _memory(self) -> int | None:
        if self._ring is None:
            made = ctypes.c_void_p()
            try:
                self._context.driver.call("pinned", ctypes.byref(made), ctypes.c_size_t(RING_BYTES), 0)
            except MemoryError:
                return None
            self._ring = made.value
        return self._ring

    def _wait_for(self, first: int, last: int) -> None:
        """Wait until no copy reads this part of the ring: parts follow each other, the oldest in front."""
        while any(start < last and first < end for start, end, _ in self._pending):
            event = self._pending[0][2]
            self._context.driver.call("wait_for_event", _word(event))
            self._pending.popleft()
            self._events.append(event)

    def _event(self) -> int:
        if self._events:
            return self._events.pop()
        made = ctypes.c_void_p()
        self._context.driver.call("create_event", ctypes.byref(made), _NO_TIMING)
        return made.value or 0


_RINGS: WeakKeyDictionary[Context, Staging] = WeakKeyDictionary()
_lock = lock()


def staging(context: Context) -> Staging:
    """The ring of a device."""
    found = _RINGS.get(context)
    if found is None:
        with _lock:
            found = _RINGS.setdefault(context, Staging(context))
    return found


def _word(value: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(value)
