"""C++ for CUDA and HIP at all edges of integers, run on the CPU by the shim."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import pytest

from dyn.dtypes import DType
from dyn.lower.gpu.dialect import dialect_of, gpu_target
from dyn.lower.gpu.emit import emit_kernel
from dyn.schedule.kernel import Role
from dyn.schedule.kernel_verifier import check
from dyn.shapes import evaluate
from tests.integers import kernels
from tests.integers.edges import FLOATS, INTEGERS, Array
from tests.integers.kernels import Run
from tests.shim.run import ShimModule

TARGETS = {"cuda": ("cuda", "sm_90a"), "hip": ("rocm", "gfx90a")}


@lru_cache
def _machine(name: str) -> Run:
    target = gpu_target(*TARGETS[name])
    found = {kernel.name: (kernel, emit_kernel(kernel, target)) for kernel in kernels.every_kernel((Role.LANE,))}
    for kernel, _ in found.values():
        check(kernel)
    module = ShimModule([text for _, text in found.values()], dialect_of(target), target.warp)

    def run(name: str, buffers: list[Array], dims: list[int]) -> None:
        kernel, text = found[name]
        shared = evaluate(text.scratch_bytes, dict(zip(kernel.dims, dims, strict=True)))
        module.run(text.symbol, buffers, dims, 1, text.threads, shared)

    return run


@pytest.fixture(params=TARGETS)
def run(request: pytest.FixtureRequest, require_tool: Callable[..., str]) -> Run:
    require_tool("g++")
    return _machine(request.param)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_ops(run: Run, dtype: DType) -> None:
    kernels.check_ops(run, dtype, Role.LANE)


@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS], ids=str)
def test_conversions(run: Run, source: DType) -> None:
    kernels.check_casts(run, source, Role.LANE)


def test_computed_indices(run: Run) -> None:
    kernels.check_computed(run, Role.LANE)


def test_indices(run: Run) -> None:
    kernels.check_uniform(run)


def test_vectors_of_indices(run: Run) -> None:
    kernels.check_varying(run)
