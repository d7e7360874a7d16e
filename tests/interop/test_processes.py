"""The tools of the runs over JAX's examples: processes that may die, files of outcomes, comparisons."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.interop import outcomes
from tests.interop.outcomes import Outcome, append, read_outcomes, share, table
from tests.interop.processes import Lost, in_processes

HERE = "tests.interop.test_processes"


def work(task: str) -> str:
    """The work of the processes in these tests."""
    match task:
        case "dies":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "hangs":
            time.sleep(600)
        case "raises":
            raise ValueError("no such number")
        case _:
            return f"{task} with {os.environ['DYN_TESTS_WORD']}"
    raise AssertionError


def test_a_process_that_dies_or_hangs_is_an_answer() -> None:
    tasks = ["one", "dies", "two", "hangs", "raises", "three"]
    setup = {"DYN_TESTS_WORD": "words"}
    answers = dict(in_processes(f"{HERE}:work", tasks, workers=2, limit=5.0, setup=setup))
    assert [answers[t] for t in ("one", "two", "three")] == ["one with words", "two with words", "three with words"]
    assert answers["hangs"] == Lost("hung", "longer than 5 s")
    assert answers["raises"] == Lost("raised", "ValueError: no such number")
    assert answers["dies"] == Lost("crashed", "SIGSEGV: Fatal Python error: Segmentation fault")


def test_work_that_cannot_be_imported_is_an_error() -> None:
    with pytest.raises(RuntimeError) as caught:
        list(in_processes("tests.interop.nowhere:work", ["one"], workers=1, limit=5.0))
    assert str(caught.value) == (
        "tests.interop.nowhere:work cannot be imported: exit code 1: "
        "ModuleNotFoundError: No module named 'tests.interop.nowhere'"
    )


def test_files_of_outcomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "KNOWN", ((r"wait for", "queues come later"),))
    path = tmp_path / "made" / "outcomes.jsonl"
    assert read_outcomes(path) == []
    made = [
        Outcome("sin", "sin_f32", "passed", "", 0.5), Outcome("sin", "sin_f64", "failed", "other numbers"),
        Outcome("cos", "cos_f32", "refused", "there is nothing to wait for."),
        Outcome("cos", "cos_f64", "not exported", "ValueError: no"),
    ]  # fmt: skip
    for outcome in made:
        append(path, outcome)
    assert read_outcomes(path) == made
    assert share(o.kind for o in made) == 1 / 3
    lines = table(made).splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["primitive", "passed", "gap", "refused", "failed", "crashed", "hung", "not", "exported"],
        ["cos", "1", "1"], ["sin", "1", "1"], ["all", "1", "1", "1", "1"],
    ]  # fmt: skip
    assert lines[4] == "33.33 % of what JAX exports pass"


def example(group: str, **params: Any) -> Any:
    return SimpleNamespace(group_name=group, params=params)


def test_comparisons() -> None:
    pytest.importorskip("jax")
    from tests.interop.tolerances import compared

    x = np.array([1.0, np.nan, np.inf, 0.0], np.float32)
    sin = example("sin")
    assert compared(sin, [], [x], [x.copy()]) == ("passed", "")
    assert compared(sin, [], [x], [x * np.float32(1 + 1e-6)]) == ("passed", "")
    assert compared(sin, [], [x], [x * np.float32(1 + 1e-5)])[0] == "failed"
    assert compared(sin, [], [x], [-x]) == ("failed", "result 0: inf is not -inf")
    assert compared(sin, [], [x], [x.astype(np.float64)]) == ("failed", "float32(4,) is not float64(4,)")
    assert compared(sin, [], [x], [x, x]) == ("failed", "1 results, not 2")
    whole = np.arange(4)
    assert compared(sin, [], [whole], [whole[::-1]]) == ("failed", "result 0: 4 of 4 integers differ")
    tie = example("sort", is_stable=False, num_keys=1)
    keys = np.zeros(4, np.int32)
    assert compared(tie, [], [keys, whole], [keys, whole[::-1]]) == ("passed", "")
    assert compared(tie, [], [keys, whole], [keys, whole + 1])[0] == "failed"
    strict = example("sort", is_stable=True, num_keys=1)
    assert compared(strict, [], [keys, whole], [keys, whole[::-1]])[0] == "failed"


def test_decompositions_are_compared_in_what_is_determined() -> None:
    pytest.importorskip("jax")
    from tests.interop.tolerances import compared

    a = np.random.default_rng(0).standard_normal((4, 4))
    w, v = np.linalg.eigh(a + a.T)
    turned = v * np.array([1, -1, 1, -1])
    assert compared(example("eigh"), [a + a.T], [v, w], [turned, w]) == ("passed", "")
    assert compared(example("eigh"), [a + a.T], [v, w], [v[:, ::-1], w])[0] == "failed"
    u, s, vh = np.linalg.svd(a)
    pair = [s, u * np.array([1, -1, 1, 1]), vh * np.array([[1], [-1], [1], [1]])]
    assert compared(example("svd"), [a], [s, u, vh], pair) == ("passed", "")
    assert compared(example("svd"), [a], [s, u, vh], [s, pair[1], vh])[0] == "failed"
    factor = np.linalg.cholesky(a @ a.T + np.eye(4))
    assert compared(example("cholesky"), [a], [factor], [factor + np.triu(np.ones((4, 4)), 1)]) == ("passed", "")
    assert compared(example("cholesky"), [a], [factor], [-factor])[0] == "failed"
