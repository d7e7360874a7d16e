"""Random products of narrow dtypes with prologues and epilogues, by units and without: every bit is the reference's, on
levels of x86 and on both dialects of GPUs."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis
import pytest
from hypothesis import given

from dyn.backends.x86 import X86Backend, target_for
from dyn.compilation_record import CompilationRecord
from dyn.ops.scalar import Scalar
from dyn.pipeline import optimize
from dyn.schedule.kernel import Apply, TileContract
from dyn.schedule.kernel_walks import walk_exprs, walk_stmts
from dyn.schedule.launch import Variant
from dyn.schedule.target import Target
from dyn.trace.function import TracedFunction
from tests.lower.gpu_programs import TARGETS, compare_programs, compile_function, drawn
from tests.lower.x86_run import runnable
from tests.stitch.programs import Program, products
from tests.stitch.test_random_programs import CHECKS, run_program

BACKENDS = [X86Backend(target) for target in runnable()]


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: str(backend.target))
def test_products_on_x86(backend: X86Backend) -> None:
    @hypothesis.settings(max_examples=40, suppress_health_check=CHECKS)
    @given(products())
    def check(program: Program) -> None:
        run_program(program, backend)

    check()


@pytest.mark.parametrize("target", TARGETS.values(), ids=str)
def test_products_on_gpus(target: Target, require_tool: Callable[..., str]) -> None:
    require_tool("g++")
    found = drawn(24, products)
    assert compare_programs(found, target, lambda one, name: compile_function(one.function, target, name)) >= 100


def test_units_and_prologues_are_drawn() -> None:
    """What the tests above run: each unit of this family, and operands that are computed where they are read."""
    target = target_for("znver4", "+avx512f,+avx512dq,+avx512bw,+avx512vl,+avx512vnni,+avx512bf16,+avx2,+fma,+f16c")
    tiles = [
        stmt
        for program in drawn(120, products)
        for variant in compiled_variants(program, target)
        for stmt in walk_stmts(variant.kernel.body)
        if isinstance(stmt, TileContract)
    ]
    assert {tile.tile.unit for tile in tiles} == {"", "vpdpbusd", "vpmaddwd", "vdpbf16ps"}
    functions = {one.fn for tile in tiles for one in walk_exprs((tile.rhs,)) if isinstance(one, Apply)}
    assert {Scalar.CAST, Scalar.MUL, Scalar.SUB} <= functions


def compiled_variants(program: Program, target: Target) -> list[Variant]:
    """The variants of a program's launches."""
    traced = TracedFunction(program.function, (), (), None)  # pyright: ignore[reportArgumentType]  # no tree is asked for
    launches = optimize(traced, target, CompilationRecord()).launches
    return [variant for launch in launches for variant in launch.variants]
