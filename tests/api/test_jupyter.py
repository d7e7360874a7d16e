"""The IPython extension: its magic, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from dyn import jupyter, progress


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


def test_the_extension_leaves_nothing_behind(shell: Any) -> None:
    assert progress.WATCH.after == jupyter.SHOWN_IN_NOTEBOOKS_AFTER
    shell.run_cell("%unload_ext dyn")
    assert progress.WATCH.after == progress.SHOWN_AFTER
    assert "dyn_explain" not in shell.magics_manager.magics["cell"]
    shell.run_cell("%load_ext dyn")
    assert "dyn_explain" in shell.magics_manager.magics["cell"]
