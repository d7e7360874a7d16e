"""A profile in the Trace Event Format, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

The format is that of Google's document "Trace Event Format": complete events (``"X"``), in microseconds, on a track for
each thread. On the thread that calls, a call holds its launches, and these the pieces that the thread ran itself; the
pieces that others ran are on theirs.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from typing import Any

from dyn.profiling.events import Events

Event = dict[str, Any]


def trace(events: Events) -> dict[str, Any]:
    """The trace, as JSON takes it."""
    return {"traceEvents": list(_events(events)), "displayTimeUnit": "ms"}


def export(events: Events, path: str | os.PathLike[str]) -> None:
    """Write the trace to a file; compressed where its name ends in ``.gz``."""
    text = json.dumps(trace(events))
    if os.fspath(path).endswith(".gz"):
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write(text)
    else:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def _events(events: Events) -> Iterator[Event]:
    process = os.getpid()

    def complete(name: str, category: str, thread: int, start: int, end: int, **details: Any) -> Event:
        return {
            "ph": "X", "name": name, "cat": category, "pid": process, "tid": thread, "ts": start / 1e3,
            "dur": (end - start) / 1e3, "args": {key: value for key, value in details.items() if value is not None},
        }  # fmt: skip

    yield {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": "dyn"}}
    for thread, name in events.threads.items():
        yield {"ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name}}
    for stage in events.compiles:
        yield complete(
            f"{stage.stage} {stage.function}", "compile", stage.thread, stage.start_ns, stage.end_ns,
            function=stage.function,
        )  # fmt: skip
    for call in events.calls:
        yield complete(
            call.function, "call", call.thread, call.start_ns, call.end_ns,
            dims=dict(call.dims), host_us=call.host_ns / 1e3, failed=call.failed or None,
        )  # fmt: skip
    for launch in events.launches:
        kernel = launch.kernel
        yield complete(
            kernel.title, kernel.group, launch.thread, launch.start_ns, launch.end_ns,
            function=launch.function, variant=kernel.variant, when=kernel.when or None, sizes=list(launch.space),
            dims=dict(launch.dims), grid=launch.grid, threads=launch.threads, wait_us=launch.wait_ns / 1e3,
            bytes=launch.nbytes, gbps=launch.gbps, flops=launch.flops, gflops=launch.gflops,
            lines=list(kernel.lines),
        )  # fmt: skip
        for piece in launch.pieces:
            yield complete(
                f"{kernel.title} [{piece.begin}:{piece.end}]", "piece", piece.thread, piece.start_ns, piece.end_ns,
                function=launch.function, iterations=piece.end - piece.begin,
            )  # fmt: skip
