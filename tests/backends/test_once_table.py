"""Values that are made once: threads, errors, forks."""

from __future__ import annotations

import os
import signal
import sys
import threading

import pytest

from dyn.backends.once_table import OnceTable
from tests.threads import in_threads


def test_a_value_is_made_once_by_many_threads() -> None:
    table: OnceTable[int] = OnceTable()
    made: list[int] = []

    def make() -> int:
        made.append(1)
        threading.Event().wait(0.05)
        return 7

    results = in_threads(lambda _: table.get("key", make), range(16))
    assert len(made) == 1
    assert sorted(results) == [(7, False)] * 15 + [(7, True)]
    assert len(table) == 1


def test_different_keys_are_made_at_the_same_time() -> None:
    table: OnceTable[int] = OnceTable()
    both = threading.Barrier(2)

    def make() -> int:
        both.wait(10)  # breaks if the other is not being made meanwhile
        return 1

    assert in_threads(lambda key: table.get(key, make), "ab") == [(1, True)] * 2
    assert len(table) == 2


def test_an_error_is_its_makers_own() -> None:
    table: OnceTable[int] = OnceTable()
    making, fail = threading.Event(), threading.Event()
    errors: list[BaseException] = []
    results: list[tuple[int, bool]] = []

    def broken() -> int:
        making.set()
        fail.wait(10)
        raise KeyboardInterrupt

    def first() -> None:
        try:
            table.get("key", broken)
        except KeyboardInterrupt as error:
            errors.append(error)

    def second() -> None:
        making.wait(10)
        threading.Timer(0.05, fail.set).start()
        results.append(table.get("key", lambda: 3))

    in_threads(lambda work: work(), (first, second))
    assert len(errors) == 1
    assert results == [(3, True)]


def test_a_maker_that_is_interrupted_leaves_nothing_behind() -> None:
    table: OnceTable[int] = OnceTable()
    with pytest.raises(KeyboardInterrupt):
        table.get("key", interrupt)
    results: list[tuple[int, bool]] = []
    thread = threading.Thread(target=lambda: results.append(table.get("key", lambda: 4)), daemon=True)
    thread.start()
    thread.join(60)
    assert results == [(4, True)]


def interrupt() -> int:
    raise KeyboardInterrupt


def test_a_maker_that_needs_its_own_value_does_not_wait_for_itself() -> None:
    table: OnceTable[int] = OnceTable()
    assert table.get("key", lambda: table.get("key", lambda: 5)[0] + 1) == (6, True)
    assert table.get("key", lambda: 0) == (6, False)


def test_forgotten_values_are_made_again() -> None:
    table: OnceTable[int] = OnceTable()
    table.get("key", lambda: 1)
    table.clear()
    assert table.get("key", lambda: 2) == (2, True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # that is the test
def test_a_forked_child_does_not_wait_for_threads_it_has_not() -> None:
    table: OnceTable[int] = OnceTable()
    table.get("known", lambda: 1)
    making, finish = threading.Event(), threading.Event()

    def slow() -> int:
        making.set()
        finish.wait(10)
        return 2

    thread = threading.Thread(target=table.get, args=("key", slow))
    thread.start()
    making.wait(10)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        good = table.get("key", lambda: 3) == (3, True) and table.get("known", lambda: 4) == (1, False)
        os._exit(0 if good else 1)
    finish.set()
    thread.join()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0, sys.platform
    assert table.get("key", lambda: 5) == (2, False)
