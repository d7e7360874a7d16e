"""Numbers that a program computes, as sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn.errors import ArgumentError
from dyn.numpy._operands import measured, size_in, tracer
from dyn.source import user_loc
from dyn.trace.dims import wrap_dim
from dyn.trace.tracer import active_trace


def as_dim(value: Any, *, max: Any = None, name: str = "size") -> Any:
    """A traced integer scalar as a size: for shapes, slices and everything else that takes a dimension.

    The program reads it while it runs, once what it depends on is computed, and goes on with arrays of that size; a
    call fails with a ShapeError where it is negative, or more than ``max`` (an int or a dimension). ``name`` is what
    the dimension is called. Outside of a trace it is the number itself. Raises ArgumentError for what is no integer
    scalar.
    """
    trace = active_trace(value, max)
    if trace is None:
        if np.ndim(value) or np.asarray(value).dtype.kind not in "iu":
            raise _no_integer(value)
        return int(value)
    count = tracer(trace, value, "as_dim")
    if count.ndim or not count.element_type.is_integer:
        raise _no_integer(value)
    limit = None if max is None else size_in(trace, max, "as_dim")
    return wrap_dim(trace, measured(count, name, f"as_dim(..., name={name!r})", limit))


def _no_integer(value: Any) -> ArgumentError:
    return ArgumentError(
        f"as_dim: {value!r} is no integer scalar.", loc=user_loc(), remedy="pass an integer array without axes."
    )
