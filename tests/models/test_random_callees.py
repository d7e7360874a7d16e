"""Random programs called in traces: those that are traced apart compute what those that are traced in place do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import hypothesis
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import dyn
import dyn.numpy as dnp
from dyn.backends.reference import run_reference
from dyn.errors import IRError, ShapeError
from dyn.ir.verifier import verify
from tests.models.random_programs import REFUSALS, make_program

Array = np.ndarray[Any, Any]
_THOROUGH = hypothesis.settings.get_current_profile_name() == "thorough"
#: What a caller makes of its arguments: their dims are then expressions of its own.
_CHANGES: dict[str, Callable[[Any], Any]] = {
    "same": lambda a: a,
    "doubled": lambda a: dnp.concatenate([a, a], 0),
    "cut": lambda a: a[1:],
    "longer": lambda a: dnp.concatenate([a, a[:1]], 0),
}


def caller(random: Random, function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A function that calls another one, with arguments that it changes, and maybe once more."""
    changes = [_CHANGES[random.choice(("same", *_CHANGES))] for _ in range(count)]
    twice = random.random() < 0.4

    def outer(*args: Any) -> Any:
        made = function(*[change(a) if a.ndim else a for change, a in zip(changes, args, strict=True)])
        return (*made, *function(*args)) if twice else made

    return outer


def outcome(function: Callable[..., Any], arrays: list[Array]) -> list[Array] | str:
    """The results by the reference, or the name of the error."""
    try:
        traced = dyn.jit(function).trace(*arrays).traced
    except REFUSALS as error:
        return f"{type(error).__name__} when traced"
    try:
        verify(traced.function)
    except IRError:
        return "IRError"
    native = [np.array(a, a.dtype.newbyteorder("=")) for a in arrays]
    try:
        return list(run_reference(traced.function, [*native, *map(np.asarray, traced.captured)]))
    except ShapeError:
        return "ShapeError"


@hypothesis.settings(
    max_examples=3000 if _THOROUGH else 40,
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.reuse, hypothesis.Phase.generate),
)
@given(st.integers(0, 2**32))
def test_a_function_called_in_a_trace(seed: int) -> None:
    program = make_program(Random(seed), most=5)
    hypothesis.note(repr(program))
    plain = program.function()
    apart = dyn.jit(plain)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sizes in program.calls[:2]:
            arrays = program.data(sizes)
            wanted, found = (outcome(caller(Random(seed), f, len(arrays)), arrays) for f in (plain, apart))
            if wanted == "IRError":  # a proof that the solver loses when it learns more: tests/shapes looks for those
                continue
            if isinstance(wanted, str) or isinstance(found, str):
                assert found == wanted, f"at {sizes}"
                continue
            for number, (mine, theirs) in enumerate(zip(found, wanted, strict=True)):
                same = (mine.dtype, mine.shape, mine.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())
                assert same, f"result {number} at {sizes}"
