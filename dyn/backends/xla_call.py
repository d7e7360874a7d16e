"""Programs as XLA calls them: the handler in memory, made once a process, and a record for each program."""

from __future__ import annotations

import ctypes
import secrets

from dyn.backends.base import Effort, Source
from dyn.backends.families import host_backend
from dyn.backends.host_programs import LoadedProgram
from dyn.backends.programs import build_own
from dyn.fork_safety import lock
from dyn.ir.core import Op
from dyn.ir.data_dependent import data_dependent_dims
from dyn.late_imports import import_whole
from dyn.lower.abi import TABLE_WORDS, TensorOffsets
from dyn.runtime.loading import load_modules

#: Tells the programs of this process from those of others: a program that XLA has kept in a file, or that somebody
#: wrote, must not have an address taken from it. The handler looks.
PROCESS = secrets.randbits(62)


class _Calls:
    """The handler, and the records of this process. XLA may keep a program as long as the process lives: so do they."""

    def __init__(self) -> None:
        self._lock = lock()
        self._address: int | None = None
        self._kept: dict[int, tuple[LoadedProgram, list[object]]] = {}
        self._records: dict[int, int] = {}

    def handler(self) -> int:
        """The address of the ``XLA_FFI_Handler``."""
        with self._lock:
            if self._address is None:
                backend = host_backend()
                loaded = backend.load(build_own(backend, "xla call", _source).binary)
                ctypes.CFUNCTYPE(None, ctypes.c_int64)(loaded.address("dyn_xla_process"))(PROCESS)
                self._address = loaded.address("dyn_xla_call")
            return self._address

    def record(self, program: LoadedProgram, name: str) -> int | None:
        """The address of what the handler reads of a program; None for one that it cannot run."""
        with self._lock:
            found = self._records.get(id(program))
            if found is None and _fits(program):
                found = self._make(program, name)
            return found

    def _make(self, program: LoadedProgram, name: str) -> int:
        import_whole("dyn.runtime.xla_handler")
        from dyn.runtime.xla_handler import HandlerRecord

        function, captured = program.interface.function, program.captured
        message = ctypes.create_string_buffer(f"dyn: {name} failed, as there is no memory for it".encode())
        tensors = (ctypes.c_int64 * max(len(captured) * TensorOffsets.BYTES // 8, 1))()
        shapes = [(ctypes.c_int64 * max(array.ndim, 1))(*array.shape) for array in captured]
        for number, (array, shape) in enumerate(zip(captured, shapes, strict=True)):
            first = number * TensorOffsets.BYTES // 8
            tensors[first] = array.__array_interface__["data"][0]
            tensors[first + 1] = array.ndim << 32  # the upper half of a word
            tensors[first + 2] = ctypes.addressof(shape)
        ranks = [len(value.shape) for value in function.results]
        rank_words = (ctypes.c_int64 * max(len(ranks), 1))(*ranks)
        words = {
            HandlerRecord.RUN: program.address,
            HandlerRecord.CONTEXT: program.context,
            HandlerRecord.RUNTIME: program.runtime(),
            HandlerRecord.ARGUMENTS: len(function.params) - len(captured),
            HandlerRecord.CAPTURED: ctypes.addressof(tensors),
            HandlerRecord.CAPTURED_COUNT: len(captured),
            HandlerRecord.RESULTS: len(ranks),
            HandlerRecord.RANKS: ctypes.addressof(rank_words),
            HandlerRecord.DIMS: sum(ranks),
            HandlerRecord.MESSAGE: ctypes.addressof(message),
        }
        record = (ctypes.c_int64 * HandlerRecord.WORDS)(*[words[8 * number] for number in range(HandlerRecord.WORDS)])
        address = ctypes.addressof(record)
        self._kept[address] = (program, [message, tensors, shapes, rank_words, record])
        self._records[id(program)] = address
        return address


CALLS = _Calls()


def _source() -> Source:
    load_modules("dyn.runtime.xla_handler")  # a process that finds the object does without
    from dyn.runtime.xla_handler import PROCESS_SYMBOL, SYMBOL, xla_call_text

    return Source(xla_call_text(TABLE_WORDS), (SYMBOL, PROCESS_SYMBOL), Effort.PROMOTE)


def _fits(program: LoadedProgram) -> bool:
    """Whether a program runs without Python, has nothing to say of values when it fails, and has few enough tensors."""
    import_whole("dyn.runtime.xla_handler")
    from dyn.runtime.xla_handler import MOST_BYTES

    function = program.interface.function
    tensors = len(function.params) + len(function.results)
    plain = (
        program.native
        and not program.interface.reuses
        and not program.externals.callees
        and not _demands(function.ops)
        and next(iter(data_dependent_dims(function.ops)), None) is None
    )
    return plain and TensorOffsets.BYTES * tensors + 8 * sum(len(v.shape) for v in function.results) <= MOST_BYTES


def _demands(ops: tuple[Op, ...]) -> bool:
    """Whether something is demanded of dims in a region, which is checked when that runs."""
    return any(region.demands or _demands(region.ops) for op in ops for region in op.regions)
