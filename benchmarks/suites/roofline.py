"""The machine's limits, and how near dyn's kernels come to them.

Copies and reads at each level of the caches and multiply-adds are measured by native code; then programs run under
``dyn.profile()``, which tells the time of their kernels alone, and their operations. What is shown is the part of the
machine's limit that each reaches: of the bandwidth at the level in which its arguments and results lie, or of
multiply-adds, whichever would take longer.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.machine import choose_cpus, describe_cpu
from benchmarks.memory.limits import Limits, measure_limits
from benchmarks.memory.program import SIZES
from benchmarks.options import check_words, words
from benchmarks.report import Report, Table
from dyn.profiling.limits import cache_sizes, computing_ns, level_of

#: What is shown unless something else is asked for: a program of each kind.
KERNELS = (
    "row_bias", "column_scale", "swiglu", "bias_gelu", "adam", "softmax", "layer_norm", "column_sums", "sum_all",
    "transpose", "concat_2", "pad", "gather", "cumsum_rows", "stencil",
)  # fmt: skip
#: A program is not called for much longer.
_MOST_SECONDS = 1.0
#: Rows, depth and columns of contractions.
CONTRACTIONS = ((64, 64, 64), (128, 768, 768), (512, 768, 3072), (1024, 1024, 1024))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--programs", default=",".join(KERNELS), help="names, with commas between; 'all' for all")
    parser.add_argument("--sizes", default=",".join(SIZES), help="with commas between (default: %(default)s)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: %(default)s)")
    parser.add_argument("--calls", type=int, default=30, help="calls of each program (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each limit (default: %(default)s)")


def run(arguments: argparse.Namespace) -> Report:
    from benchmarks.memory.programs import programs

    known = programs()
    names = list(known) if arguments.programs == "all" else words(arguments.programs)
    sizes, threads = words(arguments.sizes), [int(word) for word in words(arguments.threads)]
    check_words(("program", names, known), ("size", sizes, SIZES))
    if arguments.calls < 1 or arguments.rounds < 1 or not threads or min(threads) < 1:
        raise ValueError("--calls and --rounds must be at least 1, and so must each of --threads.")
    load = os.getloadavg()[0]
    os.sched_setaffinity(0, choose_cpus(max(threads)))
    limits = measure_limits(threads, arguments.rounds)
    programs_rows = [
        (f"{name}, {size}", [_kernels(known[name], SIZES[size], count, limits, arguments.calls) for count in threads])
        for name in names
        for size in sizes
    ]
    contractions = [
        (" × ".join(map(str, shape)), [_contraction(shape, count, limits, arguments.calls) for count in threads])
        for shape in CONTRACTIONS
    ]
    notes = (
        f"{describe_cpu()}; caches {', '.join(f'{name} {size >> 10:,} KiB' for name, size in cache_sizes().items())}; "
        f"float32; load {load:.1f} when it began.",
        "Copies count bytes read and bytes written; a program's bytes are those of its arguments and results.",
        "A limit is the bandwidth of reads or copies, whichever is greater, or that of multiply-adds in registers.",
    )
    tables = (
        _limits_table(limits, threads),
        _fractions("Kernels, and the part of the limit that they reach", programs_rows, threads),
        _fractions("Contractions, and the part of the limit that they reach", contractions, threads),
    )
    data: dict[str, Any] = {
        "copy": {f"{level} {count}": value for (level, count), value in limits.copy.items()},
        "read": {f"{level} {count}": value for (level, count), value in limits.read.items()},
        "gflops": {f"{element} {count}": value for (element, count), value in limits.gflops.items()},
        "kernels": {name: [asdict(one) for one in columns] for name, columns in programs_rows},
        "contractions": {name: [asdict(one) for one in columns] for name, columns in contractions},
    }
    return Report("Roofline", tables, notes, data)


@dataclass(frozen=True)
class Reached:
    """What a program reaches with one number of threads: GB/s and GFLOP/s, the part of its limit, the limit's name, and
    how many kernels a call launches."""

    gbps: float
    gflops: float
    part: float
    limit: str
    kernels: int


def _kernels(program: Any, size: tuple[int, int], threads: int, limits: Limits, calls: int) -> Reached:
    """What a program's kernels reach, in the quickest of some calls."""
    arrays = program.make(np.random.default_rng(0), *size)
    return _reached(_profiled(program.dyn, arrays, threads, calls), limits, threads)


def _contraction(shape: tuple[int, int, int], threads: int, limits: Limits, calls: int) -> Reached:
    rows, depth, columns = shape
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((rows, depth), "f4"), rng.standard_normal((depth, columns), "f4")
    return _reached(_profiled(lambda x, y: x @ y, arrays, threads, calls), limits, threads)


def _reached(quickest: _Quickest, limits: Limits, threads: int) -> Reached:
    level = level_of(quickest.nbytes, threads)
    moving = quickest.nbytes / max(limits.copy[level, threads], limits.read[level, threads])
    computing = computing_ns(quickest.operations, lambda element: limits.gflops[element, threads])
    limit, needed = (level, moving) if moving >= computing else ("multiply-adds", computing)
    nanoseconds, flops = quickest.seconds * 1e9, sum(quickest.operations.values())
    return Reached(quickest.nbytes / nanoseconds, flops / nanoseconds, needed / nanoseconds, limit, quickest.kernels)


@dataclass(frozen=True)
class _Quickest:
    """Seconds in the kernels of the quickest call, how many there are, the bytes that the program has to move, and its
    operations by dtype.

    Bytes are the bytes of its arguments and results, or those that kernels touch where that is less, as in a gather.
    What kernels hand to one another in memory counts for nothing.
    """

    seconds: float
    kernels: int
    nbytes: int
    operations: dict[str, int]


def _profiled(function: Any, arrays: Sequence[Any], threads: int, calls: int) -> _Quickest:
    import dyn

    compiled = dyn.jit(function)
    with dyn.config.override(num_threads=threads):
        results = compiled(*arrays)
        end = time.perf_counter() + _MOST_SECONDS
        with dyn.profile() as prof:
            for number in range(calls):
                if number and time.perf_counter() > end:
                    break
                compiled(*arrays)
    launches: dict[int, list[Any]] = {}
    for launch in prof.events().launches:
        launches.setdefault(launch.call, []).append(launch)
    quickest = min(launches.values(), key=lambda same: sum(one.duration_ns for one in same))
    given = sum(np.asarray(a).nbytes for a in (*arrays, *(results if isinstance(results, tuple) else (results,))))
    operations: dict[str, int] = {}
    for launch in quickest:
        for name, count in (launch.operations or {}).items():
            operations[name] = operations.get(name, 0) + count
    seconds = max(sum(one.duration_ns for one in quickest), 1) / 1e9
    moved = min(given, sum(one.nbytes or given for one in quickest))
    return _Quickest(seconds, len(quickest), moved, operations)


def _limits_table(limits: Limits, threads: list[int]) -> Table:
    levels = list(dict.fromkeys(level for level, _ in limits.copy))
    rows = [(f"copy, {level}", *[f"{limits.copy[level, count]:.1f}" for count in threads]) for level in levels]
    rows += [(f"read, {level}", *[f"{limits.read[level, count]:.1f}" for count in threads]) for level in levels]
    for element in ("float32", "float64"):
        rates = [f"{limits.gflops[element, count]:.1f}" for count in threads]
        rows.append((f"multiply-adds, {element}, GFLOP/s", *rates))
    return Table("The machine, GB/s", ("", *[_counted(count) for count in threads]), tuple(rows))


def _fractions(title: str, rows: Sequence[tuple[str, list[Reached]]], threads: list[int]) -> Table:
    header = ["", "kernels", "limit"]
    for count in threads:
        header += [f"GB/s, {_counted(count)}", "GFLOP/s", "part"]
    lines: list[tuple[str, ...]] = []
    for name, columns in rows:
        limit = " / ".join(dict.fromkeys(one.limit for one in columns))
        numbers = [text for one in columns for text in (f"{one.gbps:.1f}", f"{one.gflops:.1f}", f"{one.part:.2f}")]
        lines.append((name, str(columns[0].kernels), limit, *numbers))
    return Table(title, tuple(header), tuple(lines))


def _counted(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"
