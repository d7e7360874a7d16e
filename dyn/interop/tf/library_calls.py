"""Calls that TensorFlow makes in dyn's place: as a ``tf.function``, which it compiles into a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dyn.fork_safety import lock
from dyn.interop.tf.internals import tf
from dyn.lazy_property import lazy_property


class LibraryCalls:
    """A function as TensorFlow calls it: in a graph for all sizes, else in one for each, else operation by operation.

    What cannot be traced raises in each of these ways, the last of which is the user's own function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        #: The first of the ways that is tried: those before it have failed to trace what it has made.
        self._start = 0
        self._lock = lock()

    @lazy_property
    def _graphs(self) -> tuple[Any, ...]:
        """The function as a graph, for as many sizes as TensorFlow relaxes, and for those of each call."""
        if isinstance(self._function, tf.types.experimental.PolymorphicFunction):
            return (self._function,)
        return tf.function(self._function, reduce_retracing=True), tf.function(self._function)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._lock:
            graphs = self._graphs
        for number, graph in enumerate(graphs[self._start :], self._start):
            try:
                result = graph(*args, **kwargs)
            except Exception:
                if _is_traced(graph, args, kwargs):
                    raise  # running it did, as running it in another way would
                continue
            self._start = number
            return result
        result = self._function(*args, **kwargs)
        self._start = len(graphs)
        return result


def _is_traced(graph: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether TensorFlow has a graph for a call, or makes one."""
    try:
        graph.get_concrete_function(*args, **kwargs)
    except Exception:  # whatever the user's Python raises
        return False
    return True
