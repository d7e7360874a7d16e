"""AMD GPUs: HIP C++ to a code object (HSACO) with hipcc. The only file that starts hipcc.

Compiling needs hipcc and no GPU. Debian's hipcc 5.2 compiles for gfx90a, gfx940 and gfx1030 as it comes.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from dyn.backends.base import Binary, Source
from dyn.backends.hsaco import KernelMetadata, read_kernels
from dyn.errors import BackendUnavailableError, CompileError, NotYetError
from dyn.schedule.target import Target

_INSTALL = "apt-get install --no-install-recommends hipcc (no GPU is needed to compile)."
#: A bare code object, not a bundle of several; each operation on floats is rounded by itself.
_OPTIONS = ("--genco", "--no-gpu-bundle-output", "-O3", "-std=c++17", "-ffp-contract=off")
#: What the kernel driver for AMD's GPUs shows to programs.
_DEVICE = Path("/dev/kfd")


@dataclass(frozen=True, slots=True)
class RocmBinary(Binary):
    """A code object, with what it says of each kernel and what the compiler said."""

    kernels: tuple[KernelMetadata, ...] = ()
    log: str = ""


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
            done = subprocess.run(self.command(text, result), capture_output=True, text=True, check=False)
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
        """hipcc's command line. Where nvcc is on the PATH too, hipcc has to be told which platform is meant."""
        arch = f"--offload-arch={self.target.arch}"
        return ["env", "HIP_PLATFORM=amd", "hipcc", *_OPTIONS, arch, str(text), "-o", str(result)]

    def load(self, binary: Binary) -> NoReturn:
        """Raise: kernels cannot be loaded yet; the error says whether for want of a GPU."""
        if not _DEVICE.exists():
            raise BackendUnavailableError(
                f"{self.target} cannot be run on here: there is no {_DEVICE}.",
                remedy="run on a machine with an AMD GPU and its driver; compiling needs neither.",
            )
        raise NotYetError(
            f"code for {self.target} is compiled, but not loaded and launched yet.",
            remedy="use the binary's data with hipModuleLoadData.",
        )
