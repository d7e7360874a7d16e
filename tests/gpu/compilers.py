"""Compilers for the software GPU in place of the vendors': g++ with the shim's header reads the same kernel text."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

from dyn.backends.base import Source
from dyn.backends.cuda import CudaBackend, CudaBinary, KernelResources
from tests.gpu import build

#: Of each kernel, as ptxas would tell them: nothing is spilled.
RESOURCES = KernelResources(registers=32, stack_bytes=0, spill_store_bytes=0, spill_load_bytes=0, shared_bytes=0)


class SoftwareCudaBackend(CudaBackend):
    """Compiles CUDA text to a module of the software GPU; loads it as any other, with the driver.

    With ``races``, launches fail that race.
    """

    races = False

    def unavailable(self) -> str | None:
        return None

    def compile(self, source: Source) -> CudaBinary:
        data = build.module(source.text, 32, races=self.races)
        return CudaBinary(data, source.symbols, "// no PTX", "", tuple([(s, RESOURCES) for s in source.symbols]))


def install_hipcc(folder: Path) -> Path:
    """Write a ``hipcc`` into a folder, for the front of the PATH."""
    path = folder / "hipcc"
    root = Path(__file__).resolve().parents[2]
    path.write_text(
        f'#!/bin/sh\nPYTHONPATH="{root}" exec "{sys.executable}" "{Path(__file__).with_name("hipcc.py")}" "$@"\n',
        encoding="utf-8",
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def write_kfd_nodes(folder: Path, arch: str = "gfx90a", count: int = 1, memory: int = 1 << 30) -> Path:
    """Files as AMD's kernel driver shows them for some GPUs (``dyn.backends.devices``), under ``folder``."""
    version = int(arch[3:-2]) * 10000 + int(arch[-2], 16) * 100 + int(arch[-1], 16)
    for number in range(count):
        bank = folder / str(number) / "mem_banks" / "0"
        bank.mkdir(parents=True)
        (bank / "properties").write_text(f"size_in_bytes {memory}\n", encoding="ascii")
        lines = f"simd_count 16\nsimd_per_cu 4\ngfx_target_version {version}\n"
        (folder / str(number) / "properties").write_text(lines, encoding="ascii")
    return folder
