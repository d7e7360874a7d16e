"""Programs traced and stitched by the compiler, as CUDA and HIP: golden text, compiled, and run by the shim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dyn
from dyn.backends.reference import bind_symbols, run_reference
from dyn.compilation_record import CompilationRecord
from dyn.lower.gpu.dialect import CUDA, HIP
from dyn.lower.gpu.emit import GpuKernelText, emit_kernel
from dyn.pipeline import optimize
from dyn.schedule.launch import Variant
from dyn.schedule.target import Target
from dyn.shapes import evaluate
from tests.lower.gpu_programs import compile_function
from tests.shim.run import ShimModule

TARGETS = {"cuda": Target("cuda", "sm_90a", warp=32), "hip": Target("rocm", "gfx90a", warp=64)}


def softmax(x):
    return dyn.nn.softmax(x, axis=-1)


def bias_gelu(x, bias):
    return dyn.nn.gelu(x + bias, approximate=False)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "softmax": (softmax, (dyn.ShapeDtypeStruct(("m", "n"), "float32"),)),
    "bias_gelu": (
        bias_gelu,
        (dyn.ShapeDtypeStruct(("m", "n"), "float32"), dyn.ShapeDtypeStruct(("n",), "float32")),
    ),
}


def compiled(name: str, target: Target) -> dict[Variant, GpuKernelText]:
    """The kernels that a program becomes on a target."""
    function, arguments = PROGRAMS[name]
    return compile_function(dyn.jit(function).trace(*arguments).traced.function, target, name).texts


@pytest.mark.parametrize("dialect", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_golden_text(name: str, dialect: str, golden: Any) -> None:
    texts = [f"// {v.note}: {v.when()}\n{text.text}" for v, text in compiled(name, TARGETS[dialect]).items()]
    golden(f"compiled_{name}.{dialect}.cpp", "\n".join(texts))


def test_complex_numbers_run_on_gpus_too(require_tool: Any) -> None:
    """Parts are read and written between each other; kernels see real numbers only."""
    require_tool("g++")

    def program(x, y):
        return x * y / (1 + x), dyn.numpy.exp(x) + dyn.numpy.conj(y)

    struct = dyn.ShapeDtypeStruct(("n",), "complex64")
    for target, dialect in ((TARGETS["cuda"], CUDA), (TARGETS["hip"], HIP)):
        optimized = optimize(dyn.jit(program).trace(struct, struct).traced, target, CompilationRecord())
        kernels = [(launch, launch.variants[-1]) for launch in optimized.launches]
        texts = [emit_kernel(replace(v.kernel, name=f"z{i}"), target) for i, (_, v) in enumerate(kernels)]
        module = ShimModule(texts, dialect, warp=target.warp)
        rng = np.random.default_rng(0)
        for n in (0, 1, 2, 7, 64, 1000):
            inputs = [(rng.standard_normal(n) + 1j * rng.standard_normal(n)).astype(np.complex64) for _ in "xy"]
            memory = dict(zip(optimized.function.params, inputs, strict=True))
            memory |= {v: np.empty(n, v.dtype.np) for launch, _ in kernels for v in launch.buffers if v not in memory}
            env = bind_symbols(optimized.function, inputs)
            for (launch, variant), text in zip(kernels, texts, strict=True):
                dims = [evaluate(d, env) for d in variant.dims]
                module.run(text.symbol, [memory[v] for v in launch.buffers], dims, 3, text.threads, 0, 1)
            for value, wanted in zip(
                optimized.function.results, run_reference(optimized.function, inputs), strict=True
            ):
                np.testing.assert_allclose(memory[value], wanted, rtol=1e-5, atol=1e-6)
