"""Functions of this machine's processor in programs on devices, called with copies of their operands.

A host program reaches them by two functions of Python, which the state of its runtime table names. The same state says
which call it is: its device and its stream.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dyn.backends.call_frames import FRAMES, CallFrame
from dyn.backends.device_events import DEVICE_EVENTS
from dyn.backends.library import LIBRARY, call_staged, keep_error, tensors_of
from dyn.backends.runtime_tables import host_table
from dyn.lower.abi import DeviceState, TensorOffsets
from dyn.runtime.device_memory import copy_to_device
from dyn.runtime.driver import Context

Array = np.ndarray[Any, Any]

_WORDS = TensorOffsets.BYTES // 8
_ASK_STAGE = ctypes.CFUNCTYPE(
    None, *[ctypes.c_void_p] * 4, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64)
)
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)


class _CallStream(NamedTuple):
    """The device and the stream of a call."""

    context: Context
    stream: int

    @staticmethod
    def of(table: int) -> _CallStream:
        """The place of the call that has a runtime table."""
        state = (ctypes.c_int64 * DeviceState.WORDS).from_address(ctypes.c_int64.from_address(table).value)
        context = DEVICE_EVENTS.context(state[DeviceState.DEVICE // 8])
        return _CallStream(context, state[DeviceState.STREAM // 8])


def _staged(place: _CallStream, tensors: int, inputs: int, outputs: int, run: Callable[[int], int]) -> int:
    """``run(address)`` of tensors that are copies, in this machine's memory, of those at an address: its operands are
    copied there, and its results back where it gives 0."""
    words = (ctypes.c_int64 * (_WORDS * (inputs + outputs)))()
    ctypes.memmove(words, tensors, ctypes.sizeof(words))
    context, stream, kept, given = place.context, ctypes.c_void_p(place.stream), list[Array](), list[int]()
    for number in range(inputs + outputs):
        tag, dims = words[_WORDS * number + 1], words[_WORDS * number + 2]
        shape = (ctypes.c_int64 * (tag >> 32)).from_address(dims) if tag >> 32 else ()
        bits = tag >> 8 & 255
        kept.append(np.empty(max(int(np.prod(shape, dtype=np.int64)) * -(-bits // 8), 0), np.uint8))
        given.append(words[_WORDS * number])
        words[_WORDS * number] = kept[-1].__array_interface__["data"][0]
    for number in range(inputs):
        if kept[number].nbytes:
            context.driver.call(
                "to_host", ctypes.c_void_p(words[_WORDS * number]), ctypes.c_void_p(given[number]),
                ctypes.c_size_t(kept[number].nbytes), stream,
            )  # fmt: skip
    context.driver.call("synchronize", stream)
    status = run(ctypes.addressof(words))
    for number in range(inputs, inputs + outputs) if not status else ():
        copy_to_device(context, given[number], words[_WORDS * number], kept[number].nbytes, place.stream)
    return status


def _call_library(table: int, entry: int | None, tensors: int, values: int, answer: Any) -> None:
    """Make a library call on this machine; ``entry`` 0 arrives as None."""

    def run(copies: int) -> int:
        call_staged(entry or 0, copies, values)
        return 0

    try:
        _staged(_CallStream.of(table), tensors, *tensors_of(entry or 0), run)
        answer[0] = 0
    except BaseException as error:  # whatever it is, it must not pass through native frames
        keep_error(error)


def _stage(table: int, function: int, context: int, tensors: int, inputs: int, outputs: int, answer: Any) -> None:
    """Call native code of this machine; what is told the table as its context uses this machine's own."""
    own = host_table() if context == table else context

    def run(copies: int) -> int:
        return _FUNCTION(function)(own, copies, copies + TensorOffsets.BYTES * inputs)

    try:
        answer[0] = _staged(_CallStream.of(table), tensors, inputs, outputs, run)
    except BaseException as error:  # whatever it is, it must not pass through native frames
        frame = _frame_of(table)
        if frame is None:  # the native entry makes the call
            keep_error(error)
        else:
            frame.error = error


def _frame_of(table: int) -> CallFrame | None:
    """The frame of the call by Python that has a runtime table."""
    frame = FRAMES.stack[-1] if FRAMES.stack else None
    return frame if frame is not None and frame.beside == table else None


_CALLBACKS = (LIBRARY(_call_library), _ASK_STAGE(_stage))
_ASKED = tuple([ctypes.cast(callback, ctypes.c_void_p).value or 0 for callback in _CALLBACKS])


def state_words(context: Context) -> ctypes.Array[ctypes.c_int64]:
    """A ``DeviceState`` of a call on a device, which is on no stream yet."""
    driver = context.driver
    fields: Mapping[int, int] = {
        DeviceState.ASK_LIBRARY: _ASKED[0],
        DeviceState.ASK_STAGE: _ASKED[1],
        DeviceState.LAUNCH: driver.address("launch"),
        DeviceState.ALLOC: driver.address("alloc"),
        DeviceState.FREE: driver.address("free"),
        DeviceState.TO_HOST: driver.address("to_host"),
        DeviceState.SYNCHRONIZE: driver.address("synchronize"),
        DeviceState.CREATE_EVENT: driver.address("create_event"),
        DeviceState.RECORD_EVENT: driver.address("record_event"),
        DeviceState.DESTROY_EVENT: driver.address("destroy_event"),
        DeviceState.DISPATCH: -1,
        DeviceState.DEVICE: DEVICE_EVENTS.number(context),
    }
    return (ctypes.c_int64 * DeviceState.WORDS)(*[fields.get(8 * n, 0) for n in range(DeviceState.WORDS)])
