"""``python -m dyn doctor``: a report on what this machine can run, what is missing, and what to do about it.

Each check answers with findings and never raises: whatever is broken is what the report is for.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

import dyn
from dyn import config, hosts
from dyn.backends.cuda import CudaBackend
from dyn.backends.devices import cpu_device, cuda_devices, rocm_devices
from dyn.backends.families import host_backend
from dyn.backends.rocm import RocmBackend, hipcc_architectures
from dyn.backends.trust import refusal
from dyn.requirements import install_extra, install_required
from dyn.runtime.driver import NoDriverError, driver_devices
from dyn.schedule.target import Target


class Severity(Enum):
    """Severity of a finding."""

    OK = "ok"
    #: A plain piece of information.
    NOTE = "note"
    #: Something optional that is not there.
    MISSING = "missing"
    #: Something that works less well than it could.
    WARNING = "warning"
    #: dyn does not work.
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """A line of the report, and what to do about it."""

    label: str
    state: Severity
    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The whole report."""

    sections: tuple[Section, ...]

    @property
    def works(self) -> bool:
        """Whether programs run on the processor."""
        return all(finding.state is not Severity.FAILED for section in self.sections for finding in section.findings)

    def text(self) -> str:
        """The report in plain text."""
        lines: list[str] = []
        for section in self.sections:
            lines += ["", section.title] if lines else [section.title]
            width = max((len(finding.label) for finding in section.findings), default=0)
            for finding in section.findings:
                state = "" if finding.state is Severity.NOTE else f"{finding.state.value}: "
                lines.append(f"  {finding.label:{width}}  {state}{finding.text}")
                if finding.remedy:
                    lines.append(f"  {'':{width}}  help: {finding.remedy}")
        return "\n".join([*lines, "", self.verdict()])

    def verdict(self) -> str:
        """The last line."""
        return "dyn works on this machine's processor." if self.works else "dyn does not work here; see what failed."


def examine() -> Diagnosis:
    """Look at everything. Takes about a second: a small program is compiled and run."""
    checks: list[tuple[str, Callable[[], list[Finding]]]] = [
        ("Versions", _versions),
        ("This machine", _machine),
        ("Settings", _settings),
        ("Compiled code", _cache),
        ("Backends", _backends),
        ("Optional packages", _packages),
        ("Self-test", _self_test),
    ]
    return Diagnosis(tuple(Section(title, tuple(_guarded(title, check))) for title, check in checks))


def _guarded(title: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return check()
    except Exception as error:
        problem = f"{type(error).__name__}: {error}".replace("\n", " ")
        return [Finding(title.lower(), Severity.FAILED, problem, "if the message does not say what to do, report it.")]


# ---- what there is ---------------------------------------------------------------------------------------------------


def _versions() -> list[Finding]:
    found = [
        Finding("dyn", Severity.NOTE, f"{dyn.__version__}, in {Path(dyn.__file__).parent}"),
        Finding("Python", Severity.NOTE, f"{platform.python_version()}, {sys.executable}"),
        Finding("system", Severity.NOTE, f"{platform.platform()}"),
    ]
    for package in ("numpy", "llvmlite", "ml_dtypes", "optree"):
        version = _version(package)
        if version is None:
            found.append(Finding(package, Severity.FAILED, "not installed", install_required(package)))
        else:
            found.append(Finding(package, Severity.NOTE, version))
    return found


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _machine() -> list[Finding]:
    cpu = cpu_device()
    registers = {512: "AVX-512", 256: "AVX2"}.get(cpu.vector_bits, "SSE2")
    slow = cpu.vector_bits == 128
    return [
        Finding("processor", Severity.NOTE, cpu.name),
        Finding(
            "target", Severity.WARNING if slow else Severity.OK,
            f"{cpu.target}, {cpu.vector_bits}-bit vectors ({registers})",
            "a processor with AVX2 runs most programs two to four times as fast." if slow else "",
        ),
        Finding("threads", Severity.NOTE, f"{cpu.cores} of them may be used by this process"),
        Finding("memory", Severity.NOTE, f"{cpu.memory / 2**30:.1f} GiB"),
        _calls(),
    ]  # fmt: skip


def _calls() -> Finding:
    """Whether warm calls go through the native entry."""
    reason = hosts.fast_path()
    if reason is None:
        return Finding("warm calls", Severity.OK, "through native code")
    return Finding("warm calls", Severity.WARNING, f"through Python, as {reason}")


def _settings() -> list[Finding]:
    """The settings that are not the default ones."""
    current = config.current()
    changed = [field for field in fields(config.Config) if getattr(current, field.name) != field.default]
    if not changed:
        return [Finding("all", Severity.NOTE, "as dyn comes; no DYN_… variable changes one")]
    return [Finding(config.variable(f.name), Severity.NOTE, f"{getattr(current, f.name)!r}") for f in changed]


def _cache() -> list[Finding]:
    """Findings about the folder of compiled code. Its module is looked for: not every version has one."""
    if importlib.util.find_spec("dyn.backends.binaries") is None:
        return [Finding("folder", Severity.NOTE, "none; this version keeps compiled code in memory")]
    info = importlib.import_module("dyn.backends.binaries").cache_info()
    if not info.folder:
        return [Finding("folder", Severity.NOTE, "none; compiled code is kept in memory, as DYN_CACHE_DIR says")]
    return [cache_finding(Path(info.folder), info.entries, info.size, info.limit)]


def cache_finding(folder: Path, entries: int, size: int, limit: int) -> Finding:
    """Whether a folder can keep compiled code: it is tried with a file, or its parent is, where it is not there."""
    told = f"{folder}: {entries} {'entry' if entries == 1 else 'entries'}, "
    told += f"{size / 2**20:.1f} of at most {limit / 2**20:.0f} MiB"
    refused = refusal(str(folder))
    if refused is not None:
        problem = f"{told}; {refused.problem}, so no code from it is run, and each process compiles anew"
        return Finding("folder", Severity.WARNING, problem, f"{refused.remedy}.")
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(bytes(4096))
    except OSError as error:
        problem = f"{told}; it cannot be written ({error.strerror}), so each process compiles anew"
        return Finding("folder", Severity.WARNING, problem, f"make {place} writable, or name another in DYN_CACHE_DIR.")
    return Finding("folder", Severity.OK, told)


# ---- backends --------------------------------------------------------------------------------------------------------


def _backends() -> list[Finding]:
    return [_x86(), _nvrtc(), _nvidia(), _hipcc(), _amd()]


def _x86() -> Finding:
    backend = host_backend()
    reason = backend.unavailable()
    if reason is None:
        return Finding("x86", Severity.OK, f"compiles for and runs on {backend.target}")
    return Finding("x86", Severity.FAILED, reason, install_required("llvmlite"))


def _nvrtc() -> Finding:
    reason = CudaBackend(Target("cuda", "sm_90a", warp=32)).unavailable()
    if reason is None:
        return Finding("cuda compiler", Severity.OK, "NVRTC; kernels can be compiled, without a GPU too")
    return Finding("cuda compiler", Severity.MISSING, reason, install_extra("cuda"))


def _nvidia() -> Finding:
    try:
        version, _ = driver_devices("cuda")
    except NoDriverError as error:
        absent = "is not there" in str(error)
        remedy = "install NVIDIA's driver; nvidia-smi then lists the GPUs." if absent else "see what nvidia-smi says."
        return Finding("cuda GPUs", Severity.MISSING, str(error), remedy)
    told = "; ".join(device.describe() for device in cuda_devices())
    if not told:
        return Finding("cuda GPUs", Severity.MISSING, f"none (driver for CUDA {version})", "see what nvidia-smi says.")
    return Finding("cuda GPUs", Severity.OK, f'{told} (driver for CUDA {version}); dyn.jit(device="cuda") runs on them')


def _hipcc() -> Finding:
    reason = RocmBackend(Target("rocm", "gfx90a", warp=64)).unavailable()
    if reason is None:
        known = hipcc_architectures()
        if not known:
            problem = "hipcc is on the PATH, and does not say what it compiles for"
            return Finding("rocm compiler", Severity.WARNING, problem, "see what hipcc --version says.")
        told = f"hipcc; kernels can be compiled, without a GPU too, for {', '.join(known)}"
        return Finding("rocm compiler", Severity.OK, told)
    return Finding("rocm compiler", Severity.MISSING, reason, "apt-get install --no-install-recommends hipcc")


def _amd() -> Finding:
    try:
        version, _ = driver_devices("rocm")
        reason = ""
    except NoDriverError as error:
        version, reason = "", str(error)
    found = rocm_devices()
    if found:
        told = "; ".join(device.describe() for device in found)
        if reason:
            return Finding("rocm GPUs", Severity.WARNING, f"{told}; {reason}", "install ROCm's HIP runtime.")
        return Finding("rocm GPUs", Severity.OK, f'{told} (HIP {version}); dyn.jit(device="rocm") runs on them')
    if Path("/dev/kfd").exists():
        return Finding("rocm GPUs", Severity.MISSING, "AMD's driver is installed, and it finds no GPU", "see rocminfo.")
    return Finding(
        "rocm GPUs", Severity.MISSING, "AMD's driver is not installed (/dev/kfd is not there)", "install amdgpu-dkms."
    )


#: What each optional package is for, and the extra that installs it.
_OPTIONAL = {
    "jax": ("programs written in JAX", "jax"),
    "torch": ("programs written in PyTorch", "torch"),
    "tensorflow": ("programs written in TensorFlow", "tensorflow"),
    "onnx": ("ONNX models", "onnx"),
    "scipy": ("linear algebra, and SciPy's special functions", "linalg"),
    "matplotlib": ("the charts of the notebooks and the demo", "demo"),
    "rich": ("this report, and the demo's, in colour", "demo"),
    "ipykernel": ("notebooks", "notebook"),
}


def _packages() -> list[Finding]:
    found: list[Finding] = []
    for name, (purpose, extra) in _OPTIONAL.items():
        version = _version(name) or (_version("tensorflow-cpu") if name == "tensorflow" else None)
        if version is not None and importlib.util.find_spec(name) is not None:
            found.append(Finding(name, Severity.OK, f"{version}: {purpose}"))
        else:
            found.append(Finding(name, Severity.MISSING, f"not installed: {purpose}", install_extra(extra)))
    return found


# ---- does it work ----------------------------------------------------------------------------------------------------

_SIZES = (0, 1, 7, 1000)


def _self_test() -> list[Finding]:
    """Compile ``x + 1`` and run it for several sizes."""
    start = time.perf_counter()
    add_one: Any = dyn.jit(lambda x: x + 1)
    for size in _SIZES:
        x = np.arange(size, dtype=np.float32)
        if not np.array_equal(add_one(x), x + 1):
            problem = f"x + 1 is wrong for {size} elements"
            return [
                Finding("x + 1", Severity.FAILED, problem, "this is a bug in dyn; please report it with this report.")
            ]
    spent = 1000 * (time.perf_counter() - start)
    compiles = add_one.cache_info().compiles
    sizes = ", ".join(map(str, _SIZES))
    told = f"right for sizes {sizes}, from {compiles} compile, in {spent:.0f} ms"
    return [Finding("x + 1", Severity.OK, told)]
