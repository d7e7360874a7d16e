"""The native runtime of one process, and calls into host programs through it.

The runtime table (``dyn.lower.host_llvm``) is all that compiled code sees of the world. Memory and launches are native
code; outputs are allocated by the caller of the moment, which here is NumPy.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from dyn.backends.base import Source
from dyn.backends.x86 import X86Backend, host_target
from dyn.dtypes import DType
from dyn.lower.host import HostProgram, render_failure

Array = np.ndarray[Any, Any]

# One block of memory is kept between calls, the largest that was needed: a call takes it with one exchange, and a call
# that finds it taken allocates its own. A block's capacity stands 64 bytes before it.
_RUNTIME_IR = """
@arena = internal global ptr null
@scratch = internal global ptr null
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)

define internal ptr @take(ptr %slot, i64 %bytes) {
entry:
  %kept = atomicrmw xchg ptr %slot, ptr null acq_rel, align 8
  %none = icmp eq ptr %kept, null
  br i1 %none, label %make, label %look
look:
  %head = getelementptr i8, ptr %kept, i64 -64
  %capacity = load i64, ptr %head, align 8
  %enough = icmp sge i64 %capacity, %bytes
  br i1 %enough, label %use, label %drop
use:
  ret ptr %kept
drop:
  call void @free(ptr %head)
  br label %make
make:
  %padded = add i64 %bytes, 191
  %size = and i64 %padded, -64
  %raw = call ptr @aligned_alloc(i64 64, i64 %size)
  %failed = icmp eq ptr %raw, null
  br i1 %failed, label %out, label %good
out:
  ret ptr null
good:
  %room = sub i64 %size, 64
  store i64 %room, ptr %raw, align 8
  %block = getelementptr i8, ptr %raw, i64 64
  ret ptr %block
}

define internal void @give(ptr %slot, ptr %block) {
entry:
  %other = atomicrmw xchg ptr %slot, ptr %block acq_rel, align 8
  %none = icmp eq ptr %other, null
  br i1 %none, label %done, label %extra
extra:
  %head = getelementptr i8, ptr %other, i64 -64
  call void @free(ptr %head)
  br label %done
done:
  ret void
}

define ptr @dyn_alloc(ptr %rt, i64 %bytes) {
entry:
  %block = call ptr @take(ptr @arena, i64 %bytes)
  ret ptr %block
}

define void @dyn_free(ptr %rt, ptr %block, i64 %bytes) {
entry:
  call void @give(ptr @arena, ptr %block)
  ret void
}

define i32 @dyn_launch(ptr %rt, ptr %kernel, i64 %grid, ptr %dims, ptr %buffers, i64 %bytes) {
entry:
  %wants = icmp sgt i64 %bytes, 0
  br i1 %wants, label %get, label %bare
bare:
  call void %kernel(ptr %dims, ptr %buffers, ptr null, i64 0, i64 %grid)
  ret i32 0
get:
  %room = call ptr @take(ptr @scratch, i64 %bytes)
  %failed = icmp eq ptr %room, null
  br i1 %failed, label %out, label %start
start:
  call void %kernel(ptr %dims, ptr %buffers, ptr %room, i64 0, i64 %grid)
  call void @give(ptr @scratch, ptr %room)
  ret i32 0
out:
  ret i32 1
}
"""
_SYMBOLS = ("dyn_alloc", "dyn_free", "dyn_launch")


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dtype", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("dims", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
    )


class _Table(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_void_p)
        for name in ("state", "alloc", "free", "alloc_output", "launch", "parallel_for", "library", "fail")
    )


_ALLOC_OUTPUT = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.POINTER(_Tensor))
_FAIL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_int64))
_RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


@dataclass
class _Frame:
    """What a call in progress on this thread has been told so far."""

    dtypes: tuple[DType, ...]
    outputs: list[Array | None]
    site: int = -1
    values: tuple[int, ...] = ()
    error: BaseException | None = None


class _Frames(threading.local):
    def __init__(self) -> None:
        self.stack: list[_Frame] = []


_FRAMES = _Frames()


def _alloc_output(table: int, index: int, tensor: Any) -> int | None:
    frame = _FRAMES.stack[-1]
    try:
        rank = tensor[0].rank
        dims = ctypes.cast(tensor[0].dims, ctypes.POINTER(ctypes.c_int64))
        array = np.empty(tuple(dims[axis] for axis in range(rank)), frame.dtypes[index].np)
    except BaseException as error:  # whatever it is, it must not pass through native frames
        frame.error = error
        return None
    frame.outputs[index] = array
    return array.__array_interface__["data"][0]


def _fail(table: int, site: int, count: int, values: Any) -> None:
    frame = _FRAMES.stack[-1]
    frame.site, frame.values = site, tuple(values[:count])


@cache
def _table() -> _Table:
    """The runtime table of this process. Callbacks and code live as long as it does."""
    backend = X86Backend(host_target())
    code = backend.load(backend.compile(Source(_RUNTIME_IR, _SYMBOLS)))
    callbacks = (_ALLOC_OUTPUT(_alloc_output), _FAIL(_fail))
    _KEPT.extend(callbacks)
    return _Table(
        alloc=code.address("dyn_alloc"),
        free=code.address("dyn_free"),
        launch=code.address("dyn_launch"),
        alloc_output=ctypes.cast(callbacks[0], ctypes.c_void_p).value,
        fail=ctypes.cast(callbacks[1], ctypes.c_void_p).value,
    )


_KEPT: list[Any] = []


@dataclass(eq=False)
class LoadedProgram:
    """A host program in memory, ready to be called from many threads at once.

    ``kernels`` are the addresses that the program's launches refer to by number, ``captured`` the arrays of its hidden
    parameters, which come after the arguments.
    """

    program: HostProgram
    address: int
    kernels: Sequence[int]
    captured: tuple[Array, ...]
    _run: Any = field(init=False)
    _context: Any = field(init=False)
    _dtypes: tuple[DType, ...] = field(init=False)
    _ranks: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._run = _RUN(self.address)
        self._context = (ctypes.c_void_p * max(len(self.kernels), 1))(*self.kernels)
        self._dtypes = tuple(v.dtype for v in self.program.function.results)
        self._ranks = tuple(len(v.shape) for v in self.program.function.results)

    def __call__(self, arguments: Sequence[Array]) -> list[Array]:
        """The results for NumPy arrays of the right dtypes and ranks; ShapeError or MemoryError where a check fails."""
        arrays = [_dense(a) for a in (*arguments, *self.captured)]
        dims = (ctypes.c_int64 * sum(max(a.ndim, 1) for a in arrays))()
        inputs = (_Tensor * max(len(arrays), 1))()
        at = 0
        for tensor, array in zip(inputs, arrays, strict=False):
            rank = array.ndim
            dims[at : at + rank] = array.shape
            tensor.data = array.__array_interface__["data"][0]
            tensor.rank = rank
            tensor.dims = ctypes.addressof(dims) + 8 * at
            at += max(rank, 1)
        shapes = [(ctypes.c_int64 * max(rank, 1))() for rank in self._ranks]
        outputs = (_Tensor * max(len(shapes), 1))()
        for tensor, rank, shape in zip(outputs, self._ranks, shapes, strict=False):
            tensor.rank = rank
            tensor.dims = ctypes.addressof(shape)
        frame = _Frame(self._dtypes, [None] * len(shapes))
        _FRAMES.stack.append(frame)
        try:
            status = self._run(ctypes.byref(_table()), self._context, inputs, outputs)
        finally:
            _FRAMES.stack.pop()
        if status:
            if frame.error is not None:
                raise frame.error
            raise render_failure(self.program, frame.site, frame.values, [a.shape for a in arrays])
        return [array for array in frame.outputs if array is not None]


def _dense(array: Array) -> Array:
    """The array itself when compiled code can read it: aligned, row-major, in this machine's byte order."""
    flags = array.flags
    if flags.c_contiguous and flags.aligned and array.dtype.isnative:
        return array
    return np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
