"""A slice of the adversary's programs, everything that it ever found, and proof that it sees what it looks for."""

from __future__ import annotations

import ctypes
import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.errors
from tests.adversary.__main__ import run
from tests.adversary.judging import Finding, call_of, judge
from tests.adversary.plain import Outcome, failed
from tests.adversary.programs import program_of
from tests.adversary.questions import world
from tests.canary import watched
from tests.guard_pages import GuardedMemory
from tests.interop.processes import Lost, in_processes

_HERE = "tests.adversary.test_adversary"
CORPUS = json.loads((Path(__file__).parent / "corpus.json").read_text())


@pytest.mark.slow
def test_a_slice_of_the_programs() -> None:
    findings = run(range(100, 140), calls=12, workers=1, state=None)
    assert not findings, "\n".join(f.text() for f in findings)


def test_a_slice_of_the_small_programs() -> None:
    findings = run(range(100, 160), calls=12, workers=1, state=None, work="work_branching")
    assert not findings, "\n".join(f.text() for f in findings)


def replay(number: int) -> list[Finding]:
    """Judge a program of the corpus at the calls at which it once failed. For a process of its own."""
    entry = CORPUS[number]
    calls = [call_of(call) for call in entry["calls"]]
    return judge(program_of(entry["program"]), entry["seed"], calls=calls).findings


def test_what_was_found_is_mended() -> None:
    closed = [number for number, entry in enumerate(CORPUS) if "open" not in entry]
    answers = dict(in_processes(f"{_HERE}:replay", closed, workers=1, limit=300.0))
    wrong = {n: a if isinstance(a, Lost) else [f.text() for f in a] for n, a in answers.items() if a != []}
    assert not wrong, wrong
    assert len(answers) == len(closed)


def test_answers_of_the_solver_are_true() -> None:
    counts: Counter[str] = Counter()
    for seed in range(150):
        wrong, drawn = world(seed)
        assert not wrong, wrong[0]
        counts += drawn
    assert min(counts["proved"], counts["refuted"], counts["unknown"]) > 500, counts


# ---- what it looks for, it sees --------------------------------------------------------------------------------------


def reach(how: str) -> float:
    """Touch what nobody may touch."""
    memory = GuardedMemory(24, 8, at_start=how == "before")
    array: Any = memory.array((3,), np.float64)
    array[...] = 1
    match how:
        case "after":
            return ctypes.c_double.from_address(memory.address + 24).value
        case "before":
            return ctypes.c_double.from_address(memory.address - 8).value
        case "write":
            memory.read_only()
            array[0] = 2
        case "freed":
            memory.free()
            return array[0]
        case "division":
            os.abort()
        case _:
            return float(array.sum())
    return 0.0


def test_a_touch_of_a_guard_page_ends_the_process() -> None:
    hows = ["inside", "after", "before", "write", "freed", "division"]
    answers = dict(in_processes(f"{_HERE}:reach", hows, workers=1, limit=300.0))
    assert answers.pop("inside") == 3.0
    assert answers.pop("division") == Lost("crashed", "SIGABRT: Fatal Python error: Aborted")
    for how, answer in answers.items():
        assert answer == Lost("crashed", "SIGSEGV: Fatal Python error: Segmentation fault"), how


def test_red_zones_are_looked_at() -> None:
    memory = GuardedMemory(5, 1)
    memory.check("five bytes")
    ctypes.c_uint8.from_address(memory.address - 1).value = 0
    with pytest.raises(AssertionError) as caught:
        memory.check("five bytes")
    assert str(caught.value) == "bytes beside five bytes were written"
    memory.free()


def test_no_buffer_has_a_negative_size() -> None:
    with watched() as guarded, pytest.raises(ValueError, match="no buffer of -4 bytes"):
        guarded.empty((-1,), np.float32)


def test_a_wrong_result_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = CORPUS[0]
    calls = [call_of(call) for call in entry["calls"]]
    right = judge(program_of(entry["program"]), calls=calls)
    assert not right.findings
    assert sum(right.counts.values()) == len(calls)
    answer = Outcome("arrays", (np.zeros(3),))
    monkeypatch.setattr("tests.adversary.judging.run_plain", lambda *_: answer)
    monkeypatch.setattr("tests.adversary.judging._fenced", lambda *_, **__: Outcome("arrays", (np.ones(3),)))
    (found,) = judge(program_of(entry["program"]), calls=calls).findings
    assert found.what == "result 0 is [1. 1. 1.], not [0. 0. 0.], shape (3,)"


def test_an_error_that_no_size_gives_in_python_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of branches whose dtypes differ nothing else has to be wrong; of those that agree a TraceError is never right."""
    program = program_of(next(entry for entry in CORPUS if entry["seed"] == 1702)["program"])
    calls = [call_of([[[0], [0], [0, 0], [], [0]], 1000])]
    assert judge(program, calls=calls).counts == Counter(["either error"])
    agreeing = replace(program, lines=tuple(line.replace("+ y,", "+ v1,") for line in program.lines))
    error = dyn.errors.TraceError("branch 1 of cond gives another dtype")
    monkeypatch.setattr("tests.adversary.judging._fenced", lambda *_, **__: failed(error))
    (found,) = judge(agreeing, calls=calls).findings
    assert found.what.startswith("TraceError: TraceError: branch 1 of cond gives another dtype; plain: shape: ")


def test_results_and_arenas_of_calls_lie_between_guard_pages() -> None:
    import dyn.numpy as dnp

    @dyn.jit
    def two_kernels(x: Any) -> Any:
        return dnp.sort(dnp.cumsum(x * 2, 0), 0)

    x = result = np.arange(7.0)
    with watched() as guarded, dyn.config.override(fast_call=False):
        for _ in range(2):
            result = np.array(two_kernels(guarded.copy(x)))
        assert len(guarded.buffers) >= 4
        assert not guarded.blocks
    assert result.tolist() == np.cumsum(x * 2).tolist()
