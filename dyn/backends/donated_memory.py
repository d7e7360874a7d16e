"""Memory of donated arguments that a call may put results into."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from dyn.runtime.limits import BLOCK_NAME

Array = np.ndarray[Any, Any]

#: NumPy's flags C_CONTIGUOUS and ALIGNED.
_DENSE = 0x101


def is_dense(array: Array) -> bool:
    """Whether compiled code can read an array: row-major, aligned, in this machine's byte order.

    A NumPy scalar is not: it has no memory of its own that could be pointed to.
    """
    return isinstance(array, np.ndarray) and array.flags.num & _DENSE == _DENSE and array.dtype.isnative


def free_memory(arrays: Sequence[Array], donated: Sequence[int]) -> frozenset[int]:
    """Numbers of the ``donated`` among a call's arrays whose memory is nobody else's.

    Such an array can be read by compiled code where it lies and be written to, it is a NumPy array in memory that NumPy
    allocated, or dyn for a result, and no other array of the call lies there, not even in part.
    """
    free = {number for number in donated if _is_own(arrays[number])}
    if not free:
        return frozenset()
    spans = sorted((*byte_bounds(array), number) for number, array in enumerate(arrays) if array.size)
    reach, before = 0, -1
    for start, end, number in spans:
        if start < reach:
            free -= {before, number}
        if end > reach:
            reach, before = end, number
    return frozenset(free)


def _is_own(array: Array) -> bool:
    owner = array.base if type(array.base) is np.ndarray else array
    own = owner.flags.owndata if owner.base is None else _is_block(owner.base, BLOCK_NAME.encode())
    return type(array) is np.ndarray and own and array.flags.writeable and is_dense(array)


#: Whether an object is a capsule of that name: that of a block of the runtime's pool.
_is_block = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
