"""Seconds of a compilation, by stage: cold, with machine code from disk, and from memory; and of ``import dyn``.

Each compilation from scratch and each one from disk is a process of its own, with a folder of compiled code that is
empty or holds what an earlier process left. Cells are those of the quickest of several runs, since what disturbs a
machine only ever adds.

Programs of a size (``benchmarks.growing``) are compiled at a quarter, a half and all of it, in processes of their own:
what they take apart from imports, and the exponent with which that grows.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.compiling import PROGRAMS
from benchmarks.growing import GROWING
from benchmarks.machine import describe_cpu
from benchmarks.options import words
from benchmarks.process import ROOT, WorkerError
from benchmarks.report import Report, Table

#: Where machine code comes from, in the order of the columns.
WAYS = ("cold", "from disk", "from memory")
#: Stages that have rows of their own; the others are passes over the program.
STAGES = ("trace", "find", "passes", "stitch", "lower", "render", "compile", "load")
#: What imports are compared; the first is what every program pays.
IMPORTS = ("numpy", "dyn")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--programs", default=",".join([*PROGRAMS, *GROWING]), help="with commas between (default: %(default)s)"
    )
    parser.add_argument("--repeats", type=int, default=5, help="runs of each program each way (default: %(default)s)")


def run(arguments: argparse.Namespace) -> Report:
    programs = words(arguments.programs)
    for name in programs:
        if name not in PROGRAMS and name not in GROWING:
            raise ValueError(f"there is no program {name!r}; there are {', '.join([*PROGRAMS, *GROWING])}.")
    if not programs or arguments.repeats < 1:
        raise ValueError("--programs must name a program, and --repeats be at least 1.")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="dyn-bench-") as folder:
        imports = measure_imports(Path(folder), arguments.repeats)
        measured = {name: measure(name, Path(folder), arguments.repeats) for name in programs if name in PROGRAMS}
        grown = {name: measure_growth(name, Path(folder), arguments.repeats) for name in programs if name in GROWING}
    tables = [table(name, runs) for name, runs in measured.items()]
    if {"gpt", "gpt_step"} <= measured.keys():
        tables.append(ratios_table(measured["gpt"], measured["gpt_step"]))
    if grown:
        tables.append(growth_table(grown))
    notes = (
        f"{describe_cpu()}; load {load:.1f} when it began; the quickest of {arguments.repeats} runs each.",
        "cold: a new process and an empty cache; the rest is mostly the import of llvmlite. From disk: a new process "
        "that finds the whole program, and imports neither llvmlite nor what lowers; from memory: the same program "
        "again in that process.",
        "Seconds by the clock; `CPU` is what the process computed for, which other processes disturb less.",
    )
    title = f"compile: {', '.join(programs)}"
    found = {"programs": measured, "growth": grown, "imports": imports}
    return Report(title, (*tables, imports_table(imports)), notes, found)


# ---- measuring -------------------------------------------------------------------------------------------------------


def environment(folder: Path, cache: Path) -> dict[str, str]:
    """A process's variables: none that slow dyn down, and Python's own compiled code kept, as it is for users."""
    unwanted = ("PYTHONDONTWRITEBYTECODE", "DYN_VERIFY", "DYN_DUMP")
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return kept | {"DYN_CACHE_DIR": str(cache), "PYTHONPYCACHEPREFIX": str(folder / "pyc")}


def python(arguments: Sequence[str], variables: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise WorkerError(f"{' '.join(arguments)} ended with {done.returncode}. Its last words:\n{done.stderr[-2000:]}")
    return done.stdout


def measure(program: str, folder: Path, repeats: int) -> dict[str, list[dict[str, Any]]]:
    """All runs of a program, by where its machine code came from."""
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
    for number in range(repeats):
        variables = environment(folder, folder / f"{program}{number}")
        for way in WAYS[:2]:
            answer = json.loads(python(["-m", "benchmarks.compiling", program], variables))
            first, second = answer["runs"]
            found[way].append(first)
            found["from memory"].append(second)
    return found


def measure_growth(program: str, folder: Path, repeats: int) -> dict[int, dict[str, float]]:
    """The least seconds and bytes of compiling a program, by its size."""
    found: dict[int, dict[str, float]] = {}
    for size in (GROWING[program][1] // 4, GROWING[program][1] // 2, GROWING[program][1]):
        variables = environment(folder, folder / "growing")
        runs = [json.loads(python(["-m", "benchmarks.growing", program, str(size)], variables)) for _ in range(repeats)]
        found[size] = {key: min(run[key] for run in runs) for key in ("cpu_seconds", "bytes")}
    return found


def measure_imports(folder: Path, repeats: int) -> dict[str, list[float]]:
    """Seconds of imports, each in a new process; processes take turns."""
    code = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
    variables = environment(folder, folder / "imports")
    for name in IMPORTS:
        python(["-c", code.format(name)], variables)
    found: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for _ in range(2 * repeats):
        for name in IMPORTS:
            found[name].append(float(python(["-c", code.format(name)], variables)))
    return found


# ---- reporting -------------------------------------------------------------------------------------------------------


def by_stage(run: dict[str, Any]) -> dict[str, float]:
    """A run's seconds by the rows of the table."""
    names: list[str] = [*STAGES, "the rest"]
    rows = dict.fromkeys(names, 0.0)
    for stage, seconds in run["stages"].items():
        rows[stage if stage in rows else "passes"] += seconds
    rows["the rest"] = max(0.0, run["seconds"] - sum(rows.values()))
    return rows


def table(program: str, runs: dict[str, list[dict[str, Any]]]) -> Table:
    best = [min(runs[way], key=lambda run: run["seconds"]) for way in WAYS]
    stages = [by_stage(run) for run in best]
    rows = [(stage, *(milliseconds(column[stage]) for column in stages)) for stage in stages[0]]
    rows.append(("all", *(milliseconds(run["seconds"]) for run in best)))
    rows.append(("CPU", *(milliseconds(min(run["cpu_seconds"] for run in runs[way])) for way in WAYS)))
    return Table(f"{program}, {best[0]['kernels']} kernels: milliseconds", ("", *WAYS), tuple(rows))


def ratios_table(forward: dict[str, list[dict[str, Any]]], step: dict[str, list[dict[str, Any]]]) -> Table:
    """How much longer a step of training takes to compile than the forward pass alone."""
    rows = [
        (name, *(f"{least(step[way], key) / least(forward[way], key):.2f}×" for way in WAYS))
        for name, key in (("all", "seconds"), ("CPU", "cpu_seconds"))
    ]
    return Table("gpt_step / gpt", ("", *WAYS), tuple(rows))


def least(runs: list[dict[str, Any]], key: str) -> float:
    return min(run[key] for run in runs)


def growth_table(grown: dict[str, dict[int, dict[str, float]]]) -> Table:
    """CPU seconds at each size, the exponent of their growth, and the memory that the largest takes."""
    rows: list[tuple[str, ...]] = []
    for name, sizes in grown.items():
        quarter, half, whole = (run["cpu_seconds"] for run in sizes.values())
        exponent = math.log(whole / quarter, 4)
        seconds = [f"{value:.2f}" for value in (quarter, half, whole)]
        rows.append((f"{name}, {max(sizes):,}", *seconds, f"{exponent:.2f}", f"{sizes[max(sizes)]['bytes'] / 1e6:.0f}"))
    columns = ("program, n", "n/4", "n/2", "n", "exponent", "MB at n")
    return Table("growth: CPU seconds", columns, tuple(rows))


def imports_table(imports: dict[str, list[float]]) -> Table:
    rows = [
        (f"import {name}", milliseconds(min(seconds)), milliseconds(statistics.median(seconds)))
        for name, seconds in imports.items()
    ]
    return Table("imports: milliseconds", ("", "quickest", "median"), tuple(rows))


def milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.1f}"
