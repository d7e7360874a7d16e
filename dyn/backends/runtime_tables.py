"""The runtime tables of this process: what compiled code sees of the world (``dyn.lower.abi.RUNTIME_TABLE``).

Memory and launches are native code; results are allocated by the caller of the moment, which here is NumPy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from dyn import config
from dyn.backends.call_frames import FRAMES
from dyn.backends.externals import PYTHON, call_of
from dyn.backends.library import LIBRARY, call_library
from dyn.backends.runtime import native_copies, native_runtime, thread_count
from dyn.fork_safety import lock
from dyn.lower.abi import RUNTIME_TABLE

_ENTRY = ("dyn_block_alloc", "dyn_block_free")

#: What ctypes calls LLVM's types.
CTYPES: Mapping[str, Any] = {"ptr": ctypes.c_void_p, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "void": None}


class RuntimeTable(ctypes.Structure):
    """A runtime table (``dyn.lower.abi.RUNTIME_TABLE``)."""

    _fields_ = (
        ("state", ctypes.c_void_p),
        *(("threads", ctypes.c_int64) if word is None else (word.name, ctypes.c_void_p) for word in RUNTIME_TABLE),
    )


#: ``(rt, index, tensor, answer)``: see ``dyn.runtime.callbacks``.
_ALLOC_OUTPUT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64))
_FAIL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_int64))


def _alloc_output(table: int, index: int, tensor: int, answer: Any) -> None:
    frame = FRAMES.stack[-1]
    try:
        answer[0] = frame.allocate(index)
    except BaseException as error:  # whatever it is, it must not pass through native frames
        frame.error = error


def _call_python(context: int, inputs: int, outputs: int, answer: Any) -> None:
    """Call a Python function outside of a program, and answer 0 if it went well."""
    try:
        call_of(context)(inputs, outputs)
        answer[0] = 0
    except BaseException as error:  # whatever it is, it must not pass through native frames
        FRAMES.stack[-1].error = error


def _fail(table: int, site: int, count: int, values: Any) -> None:
    frame = FRAMES.stack[-1]
    frame.site, frame.values = site, tuple(values[:count])


class _Runtime:
    """The runtime tables of this process: one for each number of threads that calls are allowed, and whether they have
    deferred kernels made. Callbacks, tables and code live as long as the process."""

    def __init__(self) -> None:
        self.lock = lock()
        self.tables: dict[tuple[int, bool], RuntimeTable] = {}
        self.callbacks = (_ALLOC_OUTPUT(_alloc_output), LIBRARY(call_library), _FAIL(_fail), PYTHON(_call_python))
        asked = [ctypes.cast(c, ctypes.c_void_p).value for c in self.callbacks[:2]]
        #: The state of every table: whom the native runtime asks.
        self.asked = (ctypes.c_void_p * 2)(*asked)
        #: The recorder's ``begin`` while calls are recorded.
        self.begin: int | None = None
        #: The table that calls on devices by the native entry have copies of.
        self.device: RuntimeTable | None = None

    def address(self, threads: int = 0, wants: bool = True) -> int:
        """The table for calls that may use ``threads`` threads; 0 for as many as the process has."""
        table = self.tables.get((threads, wants))
        if table is None:
            with self.lock:
                table = self.tables.setdefault((threads, wants), self._make(threads, wants))
        return ctypes.addressof(table)

    def record(self, begin: int | None) -> None:
        """Have the calls that begin from now on recorded by ``begin``, or no longer."""
        with self.lock:
            self.begin = begin
            for table in (*self.tables.values(), *([] if self.device is None else [self.device])):
                table.begin = begin  # one word: a call sees it or does not

    def _make(self, threads: int, wants: bool) -> RuntimeTable:
        symbols = native_runtime().addresses
        return RuntimeTable(
            state=ctypes.addressof(self.asked),
            threads=thread_count(threads) if threads else 0,
            alloc=symbols["dyn_alloc"],
            free=symbols["dyn_free"],
            launch=symbols["dyn_launch"],
            parallel_for=symbols["dyn_parallel_for"],
            alloc_output=symbols["dyn_ask_output"],
            library=symbols["dyn_ask_library"],
            call=symbols["dyn_call"],
            begin=self.begin,
            want=symbols["dyn_want" if wants else "dyn_want_nothing"],
            fail=ctypes.cast(self.callbacks[2], ctypes.c_void_p).value,
        )

    def make_device_table(self, device: Mapping[str, int], state: int) -> RuntimeTable:
        """A table of the functions of a device (``dyn.runtime.device``), with a state of its own."""
        wants = native_runtime().addresses["dyn_want"]
        fail = ctypes.cast(self.callbacks[2], ctypes.c_void_p).value
        return RuntimeTable(
            state=state, alloc=device["dyn_device_alloc"], free=device["dyn_device_free"],
            alloc_output=device["dyn_device_output"], launch=device["dyn_device_launch"],
            library=native_runtime().addresses["dyn_ask_library"], fail=fail, want=wants,
            fetch=device["dyn_device_fetch"], stage=device["dyn_device_stage"],
        )  # fmt: skip

    def shared_device_table(self, device: Mapping[str, int]) -> int:
        """The address of a table of the functions of devices, whose state calls put in its place."""
        with self.lock:
            if self.device is None:
                self.device = self.make_device_table(device, 0)
                self.device.begin = self.begin
            return ctypes.addressof(self.device)

    def ask_python(self) -> int:
        """The address of what calls Python functions outside of programs."""
        return ctypes.cast(self.callbacks[3], ctypes.c_void_p).value or 0


_RUNTIME = _Runtime()


def device_table(device: Mapping[str, int], state: int) -> RuntimeTable:
    """A runtime table of a device's functions, which the caller keeps alive."""
    return _RUNTIME.make_device_table(device, state)


def shared_device_table(device: Mapping[str, int]) -> int:
    """The address of a runtime table of a device's functions, as calls by the native entry have copies of it."""
    return _RUNTIME.shared_device_table(device)


def host_table(limit: int = 0) -> int:
    """The address of the runtime table of this machine's memory and threads that a call under the settings in force
    uses, or one of ``limit`` threads at most, where that is fewer."""
    settings = config.current()
    own = settings.num_threads
    return _RUNTIME.address(min(own, limit) if own and limit else own or limit, settings.variants == "background")


def recorder_begin() -> int | None:
    """The address of the recorder's ``begin`` while calls are recorded."""
    return _RUNTIME.begin


def ask_python() -> int:
    """The address of what calls Python functions outside of programs."""
    return _RUNTIME.ask_python()


def record_calls(begin: int | None) -> None:
    """Have the calls of all programs that begin from now on recorded by the native function ``begin``, or no longer."""
    _RUNTIME.record(begin)


def entry_functions(*, copies: bool = True) -> dict[str, int]:
    """The addresses of the runtime's functions that the native entry calls, by symbol: of memory for results, in blocks
    aligned to 64 bytes, and, or 0, of ``copies`` of arrays (``dyn.runtime.copies``)."""
    symbols = native_runtime().addresses
    return {**{name: symbols[name] for name in _ENTRY}, "dyn_copy_dense": native_copies() if copies else 0}
