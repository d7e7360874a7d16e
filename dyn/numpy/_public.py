"""Public functions: inside a trace they record ops, outside of one they run at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from dyn.eager import eager_function
from dyn.trace.context import Trace, current_trace
from dyn.trace.dims import SymbolicDim
from dyn.trace.tracer import Tracer
from dyn.tracebacks import without_own_frames

#: An array: a tracer inside a trace, and what the caller's arrays are outside of one.
Array = Any
#: An array, a NumPy array or scalar, a Python number or a dimension.
ArrayLike = Any
#: An array that meets no number: a key of ``dyn.random``.
Key = Any
#: What an array is raised to: a number decides what is computed, and so has a program of its own outside of traces.
Exponent = Any
#: A dtype in any spelling that NumPy or dyn has.
DTypeLike = Any
#: An int or a dimension such as ``x.shape[0]``.
Size = Any
#: One size, or a sequence of sizes.
Shape = Any
#: One axis, several, or None for all.
Axis = int | tuple[int, ...] | None

F = TypeVar("F", bound=Callable[..., Any])


def public(fn: F) -> F:
    """Record ``fn`` in the current trace; where there is none, compile and run it."""
    return eager_function(
        fn,
        lambda args, kwargs: found_trace(*args, *kwargs.values()),
        lambda args, kwargs: _own(fn(*args, **kwargs), (*args, *kwargs.values())),
    )


def checked(check: Callable[..., None]) -> Callable[[F], F]:
    """Look at the arguments of a public function before it is called: at numbers, which are arrays in its program."""

    def decorate(fn: F) -> F:
        @without_own_frames
        @functools.wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            check(*args, **kwargs)
            return fn(*args, **kwargs)

        return call  # pyright: ignore[reportReturnType]  # wraps() keeps the signature, its type does not

    return decorate


def _own(result: Any, given: tuple[Any, ...]) -> Any:
    """The result, as arrays that are none of those given: a change of one must not be seen in the other."""
    if isinstance(result, Tracer):
        for value in given:
            if value is result or (isinstance(value, list | tuple) and any(part is result for part in value)):
                return result.renewed()
    elif type(result) in (list, tuple):
        return type(result)(_own(part, given) for part in result)
    return result


def _trace_among(values: Any) -> Trace | None:
    """The trace of the first tracer or dimension in ``values``, lists and tuples included."""
    for value in values:
        if isinstance(value, Tracer):
            return value._trace
        if isinstance(value, SymbolicDim):
            return value.trace
        if isinstance(value, list | tuple):
            found = _trace_among(value)
            if found is not None:
                return found
    return None


def trace_of(*values: Any) -> Trace:
    """The trace that a call records in.

    A tracer that outlived its trace leads to that trace, which says so when the tracer is used.
    """
    trace = found_trace(*values)
    assert trace is not None, "only reached through `public`"
    return trace


def found_trace(*values: Any) -> Trace | None:
    """The trace that a call records in, or None outside of traces."""
    trace = current_trace()
    return _trace_among(values) if trace is None else trace
