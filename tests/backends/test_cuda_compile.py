"""CUDA text to machine code with NVRTC, which needs no GPU."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dyn import dtypes
from dyn.backends import gpu
from dyn.backends.base import Binary, GpuImage, KernelReport, LaunchShape, Source
from dyn.backends.cuda import CudaBackend, KernelResources, parse_resources
from dyn.backends.gpu import GpuBackend, reports
from dyn.errors import BackendUnavailableError, CompileError
from dyn.lower.gpu.dialect import gpu_target
from dyn.lower.gpu.emit import emit_kernel
from dyn.ops.scalar import Scalar
from dyn.runtime import driver
from dyn.runtime.driver import NoDriverError
from dyn.schedule.kernel import Apply, Buffer, Kernel, Load, Loop, Role, Store
from dyn.shapes import as_dim, symbol
from dyn.specialize.program import Program
from tests.lower import gpu_kernels


@pytest.fixture(autouse=True)
def nvrtc(require_module: Callable[[str], ModuleType]) -> None:
    require_module("cuda.bindings.nvrtc")


def source_for(arch: str) -> Source:
    """All test kernels in one translation unit."""
    target = gpu_target("cuda", arch)
    texts = [emit_kernel(kernel, target) for kernel in gpu_kernels.all_kernels()]
    return Source("".join([text.text for text in texts]), tuple([text.symbol for text in texts]))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_cubin(arch: str) -> None:
    source = source_for(arch)
    binary = CudaBackend(gpu_target("cuda", arch)).compile(source)
    assert binary.data.startswith(b"\x7fELF")
    assert binary.symbols == source.symbols
    assert "warning" not in binary.log
    resources = dict(binary.resources)
    assert resources.keys() == set(source.symbols)
    # As programs' kernels, those that spill to leave room for one more block of threads are compiled once more.
    backend = CudaBackend(gpu_target("cuda", arch))
    for name in [name for name, r in resources.items() if r.spill_store_bytes or r.spill_load_bytes]:
        (alone,) = [k for k in gpu_kernels.all_kernels() if k.name == name]
        more = backend.with_more_registers(Source(emit_kernel(alone, backend.target).text, (name,)))
        assert more is not None
        resources.update(backend.compile(more).resources)
    assert all(r.spill_store_bytes == r.spill_load_bytes == 0 for r in resources.values())
    assert all(r.shared_bytes == 0 for r in resources.values()), "shared memory is all dynamic, for the host to check"
    for group in ("softmax", "bias_gelu_tanh", "bias_gelu_erf"):
        assert 0 < resources[group].registers <= 40  # six blocks of 256 threads fit the 65,536 registers of an SM
        assert resources[group].stack_bytes == 0


#: The launch bounds leave open how many blocks should be on a multiprocessor.
OPEN = """extern "C" __global__ void __launch_bounds__(256) k(float* a, float* b, long long n, long long d,
                                                             long long e) {
    for (long long t = blockIdx.x; t < n; t += gridDim.x)
        for (long long i = threadIdx.x; i < e; i += 256) {
            const float x = a[t * d + i];
            b[t * d + i] = x / a[(t / d) * e + i % n];
        }
}
"""


def test_kernels_that_spill_are_given_more_registers() -> None:
    """Bounds that leave the number of blocks open are closed; those that name it, and what has none, stay."""
    backend = CudaBackend(gpu_target("cuda", "sm_90a"))
    told = backend.with_more_registers(Source(OPEN, ("k",)))
    assert told is not None
    assert told.text == OPEN.replace("__launch_bounds__(256)", "__launch_bounds__(256, 1)")
    assert told.symbols == ("k",)
    assert backend.with_more_registers(told) is None
    assert backend.with_more_registers(Source("int x;", ("k",))) is None


def test_programs_have_kernels_that_do_not_spill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that do are compiled once more, by themselves, and found again by the same keys."""
    target, texts = gpu_target("cuda", "sm_90a"), list[str]()
    backend = GpuBackend(CudaBackend(target))

    def compiled(self: CudaBackend, source: Source) -> GpuImage:
        texts.append(source.text)
        spilled = {name: 8 * (name == "k_spills" and ", 1)" not in source.text) for name in source.symbols}
        return GpuImage(b"", "", {name: KernelReport(32, spilled[name], 0, 0) for name in source.symbols})

    monkeypatch.setattr(CudaBackend, "compile_kernels", compiled)
    monkeypatch.setattr(gpu, "workers", lambda: 1)
    sources = [
        Source(OPEN.replace(" k(", f" {name}("), (name,), launch=LaunchShape(256, 2, 3))
        for name in ("k_spills", "k_plain")
    ]
    built = backend.build_all(sources)
    assert [reports(one.binary)[s.symbols[0]].spilled_bytes for one, s in zip(built, sources, strict=True)] == [0, 0]
    # The module of the other one has a report of the kernel that spilled there, and runs from another one.
    program: Any = SimpleNamespace(placement=SimpleNamespace(on_device=True), sources=lambda: sources, _backend=backend)
    assert {name: one.spilled_bytes for name, one in Program.kernel_reports(program).items()} == {
        "k_spills": 0, "k_plain": 0
    }  # fmt: skip
    assert [text.count("__global__") for text in texts] == [2, 1]
    found = GpuBackend(CudaBackend(target)).find_all([(backend.key(s), s.symbols) for s in sources])
    assert found is not None
    assert [one.binary.data for one in found] == [one.binary.data for one in built]
    assert len(texts) == 2


def test_an_empty_log_is_written_to_memory_of_its_own() -> None:
    """A log of one byte had been written into the object that Python has for all bytes of a space."""
    binary = CudaBackend(gpu_target("cuda", "compute_80")).compile(source_for("compute_80"))
    assert not binary.log
    assert bytes([32]) + bytes([0]) == b"\x20\x00"


def test_ptx_keeps_the_operations_apart() -> None:
    kernel = gpu_kernels.column_sum()
    scaled = emit_kernel(kernel, gpu_target("cuda", "compute_80")).text.replace("r0 = r0 + v0", "r0 = r0 + v0 * v0")
    binary = CudaBackend(gpu_target("cuda", "compute_80")).compile(Source(scaled, (kernel.name,)))
    text = binary.data.decode()
    assert text == binary.ptx
    assert ".target sm_80" in text
    assert ".visible .entry column_sum(" in text
    assert "mul.f32" in text.replace(".rn", "")
    assert "fma" not in text
    assert binary.resources == ()


@pytest.mark.parametrize(("arch", "has"), [("sm_75", False), ("sm_80", True), ("sm_120", True)])
def test_instructions_of_newer_devices(arch: str, *, has: bool) -> None:
    """Rounding to bfloat16, and the greater of two floats of which NaN wins."""
    target, n, i = gpu_target("cuda", arch), symbol("n"), symbol("i")
    x, y, z = Buffer("x", dtypes.float32), Buffer("y", dtypes.bfloat16), Buffer("z", dtypes.float64)
    most = Apply(Scalar.MAX, (Load(x, as_dim(i)), Load(x, as_dim(i) + 1)), dtypes.float32)
    least = Apply(Scalar.MIN, (Load(z, as_dim(i)), Load(z, as_dim(i) + 1)), dtypes.float64)
    values = (Apply(Scalar.CAST, (value,), dtypes.bfloat16) for value in (most, least))
    stores = tuple([Store(y, as_dim(i) * 2 + number, value) for number, value in enumerate(values)])
    kernel = Kernel("k", (x, z, y), (n,), (), (Loop(Role.LANE, i, as_dim(n), stores),))
    text = emit_kernel(kernel, target)
    ptx = CudaBackend(target).compile(Source(text.text, (text.symbol,))).ptx
    assert [word in ptx for word in ("max.NaN.f32", "cvt.rn.bf16.f32")] == [has, has]
    assert "min.NaN" not in ptx


def test_a_refused_text() -> None:
    with pytest.raises(CompileError) as caught:
        CudaBackend(gpu_target("cuda", "sm_80")).compile(
            Source('extern "C" __global__ void k(int* x) { *x = y; }', ("k",))
        )
    assert str(caught.value) == (
        "NVRTC refused the text of k for cuda:sm_80: NVRTC_ERROR_COMPILATION.\n"
        '  dyn.cu(1): error: identifier "y" is undefined\n'
        '    extern "C" __global__ void k(int* x) { *x = y; }\n'
        "                                                ^\n"
        "  \n"
        '  1 error detected in the compilation of "dyn.cu".\n'
        "  help: this is a bug in dyn; please report it with the text above."
    )


@pytest.mark.parametrize("arch", ["sm_30", "sm_200", "compute_20", "sm_9"])
def test_an_architecture_that_nvrtc_does_not_know(arch: str) -> None:
    with pytest.raises(CompileError) as caught:
        CudaBackend(gpu_target("cuda", arch)).compile(Source('extern "C" __global__ void k() {}', ("k",)))
    told = str(caught.value)
    assert re.match(rf"NVRTC 1\d\.\d+ does not compile for cuda:{arch}\.\n", told)
    assert "help: use one that it knows, sm_75, sm_80, " in told
    assert "a newer GPU runs compute_121, whose PTX its driver assembles." in told


def test_what_ptxas_says() -> None:
    log = """\
ptxas info    : Compiling entry function 'a' for 'sm_90a'
ptxas info    : Function properties for a
ptxas         .     32 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem
ptxas info    : Compiling entry function 'b' for 'sm_90a'
ptxas info    : Used 12 registers"""
    assert parse_resources(log) == (("a", KernelResources(40, 32, 4, 8, 1024)), ("b", KernelResources(12, 0, 0, 0, 0)))


# ---- machines that lack something --------------------------------------------------------------------------------


def replace_module(monkeypatch: pytest.MonkeyPatch, name: str, error: Exception) -> None:
    real = importlib.import_module

    def load(module: str, *args: Any) -> ModuleType:
        if module == name:
            raise error
        return real(module, *args)

    monkeypatch.setattr(importlib, "import_module", load)


def no_driver(family: str) -> None:
    raise NoDriverError("NVIDIA's driver is not installed (libcuda.so.1 is not there)")


def test_without_cuda_python(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_module(monkeypatch, "cuda.bindings.nvrtc", ModuleNotFoundError("No module named 'cuda'"))
    backend = CudaBackend(gpu_target("cuda", "sm_80"))
    assert backend.unavailable() == "cuda-python is not installed (No module named 'cuda')"
    with pytest.raises(BackendUnavailableError) as caught:
        backend.compile(Source("", ()))
    assert str(caught.value) == (
        "cuda:sm_80 cannot be compiled for: cuda-python is not installed (No module named 'cuda').\n"
        "  help: pip install cuda-python==13.4.4 nvidia-cuda-crt==13.0.88 nvidia-cuda-nvrtc==13.0.88 "
        "nvidia-cuda-runtime==13.0.96 (cuda-python and NVRTC 13.0; no GPU is needed to compile)."
    )


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = CudaBackend(gpu_target("cuda", "sm_80"))
    assert backend.unavailable() is None
    monkeypatch.setattr(driver, "driver_of", no_driver)
    with pytest.raises(BackendUnavailableError) as caught:
        backend.load(Binary(b"", ()))
    assert str(caught.value) == (
        "cuda programs cannot be run here: NVIDIA's driver is not installed (libcuda.so.1 is not there).\n"
        "  help: install NVIDIA's driver (libcuda.so.1), or run on a machine with a GPU; compiling needs neither."
    )
