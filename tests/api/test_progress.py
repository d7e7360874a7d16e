"""Compiles that take long say so on a terminal or in a notebook, and nowhere else."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import dyn
from dyn import events, progress
from dyn.progress import CompileWatch, NotebookLine, OpenStage, TerminalLine

ROOT = Path(dyn.__file__).parents[1]

#: A program whose trace takes longer than that after which a compile is shown, with a compile inside of it.
_PROGRAM = """
import time, sys, numpy as np, dyn
from dyn import progress
progress.WATCH.after, progress._STEP = 0.2, 0.02
inner = dyn.jit(lambda x: x + 1)
inner.__name__ = "inner"
def outer(x):
    inner(np.ones(3, "f4"))
    time.sleep(0.5)
    return x * 2
f = dyn.jit(outer)
print(f(np.ones(3, "f4")))
progress.WATCH.after = 60.0  # what is quick here is slow on a busy machine
quick = dyn.jit(lambda x: x - 1)
quick(np.ones(3, "f4"))
"""


def run(terminal: bool, program: str = _PROGRAM, **environment: str) -> tuple[str, str]:
    """What a program writes to standard output, and to standard error, which may be a terminal."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    if not terminal:
        done = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout, done.stderr
    ours, its = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, stderr=its)
    os.close(its)
    found = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        found += piece
    os.close(ours)
    assert process.stdout is not None
    said = process.stdout.read().decode()
    process.stdout.close()
    assert process.wait() == 0
    return said, found.decode()


def on_screen(told: str) -> str:
    """What a terminal's line has after a text with carriage returns, without the blanks at its end."""
    shown = ""
    for part in told.split("\r"):
        shown = part + shown[len(part) :]
    return shown.rstrip()


def test_a_terminal_has_one_line_that_goes_away() -> None:
    said, told = run(terminal=True)
    assert said == "[2. 2. 2.]\n"
    first, *others = told.removeprefix("\r").split("\r")
    assert re.fullmatch(r"dyn: compiling outer for \d+ s \(trace\)", first.rstrip())
    assert "inner" not in told
    assert "lambda" not in told
    assert "\n" not in told
    assert on_screen(told) == ""
    assert others[-1] == ""


@pytest.mark.parametrize(("terminal", "setting"), [(False, "1"), (True, "0")])
def test_nothing_is_said_without_a_terminal_or_with_the_setting_off(terminal: bool, setting: str) -> None:
    assert run(terminal, DYN_PROGRESS=setting) == ("[2. 2. 2.]\n", "")


def test_import_says_and_starts_nothing() -> None:
    program = "import threading, dyn\nfrom dyn import events\n"
    program += "print(threading.active_count(), events._LISTENERS, events._BEGIN_LISTENERS)"
    assert run(True, program) == ("1 [] []\n", "")


class Recorded:
    """A display that keeps what it is to show."""

    def __init__(self) -> None:
        self.lines: list[list[str]] = []

    def show(self, compiles: Sequence[OpenStage], now: float) -> None:
        self.lines.append([f"{one.name} {one.stage}" for one in compiles])


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[CompileWatch, Recorded]]:
    shown, made = Recorded(), CompileWatch()
    monkeypatch.setattr(progress, "display_here", lambda: shown)
    monkeypatch.setattr(progress, "_STEP", 0.001)
    made.after = 0.0
    yield made, shown
    while made._watcher is not None:
        time.sleep(0.001)
    if made._listens:
        events.unlisten_to_begins(made.stage_began)
        events.unlisten(made.stage_ended)
    assert shown.lines[-1:] in ([], [[]])
    assert made.going() == []


def wait_for(shown: Recorded, line: list[str]) -> None:
    for _ in range(10_000):
        if line in shown.lines:
            return
        time.sleep(0.001)
    raise AssertionError(f"{line} is not among {shown.lines}")


def test_threads_and_compiles_inside_share_a_line(watch: tuple[CompileWatch, Recorded]) -> None:
    compiles, shown = watch
    go_on = threading.Event()

    def other() -> None:
        with compiles.compiling("other"):
            go_on.wait(60)

    with compiles.compiling("outer"):
        compiles.stage_began("outer", "lower", 0.0)
        with compiles.compiling("inner"):
            wait_for(shown, ["outer "])
            thread = threading.Thread(target=other)
            thread.start()
            wait_for(shown, ["outer ", "other "])
        wait_for(shown, ["outer lower", "other "])
        compiles.stage_ended("outer", "trace", 0.0, 0.0)  # which had not begun
        compiles.stage_ended("outer", "lower", 0.0, 0.0)
    wait_for(shown, ["other "])
    go_on.set()
    thread.join()


def test_what_fails_goes_on_no_more(watch: tuple[CompileWatch, Recorded]) -> None:
    compiles, shown = watch

    def fail() -> None:
        with compiles.compiling("fails"):
            compiles.stage_began("fails", "lower", 0.0)
            wait_for(shown, ["fails lower"])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert compiles.going() == []


def test_a_debugger_is_left_alone(
    watch: tuple[CompileWatch, Recorded], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    compiles, shown = watch
    looks: list[bool] = []
    in_debugger = progress._waits_for_user

    def look(thread: int) -> bool:
        looks.append(in_debugger(thread))
        return looks[-1]

    def wait() -> None:
        with compiles.compiling("stopped"):
            while len(looks) < 3:
                time.sleep(0.001)

    monkeypatch.setattr(progress, "_waits_for_user", look)
    prompt = {"__name__": "pdb", "wait": wait}
    exec("def interact():\n    wait()", prompt)
    prompt["interact"]()  # type: ignore[operator]
    assert looks[:3] == [True] * 3
    assert shown.lines == []


def test_every_way_to_compile_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    compiling = CompileWatch.compiling

    def noted(self: CompileWatch, name: str):
        made.append(name)
        return compiling(self, name)

    monkeypatch.setattr(CompileWatch, "compiling", noted)
    f = dyn.jit(lambda x: x + 1)
    f(np.ones(3, "f4"))
    f(np.ones(0, "f4"))
    assert len(made) == f.cache_info().compiles == 1
    f.lower(np.ones(3, "f8")).compile()
    assert len(made) == 2
    assert progress.WATCH.going() == []


def test_lines() -> None:
    going = [OpenStage("step", 1.0, "lower"), OpenStage("a", 2.0, ""), OpenStage("b", 3.0, "")]
    assert progress.line(going[:1], 8.2) == "dyn: compiling step for 7 s (lower)"
    assert progress.line(going[1:], 8.2) == "dyn: compiling a for 6 s (trace), and 1 other"
    assert progress.line(going, 8.2) == "dyn: compiling step for 7 s (lower), and 2 others"


def test_a_stream_that_is_gone_harms_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with open(tmp_path / "closed", "w", encoding="utf-8") as stream:
        pass
    monkeypatch.setattr(sys, "stderr", stream)
    assert progress.display_here() is None
    TerminalLine().show([OpenStage("step", 0.0, "")], 9.0)
    monkeypatch.setattr(sys, "stderr", None)
    assert progress.display_here() is None


def test_a_notebook_has_one_output_that_is_changed(require_module: Callable[[str], ModuleType]) -> None:
    require_module("IPython")
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    shell = InteractiveShell.instance()
    try:
        shown = NotebookLine()
        with capture_output() as captured:
            shown.show([OpenStage("<lambda>", 0.0, "lower")], 6.0)
            shown.show([], 7.0)
        first, last = [output.data["text/html"] for output in captured.outputs]
    finally:
        assert shell.history_manager is not None
        shell.history_manager.end_session()
        InteractiveShell.clear_instance()
    assert first.endswith("dyn: compiling &lt;lambda&gt; for 6 s (lower)")
    assert last == "<span></span>"
