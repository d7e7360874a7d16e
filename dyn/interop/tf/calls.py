"""dyn's functions in TensorFlow: ``call`` gives one that takes and gives tensors, with gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

import dyn.numpy as dnp
from dyn import api
from dyn.errors import ArgumentError
from dyn.interop.tf.arrays import from_arrays
from dyn.interop.tf.internals import context, pywrap_tfe, record, tf
from dyn.source import user_loc
from dyn.specialize.arguments import ShapeDtypeStruct
from dyn.trace.pytree import flatten, unflatten
from dyn.transforms import vjp

Function = Callable[..., Any]


def call(function: Function, /) -> TfCallable:
    """A function of dyn as one of TensorFlow's: of tensors, to tensors, which ``tf.GradientTape`` differentiates.

    Args:
        function: a function of arrays, compiled by :func:`dyn.jit` or to be compiled. It takes tensors by position,
            and gives a tree of arrays.

    Returns:
        A function of tensors on the CPU. Its gradients are dyn's (:func:`dyn.vjp`), of any order. In a ``tf.function``
        a call is a ``tf.numpy_function``.

    Raises:
        ArgumentError: for what cannot be called.
    """
    if not callable(function):
        raise ArgumentError(f"call takes a function, not a {type(function).__name__}.", loc=user_loc())
    return TfCallable(function)


class TfCallable:
    """Function of dyn that takes and gives tensors. Made by :func:`call`.

    Attributes:
        autograph_info__: what keeps TensorFlow's AutoGraph from rewriting it.
    """

    #: AutoGraph leaves alone what has this.
    autograph_info__: ClassVar[dict[str, Any]] = {}

    def __init__(self, function: Function) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._compiled = function if isinstance(function, api.Jitted) else api.jit(function)
        self._gradients: dict[Any, TfCallable] = {}

    def __repr__(self) -> str:
        return f"dyn.interop.tf.call({getattr(self._function, '__name__', self._function)!r})"

    def __call__(self, /, *args: Any) -> Any:
        tensors = [tf.convert_to_tensor(one) for one in args]
        if not context.executing_eagerly():
            return self._call_in_graph(tensors)
        arrays = [tensor._numpy() for tensor in tensors]
        records = not pywrap_tfe.TFE_Py_TapeSetIsEmpty() and pywrap_tfe.TFE_Py_TapeSetShouldRecordBackprop(tensors)
        if not records:
            return _wrapped(self._compiled(*arrays))
        with record.stop_recording():
            made, pull = vjp(self._compiled, *arrays)
            leaves, tree = flatten(made)
            results = from_arrays(leaves)
        floats, sources = _floats(results), _floats(tensors)

        def backward(*cotangents: Any) -> Sequence[Any]:
            given = [
                tf.zeros_like(results[n]) if one is None else tf.convert_to_tensor(one)
                for n, one in zip(floats, cotangents, strict=True)
            ]
            is_recorded = not pywrap_tfe.TFE_Py_TapeSetIsEmpty()
            if is_recorded and pywrap_tfe.TFE_Py_TapeSetShouldRecordBackprop([*given, *tensors]):
                return self._gradient(len(tensors), floats, sources)(*tensors, *given)
            own = dict(zip(floats, given, strict=True))
            whole = [own[n] if n in own else tf.zeros_like(one) for n, one in enumerate(results)]
            pulled = pull(unflatten(tree, [one._numpy() for one in whole]))
            return from_arrays([pulled[n] for n in sources])

        if floats and sources:
            record.record_operation("Dyn", [results[n] for n in floats], [tensors[n] for n in sources], backward)
        return unflatten(tree, results)

    def _call_in_graph(self, tensors: Sequence[Any]) -> Any:
        """A call with tensors of a graph: a ``tf.numpy_function``, whose gradient is another."""
        structs = [ShapeDtypeStruct(tuple(one.shape), one.dtype.name) for one in tensors]
        traced = self._compiled.trace(*structs)
        types = [(tf.as_dtype(one.dtype.name), _sizes(one.shape)) for one in traced.function.results]

        def run(*arrays: Any) -> list[Any]:
            return flatten(self._compiled(*map(np.asarray, arrays)))[0]

        @tf.custom_gradient
        def operation(*given: Any) -> Any:
            made = [
                tf.ensure_shape(one, shape)
                for one, (_, shape) in zip(
                    tf.numpy_function(run, given, [dtype for dtype, _ in types]), types, strict=True
                )
            ]
            floats, sources = _floats(made), _floats(given)

            def backward(*cotangents: Any) -> list[Any]:
                pulled: list[Any] = [None] * len(given)
                own = self._gradient(len(given), floats, sources)(*given, *[cotangents[n] for n in floats])
                for place, one in zip(sources, own, strict=True):
                    pulled[place] = one
                return pulled

            return made, backward

        return unflatten(traced.out_tree, list(operation(*tensors)))

    def _gradient(self, count: int, floats: tuple[int, ...], sources: tuple[int, ...]) -> TfCallable:
        """The cotangents of the arguments ``sources``, of ``count`` arguments and cotangents of the results ``floats``:
        a function like this one."""
        key = count, floats, sources
        found = self._gradients.get(key)
        if found is None:

            def gradient(*given: Any) -> list[Any]:
                made, pull = vjp(self._compiled, *given[:count])
                leaves, tree = flatten(made)
                own = dict(zip(floats, given[count:], strict=True))
                pulled = pull(
                    unflatten(tree, [own[n] if n in own else dnp.zeros_like(leaf) for n, leaf in enumerate(leaves)])
                )
                return [pulled[n] for n in sources]

            gradient.__name__ = f"gradient_of_{getattr(self._function, '__name__', 'function')}"
            found = self._gradients[key] = TfCallable(gradient)
        return found


def _floats(tensors: Sequence[Any]) -> tuple[int, ...]:
    """The tensors that have gradients, by number."""
    return tuple([n for n, one in enumerate(tensors) if one.dtype.is_floating or one.dtype.is_complex])


def _sizes(shape: Sequence[Any]) -> list[int | None]:
    return [dim if isinstance(dim, int) else None for dim in shape]


def _wrapped(made: Any) -> Any:
    leaves, tree = flatten(made)
    return unflatten(tree, from_arrays(leaves))
