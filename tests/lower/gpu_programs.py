"""Functions compiled for GPU targets, and run by the shim, many in one translation unit.

Each array stands between guards, so that a store out of bounds is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import hypothesis
import numpy as np
from hypothesis.strategies import SearchStrategy

from dyn.backends.reference import bind_symbols
from dyn.compilation_record import CompilationRecord
from dyn.errors import ShapeError
from dyn.ir.core import Function, Value
from dyn.ir.printer import print_function
from dyn.lower.gpu.dialect import dialect_of, gpu_target
from dyn.lower.gpu.emit import GpuKernelText, emit_kernel
from dyn.pipeline import Optimized, optimize
from dyn.schedule.families import schedules_of
from dyn.schedule.kernel_text import kernel_text
from dyn.schedule.launch import Condition, Launch, Variant
from dyn.schedule.target import Target
from dyn.shapes import Symbol, evaluate
from dyn.stitch.groups import Group
from dyn.trace.function import TracedFunction
from tests.shim.run import ShimModule
from tests.stitch.oracle import agree, evaluate_function
from tests.stitch.programs import Program, programs

Array = np.ndarray[Any, Any]
TARGETS = {"cuda": gpu_target("cuda", "sm_90a"), "hip64": gpu_target("rocm", "gfx90a")}
_GUARD = 128


@dataclass(frozen=True, eq=False)
class Compiled:
    """A program, and the texts of its variants, each kernel under a name of its own."""

    program: Optimized
    texts: dict[Variant, GpuKernelText]

    def kernels(self) -> list[GpuKernelText]:
        """The texts, each once: launches may share one."""
        return list({text.symbol: text for text in self.texts.values()}.values())


def compile_function(function: Function, target: Target, prefix: str) -> Compiled:
    """Everything but the machine code."""
    traced = TracedFunction(function, (), (), None)  # pyright: ignore[reportArgumentType]  # no tree is asked for
    optimized = optimize(traced, target, CompilationRecord())
    variants = [variant for launch in optimized.launches for variant in launch.variants]
    kernels = {v.kernel: number for number, v in enumerate(variants)}
    made = {k: emit_kernel(replace(k, name=f"{prefix}_{number}"), target) for k, number in kernels.items()}
    return Compiled(optimized, {v: made[v.kernel] for v in variants})


def run(
    module: ShimModule,
    compiled: Compiled,
    arrays: Sequence[Array],
    grid: int = 3,
    seed: int = 1,
    *,
    deferred: bool = True,
) -> list[Array | None]:
    """The function's results; None for one that is another value's memory under another shape.

    Without ``deferred`` variants launches are those of a first call, alternatives of those that are missing among them.
    """
    function = compiled.program.function
    env = bind_symbols(function, arrays)
    memory: dict[Value, Array] = {v: np.array(a, order="C") for v, a in zip(function.params, arrays, strict=True)}
    launches = compiled.program.launches
    missing = {(la.group, la.when) for la in launches if la.variants[-1].deferred and not deferred}

    def runs(group: Group, condition: Condition) -> bool:
        return holds(condition, env) and (group, condition) not in missing

    for launch in launches:
        if launch.when is not None and not runs(launch.group, launch.when):
            continue
        if any(runs(launch.group, condition) for condition in launch.unless):
            continue
        guards: list[Array] = []
        for value in launch.buffers:
            if value not in memory:
                raw = np.full(evaluate(value.type.size, env) * value.dtype.itemsize + 2 * _GUARD, 0xAB, np.uint8)
                guards += [raw[:_GUARD], raw[len(raw) - _GUARD :]]
                inside = raw[_GUARD : len(raw) - _GUARD].view(value.dtype.np)
                memory[value] = inside.reshape([evaluate(d, env) for d in value.shape])
        variant = _chosen(launch, env, deferred=deferred)
        text, dims = compiled.texts[variant], [evaluate(dim, env) for dim in variant.dims]
        shared = evaluate(text.scratch_bytes, dict(zip(variant.kernel.dims, dims, strict=True)))
        assert shared <= (schedules_of(compiled.program.target).limits(compiled.program.target).scratch_bytes or 0)
        module.run(text.symbol, [memory[v] for v in launch.buffers], dims, grid, text.threads, shared, seed)
        assert all((guard == 0xAB).all() for guard in guards), (
            f"stored out of bounds at {env}\n{kernel_text(variant.kernel)}\n{print_function(function)}"
        )
    return [memory.get(value) for value in function.results]


def _chosen(launch: Launch, env: Mapping[Symbol, int], *, deferred: bool) -> Variant:
    for variant in launch.variants:
        if variant.deferred and not deferred:
            continue
        if variant.condition is None or holds(variant.condition, env):
            return variant
    raise AssertionError(f"no variant of {launch.group.name} fits {env}")


def holds(condition: Condition, env: Mapping[Symbol, int]) -> bool:
    size = evaluate(condition.dim, env)
    return condition.low <= size and (condition.high is None or size <= condition.high)


def drawn(count: int, strategy: Callable[[], SearchStrategy[Program]] = programs) -> list[Program]:
    """The same random programs each time: they share a translation unit, so they cannot be drawn one by one."""
    found: list[Program] = []

    @hypothesis.seed(1)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        phases=(hypothesis.Phase.generate,),
        suppress_health_check=(hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large),
    )
    @hypothesis.given(strategy())
    def collect(program: Program) -> None:
        found.append(program)

    collect()
    return found


def compare_programs(found: Sequence[Program], target: Target, compiler: Callable[[Program, str], Compiled]) -> int:
    """Compare programs with the reference, compiled under names of their own; how many comparisons there were."""
    subjects = [(program, compiler(program, f"p{number}")) for number, program in enumerate(found)]
    compared = 0
    texts = [text for _, compiled in subjects for text in compiled.kernels()]
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
                    assert agree(result, value, 0.0 if program.exact else error), (
                        f"{env}\n{print_function(program.function)}"
                    )
            compared += 1
    return compared
