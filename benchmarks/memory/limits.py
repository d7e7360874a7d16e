"""The machine's limits as the benchmarks show them: at every level of memory, for some numbers of threads."""

from __future__ import annotations

import time
from dataclasses import dataclass

from dyn.profiling.limits import LEVELS, Way, bandwidth, bytes_to_measure, cache_sizes, gflops


@dataclass(frozen=True)
class Limits:
    """GB/s by level (``"L1"`` … ``"beyond"``) and threads, of copies, the bytes read and those written together, and of
    reads; GFLOP/s of multiply-adds by element type and threads."""

    copy: dict[tuple[str, int], float]
    read: dict[tuple[str, int], float]
    gflops: dict[tuple[str, int], float]


def measure_limits(threads: list[int], rounds: int, *, cpu_time: bool = False) -> Limits:
    """Measure this machine; the quickest of so many rounds counts. ``cpu_time`` measures one thread by its time on the
    CPU: where others compute too, few rounds have the CPU for as long as it takes to read all of the memory once."""
    beyond = 8 * cache_sizes()["L3"]
    copy: dict[tuple[str, int], float] = {}
    read: dict[tuple[str, int], float] = {}
    multiply_adds: dict[tuple[str, int], float] = {}
    for count in threads:
        clock = time.thread_time if cpu_time and count == 1 else time.perf_counter
        for level in LEVELS:
            total = bytes_to_measure(level, count, beyond)
            ways: list[Way] = ["copy", "stream"] if level == "beyond" else ["copy"]
            copy[level, count] = max(bandwidth(way, total, count, rounds, clock) for way in ways)
            read[level, count] = bandwidth("read", total, count, rounds, clock)
        for element in ("float32", "float64"):
            multiply_adds[element, count] = gflops(element, count, rounds, clock)
    return Limits(copy, read, multiply_adds)
