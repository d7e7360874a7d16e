"""Functions that are little more than an op: recorded in a trace, or compiled and run outside of one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from dyn.eager import call_eagerly
from dyn.errors import UnsupportedOpError
from dyn.ir.core import Value
from dyn.source import user_loc
from dyn.trace.lift import is_liftable, lift
from dyn.trace.tracer import Tracer, active_trace

F = TypeVar("F", bound=Callable[..., Any])


def recorded(fn: F) -> F:
    """Record ``fn`` in the trace of its arguments; where there is none, compile and run it."""

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if active_trace(*args, *kwargs.values()) is None:
            return call_eagerly(fn, args, kwargs)
        return fn(*args, **kwargs)

    return call  # pyright: ignore[reportReturnType]  # wraps() keeps the signature, its type does not


def emitted(what: str, name: str, arrays: Sequence[Any], **attrs: Any) -> tuple[Tracer, ...]:
    """The results of an op of arrays; ``what`` is the function that the user called."""
    trace = active_trace(*arrays)
    assert trace is not None, "only reached through `recorded`"
    values: list[Value] = []
    for array in arrays:
        if not is_liftable(array):
            raise UnsupportedOpError(
                f"{what} does not take a {type(array).__name__} for an array.",
                loc=user_loc(),
                remedy="make it an array with dyn.numpy.asarray.",
            )
        values.append(lift(trace, array))
    return tuple([Tracer(trace, value) for value in trace.emit_all(name, *values, **attrs)])
