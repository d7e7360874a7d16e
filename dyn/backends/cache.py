"""Compiled code on disk: a folder of entries that any number of processes share.

An entry is a file named by the hash of what it was made from. It is written beside its place and renamed into it, so
that a reader sees all of it or nothing, also when a writer is killed. Nothing in it is believed before its digest has
been checked: what is cut off, damaged, of another format or another entry's is removed, and counts as absent. A folder
that cannot be written, a full disk, a folder that is deleted while in use: the entry is then not kept, one line says so
in the log ``dyn.cache``, and the program goes on.

Whoever may write into the folder can have readers run code, as with Python's own ``.pyc`` files. It is made for its
owner alone, and one that others may write to, or put another in place of, is not used (``dyn.backends.trust``).

The folder is bounded: from time to time one of the processes, the one that gets the lock, removes the entries that have
not been used for longest.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from dyn import config, events
from dyn.backends.trust import is_own, refusal
from dyn.fork_safety import importing

#: Of the files here and of what they hold; another number is another folder's worth of entries.
FORMAT = 1
#: Magic, format, bytes of payload, digest of the key and the payload.
_HEADER = struct.Struct("<8sIIQ32s")
_MAGIC = b"dyn code"
_SUFFIX, _TEMPORARY = ".bin", ".tmp"
#: The largest entry that is kept or read.
_MOST_BYTES = 1 << 28
#: How exactly "last used" is known: a reader touches an entry at most so often.
_TOUCH_SECONDS = 3600.0
#: How often the folder's size is looked at, if little is written; and when a temporary file's writer must be dead.
_PRUNE_SECONDS = 3600.0
#: Pruning leaves so much of the limit, so that it is not needed again at once.
_KEEP = 0.75


class DiskCacheInfo(NamedTuple):
    """A cache's folder (``""`` if nothing is kept on disk), its entries and their bytes, and this process's use of it.

    ``memory_hits`` and ``disk_hits`` are sources whose code was found in this process or on disk; ``misses`` were
    compiled.
    """

    folder: str
    entries: int
    size: int
    limit: int
    memory_hits: int
    disk_hits: int
    misses: int


@dataclass(slots=True)
class _CacheFile:
    path: str
    size: int
    used: float


class CacheFolder:
    """A folder of entries. Methods never raise for what a disk may do; they answer as if the entry were not there."""

    def __init__(self, folder: str, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        #: Bytes written by this process since it last looked at the size of the whole.
        self._written = 0
        self._told: set[str] = set()

    # Entries ----------------------------------------------------------------------------------------------------

    def path(self, key: str) -> str:
        """Path of a key's entry. Keys are names: letters, digits and underscores."""
        return os.path.join(self.folder, key + _SUFFIX)

    def read(self, key: str) -> bytes | None:
        """The bytes that were written for ``key``, or None."""
        path = self.path(key)
        if not self._is_trusted():
            return None
        try:
            data = _read_file(path)
        except FileNotFoundError:
            return None
        except _NotOwnError:
            self._tell_once(
                f"{path} belongs to another user, or may be written to by others: it is not used. "
                f"Remove it, or name a folder of your own in DYN_CACHE_DIR."
            )
            return None
        except OSError as error:
            self._tell("read", error)
            return None
        payload = _unpack(key, data)
        if payload is None:
            events.cache("%s is damaged or of another version; it is removed.", path)
            _remove(path)
        return payload

    def write(self, key: str, payload: bytes) -> None:
        """Keep ``payload`` for ``key``, in place of what there was."""
        if len(payload) > min(_MOST_BYTES, self.limit) or not self._is_trusted():
            return
        temporary = os.path.join(self.folder, f"{key}.{os.urandom(8).hex()}{_TEMPORARY}")
        try:
            _make_folders(self.folder)
            _write_file(temporary, _pack(key, payload))
            os.replace(temporary, self.path(key))
        except OSError as error:
            _remove(temporary)
            self._tell("write", error)
            return
        except BaseException:
            _remove(temporary)
            raise
        self._written += len(payload)
        self._prune_sometimes()

    # The whole --------------------------------------------------------------------------------------------------

    def entries(self) -> list[_CacheFile]:
        """All entries, those that were used last at the end."""
        return sorted(self._files(_SUFFIX), key=lambda entry: entry.used)

    def clear(self) -> None:
        """Remove every entry and every temporary file; those that other processes write meanwhile may stay."""
        for entry in [*self._files(_SUFFIX), *self._files(_TEMPORARY)]:
            _remove(entry.path)

    def prune(self) -> None:
        """Remove what dead writers have left, and the entries unused for longest if there is more than the limit."""
        dead = time.time() - _PRUNE_SECONDS
        for entry in self._files(_TEMPORARY):
            if entry.used < dead:
                _remove(entry.path)
        entries = self.entries()
        size = sum(entry.size for entry in entries)
        if size <= self.limit:
            return
        for entry in entries:
            if size <= _KEEP * self.limit:
                break
            _remove(entry.path)
            size -= entry.size

    def _prune_sometimes(self) -> None:
        """Prune if much was written, or nobody has for an hour; and unless another process is at it."""
        stamp = os.path.join(self.folder, "pruned")
        try:
            recent = time.time() - os.stat(stamp).st_mtime < _PRUNE_SECONDS
        except OSError:  # a new folder: there is nothing to prune
            recent = True
            with contextlib.suppress(OSError):
                _touch(stamp)
        if recent and self._written < self.limit // 16:
            return
        from filelock import FileLock, Timeout

        try:
            with FileLock(os.path.join(self.folder, "lock"), timeout=0, thread_local=False):
                self._written = 0
                self.prune()
                _touch(stamp)
        except Timeout:
            self._written = 0
        except (OSError, NotImplementedError) as error:  # the latter: a file system without locks
            self._tell("prune", error)

    def _files(self, suffix: str) -> Iterator[_CacheFile]:
        if not self._is_trusted():
            return
        try:
            with os.scandir(self.folder) as found:
                for file in found:
                    if file.name.endswith(suffix):
                        try:
                            status = file.stat(follow_symlinks=False)
                        except OSError:  # another process was quicker
                            continue
                        yield _CacheFile(file.path, status.st_size, status.st_mtime)
        except OSError:
            return

    # What goes wrong --------------------------------------------------------------------------------------------

    def _tell(self, doing: str, error: Exception) -> None:
        """Log one line for a kind of failure: what stands behind it will stop every entry alike."""
        reason = getattr(error, "strerror", None) or str(error)
        self._tell_once(f"cannot {doing} in {self.folder}: {reason}. Compiled code is not kept.")

    def _tell_once(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            events.cache("%s", line)

    def _is_trusted(self) -> bool:
        """Whether nobody else can put code into the folder; one line says why not, and what to do."""
        found = refusal(self.folder)
        if found is not None:
            self._tell_once(
                f"{found.problem}: code from {self.folder} is not run, and none is kept there. Help: {found.remedy}."
            )
        return found is None


class _NotOwnError(Exception):
    """A file that somebody else may have written."""


def _make_folders(folder: str) -> None:
    """The folder and what is missing on the way to it, for their owner alone, whatever the umask says."""
    missing = [folder]
    while not os.path.isdir(missing[-1]) and os.path.dirname(missing[-1]) != missing[-1]:
        missing.append(os.path.dirname(missing[-1]))
    for path in reversed(missing[:-1]):
        with contextlib.suppress(FileExistsError):  # another process was quicker
            os.mkdir(path, 0o700)


def _pack(key: str, payload: bytes) -> bytes:
    return _HEADER.pack(_MAGIC, FORMAT, 0, len(payload), _digest(key, payload)) + payload


def _unpack(key: str, data: bytes) -> bytes | None:
    """The payload of an entry that is whole, of this format, and for this key."""
    if len(data) < _HEADER.size:
        return None
    magic, version, _, size, digest = _HEADER.unpack_from(data)
    payload = data[_HEADER.size :]
    if (magic, version, size) != (_MAGIC, FORMAT, len(payload)) or digest != _digest(key, payload):
        return None
    return payload


def _digest(key: str, payload: bytes) -> bytes:
    hasher = hashlib.sha256(key.encode())
    hasher.update(b"\0")
    hasher.update(payload)
    return hasher.digest()


def _read_file(path: str) -> bytes:
    """A regular file's contents, and a note that it was used. A pipe of that name would wait for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
            return b""
        if not is_own(status):
            raise _NotOwnError(path)
        if time.time() - status.st_mtime > _TOUCH_SECONDS:
            with contextlib.suppress(OSError):  # of no consequence: it may be forgotten the sooner
                os.utime(path)
        return file.read()


def _write_file(path: str, data: bytes) -> None:
    """A new file. It need not be flushed to the disk: what a power cut leaves of it does not have its digest."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]


def _touch(path: str) -> None:
    with open(path, "ab"):
        os.utime(path)


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


# ---- the folder that the settings name -------------------------------------------------------------------------------


def current_store() -> CacheFolder | None:
    """The store that the settings in force name, or None where nothing is to be kept on disk."""
    settings = config.current()
    if settings.cache_dir in ("", "0", "off", "false"):
        return None
    return _store(settings.cache_dir, settings.cache_size)


@lru_cache(maxsize=64)
def _store(folder: str | None, limit: int) -> CacheFolder:
    if folder is None:
        with importing:
            from platformdirs import user_cache_dir

        folder = user_cache_dir("dyn", appauthor=False)
    return CacheFolder(os.path.join(os.path.abspath(os.path.expanduser(folder)), f"v{FORMAT}"), limit)
