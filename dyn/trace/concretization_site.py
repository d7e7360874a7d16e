"""The call in the user's program that asks for a number where there is none yet, and what to use in its place.

NumPy, JAX and Python's own functions ask a dimension for its value by ``__index__``, ``__float__`` and ``__bool__``,
some far inside: what the user wrote is in the innermost frame of the user's, at the instruction that runs.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any, NoReturn

import numpy as np

from dyn.errors import UnsupportedOpError
from dyn.frozen import record
from dyn.source import is_user_frame, user_loc
from dyn.trace.bytecode import RunningExpression, running

#: Names of other libraries' functions that dyn.numpy has under another one.
_OTHER_NAMES = {"pow": "power", "fabs": "abs", "randn": "normal", "rand": "uniform", "standard_normal": "normal",
                "random": "uniform", "random_sample": "uniform", "integers": "randint", "view": "reshape",
                "cat": "concatenate", "permute": "transpose", "unsqueeze": "expand_dims"}  # fmt: skip
_RANDOM = frozenset(
    {"normal", "uniform", "randint", "permutation", "choice", "gamma", "poisson", "exponential", "beta", "bernoulli",
     "binomial", "multivariate_normal", "laplace", "logistic", "gumbel", "dirichlet", "pareto", "cauchy"}
)  # fmt: skip
#: What rounds a quotient of sizes as functions of ``math`` do.
_ROUNDED = {"ceil": "(n + 1) // 2 for n / 2", "floor": "n // 2 for n / 2"}
_NUMERIC = ("numpy", "torch", "jax", "jaxlib", "math")
_STATIC = "or make it static with shapes=."


@record()
class Asking:
    """Use of a dim by the user's line (``np.zeros()``, ``range()``, ``repeating a sequence``), and its remedy.

    ``library`` is that of the function that is called: ``numpy``, ``builtins``; empty where it is no function.
    """

    what: str
    remedy: str
    library: str = ""

    @property
    def computes(self) -> bool:
        """Whether it is a function of a library that computes with numbers, which dyn has in its own way."""
        return self.library in _NUMERIC


def asking(has: Callable[[str], bool]) -> Asking | None:
    """The use of a dim by the user's line, read from its bytecode; None where it cannot be told.

    ``has`` says whether ``dyn.numpy`` has a function of a name.
    """
    frame = sys._getframe(1)
    while frame is not None and not is_user_frame(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return None
    runs = running(frame)
    match None if runs is None else runs.what:
        case "call" if runs is not None and runs.names:
            return _of_call(frame, runs, has)
        case "*":
            remedy = "use dyn.numpy.full, tile or repeat, which give an array, " + _STATIC
            return Asking("repeating a sequence", remedy)
        case "%":
            return Asking("a format with %", "write its name with %s or f'{n}', " + _STATIC)
        case "[]":
            remedy = "make an array of what is indexed with dyn.numpy.asarray, and index that, " + _STATIC
            return Asking("indexing what is not traced", remedy)
        case _:
            return None


def refuse_torch(func: Any, has: Callable[[str], bool]) -> NoReturn:
    """Raise for a function of PyTorch that is given what is being traced.

    The error is a TypeError: of an operator PyTorch then leaves it to the other operand, which takes it.
    """
    name = str(getattr(func, "__name__", func))
    raise UnsupportedOpError(
        f"torch.{name}() computes at once, with what is known only when the compiled function is called.",
        loc=user_loc(),
        remedy=_remedy("torch", name, has),
    )


def _of_call(frame: FrameType, runs: RunningExpression, has: Callable[[str], bool]) -> Asking:
    if not runs.rooted:  # a method of something that was computed
        (name,) = runs.names
        library = "numpy" if hasattr(np.ndarray, name) else "unknown"
        return Asking(f"{name}()", _remedy(library, name, has), library)
    library, path = _resolved(frame, runs.names)
    written = ".".join(runs.names)
    if path and "." not in written and written != path.rpartition(".")[2]:  # a variable that holds the function
        written = f"{library}.{path}"
    return Asking(f"{written}()", _remedy(library, path, has), library or "unknown")


def _resolved(frame: FrameType, names: tuple[str, ...]) -> tuple[str, str]:
    """The library that a name leads into, and the path in it: ``("numpy", "random.randn")``.

    No code of the user's runs: nothing is looked up but variables, and what a function says of itself.
    """
    first, *rest = names
    scope = next((s for s in (frame.f_locals, frame.f_globals, vars(builtins)) if first in s), None)
    if scope is None:
        return "", ""
    found: Any = scope[first]
    if isinstance(found, ModuleType):
        parts = [*found.__name__.split("."), *rest]
    elif rest:  # a method, as of a generator of random numbers
        parts = [*type(found).__module__.split("."), rest[-1]]
    else:
        home = getattr(found, "__module__", None)
        home = home if isinstance(home, str) else type(getattr(found, "__self__", None)).__module__
        parts = [*home.split("."), str(getattr(found, "__name__", first))]
    section = next((part for part in ("random", "linalg", "fft") if part in parts[1:-1]), "")
    return parts[0], f"{section}.{parts[-1]}" if section else parts[-1]


def _remedy(library: str, path: str, has: Callable[[str], bool]) -> str:
    section, _, last = path.rpartition(".")
    other = _OTHER_NAMES.get(last, last)
    if library == "builtins" and last == "range":
        return "use dyn.lax.fori_loop or scan for a loop, dyn.numpy.arange for an array of its numbers, " + _STATIC
    if library in _NUMERIC:
        if section == "random" or (library == "torch" and last in ("rand", "randn", "randint")):
            which = f"dyn.random.{other}, which takes" if other in _RANDOM else "dyn.random, whose functions take"
            return f"use {which} a key and dimensions, {_STATIC}"
        if library == "numpy" and isinstance(getattr(np, last, None), type):
            return f"use dyn.numpy.asarray(n, dtype), which takes dimensions, {_STATIC}"
        if library == "math" and last in _ROUNDED:
            return f"use dyn.numpy.{last} of arrays; of sizes write {_ROUNDED[last]}, which is a size too."
        name = f"{section}.{last}" if section else last
        for each in (name, f"{section}.{other}" if section else other):
            if has(each):
                return f"use dyn.numpy.{each}, which takes dimensions and arrays that are traced."
    return "use functions of dyn.numpy, which take dimensions, " + _STATIC
