"""Averages of a profile's events over equal kernels, as a table: PyTorch's ``key_averages``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dyn.late_imports import import_whole
from dyn.profiling.events import CallEvent, CompileStage, Events, LaunchEvent

#: What a call does beside its launches, in the place of a kernel's name.
HOST = "(host program)"


@dataclass(frozen=True, slots=True)
class Average:
    """Launches of one kernel and variant, or the host program's own time in the calls of a function.

    Times are in nanoseconds, and summed over ``count`` launches unless they say otherwise.

    Attributes:
        function: name of the compiled function.
        kernel: line of the kernel in ``explain()``; ``"(host program)"`` for what calls take beside their launches.
        group: kind of group: ``"loop"``, ``"stitch"``, …
        variant: words of the variant, and the condition under which it is chosen.
        space: sizes of the iteration space; None where launches of all sizes are taken together.
        count: launches; for the host program, calls.
        total_ns: time in all.
        least_ns: time of the shortest launch.
        most_ns: time of the longest launch.
        share: part of the time of all calls.
        threads: threads that took part, on average.
        wait_ns: time between the end of the first and of the last thread of a launch.
        nbytes: bytes that were moved, by the formulas of what kernels read and write; None where there is none.
        flops: operations, as ``cost_analysis()`` counts them; None where they are counted with another kernel, or
            nothing says how many there are.
        launches: launches that it is of.
    """

    function: str
    kernel: str
    group: str
    variant: str
    space: tuple[int, ...] | None
    count: int
    total_ns: int
    least_ns: int
    most_ns: int
    share: float
    threads: float
    wait_ns: int
    nbytes: int | None
    flops: int | None = None
    launches: tuple[LaunchEvent, ...] = field(default=(), repr=False)

    @property
    def mean_ns(self) -> float:
        """Time of a launch on average."""
        return self.total_ns / self.count

    @property
    def gbps(self) -> float | None:
        """Bytes a nanosecond, which are GB/s."""
        return None if self.nbytes is None or not self.total_ns else self.nbytes / self.total_ns

    @property
    def gflops(self) -> float | None:
        """Operations a nanosecond, which are GFLOP/s."""
        return None if self.flops is None or not self.total_ns else self.flops / self.total_ns

    @property
    def share_of_limit(self) -> float | None:
        """Part of the time that the machine needs at its best for the bytes or the operations, whichever take longer.

        The machine's limits are those of all threads that calls may use, at the level of memory that the bytes of a
        launch fit in. They are measured by the first row that is asked, once in a process. None on GPUs, and where
        nothing says how much was to be done.
        """
        if not self.total_ns or not self.launches or any(launch.on_device for launch in self.launches):
            return None
        import_whole("dyn.profiling.limits")
        from dyn.profiling.limits import all_threads, needed_ns

        threads, needed = all_threads(), 0.0
        for launch in self.launches:
            if launch.nbytes is None and launch.operations is None:
                return None
            needed += needed_ns(launch.nbytes, launch.operations, threads)
        return needed / self.total_ns


#: What a table can be sorted by: dyn's names, and PyTorch's for the same.
_SORT: Mapping[str, Callable[[Average], float]] = {
    "total": lambda row: row.total_ns, "cpu_time_total": lambda row: row.total_ns,
    "self_cpu_time_total": lambda row: row.total_ns,
    "mean": lambda row: row.mean_ns, "cpu_time": lambda row: row.mean_ns, "self_cpu_time": lambda row: row.mean_ns,
    "count": lambda row: row.count, "wait": lambda row: row.wait_ns,
    "bytes": lambda row: row.nbytes or 0, "gbps": lambda row: row.gbps or 0.0,
    "flops": lambda row: row.flops or 0, "gflops": lambda row: row.gflops or 0.0,
}  # fmt: skip
_WIDEST = 56


class Averages(Sequence[Average]):
    """Rows of a profile, those that took most time first: a sequence of :class:`Average`.

    Args:
        rows: the averages.
        events: what they are averages of.
        limits: whether the text tells the share of the machine's limit.
    """

    def __init__(self, rows: Sequence[Average], events: Events, limits: bool = True) -> None:
        self._rows = tuple(rows)
        self._events = events
        self._limits = limits

    def __getitem__(self, index: int) -> Average:  # pyright: ignore[reportIncompatibleMethodOverride]  # no slices
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Average]:
        return iter(self._rows)

    def table(self, sort_by: str = "total", row_limit: int = 100) -> str:
        """Text of the rows.

        Args:
            sort_by: ``"total"``, ``"mean"``, ``"count"``, ``"wait"``, ``"bytes"``, ``"gbps"``, ``"flops"`` or
                ``"gflops"``, the largest first; as well as PyTorch's ``"cpu_time_total"``, ``"self_cpu_time_total"``,
                ``"cpu_time"`` and ``"self_cpu_time"``.
            row_limit: number of rows that are shown; -1 for all.

        Returns:
            The table, and lines of what it leaves out.

        Raises:
            ValueError: where a profile cannot be sorted by that.
        """
        if sort_by not in _SORT:
            raise ValueError(f"a profile is sorted by one of {', '.join(_SORT)}, and not by {sort_by!r}.")
        rows = sorted(self._rows, key=_SORT[sort_by], reverse=True)
        shown = rows if row_limit < 0 else rows[:row_limit]
        lines = aligned(HEADS, [self.cells(row) for row in shown])
        if len(shown) < len(rows):
            lines.append(f"… and {len(rows) - len(shown)} more")
        return "\n".join([*lines, *summary(self._events)])

    def cells(self, row: Average) -> tuple[str, ...]:
        """Texts of a row, by column.

        Args:
            row: one of the rows.

        Returns:
            A text for each of the columns; empty where a row has none.
        """
        share = row.share_of_limit if self._limits else None
        return (*cells(row), "" if share is None else f"{100 * share:.0f}%")

    def __str__(self) -> str:
        return self.table()


#: Columns of the table. Those after the third are numbers.
HEADS = (
    "function", "kernel", "variant", "sizes", "count", "total ms", "share", "mean us", "least us", "most us", "threads",
    "wait us", "MB", "GB/s", "GFLOP/s", "of limit",
)  # fmt: skip
TEXTS = 4


def cells(row: Average) -> tuple[str, ...]:
    """A row's cells, without the last."""
    space = "" if row.space is None else f"[{', '.join(map(str, row.space))}]"
    is_host = row.kernel == HOST
    return (
        row.function, row.kernel, row.variant, space, f"{row.count:,}", f"{row.total_ns / 1e6:.3f}",
        f"{100 * row.share:.1f}%", f"{row.mean_ns / 1e3:.2f}", f"{row.least_ns / 1e3:.2f}", f"{row.most_ns / 1e3:.2f}",
        "" if is_host else f"{row.threads:.1f}", "" if is_host else f"{row.wait_ns / row.count / 1e3:.2f}",
        "" if row.nbytes is None else f"{row.nbytes / row.count / 1e6:.3f}",
        "" if row.gbps is None else f"{row.gbps:.1f}", "" if row.gflops is None else f"{row.gflops:.1f}",
    )  # fmt: skip


def summary(events: Events) -> list[str]:
    """Lines of what the rows leave out: calls, compilations, what was dropped."""
    total = sum(call.duration_ns for call in events.calls)
    failed = sum(call.failed for call in events.calls)
    lines = [f"{len(events.calls):,} calls of {total / 1e6:.3f} ms{f', of which {failed} failed' if failed else ''}"]
    by_function: dict[str, list[CompileStage]] = {}
    for stage in events.compiles:
        by_function.setdefault(stage.function, []).append(stage)
    for function, stages in by_function.items():
        times: dict[str, int] = {}
        for stage in stages:
            times[stage.stage] = times.get(stage.stage, 0) + stage.duration_ns
        parts = ", ".join(f"{name} {ns / 1e6:.1f}" for name, ns in times.items() if ns >= 50_000)
        lines.append(f"compiling {function}: {sum(times.values()) / 1e6:.1f} ms ({parts})")
    if events.dropped:
        lines.append(f"{events.dropped:,} records had no room: give profile() a larger memory_limit")
    return lines


def aligned(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table in which columns are aligned; those without a cell are left out."""
    kept = [i for i in range(len(heads)) if any(row[i] for row in rows)]
    lines = [[heads[i] for i in kept], *[[_cut(row[i]) for i in kept] for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(kept))]
    made: list[str] = []
    for line in lines:
        parts = [
            text.ljust(width) if at < TEXTS else text.rjust(width)
            for at, text, width in zip(kept, line, widths, strict=True)
        ]
        made.append("  ".join(parts).rstrip())
    rule = "  ".join("-" * width for width in widths)
    return [made[0], rule, *made[1:]]


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def average(events: Events, *, group_by_input_shape: bool, limits: bool = True) -> Averages:
    """The averages of a profile's launches and of its calls' host programs."""
    launches: dict[tuple[object, ...], list[LaunchEvent]] = {}
    for launch in events.launches:
        space = launch.space if group_by_input_shape else None
        launches.setdefault((launch.function, launch.kernel, space), []).append(launch)
    total = max(sum(call.duration_ns for call in events.calls), 1)
    rows = [_of_launches(same, total, group_by_input_shape) for same in launches.values()]
    calls: dict[str, list[CallEvent]] = {}
    for call in events.calls:
        calls.setdefault(call.function, []).append(call)
    for function, same in calls.items():
        times = [call.host_ns for call in same]
        least, most, share = min(times), max(times), sum(times) / total
        rows.append(Average(function, HOST, "host", "", None, len(same), sum(times), least, most, share, 1.0, 0, None))
    rows.sort(key=lambda row: row.total_ns, reverse=True)
    return Averages(rows, events, limits)


def _of_launches(same: Sequence[LaunchEvent], total: int, by_shape: bool) -> Average:
    first, times = same[0], [launch.duration_ns for launch in same]
    moved = [launch.nbytes for launch in same if launch.nbytes is not None]
    operations = [launch.flops for launch in same if launch.flops is not None]
    kernel = first.kernel
    return Average(
        first.function, kernel.title, kernel.group,
        f"{kernel.variant}{f' when {kernel.when}' if kernel.when else ''}",
        first.space if by_shape else None, len(same), sum(times), min(times), max(times), sum(times) / total,
        sum(launch.threads for launch in same) / len(same), sum(launch.wait_ns for launch in same),
        sum(moved) if len(moved) == len(same) else None,
        sum(operations) if len(operations) == len(same) else None, tuple(same),
    )  # fmt: skip
