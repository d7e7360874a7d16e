"""Times of launches on devices: the recorder's pairs of a driver's events, resolved once a recording is read.

An event is a mark on a stream, and the driver tells the milliseconds between two of them as a number of 32 bits. So
times are counted from mark to mark, backwards from one that is made now, whose time on this machine's clock is known.
"""

from __future__ import annotations

import ctypes
import time
from array import array
from collections.abc import Sequence

from dyn.errors import DeviceError
from dyn.fork_safety import lock
from dyn.frozen import record
from dyn.late_imports import import_whole
from dyn.runtime.device_memory import DEFAULT_STREAM
from dyn.runtime.driver import Context

#: Tracks of streams have numbers that no thread has.
_FIRST_TRACK = 1 << 40


@record()
class _TimedLaunch:
    """A launch between two events of a stream."""

    number: int
    grid: int
    events: tuple[int, int]
    stream: int


class DeviceEvents:
    """The devices whose launches are recorded, by number, and the tracks of their streams."""

    def __init__(self) -> None:
        self._lock = lock()
        self._contexts: list[Context] = []
        self._tracks: dict[tuple[int, int], int] = {}
        #: The names of the tracks that there are: ``"cuda, default stream"``.
        self.names: dict[int, str] = {}

    def number(self, context: Context) -> int:
        """The number of a device."""
        with self._lock:
            if context not in self._contexts:
                self._contexts.append(context)
            return self._contexts.index(context)

    def context(self, number: int) -> Context:
        """The device of a number."""
        return self._contexts[number]

    def resolve(self, words: array[int]) -> tuple[array[int], dict[int, array[int]]]:
        """A thread's records without those of events; and what these are on the tracks of streams: the pieces of
        launches, with their times. Waits for the launches."""
        import_whole("dyn.runtime.recorder")
        from dyn.runtime.recorder import EventRecord  # a process that records nothing does without

        rest, found = array("q"), dict[int, list[_TimedLaunch]]()
        at = 0
        while self._contexts and at < len(words):
            kind, length = words[at] & 0xFF, words[at] >> 8
            if kind == EventRecord.EVENTS:
                launch, grid, start, end, device, stream = words[at + 1 : at + EventRecord.EVENTS_WORDS]
                found.setdefault(device, []).append(_TimedLaunch(launch, grid, (start, end), stream))
            else:
                rest.extend(words[at : at + length])
            at += length
        if not found:
            return words, {}
        pieces: dict[int, array[int]] = {}
        for device, launches in found.items():
            for launch, (start, end) in zip(launches, self._times(self._contexts[device], launches), strict=False):
                header = EventRecord.PIECE_WORDS << 8 | EventRecord.PIECE
                track = pieces.setdefault(self._track(device, launch.stream), array("q"))
                track.extend([header, launch.number, 0, launch.grid, start, end])
        return rest, pieces

    def _times(self, context: Context, launches: Sequence[_TimedLaunch]) -> list[tuple[int, int]]:
        """When launches began and ended, in nanoseconds; none where the device does not answer. Ends their events."""
        marks = [event for launch in launches for event in launch.events]
        with context.current():
            try:
                return _counted(context, marks)
            except DeviceError:
                return []
            finally:
                for mark in marks:
                    context.driver.function("destroy_event")(ctypes.c_void_p(mark))

    def _track(self, device: int, stream: int) -> int:
        with self._lock:
            found = self._tracks.get((device, stream))
            if found is None:
                found = self._tracks[device, stream] = _FIRST_TRACK + len(self._tracks)
                name = "default stream" if stream == DEFAULT_STREAM else f"stream {stream:#x}"
                self.names[found] = f"{self._contexts[device].name}, {name}"
            return found


def _counted(context: Context, marks: Sequence[int]) -> list[tuple[int, int]]:
    driver, now = context.driver, ctypes.c_void_p()
    driver.call("create_event", ctypes.byref(now), 0)
    try:
        for mark in marks:
            driver.call("wait_for_event", ctypes.c_void_p(mark))
        driver.call("record_event", now, ctypes.c_void_p(DEFAULT_STREAM))
        driver.call("wait_for_event", now)
        at, after, apart = float(time.perf_counter_ns()), now.value or 0, ctypes.c_float()
        times: list[int] = []
        for mark in reversed(marks):
            driver.call("elapsed", ctypes.byref(apart), ctypes.c_void_p(mark), ctypes.c_void_p(after))
            at, after = at - 1e6 * apart.value, mark
            times.insert(0, round(at))
    finally:
        driver.function("destroy_event")(now)
    return list(zip(times[::2], times[1::2], strict=True))


DEVICE_EVENTS = DeviceEvents()
