"""Functions outside of programs, as compiled code calls them: an address and a context each.

Python functions are reached through one function of the native runtime, whose context says which of them is meant.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn.backends.runtime import native_runtime
from dyn.dtypes import dtype, from_dlpack
from dyn.errors import ExternalError
from dyn.ir.external import Callee, Expected, External, NativeFunction
from dyn.ops.custom_call import run_registered

Array = np.ndarray[Any, Any]

_WORDS = 4  # of eight bytes a tensor: data, dtype and rank, dims, strides
#: ``(context, in, out, answer)``: see ``dyn.runtime.callbacks``.
PYTHON = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.POINTER(ctypes.c_int64))


def tensor_view(address: int) -> Array:
    """The dense array that a tensor describes."""
    data, what, dims, _ = (ctypes.c_int64 * _WORDS).from_address(address)
    rank = what >> 32
    shape = tuple((ctypes.c_int64 * rank).from_address(dims)) if rank else ()
    element = from_dlpack(what & 0xFFFFFFFF).np
    size = element.itemsize * int(np.prod(shape, dtype=np.int64))
    if size == 0:
        return np.empty(shape, element)
    memory: Any = (ctypes.c_char * size).from_address(data)
    return np.frombuffer(memory, element).reshape(shape)


class PythonCall:
    """A Python function that programs call: what its context leads to."""

    def __init__(self, callee: Callee) -> None:
        self.callee = callee

    def __call__(self, inputs: int, outputs: int) -> None:
        bytes = 8 * _WORDS
        operands = [tensor_view(at) for at in range(inputs, outputs, bytes)]
        results = [tensor_view(outputs + bytes * number) for number in range(self.callee.results)]
        expected = [Expected(dtype(x.dtype), x.shape) for x in results]
        target = self.callee.target
        if isinstance(target, str):
            made: Sequence[Array] = run_registered(target, self.callee.attributes, operands, expected)
        else:
            assert not isinstance(target.function, NativeFunction)
            made = target.function([np.array(x) for x in operands], expected)
        for result, array in zip(results, made, strict=True):
            result[...] = array


class Externals:
    """The functions that a loaded program calls, which keeps them alive. ``ask`` is a PYTHON that calls them."""

    def __init__(self, callees: Sequence[Callee], ask: int) -> None:
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
        assert isinstance(target.function, NativeFunction)
        text = target.function.errors.get(answer)
        return ExternalError(
            f"{target.name} failed: it returned {answer}{'' if text is None else f', {text}'}.",
            loc=target.loc,
            remedy="what the number means is for the function to say: errors= takes a text for each."
            if text is None
            else "",
        )


def call_of(context: int) -> PythonCall:
    """What a context leads to."""
    return ctypes.cast(ctypes.c_void_p.from_address(context + 8), ctypes.py_object).value
