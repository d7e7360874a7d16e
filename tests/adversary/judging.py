"""A program called at sizes that break what it took for granted, each call held to the plain Python function."""

from __future__ import annotations

import itertools
import json
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import dyn
from dyn.errors import DynError
from dyn.shapes import Outcome as relations
from dyn.source import Loc
from tests.adversary.branching import make_branching
from tests.adversary.drawing import make_program
from tests.adversary.plain import Outcome, failed, run_plain, run_traced
from tests.adversary.programs import Program, Shapes, program_of, values
from tests.adversary.sizes import Chooser, near, pattern
from tests.canary import fenced, watched

Array = np.ndarray[Any, Any]
#: Calls of one program.
CALLS = 20
#: Other sizes at which an error is looked for.
_ELSEWHERE = 400
Call = tuple[Shapes, int]


@dataclass(frozen=True)
class Finding:
    """What is not as it shall be: a program, the calls that led there, the last of which failed, and what it gave."""

    seed: int | None
    program: dict[str, Any]
    calls: list[Any]
    what: str

    def text(self) -> str:
        """For a report."""
        return f"seed {self.seed}\n{program_of(self.program)!r}# calls {self.calls}\n# {self.what}\n"


@dataclass
class Report:
    """What became of a program: how many calls ended how, and what was found."""

    seed: int | None
    counts: Counter[str] = field(default_factory=Counter[str])
    compiles: int = 0
    findings: list[Finding] = field(default_factory=list[Finding])


def judge_seed(
    seed: int, calls: int = CALLS, progress: Path | None = None, draw: Callable[[Random], Program] = make_program
) -> Report:
    """Draw a program and call it."""
    random = Random(seed)
    program = draw(random)
    return judge(program, seed, random=random, count=calls, progress=progress)


def judge(
    program: Program, seed: int | None = None, *, calls: Sequence[Call] = (), random: Random | None = None,
    count: int = 0, progress: Path | None = None,
) -> Report:  # fmt: skip
    """Call a program: at ``calls``, or at ``count`` calls that are chosen on the way."""
    with fenced():
        return _judge(program, seed, calls, random, count, progress)


def _judge(
    program: Program, seed: int | None, calls: Sequence[Call], random: Random | None, count: int, progress: Path | None
) -> Report:
    report = Report(seed)
    function = program.jitted()
    chooser = None if random is None else Chooser(program, random)
    done: list[Call] = []
    for number in range(count if chooser is not None else len(calls)):
        call = chooser.next([v.traced for v in function.programs]) if chooser is not None else calls[number]
        done.append(call)
        if progress is not None:
            progress.write_text(json.dumps({"program": program.as_data(), "seed": seed, "calls": done}))
        said = judge_call(program, function, call, number)
        report.counts[said.kind] += 1
        if said.problem:
            report.findings.append(Finding(seed, program.as_data(), _listed(done), said.problem))
            break
        if said.kind == "refused":
            break
    report.compiles = function.cache_info().compiles
    return report


def _listed(calls: Sequence[Call]) -> list[Any]:
    return json.loads(json.dumps(calls))


def call_of(data: Sequence[Any]) -> Call:
    """A call as JSON wrote it down."""
    shapes, index = data
    return tuple(tuple(s) for s in shapes), index


@dataclass(frozen=True)
class Said:
    """How a call ended, and what is wrong with that, if anything is."""

    kind: str
    problem: str = ""


#: Refusals of a program: a question that only values answer, what is not written yet, a dtype that does not do.
_REFUSED = ("undecided", "NotYetError", "ArgumentError")


def judge_call(program: Program, function: dyn.Jitted, call: Call, number: int) -> Said:
    """One call, in Python, through the native entry, and with several threads; all between guard pages."""
    shapes, index = call
    arrays = _arrays(program, shapes, index)
    expected = run_plain(program, arrays)
    if expected.kind == "large":
        return Said("large")
    at_start = number % 3 == 2
    try:
        actual = _fenced(function, arrays, at_start, fast_call=False)
    except AssertionError as error:
        return Said("beside", str(error))
    said = compare(expected, actual)
    if said.problem and actual.kind == "arrays" and expected.kind == "shape":
        said = _unasked(function, arrays, actual, said)
    if said.problem and (actual.kind, expected.kind) == ("TraceError", "shape"):
        said = Said("either error") if _refused_elsewhere(program, call, actual) else said
    if said.problem or actual.kind != "arrays":
        return said
    for what, settings in (("by the native entry", {}), ("with three threads", {"num_threads": 3})):
        try:
            again = _fenced(function, arrays, at_start, **settings)
        except AssertionError as error:
            return Said("beside", f"{what}: {error}")
        if again.kind != "arrays" or any(
            a.tobytes() != b.tobytes() for a, b in zip(actual.arrays, again.arrays, strict=True)
        ):
            return Said("unlike", f"another result {what}: {again.text or again.arrays}")
    return said


def _arrays(program: Program, shapes: Shapes, index: int) -> list[Array]:
    """The arrays of a call."""
    return [
        np.int64(index) * np.ones((), "int64") if a.name == "i" else v
        for a, v in zip(program.arguments, values(program, shapes), strict=True)
    ]


def _called(function: dyn.Jitted, arrays: Sequence[Array]) -> Outcome:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = function(*arrays)
        return Outcome("arrays", tuple([np.array(r) for r in results]))
    except Exception as error:
        return failed(error)


def _fenced(function: dyn.Jitted, arrays: Sequence[Array], at_start: bool, **settings: Any) -> Outcome:
    with watched(at_start=at_start) as guarded, dyn.config.override(**settings):
        return _called(function, [guarded.copy(a) for a in arrays])


#: What an error says of sizes that 64 bits do not hold.
_OVERFLOW = ("2^63", "overflow", "64 bits", "int64")


def _unasked(function: dyn.Jitted, arrays: Sequence[Array], actual: Outcome, said: Said) -> Said:
    """Where the plain program fails and the compiled one does not: fine if nothing hangs on what fails.

    A branch of a ``cond`` that is not taken, a loop of no rounds, a division by 0 that no result asks for, or one in a
    question that has one answer whatever it gives. Then a trace for this very call relies on nothing that does not hold
    or has no value, and its ops give the same arrays.
    """
    again, traced = run_traced(function, arrays)
    if again.kind == "large":  # a loop that no result needs, of more rounds than the reference goes through
        return Said("large")
    if again.kind != "arrays" or traced is None:
        return Said("differs", f"{said.problem}; traced for this call: {again.kind}: {again.text}")
    shapes = tuple(a.shape for a in arrays)
    if not all(answer in (None, relations.YES) for answer in pattern([traced], shapes)[0]):
        return Said("differs", f"{said.problem}; a fact that was relied on does not hold")
    problem = compare(again, actual).problem
    return Said("differs", f"{said.problem}; {problem}") if problem else Said("unasked")


def _refused_elsewhere(program: Program, call: Call, actual: Outcome) -> bool:
    """Whether the plain program fails at that line of the program as the compiled one does, at some other sizes.

    A line may be wrong twice: branches of a ``cond`` whose dtypes differ, one of which does not broadcast at these
    sizes. With numbers for sizes the branch fails first; a trace for all sizes finds the dtypes, and that is right
    where they differ for sizes that do broadcast.
    """
    for shapes in itertools.islice(near(program, call[0]), _ELSEWHERE):
        found = run_plain(program, _arrays(program, shapes, call[1]))
        if found.kind == actual.kind and _line(found) == _line(actual):
            return True
    return False


def _line(outcome: Outcome) -> Loc | None:
    return outcome.error.loc if isinstance(outcome.error, DynError) else None


def compare(expected: Outcome, actual: Outcome) -> Said:
    """What the compiled program's outcome is, next to the plain one's."""
    if actual.kind in _REFUSED or expected.kind in _REFUSED:
        return Said("refused")
    if expected.kind == "large" or actual.kind == "large":
        return Said("large")
    if actual.kind == "arrays" and expected.kind == "arrays":
        for number, (a, e) in enumerate(zip(actual.arrays, expected.arrays, strict=True)):
            if a.dtype != e.dtype or a.shape != e.shape:
                return Said("differs", f"result {number} is {a.dtype}{a.shape}, not {e.dtype}{e.shape}")
            if not np.array_equal(a, e, equal_nan=a.dtype.kind == "f"):
                return Said("differs", f"result {number} is {a.ravel()[:8]}, not {e.ravel()[:8]}, shape {a.shape}")
        return Said("agrees")
    if actual.kind == expected.kind:
        return Said("same error")
    if expected.kind == "arrays" and actual.kind == "shape" and any(word in actual.text for word in _OVERFLOW):
        return Said("large")
    return Said("kinds differ", f"{actual.kind}: {actual.text[:600]}; plain: {expected.kind}: {expected.text[:300]}")


# ---- for processes ---------------------------------------------------------------------------------------------------


def work(task: tuple[int, int, str]) -> Report:
    """What a process does with a task: a seed, a number of calls, and a folder for the call that it is at."""
    return _work(task, make_program)


def work_branching(task: tuple[int, int, str]) -> Report:
    """The same with a small program of branches."""
    return _work(task, make_branching)


def _work(task: tuple[int, int, str], draw: Callable[[Random], Program]) -> Report:
    seed, calls, folder = task
    progress = Path(folder) / f"{seed}.json"
    # Quick code takes thrice as long to make. Without red zones memory is laid out as for users.
    with dyn.config.override(verify_ir=True, optimize=seed % 4 == 0, red_zones=seed % 3 != 0):
        report = judge_seed(seed, calls, progress, draw)
    progress.unlink(missing_ok=True)
    return report
