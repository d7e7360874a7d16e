"""The IPython extension: its magic, and the display of compiles that take long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from dyn import events, jupyter
from dyn.compilation_record import CompilationRecord


@pytest.fixture
def shell(require_module: Callable[[str], ModuleType]) -> Iterator[Any]:
    require_module("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    made: Any = InteractiveShell.instance()  # what display() shows goes through
    made.run_cell("%load_ext dyn\nimport numpy as np, dyn, dyn.numpy as dnp")
    yield made
    made.run_cell("%unload_ext dyn")
    made.history_manager.end_session()
    InteractiveShell.clear_instance()


def run(shell: Any, cell: str) -> tuple[list[str], str]:
    """The texts of what a cell displays, and what it prints."""
    from IPython.utils.capture import capture_output

    with capture_output() as captured:
        shell.run_cell(cell)
    return [output.data["text/plain"] for output in captured.outputs], captured.stdout


def test_a_cell_is_explained_by_what_it_compiled(shell: Any) -> None:
    run(shell, "f = dyn.jit(lambda x: x + 1)\ng = dyn.jit(lambda x: x * 2)\n_ = g(np.ones(3))")
    shown, _ = run(shell, "%%dyn_explain\nsame = f\n_ = f(np.ones(3)), g(np.ones(4))")
    (text,) = shown
    assert text.startswith("<lambda>: 1 compile, 0 hits, 0 guards\n")
    assert run(shell, "%%dyn_explain\n_ = f(np.ones(5))") == ([], "dyn: nothing was compiled in this cell.\n")
    shown, _ = run(shell, "%%dyn_explain g\n_ = f(np.ones(6))")
    assert [text.partition("\n")[0] for text in shown] == ["<lambda>: 1 compile, 1 hit, 0 guards"]


def test_errors_are_those_of_the_cell(shell: Any) -> None:
    shown, printed = run(shell, "%%dyn_explain\n1 / 0")
    assert shown == []
    assert "ZeroDivisionError" in printed
    _, printed = run(shell, "%%dyn_explain np\n0")
    assert "'np' is no function compiled by dyn" in printed


def test_long_compiles_are_shown_and_taken_away(
    require_module: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    require_module("IPython")
    seen: list[list[str]] = []

    def show(handle: Any, compiles: list[tuple[str, float, str]], now: float) -> Any:
        seen.append([name for name, _, _ in compiles])
        return "handle"

    monkeypatch.setattr(jupyter, "_show", show)
    monkeypatch.setattr(jupyter, "_STEP", 0.001)
    progress = jupyter.Progress()
    start = time.perf_counter() - 2 * jupyter.SHOWN_AFTER
    progress.stage_began("slow", "lower", start)
    while not seen:
        time.sleep(0.001)
    progress.stage_ended("slow", "lower", start, time.perf_counter())
    while progress._watcher is not None or seen[-1]:
        time.sleep(0.001)
    assert seen[0] == ["slow"]
    count = len(seen)
    progress.stage_began("quick", "lower", time.perf_counter())
    progress.stage_ended("quick", "lower", 0.0, time.perf_counter())
    while progress._watcher is not None:
        time.sleep(0.001)
    assert len(seen) == count


def test_what_is_only_lowered_or_fails_goes_on_no_more(shell: Any) -> None:
    progress = shell.user_ns["_dyn_progress"]
    shell.run_cell("_ = dyn.jit(lambda x: x + 1).trace(dyn.ShapeDtypeStruct(('n',), 'float32')).lower()")
    assert progress._compiling == {}

    def fail() -> None:
        with CompilationRecord("fails").timed("lower"):
            assert [name for name, _, _ in progress._compiling.values()] == ["fails"]
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert progress._compiling == {}


def test_the_extension_leaves_nothing_behind(shell: Any) -> None:
    listeners = len(events._LISTENERS)
    shell.run_cell("%unload_ext dyn")
    assert len(events._LISTENERS) == listeners - 1
    assert "dyn_explain" not in shell.magics_manager.magics["cell"]
    shell.run_cell("%load_ext dyn")
    assert len(events._LISTENERS) == listeners
