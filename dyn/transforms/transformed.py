"""Functions that are made of others: traced where they are called, or run in the trace that there is."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any

from dyn.eager import call_leaves
from dyn.errors import ArgumentError
from dyn.specialize.runtime_arguments import CarriedSize
from dyn.trace.context import Trace, current_trace
from dyn.trace.gradients import GradOptions
from dyn.trace.pytree import flatten, unflatten
from dyn.trace.tracer import active_trace, renewed
from dyn.tracebacks import hide_own_frames

Function = Callable[..., Any]
#: ``inside(trace, args, kwargs)``: what a transformed function does in a trace.
Inside = Callable[[Trace, tuple[Any, ...], dict[str, Any]], Any]


class Transformed:
    """A function made of another one."""

    __name__: str

    def __init__(self, kind: str, function: Function, inside: Inside) -> None:
        if not callable(function):
            raise ArgumentError(
                f"dyn.{kind} takes a function, not a {type(function).__name__}.", remedy="pass the function itself."
            )
        functools.update_wrapper(self, function)
        self.__name__ = getattr(function, "__name__", kind)
        self._kind, self._function, self._inside = kind, function, inside

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = flatten((args, kwargs))
        trace = active_trace(*leaves)
        if trace is None:
            try:
                return call_leaves(self._in_trace, self.__name__, leaves, tree)
            except Exception as error:
                hide_own_frames(error)
                raise
        # Of arrays of its own: that a function changes its arguments (x += 1) is not for its caller to see.
        own = [leaf.value if type(leaf) is CarriedSize else renewed(leaf) for leaf in leaves]
        given, named = unflatten(tree, own)
        return self._inside(trace, given, named)

    def _in_trace(self, /, *args: Any, **kwargs: Any) -> Any:
        """The call in a trace of its own, whose arrays are nobody else's."""
        trace = current_trace()
        assert trace is not None, "it is traced"
        return self._inside(trace, args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __repr__(self) -> str:
        return f"dyn.{self._kind}({self._function!r})"


def named(kind: str, function: Function) -> str:
    """Name of a transformed function in errors."""
    return f"dyn.{kind}({getattr(function, '__name__', repr(function))})"


def gradient_options(
    argnums: int | Sequence[int], has_aux: bool, holomorphic: bool, allow_int: bool = False
) -> GradOptions:
    numbers = argnums if isinstance(argnums, int) else tuple(argnums)
    return GradOptions(numbers, has_aux, holomorphic, allow_int)


def positions(count: int) -> tuple[str, ...]:
    return tuple(f"args[{number}]" for number in range(count))
