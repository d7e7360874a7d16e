"""HIP text to code objects with hipcc, which needs no GPU, and what a code object says of itself."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dyn.backends import rocm
from dyn.backends.base import Binary, Source
from dyn.backends.hsaco import _MessagePackReader, read_kernels
from dyn.backends.rocm import RocmBackend, hipcc_architectures
from dyn.errors import ArtifactError, BackendUnavailableError, CompileError
from dyn.lower.gpu.dialect import gpu_target
from dyn.lower.gpu.emit import emit_kernel
from dyn.runtime import driver
from dyn.runtime.driver import NoDriverError
from tests.lower import gpu_kernels

#: Larger than any kernel that the compiler makes; their scalar registers spill, into vector ones.
HUGE = {"reductions", "scalars_f32", "scalars_f64"}


@pytest.mark.parametrize("arch", ["gfx90a", "gfx1030", "gfx1100"])
def test_code_object(arch: str, require_tool: Callable[..., str]) -> None:
    require_tool("hipcc")
    target = gpu_target("rocm", arch)
    kernels = gpu_kernels.all_kernels()
    texts = [emit_kernel(kernel, target) for kernel in kernels]
    source = Source("".join([text.text for text in texts]), tuple([text.symbol for text in texts]))
    binary = RocmBackend(target).compile(source)
    assert binary.data.startswith(b"\x7fELF")
    assert binary.log == ""
    assert tuple([found.name for found in binary.kernels]) == source.symbols
    for kernel, found in zip(kernels, binary.kernels, strict=True):
        assert found.kernarg_bytes == 8 * (len(kernel.buffers) + len(kernel.dims))
        assert found.wavefront == target.warp
        assert found.lds_bytes == 0, "shared memory is all dynamic, for the host to check"
        assert found.vgpr_spills == 0
        assert found.private_bytes == 0
        if kernel.name not in HUGE:
            assert found.sgpr_spills == 0
        if kernel.name in ("softmax", "bias_gelu_tanh", "bias_gelu_erf"):
            assert 0 < found.vgprs <= 64  # eight wavefronts a SIMD at least
            assert 0 < found.sgprs <= 104


def test_a_refused_text(require_tool: Callable[..., str]) -> None:
    require_tool("hipcc")
    with pytest.raises(CompileError) as caught:
        RocmBackend(gpu_target("rocm", "gfx90a")).compile(Source("int x = y;\n", ("k",)))
    assert str(caught.value) == (
        "hipcc refused the text of k for rocm:gfx90a.\n"
        "  dyn.hip.cpp:1:9: error: use of undeclared identifier 'y'\n"
        "  int x = y;\n"
        "          ^\n"
        "  1 error generated when compiling for gfx90a.\n"
        "  help: where it misses a bitcode library, this hipcc is too old for the architecture; otherwise this is a "
        "bug in dyn: please report it with the text above."
    )


def test_an_architecture_that_hipcc_does_not_know(require_tool: Callable[..., str]) -> None:
    require_tool("hipcc")
    with pytest.raises(CompileError) as caught:
        RocmBackend(gpu_target("rocm", "gfx9999")).compile(Source("int x;\n", ("k",)))
    assert str(caught.value).startswith("hipcc does not compile for rocm:gfx9999.\n  clang: error: invalid target ID")
    assert "help: see that the name is right; for an architecture that is newer" in str(caught.value)


def test_an_error_names_what_hipcc_knows(require_tool: Callable[..., str]) -> None:
    require_tool("hipcc")
    known = hipcc_architectures()
    assert {"gfx906", "gfx90a", "gfx1030"} <= set(known)
    with pytest.raises(CompileError) as caught:
        RocmBackend(gpu_target("rocm", "gfx9999")).compile(Source("int x;\n", ("k",)))
    assert str(caught.value).endswith(f"install a newer ROCm. It knows {', '.join(known)}.")


def test_libraries_that_cannot_be_made(require_tool: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Then clang's own words are told."""
    require_tool("hipcc")
    monkeypatch.setattr(rocm, "complete_libraries", lambda *arguments: False)
    monkeypatch.setattr(rocm, "_command", lambda arch, text, result: ["sh", "-c", f"echo '{_COMPLAINT}' >&2; exit 1"])
    with pytest.raises(CompileError) as caught:
        RocmBackend(gpu_target("rocm", "gfx1100")).compile(Source("int x;\n", ("k",)))
    assert str(caught.value).splitlines()[:2] == ["hipcc refused the text of k for rocm:gfx1100.", f"  {_COMPLAINT}"]


_COMPLAINT = "clang: error: cannot find ROCm device library for gfx1100; provide its path"


def test_static_shared_memory_shows(require_tool: Callable[..., str]) -> None:
    require_tool("hipcc")
    text = """#include <hip/hip_runtime.h>
    extern "C" __global__ void __launch_bounds__(64) k(float* x) {
        __shared__ float s[96];
        s[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = s[63 - threadIdx.x];
    }"""
    (found,) = RocmBackend(gpu_target("rocm", "gfx90a")).compile(Source(text, ("k",))).kernels
    assert (found.name, found.lds_bytes, found.kernarg_bytes) == ("k", 4 * 96, 8)


def test_the_command_line() -> None:
    command = RocmBackend(gpu_target("rocm", "gfx90a")).command(Path("a.hip.cpp"), Path("a.hsaco"))
    assert " ".join(command) == (
        "env HIP_PLATFORM=amd hipcc --genco --no-gpu-bundle-output -O3 -std=c++17 -ffp-contract=off "
        "--offload-arch=gfx90a a.hip.cpp -o a.hsaco"
    )


# ---- the reader ----------------------------------------------------------------------------------------------------


def test_message_pack() -> None:
    data = bytes.fromhex(
        "de0001" "a161" "dc000b"  # {"a": [
        "7f" "e0" "ccff" "cd0102" "ce00010000" "cf0000000100000000" "d080" "d1ff00" "c0" "c2" "d901" "62"  # …, "b"]}
    )  # fmt: skip
    assert _MessagePackReader(data).value() == {"a": [127, -32, 255, 258, 65536, 2**32, -128, -256, None, False, "b"]}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "this is not a 64-bit ELF file; an AMD code object is one."),
        (b"\x7fELF\x02" + bytes(59), "this ELF file has no AMDGPU metadata; hipcc --genco writes it."),
        (b"\x7fELF\x02" + bytes(5), "these 10 bytes are not an AMD code object (error('unpack_from requires a buffer "
         "of at least 40 bytes for unpacking 8 bytes at offset 32 (actual buffer size is 10)'))."),
    ],
)  # fmt: skip
def test_what_is_not_a_code_object(data: bytes, problem: str) -> None:
    with pytest.raises(ArtifactError) as caught:
        read_kernels(data)
    assert str(caught.value) == problem


# ---- machines that lack something ------------------------------------------------------------------------------------


def test_without_hipcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    backend = RocmBackend(gpu_target("rocm", "gfx90a"))
    assert backend.unavailable() == "hipcc is not on the PATH"
    with pytest.raises(BackendUnavailableError) as caught:
        backend.compile(Source("", ()))
    assert str(caught.value) == (
        "rocm:gfx90a cannot be compiled for: hipcc is not on the PATH.\n"
        "  help: apt-get install --no-install-recommends hipcc (no GPU is needed to compile)."
    )


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver(family: str) -> None:
        raise NoDriverError("AMD's HIP runtime is not installed (libamdhip64.so is not there)")

    monkeypatch.setattr(driver, "driver_of", no_driver)
    with pytest.raises(BackendUnavailableError) as caught:
        RocmBackend(gpu_target("rocm", "gfx90a")).load(Binary(b"", ()))
    assert str(caught.value) == (
        "rocm programs cannot be run here: AMD's HIP runtime is not installed (libamdhip64.so is not there).\n"
        "  help: install ROCm (libamdhip64.so), or run on a machine with an AMD GPU; compiling needs neither."
    )


def test_a_compiler_that_hangs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It starts a compiler of its own, which ends with it."""
    _stand_in(monkeypatch, tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; wait")
    monkeypatch.setattr(rocm, "_TIME_LIMIT", 0.5)
    with pytest.raises(CompileError) as caught:
        RocmBackend(gpu_target("rocm", "gfx90a")).compile(Source("int x;", ("k",)))
    assert str(caught.value) == (
        "hipcc has not compiled k for rocm:gfx90a in 0.5 s.\n"
        "  help: see whether hipcc works by itself; if it does, report the program."
    )
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "status")
    deadline = time.monotonic() + 10
    while child.exists() and "zombie" not in child.read_text() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert time.monotonic() < deadline


def test_a_compiler_that_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _stand_in(monkeypatch, tmp_path, "echo no memory >&2; kill -9 $$")
    with pytest.raises(CompileError) as caught:
        RocmBackend(gpu_target("rocm", "gfx90a")).compile(Source("int x;", ("k",)))
    assert str(caught.value) == (
        "hipcc was ended by signal 9 while it compiled k for rocm:gfx90a.\n  no memory\n"
        "  help: see whether there is memory for it, and whether hipcc works by itself."
    )


def _stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    """A script in place of hipcc."""
    hipcc = folder / "hipcc"
    hipcc.write_text(f"#!/bin/sh\n{script}\n")
    hipcc.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
