"""Numbers that a program computes, as sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn.errors import ArgumentError, ShapeError
from dyn.source import user_loc
from dyn.trace.data_dependent import dim_from_value
from dyn.trace.dims import unwrap_dim, wrap_dim
from dyn.trace.lift import is_liftable, lift
from dyn.trace.tracer import active_trace


def as_dim(value: Any, *, max: Any = None, name: str = "size") -> Any:
    """Computed integer as a size: for shapes, slices and everything else that takes a dimension.

    The program reads it while it runs, once what it depends on is computed, and goes on with arrays of that size.

    Args:
        value: integer scalar, traced or not.
        max: upper bound, an int or a dimension; None: there is none. It lets memory be planned.
        name: name of the dimension, in errors and explanations.

    Returns:
        A dimension; outside of a trace the number itself.

    Raises:
        ArgumentError: if ``value`` is no integer scalar, or ``max`` no size.
        ShapeError: if it is negative, or more than ``max``, when called.

    Example:
        >>> dyn.jit(lambda n: dnp.ones(lax.as_dim(n, max=8)))(np.int64(3))
        array([1., 1., 1.], dtype=float32)
    """
    trace = active_trace(value, max)
    if trace is None:
        if np.ndim(value) or np.asarray(value).dtype.kind not in "iu":
            raise _no_integer(value)
        number = int(value)
        if number < 0 or (max is not None and number > max):
            allowed = "0 or more" if max is None else f"from 0 to {max}"
            raise ShapeError(f"as_dim: {name} is {number}.", loc=user_loc(), remedy=f"it has to be {allowed}.")
        return number
    if not is_liftable(value):
        raise _no_integer(value)
    count, limit = lift(trace, value), None if max is None else unwrap_dim(max)
    if count.shape or not count.dtype.is_integer:
        raise _no_integer(value)
    if max is not None and limit is None:
        raise ArgumentError(f"as_dim: max={max!r} is no size.", loc=user_loc(), remedy="pass an int or a dimension.")
    return wrap_dim(trace, dim_from_value(trace, count, name, f"as_dim(..., name={name!r})", limit))


def _no_integer(value: Any) -> ArgumentError:
    return ArgumentError(
        f"as_dim: {value!r} is no integer scalar.", loc=user_loc(), remedy="pass an integer array without axes."
    )
