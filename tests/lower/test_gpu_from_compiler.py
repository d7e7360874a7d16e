"""Programs traced and stitched by the compiler, as CUDA and HIP: golden text, compiled, and run by the shim."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dyn
from dyn.backends.base import Source
from dyn.backends.cuda import CudaBackend
from dyn.backends.reference import bind_symbols, run_reference
from dyn.backends.rocm import RocmBackend
from dyn.lower.gpu.dialect import CUDA, HIP
from dyn.lower.gpu.emit import KernelText, emit_kernel
from dyn.pipeline import Optimized, optimize
from dyn.record import Record
from dyn.schedule.launch import Variant
from dyn.schedule.target import Target
from dyn.shapes import evaluate, substitute
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


def compiled(name: str, target: Target) -> tuple[Optimized, Variant, KernelText]:
    """The one kernel that a program becomes on a target."""
    function, arguments = PROGRAMS[name]
    optimized = optimize(dyn.jit(function).trace(*arguments).traced, target, Record())
    (launch,) = optimized.launches
    (variant,) = launch.variants
    return optimized, variant, emit_kernel(replace(variant.kernel, name=name), target)


@pytest.mark.parametrize("dialect", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_golden_text(name: str, dialect: str, golden: Any) -> None:
    golden(f"compiled_{name}.{dialect}.cpp", compiled(name, TARGETS[dialect])[2].text)


def test_nvrtc_compiles_them(require_module: Any) -> None:
    require_module("cuda.bindings.nvrtc")
    for name in PROGRAMS:
        text = compiled(name, TARGETS["cuda"])[2]
        assert CudaBackend(TARGETS["cuda"]).compile(Source(text.text, (text.symbol,))).data


def test_hipcc_compiles_them(require_tool: Any) -> None:
    require_tool("hipcc")
    texts = [compiled(name, TARGETS["hip"])[2] for name in PROGRAMS]
    source = Source("\n".join(t.text for t in texts), tuple(t.symbol for t in texts))
    assert RocmBackend(TARGETS["hip"]).compile(source).data[:4] == b"\x7fELF"


@pytest.mark.parametrize("dialect", TARGETS)
def test_the_shim_runs_them_like_the_oracle(dialect: str, require_tool: Any) -> None:
    require_tool("g++")
    target = TARGETS[dialect]
    programs = {name: compiled(name, target) for name in PROGRAMS}
    texts = [text for _, _, text in programs.values()]
    module = ShimModule(texts, CUDA if dialect == "cuda" else HIP, warp=target.warp)
    rng = np.random.default_rng(0)
    for m, n in [(0, 5), (1, 1), (2, 0), (3, 7), (2, 64), (5, 33), (2, 1000)]:
        for name, (optimized, variant, text) in programs.items():
            shapes = [(m, n)] if name == "softmax" else [(m, n), (n,)]
            inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
            env = bind_symbols(optimized.function, inputs)
            dims = [evaluate(d, env) for d in variant.dims]
            bound = dict(zip(variant.kernel.dims, variant.dims, strict=True))
            shared = evaluate(substitute(text.shared_bytes, bound), env)
            (expected,) = run_reference(optimized.function, inputs)
            output = np.full((m, n), np.nan, np.float32)
            by_value = dict(zip(optimized.function.params, inputs, strict=True))
            arrays = [by_value.get(value, output) for value in optimized.launches[0].buffers]
            for seed in (0, 7):
                module.run(text.symbol, arrays, dims, 3, text.block, shared, seed)
                np.testing.assert_allclose(output, expected, rtol=2e-6, atol=2e-7)


def test_complex_numbers_run_on_gpus_too(require_tool: Any) -> None:
    """Parts are read and written between each other; kernels see real numbers only."""
    require_tool("g++")

    def program(x, y):
        return x * y / (1 + x), dyn.numpy.exp(x) + dyn.numpy.conj(y)

    struct = dyn.ShapeDtypeStruct(("n",), "complex64")
    for target, dialect in ((TARGETS["cuda"], CUDA), (TARGETS["hip"], HIP)):
        optimized = optimize(dyn.jit(program).trace(struct, struct).traced, target, Record())
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
                module.run(text.symbol, [memory[v] for v in launch.buffers], dims, 3, text.block, 0, 1)
            for value, wanted in zip(
                optimized.function.results, run_reference(optimized.function, inputs), strict=True
            ):
                np.testing.assert_allclose(memory[value], wanted, rtol=1e-5, atol=1e-6)
