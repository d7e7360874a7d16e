"""Functions outside of programs, as compiled code calls them: an address and a context each.

Python functions are reached through one function of the native runtime, whose context says which of them is meant.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn.backends.runtime import native_runtime
from dyn.dtypes import DType, from_dlpack
from dyn.frozen import record
from dyn.ir.external import TENSOR, External, ExternalResult, ExternalTarget, NativeFunction
from dyn.ops.custom_call import run_registered

Array = np.ndarray[Any, Any]

#: ``(context, in, out, answer)``: see ``dyn.runtime.callbacks``.
PYTHON = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.POINTER(ctypes.c_int64))


@record()
class _DenseTensor:
    """A dense array in memory that compiled code looks after."""

    data: int
    dtype: DType
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return self.dtype.itemsize * math.prod(self.shape)

    def view(self) -> Array:
        """An array over the memory."""
        size = self.nbytes
        if size == 0:
            return np.empty(self.shape, self.dtype.np)
        memory: Any = (ctypes.c_char * size).from_address(self.data)
        return np.frombuffer(memory, self.dtype.np).reshape(self.shape)

    def copy(self) -> Array:
        made = np.empty(self.shape, self.dtype.np)
        ctypes.memmove(made.__array_interface__["data"][0], self.data, self.nbytes)
        return made


def _tensors(address: int, bytes: int) -> list[_DenseTensor]:
    """The tensors that lie one after the other at an address."""
    found: list[_DenseTensor] = []
    for data, dtype, rank, dims, _ in TENSOR.iter_unpack(ctypes.string_at(address, bytes)):
        shape = struct.unpack(f"{rank}q", ctypes.string_at(dims, 8 * rank)) if rank else ()
        found.append(_DenseTensor(data, from_dlpack(dtype), shape))
    return found


class PythonCall:
    """A Python function as programs call it: their context leads here."""

    def __init__(self, callee: ExternalTarget) -> None:
        self.callee = callee

    def __call__(self, inputs: int, outputs: int) -> None:
        operands = _tensors(inputs, outputs - inputs)
        results = _tensors(outputs, TENSOR.size * self.callee.results)
        expected = [ExternalResult(x.dtype, x.shape) for x in results]
        target = self.callee.target
        if isinstance(target, str):
            views = [x.view() for x in operands]
            made: Sequence[Array] = run_registered(target, self.callee.attributes, views, expected)
        else:
            assert not isinstance(target.function, NativeFunction)
            made = target.function([x.view() if target.borrows else x.copy() for x in operands], expected)
        for result, array in zip(results, made, strict=True):
            result.view()[...] = array


class Externals:
    """The functions that a loaded program calls, which keeps them alive. ``ask`` is a PYTHON that calls them."""

    def __init__(self, callees: Sequence[ExternalTarget], ask: int) -> None:
        self.callees = tuple(callees)
        #: Two words for each: its address, and its context.
        self.words: list[int] = []
        self._kept: list[object] = []
        for callee in callees:
            if callee.runs_python:
                call = PythonCall(callee)
                record = (ctypes.c_void_p * 2)(ask, id(call))
                self._kept += [call, record]
                self.words += [native_runtime().addresses["dyn_ask_python"], ctypes.addressof(record)]
            else:
                assert isinstance(callee.target, External)
                assert isinstance(callee.target.function, NativeFunction)
                function = callee.target.function
                self._kept.append(function)
                self.words += [function.address, function.context]

    @property
    def run_python(self) -> bool:
        return any(callee.runs_python for callee in self.callees)

    @property
    def have_effects(self) -> bool:
        return any(callee.effects for callee in self.callees)

    def failure(self, number: int, answer: int) -> Exception:
        """The error that an external function's answer is."""
        target = self.callees[number].target
        assert isinstance(target, External)
        return target.failure(answer)


def call_of(context: int) -> PythonCall:
    """The Python call that a context leads to."""
    return ctypes.cast(ctypes.c_void_p.from_address(context + 8), ctypes.py_object).value
