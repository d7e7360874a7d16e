"""Conversions of parameters on GPUs: which of them are computed where they are used, and which are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes, nn
from dyn.compilation_record import CompilationRecord
from dyn.lower.gpu.dialect import gpu_target
from dyn.pipeline import optimize
from dyn.schedule.target import Target

CUDA = gpu_target("cuda", "sm_90a")
X86 = Target("x86", "x86-64-v3", vector_bytes=32, registers=16)


def groups(function: Callable[..., Any], arguments: str, target: Target = CUDA) -> list[str]:
    """The kinds and names of a function's groups; ``arguments`` are dtypes with named dims."""
    structs = [dyn.ShapeDtypeStruct(tuple(dims), dtype) for dtype, *dims in map(str.split, arguments.split(", "))]
    plan = optimize(dyn.jit(function).trace(*structs).traced, target, CompilationRecord()).plan
    return [f"{group.kind.value} {group.name}" for group in plan.groups]


NORM = "bfloat16 n m, bfloat16 m, bfloat16 m"


def norm(x: Any, scale: Any, shift: Any) -> Any:
    return nn.layer_norm(x, weight=scale, bias=shift)


def test_the_weights_of_a_norm() -> None:
    assert groups(norm, NORM) == ["stitch reduce_add_convert"]
    assert groups(norm, NORM, X86) == ["loop convert", "loop convert", "stitch reduce_add_convert"]


@pytest.mark.parametrize("size", [4, 5000])
def test_weights_that_are_closed_over(size: int) -> None:
    weights = np.ones(size, dtypes.bfloat16.np)
    assert groups(lambda x: norm(x, weights, weights), "bfloat16 n m") == ["stitch reduce_add_convert"]


def wide(x: Any) -> Any:
    return x.astype("float32")


@pytest.mark.parametrize(
    ("function", "arguments", "found"),
    [
        (lambda x, s: x * wide(s), "float32 n m, float16 m", 1),
        (lambda x, s: x * wide(s), "float32 n m, int8 m", 1),
        (lambda x, s: x * wide(s) + wide(s), "float32 n m, bool m", 1),
        (lambda x, s: x * wide(s[1:]), "float32 n m, float16 k", 1),
        (lambda x, s: dnp.sum(x * wide(s), axis=1), "float32 n m, float16 m", 1),
        # A result; computed besides; 8-bit floats; a narrower result; read by a product; of no parameter.
        (lambda x, s: (x * wide(s), wide(s)), "float32 n m, float16 m", 2),
        (lambda x, s: x * dnp.exp(wide(s)), "float32 n m, float16 m", 2),
        (lambda x, s: x * wide(s), "float32 n m, float8_e4m3fn m", 2),
        (lambda x, s: x * wide(s), "float32 n m, float64 m", 2),
        (lambda x, s: (x * wide(s)) @ wide(s), "float32 n m, float16 m", 3),
        (lambda x, s: x * wide(dnp.sort(s)), "float32 n m, float16 m", 3),
    ],
)
def test_conversions(function: Callable[..., Any], arguments: str, found: int) -> None:
    assert len(groups(function, arguments)) == found


def test_in_the_body_of_a_loop() -> None:
    def steps(x: Any, s: Any) -> Any:
        return dyn.lax.fori_loop(0, 3, lambda _, x: norm(x, s, s), x)

    structs = [dyn.ShapeDtypeStruct(("n", "m"), "bfloat16"), dyn.ShapeDtypeStruct(("m",), "bfloat16")]
    plan = optimize(dyn.jit(steps).trace(*structs).traced, CUDA, CompilationRecord()).plan
    (loop,) = [group for group in plan.groups if group.bodies]
    assert not any(group.name == "convert" for body in loop.bodies for group in body.groups)


def test_with_nothing_declared() -> None:
    """Under the assumption that sizes agree, too."""
    structs = [dyn.ShapeDtypeStruct(("n", "m"), "bfloat16"), dyn.ShapeDtypeStruct(("k",), "bfloat16")]
    traced = dyn.jit(lambda x, s: norm(x, s, s)).trace(*structs).traced
    made = optimize(traced, CUDA, CompilationRecord())
    assert not any(group.name == "convert" for group in made.plan.groups)
    assert not any("loop convert" in variant.kernel.note for launch in made.launches for variant in launch.variants)
