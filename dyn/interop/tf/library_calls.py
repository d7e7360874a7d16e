"""Calls that TensorFlow makes in dyn's place: as a ``tf.function``, which it compiles into a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dyn.fork_safety import lock
from dyn.interop.tf.internals import pywrap_tfe, tf
from dyn.lazy_property import lazy_property


class LibraryCalls:
    """A function as TensorFlow calls it: in a graph for all sizes, else in one for each, else operation by operation.

    What cannot be traced raises in each of these ways, the last of which is the user's own function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        #: The first of the ways that is tried, of calls that a tape records and of others: those before it have failed
        #: to trace what it has made.
        self._starts = {True: 0, False: 0}
        #: Graphs by their identity, and whether TensorFlow makes their gradients.
        self._gradients: dict[int, tuple[Any, bool]] = {}
        self._lock = lock()

    @lazy_property
    def _graphs(self) -> Sequence[Any]:
        """The function as a graph, for as many sizes as TensorFlow relaxes, and for those of each call."""
        if isinstance(self._function, tf.types.experimental.PolymorphicFunction):
            return (self._function,)
        return tf.function(self._function, reduce_retracing=True), tf.function(self._function)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self._lock:
            graphs = self._graphs
        is_recorded = not pywrap_tfe.TFE_Py_TapeSetIsEmpty()
        start = self._starts[is_recorded]
        for number, graph in enumerate(graphs[start:], start):
            try:
                if is_recorded and not self._has_gradient(graph.get_concrete_function(*args, **kwargs)):
                    continue
                result = graph(*args, **kwargs)
            except Exception:
                if _is_traced(graph, args, kwargs):
                    raise  # running it did, as running it in another way would
                continue
            self._starts[is_recorded] = number
            return result
        result = self._function(*args, **kwargs)
        self._starts[is_recorded] = len(graphs)
        return result

    def _has_gradient(self, concrete: Any) -> bool:
        found = self._gradients.get(id(concrete))
        if found is None:
            found = self._gradients[id(concrete)] = concrete, _differentiates(concrete)
        return found[1]


def _is_traced(graph: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return True if TensorFlow has a graph for a call, or makes one."""
    try:
        graph.get_concrete_function(*args, **kwargs)
    except Exception:  # whatever the user's Python raises
        return False
    return True


def _differentiates(concrete: Any) -> bool:
    """Return True if TensorFlow makes the gradient of a graph: its functions are the user's, and see its sizes."""
    signature = concrete.structured_input_signature
    leaves = tf.nest.flatten(signature, expand_composites=True)
    specs = [one for one in leaves if isinstance(one, tf.TensorSpec)]

    def gradient(*tensors: Any) -> Any:
        left = iter(tensors)
        flat = [next(left) if isinstance(one, tf.TensorSpec) else one for one in leaves]
        args, kwargs = tf.nest.pack_sequence_as(signature, flat, expand_composites=True)
        with tf.GradientTape() as inner:
            inner.watch(_differentiable(tensors))
            made = tf.nest.flatten(concrete(*args, **kwargs), expand_composites=True)
        sources = [*tensors, *inner.watched_variables()]
        return inner.gradient(_differentiable([one for one in made if tf.is_tensor(one)]), sources)

    try:
        tf.function(gradient).get_concrete_function(*specs)
    except Exception:  # whatever the user's Python raises
        return False
    return True


def _differentiable(tensors: Sequence[Any]) -> list[Any]:
    return [one for one in tensors if one.dtype.is_floating or one.dtype.is_complex]
