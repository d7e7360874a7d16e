"""The times of all questions that tests ask the solver of shapes.

A plugin of pytest: ``pytest -p benchmarks.questions tests/shapes`` times each question from outside of the
solver, and writes lists of seconds by kind into the file that ``DYN_QUESTIONS`` names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.process import ROOT, WorkerError

#: What is a question: asking, adding a fact, and simplification.
_METHODS = ("ask", "assume", "declare", "implies", "simplify", "bounds", "multiple")

_times: defaultdict[str, list[float]] = defaultdict(list)
_inside: list[str] = []


def _timed(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def asked(self: object, *args: Any, **kwargs: Any) -> Any:
        if _inside:
            return method(self, *args, **kwargs)
        _inside.append(name)
        start = time.thread_time()
        try:
            return method(self, *args, **kwargs)
        finally:
            _times[name].append(time.thread_time() - start)
            _inside.pop()

    # dyn takes a frame of a file for the user's line, and one of generated code for none.
    asked.__code__ = asked.__code__.replace(co_filename="<string>")
    return asked


def pytest_configure() -> None:
    from dyn.shapes import Facts  # by now the tests' conftest.py has set what dyn reads from the environment

    for name in _METHODS:
        setattr(Facts, name, _timed(name, getattr(Facts, name)))


def pytest_unconfigure() -> None:
    Path(os.environ["DYN_QUESTIONS"]).write_text(json.dumps(_times), encoding="utf-8")


def asked_by(tests: list[str], answers: Path) -> dict[str, list[float]]:
    """Seconds of each question that these tests ask, by kind."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "benchmarks.questions", *tests],
        cwd=ROOT,
        env={**os.environ, "DYN_QUESTIONS": str(answers), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise WorkerError(f"the tests {' '.join(tests)} ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return json.loads(answers.read_text(encoding="utf-8"))


def quantile(seconds: list[float], share: float) -> float:
    """The time that a share of the questions does not exceed."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
