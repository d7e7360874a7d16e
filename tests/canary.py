"""Compiled code run between guard pages: nothing outside the arguments is read or written, nothing outside the results.

Arguments are read-only meanwhile. Arenas, scratch and results are full of NaN when compiled code gets them. Inside of
the arena lie red zones (the setting ``red_zones``) where a program is compiled by ``compile_traced``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np

from dyn import config
from dyn.backends import call_frames, runtime_tables
from dyn.backends.host_programs import LoadedProgram
from dyn.backends.native_entry import Entry
from dyn.backends.runtime_tables import entry_functions
from dyn.backends.x86 import X86Backend, host_target
from dyn.call import table as call_table
from dyn.compilation_record import CompilationRecord
from dyn.hosts.cpython import addresses
from dyn.pipeline import compile_program, optimize
from dyn.trace.context import trace_variable
from dyn.trace.function import TracedFunction
from tests.guard_pages import GuardedMemory

Array = np.ndarray[Any, Any]
#: What the allocator promises.
_ALIGN = 64


@dataclass(eq=False)
class Guarded:
    """The buffers of some calls: each ends at a guard page, or with ``at_start`` begins after one."""

    at_start: bool = False
    buffers: list[tuple[GuardedMemory, str]] = field(default_factory=list[tuple[GuardedMemory, str]])
    #: Arenas, scratch and results of the native entry that are in use, by their address.
    blocks: dict[int, tuple[GuardedMemory, str]] = field(default_factory=dict[int, tuple[GuardedMemory, str]])
    problems: list[str] = field(default_factory=list[str])
    #: How many buffers of each kind there have been.
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def empty(self, shape: Sequence[int], dtype: Any) -> Array:
        """An array of NaN, or of whatever bytes 0xFF are."""
        kind = np.dtype(dtype)
        size = int(np.prod(shape, dtype=object)) * kind.itemsize
        memory = GuardedMemory(size, kind.itemsize & -kind.itemsize, at_start=self.at_start)
        self.buffers.append((memory, f"an array of shape {tuple(shape)}"))
        return memory.array(tuple(shape), kind)

    def copy(self, array: Array) -> Array:
        """The same elements, which nobody may change."""
        made = self.empty(array.shape, array.dtype.newbyteorder("="))
        made[...] = array
        self.buffers[-1][0].read_only()
        return made

    def take(self, size: int, what: str) -> int:
        """The address of a block; 0 where there is no memory."""
        try:
            memory = GuardedMemory(size, _ALIGN, at_start=self.at_start)
        except MemoryError:
            return 0
        self.blocks[memory.address] = memory, what
        self.counts[what] = self.counts.get(what, 0) + 1
        return memory.address

    def give_back(self, address: int) -> None:
        memory, what = self.blocks.pop(address)
        self._look(memory, what)
        memory.free()

    def _look(self, memory: GuardedMemory, what: str) -> None:
        try:
            memory.check(what)
        except AssertionError as error:
            self.problems.append(str(error))

    def launch(self, kernel: int, grid: int, dims: int, buffers: int, scratch_bytes: int) -> int:
        """Run a kernel as ``dyn.runtime.launch`` does, on one thread."""
        if grid <= 0:
            return 0
        scratch = self.take(scratch_bytes, "scratch") if scratch_bytes > 0 else 0
        if scratch_bytes > 0 and not scratch:
            return 1
        _KERNEL(kernel)(dims, buffers, scratch, 0, grid)
        if scratch:
            self.give_back(scratch)
        return 0

    def check(self) -> None:
        """AssertionError where something was written beside a buffer."""
        for memory, what in self.blocks.values():
            self._look(memory, what)
        for memory, what in self.buffers:
            memory.check(what)
        assert not self.problems, self.problems[0]

    def free(self) -> None:
        """Return all memory. Arrays in it are gone."""
        for memory, _ in self.buffers:
            memory.free()
        self.buffers.clear()


class _Watched:
    """NumPy as the runtime sees it, but for ``empty``."""

    def __init__(self, guarded: Guarded) -> None:
        self.empty = guarded.empty

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


_POINTER, _INT = ctypes.c_void_p, ctypes.c_int64
_KERNEL = ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _POINTER, _INT, _INT)


class _Functions:
    """The runtime's functions of memory and launches, on guarded memory.

    They last as long as the process, as plans of the native entry refer to them, and serve the innermost ``watched``.
    """

    def __init__(self) -> None:
        #: Below all: for calls of no ``watched``, which a plan made inside of one may lead here.
        self.stack: list[Guarded] = [Guarded()]
        #: The runtime tables that refer to these functions, by the number of threads, and what calls want.
        self.tables: dict[tuple[int, bool], Any] = {}
        #: Whose a block is: it may be given back later.
        self._owners: dict[int, Guarded] = {}
        self._native: Callable[[Any], None] = ctypes.CFUNCTYPE(None, _POINTER)(entry_functions()["dyn_block_free"])
        make = ctypes.CFUNCTYPE
        self._callbacks: dict[str, Any] = {
            "alloc": make(_POINTER, _POINTER, _INT)(lambda _, size: self._take(size, "an arena")),
            "free": make(None, _POINTER, _POINTER, _INT)(lambda _, address, size: self._give_back(address)),
            "launch": make(ctypes.c_int32, _POINTER, _POINTER, _INT, _POINTER, _POINTER, *[_INT] * 4)(self._launch),
            "dyn_block_alloc": make(_POINTER, _INT)(lambda size: self._take(size, "a result")),
            "dyn_block_free": make(None, _POINTER)(self._give_back),
            "PyArray_Empty": ctypes.PYFUNCTYPE(
                ctypes.py_object, ctypes.c_int, ctypes.POINTER(_INT), ctypes.py_object, ctypes.c_int
            )(self._empty),
        }

    def address(self, name: str) -> int:
        return ctypes.cast(self._callbacks[name], _POINTER).value or 0

    def _take(self, size: int, what: str) -> int:
        guarded = self.stack[-1]
        address = guarded.take(size, what)
        if address:
            self._owners[address] = guarded
        return address

    def _give_back(self, address: int | None) -> None:
        if address:
            owner = self._owners.pop(address, None)
            (self._native if owner is None else owner.give_back)(address)

    def _launch(
        self,
        table: int,
        kernel: int,
        grid: int,
        dims: int,
        buffers: int,
        scratch_bytes: int,
        cost: int,
        pieces: int,
        dispatch: int,
    ) -> int:
        return self.stack[-1].launch(kernel, grid, dims, buffers, scratch_bytes)

    def _empty(self, rank: int, dims: Any, descr: Any, order: int) -> Array:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(descr))  # a reference is handed over
        return self.stack[-1].empty(dims[:rank], descr)


@lru_cache(maxsize=1)
def _functions() -> _Functions:
    return _Functions()


@lru_cache(maxsize=1)
def _entry() -> Entry:
    """A native entry whose results are guarded memory."""
    functions = _functions()
    own = {name: functions.address(name) for name in ("dyn_block_alloc", "dyn_block_free", "PyArray_Empty")}
    return Entry(addresses(trace_variable(), config.context_variable(), entry_functions() | own))


@contextmanager
def fenced() -> Iterator[None]:
    """Functions that are jitted inside are called by guarded memory, in Python and by the native entry.

    Each call has to be made inside of a ``watched``. A call that may use two threads or more is launched natively: its
    scratch is not guarded.
    """
    functions, runtime = _functions(), runtime_tables._RUNTIME
    if runtime.tables is functions.tables:
        yield
        return
    make = runtime._make

    def guarded_table(threads: int, wants: bool) -> Any:
        table = make(threads, wants)
        table.alloc, table.free = functions.address("alloc"), functions.address("free")
        if threads < 2:
            table.launch = functions.address("launch")
        return table

    with ExitStack() as stack:
        whole = SimpleNamespace(get=lambda _: _entry(), complete=lambda _: None)
        stack.enter_context(mock.patch.object(call_table, "_ENTRY", whole))
        stack.enter_context(mock.patch.object(runtime, "tables", functions.tables))
        stack.enter_context(mock.patch.object(runtime, "_make", guarded_table))
        yield


@contextmanager
def watched(*, at_start: bool = False) -> Iterator[Guarded]:
    """Results, scratch and arenas of calls lie between guard pages, which are checked at the end.

    That holds for calls that go through Python, and of functions that were jitted in a ``fenced`` for those by the
    native entry. Results are gone when the block is left: copy them inside.
    """
    guarded, functions = Guarded(at_start), _functions()
    with ExitStack() as stack:
        stack.callback(guarded.free)
        stack.enter_context(fenced())
        stack.enter_context(mock.patch.object(call_frames, "np", _Watched(guarded)))
        functions.stack.append(guarded)
        stack.callback(functions.stack.pop)
        yield guarded
        guarded.check()


def compile_traced(traced: TracedFunction, captured: Sequence[Array]) -> LoadedProgram:
    """Machine code of a trace for this machine, with red zones."""
    record = CompilationRecord()
    with config.override(red_zones=True):
        optimized = optimize(traced, host_target(), record)
    return compile_program(optimized, list(captured), X86Backend(host_target()), record)


def run_compiled(program: LoadedProgram, arrays: Sequence[Array], *, at_start: bool = False) -> list[Array]:
    """The results of a compiled program, its arguments, results, scratch and arena between guard pages."""
    with watched(at_start=at_start) as guarded:
        return [np.array(result) for result in program([guarded.copy(array) for array in arrays])]
