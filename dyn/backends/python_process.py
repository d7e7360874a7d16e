"""Files of Python as processes of their own: what may crash there does not crash here."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dyn.fork_safety import lock


@dataclass(frozen=True)
class Ended:
    """End of the process that answered a request: its exit status, or minus the signal's number."""

    status: int
    out: bytes = b""
    err: bytes = b""


class PythonServer:
    """A file of Python that answers requests in a process of its own.

    The process is started with the first request, or by :meth:`begin`, and stays for those that follow; it ends by
    itself when none comes, and with this process. Each of several threads that ask at once has one for itself. What
    it is told is a line of JSON with ``bytes``, the number of bytes after it; it answers alike, with ``status``, and
    ``out`` and ``err``, numbers of bytes. The interpreter looks for no packages: the first line says where they are.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = lock()
        self._idle: list[PythonProcess] = []
        self._closes = False

    def begin(self) -> None:
        """Start the process, if there is none that waits; who asks next finds it at work. Errors are for them."""
        with self._lock:
            self._idle[:] = [process for process in self._idle if process.runs]
            if not self._idle:
                with contextlib.suppress(OSError, ValueError):
                    self._idle.append(self._started())

    def ask(self, request: Mapping[str, Any], data: bytes) -> Ended:
        """The answer to a request. Raises OSError where no process can be started."""
        while True:
            with self._lock:
                process, waited = (self._idle.pop(), True) if self._idle else (self._started(), False)
            try:
                answer = process.ask(request, data)
            except BaseException:
                process.end()
                raise
            if answer is not None:
                with self._lock:
                    if not self._idle:
                        self._idle.append(process)
                        return answer
                process.end()
                return answer
            status = process.end()
            if not waited:  # one that waited may have ended by itself meanwhile
                raise OSError(f"it ended with status {status} before it answered")

    def end(self) -> None:
        """End the process, if there is one that waits."""
        with self._lock:
            processes, self._idle = self._idle, []
        for process in processes:
            process.end()

    @property
    def idle(self) -> list[PythonProcess]:
        """The processes that wait for a request: one, or none."""
        return list(self._idle)

    def _started(self) -> PythonProcess:
        made = PythonProcess(self._path)
        if not self._closes:
            self._closes = True
            atexit.register(self.end)
            os.register_at_fork(after_in_child=self._forget)
        return made

    def _forget(self) -> None:
        """A child of a fork has no part in its parent's processes."""
        processes, self._idle = self._idle, []
        for process in processes:
            process.forget()


class PythonProcess:
    """One process of a server's, which is asked one request at a time."""

    def __init__(self, path: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            self._write(json.dumps({"path": sys.path}).encode() + b"\n")
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it has not ended; if it has, its pipes are closed."""
        if self._process.poll() is None:
            return True
        self.forget()
        return False

    def ask(self, request: Mapping[str, Any], data: bytes) -> Ended | None:
        """The answer; None where the process has ended."""
        out = self._process.stdout
        assert out is not None
        try:
            self._write(json.dumps({**request, "bytes": len(data)}).encode() + b"\n" + data)
        except BrokenPipeError:
            return None
        line = out.readline()
        if not line.endswith(b"\n"):
            return None
        head = json.loads(line)
        made, said = out.read(head["out"]), out.read(head["err"])
        return Ended(head["status"], made, said) if len(said) == head["err"] else None

    def _write(self, data: bytes) -> None:
        into = self._process.stdin
        assert into is not None
        into.write(data)
        into.flush()

    def end(self) -> int:
        """End the process, and give its status. It ends when nobody can ask it any more; at once if it is at work."""
        self.forget(reap=False)
        try:
            return self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # with the fork that is at work
            return self._process.wait()

    def forget(self, reap: bool = True) -> None:
        """Close the pipes; ``reap``: as if the process were nobody's here."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        if reap:
            self._process.returncode = 0
