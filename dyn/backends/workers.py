"""Threads that compile, so that those that call only wait.

Python handles signals in the main thread, between any two steps. There Ctrl-C would leave llvmlite's lock taken, which
is written in Python, and would have to wait until LLVM returns. Here the main thread waits, and is interrupted at
once; what has been begun is finished by the thread that does it, and kept for whoever asks next.

Several kernels are compiled at the same time: code generation runs without the GIL and past llvmlite's lock. Threads
are started for one program and end with it. They are no daemons, so that the process does not end under LLVM's feet.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import Generic, TypeVar

from dyn.runtime.address_space import fits

T = TypeVar("T")

_MOST_WORKERS = 8
#: A thread's stack and what it allocates first. One that has no memory to begin with dies before it can say so, and
#: Thread.start waits for it for ever.
_THREAD_BYTES = 32 << 20


def workers() -> int:
    """Number of threads that compile one program."""
    return min(len(os.sched_getaffinity(0)), _MOST_WORKERS)


def run_apart(works: Sequence[Callable[[], T]]) -> list[T]:
    """Results of ``works`` in their order, each called by one of several threads.

    They see the settings of the caller. The first error in their order is raised; when there is one, or the caller is
    interrupted, no further work is begun.

    While the process ends, and where the system has no thread to give, the caller does it all.
    """
    if not works:
        return []
    return _Batch(works).run()


def begin_apart(work: Callable[[], object]) -> None:
    """Have a thread do ``work``, which makes what others will need, with the settings of the caller; do not wait.

    Nobody sees its errors: who needs what it could not make tries again. Nothing is begun where there is no thread for
    it.
    """

    def run() -> None:
        with suppress(BaseException):
            work()

    if threading.main_thread().is_alive() and fits(_THREAD_BYTES):
        with suppress(RuntimeError):
            threading.Thread(target=copy_context().run, args=(run,), name="dyn-compile", daemon=False).start()


class _Batch(Generic[T]):
    def __init__(self, works: Sequence[Callable[[], T]]) -> None:
        self._works = works
        self._todo = iter(range(len(works)))
        self._results: dict[int, T] = {}
        self._errors: dict[int, BaseException] = {}
        self._stop = False

    def run(self) -> list[T]:
        try:
            # A lock for each thread, which it releases at its end. Thread.join may not be interrupted in the middle.
            ends = self._start(min(workers(), len(self._works)))
            if not ends:
                self._work()
            for end in ends:
                end.acquire()
        finally:
            self._stop = True
        if self._errors:
            try:
                raise self._errors[min(self._errors)]
            finally:
                self._errors.clear()  # an error holds this frame, which is not to hold it in turn
        return [self._results[number] for number in range(len(self._works))]

    def _start(self, count: int) -> list[threading.Lock]:
        ends: list[threading.Lock] = []
        if not threading.main_thread().is_alive():
            return ends  # nobody would wait any more for a thread that were started now
        for _ in range(count):
            if not fits(_THREAD_BYTES):
                break
            end = threading.Lock()
            end.acquire()
            try:
                threading.Thread(
                    target=copy_context().run, args=(self._work, end), name="dyn-compile", daemon=False
                ).start()
            except RuntimeError:  # the system, or an interpreter that is going down, has no thread for us
                break
            ends.append(end)
        return ends

    def _work(self, end: threading.Lock | None = None) -> None:
        try:
            for number in self._todo:
                try:
                    self._results[number] = self._works[number]()
                except BaseException as error:
                    self._errors[number] = error
                    self._stop = True
                if self._stop:
                    break
        finally:
            if end is not None:
                end.release()
