"""``dyn.devices()``: the processor, and GPUs as their drivers show them; made-up drivers stand in for real ones."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import dyn
from dyn.backends.devices import Device, _cpu_name, _memory, cuda_devices, rocm_devices
from dyn.runtime.driver import NoDriverError, driver_devices

DRIVER = r"""
#include <stddef.h>
#include <string.h>
extern "C" {
int cuInit(unsigned flags) { return INIT; }
int cuDriverGetVersion(int* v) { *v = 13010; return 0; }
int cuDeviceGetCount(int* n) { *n = 2; return 0; }
int cuDeviceGet(int* d, int i) { *d = i + 40; return 0; }
int cuDeviceGetName(char* name, int size, int d) { strncpy(name, d == 40 ? "Big GPU" : "Small GPU", size); return 0; }
int cuDeviceTotalMem_v2(size_t* bytes, int d) { *bytes = (size_t)(d == 40 ? 80 : 8) << 30; return 0; }
int cuDeviceGetAttribute(int* value, int what, int d) {
  *value = what == 16 ? (d == 40 ? 132 : 20) : what == 75 ? (d == 40 ? 9 : 8) : what == 76 ? (d == 40 ? 0 : 6) : -1;
  return *value < 0;
}
}
"""


@pytest.fixture
def driver(tmp_path: Path, require_tool: Callable[..., str]) -> Callable[[int], str]:
    """A driver with two GPUs, whose cuInit answers as told."""

    def make(status: int) -> str:
        source, library = tmp_path / "driver.cc", tmp_path / f"libcuda{status}.so"
        source.write_text(DRIVER, encoding="ascii")
        gxx = require_tool("g++", "c++")
        subprocess.run([gxx, "-shared", "-fPIC", f"-DINIT={status}", source, "-o", library], check=True)
        return str(library)

    return make


def test_the_processor_is_the_first_device() -> None:
    cpu = dyn.devices()[0]
    assert isinstance(cpu, dyn.Device)
    assert (cpu.kind, cpu.id, str(cpu)) == ("cpu", 0, "cpu")
    assert cpu.target.startswith("x86:")
    assert cpu.vector_bits in (128, 256, 512)
    assert cpu.cores == len(os.sched_getaffinity(0))
    assert cpu.memory > 1 << 28


def test_a_device_describes_itself() -> None:
    cpu = Device("cpu", 0, "A Processor", "x86:znver5", 1, 3 << 29, 512)
    assert cpu.describe() == "A Processor: x86:znver5, 512-bit vectors, 1 core, 1.5 GiB"
    gpu = Device("cuda", 1, "A GPU", "cuda:sm_90a", 132, 80 << 30)
    assert (str(gpu), gpu.describe()) == ("cuda:1", "A GPU: cuda:sm_90a, 132 multiprocessors, 80.0 GiB")


def test_gpus_by_the_cuda_driver(driver: Callable[[int], str]) -> None:
    library = driver(0)
    version, _ = driver_devices("cuda", library)
    assert version == "13.1"
    assert cuda_devices(library) == [
        Device("cuda", 0, "Big GPU", "cuda:sm_90a", 132, 80 << 30),
        Device("cuda", 1, "Small GPU", "cuda:sm_86", 20, 8 << 30),
    ]


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (100, "it finds no GPU (CUDA_ERROR_NO_DEVICE)"),
        (999, "the GPU does not answer (CUDA_ERROR_UNKNOWN)"),
        (7, "cuInit answers 7"),
    ],
)
def test_a_driver_that_fails_says_how(driver: Callable[[int], str], status: int, problem: str) -> None:
    library = driver(status)
    with pytest.raises(NoDriverError) as caught:
        driver_devices("cuda", library)
    assert str(caught.value) == f"NVIDIA's driver is installed, and {problem}"
    assert cuda_devices(library) == []


def test_no_driver_is_no_gpu() -> None:
    with pytest.raises(NoDriverError) as caught:
        driver_devices("cuda", "libnosuch.so.1")
    assert str(caught.value) == "NVIDIA's driver is not installed (libnosuch.so.1 is not there)"
    assert cuda_devices("libnosuch.so.1") == []


def test_amd_gpus_by_the_kernel_driver(tmp_path: Path) -> None:
    nodes = {
        "0": "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\n",
        "1": "simd_count 416\nsimd_per_cu 4\ngfx_target_version 90010\n",
        "10": "simd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\nunique_id xyz\n",
        "2": "simd_count 72\nsimd_per_cu 2\ngfx_target_version 100300\n",
    }
    for name, text in nodes.items():
        (tmp_path / name / "mem_banks" / "0").mkdir(parents=True)
        (tmp_path / name / "properties").write_text(text, encoding="ascii")
        (tmp_path / name / "mem_banks" / "0" / "properties").write_text("size_in_bytes 1024\n", encoding="ascii")
    assert rocm_devices(tmp_path) == [
        Device("rocm", 0, "AMD gfx90a", "rocm:gfx90a", 104, 1024),
        Device("rocm", 1, "AMD gfx1030", "rocm:gfx1030", 36, 1024),
        Device("rocm", 2, "AMD gfx942", "rocm:gfx942", 304, 1024),
    ]
    assert rocm_devices(tmp_path / "absent") == []


def test_names_and_memory_come_from_the_system(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor : 0\nmodel name\t: Some CPU @ 2 GHz  \nmodel name\t: other\n", encoding="ascii")
    assert _cpu_name(info) == "Some CPU @ 2 GHz"
    assert _cpu_name(tmp_path / "absent") == "x86-64 processor"
    whole = _memory(tmp_path)
    (tmp_path / "memory.max").write_text("max\n", encoding="ascii")
    assert _memory(tmp_path) == whole
    (tmp_path / "memory.max").write_text("1048576\n", encoding="ascii")
    assert _memory(tmp_path) == 1048576
