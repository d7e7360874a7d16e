"""The native entry in memory: compiled once a process, and one built-in function for each jitted function.

``dyn.runtime.entry`` says what the code does. It is never unmapped, as built-ins and the results of calls lead into it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from dyn.backends.base import Effort, Source
from dyn.backends.families import host_backend
from dyn.backends.programs import build_own
from dyn.fork_safety import lock
from dyn.lower.abi import TABLE_WORDS
from dyn.runtime.loading import load_modules

#: ``METH_FASTCALL | METH_KEYWORDS``
_FLAGS = 0x80 | 0x02


class _MethodDef(ctypes.Structure):
    """CPython's ``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def _entry_source() -> Source:
    load_modules("dyn.runtime.entry.entry_function")  # a process that finds the object does without
    from dyn.runtime.entry.entry_function import SYMBOLS, entry_text

    return Source(entry_text(TABLE_WORDS), SYMBOLS, Effort.PROMOTE)


class Entry:
    """The entry of this process. ``addresses`` are those of ``layout.API``, in its order."""

    def __init__(self, addresses: Sequence[int]) -> None:
        backend = host_backend()
        code = backend.load(build_own(backend, "entry", _entry_source).binary)
        self._setup = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("dyn_entry_setup"))
        self.set_up(addresses)
        self.is_complete = False
        # A built-in points to its definition, and built-ins may outlive everything here.
        self._definition = _MethodDef(b"__call__", code.address("dyn_entry"), _FLAGS, None)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._definition))
        self._make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
            ("PyCFunction_NewEx", ctypes.pythonapi)
        )

    def set_up(self, addresses: Sequence[int]) -> None:
        """Tell the entry the addresses. Calls may go on meanwhile: each is one aligned word."""
        table = (ctypes.c_void_p * len(addresses))(*addresses)
        self._setup(ctypes.addressof(table))

    def function(self, table: int, *owners: object) -> Callable[..., Any]:
        """A built-in that is led by the call table at an address, and keeps ``owners`` alive."""
        address = table.to_bytes(8, "little")
        return self._make(ctypes.addressof(self._definition), (address, *owners), None)


class LazyEntry:
    """The entry, made when the first call can use it."""

    def __init__(self) -> None:
        self._lock = lock()
        self._entry: Entry | None = None

    def get(self, addresses: Callable[[], Sequence[int]]) -> Entry:
        """The entry; ``addresses`` are asked for once."""
        with self._lock:
            if self._entry is None:
                self._entry = Entry(addresses())
            return self._entry

    def complete(self, addresses: Callable[[], Sequence[int]]) -> None:
        """Give the entry, once, all addresses, those of functions that few processes need among them."""
        with self._lock:
            if self._entry is not None and not self._entry.is_complete:
                self._entry.set_up(addresses())
                self._entry.is_complete = True
