"""Runs parts in processes of their own, within their limits of time: a check that crashes, hangs or ruins the device is
told of, and the others run all the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.gpu_check.checks import Options, Part
from benchmarks.gpu_check.outcomes import Log, Outcome, State
from benchmarks.gpu_check.worker import ENDED_EARLY

ROOT = Path(__file__).resolve().parents[2]
#: The seconds that a check may take, as a share of the part's, and at least.
_SHARE, _LEAST = 0.5, 20.0
#: So many characters of what a process says are kept.
_SAID = 3000


def run_part(part: Part, names: Sequence[str], options: Options, seconds: float) -> list[Outcome]:
    """The outcome of each check: of those that found no time too."""
    with tempfile.TemporaryDirectory() as folder:
        log, remaining, deadline = Log(Path(folder) / "log"), list(names), time.monotonic() + seconds
        dead: list[Outcome] = []
        while remaining and time.monotonic() < deadline:
            code, said = _run(part, remaining, options, Path(folder) / "log", deadline)
            done, open_ = log.read()
            if open_ is not None and open_ not in {one.check for one in dead}:
                dead.append(Outcome(open_, State.FAILED, 0.0, _why(code, said)))
            finished = {one.check for one in (*done, *dead)}
            before, remaining = len(remaining), [name for name in remaining if name not in finished]
            if len(remaining) == before:  # it cannot even begin
                return [Outcome(name, State.FAILED, 0.0, _why(code, said)) for name in remaining[:1]] + [
                    Outcome(name, State.NOT_RUN, 0.0, "the process for it does not start") for name in remaining[1:]
                ]
        done, _ = log.read()
        late = f"its part's {seconds:.0f} s were over"
        found = {one.check: one for one in (*done, *dead)}
        return [found.get(name) or Outcome(name, State.NOT_RUN, 0.0, late) for name in names]


def _run(part: Part, names: Sequence[str], options: Options, log: Path, deadline: float) -> tuple[int | None, str]:
    """Run checks in a process; gives what it answers (None: it was ended for want of time), and what it said."""
    left = max(deadline - time.monotonic(), 1.0)
    command = [
        sys.executable, "-m", "benchmarks.gpu_check.worker", part.name, "--device", options.device, "--log", str(log),
        "--checks", json.dumps(list(names)), "--peers", ",".join(options.peers),
        "--seconds", str(max(_SHARE * part.seconds, _LEAST)), *(["--small"] if options.small else []),
    ]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, text=True,
        errors="replace",
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=left)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        return None, said[-_SAID:]
    return process.returncode, said[-_SAID:]


def _why(code: int | None, said: str) -> str:
    """Why a process ended in a check, in words."""
    if code is None:
        reason = "it was still running when its part's time was over"
    elif code < 0:
        reason = f"the process ended by {signal.Signals(-code).name}"
    elif code in (ENDED_EARLY, 0):
        reason = f"the process ended with {code}"
    else:
        reason = f"the process ended with {code} (a check may take too long, or dyn cannot be imported)"
    return f"{reason}\n{said}".strip()
