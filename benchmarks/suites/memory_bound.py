"""Memory-bound programs with nothing declared, beside JAX, PyTorch, NumPy, and themselves with every dim declared.

Each number of threads has a process of its own, pinned to as many CPUs. There a program at a size is called by all in
turn, in short bursts, of which the quickest counts; results are compared with NumPy's first. What is shown is the
quickest of the others' times over dyn's: above 1 dyn is quicker.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.machine import describe_cpu
from benchmarks.memory.measuring import DECLARED, PEERS, Options, Row, measure
from benchmarks.memory.program import SIZES
from benchmarks.memory.programs import programs
from benchmarks.memory.tables import best_ratio, declared_ratio, grid, quotient, times_table
from benchmarks.options import check_words, words
from benchmarks.report import Report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--programs", default="", help="names, with commas between (default: all)")
    parser.add_argument("--sizes", default=",".join(SIZES), help="with commas between (default: %(default)s)")
    parser.add_argument("--threads", default="2,1", help="numbers of threads (default: %(default)s)")
    parser.add_argument("--peers", default="jax,torch,numpy", help=f"among {', '.join(PEERS)} (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=10, help="bursts of each call (default: %(default)s)")
    parser.add_argument("--burst-ms", type=float, default=2.0, help="length of a burst (default: %(default)s)")
    parser.add_argument("--cpu-time", action="store_true", help="time one thread by its CPU time: for a busy machine")
    parser.add_argument("--times", action="store_true", help="show microseconds as well")


def run(arguments: argparse.Namespace) -> Report:
    known = list(programs())
    names = words(arguments.programs) or known
    sizes, peers = words(arguments.sizes), words(arguments.peers)
    check_words(("program", names, known), ("size", sizes, SIZES), ("peer", peers, PEERS))
    threads = [int(word) for word in words(arguments.threads)]
    if arguments.rounds < 1 or arguments.burst_ms <= 0 or not threads or min(threads) < 1:
        raise ValueError("--rounds must be at least 1, and so must each of --threads; --burst-ms must be more than 0.")
    load = os.getloadavg()[0]
    rows: list[Row] = []
    for count in threads:
        cpu_time = arguments.cpu_time and count == 1
        rows += measure(Options(names, sizes, count, peers, arguments.rounds, arguments.burst_ms, cpu_time))
    return report(rows, load, times=arguments.times, clock="CPU time with one thread" if arguments.cpu_time else "")


def report(rows: Sequence[Row], load: float, *, times: bool, clock: str = "") -> Report:
    """The tables of what was measured."""
    tables = [
        grid("Quickest other / dyn", rows, best_ratio, least="least"),
        grid("Nothing declared / every dim declared", rows, declared_ratio, least="most"),
    ]
    threads = sorted({row.threads for row in rows})
    if len(threads) > 1:
        few, many = threads[0], threads[-1]
        single = {(row.program, row.size): row.seconds for row in rows if row.threads == few}
        several = [row for row in rows if row.threads == many]

        def speedup(row: Row) -> float | None:
            return quotient(single.get((row.program, row.size), {}).get("dyn"), row.seconds.get("dyn"))

        tables.append(grid(f"dyn with {many} threads / with {few}", several, speedup, least="least"))
    if times:
        tables += [times_table(rows, count) for count in threads]
    failed = [f"{row.program} {row.size}: {who}: {why}" for row in rows for who, why in row.failed.items()]
    notes = (
        f"{describe_cpu()}; float32; load {load:.1f} when it began{f'; {clock}' if clock else ''}. "
        "A size is that of the main array: "
        + ", ".join(f"{name} {rows_} × {columns}" for name, (rows_, columns) in SIZES.items())
        + "; t is the number of threads.",
        "Others: " + ", ".join(sorted({who for row in rows for who in row.seconds} - {"dyn", DECLARED})) + ".",
        *[f"Left out: {text}" for text in dict.fromkeys(failed)],
    )
    return Report("Memory-bound programs", tuple(tables), notes, {"rows": [asdict(row) for row in rows]})
