"""Threads that compile: order, errors, settings, and systems that have no thread or no memory to give."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from dyn import config
from dyn.backends import workers
from dyn.backends.workers import begin_apart, run_apart


def test_results_come_in_order_from_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "workers", lambda: 3)

    def work(number: int) -> tuple[int, bool]:
        return number, threading.current_thread() is threading.main_thread()

    assert run_apart([partial(work, n) for n in range(50)]) == [(n, False) for n in range(50)]
    assert run_apart([]) == []


def test_the_first_error_is_raised_and_no_further_work_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "workers", lambda: 1)
    begun: list[int] = []

    def work(number: int) -> int:
        begun.append(number)
        return 1 // (number - 2)

    with pytest.raises(ZeroDivisionError):
        run_apart([partial(work, n) for n in range(5)])
    assert begun == [0, 1, 2]


def test_settings_are_the_callers() -> None:
    with config.override(default_float="float64"):
        assert run_apart([lambda: config.current().default_float]) == ["float64"]


def test_without_a_thread_the_caller_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    assert run_apart([threading.get_ident] * 3) == [threading.get_ident()] * 3


def test_without_memory_for_a_thread_the_caller_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "fits", lambda size: False)
    assert run_apart([threading.get_ident] * 3) == [threading.get_ident()] * 3


def test_begun_work_has_the_callers_settings_and_its_errors_are_nobodys() -> None:
    seen: list[str] = []
    done = threading.Event()

    def work() -> None:
        seen.append(config.current().default_float)
        done.set()
        raise SystemExit

    with config.override(default_float="float64"):
        begin_apart(work)
    assert done.wait(60)
    assert seen == ["float64"]


@pytest.mark.parametrize("missing", ["thread", "memory"])
def test_nothing_is_begun_without_a_thread(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    if missing == "thread":
        monkeypatch.setattr(threading.Thread, "start", start)
    else:
        monkeypatch.setattr(workers, "fits", lambda size: False)
    seen: list[int] = []
    begin_apart(lambda: seen.append(1))
    assert not seen
