"""Random programs, compiled for GPU targets and run by the shim, all in one translation unit."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis
import numpy as np
import pytest

from dyn.errors import NotYetError, ShapeError
from dyn.ir.printer import print_function
from dyn.lower.gpu.dialect import dialect_of
from dyn.schedule.target import Target
from tests.lower.gpu_programs import TARGETS, Compiled, compile_function, run
from tests.shim.run import ShimModule
from tests.stitch.oracle import agree, evaluate_function
from tests.stitch.programs import Program, programs


def drawn(count: int) -> list[Program]:
    """The same random programs each time: they share a translation unit, so they cannot be drawn one by one."""
    found: list[Program] = []

    @hypothesis.seed(1)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        phases=(hypothesis.Phase.generate,),
        suppress_health_check=(hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large),
    )
    @hypothesis.given(programs())
    def collect(program: Program) -> None:
        found.append(program)

    collect()
    return found


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_random_programs(target: Target, require_tool: Callable[..., str]) -> None:
    require_tool("g++")
    subjects: list[tuple[Program, Compiled]] = []
    for number, program in enumerate(drawn(60)):
        try:
            subjects.append((program, compile_function(program.function, target, f"p{number}")))
        except NotYetError:  # contractions
            continue
    assert len(subjects) > 40
    texts = [text for _, compiled in subjects for text in compiled.texts.values()]
    module = ShimModule(texts, dialect_of(target), target.warp)
    for program, compiled in subjects:
        for env in program.envs:
            if not program.fits(env):
                continue
            arrays = [np.asarray(a) for a in program.arguments(env)]
            try:
                expected = evaluate_function(program.function, arrays)
            except ShapeError:  # checked by the host program, before any kernel runs
                continue
            for result, (value, error) in zip(run(module, compiled, arrays), expected, strict=True):
                if result is not None:
                    assert agree(result, value, error), f"{env}\n{print_function(program.function)}"
