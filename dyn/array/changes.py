"""Changes of a ``dyn.Array``, which is a name for memory that does not change as long as anybody else holds it.

Who changes an array writes to its memory where nobody else holds that, and otherwise to a copy, for which the array
stands from then on. Others are: arrays and views of the same memory, exports, programs that captured the array, and
calls that run. All of them keep a reference to the NumPy array, or to the one that owns its memory.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from sys import getrefcount
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from dyn.errors import UnsupportedOpError
from dyn.fork_safety import lock
from dyn.hosts import NumpyArray
from dyn.runtime.device_memory import DeviceArray, put
from dyn.runtime.limits import BLOCK_NAME
from dyn.source import user_loc
from dyn.trace.bytecode import is_stored_back
from dyn.trace.context import current_trace
from dyn.trace.tracer import active_trace

if TYPE_CHECKING:
    from dyn.array.array_type import Array

#: Changes of an array by several threads come one after another: none of them is lost with a copy.
_LOCK = lock()


def refuse_in_trace(what: str, *values: Any) -> None:
    """Raise UnsupportedOpError while a function is being traced: the program would not make the change again."""
    if current_trace() is None and active_trace(*values) is None:
        return
    raise UnsupportedOpError(
        f"{what}: an array that was made outside of the function that is being traced cannot be changed in it.",
        loc=user_loc(),
        remedy="change a copy, as by y = dyn.numpy.array(x), or write y = x.at[i].set(v).",
    )


class NotAViewWarning(UserWarning):
    """A part of a ``dyn.Array`` is changed, and the array that it was taken from is not, as NumPy's would be."""


class _Holder:
    """An object that holds an array as ``dyn.Array`` does."""

    __slots__ = ("_data",)

    def __init__(self) -> None:
        self._data = np.empty(0)


_HOLDER = _Holder()
#: The references to what one slot alone holds, while they are counted.
_ALONE = getrefcount(_HOLDER._data)


def change(array: Array, act: Callable[[NumpyArray], object]) -> None:
    """Have an array hold what ``act`` makes of its elements. Where it raises, before it writes, they stay."""
    _warn_of_whole(array)
    with _LOCK:
        data = array._data
        if isinstance(data, DeviceArray):
            elements = data.to_numpy().copy()
            act(elements)
            array._data = put(data.context, elements, data.stream)
            return
        del data
        if _is_held_once(array):
            act(_memory(array))
            if not _is_held_once(array):  # a thread has taken the memory meanwhile, and goes on with what it has read
                array._data = np.array(_memory(array), copy=True, order="K")
        else:
            elements = np.array(_memory(array), copy=True, order="K", subok=False)
            act(elements)
            array._data = elements


def become(array: Array, other: Array, frame: FrameType, before: object = None) -> bool:
    """Have an array stand for the memory of another one, of its shape and dtype, as code in a frame wants it.

    False where it does not stand for the memory that it had ``before`` any more, and nothing is done.
    """
    _warn_of_whole(array, frame)
    with _LOCK:
        if before is not None and array._data is not before:
            return False
        array._data  # noqa: B018  # that of one that was donated is gone
        array._data = other._data
    return True


def stand_for(array: Array, data: NumpyArray) -> None:
    """Have an array stand for other memory, of its shape and dtype, that nobody writes to: its owner is dyn's own."""
    with _LOCK:
        array._data = data


def _warn_of_whole(part: Array, frame: FrameType | None = None) -> None:
    """Warn where an array that is changed was taken from one that is still there, and the code in the frame is not
    about to store it there: ``x[0] += y``."""
    data = part._data
    if isinstance(data, np.ndarray) and not isinstance(data.base, np.ndarray):
        return  # all of its memory
    whole = getattr(part, "_whole", None)
    if whole is None or whole() is None or (frame is not None and is_stored_back(frame)):
        return
    loc = user_loc()
    warnings.warn_explicit(
        "a part of an array is changed, and the array that it was taken from stays as it is: parts of a dyn.Array are "
        "no views.\n  help: assign to the array itself (x[0, 1] = v for x[0][1] = v), or change a copy of the part.",
        NotAViewWarning, loc.file or "<unknown>", loc.line,
    )  # fmt: skip


def _is_held_once(array: Array) -> bool:
    """Whether an array alone holds its memory, to which it may be written then."""
    held: Any = array  # no name of ours for the memory, which would be another reference
    if getrefcount(held._data) > _ALONE:
        return False
    if held._data.base is not None and getrefcount(held._data.base) > _ALONE:
        return False
    return _is_writable(held._data)


def _memory(array: Array) -> NumpyArray:
    data = array._data
    assert isinstance(data, np.ndarray)
    return data


def _is_writable(data: NumpyArray) -> bool:
    """Whether an array's memory is NumPy's, or that of a result of dyn's, and not what another library lent."""
    base = data.base
    if isinstance(base, np.ndarray):
        is_ours = base.base is None and base.flags.owndata
    else:
        is_ours = data.flags.owndata if base is None else _is_result(base)
    return is_ours and data.flags.writeable


def _is_result(owner: object) -> bool:
    """Whether what owns an array's memory is the capsule of a block of the runtime's pool."""
    return _IS_CAPSULE(owner, BLOCK_NAME.encode()) == 1


_IS_CAPSULE: Any = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
