"""Constants of front ends: arrays that a model brings along, and that nothing changes.

What a program captures of one is its :class:`~dyn.ir.core.Dense`, which can give up its elements where products read
them in panels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import dtypes
from dyn.ir.core import Dense, Value
from dyn.trace.context import Trace
from dyn.trace.held import Frozen

Array = np.ndarray[Any, Any]


def elements_of(trace: Trace, dense: Dense) -> Array:
    """The elements of a constant. As long as the trace lasts it is known whose they are."""
    array = dense.array
    trace.program.constants[id(array)] = array, dense
    return array


def captured_constant(trace: Trace, array: Array, name: str = "constant") -> Value:
    """An array that nothing changes, as a hidden parameter: the constant that has its elements, or a new one, which
    takes it over."""
    known = trace.program.constants.get(id(array))
    if known is None:
        known = trace.program.constants[id(array)] = array, Dense(array, copy=False)
    # One of a number alone has no elements to leave to anybody.
    captured = known[1] if known[1].has_buffer else array
    trace.program.frozen[id(captured)] = Frozen(captured)
    return trace.captured(captured, dtypes.dtype(array.dtype), array.shape, name)
