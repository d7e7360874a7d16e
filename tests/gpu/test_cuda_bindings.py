"""The real ``cuda.bindings`` on the software GPU, which it finds as libcuda.so.1."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dyn
from dyn.backends.base import Source
from dyn.schedule.target import Target
from tests.gpu.compilers import SoftwareCudaBackend
from tests.gpu.software import SoftwareGpu, environment

ROOT = Path(__file__).resolve().parents[2]
TWICE = """
extern "C" __global__ void __launch_bounds__(64) twice(const float* x, float* y, long long n) {
    for (long long i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) y[i] = 2 * x[i];
}
"""


def ok(result: tuple[Any, ...]) -> Any:
    status, *values = result
    assert int(status) == 0, status
    return values[0] if len(values) == 1 else values


@pytest.fixture
def cuda(software_cuda: SoftwareGpu) -> Any:
    """The module ``cuda.bindings.driver``, with a context."""
    driver = import_module("cuda.bindings.driver")
    ok(driver.cuInit(0))
    ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(ok(driver.cuDeviceGet(0))))))
    return driver


def test_launch(cuda: Any, software_cuda: SoftwareGpu) -> None:
    binary = SoftwareCudaBackend(Target("cuda", "sm_90a", warp=32)).compile(Source(TWICE, ("twice",)))
    module = ok(cuda.cuModuleLoadData(binary.data))
    function = ok(cuda.cuModuleGetFunction(module, b"twice"))
    stream, x = ok(cuda.cuStreamCreate(1)), np.arange(1000, dtype=np.float32)
    y = np.zeros_like(x)
    given, made = [ok(cuda.cuMemAllocAsync(x.nbytes, stream)) for _ in range(2)]
    ok(cuda.cuMemcpyHtoDAsync(given, x.ctypes.data, x.nbytes, stream))
    arguments = (int(given), int(made), 1000), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong)
    ok(cuda.cuLaunchKernel(function, 3, 1, 1, 64, 1, 1, 0, stream, arguments, 0))
    ok(cuda.cuMemcpyDtoHAsync(y.ctypes.data, made, y.nbytes, stream))
    ok(cuda.cuStreamSynchronize(stream))
    np.testing.assert_array_equal(y, 2 * x)
    for pointer in (given, made):
        ok(cuda.cuMemFreeAsync(pointer, stream))
    ok(cuda.cuStreamDestroy(stream))
    ok(cuda.cuModuleUnload(module))


def test_products_own_loader(cuda: Any) -> None:
    backend = SoftwareCudaBackend(Target("cuda", "sm_90a", warp=32))
    assert backend.load(backend.compile(Source(TWICE, ("twice",)))).address("twice")


def test_devices(cuda: Any) -> None:
    assert [f"{d}: {d.target}" for d in dyn.devices()[1:3]] == ["cuda: cuda:sm_90a", "cuda:1: cuda:sm_90a"]


def test_another_process_finds_the_driver() -> None:
    program = "import dyn; print([f'{d}: {d.target}' for d in dyn.devices() if d.kind == 'cuda'])"
    variables = os.environ | environment("cuda", devices=2, arch=0x80)
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "['cuda: cuda:sm_80', 'cuda:1: cuda:sm_80']\n"
