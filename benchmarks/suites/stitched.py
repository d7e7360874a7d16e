"""Programs of several reductions, gathers and what is around them, forward and backward, beside JAX and PyTorch.

Nothing is declared for dyn. Each number of threads has a process of its own, pinned to as many CPUs. There dyn, JAX
(``jax.jit``), PyTorch eager and ``torch.compile(dynamic=True)`` call a program at a size in turn, in short bursts, of
which the median counts; results are compared with NumPy's in float64 first. What is shown is the quickest of the
others' times over dyn's: above 1 dyn is quicker. Beside it stands what dyn's programs launch, and the bytes that they
move.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from benchmarks.machine import describe_cpu
from benchmarks.memory.measuring import PEERS, Options, Row, measure
from benchmarks.memory.program import SIZES
from benchmarks.memory.tables import best_ratio, geometric_mean, grid, number, times_table
from benchmarks.options import check_words, words
from benchmarks.report import Report, Table
from benchmarks.stitched.programs import programs
from benchmarks.suites.contractions import LOST

#: The fewest bursts that have a median.
_LEAST_ROUNDS = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--programs", default="", help="names or families, with commas between (default: all)")
    parser.add_argument("--sizes", default=",".join(SIZES), help="with commas between (default: %(default)s)")
    parser.add_argument("--threads", default="2,1", help="numbers of threads (default: %(default)s)")
    parser.add_argument(
        "--peers", default="jax,torch,inductor", help=f"among {', '.join(PEERS)} (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=15, help="bursts of each call (default: %(default)s)")
    parser.add_argument("--burst-ms", type=float, default=2.0, help="length of a burst (default: %(default)s)")
    parser.add_argument("--times", action="store_true", help="show microseconds as well")


def run(arguments: argparse.Namespace) -> Report:
    families = {name: program.family for name, program in programs().items()}
    asked = words(arguments.programs) or list(families)
    sizes, peers = words(arguments.sizes), words(arguments.peers)
    known = list(dict.fromkeys([*families, *families.values()]))
    check_words(("program", asked, known), ("size", sizes, SIZES), ("peer", peers, PEERS))
    threads = [int(word) for word in words(arguments.threads)]
    if arguments.rounds < _LEAST_ROUNDS or arguments.burst_ms <= 0 or not threads or min(threads) < 1:
        least = f"--rounds must be at least {_LEAST_ROUNDS}, and each of --threads at least 1"
        raise ValueError(f"{least}; --burst-ms must be more than 0.")
    names = [name for name, family in families.items() if name in asked or family in asked]
    load = os.getloadavg()[0]
    rows: list[Row] = []
    for count in threads:
        options = Options(
            names, sizes, count, peers, arguments.rounds, arguments.burst_ms, table="benchmarks.stitched.programs",
            declared=False, median=True, structure=True,
        )  # fmt: skip
        rows += measure(options)
    return report(rows, families, load, times=arguments.times)


def report(rows: Sequence[Row], families: Mapping[str, str], load: float, *, times: bool) -> Report:
    """The tables of what was measured; ``families`` are those of the programs."""
    tables = [
        grid("Quickest other / dyn", rows, best_ratio, least="least"),
        _means(rows, families),
        _lost(rows),
        _structures(rows),
    ]
    if times:
        tables += [times_table(rows, count) for count in sorted({row.threads for row in rows})]
    failed = [f"{row.program} {row.size}: {who}: {why}" for row in rows for who, why in row.failed.items()]
    notes = (
        f"{describe_cpu()}; float32; load {load:.1f} when it began. Medians. A size is that of the main array: "
        + ", ".join(f"{name} {rows_} × {columns}" for name, (rows_, columns) in SIZES.items())
        + "; t is the number of threads.",
        "Others: " + ", ".join(sorted({who for row in rows for who in row.seconds} - {"dyn"})) + ".",
        "kB are those that the kernels of a call of dyn's read and write, each buffer once a kernel; the least that it "
        "could be are those of arguments and results.",
        *[f"Left out: {text}" for text in dict.fromkeys(failed)],
    )
    data = {"rows": [asdict(row) | {"family": families[row.program]} for row in rows]}
    return Report("Stitched programs", tuple(tables), notes, data)


def _means(rows: Sequence[Row], families: Mapping[str, str]) -> Table:
    """Geometric means of the ratios of a family, by size and number of threads, and of all of them."""
    keys = list(dict.fromkeys((row.size, row.threads) for row in rows))
    keys.sort(key=lambda key: (list(SIZES).index(key[0]), -key[1]))
    ratios = [(row, ratio) for row in rows if (ratio := best_ratio(row)) is not None]
    lines: list[tuple[str, ...]] = []
    for family in dict.fromkeys(families[row.program] for row in rows):
        own = [(row, ratio) for row, ratio in ratios if families[row.program] == family]
        means = [geometric_mean([ratio for row, ratio in own if (row.size, row.threads) == key]) for key in keys]
        lines.append((family, *map(number, means), number(geometric_mean([ratio for _, ratio in own]))))
    return Table("Geometric means", ("", *[f"{size}, {count} t" for size, count in keys], "all"), tuple(lines))


def _lost(rows: Sequence[Row]) -> Table:
    """Rows in which the quickest other takes less than ``LOST`` of dyn's time, the worst first."""
    lost = [(ratio, row) for row in rows if (ratio := best_ratio(row)) is not None and ratio < LOST]
    lines: list[tuple[str, ...]] = []
    for ratio, row in sorted(lost, key=lambda pair: pair[0]):
        seconds, who = min((seconds, who) for who, seconds in row.seconds.items() if who != "dyn")
        times = f"{1e6 * row.seconds['dyn']:,.1f}", f"{1e6 * seconds:,.1f}"
        lines.append((f"{row.program}, {row.size}", str(row.threads), number(ratio), *times, who))
    header = ("", "threads", "ratio", "dyn, µs", "quickest other, µs", "which")
    return Table(f"Rows below {LOST}: {len(lines)} of {len(rows)}", header, tuple(lines))


def _structures(rows: Sequence[Row]) -> Table:
    """Groups of dyn's programs, and at each size what a call launches and moves, with the most threads measured."""
    most = max((row.threads for row in rows), default=0)
    found = {(row.program, row.size): row for row in rows if row.threads == most and row.structure is not None}
    sizes = [size for size in SIZES if any(at[1] == size for at in found)]
    lines: list[tuple[str, ...]] = []
    for name in dict.fromkeys(program for program, _ in found):
        own = {size: found[name, size] for size in sizes if (name, size) in found}
        structures = {size: row.structure for size, row in own.items() if row.structure is not None}
        cells = [str(max(structure["groups"] for structure in structures.values()))]
        for size in sizes:
            if (structure := structures.get(size)) is None:
                cells += ["–"] * 3
            else:
                unknown = "+" if structure["unknown"] else ""
                moved = structure["moved"]
                cells += [str(structure["launches"]), f"{moved / 1e3:,.0f}{unknown}", number(moved / own[size].nbytes)]
        lines.append((name, *cells))
    header = ["", "groups"]
    for size in sizes:
        header += [f"{size}: launches", "kB", "over least"]
    return Table("What a call of dyn's launches and moves", tuple(header), tuple(lines))
