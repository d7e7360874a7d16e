"""Composite operations that are written whole, before PyTorch takes them apart.

PyTorch's own way to take an operation apart may ask for sizes where there is nothing to ask (``dropout`` for 0), or
unroll what is a loop (``lstm``). What is written here is called in its place, above autograd, in the traces of dyn: as
the operation's implementation in Python, which other traces of PyTorch's pass by.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from dyn.errors import NotYetError
from dyn.interop.torch.dynamo import SEEN_THROUGH
from dyn.interop.torch.tracing import TorchTracing
from dyn.source import user_loc

#: What is asked of sizes right below is asked by the function that is called here.
CALLS_USERS = True

Function = Callable[..., Any]
_WHOLE = torch._C.DispatchKey.CompositeImplicitAutograd
_KEYS = (_WHOLE, torch._C.DispatchKey.Autograd)


def composite(*names: str) -> Callable[[Function], Function]:
    """Register a function of the operation's arguments, on PyTorch's own tensors, in place of operations of ATen."""

    def register(function: Function) -> Function:
        for name in names:
            packet, overload = name.split(".")
            _install(getattr(getattr(torch.ops.aten, packet), overload), function)
        return function

    return register


def _install(operation: Any, function: Function) -> None:
    in_native_code = functools.partial(operation._op_dk, _WHOLE)
    for key in _KEYS:
        before: Function = operation.py_kernels.get(key, in_native_code)
        operation.py_kernels[key] = chosen(function, before)
    operation._dispatch_cache.clear()


def chosen(function: Function, before: Function) -> Function:
    """A function that is ``function`` in the traces of dyn, and what was there ``before`` elsewhere."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():  # it reads this, and knows what to do with what was there
            return before(*args, **kwargs)
        return (function if _is_ours() else before)(*args, **kwargs)

    SEEN_THROUGH.append(run)
    return run


def _is_ours() -> bool:
    """Whether this thread runs a function that dyn traces."""
    return any(isinstance(mode, TorchTracing) for mode in _get_current_dispatch_mode_stack())


def current_tracing() -> TorchTracing:
    """The trace that this thread is in."""
    return next(mode for mode in reversed(_get_current_dispatch_mode_stack()) if isinstance(mode, TorchTracing))


def refuse_second_derivatives(what: str) -> None:
    """Raise NotYetError, in the derivative of an operation, where a derivative of that is asked for."""
    if torch.is_grad_enabled():
        raise NotYetError(
            f"a second derivative (create_graph=True) of {what}.",
            loc=user_loc(),
            remedy="call the function itself where second derivatives are needed.",
        )
