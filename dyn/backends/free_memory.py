"""Which arguments' memory a call may put results into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

Array = np.ndarray[Any, Any]

#: NumPy's flags C_CONTIGUOUS and ALIGNED.
_DENSE = 0x101


def is_dense(array: Array) -> bool:
    """Whether compiled code can read an array: row-major, aligned, in this machine's byte order.

    A NumPy scalar is not: it has no memory of its own that could be pointed to.
    """
    return isinstance(array, np.ndarray) and array.flags.num & _DENSE == _DENSE and array.dtype.isnative


def free_memory(arrays: Sequence[Array], donated: Sequence[int]) -> frozenset[int]:
    """Those of the ``donated`` among a call's arrays, by number, whose memory is nobody else's.

    Such an array can be read by compiled code where it lies and be written to, it is a NumPy array in memory that NumPy
    allocated, and no other array of the call lies there, not even in part.
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
    owner = array if array.base is None else array.base
    return (
        type(array) is np.ndarray
        and type(owner) is np.ndarray
        and owner.flags.owndata
        and array.flags.writeable
        and is_dense(array)
    )
