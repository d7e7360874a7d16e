"""A peer's process, from the side that asks it."""

from __future__ import annotations

import compileall
import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.machine import thread_environment

ROOT = Path(__file__).resolve().parent.parent


@functools.cache
def _compile_sources() -> None:
    """Keep the bytecode of dyn's sources, as an installer does: the peers are installed, and have theirs."""
    for folder in ("dyn", "benchmarks", "examples"):
        compileall.compile_dir(ROOT / folder, quiet=2)


class WorkerError(Exception):
    """A peer could not do what it was asked; the text says which and why, ``reason`` in a line of the peer's own."""

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.reason = (reason or text).partition("\n")[0]


class PeerMissing(WorkerError):
    """A package that a peer needs is not installed."""


class Worker:
    """A process for one framework, on CPUs of its own choosing. Use it in a ``with``, which ends the process."""

    def __init__(self, framework: str, cpus: list[int]) -> None:
        self.framework = framework
        _compile_sources()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed with the process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", ",".join(map(str, cpus))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            cwd=ROOT, env=os.environ | thread_environment(len(cpus)), text=True,
        )  # fmt: skip

    def ask(self, do: str, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its answer. Raises WorkerError for an error, or when the process has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps({"do": do, **request}), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self._process.wait()
            self._errors.seek(0)
            words = "".join(self._errors.readlines()[-12:])
            code = self._process.returncode
            raise WorkerError(f"{self.framework}'s process ended with {code}. Its last words:\n{words}")
        answer = json.loads(line)
        if "error" in answer:
            kind = PeerMissing if answer.get("missing") else WorkerError
            raise kind(
                f"{self.framework} failed in {do!r}: {answer['error']}\n\n{answer['traceback']}", answer["error"]
            )
        return answer

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()
