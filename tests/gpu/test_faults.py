"""Faults of GPUs and of what is around them: each a clear error, after which what can go on does."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import config
from dyn.backends import gpu as gpu_backend
from dyn.backends.archive import unpack
from dyn.backends.binaries import Origin
from dyn.errors import CompileError, DeviceError
from dyn.runtime.device_memory import context_of, put
from dyn.specialize.shared_code import CODES
from tests.gpu.programs import Compiler, Device, new_stream


def forget() -> None:
    """Forget what this process has compiled and loaded, as a new one would."""
    CODES.clear()
    gpu_backend._MODULES.clear()
    gpu_backend._MODULE_OF.clear()
    gpu_backend._LOADED.clear()


def double(x: Any) -> Any:
    return dnp.exp(x).sum(0) * 2


#: The driver's functions of a call, but those by which memory is given back: what they refuse is lost.
CALLS = {
    "cuda": (
        "cuMemAllocAsync", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuLaunchKernel", "cuStreamSynchronize",
    ),
    "rocm": (
        "hipMallocAsync", "hipMemcpyHtoDAsync", "hipMemcpyDtoHAsync", "hipModuleLaunchKernel", "hipStreamSynchronize",
    ),
}  # fmt: skip


def test_every_call_of_the_driver_may_fail(device: Device) -> None:
    """Whatever the driver refuses is an error of dyn's, nothing is lost, and the next call works."""
    f = dyn.jit(lambda n: dnp.round(dnp.real(dnp.fft.fft(dnp.nonzero(n)[0] + 1.0))) * 2, device=device.name)
    n = np.arange(9) % 3
    wanted = np.round(np.real(np.fft.fft(np.nonzero(n)[0] + 1.0))) * 2
    np.testing.assert_array_equal(f(n).to_numpy(), wanted)
    failed: list[str] = []
    for name in CALLS[device.name]:
        before = device.gpu.calls(name)
        np.testing.assert_array_equal(f(n).to_numpy(), wanted)
        for nth in range(1, device.gpu.calls(name) - before + 1):
            device.gpu.fail(701, nth, name)
            with pytest.raises(DeviceError, match=r"\(701\)"):
                f(n).to_numpy()
            device.gpu.fail(0, 0)
            failed.append(name)
            context_of(device.name).synchronize(0)
            assert device.gpu.problems() == []
    assert set(failed) == set(CALLS[device.name])
    np.testing.assert_array_equal(f(n).to_numpy(), wanted)


def test_programs_are_found_on_disk(device: Device, tmp_path: Path) -> None:
    x = np.ones((3, 4), "f4")
    with config.override(cache_dir=str(tmp_path), verify_ir=False):
        forget()
        first = dyn.jit(double, device=device.name)
        first(x)
        forget()
        again = dyn.jit(double, device=device.name)
        np.testing.assert_allclose(again(x).to_numpy(), np.exp(x).sum(0) * 2, rtol=1e-6)
    record = again.programs[0].record
    assert Origin.COMPILED not in record.origins
    assert "lower" not in record.seconds


def test_kernels_of_a_program_are_compiled_together(
    cuda: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts: list[tuple[str, ...]] = []
    compile = Compiler.compile

    def count(self: Compiler, source: Any) -> Any:
        texts.append(source.symbols)
        return compile(self, source)

    monkeypatch.setattr(Compiler, "compile", count)
    monkeypatch.setattr(gpu_backend, "workers", lambda: 2)
    with config.override(cache_dir=str(tmp_path), variants="none"):
        forget()
        f = dyn.jit(lambda x: (dnp.cumsum(x, 0), dnp.sort(x, 1), x.sum(1), dnp.exp(x).T), device="cuda")
        f(np.ones((3, 4), "f4"))
    # What the call wants beside them is compiled in the background, perhaps by now, and kernel by kernel.
    assert min(map(len, texts[:2])) > 1
    assert sum(map(len, texts[:2])) > 4
    assert all(len(one) == 1 for one in texts[2:])


def test_a_text_that_is_refused(cuda: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Compiler, source: Any) -> Any:
        raise CompileError(f"NVRTC refused the text of {len(source.symbols)} kernels.")

    monkeypatch.setattr(Compiler, "compile", refuse)
    with config.override(cache_dir=""):
        forget()
        with pytest.raises(CompileError, match="refused"):
            dyn.jit(lambda x: dnp.sinh(x) * 17, device="cuda")(np.ones(3))


def test_a_forked_child_is_told(cuda: Device) -> None:
    there = dyn.device_put(np.ones(3), "cuda")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            there.to_numpy()
            told = "nothing"
        except BaseException as error:
            told = str(error)
        os.write(writer, told.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 1000).decode() == (
        "NVIDIA's driver was initialised before this process was forked, and does not work in the child.\n"
        "  help: start processes with multiprocessing's 'spawn', or fork before the first use of a GPU."
    )
    os.close(reader)
    os.close(writer)
    assert there.tolist() == [1, 1, 1]


def test_without_a_driver_the_error_says_what_to_install() -> None:
    code = (
        "import numpy as np, dyn\n"
        "try:\n    dyn.jit(lambda x: x, device='cuda')(np.ones(3))\n"
        "except dyn.errors.BackendUnavailableError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("cuda programs cannot be run here: ")
    assert "help: install NVIDIA's driver (libcuda.so.1)" in done.stdout


def test_a_destroyed_stream(device: Device) -> None:
    """Arrays whose stream is no more: each use is an error that says so, their memory goes back, others go on."""
    add = dyn.jit(lambda x, y: x + y)
    context = context_of(device.name)
    with new_stream(device) as stream:
        x: Any = dyn.device_put(put(context, np.arange(4, dtype="f4"), stream), device.name)
        there: Any = add(x, x)
    here: Any = dyn.device_put(np.ones(4, "f4"), device.name)
    uses = (
        there.to_numpy, there.block_until_ready, lambda: add(there, there), lambda: add(here, there),
        lambda: add(there, here), lambda: there + 1, lambda: np.from_dlpack(there.to_device("cpu")),
    )  # fmt: skip
    for use in uses:
        with pytest.raises(DeviceError, match=r"INVALID_HANDLE|InvalidHandle") as error:
            use()
        assert "help: an array's stream may have been destroyed: keep a stream" in str(error.value)
    x = there = use = uses = None
    gc.collect()
    assert device.gpu.problems() == []
    np.testing.assert_array_equal(add(here, here).to_numpy(), np.full(4, 2, "f4"))


@pytest.mark.parametrize("answer", [209, 218])
def test_a_driver_that_is_too_old_for_the_kernels(device: Device, answer: int) -> None:
    load = {"cuda": "cuModuleLoadData", "rocm": "hipModuleLoadData"}[device.name]
    x = np.ones(3, "f4")
    with config.override(cache_dir="", variants="none"):
        forget()
        made = dyn.jit(lambda x: dnp.sinh(x) * answer, device=device.name)
        with pytest.MonkeyPatch.context() as patch:  # as if there were no PTX for a newer GPU
            patch.setattr(gpu_backend, "unpack", lambda data: {**unpack(data), gpu_backend._ASSEMBLY: b""})
            device.gpu.fail(answer, 1, load)
            with pytest.raises(DeviceError) as error:
                made(x)
        device.gpu.fail(0, 0)
        toolkit = {"cuda": "CUDA", "rocm": "HIP"}[device.name]
        assert f", which runs programs of {toolkit} " in str(error.value)
        assert " and older, does not load the kernels: " in str(error.value)
        assert f"compiled by a newer {toolkit}, install a newer driver" in str(error.value)
        np.testing.assert_allclose(made(x).to_numpy(), np.sinh(x) * answer, rtol=1e-6)


#: In a process of its own: after such a fault the device is lost to it.
FAULT = """
import numpy as np, pytest, dyn
from tests.gpu.programs import on_device
from tests.gpu.software import SoftwareGpu
from dyn.runtime.dlpack import DeviceTensor, export_capsule

class Liar:
    def __dlpack_device__(self):
        return (2, 0)
    def __dlpack__(self, **options):
        here = np.ones(4, "f4")
        tensor = DeviceTensor(here.ctypes.data, (2, 0), dyn.dtype("float32").dlpack, (4,))
        return export_capsule(tensor, here, versioned=True)

gpu = SoftwareGpu.shared("cuda")
gpu.set(hidden=0, seed=1)
with pytest.MonkeyPatch.context() as patch:
    device = on_device("cuda", gpu, patch)
    next(device)
    f = dyn.jit(lambda x: x * 2)
    made = f(Liar())
    for read in (made.to_numpy, made.block_until_ready, lambda: f(made)):
        try:
            read()
        except dyn.errors.DeviceError as error:
            print(error)
    print(dyn.jit(lambda x: x + 1)(np.ones(2)))
"""


def test_a_kernel_that_fails_is_told_where_it_is_seen(cuda: Device) -> None:
    done = subprocess.run([sys.executable, "-c", FAULT], capture_output=True, text=True, check=False)
    told = done.stdout.splitlines()
    assert sum("CUDA_ERROR_ILLEGAL_ADDRESS (700)" in line for line in told) == 3, done.stderr
    assert "an error of an earlier kernel shows late" in done.stdout
    assert told[-1] == "[2. 2.]", "what runs on the processor goes on"
