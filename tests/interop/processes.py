"""Work in processes of their own: one that crashes or hangs is an answer too, and the rest goes on."""

from __future__ import annotations

import faulthandler
import importlib
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

#: For starting a process and importing what it needs.
_START_LIMIT = 180.0
#: A process that has grown to this many bytes makes room for a fresh one.
_MOST_MEMORY = 3 << 30


@dataclass(frozen=True)
class Lost:
    """The outcome of a task that has no answer: its process ``crashed`` or ``hung``, or the function ``raised``."""

    kind: str
    reason: str


@dataclass(eq=False)
class _Worker:
    """A process that runs one task at a time."""

    work: str
    setup: dict[str, str]
    stderr: Path = field(init=False)
    process: Any = field(init=False)
    connection: Connection = field(init=False)
    task: Any = None
    deadline: float = 0.0

    def __post_init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        handle, name = tempfile.mkstemp(prefix="worker-", suffix=".err")
        os.close(handle)
        self.stderr = Path(name)
        self.process = context.Process(target=_serve, args=(other, self.work, self.setup, name), daemon=True)
        self.process.start()
        other.close()

    def give(self, task: Any, limit: float) -> None:
        self.task, self.deadline = task, time.monotonic() + limit
        self.connection.send(task)

    def end(self) -> str:
        """Kill the process; what it died of, if it was dead."""
        self.process.join(0.5)  # a pipe that is closed is seen before the process is gone
        code = self.process.exitcode
        self.process.kill()
        self.process.join()
        self.connection.close()
        said = self.stderr.read_text(errors="replace") if self.stderr.exists() else ""
        self.stderr.unlink(missing_ok=True)
        died = signal.Signals(-code).name if code is not None and code < 0 else f"exit code {code}"
        return f"{died}: {_first_cause(said)}".rstrip(": ")


def _first_cause(text: str) -> str:
    """The line of stderr that says most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if any(word in line for word in ("LLVM ERROR", "Fatal Python error", "Check failed", "Assertion", "terminate")):
            return line[:200]
    return lines[-1][:200] if lines else ""


def _serve(connection: Connection, work: str, setup: dict[str, str], stderr: str) -> None:
    """A process's whole life."""
    os.environ.update(setup)
    file = os.open(stderr, os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 2)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    faulthandler.enable()
    module, _, name = work.partition(":")
    function: Callable[[Any], Any] = getattr(importlib.import_module(module), name)
    connection.send("ready")
    while True:
        try:
            task = connection.recv()
        except EOFError:
            return
        try:
            answer = function(task)
        except Exception as error:
            answer = Lost("raised", f"{type(error).__name__}: {str(error)[:300]}")
        connection.send((answer, _memory()))


def _memory() -> int:
    """The bytes that this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def in_processes(
    work: str, tasks: Sequence[Any], *, workers: int, limit: float, setup: dict[str, str] | None = None
) -> Iterator[tuple[Any, Any]]:
    """Each task and what ``work``, a ``module:function``, makes of it, as they are done; or a :class:`Lost`.

    A task has ``limit`` seconds. ``setup`` are environment variables of the processes, set before the module is
    imported.
    """
    waiting, idle, busy = deque(tasks), list[_Worker](), dict[Any, _Worker]()

    def begin() -> None:
        worker = _Worker(work, setup or {})
        worker.deadline = time.monotonic() + _START_LIMIT
        busy[worker.connection] = worker

    try:
        while waiting or any(w.task is not None for w in busy.values()):
            while waiting and idle:
                worker = idle.pop()
                worker.give(waiting.popleft(), limit)
                busy[worker.connection] = worker
            starting = sum(w.task is None for w in busy.values())
            if len(waiting) > starting and len(busy) < workers:
                begin()
                continue
            first = min(w.deadline for w in busy.values())
            for connection in wait(list(busy), timeout=max(0.0, first - time.monotonic())):
                worker = busy.pop(connection)
                done, answer, keep = _heard(worker)
                if done is not None:
                    yield done, answer
                if keep:
                    idle.append(worker)
            for worker in [w for w in busy.values() if w.deadline <= time.monotonic()]:
                del busy[worker.connection]
                task = worker.task
                worker.end()
                if task is None:
                    raise RuntimeError(f"{work} took more than {_START_LIMIT:.0f} s to import")
                yield task, Lost("hung", f"longer than {limit:.0f} s")
    finally:
        for worker in [*idle, *busy.values()]:
            worker.end()


def _heard(worker: _Worker) -> tuple[Any, Any, bool]:
    """The message of a process: its task, the answer, and whether it is fit for another."""
    task, worker.task = worker.task, None
    try:
        message = worker.connection.recv()
    except (EOFError, ConnectionResetError):
        cause = worker.end()
        if task is None:
            raise RuntimeError(f"{worker.work} cannot be imported: {cause}") from None
        return task, Lost("crashed", cause), False
    if message == "ready":
        return None, None, True
    answer, memory = message
    if memory > _MOST_MEMORY:
        worker.end()
        return task, answer, False
    return task, answer, True
