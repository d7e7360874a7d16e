"""Runs a random program as users would, and holds it to the reference."""

from __future__ import annotations

import dataclasses
import math
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import dyn
from dyn import dtypes
from dyn.backends.reference import bind_symbols, run_reference
from dyn.errors import IRError, NotYetError, ShapeError
from dyn.shapes import evaluate, free_symbols
from dyn.trace.function import TracedFunction
from tests.canary import run_compiled
from tests.models.noise import disagreement, noisy_runs
from tests.models.random_programs import LARGEST, REFUSALS, Program

Array = np.ndarray[Any, Any]


class Discard(Exception):
    """A program that says nothing: it is refused, or too large."""


@contextmanager
def discarding() -> Iterator[None]:
    """A call that compiles: what says nothing of the program is a Discard."""
    try:
        yield
    except NotYetError:
        raise Discard("NotYetError when compiled") from None
    except IRError as error:  # a proof that the solver loses when it learns more: tests/shapes looks for those
        if "the facts do not imply" not in str(error):
            raise
        raise Discard("lost proof") from None


def check_program(program: Program) -> None:
    """Compile once and compare at every size. AssertionError where something is not as it shall be."""
    function = program.jitted()
    called, traced = 0, None
    with np.errstate(all="ignore"), warnings.catch_warnings(), dyn.config.override(red_zones=True):
        warnings.simplefilter("ignore")
        for sizes in program.calls:
            arrays = program.data(sizes)
            before = [np.array(a) for a in arrays]
            try:
                traced = function.trace(*arrays).traced if traced is None else traced  # the same for every size
            except REFUSALS as error:
                raise Discard(f"{type(error).__name__}") from None
            with discarding():
                called += _check_call(function, traced, sizes, arrays)
            for array, old in zip(arrays, before, strict=True):
                assert array.tobytes() == old.tobytes(), f"an argument was written, at {sizes}"
        if called:
            assert function.cache_info().compiles == 1
    if not called:
        raise Discard("no call")


def _check_call(function: dyn.Jitted, traced: TracedFunction, sizes: dict[str, int], arrays: list[Array]) -> bool:
    """Whether the call said something: one that both sides refuse does not."""
    native = [np.array(a, a.dtype.newbyteorder("="), order="C") for a in arrays]
    given = [*native, *(np.asarray(a) for a in traced.captured)]
    if _largest(traced, given) > 4 * LARGEST:
        return False
    try:
        expected = run_reference(traced.function, given)
    except ShapeError as error:
        try:
            function(*arrays)
        except ShapeError:
            return False
        raise AssertionError(f"no ShapeError at {sizes}: {error}") from None
    try:
        runs = noisy_runs(traced.function, given)
    except ShapeError:  # of a branch that rounding may choose
        return False
    actual = function(*arrays)
    fenced = run_compiled(function.programs[0].on_host, native)
    for number, (a, e) in enumerate(zip(actual, expected, strict=True)):
        problem = disagreement(np.asarray(a), e, [run[number] for run in runs], dtypes.dtype(e.dtype))
        assert not problem, f"result {number} at {sizes}: {problem}"
        assert fenced[number].tobytes() == np.asarray(a).tobytes(), (
            f"result {number} at {sizes}: another one when fenced"
        )
    with dyn.config.override(num_threads=3):
        for number, (a, again) in enumerate(zip(actual, function(*arrays), strict=True)):
            assert a.tobytes() == again.tobytes(), f"result {number} at {sizes}: another one with three threads"
    return True


def _largest(traced: TracedFunction, given: list[Array]) -> int:
    """The elements of the largest value of a call; 0 where its shapes do not fit."""
    try:
        env = bind_symbols(traced.function, given)
        shapes = [r.shape for op in traced.function.ops for r in op.results]
        known = [s for s in shapes if all(free_symbols(d) <= env.keys() for d in s)]  # others depend on values
        return max((math.prod(evaluate(d, env) for d in shape) for shape in known), default=0)
    except (ShapeError, ZeroDivisionError):
        return 0


def small(program: Program, error: BaseException) -> tuple[Program, BaseException]:
    """A program with fewer results, steps and calls that fails the same way."""
    tries = 60
    best = error

    def fails(candidate: Program) -> bool:
        nonlocal best, tries
        tries -= 1
        try:
            check_program(candidate)
        except Discard:
            return False
        except BaseException as found:
            if type(found) is not type(error):
                return False
            best = found
            return True
        return False

    names = [step.split(" = ", 1)[0] for step in program.steps]
    for name in names:
        candidate = _pruned(dataclasses.replace(program, results=(name,)))
        if tries > 0 and fails(candidate):
            program = candidate
            break
    for number in range(len(program.steps) - 2, -1, -1):  # an operand takes the place of a step
        if number >= len(program.steps) - 1:
            continue
        name, text = program.steps[number].split(" = ", 1)
        for operand in dict.fromkeys(re.findall(r"\b(?:v\d+|[xyz])\b", text)):
            rest = [re.sub(rf"\b{name}\b", operand, s) for s in program.steps[number + 1 :]]
            candidate = _pruned(dataclasses.replace(program, steps=(*program.steps[:number], *rest)))
            if tries > 0 and fails(candidate):
                program = candidate
                break
    for simple in (
        {"special": False},
        {"declared": True},
        {"declared": False},
        {"arguments": tuple(dataclasses.replace(a, layout="C") for a in program.arguments)},
    ):
        candidate = dataclasses.replace(program, **simple)
        if candidate != program and fails(candidate):
            program = candidate
    for sizes in program.calls:
        candidate = dataclasses.replace(program, calls=(sizes,))
        if fails(candidate):
            return candidate, best
    return program, best


def _pruned(program: Program) -> Program:
    """Without steps that no result needs."""
    needed, kept = set(program.results), list[str]()
    for step in reversed(program.steps):
        name, text = step.split(" = ", 1)
        if name in needed:
            kept.append(step)
            needed.update(re.findall(r"\bv\d+\b", text))
    return dataclasses.replace(program, steps=tuple(reversed(kept)))
