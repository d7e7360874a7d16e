"""The thread pool: every piece once, whoever asks, and nobody waits for a worker that has taken nothing."""

from __future__ import annotations

import ctypes
import re
import threading
from typing import Any

import numpy as np
import pytest

from dyn.backends.runtime import native_runtime, thread_count, usable_cpus
from dyn.backends.runtime_tables import _RUNTIME
from tests.runtime.pool_tasks import tasks
from tests.threads import in_threads, system_threads

_TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


def parallel_for(threads: int, fn: int | None, ctx: int, n: int, grain: int) -> int:
    words, long = [ctypes.c_void_p] * 3, ctypes.c_int64
    call = native_runtime().function("dyn_parallel_for", ctypes.c_int32, *words, long, long)
    return call(_RUNTIME.address(threads), fn, ctx, n, grain)


def marks(threads: int, n: int, grain: int) -> np.ndarray[Any, Any]:
    """How often each element was visited; two more at the end that nothing may visit."""
    counts = np.zeros(n + 2, np.int32)
    assert parallel_for(threads, tasks().mark, counts.ctypes.data, n, grain) == 0
    return counts


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [0, 1, 2, 7, 64, 1000, 100_001])
@pytest.mark.parametrize("grain", [-1, 0, 1, 7, 1 << 40, 2**63 - 1])
def test_every_element_is_visited_once(threads: int, n: int, grain: int) -> None:
    counts = marks(threads, n, grain)
    assert (counts[:n] == 1).all()
    assert (counts[n:] == 0).all()


def test_pieces_are_ranges_in_order_and_workers_have_numbers() -> None:
    seen: list[tuple[int, int, int]] = []

    @_TASK
    def task(_: int, begin: int, end: int, worker: int) -> None:
        seen.append((begin, end, worker))

    parallel_for(3, ctypes.cast(task, ctypes.c_void_p).value, 0, 1001, 10)
    pieces = sorted(seen)
    assert [begin for begin, *_ in pieces] == [0, *[end for _, end, _ in pieces[:-1]]]
    assert pieces[-1][1] == 1001
    assert len(pieces) == 12
    assert {end - begin for begin, end, _ in pieces} == {83, 84}
    assert {worker for *_, worker in pieces} <= {0, 1, 2}


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_threads_begin_with_their_shares_and_help_from_the_back(threads: int) -> None:
    """Threads meet at their first pieces; then all but the first one wait, which takes what is left."""
    n, each = 16 * threads, 4
    order: list[tuple[int, int]] = []
    begun, rest = threading.Barrier(threads, timeout=30), threading.Event()

    @_TASK
    def task(_: int, begin: int, end: int, worker: int) -> None:
        first = worker not in {other for other, _ in order}
        order.append((worker, begin // 4))
        if first:
            begun.wait()
            if worker:
                rest.wait(30)
        if len(order) == each * threads:
            rest.set()

    parallel_for(threads, ctypes.cast(task, ctypes.c_void_p).value, 0, n, 1)
    firsts = dict(reversed(order))
    assert firsts == {worker: each * worker for worker in range(threads)}
    own = list(range(each))
    others = [each * worker + at for worker in range(1, threads) for at in reversed(range(1, each))]
    assert [piece for worker, piece in order if worker == 0] == own + others


def test_a_job_inside_a_job_runs_at_once() -> None:
    counts = np.zeros(64, np.int32)

    @_TASK
    def task(_: int, begin: int, end: int, worker: int) -> None:
        parallel_for(4, tasks().mark, counts.ctypes.data + 4 * begin, end - begin, 1)

    parallel_for(4, ctypes.cast(task, ctypes.c_void_p).value, 0, 64, 1)
    assert (counts == 1).all()


def test_many_threads_with_jobs_of_their_own() -> None:
    """Small jobs in quick succession: a worker that read a job's fields late must not take another's piece."""

    def work(number: int) -> int:
        good = 0
        for round in range(3000):
            n = 1 + (number * 7 + round) % 90
            counts = marks(2 + number % 7, n, 1)
            good += bool((counts[:n] == 1).all() and (counts[n:] == 0).all())
        return good

    assert in_threads(work, range(8)) == [3000] * 8


def test_workers_are_made_once_and_no_more_than_asked_for() -> None:
    runtime = native_runtime()
    marks(8, 1000, 1)
    before = runtime.workers()
    assert before >= 7
    for _ in range(20):
        marks(8, 1000, 1)
        marks(1, 1000, 1)
    assert runtime.workers() == before
    assert len(system_threads("dyn worker")) == before


def test_workers_block_signals() -> None:
    """SIGKILL and SIGSTOP cannot be blocked, nor the two that the C library keeps for itself."""
    marks(2, 1000, 1)
    blocked = [re.search(r"SigBlk:\s*(\w+)", status) for status in system_threads("dyn worker").values()]
    masks = [int(found[1], 16) for found in blocked if found is not None]
    allowed = sum(1 << (signal - 1) for signal in (9, 19, 32, 33))
    assert masks
    assert all(mask | allowed == 2**64 - 1 for mask in masks)


def test_workers_compute_with_the_callers_modes() -> None:
    """Flushing denormals to zero, as PyTorch's set_flush_denormal does, reaches every piece."""
    flush = 0x8040
    found: list[np.ndarray[Any, Any]] = []

    def work() -> None:
        before = tasks().get_modes()
        for modes in (before | flush, before):
            tasks().set_modes(modes)
            for _ in range(200):
                out = np.zeros(1000, np.int32)
                parallel_for(4, tasks().modes, out.ctypes.data, 1000, 1)
                found.append((out & flush) == (modes & flush))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert np.all(found)


def test_the_number_of_threads() -> None:
    assert thread_count(0) == usable_cpus()
    assert thread_count(3) == 3
    assert thread_count(1 << 40) == 1024
