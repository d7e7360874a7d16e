"""Tracers that are handed to functions of JAX and of PyTorch, which cannot compute with them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Any, NoReturn

from dyn.errors import TraceError
from dyn.source import Loc
from dyn.trace.bytecode import UNKNOWN_CALLEE, callee
from dyn.trace.context import Trace

#: How the namespaces are called that people import.
_PUBLIC = {"jax": "JAX", "jaxlib": "JAX", "torch": "PyTorch"}
#: The file of JAX's that has the operators of its arrays.
_OPERATORS = "array_methods.py"


class _CounterpartHook:
    """The hook upward to dyn's namespaces: ``dyn/__init__`` installs there what finds a function of theirs."""

    find: Callable[[Sequence[str], str], str] = staticmethod(lambda folders, name: "")


def install_counterparts(find: Callable[[Sequence[str], str], str]) -> None:
    """Have errors name the functions that ``find(folders, name)`` gives: dyn's of that name, for one of JAX's in a
    module in these folders; "" where dyn has none."""
    _CounterpartHook.find = staticmethod(find)


def refuse_jax(trace: Trace, what: str) -> NoReturn:
    """Answer a look at ``__jax_array__`` of ``what``: a TraceError for JAX's functions.

    To others, and to the operators of JAX's arrays, which leave it to dyn then, there is no such attribute. Nor is
    there to JAX's code in C, where an error of a look is printed and forgotten: it raises a TypeError of its own, which
    :func:`refused_by_jax` takes for this error once it leaves the trace.
    """
    asker = sys._getframe(2)
    code = asker.f_code
    looks = "__jax_array__" in code.co_names or "__jax_array__" in code.co_consts
    if _library(asker) is None or os.path.basename(code.co_filename) == _OPERATORS:
        raise AttributeError("__jax_array__")
    error = _foreign_error(trace, what)
    if looks:
        raise error
    trace.program.refused_look = error
    raise AttributeError("__jax_array__")


def refused_by_jax(trace: Trace, error: TypeError, classes: Iterable[type]) -> TraceError | None:
    """The error to raise in place of one that JAX has raised of a value of ``classes``; None for other errors."""
    told = trace.refused_look
    return told if told is not None and any(str(one) in str(error) for one in classes) else None


def is_operator(function: Any) -> bool:
    """Whether a function of PyTorch's is a method of its arrays: their operators leave it to dyn then."""
    return getattr(function, "__objclass__", None) is not None or str(getattr(function, "__qualname__", "")).startswith(
        ("Tensor.", "TensorBase.", "_TensorBase.")
    )


def refuse_foreign(trace: Trace, what: str, function: Any = None) -> NoReturn:
    """Raise TraceError for ``what``, which a function of another library was called with.

    ``function`` is that function, where it is known; else it is what the innermost line outside of the library calls.
    """
    raise _foreign_error(trace, what, function)


def _foreign_error(trace: Trace, what: str, function: Any = None) -> TraceError:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (_library(frame) is not None or frame.f_globals.get("__name__", "").startswith("dyn.")):
        frame = frame.f_back
    if function is None:
        function = UNKNOWN_CALLEE if frame is None else callee(frame)
    module = str(getattr(function, "__module__", None) or "").split(".")[0]
    library = module if module in _PUBLIC else _entered(frame)
    name = "" if function is UNKNOWN_CALLEE else str(getattr(function, "__name__", ""))
    called = f"{name}() of {_PUBLIC[library]}" if name else f"a function of {_PUBLIC[library]}"
    loc = None if frame is None else Loc(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    return TraceError(
        f"{called} was called with {what}, while {trace.name!r} is traced by dyn: {_PUBLIC[library]} cannot compute "
        "with what dyn traces.",
        loc=loc,
        remedy=_remedy(trace, library, str(getattr(function, "__module__", "")).split("."), name),
    )


def _library(frame: FrameType) -> str | None:
    package = str(frame.f_globals.get("__name__", "")).split(".")[0]
    return package if package in _PUBLIC else None


def _entered(user: FrameType | None) -> str:
    """The library that the line of ``user`` went into."""
    frame, found = sys._getframe(1), "jax"
    while frame is not None and frame is not user:
        found = _library(frame) or found
        frame = frame.f_back
    return found


def _remedy(trace: Trace, library: str, folders: Sequence[str], name: str) -> str:
    module = trace.namespace.standard(None)
    found = _CounterpartHook.find(folders, name) if library == "jax" else ""
    found = found or (f"dyn.numpy.{name}" if name in module.__all__ else "")
    own = f"use {found}" if found else "use functions of dyn.numpy, dyn.nn and dyn.lax"
    if library == "torch":
        return f"{own}. A module, or a function that is PyTorch's, is compiled with dyn.interop.torch.jit."
    return (
        f"{own}. Where all of the function is JAX's, compile it with dyn.interop.jax.jit; a part of it is called as "
        "dyn.interop.stablehlo.load(jax.export.export(jax.jit(part))(...).mlir_module_serialized)."
    )
