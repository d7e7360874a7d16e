"""Products of matrices beside JAX, PyTorch, ONNX Runtime, OpenBLAS and oneDNN, and the machine's limits.

Each peer runs in a process of its own, on the same CPUs, and all take turns at a product, round by round; the median of
the rounds counts. Every result is compared with the product in float64 first. Products of at most 8 rows take their
weights from memory: many, in turn. ``--compare A.json B.json`` measures nothing, and lists the rows that dyn lost in
both of two runs.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from benchmarks.machine import choose_cpus, describe_cpu
from benchmarks.memory.limits import Limits, measure_limits
from benchmarks.memory.tables import geometric_mean
from benchmarks.options import words
from benchmarks.peers import peer_names
from benchmarks.products.measuring import Measurement, Plan, Timing
from benchmarks.products.product import FEW_ROWS, Product
from benchmarks.products.shapes import PRODUCTS, QUICK
from benchmarks.report import Report, Table
from benchmarks.stream import choose_peers, plain

#: A row is lost if the quickest other takes less than this part of dyn's time.
LOST = 0.97
#: Rounds of each of the machine's limits; the quickest counts.
_LIMIT_ROUNDS = 31


def add_arguments(parser: argparse.ArgumentParser) -> None:
    known = [name for name in peer_names("product") if name != "dyn"]
    parser.add_argument("--peers", default=",".join(known), help="whom to run beside dyn (default: %(default)s)")
    parser.add_argument("--threads", default="2,1", help="numbers of threads (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="bursts of each call (default: %(default)s)")
    parser.add_argument("--burst-ms", type=float, default=20.0, help="length of a burst (default: %(default)s)")
    parser.add_argument("--cpu-time", action="store_true", help="time one thread by its CPU time: for a busy machine")
    parser.add_argument("--only", metavar="PATTERN", default="", help="rows by name, e.g. 'float32 1x*,* captured'")
    parser.add_argument("--quick", action="store_true", help="a few rows of each kind")
    parser.add_argument(
        "--compare", nargs=2, type=Path, metavar="FILE",
        help="list the rows lost to the peers in both of two runs (of --json), and measure nothing",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> Report:
    peers = choose_peers("product", arguments.peers)
    if arguments.compare is not None:
        first, second = (json.loads(path.read_text(encoding="utf-8")) for path in arguments.compare)
        return compare(first, second, peers)
    products = choose_products(arguments.only, quick=arguments.quick)
    threads = [int(word) for word in words(arguments.threads)]
    if arguments.rounds < 1 or arguments.burst_ms <= 0 or not threads or min(threads) < 1:
        raise ValueError("--rounds must be at least 1, and so must each of --threads; --burst-ms must be more than 0.")
    load = os.getloadavg()[0]
    os.sched_setaffinity(0, choose_cpus(max(threads)))
    limits = measure_limits(threads, _LIMIT_ROUNDS, cpu_time=arguments.cpu_time)
    measurement = Measurement(Plan(products, peers, arguments.rounds, arguments.burst_ms / 1000, arguments.cpu_time))
    for count in threads:
        measurement.run(count)
    return report(measurement, limits, arguments, load)


def choose_products(only: str, *, quick: bool = False) -> list[Product]:
    """The products of shell patterns of names, with commas between.

    Raises:
        ValueError: if a pattern is of none.
    """
    names = [name for name in PRODUCTS if name in QUICK] if quick else list(PRODUCTS)
    patterns = words(only)
    chosen: list[str] = []
    for pattern in patterns:
        found = [name for name in names if fnmatchcase(name, pattern)]
        if not found:
            raise ValueError(f"no row is {pattern!r}; there are rows as {', '.join(QUICK[:3])}.")
        chosen += found
    return [PRODUCTS[name] for name in names if name in chosen or not patterns]


# ---- reporting -------------------------------------------------------------------------------------------------------


def report(measurement: Measurement, limits: Limits, arguments: argparse.Namespace, load: float) -> Report:
    """The tables of what was measured."""
    timings = measurement.timings
    whos = [who for who in measurement.plan.peers if who not in measurement.missing]
    threads = list(dict.fromkeys(timing.threads for timing in timings))
    beside = _times_of_float32(timings)
    tables = [_limits_table(limits, threads)]
    classes = _classes(timings)
    tables += [_rows_table(f"{kind}, {_counted(n)}", rows, whos, limits, beside) for (kind, n), rows in classes.items()]
    tables += [_means_table(classes, whos, limits, beside), _lost_table(timings)]
    machine = describe_cpu()
    return Report(
        "Contractions", tuple(tables), tuple(_notes(measurement, machine, load)),
        {
            "machine": machine, "load": load, "arguments": plain(arguments), "versions": measurement.versions,
            "limits": {
                f"{n}": {"read": limits.read["beyond", n], "gflops": limits.gflops["float32", n]} for n in threads
            },
            "rows": [
                {"name": one.product.name, "kind": one.product.kind, "ratio": one.ratio, "share": one.share(limits)}
                | asdict(one)
                for one in timings
            ],
        },
    )  # fmt: skip


def _notes(measurement: Measurement, machine: str, load: float) -> Iterable[str]:
    plan, versions = measurement.plan, measurement.versions
    yield (
        f"{machine}; pinned; load average {load:.1f} when it began; the median of {plan.rounds} bursts of "
        f"{1000 * plan.seconds:.0f} ms; {'; '.join(versions[who] for who in plan.peers if who in versions)}."
    )
    if any(one.by_cpu_time for one in measurement.timings):
        yield "With one thread, times are those on the CPU, the machine's too."
    share = _computed_share(measurement.timings)
    if share < 0.95:
        yield (
            f"The machine was busy: with one thread, peers computed for {share:.0%} of their time. "
            "Times by the clock tell little then, those of two threads least."
        )
    yield (
        f"Rows × depth × columns; w.T is an operand of columns × depth, x.T one of depth × rows. Up to {FEW_ROWS} rows "
        "the weights come from memory, and bytes are counted; the limit is that of reads. For others it is that of "
        "multiply-adds of float32, for int8 too."
    )
    yield f"Ratios are the time of the quickest other over dyn's: above 1 dyn is quicker; below {LOST} the row is lost."
    yield "OpenBLAS and oneDNN write into one result again and again; others give new ones."
    for who, why in measurement.missing.items():
        yield f"Not installed: {who} ({why})."
    reasons: dict[tuple[str, str], list[str]] = {}
    for timing in measurement.timings:
        for who, why in timing.failed.items():
            names = reasons.setdefault((who, why.removeprefix("NotImplementedError: ")), [])
            names.append(f"{timing.product.name}, {timing.threads} t")
    for (who, why), names in reasons.items():
        yield f"Left out: {who}, {why}: {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}."


def _computed_share(timings: Sequence[Timing]) -> float:
    """The part of the time of one thread in which it had the CPU."""
    single = [one for one in timings if one.threads == 1]
    wall = sum(sum(rounds) for one in single for rounds in one.seconds.values())
    cpu = sum(sum(rounds) for one in single for rounds in one.cpu_seconds.values())
    return cpu / wall if wall else 1.0


def _classes(timings: Sequence[Timing]) -> dict[tuple[str, int], list[Timing]]:
    """The timings of each class of rows and number of threads."""
    kinds = dict.fromkeys(one.product.kind for one in timings)
    threads = dict.fromkeys(one.threads for one in timings)
    keys = [(kind, count) for kind in kinds for count in threads]
    return {key: [one for one in timings if (one.product.kind, one.threads) == key] for key in keys}


def _times_of_float32(timings: Sequence[Timing]) -> dict[tuple[str, int], float]:
    """dyn's speed over that at the same product in float32, of narrow ones, by name and threads."""
    own = {(one.product, one.threads): one.medians["dyn"] for one in timings if "dyn" in one.seconds}
    ratios: dict[tuple[str, int], float] = {}
    for (product, threads), seconds in own.items():
        wide = own.get((product.in_float32(), threads))
        if wide is not None and product.in_float32() != product:
            ratios[product.name, threads] = wide / seconds
    return ratios


def _limits_table(limits: Limits, threads: Sequence[int]) -> Table:
    rows = (
        ("read from memory, GB/s", *[f"{limits.read['beyond', count]:.1f}" for count in threads]),
        ("multiply-adds of float32, GFLOP/s", *[f"{limits.gflops['float32', count]:.0f}" for count in threads]),
    )
    return Table("The machine", ("", *[_counted(count) for count in threads]), rows)


def _rows_table(
    title: str, rows: Sequence[Timing], whos: Sequence[str], limits: Limits, beside: dict[tuple[str, int], float]
) -> Table:
    """Speeds of a class with a number of threads."""
    unit = "GB/s" if rows[0].product.is_few_rows else "GFLOP/s"
    narrow = [beside.get((one.product.name, one.threads)) for one in rows]
    header = [unit, *whos, "best other / dyn", "of the limit"]
    lines: list[tuple[str, ...]] = []
    for one, times in zip(rows, narrow, strict=True):
        cells = [_number(one.rate(who), 1) for who in whos]
        line = [one.product.name, *cells, _number(one.ratio), _number(one.share(limits))]
        lines.append((*line, _number(times)) if any(narrow) else tuple(line))
    return Table(title, (*header, "dyn, × its float32") if any(narrow) else tuple(header), tuple(lines))


def _means_table(
    classes: dict[tuple[str, int], list[Timing]], whos: Sequence[str], limits: Limits,
    beside: dict[tuple[str, int], float],
) -> Table:  # fmt: skip
    """Geometric means by class and threads; of a peer, over the rows that it has."""
    others = [who for who in whos if who != "dyn"]
    header = ("class, threads", "rows", "best other", "least", *others, "of the limit", "× float32")
    lines: list[tuple[str, ...]] = []
    for (kind, threads), rows in classes.items():
        ratios = [one.ratio for one in rows if one.ratio is not None]
        cells = [_mean(one.ratio for one in rows), _number(min(ratios, default=None))]
        for who in others:
            pairs = [one.medians for one in rows if {"dyn", who} <= one.seconds.keys()]
            cells.append(_mean(times[who] / times["dyn"] for times in pairs))
        cells.append(_mean(one.share(limits) for one in rows))
        cells.append(_mean(beside.get((one.product.name, threads)) for one in rows))
        lines.append((f"{kind}, {threads} t", str(len(rows)), *cells))
    return Table("Times of others over dyn's, geometric means", header, tuple(lines))


def _lost_table(timings: Sequence[Timing]) -> Table:
    lines: list[tuple[str, ...]] = []
    for one in timings:
        if one.ratio is not None and one.ratio < LOST:
            times = one.medians
            best = min((who for who in times if who != "dyn"), key=lambda who: times[who])
            micros = [f"{1e6 * times[who]:,.1f}" for who in ("dyn", best)]
            lines.append((f"{one.product.name}, {one.threads} t", f"{one.ratio:.2f}", *micros, best))
    header = ("row", "best other / dyn", "dyn, µs", "best, µs", "best")
    return Table(f"Rows below {LOST}", header, tuple(lines))


def compare(first: dict[str, Any], second: dict[str, Any], peers: Sequence[str]) -> Report:
    """The rows that dyn lost to one of some peers in both of two runs, and how many it lost in one alone.

    Raises:
        ValueError: if no row is in both.
    """
    runs: list[dict[tuple[str, int], float]] = []
    for run in (first, second):
        timings = [Timing.of_data(row, peers) for row in run["rows"]]
        ratios = {(one.product.name, one.threads): one.ratio for one in timings}
        runs.append({key: ratio for key, ratio in ratios.items() if ratio is not None})
    both = [(key, ratio, runs[1][key]) for key, ratio in runs[0].items() if key in runs[1]]
    if not both:
        raise ValueError("the two runs have no row in common.")
    lost = [one for one in both if max(one[1:]) < LOST]
    once = sum(min(one[1:]) < LOST for one in both) - len(lost)
    lines = [(f"{name}, {threads} t", f"{a:.2f}", f"{b:.2f}") for (name, threads), a, b in lost]
    notes = [f"{len(both)} rows in both runs; {len(lost)} lost in both, {once} in one alone, which do not count."]
    notes += [f"{word}: {run['machine']}; load {run['load']:.1f}." for word, run in (("A", first), ("B", second))]
    if first["machine"] != second["machine"]:
        notes.append("The machines differ.")
    table = Table(f"Rows below {LOST} in two runs", ("row", "A", "B"), tuple(lines))
    rows = [{"name": name, "threads": threads, "ratios": [a, b]} for (name, threads), a, b in lost]
    return Report("Contractions, two runs", (table,), tuple(notes), {"lost": rows})


def _mean(values: Iterable[float | None]) -> str:
    return _number(geometric_mean(value for value in values if value is not None))


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None or value != value else f"{value:.{digits}f}"


def _counted(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"
