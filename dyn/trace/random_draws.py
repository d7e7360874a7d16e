"""Random numbers of NumPy's and Python's that a function draws while it is traced: constants of its program."""

from __future__ import annotations

import contextlib
import importlib
import pickle
import random
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any

from dyn.trace.bytecode import nested_codes


@contextlib.contextmanager
def warned_of(function: Callable[..., Any], name: str) -> Iterator[None]:
    """Warn if random numbers are drawn meanwhile by the global generators of ``numpy.random`` and ``random``, or by one
    that the function names."""
    before = {source: (generator, _state(generator)) for source, generator in _generators(function).items()}
    yield
    drawn = [source for source, (generator, state) in before.items() if _state(generator) != state]
    if not drawn:
        return
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
    if threading.active_count() == 1 or not used.isdisjoint(("random", "np", "numpy")):
        found["random"] = random
        # NumPy imports it when it is asked for.
        numpy = importlib.import_module("numpy.random") if "random" in used else sys.modules.get("numpy.random")
        if numpy is not None:
            found["numpy.random"] = numpy
    if code is not None:
        function = getattr(function, "__func__", function)
        variables = dict(_cells(function))
        variables |= {name: function.__globals__[name] for name in used & function.__globals__.keys()}
        found |= {name: value for name, value in variables.items() if _is_generator(value)}
    return found


def _cells(function: FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it is not set yet
            yield name, cell.cell_contents


def _is_generator(value: Any) -> bool:
    if isinstance(value, random.Random):
        return True
    numpy: Any = sys.modules.get("numpy.random")
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
