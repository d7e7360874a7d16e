"""Outcomes of checks, as lines of a file that grows check by check: it has what a process found before it died."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from benchmarks.gpu_check.checks import Check, NotApplicableError, Options
from dyn.errors import DeviceError

#: So many lines of a traceback are kept.
_LINES = 30


class State(StrEnum):
    """State of a check."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_APPLICABLE = "not applicable"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a check; ``message`` says why where it did not pass."""

    check: str
    state: State
    seconds: float = 0.0
    message: str = ""
    figures: Mapping[str, object] = field(default_factory=dict[str, object])

    def as_data(self) -> dict[str, Any]:
        return {**asdict(self), "state": str(self.state)}


def run_check(check: Check, options: Options) -> tuple[Outcome, bool]:
    """Run a check in this process; gives also whether the device may be used further: not after a failed kernel."""
    start = time.perf_counter()
    try:
        figures = check.run(options)
    except NotApplicableError as reason:
        return Outcome(check.name, State.NOT_APPLICABLE, time.perf_counter() - start, str(reason)), True
    except Exception as error:
        told = "".join(traceback.format_exception(error)).strip().splitlines()
        message = "\n".join(told[-_LINES:])
        return Outcome(check.name, State.FAILED, time.perf_counter() - start, message), not _is_fatal(error)
    return Outcome(check.name, State.PASSED, time.perf_counter() - start, "", figures or {}), True


def _is_fatal(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, DeviceError):
            return True
        error = error.__cause__ or error.__context__
    return False


class Log:
    """The file of a process that runs checks: a line when one begins, and one when it ends."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, check: str) -> None:
        self._write({"begins": check})

    def end(self, outcome: Outcome) -> None:
        self._write(outcome.as_data())

    def _write(self, line: Mapping[str, object]) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")

    def read(self) -> tuple[list[Outcome], str | None]:
        """The outcomes so far, and the check that began and has not ended."""
        found: list[Outcome] = []
        open_: str | None = None
        for line in self._lines():
            if "begins" in line:
                open_ = line["begins"]
            else:
                found.append(read_outcome(line))
                open_ = None
        return found, open_

    def _lines(self) -> Iterator[dict[str, Any]]:
        text = self._path.read_text("utf-8") if self._path.exists() else ""
        for line in text.splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:  # the process died in the middle of it
                return


def read_outcome(data: Mapping[str, Any]) -> Outcome:
    """The outcome of its data."""
    return Outcome(data["check"], State(data["state"]), data["seconds"], data["message"], data["figures"])


def failures(outcomes: Sequence[Outcome]) -> list[str]:
    """The names of the checks that failed, or were not run."""
    return [one.check for one in outcomes if one.state in (State.FAILED, State.NOT_RUN)]
