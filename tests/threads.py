"""Functions that several threads run at once, and the threads of this process as the system lists them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_threads(work: Callable[[T], R], arguments: Iterable[T]) -> list[R]:
    """The results of ``work``, called for each argument by a thread of its own.

    None begins before all threads are there. Raises the error of the first argument that has one, after all have ended.
    """
    arguments = list(arguments)
    start = threading.Barrier(len(arguments), timeout=60)

    def run(argument: T) -> R:
        start.wait()
        return work(argument)

    with ThreadPoolExecutor(len(arguments)) as pool:
        return list(pool.map(run, arguments))


def system_threads(name: str) -> dict[int, str]:
    """``/proc``'s status of each thread of this process that has a name, by its number.

    A thread may end while it is looked at, as one that compiles does: it is not listed.
    """
    found: dict[int, str] = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            status = (task / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if status.startswith(f"Name:\t{name}\n"):
            found[int(task.name)] = status
    return found
