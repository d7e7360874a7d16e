"""Random programs, compiled for GPU targets and run by the shim, all in one translation unit.

Each array stands between guards, so that a store out of bounds is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import hypothesis
import numpy as np
import pytest

from dyn.backends.reference import bind_symbols
from dyn.errors import NotYetError, ShapeError
from dyn.ir.core import Function, Value
from dyn.ir.printer import print_function
from dyn.lower.gpu.dialect import dialect_of, gpu_target
from dyn.lower.gpu.emit import KernelText, emit_kernel
from dyn.pipeline import Optimized, optimize
from dyn.record import Record
from dyn.schedule.kernel_text import kernel_text
from dyn.schedule.launch import Launch, Variant
from dyn.schedule.target import Target
from dyn.shapes import Symbol, evaluate
from dyn.trace.function import TracedFunction
from tests.shim.run import ShimModule
from tests.stitch.oracle import agree, evaluate_function
from tests.stitch.programs import Program, programs

Array = np.ndarray[Any, Any]
TARGETS = {"cuda": gpu_target("cuda", "sm_90a"), "hip64": gpu_target("rocm", "gfx90a")}
_GUARD = 128


@dataclass(frozen=True, eq=False)
class Compiled:
    """A program, and the texts of its variants, each under a name of its own."""

    program: Optimized
    texts: Mapping[Variant, KernelText]


def compile_function(function: Function, target: Target, prefix: str) -> Compiled:
    """Everything but the machine code."""
    traced = TracedFunction(function, (), (), None)  # pyright: ignore[reportArgumentType]  # no tree is asked for
    optimized = optimize(traced, target, Record())
    variants = [variant for launch in optimized.launches for variant in launch.variants]
    texts = {v: emit_kernel(replace(v.kernel, name=f"{prefix}_{i}"), target) for i, v in enumerate(variants)}
    return Compiled(optimized, texts)


def run(module: ShimModule, compiled: Compiled, arrays: Sequence[Array]) -> list[Array | None]:
    """The function's results; None for one that is another value's memory under another shape."""
    function = compiled.program.function
    env = bind_symbols(function, arrays)
    memory: dict[Value, Array] = {v: np.array(a, order="C") for v, a in zip(function.params, arrays, strict=True)}
    for launch in compiled.program.launches:
        guards: list[Array] = []
        for value in launch.buffers:
            if value not in memory:
                raw = np.full(evaluate(value.type.size, env) * value.dtype.itemsize + 2 * _GUARD, 0xAB, np.uint8)
                guards += [raw[:_GUARD], raw[len(raw) - _GUARD :]]
                inside = raw[_GUARD : len(raw) - _GUARD].view(value.dtype.np)
                memory[value] = inside.reshape([evaluate(d, env) for d in value.shape])
        variant = _chosen(launch, env)
        text, dims = compiled.texts[variant], [evaluate(dim, env) for dim in variant.dims]
        shared = evaluate(text.shared_bytes, dict(zip(variant.kernel.dims, dims, strict=True)))
        module.run(text.symbol, [memory[v] for v in launch.buffers], dims, 3, text.block, shared, order_seed=1)
        assert all((guard == 0xAB).all() for guard in guards), (
            f"stored out of bounds at {env}\n{kernel_text(variant.kernel)}\n{print_function(function)}"
        )
    return [memory.get(value) for value in function.results]


def _chosen(launch: Launch, env: Mapping[Symbol, int]) -> Variant:
    for variant in launch.variants:
        condition = variant.condition
        if condition is None:
            return variant
        size = evaluate(condition.dim, env)
        if condition.low <= size and (condition.high is None or size <= condition.high):
            return variant
    raise AssertionError(f"no variant of {launch.group.name} fits {env}")


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
