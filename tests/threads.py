"""Functions that several threads run at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
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
