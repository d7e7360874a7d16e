"""NVIDIA GPUs: CUDA C++ to cubin or PTX with NVRTC, and loading it through the driver.

The only file that imports cuda-python. Compiling needs the ``cuda`` extra and no GPU; loading needs the driver.
NVRTC is called through ``cuda.bindings``: ``cuda.core`` misbehaves where there is no driver. Neither has type stubs, so
they are imported by name.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dyn.backends.base import Binary, GpuImage, KernelReport, Source
from dyn.errors import BackendUnavailableError, CompileError
from dyn.frozen import record
from dyn.requirements import install_extra
from dyn.runtime.driver import context_of
from dyn.schedule.target import Target

_INSTALL = f"{install_extra('cuda')} (cuda-python and NVRTC 13.0; no GPU is needed to compile)."
#: The bounds of launches of a kernel that leave to ptxas how many blocks should be on a multiprocessor at once.
_OPEN_BOUNDS = re.compile(r"__launch_bounds__\((\d+)\)")
#: Each operation is rounded by itself, subnormals are kept, division and square root are exact.
_OPTIONS = ("--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true")


@record()
class KernelResources:
    """Resources of a kernel's thread, as ptxas tells them; ``shared_bytes`` is a block's static shared memory."""

    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    shared_bytes: int


@record()
class CudaBinary(Binary):
    """A cubin (PTX text for a ``compute_…`` target), with the compiler's log and what the log says of each kernel.

    PTX is not assembled, so there ``resources`` is empty. ``ptx`` is the text in between, for people.
    """

    ptx: str = ""
    log: str = ""
    resources: tuple[tuple[str, KernelResources], ...] = ()


@record()
class CudaExecutable:
    """A module in the primary context of device 0; an address is a ``CUfunction``."""

    module: int

    def address(self, symbol: str) -> int:
        """The function handle of a kernel."""
        return context_of("cuda").kernel(self.module, symbol, 1)[0]


class CudaBackend:
    """Compiles for one architecture: ``sm_90a`` gives a cubin, ``compute_80`` PTX that the driver assembles."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def unavailable(self) -> str | None:
        """The reason why nothing can be compiled here, or None. That there is no driver shows in ``load``."""
        try:
            nvrtc = importlib.import_module("cuda.bindings.nvrtc")
            _nvrtc(nvrtc.nvrtcVersion())
        except ImportError as error:
            return f"cuda-python is not installed ({error})"
        except RuntimeError as error:  # cuda.pathfinder's error for a library that is not there
            return f"NVRTC cannot be loaded ({str(error).splitlines()[0]})"
        return None

    def compile(self, source: Source) -> CudaBinary:
        reason = self.unavailable()
        if reason is not None:
            raise BackendUnavailableError(f"{self.target} cannot be compiled for: {reason}.", remedy=_INSTALL)
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
        known: list[int] = _nvrtc(nvrtc.nvrtcGetSupportedArchs())
        if not any(re.fullmatch(rf"(sm|compute)_{number}[a-z]?", self.target.arch) for number in known):
            raise CompileError(
                f"NVRTC {nvrtc_version()} does not compile for {self.target}.",
                remedy=f"use one that it knows, {', '.join(f'sm_{number}' for number in known)}; a newer GPU runs "
                f"compute_{known[-1]}, whose PTX its driver assembles.",
            )
        program = _nvrtc(nvrtc.nvrtcCreateProgram(source.text.encode(), b"dyn.cu", 0, [], []))
        try:
            options = [option.encode() for option in self._options()]
            (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
            log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode().strip()
            if int(status):
                raise CompileError(
                    f"NVRTC refused the text of {', '.join(source.symbols)} for {self.target}: {status.name}.",
                    notes=tuple(log.splitlines()),
                    remedy="this is a bug in dyn; please report it with the text above.",
                )
            ptx = _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
            if self.target.arch.startswith("compute_"):
                return CudaBinary(ptx, source.symbols, ptx.decode(), log)
            cubin = _text(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
            return CudaBinary(cubin, source.symbols, ptx.decode(), log, parse_resources(log))
        finally:
            nvrtc.nvrtcDestroyProgram(program)

    def _options(self) -> list[str]:
        pathfinder = importlib.import_module("cuda.pathfinder")
        options = [f"--gpu-architecture={self.target.arch}", *_OPTIONS]
        if not self.target.arch.startswith("compute_"):
            options.append("--ptxas-options=-v")
        headers = pathfinder.find_nvidia_header_directory("cudart")  # only texts with float16 include one
        return options if headers is None else [*options, f"--include-path={headers}"]

    def load(self, binary: Binary) -> CudaExecutable:
        """Load into device 0. Modules are never unloaded."""
        return CudaExecutable(context_of("cuda").load_module(binary.data))

    @property
    def toolchain(self) -> str:
        return f"NVRTC {nvrtc_version()} {' '.join(_OPTIONS)}"

    def compile_kernels(self, source: Source) -> GpuImage:
        binary = self.compile(source)
        reports = {
            name: KernelReport(
                one.registers, one.spill_store_bytes + one.spill_load_bytes, one.stack_bytes, one.shared_bytes
            )
            for name, one in binary.resources
        }
        return GpuImage(binary.data, binary.ptx, reports)

    def with_more_registers(self, source: Source) -> Source | None:
        """The kernel with a number of blocks that it asks for, 1.

        Where a kernel asks for none, ptxas saves registers down to the next number of blocks (CUDA C++ Programming
        Guide, "Launch Bounds"), and would rather spill a word than have fewer. Asked for one block, it takes what it
        needs. Most kernels are quicker with more blocks, so it is for those alone that spill.
        """
        text = _OPEN_BOUNDS.sub(r"__launch_bounds__(\1, 1)", source.text)
        return None if text == source.text else replace(source, text=text)


@lru_cache(maxsize=1)
def nvrtc_version() -> str:
    """The version of NVRTC; ``"none"`` where it cannot be loaded."""
    try:
        major, minor = importlib.import_module("cuda.bindings.nvrtc").nvrtcVersion()[1:]
    except (ImportError, RuntimeError):
        return "none"
    return f"{major}.{minor}"


def parse_resources(log: str) -> tuple[tuple[str, KernelResources], ...]:
    """The registers, stack and spills of each kernel, from the log that ``--ptxas-options=-v`` writes."""
    found: list[tuple[str, KernelResources]] = []
    for part in re.split(r"(?=Compiling entry function)", log)[1:]:
        name = re.search(r"Compiling entry function '(\w+)'", part)
        assert name is not None
        numbers = [
            int(match.group(1)) if (match := re.search(pattern, part)) is not None else 0
            for pattern in (
                r"Used (\d+) registers", r"(\d+) bytes stack frame", r"(\d+) bytes spill stores",
                r"(\d+) bytes spill loads", r"(\d+) bytes smem",
            )
        ]  # fmt: skip
        found.append((name.group(1), KernelResources(*numbers)))
    return tuple(found)


def _text(size: Any, get: Any, program: Any) -> bytes:
    """A result whose size is asked for first; text ends before the zero byte."""
    length = _nvrtc(size(program))
    # NVRTC writes into it: of one byte Python has a single object for all, and two are always new.
    buffer = bytes(length + 1)
    _nvrtc(get(program, buffer))
    return buffer[:length] if get.__name__ == "nvrtcGetCUBIN" else buffer.rstrip(b"\0")


def _nvrtc(result: tuple[Any, ...]) -> Any:
    """The value of a call that answers ``(status, value)``."""
    status, *values = result
    if int(status):
        raise CompileError(f"NVRTC failed: {status.name}.")
    return values[0] if values else None
