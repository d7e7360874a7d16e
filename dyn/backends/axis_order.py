"""The order of axes in which arrays lie in memory, where that is one for all arrays of a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn.backends.donated_memory import is_dense

Array = np.ndarray[Any, Any]


def common_order(arrays: Sequence[Array], rank: int) -> tuple[int, ...] | None:
    """The axes of all arrays that have some, ``rank`` of them, from the outermost in memory to the innermost.

    None where they lie row by row, or not all without gaps in one order. Axes of one element come outermost.
    """
    given = [array for array in arrays if array.ndim]
    odd = next((array for array in given if not is_dense(array)), None)
    if odd is None or any(array.ndim != rank for array in given):
        return None
    size, strides = odd.shape, odd.strides
    order = tuple(sorted(range(rank), key=lambda axis: (size[axis] != 1, -strides[axis])))
    return order if all(is_dense(array.transpose(order)) for array in given) else None
