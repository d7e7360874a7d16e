"""Random numbers of NumPy's and Python's that a function draws while it is traced: constants of its program."""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any

from dyn.trace.bytecode import nested_codes
from dyn.trace.closure_names import variables


class _WatchedGenerators(threading.local):
    """The generators that this thread's traces look at, with their states, from the outermost trace."""

    def __init__(self) -> None:
        self.traces: list[dict[str, tuple[Any, bytes]]] = []


_WATCHED = _WatchedGenerators()


@contextlib.contextmanager
def warned_of(function: Callable[..., Any], name: str) -> Iterator[None]:
    """Warn if random numbers are drawn meanwhile by the global generators of ``numpy.random`` and ``random``, or by one
    that the function names. A function that is traced inside tells of its own draws, and nobody else does."""
    process = os.getpid()
    before = {source: (generator, _state(generator)) for source, generator in _generators(function).items()}
    _WATCHED.traces.append(before)
    try:
        yield
    finally:
        _WATCHED.traces.pop()
    if os.getpid() != process:  # the function forked, and this is the child, where Python seeds its generator anew
        return
    drawn = [source for source, (generator, state) in before.items() if _state(generator) != state]
    if not drawn:
        return
    for outer in _WATCHED.traces:
        outer.update({key: (one, _state(one)) for key, (one, _) in outer.items() if key in drawn})
    code = _code_of(function)
    file, line = ("<unknown>", 1) if code is None else (code.co_filename, code.co_firstlineno)
    warnings.warn_explicit(
        f"{name}() drew random numbers by {', '.join(drawn)} while it was traced: they are constants of its program, "
        "the same in each call.\n  help: pass them as an argument, or draw with dyn.random from a key that is one.",
        UserWarning, file, line,
    )  # fmt: skip


def _code_of(function: Any) -> Any:
    function = getattr(function, "__func__", function) if isinstance(function, MethodType) else function
    return function.__code__ if isinstance(function, FunctionType) else None


def _generators(function: Any) -> dict[str, Any]:
    """The generators that a function may draw from, by what users call them."""
    code = _code_of(function)
    found: dict[str, Any] = {}
    used = set[str]() if code is None else {name for one in nested_codes(code) for name in one.co_names}
    # Other threads draw from global generators too: with some about, the code has to say that it does.
    if _is_alone() or not used.isdisjoint(("random", "np", "numpy")):
        found["random"] = random
        # NumPy imports it when it is asked for.
        numpy = importlib.import_module("numpy.random") if "random" in used else _numpy_random()
        if numpy is not None:
            found["numpy.random"] = numpy
    for name, value in variables(function):
        attributes = getattr(value, "__dict__", {}) if name == "self" else {}
        parts = [(name, value), *[(f"self.{key}", part) for key, part in list(attributes.items())]]
        found |= {key: part for key, part in parts if _is_generator(part)}
    return found


def _is_alone() -> bool:
    """Return True if no thread runs beside this one but dyn's own."""
    own = threading.current_thread()
    return all(one is own or one.name.startswith("dyn") for one in threading.enumerate())


def _numpy_random() -> Any:
    """``numpy.random`` where it is imported; None before, and while another thread is importing it."""
    module = sys.modules.get("numpy.random")
    is_whole = all(name in vars(module) for name in ("Generator", "RandomState", "get_state")) if module else False
    return module if is_whole else None


def _is_generator(value: Any) -> bool:
    if isinstance(value, random.Random):
        return True
    numpy = _numpy_random()
    return numpy is not None and isinstance(value, numpy.Generator | numpy.RandomState)


def _state(generator: Any) -> bytes:
    """The state of a generator, or of the global one of a module."""
    if hasattr(generator, "getstate"):
        state = generator.getstate()  # Python's
    elif hasattr(generator, "get_state"):
        state = generator.get_state(legacy=False)
    else:
        state = generator.bit_generator.state
    return pickle.dumps(state)
