"""Reserves address space before a library that aborts on failed allocation.

LLVM ends the process where it gets no memory, and a library that cannot be mapped is an OSError or an ImportError with
one of several texts. So the address space is asked beforehand, which is where ``RLIMIT_AS`` and strict overcommit
refuse. What a system promises and then does not have (a cgroup's limit, the OOM killer) nobody can ask.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager

from dyn.errors import is_short_of_memory
from dyn.fork_safety import lock

_lock = lock()
#: What those who are at work now have asked for. They may not have taken it yet.
_promised: list[int] = []


@contextmanager
def reserve(size: int, what: str) -> Iterator[None]:
    """While the block runs, ``size`` bytes of address space are the block's; MemoryError if there are not so many."""
    with _lock:
        if not fits(size):
            raise MemoryError(f"no memory to {what}: it takes up to {size >> 20} MiB of address space")
        _promised.append(size)
    try:
        yield
    except (OSError, ImportError) as error:
        if is_short_of_memory(error):
            raise MemoryError(f"no memory to {what}") from error
        raise
    finally:
        _promised.remove(size)


def fits(size: int) -> bool:
    """Whether there are ``size`` bytes of address space beside what has been promised to others."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    try:
        mmap.mmap(-1, size + sum(_promised), flags).close()
    except (OSError, MemoryError):
        return False
    return True
