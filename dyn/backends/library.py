"""Library calls: what a host program asks of NumPy and SciPy, through the runtime table.

An op whose ``loops`` are ``LibraryRoutine`` is computed by its reference, on views of the memory that the host program
lays out. What it raises is kept for the thread, and raised again where the call ends.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn.errors import BackendUnavailableError
from dyn.fork_safety import lock
from dyn.ir.core import Op, attr_values
from dyn.ir.opdef import LibraryRoutine
from dyn.shapes import Symbol

_WORDS = 4  # of eight bytes a tensor: data, dtype and rank, dims, strides
#: ``(rt, entry, tensors, values, answer)``: see ``dyn.runtime.callbacks``.
LIBRARY = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.POINTER(ctypes.c_int64))


class _ReferenceCall:
    """One library call of one program."""

    def __init__(self, op: Op, symbols: Sequence[Symbol]) -> None:
        self.op = op
        self.symbols = tuple(symbols)
        self.dtypes = tuple(v.dtype.np for v in (*op.operands, *op.results))
        self.ranks = tuple(len(v.shape) for v in (*op.operands, *op.results))

    def __call__(self, tensors: int, values: int) -> None:
        words = (ctypes.c_int64 * (_WORDS * len(self.ranks))).from_address(tensors)
        arrays = [
            _view(words[_WORDS * i], words[_WORDS * i + 2], rank, dtype)
            for i, (rank, dtype) in enumerate(zip(self.ranks, self.dtypes, strict=True))
        ]
        sizes = (ctypes.c_int64 * len(self.symbols)).from_address(values)
        attrs = attr_values(self.op.attrs, dict(zip(self.symbols, sizes, strict=True)))
        operands, results = arrays[: len(self.op.operands)], arrays[len(self.op.operands) :]
        into = loops.into if isinstance(loops := self.op.opdef.loops, LibraryRoutine) else None
        if into is not None:
            into(results, *operands, **attrs)
            return
        try:
            found = self.op.opdef.reference(*operands, **attrs)
        except BackendUnavailableError as error:
            raise BackendUnavailableError(error.problem, loc=self.op.loc, remedy=error.remedy) from error.__cause__
        for result, array in zip(results, found if isinstance(found, tuple) else (found,), strict=True):
            result[...] = array


def _view(address: int, dims: int, rank: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The dense array at an address."""
    shape = tuple((ctypes.c_int64 * rank).from_address(dims)) if rank else ()
    size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    if size == 0:
        return np.empty(shape, dtype)
    memory: Any = (ctypes.c_char * size).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape)


class _Raised(threading.local):
    """The exception of this thread's last library call."""

    error: BaseException | None = None


_RAISED = _Raised()
#: Entries are referred to by number from native code, for as long as the process lives.
_CALLS: list[_ReferenceCall] = []
_ADDING = lock()


def register(op: Op, symbols: Sequence[Symbol]) -> int:
    """The entry of a library call, for a program's ``ctx``. ``symbols`` are the program's."""
    with _ADDING:
        _CALLS.append(_ReferenceCall(op, symbols))
        return len(_CALLS) - 1


def call_library(table: int, entry: int | None, tensors: int, values: int, answer: Any) -> None:
    """Make a library call, and answer 0 if it went well; ``entry`` 0 arrives as None."""
    try:
        _CALLS[entry or 0](tensors, values)
        answer[0] = 0
    except BaseException as error:  # whatever it is, it must not pass through native frames
        _RAISED.error = error


def call_staged(entry: int, tensors: int, values: int) -> None:
    """Make a library call with tensors in this machine's memory, and raise what it raises."""
    _CALLS[entry](tensors, values)


def tensors_of(entry: int) -> tuple[int, int]:
    """Numbers of operands and of results of a library call."""
    op = _CALLS[entry].op
    return len(op.operands), len(op.results)


def keep_error(error: BaseException) -> None:
    """Keep the exception of a library call for :func:`take_error`."""
    _RAISED.error = error


def take_error() -> BaseException | None:
    """Take the exception of the library call that failed on this thread; None where it was never begun."""
    error, _RAISED.error = _RAISED.error, None
    return error
