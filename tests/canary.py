"""Compiled code run between guard pages: nothing outside the arguments is read or written, nothing outside the results.

Arguments are read-only meanwhile. Arenas and results are full of NaN when compiled code gets them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from dyn.backends import host_programs
from dyn.backends.host_programs import LoadedProgram
from dyn.backends.x86 import X86Backend, host_target
from dyn.pipeline import compile_program, optimize
from dyn.record import Record
from dyn.trace.function import TracedFunction
from tests.guard_pages import GuardedMemory

Array = np.ndarray[Any, Any]
#: What the allocator of arenas promises.
_ARENA_ALIGN = 64


@dataclass(eq=False)
class Guarded:
    """The buffers of some calls: each ends at a guard page, or with ``at_start`` begins after one."""

    at_start: bool = False
    buffers: list[tuple[GuardedMemory, str]] = field(default_factory=list[tuple[GuardedMemory, str]])
    #: Arenas in use, by their address.
    arenas: dict[int, GuardedMemory] = field(default_factory=dict[int, GuardedMemory])
    problems: list[str] = field(default_factory=list[str])

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

    def take(self, size: int) -> int:
        """The address of an arena; 0 where there is no memory."""
        try:
            memory = GuardedMemory(size, _ARENA_ALIGN, at_start=self.at_start)
        except MemoryError:
            return 0
        self.arenas[memory.address] = memory
        return memory.address

    def give_back(self, address: int) -> None:
        memory = self.arenas.pop(address, None) if address else None
        if memory is not None:
            try:
                memory.check("an arena")
            except AssertionError as error:
                self.problems.append(str(error))
            memory.free()

    def check(self) -> None:
        """AssertionError where something was written beside a buffer."""
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


_ALLOC = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
_FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


@contextmanager
def watched(*, at_start: bool = False) -> Iterator[Guarded]:
    """Results and arenas of calls lie between guard pages, which are checked at the end.

    That holds for calls which go through Python. Results are gone when the block is left: copy them inside.
    """
    guarded = Guarded(at_start)
    alloc = _ALLOC(lambda _, size: guarded.take(size))
    free = _FREE(lambda _, address, size: guarded.give_back(address))
    runtime = host_programs._RUNTIME
    make = runtime._make

    def guarded_table(threads: int) -> Any:
        table = make(threads)
        table.alloc = ctypes.cast(alloc, ctypes.c_void_p).value
        table.free = ctypes.cast(free, ctypes.c_void_p).value
        return table

    with ExitStack() as stack:
        stack.callback(guarded.free)
        stack.enter_context(mock.patch.object(host_programs, "np", _Watched(guarded)))
        stack.enter_context(mock.patch.object(runtime, "tables", {}))
        stack.enter_context(mock.patch.object(runtime, "_make", guarded_table))
        yield guarded
        guarded.check()


def compile_traced(traced: TracedFunction, captured: Sequence[Array]) -> LoadedProgram:
    """Machine code of a trace for this machine."""
    record = Record()
    return compile_program(optimize(traced, host_target(), record), list(captured), X86Backend(host_target()), record)


def run_compiled(program: LoadedProgram, arrays: Sequence[Array], *, at_start: bool = False) -> list[Array]:
    """The results of a compiled program, its arguments, results and arena between guard pages."""
    with watched(at_start=at_start) as guarded:
        return [np.array(result) for result in program([guarded.copy(array) for array in arrays])]
