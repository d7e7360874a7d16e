"""DLPack capsules for memory that others hold too, whose consumers may write to what they are given."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn.hosts import NumpyArray, export_dlpack

#: Libraries that take what is marked as read-only for memory that they may write to.
_WRITE_ANYWAY = ("torch",)
#: Libraries that ask for capsules without the mark, and whose arrays do not change.
_NEVER_WRITE = ("jax", "jaxlib")


def export_unchanging(
    array: NumpyArray,
    consumer: str,
    stream: object,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """A capsule whose consumer cannot change the array: its memory, marked as read-only, or a copy.

    Since version 1.0 a capsule says that its memory is read-only, and who asks for such a version is to keep to it. Who
    does not, or asks for an older one, gets a copy, unless its arrays never change. ``consumer`` is the name of the
    module that asks. BufferError where it does not want the copy that it needs.
    """
    library = consumer.partition(".")[0]
    is_marked = max_version is not None and max_version[0] >= 1 and library not in _WRITE_ANYWAY
    if copy or not (is_marked or (library in _NEVER_WRITE and array.flags.writeable)):
        if copy is False:
            raise BufferError(
                "nobody else writes to the memory of a dyn.Array, and who asks for it may. Leave out copy=False, which "
                "gives a copy, or use np.asarray(x), which is read-only."
            )
        array, copy = _aligned_copy(array), None
    elif is_marked:
        array = array.view()
        array.flags.writeable = False
    return export_dlpack(array, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)


def unchanging_view(array: NumpyArray) -> NumpyArray:
    """A view that is read-only for good: NumPy lets nobody mark it as writable, since its memory is that of a buffer
    that is not, and not an array's that is. (One with gaps is marked, and no more.)"""
    if array.size and array.flags.c_contiguous:
        flat: Any = array.reshape(-1).view(np.uint8)
        memory = memoryview(flat).toreadonly()
        return np.frombuffer(memory, np.uint8).view(array.dtype).reshape(array.shape)
    view = array.view()
    view.flags.writeable = False
    return view


#: What XLA and TensorFlow demand of an address: TensorFlow ends the process where it is another.
_ALIGNMENT = 64


def _aligned_copy(array: NumpyArray) -> NumpyArray:
    """A copy in row-major order, at an address that every library takes."""
    room = np.empty(array.nbytes + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    made = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made
