"""Identity of this dyn: a digest of the compiler's sources, under which compiled code is kept on disk.

A version number would not do: whoever edits a pass must not be given what the pass made before. What is digested is
the text of the sources, not times or sizes, which unlike files can share.

Sources may change while a process runs, and Python may have imported some of them before that and some after. So a
process keeps nothing for others, once a source is younger than its import of dyn (:func:`is_unchanged`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import lru_cache

#: When this process imported dyn, which begins with this module.
_IMPORTED = time.time_ns()
#: How much older than that a source must be: clocks of file systems are coarse, and other modules come before this one.
_MARGIN = 2_000_000_000
#: What no generated code depends on, since none of what generates it may import them: see ``tests/meta/test_layers``.
_ABOVE = frozenset({
    "array", "api.py", "call", "doctor.py", "explain", "interop", "lax", "nn", "numpy", "random",
    "__init__.py", "__main__.py", "__pycache__",
})  # fmt: skip


@lru_cache(maxsize=1)
def code_version() -> str | None:
    """The digest of everything between a traced program and its machine code; None where no sources are to be had."""
    from hashlib import blake2b  # takes some ms, and `import dyn` imports this module

    digest = blake2b(digest_size=32)
    folder = _folder()
    names = sorted(_sources(folder))
    try:
        for name in names:
            descriptor = os.open(os.path.join(folder, name), os.O_RDONLY | os.O_CLOEXEC)
            try:
                size = os.fstat(descriptor).st_size
                text = os.read(descriptor, size)
            finally:
                os.close(descriptor)
            if len(text) != size:
                return None
            digest.update(f"{name}\0{size}\0".encode())
            digest.update(text)
    except OSError:
        return None
    return digest.hexdigest() if names else None


def is_unchanged() -> bool:
    """Whether the code that this process runs is that of :func:`code_version`: no source has been written since."""
    folder = _folder()
    try:
        statuses = [os.stat(os.path.join(folder, name)) for name in _sources(folder)]
    except OSError:
        return False
    # The time of change, too: a file that is moved or copied into place may bring an old time of writing with it.
    return all(max(s.st_mtime_ns, s.st_ctime_ns) < _IMPORTED - _MARGIN for s in statuses)


def _folder() -> str:
    return os.path.dirname(os.path.abspath(__file__))


def _sources(folder: str, inside: str = "") -> Iterator[str]:
    """The names of the files, from ``folder``. None where dyn lies in an archive, or in compiled form alone."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        name = f"{inside}{entry.name}"
        if name in _ABOVE:
            continue
        if name.endswith(".py"):
            yield name
        elif "." not in name and entry.is_dir() and entry.name != "__pycache__":
            yield from _sources(entry.path, f"{name}/")
