"""Tables of what was measured of programs: ratios by program, size and number of threads, and times."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from benchmarks.memory.measuring import DECLARED, PEERS, Row
from benchmarks.memory.program import SIZES
from benchmarks.report import Table


def best_ratio(row: Row) -> float | None:
    """The quickest other's time over dyn's."""
    others = [seconds for who, seconds in row.seconds.items() if who not in ("dyn", DECLARED)]
    return quotient(min(others, default=None), row.seconds.get("dyn"))


def declared_ratio(row: Row) -> float | None:
    """dyn's time with nothing declared over its time with every dim declared."""
    return quotient(row.seconds.get("dyn"), row.seconds.get(DECLARED))


def quotient(one: float | None, other: float | None) -> float | None:
    """None where one of the two is."""
    return None if one is None or other is None else one / other


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean; NaN of nothing."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def grid(title: str, rows: Sequence[Row], ratio: Callable[[Row], float | None], *, least: str) -> Table:
    """A ratio by program, and by size and number of threads; with the mean, and the worst."""
    keys = list(dict.fromkeys((row.size, row.threads) for row in rows))
    keys.sort(key=lambda key: (list(SIZES).index(key[0]), -key[1]))
    found = {(row.program, row.size, row.threads): ratio(row) for row in rows}
    lines: list[tuple[str, ...]] = []
    for name in dict.fromkeys(row.program for row in rows):
        lines.append((name, *[number(found.get((name, *key))) for key in keys]))
    columns = [[value for at, value in found.items() if at[1:] == key and value is not None] for key in keys]
    worst = min if least == "least" else max
    lines.append(("geometric mean", *[number(geometric_mean(column)) for column in columns]))
    lines.append((least, *[number(worst(column, default=None)) for column in columns]))
    return Table(title, ("", *[f"{size}, {threads} t" for size, threads in keys]), tuple(lines))


def number(value: float | None) -> str:
    """``1.23``, or a dash for what is not known."""
    return "–" if value is None or math.isnan(value) else f"{value:.2f}"


def times_table(rows: Sequence[Row], threads: int) -> Table:
    """Microseconds of a call by who makes it, and the bandwidth of dyn."""
    whos = [who for who in ("dyn", DECLARED, *PEERS) if any(who in row.seconds for row in rows)]
    lines = [
        (
            f"{row.program}, {row.size}",
            *[f"{1e6 * row.seconds[who]:,.1f}" if who in row.seconds else "–" for who in whos],
            "–" if "dyn" not in row.seconds else f"{row.nbytes / row.seconds['dyn'] / 1e9:.1f}",
        )
        for row in rows
        if row.threads == threads
    ]
    return Table(f"Microseconds, {threads} threads", ("", *whos, "dyn, GB/s"), tuple(lines))
