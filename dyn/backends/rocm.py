"""AMD GPUs: HIP C++ to a code object (HSACO) with hipcc. The only file that starts hipcc and its clang.

Compiling needs hipcc and no GPU. Which architectures there are is for its clang to say: where the device libraries are
older, what they lack is made (``dyn.backends.device_libraries``). Debian's hipcc 5.2 compiles for gfx90a, gfx940 and
gfx1030 as it comes, and so for gfx1100; gfx942 takes a newer clang, which ``HIP_CLANG_PATH`` names.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from dyn.backends.base import Binary, GpuImage, KernelReport, Source
from dyn.backends.device_libraries import (
    EVERYWHERE,
    ClangInstallation,
    complete_libraries,
    find_installation,
    known_architectures,
    lacks_library,
)
from dyn.backends.hsaco import KernelMetadata, read_kernels
from dyn.errors import BackendUnavailableError, CompileError
from dyn.frozen import record
from dyn.runtime.driver import context_of
from dyn.schedule.target import Target

_INSTALL = "apt-get install --no-install-recommends hipcc (no GPU is needed to compile)."
#: A bare code object, not a bundle of several; each operation on floats is rounded by itself.
_OPTIONS = ("--genco", "--no-gpu-bundle-output", "-O3", "-std=c++17", "-ffp-contract=off")
#: Seconds after which hipcc is given up: it takes one for a kernel, and some for a hundred.
_TIME_LIMIT = 300.0
#: Seconds for a question to hipcc or clang, which answer in a tenth of one.
_TIME_LIMIT_OF_QUESTIONS = 60.0


@record()
class RocmBinary(Binary):
    """A code object, with what it says of each kernel and what the compiler said."""

    kernels: tuple[KernelMetadata, ...] = ()
    log: str = ""


def _run(command: list[str], limit: float | None = None) -> subprocess.CompletedProcess[str] | None:
    """Run hipcc, which starts clang and a linker; None, and all of them ended, where the time is over."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=_TIME_LIMIT if limit is None else limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None
        except BaseException:  # an interrupt: hipcc does not see it, being in a session of its own
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _said(command: list[str]) -> str | None:
    """Output of a short command; None where it failed."""
    done = _run(command, _TIME_LIMIT_OF_QUESTIONS)
    return None if done is None or done.returncode else done.stdout + done.stderr


class RocmBackend:
    """Compiles for one architecture, such as ``gfx90a``."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def unavailable(self) -> str | None:
        """The reason why nothing can be compiled here, or None."""
        return None if shutil.which("hipcc") is not None else "hipcc is not on the PATH"

    def compile(self, source: Source) -> RocmBinary:
        reason = self.unavailable()
        if reason is not None:
            raise BackendUnavailableError(f"{self.target} cannot be compiled for: {reason}.", remedy=_INSTALL)
        with tempfile.TemporaryDirectory(prefix="dyn-hip-") as folder:
            text, result = Path(folder, "dyn.hip.cpp"), Path(folder, "dyn.hsaco")
            text.write_text(source.text, encoding="utf-8")
            done = _run(self.command(text, result))
            if done is not None and done.returncode and lacks_library(done.stderr):
                installation, libraries = _installation(hipcc_version(shutil.which("hipcc"))), Path(folder, "libraries")
                libraries.mkdir()
                if installation is not None and complete_libraries(self.target.arch, installation, libraries, _said):
                    done = _run([*self.command(text, result), f"--hip-device-lib-path={libraries}"])
            if done is None:
                raise CompileError(
                    f"hipcc has not compiled {', '.join(source.symbols)} for {self.target} in {_TIME_LIMIT:g} s.",
                    remedy="see whether hipcc works by itself; if it does, report the program.",
                )
            if done.returncode < 0:
                raise CompileError(
                    f"hipcc was ended by signal {-done.returncode} while it compiled {', '.join(source.symbols)} for "
                    f"{self.target}.",
                    notes=tuple(done.stderr.splitlines()),
                    remedy="see whether there is memory for it, and whether hipcc works by itself.",
                )
            if "invalid target ID" in done.stderr or "unsupported HIP gpu architecture" in done.stderr:
                raise CompileError(
                    f"hipcc does not compile for {self.target}.",
                    notes=tuple([line for line in done.stderr.splitlines() if "error: " in line][:1]),
                    remedy="see that the name is right; for an architecture that is newer than this hipcc install a "
                    f"newer ROCm.{_told(hipcc_architectures())}",
                )
            if done.returncode or not result.exists():
                raise CompileError(
                    f"hipcc refused the text of {', '.join(source.symbols)} for {self.target}.",
                    notes=tuple(done.stderr.replace(str(text), text.name).splitlines()),
                    remedy="where it misses a bitcode library, this hipcc is too old for the architecture; otherwise "
                    "this is a bug in dyn: please report it with the text above.",
                )
            data = result.read_bytes()
        return RocmBinary(data, source.symbols, read_kernels(data), done.stderr)

    def command(self, text: Path, result: Path) -> list[str]:
        """hipcc's command line."""
        return _command(self.target.arch, text, result)

    def load(self, binary: Binary) -> RocmExecutable:
        """Load into device 0. Modules are never unloaded."""
        return RocmExecutable(context_of("rocm").load_module(binary.data))

    @property
    def toolchain(self) -> str:
        return f"{hipcc_version(shutil.which('hipcc'))} {' '.join(_OPTIONS)}"

    def compile_kernels(self, source: Source) -> GpuImage:
        binary = self.compile(source)
        reports = {
            one.name: KernelReport(one.vgprs, 4 * (one.vgpr_spills + one.sgpr_spills), one.private_bytes, one.lds_bytes)
            for one in binary.kernels
        }
        return GpuImage(binary.data, "", reports)

    def with_more_registers(self, source: Source) -> Source | None:
        """None: clang takes what a kernel needs, as far as its launch bounds leave them."""
        return None


@record()
class RocmExecutable:
    """A module on device 0; an address is a ``hipFunction_t``."""

    module: int

    def address(self, symbol: str) -> int:
        """The function handle of a kernel."""
        return context_of("rocm").kernel(self.module, symbol, 1)[0]


def hipcc_architectures() -> tuple[str, ...]:
    """The architectures that hipcc's clang generates code for; none where hipcc does not tell."""
    toolchain = hipcc_version(shutil.which("hipcc"))
    installation = None if toolchain == "none" else _installation(toolchain)
    return () if installation is None else known_architectures(installation, _said)


def _told(architectures: tuple[str, ...]) -> str:
    return f" It knows {', '.join(architectures)}." if architectures else ""


def _command(arch: str, text: Path, result: Path) -> list[str]:
    """hipcc's command line. Where nvcc is on the PATH too, hipcc has to be told which platform is meant."""
    return ["env", "HIP_PLATFORM=amd", "hipcc", *_OPTIONS, f"--offload-arch={arch}", str(text), "-o", str(result)]


@lru_cache(maxsize=4)
def _installation(toolchain: str) -> ClangInstallation | None:
    """The clang behind the hipcc of an identity."""
    with tempfile.TemporaryDirectory(prefix="dyn-hip-") as folder:
        text = Path(folder, "dyn.hip.cpp")
        text.touch()
        return find_installation(_command(EVERYWHERE, text, Path(folder, "dyn.hsaco")), _said)


@lru_cache(maxsize=4)
def hipcc_version(path: str | None) -> str:
    """Identity of the hipcc at a path: what its ``--version`` says; ``"none"`` where there is none."""
    if path is None:
        return "none"
    command = ["env", "HIP_PLATFORM=amd", path, "--version"]
    try:
        said = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_TIME_LIMIT_OF_QUESTIONS
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return "none"
    return f"{path} {said}"
