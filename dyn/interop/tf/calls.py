"""dyn's functions in TensorFlow: ``call`` gives one that takes and gives tensors, with gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from dyn import api
from dyn.errors import ArgumentError, NotYetError
from dyn.interop.tf.arrays import from_array
from dyn.interop.tf.internals import context, pywrap_tfe, record, tf
from dyn.source import user_loc
from dyn.trace.pytree import flatten, unflatten
from dyn.transforms import vjp

Function = Callable[..., Any]


def call(function: Function, /) -> TfCallable:
    """A function of dyn as one of TensorFlow's: of tensors, to tensors, which ``tf.GradientTape`` differentiates.

    Args:
        function: a function of arrays, compiled by :func:`dyn.jit` or to be compiled. It takes tensors by position,
            and gives a tree of arrays.

    Returns:
        A function of tensors on the CPU. Its gradients are dyn's (:func:`dyn.vjp`). It is called where there are
        tensors with elements; in a ``tf.function`` call it by ``tf.numpy_function`` or ``tf.py_function``.

    Raises:
        ArgumentError: for what cannot be called.
    """
    if not callable(function):
        raise ArgumentError(f"call takes a function, not a {type(function).__name__}.", loc=user_loc())
    return TfCallable(function)


class TfCallable:
    """A function of dyn that takes and gives tensors. Made by :func:`call`."""

    def __init__(self, function: Function) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._compiled = function if isinstance(function, api.Jitted) else api.jit(function)

    def __repr__(self) -> str:
        return f"dyn.interop.tf.call({getattr(self._function, '__name__', self._function)!r})"

    @tf.autograph.experimental.do_not_convert  # there is nothing of TensorFlow's in here
    def __call__(self, /, *args: Any) -> Any:
        if not context.executing_eagerly():
            raise NotYetError(
                f"{self!r} in a tf.function, whose tensors have no elements.",
                loc=user_loc(),
                remedy="call it by tf.py_function(f, [x], Tout), which gradients go through, too.",
            )
        tensors = [tf.convert_to_tensor(one) for one in args]
        arrays = [tensor._numpy() for tensor in tensors]
        records = not pywrap_tfe.TFE_Py_TapeSetIsEmpty() and pywrap_tfe.TFE_Py_TapeSetShouldRecordBackprop(tensors)
        if not records:
            return _wrapped(self._compiled(*arrays))
        with record.stop_recording():
            made, pull = vjp(self._compiled, *arrays)
            leaves, tree = flatten(made)
            results = [from_array(leaf) for leaf in leaves]
        floats = [n for n, one in enumerate(results) if one.dtype.is_floating or one.dtype.is_complex]
        sources = [n for n, one in enumerate(tensors) if one.dtype.is_floating or one.dtype.is_complex]

        def backward(*cotangents: Any) -> Sequence[Any]:
            if not pywrap_tfe.TFE_Py_TapeSetIsEmpty() and pywrap_tfe.TFE_Py_TapeSetShouldRecordBackprop(
                [*[one for one in cotangents if one is not None], *tensors]
            ):
                raise NotYetError(
                    f"{self!r}: a gradient of a gradient.",
                    loc=user_loc(),
                    remedy="differentiate twice in dyn, by dyn.grad, and call that.",
                )
            given = dict(zip(floats, cotangents, strict=True))
            whole = [given.get(n) if given.get(n) is not None else tf.zeros_like(one) for n, one in enumerate(results)]
            pulled = pull(unflatten(tree, [tf.convert_to_tensor(one)._numpy() for one in whole]))
            return [from_array(pulled[n]) for n in sources]

        if floats and sources:
            record.record_operation("Dyn", [results[n] for n in floats], [tensors[n] for n in sources], backward)
        return unflatten(tree, results)


def _wrapped(made: Any) -> Any:
    leaves, tree = flatten(made)
    return unflatten(tree, [from_array(leaf) for leaf in leaves])
