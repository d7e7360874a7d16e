"""Recordings of calls and launches: switches the native recorder (``dyn.runtime.recorder``) on and off, and reads it.

Several recordings may be in progress at once, of any threads. Each gets what was recorded between its beginning and its
end, in the process as a whole.
"""

from __future__ import annotations

import ctypes
from array import array
from dataclasses import dataclass, field
from functools import lru_cache

from dyn.backends.base import Effort, Source
from dyn.backends.device_events import DEVICE_EVENTS
from dyn.backends.families import host_backend
from dyn.backends.loaded_programs import Known, forget, remember, remembered
from dyn.backends.programs import build_own
from dyn.backends.runtime import NativeFunctions
from dyn.backends.runtime_tables import record_calls
from dyn.errors import DynError
from dyn.fork_safety import lock
from dyn.runtime.loading import load_modules
from dyn.runtime.recorder import NEXT_FRAME, SYMBOLS, Chunk, Thread


def _no_words() -> dict[int, array[int]]:
    return {}


@dataclass(eq=False)
class Recording:
    """A recording: for each thread its records' words (``dyn.runtime.recorder.EventRecord``), and the programs that
    they mention by number; streams of devices have the pieces of launches, on tracks with ``names``. ``dropped`` is how
    many records there was no room for."""

    words: dict[int, array[int]] = field(default_factory=_no_words)
    programs: dict[int, Known] = field(default_factory=dict[int, Known])
    names: dict[int, str] = field(default_factory=dict[int, str])
    dropped: int = 0


def recorder_source() -> Source:
    """The recorder's text."""
    load_modules("dyn.runtime.recorder")
    from dyn.runtime.recorder import recorder_text

    return Source(recorder_text(), SYMBOLS, Effort.PROMOTE)


@lru_cache(maxsize=1)
def _native() -> NativeFunctions:
    """The recorder of this process, made by the first recording. Its code stays mapped."""
    backend = host_backend()
    code = backend.load(build_own(backend, "recorder", recorder_source).binary)
    native = NativeFunctions({symbol: code.address(symbol) for symbol in SYMBOLS})
    failed = native.function("dyn_recorder_setup", ctypes.c_int32)()
    if failed:
        raise DynError(f"calls cannot be recorded: the system has no thread-specific key ({failed}).")
    return native


class _Recorder:
    """The recordings in progress, and the reader's side of the recorder."""

    def __init__(self) -> None:
        self._lock = lock()
        self._active: list[Recording] = []

    def start(self, limit: int) -> Recording:
        with self._lock:
            native = _native()
            self._read()  # what nobody has recorded, or others have
            native.function("dyn_recorder_limit", None, ctypes.c_int64)(max(limit // Chunk.BYTES, 1))
            recording = Recording()
            if not self._active:
                remember()
                record_calls(native.addresses["dyn_record_begin"])
            self._active.append(recording)
            return recording

    def stop(self, recording: Recording) -> None:
        with self._lock:
            if len(self._active) == 1:
                record_calls(None)
            self._read()
            recording.programs = remembered()
            recording.names = {track: name for track, name in DEVICE_EVENTS.names.items() if track in recording.words}
            self._active.remove(recording)
            if not self._active:
                forget()

    def _read(self) -> None:
        """Give what threads have published since the last time to the recordings in progress."""
        native = _native()
        free = native.function("dyn_recorder_free", None, ctypes.c_void_p)
        dropped = native.function("dyn_recorder_dropped", ctypes.c_int64)()
        for recording in self._active:
            recording.dropped += dropped
        before, thread = 0, native.function("dyn_recorder_threads", ctypes.c_void_p)() or 0
        while thread:
            ended = _word(thread, Thread.ENDED)  # before its words: after it there are no more
            words, tracks = DEVICE_EVENTS.resolve(_take(thread, free))
            for track, own in {_word(thread, Thread.ID): words, **tracks}.items():
                for recording in self._active if own else ():
                    recording.words.setdefault(track, array("q")).extend(own)
            following = _word(thread, Thread.NEXT)
            if ended and before:  # threads are added in front of the first alone
                _set(before, Thread.NEXT, following)
                _give_back(thread, free)
            else:
                before = thread
            thread = following


_RECORDER = _Recorder()


def start(limit: int) -> Recording:
    """Begin to record the calls that start from now on, in at most ``limit`` bytes of memory."""
    return _RECORDER.start(limit)


def stop(recording: Recording) -> None:
    """End a recording. Calls that have not returned are in it only with those launches that have."""
    _RECORDER.stop(recording)


def _word(address: int, offset: int) -> int:
    return ctypes.c_int64.from_address(address + offset).value


def _set(address: int, offset: int, value: int) -> None:
    ctypes.c_int64.from_address(address + offset).value = value


def _take(thread: int, free: ctypes._CFunctionType) -> array[int]:
    """The words of a thread that were not read yet. Chunks that it has left are given back."""
    words = array("q")
    while True:
        chunk, read = _word(thread, Thread.FIRST), _word(thread, Thread.READ)
        following = _word(chunk, Chunk.NEXT)  # before the count: what is full does not grow
        used = _word(chunk, Chunk.USED)
        words.frombytes(ctypes.string_at(chunk + Chunk.DATA + 8 * read, 8 * (used - read)))
        if not following:
            _set(thread, Thread.READ, used)
            return words
        _set(thread, Thread.FIRST, following)
        _set(thread, Thread.READ, 0)
        free(chunk)


def _give_back(thread: int, free: ctypes._CFunctionType) -> None:
    """Return the memory of a thread that has ended, and been read."""
    frame = _word(thread, Thread.FRAMES)
    while frame:
        following = _word(frame, NEXT_FRAME)
        free(frame)
        frame = following
    free(_word(thread, Thread.FIRST))
    free(thread)
