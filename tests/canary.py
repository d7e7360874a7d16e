"""Compiled code run between canaries: nothing outside the arguments is written, nothing outside the results either."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from dyn.backends import host_programs
from dyn.backends.host_programs import LoadedProgram
from dyn.backends.x86 import X86Backend, host_target
from dyn.pipeline import compile_program, optimize
from dyn.record import Record
from dyn.trace.function import TracedFunction

Array = np.ndarray[Any, Any]
_MARGIN = 256
_BYTE = 0xA5


class _Fence:
    """An array in the middle of memory that is watched."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        self.raw = np.full(self.bytes + 2 * _MARGIN + 64, _BYTE, np.uint8)
        self.start = _MARGIN + (-self.raw.ctypes.data - _MARGIN) % 64
        self.array = self.raw[self.start : self.start + self.bytes].view(dtype).reshape(shape)

    def check(self) -> None:
        outside = np.concatenate([self.raw[: self.start], self.raw[self.start + self.bytes :]])
        assert (outside == _BYTE).all(), f"bytes beside an array of shape {self.array.shape} were written"


class _Watched:
    """NumPy as the runtime sees it, but for ``empty``."""

    def __init__(self, fences: list[_Fence]) -> None:
        self.fences = fences

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        self.fences.append(_Fence(shape, dtype))
        return self.fences[-1].array


@contextmanager
def watched() -> Iterator[list[_Fence]]:
    """Results that are allocated inside lie between canaries, which are checked at the end."""
    fences: list[_Fence] = []
    with mock.patch.object(host_programs, "np", _Watched(fences)):
        yield fences
    for fence in fences:
        fence.check()


def compile_traced(traced: TracedFunction, captured: Sequence[Array]) -> LoadedProgram:
    """Machine code of a trace for this machine."""
    record = Record()
    return compile_program(optimize(traced, host_target(), record), list(captured), X86Backend(host_target()), record)


def run_compiled(program: LoadedProgram, arrays: Sequence[Array]) -> list[Array]:
    """The results of a compiled program, its arguments and results fenced."""
    given: list[Array] = []
    with watched() as fences:
        for array in arrays:
            fence = _Fence(array.shape, array.dtype)
            fence.array[...] = array
            fences.append(fence)
            given.append(fence.array)
        results = [np.array(result) for result in program(given)]
    return results
