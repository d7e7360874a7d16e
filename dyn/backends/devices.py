"""Devices of this machine: its processor and the GPUs that their drivers show.

Nothing is compiled and no GPU is touched beyond asking the driver what it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from dyn.frozen import record
from dyn.late_imports import import_whole
from dyn.runtime.driver import NoDriverError, driver_devices

#: What the kernel driver of AMD's GPUs says of them.
_KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")


@record()
class Device:
    """Processor or GPU.

    Attributes:
        kind: ``"cpu"``, ``"cuda"`` or ``"rocm"``.
        id: its number among those of its kind.
        name: the vendor's name.
        target: what code is compiled for, as ``compile(target=…)`` takes it: ``"x86:znver5"``, ``"cuda:sm_90a"``,
            ``"rocm:gfx90a"``.
        cores: cores of the processor that this process may use, or a GPU's multiprocessors.
        memory: bytes.
        vector_bits: width of the vectors on a processor, and 0 on a GPU.
    """

    kind: str
    id: int
    name: str
    target: str
    cores: int
    memory: int
    vector_bits: int = 0

    def __str__(self) -> str:
        """``cpu``, ``cuda``, ``cuda:1``: what ``device=`` takes."""
        return f"{self.kind}:{self.id}" if self.id else self.kind

    def describe(self) -> str:
        """Text of the device in one line.

        Returns:
            Text such as ``AMD EPYC 9655: x86:znver5, 512-bit vectors, 2 cores, 24.0 GiB``.
        """
        vectors = f"{self.vector_bits}-bit vectors, " if self.vector_bits else ""
        plural = "core" if self.kind == "cpu" else "multiprocessor"
        cores = f"{self.cores} {plural}{'' if self.cores == 1 else 's'}"
        return f"{self.name}: {self.target}, {vectors}{cores}, {self.memory / 2**30:.1f} GiB"


def devices() -> list[Device]:
    """Devices of this machine, its processor first.

    GPUs are listed where their driver shows them, whether this version of dyn runs programs on them or not;
    ``python -m dyn doctor`` says what is missing.

    Returns:
        A list of :class:`Device`.

    Example:
        >>> dyn.devices()[0].kind
        'cpu'
    """
    return [cpu_device(), *cuda_devices(), *rocm_devices()]


# ---- the processor ---------------------------------------------------------------------------------------------------


def cpu_device() -> Device:
    """This machine's processor."""
    import_whole("dyn.backends.x86")
    from dyn.backends.x86 import _this_machine  # most programs that import dyn never ask

    target = _this_machine()
    return Device("cpu", 0, _cpu_name(), str(target), len(os.sched_getaffinity(0)), _memory(), 8 * target.vector_bytes)


def _cpu_name(info: Path = Path("/proc/cpuinfo")) -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    except OSError:
        found = None
    return "x86-64 processor" if found is None else found.group(1).strip()


def _memory(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes of memory: the machine's, or what a container may use of it where that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            return min(total, int((cgroup / name).read_text(encoding="ascii")))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return total


# ---- GPUs ------------------------------------------------------------------------------------------------------------


def cuda_devices(library: str | None = None) -> list[Device]:
    """NVIDIA's GPUs; none where there is no driver."""
    try:
        _, found = driver_devices("cuda", library)
    except NoDriverError:
        return []
    return [Device("cuda", i, d.name, f"cuda:{d.arch}", d.multiprocessors, d.memory) for i, d in enumerate(found)]


def rocm_devices(nodes: Path = _KFD_NODES) -> list[Device]:
    """AMD's GPUs; none where there is no driver."""
    found: list[Device] = []
    try:
        folders = sorted((f for f in nodes.iterdir() if f.name.isdecimal()), key=lambda f: int(f.name))
    except OSError:
        return []
    for folder in folders:
        known = _properties(folder / "properties")
        version = known.get("gfx_target_version", 0)
        if known.get("simd_count", 0) and version:
            arch = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
            cores = known["simd_count"] // max(known.get("simd_per_cu", 1), 1)
            banks = (folder / "mem_banks").glob("*/properties")
            memory = sum(_properties(bank).get("size_in_bytes", 0) for bank in banks)
            found.append(Device("rocm", len(found), f"AMD {arch}", f"rocm:{arch}", cores, memory))
    return found


def _properties(path: Path) -> dict[str, int]:
    """A file of lines with a word and a number each; empty where it cannot be read."""
    try:
        words = [line.split() for line in path.read_text(encoding="ascii", errors="replace").splitlines()]
    except OSError:
        return {}
    return {word[0]: int(word[1]) for word in words if len(word) == 2 and word[1].isdecimal()}
