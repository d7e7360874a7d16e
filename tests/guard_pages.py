"""Memory that ends at a page which nobody may touch, and beside which every byte is known.

A buffer lies right before such a page, so that reading or writing one element too far ends the process with SIGSEGV;
or right after one, for what lies before the first element. The rest of its pages is a red zone of bytes 0xFF, which are
NaN as floats and -1 as integers: what is read there shows in results, and what is written there is found by ``check``.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_BYTE = 0xFF
_PAGE = mmap.PAGESIZE
_PRIVATE_ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
_FAILED = ctypes.c_void_p(-1).value
#: A larger buffer is refused, as if there were no memory: filling it takes too long.
LARGEST = 1 << 28

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class GuardedMemory:
    """``size`` bytes at ``address``, between red zones and pages without access.

    ``align`` is a power of two up to the size of a page. Raises MemoryError where there is no memory, and ValueError
    for a negative size.
    """

    def __init__(self, size: int, align: int, *, at_start: bool = False) -> None:
        if size < 0:
            raise ValueError(f"no buffer of {size} bytes")
        if size > LARGEST:
            raise MemoryError(f"no buffer of {size} bytes between guard pages")
        self.size = size
        self._inner = max(-(-size // _PAGE), 1) * _PAGE
        base = _libc.mmap(None, self._inner + 2 * _PAGE, 0, _PRIVATE_ANONYMOUS, -1, 0)
        if base is None or base == _FAILED:
            raise MemoryError(f"no buffer of {size} bytes between guard pages")
        self._base: int | None = base
        self._start = base + _PAGE
        self._protect(mmap.PROT_READ | mmap.PROT_WRITE)
        self.address = self._start if at_start else self._start + self._inner - -(-size // align) * align
        ctypes.memset(self._start, _BYTE, self._inner)

    def _protect(self, access: int) -> None:
        if _libc.mprotect(self._start, self._inner, access):
            raise MemoryError("the access to a buffer cannot be changed")

    def read_only(self) -> None:
        """From now on writing into the buffer ends the process."""
        self._protect(mmap.PROT_READ)

    def check(self, what: str) -> None:
        """AssertionError where a byte of a red zone was written; ``what`` names the buffer."""
        before = ctypes.string_at(self._start, self.address - self._start)
        end = self.address + self.size
        after = ctypes.string_at(end, self._start + self._inner - end)
        written = before.count(_BYTE) < len(before) or after.count(_BYTE) < len(after)
        assert not written, f"bytes beside {what} were written"

    def array(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """The memory as an array, which does not keep it."""
        whole: Any = (ctypes.c_char * max(self.size, 1)).from_address(self.address)  # nothing is looked at here
        return np.ndarray(shape, dtype, buffer=whole)

    def free(self) -> None:
        """Return the memory to the system; using it afterwards ends the process."""
        if self._base is not None:
            _libc.munmap(self._base, self._inner + 2 * _PAGE)
            self._base = None
