"""The check of a GPU around its checks: names, versions, wheels, reports, and what it says where there is no GPU."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import dyn
from benchmarks.gpu_check import supervisor, versions
from benchmarks.gpu_check.__main__ import main
from benchmarks.gpu_check.checks import Check, NotApplicableError, Options, Part, compare
from benchmarks.gpu_check.outcomes import Log, Outcome, State, failures, run_check
from benchmarks.gpu_check.page import Run, read_failures
from benchmarks.gpu_check.parts import parse_names, parts
from benchmarks.gpu_check.programs import PROGRAMS
from benchmarks.gpu_check.wheels import unpack
from dyn.errors import DeviceError

OPTIONS = Options("cuda")


def test_there_are_forty_programs_and_the_parts_in_their_order() -> None:
    assert len(PROGRAMS) == 40
    assert list(parts()) == [
        "device", "programs", "models", "calls", "front-ends", "copy", "memory", "contractions", "streams",
    ]  # fmt: skip
    assert len(parts()["streams"].checks) == 6
    names = [check.name for part in parts().values() for check in part.checks]
    assert [name for name in names if "/" in name] == []


def test_names_choose_parts_and_checks_in_the_order_of_the_parts() -> None:
    chosen = parse_names(["calls/streams", "programs/softmax", "programs/sort", "calls/threads"])
    assert chosen == {"programs": ("softmax", "sort"), "calls": ("streams", "threads")}
    assert list(parse_names([])) == list(parts())
    with pytest.raises(ValueError, match=r"^there is no part 'program'; there are device, programs, models, calls"):
        parse_names(["program"])
    with pytest.raises(ValueError, match=r"^calls has no check 'stream'; it has warm calls are native; donated"):
        parse_names(["calls/stream"])


@pytest.mark.parametrize(
    ("version", "wanted", "holds"),
    [
        ("0.50.0", ">=0.50,<0.51", True), ("0.49.0", ">=0.50,<0.51", False), ("2.11.0+cu130", "==2.13.0", False),
        ("2.13.0+cpu", "==2.13.0", True), ("2", ">=2", True), ("0.11.2", ">=0.10.2,<0.11", False), ("3", "", True),
        ("1", "~=1", False),
    ],
)  # fmt: skip
def test_versions_are_compared_by_number(version: str, wanted: str, holds: bool) -> None:
    found = versions.Requirement("x", version, wanted, "")
    assert found.holds is holds
    assert found.describe() == (f"x {version}" if holds else f"x {version} (dyn is made for x{wanted})")


def test_what_is_missing_is_told_by_name(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    lacking = versions.Requirement("optree", None, ">=0.14", "dyn cannot be imported without it")
    assert lacking.describe() == "optree is missing (dyn is made for optree>=0.14): dyn cannot be imported without it"
    monkeypatch.setattr(versions, "missing", lambda: [lacking])
    assert main(["device"]) == 2
    assert capsys.readouterr().err == (
        "error: dyn cannot be imported without optree: `make gpu-wheels` puts wheels of these into .whl/\n"
    )


def test_wheels_of_what_is_there_stay_packed(tmp_path: Path) -> None:
    for name in ("numpy-1.0-py3-none-any.whl", "no_such_package-1.0-py3-none-any.whl"):
        with zipfile.ZipFile(tmp_path / name, "w") as wheel:
            wheel.writestr(f"{name.split('-')[0]}/__init__.py", "")
    assert unpack(tmp_path, tmp_path / "site") == ["no-such-package"]
    assert [path.name for path in (tmp_path / "site").iterdir()] == ["no_such_package"]


def _raising(error: Exception) -> Callable[[Options], None]:
    def run(options: Options) -> None:
        raise error

    return run


def test_outcomes_of_checks() -> None:
    passed, goes_on = run_check(Check("a", lambda options: {"device": options.device}), OPTIONS)
    assert (passed.state, passed.figures, goes_on) == (State.PASSED, {"device": "cuda"}, True)
    left, goes_on = run_check(Check("a", _raising(NotApplicableError("no PyTorch"))), OPTIONS)
    assert (left.state, left.message, goes_on) == (State.NOT_APPLICABLE, "no PyTorch", True)
    wrong, goes_on = run_check(Check("a", _raising(AssertionError("1 of 3"))), OPTIONS)
    assert (wrong.state, wrong.message.splitlines()[-1], goes_on) == (State.FAILED, "AssertionError: 1 of 3", True)
    # The context of a device is of no use after a kernel that failed.
    _, goes_on = run_check(Check("a", _raising(DeviceError("illegal address"))), OPTIONS)
    assert not goes_on


def test_differences_are_told() -> None:
    compare(dyn.asarray(np.ones(3, "f4")), np.ones(3, "f4") + np.float32(1e-6), "n = 3")
    with pytest.raises(
        AssertionError, match=r"^result 0 at n = 3: 1 of 3 elements differ by more than 2e-05; the first, "
    ):
        compare(np.array([1, 2, 3], "f4"), np.array([1, 2.1, 3], "f4"), "n = 3")
    with pytest.raises(AssertionError, match=r"^result 0 at n = 3: float64\[3\], and not float32\[3\]$"):
        compare(np.ones(3), np.ones(3, "f4"), "n = 3")


def test_a_log_has_what_a_process_found_before_it_died(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    assert log.read() == ([], None)
    log.begin("a")
    log.end(Outcome("a", State.PASSED, 0.5, "", {"GB/s": 3.0}))
    log.begin("b")
    with (tmp_path / "log").open("a") as file:
        file.write('{"begi')
    assert log.read() == ([Outcome("a", State.PASSED, 0.5, "", {"GB/s": 3.0})], "b")


def _part() -> Part:
    return Part("programs", "Programs", 60, tuple([Check(name, lambda options: None) for name in "abcd"]))


def test_a_check_that_ends_its_process_fails_and_the_others_run(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    def run(part: Part, names: list[str], options: Options, path: Path, deadline: float) -> tuple[int | None, str]:
        asked.append(list(names))
        log = Log(path)
        for name in names:
            log.begin(name)
            if name == "b":
                return -11, "Fatal Python error: Segmentation fault"
            log.end(Outcome(name, State.PASSED))
        return 0, ""

    monkeypatch.setattr(supervisor, "_run", run)
    found = supervisor.run_part(_part(), list("abcd"), OPTIONS, 60)
    assert asked == [["a", "b", "c", "d"], ["c", "d"]]
    assert [(one.check, one.state) for one in found] == [
        ("a", State.PASSED), ("b", State.FAILED), ("c", State.PASSED), ("d", State.PASSED),
    ]  # fmt: skip
    assert found[1].message == "the process ended by SIGSEGV\nFatal Python error: Segmentation fault"


def test_a_process_that_does_not_start_and_a_part_without_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_run", lambda *_: (1, "ImportError"))
    found = supervisor.run_part(_part(), list("ab"), OPTIONS, 60)
    assert [one.state for one in found] == [State.FAILED, State.NOT_RUN]
    assert found[0].message.endswith("\nImportError")
    late = supervisor.run_part(_part(), list("ab"), OPTIONS, 0)
    assert [(one.state, one.message) for one in late] == [(State.NOT_RUN, "its part's 0 s were over")] * 2


def test_a_report_is_read_again_for_what_failed(tmp_path: Path) -> None:
    run = Run("cuda", "Python 3.12 on Linux", ["numpy 2.5"])
    run.outcomes["copy"] = [Outcome("copy bandwidth", State.PASSED, 0.1, "", {"GB/s": 3000.0})]
    run.outcomes["programs"] = [
        Outcome("sort", State.FAILED, 0.1, "Traceback\nAssertionError: 3 of 5"),
        Outcome("sum", State.PASSED), Outcome("scan", State.NOT_RUN, 0.0, "its part's 90 s were over"),
    ]  # fmt: skip
    run.seconds = {"copy": 1.0, "programs": 2.0}
    run.write(tmp_path, parts())
    page = (tmp_path / "gpu-check.md").read_text("utf-8")
    assert "| Forty programs against the reference | 1 | 1 | 0 | 1 | 2.0 |" in page
    assert "## programs/sort failed\n\n```\nTraceback\nAssertionError: 3 of 5\n```" in page
    assert "- scan (not run): its part's 90 s were over" in page
    assert "|  | GB/s |\n|---|---:|\n| copy bandwidth | 3000.0 |" in page
    assert json.loads((tmp_path / "gpu-check.json").read_text("utf-8"))["failed"] == ["programs/sort", "programs/scan"]
    assert read_failures(tmp_path / "gpu-check.json") == {"copy": [], "programs": ["sort", "scan"]}
    assert failures(run.outcomes["programs"]) == ["sort", "scan"]
    assert read_failures(tmp_path / "none.json") == {}


def test_a_second_run_begins_with_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[tuple[str, list[str]]] = []
    wrong = {"calls": "threads", "programs": "sort"}

    def run_part(part: Part, names: list[str], options: Options, seconds: float) -> list[Outcome]:
        ran.append((part.name, names[:2]))
        state = {name: State.FAILED if wrong.get(part.name) == name else State.PASSED for name in names}
        return [Outcome(name, state[name], 0.0, "wrong" if state[name] is State.FAILED else "") for name in names]

    monkeypatch.setattr(supervisor, "run_part", run_part)
    words = ["device", "programs", "calls", "--out", str(tmp_path)]
    assert main(words) == 1
    assert "failed, or not run: programs/sort, calls/threads\n" in capsys.readouterr().out
    wrong.clear()
    assert main(words) == 0
    assert [name for name, _ in ran] == ["device", "programs", "calls", "programs", "calls", "device"]
    assert [checks[0] for _, checks in ran[3:5]] == ["sort", "threads"]


def test_without_a_gpu_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["device/the driver shows it", "--device", "cuda:99", "--out", str(tmp_path), "--patience", "5"]) == 1
    told = capsys.readouterr()
    assert "device: 1 failed; " in told.out
    assert told.err.startswith("error: nothing runs on cuda:99:\n")
    assert "BackendUnavailableError" in told.err
    assert main(["nothing"]) == 2
