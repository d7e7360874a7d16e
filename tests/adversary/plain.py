"""What a call of a program shall give: the Python function run with numbers for sizes, op by op with NumPy."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import dyn
from dyn.backends.reference import bind_symbols, run_reference
from dyn.errors import DynError, ShapeError, UndecidedDimError, UnsupportedOpError
from dyn.ir.core import Function, Op
from dyn.ir.opdef import Control
from dyn.shapes import Dim, Symbol, evaluate, free_symbols
from dyn.trace.function import TracedFunction
from tests.adversary.programs import Program

Array = np.ndarray[Any, Any]
#: Outcomes that come of the sizes of a call.
SIZES_ALONE = ("shape", "large")
#: More elements than this a value shall not have, and more rounds than this a loop shall not take.
_LARGEST = 20_000


@dataclass(frozen=True)
class Outcome:
    """``arrays``, or the kind of an error; ``text`` is what it says."""

    kind: str
    arrays: tuple[Array, ...] = ()
    text: str = ""
    error: BaseException | None = None


def error_kind(error: BaseException) -> str:
    """What an error tells a user: whether the sizes do not fit, are too large, or something else by its name."""
    if isinstance(error, ShapeError | ZeroDivisionError | IndexError):
        return "shape"
    if isinstance(error, MemoryError | OverflowError):
        return "large"
    if isinstance(error, UnsupportedOpError) and "does not fit in" in str(error):
        return "large" if "int64" in str(error) else "shape"
    if isinstance(error, UndecidedDimError):
        return "undecided"
    if isinstance(error, ValueError) and not isinstance(error, DynError):
        text = str(error)
        return (
            "large" if any(w in text for w in ("too large", "too big", "Maximum allowed", "larger than")) else text[:60]
        )
    return type(error).__name__


def failed(error: BaseException) -> Outcome:
    return Outcome(error_kind(error), text=f"{type(error).__name__}: {error}", error=error)


def run_plain(program: Program, arrays: Sequence[Array]) -> Outcome:
    """The outcome with every axis an integer: branches on sizes are Python's own, and nothing is compiled."""
    sizes = ", ".join([" ".join(map(str, a.shape)) or "()" for a in arrays])
    return _interpreted(dyn.jit(program.function(), shapes=sizes), arrays)[0]


def run_traced(function: dyn.Jitted, arrays: Sequence[Array]) -> tuple[Outcome, TracedFunction | None]:
    """The outcome of the program as it is traced for this very call, op by op with NumPy; and that trace."""
    return _interpreted(function, arrays)


def _interpreted(function: dyn.Jitted, arrays: Sequence[Array]) -> tuple[Outcome, TracedFunction | None]:
    traced: TracedFunction | None = None
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = function.trace(*arrays).traced
            given = [*arrays, *(np.asarray(a) for a in traced.captured)]
            if _largest(traced.function, given) > _LARGEST:
                return Outcome("large"), traced
            results = run_reference(traced.function, given)
    except Exception as error:
        return failed(error), traced
    return Outcome("arrays", tuple(map(np.asarray, results))), traced


def _largest(function: Function, given: Sequence[Array]) -> int:
    """The elements of the largest value of a call, or the rounds of its longest loop, as far as sizes tell."""
    return _largest_of(function.ops, bind_symbols(function, given), 1)


def _largest_of(ops: Sequence[Op], env: Mapping[Symbol, int], rounds: int) -> int:
    found = 0
    for op in ops:
        shapes = [value.shape for value in op.results]
        own = rounds
        if op.opdef.loops is Control.SCAN:
            own *= max(_count([op.attrs["length"]], env), 1)
            found = max(found, own)
        found = max([found, *[_count(shape, env) for shape in shapes]])
        found = max([found, *[_largest_of(region.ops, env, own) for region in op.regions]])
    return found


def _count(sizes: Sequence[Dim], env: Mapping[Symbol, int]) -> int:
    """The product of sizes; 0 where one is not known or has no value."""
    if not all(free_symbols(d) <= env.keys() for d in sizes):
        return 0
    with contextlib.suppress(ShapeError):
        return math.prod(evaluate(d, env) for d in sizes)
    return 0
