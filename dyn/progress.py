"""Compiles that take long say so while they go on: a line on the terminal, or in a notebook, that goes away.

Nobody is told where standard error is no terminal, or with the setting ``progress`` off; then no thread is started
either. All threads, and compiles inside of others, share one line.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from html import escape
from types import FrameType
from typing import Any, Protocol

from dyn import config, events
from dyn.fork_safety import lock
from dyn.frozen import record

#: A compile that takes longer than this, in seconds, is shown while it goes on.
SHOWN_AFTER = 5.0
#: Seconds between two looks at what is being compiled.
_STEP = 0.25
#: Modules that wait for what a user types.
_PROMPTS = frozenset({"bdb", "cmd", "code", "pdb"})


@record()
class OpenStage:
    """A compile that goes on, or a stage of it (``""``: tracing): the function, and when it began."""

    name: str
    began: float
    stage: str


class LineDisplay(Protocol):
    """A place for one line of text that may be changed and taken away."""

    def show(self, compiles: Sequence[OpenStage], now: float) -> None:
        """Show the compiles that go on, the longest first; of none: take the line away."""
        ...


class TerminalLine:
    """The last line of a terminal."""

    def __init__(self) -> None:
        self._shown = ""

    def show(self, compiles: Sequence[OpenStage], now: float) -> None:
        """Write over what is there."""
        text = line(compiles, now)[: _columns() - 1] if compiles else ""
        if text != self._shown:
            over = " " * max(len(self._shown) - len(text), 0)
            with contextlib.suppress(OSError, ValueError):  # the stream is gone
                sys.stderr.write(f"\r{text}{over}" if text else f"\r{over}\r")
                sys.stderr.flush()
            self._shown = text


class NotebookLine:
    """A line below the cell that runs."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, compiles: Sequence[OpenStage], now: float) -> None:
        """Change the line."""
        from IPython.display import HTML, display

        text = f'<progress style="width:8em"></progress> {escape(line(compiles, now))}' if compiles else "<span></span>"
        if self._handle is None:
            self._handle = display(HTML(text), display_id=True)
        else:
            self._handle.update(HTML(text))


def line(compiles: Sequence[OpenStage], now: float) -> str:
    """``dyn: compiling step for 7 s (lower), and 2 others``"""
    first, others = compiles[0], len(compiles) - 1
    more = f", and {others} other{'s' * (others > 1)}" if others else ""
    return f"dyn: compiling {first.name} for {now - first.began:.0f} s ({first.stage or 'trace'}){more}"


def display_here() -> LineDisplay | None:
    """The display that this process has; None where nobody looks."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is not None:
        return NotebookLine()
    try:
        return TerminalLine() if sys.stderr.isatty() else None
    except (AttributeError, ValueError):  # no stream, or a closed one
        return None


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


class CompileWatch:
    """The compiles of the process that go on, and the line that tells of those that take long."""

    def __init__(self) -> None:
        self.after = SHOWN_AFTER
        self._lock = lock()
        self._process = os.getpid()
        self._listens = False
        #: For each thread the compiles and stages that it is in, from the outermost.
        self._open: dict[int, list[OpenStage]] = {}
        self._watcher: threading.Thread | None = None
        #: Held while the line is looked at and changed; the display that shows something, if one does.
        self._drawing = lock()
        self._shown: LineDisplay | None = None

    @contextlib.contextmanager
    def compiling(self, name: str) -> Iterator[None]:
        """A program of a function is made inside: it is traced, and compiled."""
        self._listen()
        thread, entry = threading.get_ident(), OpenStage(name, time.perf_counter(), "")
        depth = self._begin(thread, entry)
        try:
            yield
        finally:
            with self._lock:
                stack = self._open.get(thread, [])
                del stack[depth:]
                if not stack:
                    self._open.pop(thread, None)
                is_over = not self._open
            if is_over:  # now, for the process may end before the watcher looks again
                self._clear()

    def _clear(self) -> None:
        with self._drawing:
            if self._shown is not None:
                self._shown.show([], time.perf_counter())
                self._shown = None

    def stage_began(self, name: str, stage: str, start: float) -> None:
        """Take note of a stage, of the compile that the thread is in or by itself."""
        self._begin(threading.get_ident(), OpenStage(name, start, stage))

    def stage_ended(self, name: str, stage: str, start: float, end: float) -> None:
        """Take note of the end of a stage; of one that had not begun, nothing."""
        thread = threading.get_ident()
        with self._lock:
            stack = self._open.get(thread)
            if stack and (stack[-1].name, stack[-1].stage) == (name, stage):
                stack.pop()
                if not stack:
                    del self._open[thread]

    def going(self) -> list[tuple[int, OpenStage]]:
        """For each thread that compiles: since when its outermost compile goes on, and in which stage it is."""
        with self._lock:
            stacks = [(thread, stack[0], stack[-1]) for thread, stack in self._open.items()]
        return sorted(
            [(thread, OpenStage(first.name, first.began, last.stage)) for thread, first, last in stacks],
            key=lambda one: one[1].began,
        )

    def _listen(self) -> None:
        """From the first compile on, be told of stages."""
        with self._lock:
            if not self._listens:
                self._listens = True
                events.listen_to_begins(self.stage_began)
                events.listen(self.stage_ended)

    def _begin(self, thread: int, entry: OpenStage) -> int:
        """Take note of what a thread begins; in how much it is already."""
        with self._lock:
            if self._process != os.getpid():  # in the child of a fork, which has this thread alone
                self._process, self._watcher, self._shown = os.getpid(), None, None
                self._open = {}
            stack = self._open.setdefault(thread, [])
            stack.append(entry)
            if self._watcher is None and config.current().progress:
                display = display_here()
                if display is not None:
                    watcher = threading.Thread(target=self._watch, args=(display,), name="dyn progress", daemon=True)
                    with contextlib.suppress(RuntimeError):  # no more threads: the process ends, or has too many
                        watcher.start()
                        self._watcher = watcher
            return len(stack) - 1

    def _watch(self, display: LineDisplay) -> None:
        while True:
            time.sleep(_STEP)
            with self._drawing:
                now = time.perf_counter()
                going = self.going()
                long = [one for thread, one in going if now - one.began >= self.after and not _waits_for_user(thread)]
                if long or self._shown is not None:
                    display.show(long, now)
                    self._shown = display if long else None
            if not going:
                with self._lock:
                    if not self._open:
                        self._watcher = None
                        return


def _waits_for_user(thread: int) -> bool:
    """Return True for a thread in a debugger: a function that is traced may have a breakpoint."""
    frame: FrameType | None = sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_globals.get("__name__") in _PROMPTS:
            return True
        frame = frame.f_back
    return False


#: The process has one line, and so one watch.
WATCH = CompileWatch()
