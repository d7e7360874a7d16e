"""Random programs: compiled once, run at many sizes, compared with the reference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import given

from dyn import config
from dyn.backends.call_frames import CallFrame
from dyn.backends.host_programs import LoadedProgram
from dyn.backends.x86 import X86Backend, host_target
from dyn.compilation_record import CompilationRecord
from dyn.errors import IRError, NotYetError, ShapeError
from dyn.ir.printer import print_function
from dyn.pipeline import Optimized, compile_program, optimize
from dyn.trace.function import TracedFunction
from tests.stitch.oracle import agree, evaluate_function
from tests.stitch.programs import Program, programs

_BACKEND = X86Backend(host_target())


class _Guards:
    """Outputs with bytes around them that a kernel must leave alone."""

    SIZE = 4096

    def __init__(self) -> None:
        self.blocks: list[np.ndarray[Any, Any]] = []

    def allocate(self, frame: Any, index: int) -> int:
        _, start, end = frame.places[frame.inputs + index]
        shape, dtype = tuple(frame.words[start:end]), frame.dtypes[index]
        bytes_ = math.prod(shape) * dtype.itemsize
        block = np.full(bytes_ + 2 * self.SIZE, 0xA5, np.uint8)
        self.blocks.append(block)
        frame.outputs[index] = block[self.SIZE : self.SIZE + bytes_].view(dtype).reshape(shape)
        return block.ctypes.data + self.SIZE

    def hook(self) -> Callable[[Any, int], int]:
        """The function that takes the place of a frame's method."""

        def allocate(frame: Any, index: int) -> int:
            return self.allocate(frame, index)

        return allocate

    def check(self) -> None:
        for block in self.blocks:
            assert (block[: self.SIZE] == 0xA5).all(), "a kernel wrote before its output"
            assert (block[-self.SIZE :] == 0xA5).all(), "a kernel wrote past its output"
        self.blocks.clear()


def run_program(program: Program, backend: X86Backend = _BACKEND) -> None:
    """Compile once, then compare every size. AssertionError where a result differs, or an error on one side only."""
    traced = TracedFunction(program.function, (), (), None)  # pyright: ignore[reportArgumentType]  # no tree is asked for
    record = CompilationRecord()
    with config.override(verify_ir=True):
        optimized = optimize(traced, backend.target, record)
    loaded = compile_program(optimized, (), backend, record)
    guards = _Guards()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CallFrame, "allocate", guards.hook())
        _compare(program, optimized, loaded, guards)


def run_drawn(program: Program) -> None:
    """:func:`run_program` of a program that hypothesis drew; it draws another one for what is not written yet."""
    try:
        run_program(program)
    except NotYetError:
        hypothesis.reject()
    except IRError as error:
        # A proof that the solver loses when it learns more; tests/shapes is where that is looked for.
        if "the facts do not imply" not in str(error):
            raise
        hypothesis.reject()


def _compare(program: Program, optimized: Optimized, loaded: LoadedProgram, guards: _Guards) -> None:
    for env in program.envs:
        if not program.fits(env):
            continue
        arrays = program.arguments(env)
        try:
            expected = evaluate_function(program.function, arrays)
        except ShapeError:
            try:
                loaded(arrays)
            except ShapeError:
                continue
            raise AssertionError(f"no ShapeError at {env}\n{print_function(program.function)}") from None
        actual = loaded(arrays)
        guards.check()
        assert len(actual) == len(expected)
        for number, (a, (e, error)) in enumerate(zip(actual, expected, strict=True)):
            if not agree(a, e, 0.0 if program.exact else error):
                with np.printoptions(threshold=50, precision=4):
                    where = f"result {number} at {env}: error bound {error}\n{a}\nis not\n{e}"
                raise AssertionError(f"{where}\n{print_function(program.function)}\n{optimized.plan.text()}")


CHECKS = [
    hypothesis.HealthCheck.too_slow,
    hypothesis.HealthCheck.data_too_large,
    hypothesis.HealthCheck.filter_too_much,
]


@hypothesis.settings(max_examples=600, suppress_health_check=CHECKS)
@given(programs())
def test_compiled_agrees_with_the_reference(program: Program) -> None:
    run_drawn(program)
