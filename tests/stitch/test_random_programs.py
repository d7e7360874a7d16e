"""Random programs: compiled once, run at many sizes, compared with the reference."""

from __future__ import annotations

import hypothesis
import numpy as np
from hypothesis import given

from dyn import config
from dyn.backends.x86 import X86Backend, host_target
from dyn.errors import NotYetError, ShapeError
from dyn.ir.printer import print_function
from dyn.pipeline import Record, compile_x86, optimize
from dyn.trace.function import TracedFunction
from tests.stitch.oracle import agree, evaluate_function
from tests.stitch.programs import Program, programs

_BACKEND = X86Backend(host_target())


def run_program(program: Program) -> None:
    """Compile once, then compare every size. AssertionError where a result differs, or an error on one side only."""
    traced = TracedFunction(program.function, (), (), None)  # pyright: ignore[reportArgumentType]  # no tree is asked for
    record = Record()
    with config.override(verify_ir=True):
        optimized = optimize(traced, host_target(), record)
    loaded = compile_x86(optimized, (), _BACKEND, record)
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
        assert len(actual) == len(expected)
        for number, (a, (e, error)) in enumerate(zip(actual, expected, strict=True)):
            if not agree(a, e, error):
                with np.printoptions(threshold=50, precision=4):
                    where = f"result {number} at {env}: error bound {error}\n{a}\nis not\n{e}"
                raise AssertionError(f"{where}\n{print_function(program.function)}\n{optimized.plan.text()}")


_CHECKS = [
    hypothesis.HealthCheck.too_slow,
    hypothesis.HealthCheck.data_too_large,
    hypothesis.HealthCheck.filter_too_much,
]


@hypothesis.settings(max_examples=600, suppress_health_check=_CHECKS)
@given(programs())
def test_compiled_agrees_with_the_reference(program: Program) -> None:
    try:
        run_program(program)
    except NotYetError:
        hypothesis.reject()
