"""What a measurement ran on: the machine's description, its threads, a process's memory."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import resource
import time
from pathlib import Path


def describe_cpu() -> str:
    """``AMD EPYC 9B45, 2 cores, AVX-512``"""
    text = _read("/proc/cpuinfo")
    name = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^flags\s*:\s*(.+)$", text, re.MULTILINE)
    features = flags[1].split() if flags else []
    widest = next((label for flag, label in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in features), "")
    parts = [" ".join(name[1].split()) if name else platform.machine(), f"{os.cpu_count()} cores", widest]
    return ", ".join(part for part in parts if part)


def choose_cpus(threads: int) -> list[int]:
    """``threads`` of the CPUs that this process may use: the last ones, as the system itself prefers the first."""
    cpus = sorted(os.sched_getaffinity(0))
    if threads > len(cpus):
        raise ValueError(f"{threads} threads need as many CPUs; this process may use {len(cpus)}.")
    return cpus[-threads:]


def thread_environment(threads: int) -> dict[str, str]:
    """Variables by which numeric libraries learn how many threads to use; read when they are loaded."""
    environment = {"JAX_PLATFORMS": "cpu"}
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        environment[name] = str(threads)
    if threads == 1:
        environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    return environment


def reset_peak_memory() -> None:
    """Forget the peak so far, where the system can; ``peak_memory`` is then of what follows."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """The most bytes that this process has had in memory at once."""
    found = re.search(r"^VmHWM:\s*(\d+) kB$", _read("/proc/self/status"), re.MULTILINE)
    kilobytes = int(found[1]) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes * 1024


#: A process is at rest once its threads compute for less than this part of a pause.
_AT_REST, _PAUSE_SECONDS = 0.1, 1e-3


def wait_for_rest(most_seconds: float = 0.05) -> None:
    """Sleep until the threads of this process do, but no longer than ``most_seconds``."""
    end = time.perf_counter() + most_seconds
    while (start := time.perf_counter()) < end:
        computed = time.process_time()
        time.sleep(_PAUSE_SECONDS)
        if time.process_time() - computed < _AT_REST * (time.perf_counter() - start):
            return


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""
