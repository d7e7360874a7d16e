"""Pinned memory through which arrays go to a device, so that neither the caller nor the device waits for the other.

The driver copies from memory of the process that may be paged out by waiting for what is on the stream, or by a copy of
its own; from pinned memory it copies when the stream gets there. Each device has one ring of it. A part of the ring is
taken again once the event behind its copy has come.

The ring is native code's (``dyn.runtime.pinned_ring``), which Python and the native entry call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from dyn.fork_safety import lock
from dyn.runtime.driver import Context

#: Bytes of a ring, and the most that goes through it at once: more is copied from where it lies.
RING_BYTES, MOST_BYTES = 4 << 20, 1 << 20
#: What parts of the ring begin at multiples of.
ALIGNED = 256
#: So many copies at most may not be done.
MOST_PENDING = 512

#: The driver's functions, in the order of their words in a ``StagingRecord`` and of their numbers in answers.
CALLS = ("alloc", "pinned", "create_event", "record_event", "wait_for_event", "to_device", "synchronize")


class StagingRecord:
    """The byte offsets in the record of a ring: the driver's functions, a mutex of POSIX's, the ring or null, and where
    the next part begins, counted on without end. ``FIRST`` to ``LAST`` are the numbers of the copies that may not be
    done, each of which has a slot: where its part begins, and its event, which stays with the slot."""

    MUTEX = 8 * len(CALLS)
    RING, NEXT, FIRST, LAST, SLOTS = range(MUTEX + 64, MUTEX + 104, 8)
    BEGIN, EVENT, SLOT_BYTES = 0, 8, 16
    BYTES = SLOTS + SLOT_BYTES * MOST_PENDING


class StagedPart:
    """The byte offsets in a part of a copy: the address of its elements, where they go in the device's memory, and
    their bytes."""

    SOURCE, AT, SIZE, BYTES = 0, 8, 16, 24


def answer_of(name: str, status: int) -> int:
    """The answer of ``dyn_staging_copy`` where one of the driver's functions has answered ``status``."""
    return CALLS.index(name) << 32 | status


@dataclass
class _CopierHook:
    """The hook upward: how to get the address of ``dyn_staging_copy``, which ``dyn/__init__`` installs once."""

    address: Callable[[], int] | None = None


_HOOK = _CopierHook()


def install_copier(address: Callable[[], int]) -> None:
    """Have ``address()`` give the address of ``dyn_staging_copy``, compiled."""
    _HOOK.address = address


class Staging:
    """The ring of one device. Its memory is taken with the first copy, and kept as long as the process lives.

    Attributes:
        address: its ``StagingRecord``.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._words = (ctypes.c_int64 * (StagingRecord.BYTES // 8))(*[context.driver.address(name) for name in CALLS])
        self.address = ctypes.addressof(self._words)
        assert _HOOK.address is not None, "it is installed with the package"
        arguments = [*[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2, ctypes.c_void_p]
        self._copy = ctypes.CFUNCTYPE(ctypes.c_int64, *arguments)(_HOOK.address())

    def copy(self, into: int, address: int, nbytes: int, stream: int) -> None:
        """Copy to the device on a stream, from memory that may change when this returns."""
        part = (ctypes.c_int64 * (StagedPart.BYTES // 8))(address, 0, nbytes)
        with self._context.current():
            answer = self._copy(self.address, into, ctypes.addressof(part), 1, nbytes, stream)
        if answer:
            raise staging_failure(self._context, answer)

    def release(self) -> None:
        """Give the memory back, once all copies are done; the next copy takes it anew. Nobody may copy meanwhile."""
        words, driver = self._words, self._context.driver
        with self._context.current():
            for slot in range(StagingRecord.SLOTS, StagingRecord.BYTES, StagingRecord.SLOT_BYTES):
                event = words[(slot + StagingRecord.EVENT) // 8]
                if event:
                    driver.call("wait_for_event", ctypes.c_void_p(event))
                    driver.call("destroy_event", ctypes.c_void_p(event))
            if words[StagingRecord.RING // 8]:
                driver.call("free_pinned", ctypes.c_void_p(words[StagingRecord.RING // 8]))
        for word in range(StagingRecord.RING // 8, len(words)):
            words[word] = 0


def staging_failure(context: Context, answer: int) -> Exception:
    """The error for an answer of ``dyn_staging_copy`` that is not 0."""
    return context.driver.failure(answer & 0xFFFFFFFF, context.driver.vendor.names[CALLS[answer >> 32]])


_RINGS: WeakKeyDictionary[Context, Staging] = WeakKeyDictionary()
_lock = lock()


def staging(context: Context) -> Staging:
    """The ring of a device."""
    found = _RINGS.get(context)
    if found is None:
        with _lock:
            found = _RINGS.setdefault(context, Staging(context))
    return found
