"""Compilation of sources, each once: binaries are kept in this process and on disk."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial

from dyn import events
from dyn.backends.base import Binary
from dyn.backends.cache import CacheFolder, DiskCacheInfo, current_store
from dyn.backends.once_table import OnceTable
from dyn.fork_safety import lock, no_fork
from dyn.frozen import record
from dyn.schedule.target import Target


class Origin(Enum):
    """Origin of a binary."""

    COMPILED = "compiled"
    DISK = "from disk"
    MEMORY = "from memory"

    @property
    def found(self) -> str:
        """``"found on disk"``"""
        return "compiled" if self is Origin.COMPILED else f"found {'on disk' if self is Origin.DISK else 'in memory'}"


@record()
class Built:
    """A binary, and where it came from."""

    binary: Binary
    origin: Origin

    def log(self, symbols: tuple[str, ...], target: Target) -> None:
        """Write a line in the log: by the thread that asked, whose settings count."""
        how = f"compiled for {target}" if self.origin is Origin.COMPILED else self.origin.found
        events.cache("%s: %s", ", ".join(symbols), how)


class Binaries:
    """The binaries of one backend in this process. Every method may be called from many threads at once."""

    def __init__(self) -> None:
        self._known: OnceTable[Binary] = OnceTable()

    def get(
        self, key: str, symbols: tuple[str, ...], store: CacheFolder | None, compile: Callable[[], bytes] | None
    ) -> Built:
        """The binary of ``key``. Among threads that ask at once, one finds or compiles it and the others wait."""
        origin = Origin.COMPILED

        def compile_and_keep(compile: Callable[[], bytes]) -> Binary:
            binary = Binary(compile(), symbols)
            if store is not None:
                store.write(key, binary.data)
            return binary

        def make() -> Binary:
            nonlocal origin
            data = None if store is None else store.read(key)
            if data is not None:
                origin = Origin.DISK
                return Binary(data, symbols)
            if compile is None:
                raise _NotKeptError
            return no_fork(partial(compile_and_keep, compile))

        binary, made = self._known.get(key, make)
        built = Built(binary, origin if made else Origin.MEMORY)
        _COUNTS.add(built.origin)
        return built

    def find(self, key: str, symbols: tuple[str, ...], store: CacheFolder | None) -> Built | None:
        """The binary of ``key`` if it need not be compiled."""
        try:
            return self.get(key, symbols, store, None)
        except _NotKeptError:
            return None

    def clear(self) -> None:
        """Forget the binaries in memory, as a new process would. Code that was loaded stays."""
        self._known.clear()


class _NotKeptError(Exception):
    """There is no such binary yet."""


class _Counts:
    """Counts of binaries in this process, by origin."""

    def __init__(self) -> None:
        self._lock = lock()
        self.of = dict.fromkeys(Origin, 0)

    def add(self, origin: Origin) -> None:
        with self._lock:
            self.of[origin] += 1


_COUNTS = _Counts()


def cache_info() -> DiskCacheInfo:
    """The cache that the settings in force name, and what this process found in it."""
    store = current_store()
    entries = [] if store is None else store.entries()
    return DiskCacheInfo(
        "" if store is None else store.folder,
        len(entries),
        sum(entry.size for entry in entries),
        0 if store is None else store.limit,
        _COUNTS.of[Origin.MEMORY],
        _COUNTS.of[Origin.DISK],
        _COUNTS.of[Origin.COMPILED],
    )


def cache_clear() -> None:
    """Remove everything from the folder that the settings in force name. What is in memory goes on running."""
    store = current_store()
    if store is not None:
        store.clear()
