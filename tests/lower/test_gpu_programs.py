"""Random programs, compiled for GPU targets and run by the shim, all in one translation unit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dyn.schedule.target import Target
from tests.lower.gpu_programs import TARGETS, compare_programs, compile_function, drawn


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_random_programs(target: Target, require_tool: Callable[..., str]) -> None:
    require_tool("g++")
    count = compare_programs(drawn(40), target, lambda program, name: compile_function(program.function, target, name))
    assert count > 40  # at several sizes each
