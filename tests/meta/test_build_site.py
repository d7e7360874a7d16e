"""``make docs``: what it says of a page with a fault, and of one without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from scripts import build_site


@pytest.fixture
def pages(require_module: Callable[[str], ModuleType], tmp_path: Path) -> Path:
    require_module("sphinx")
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "conf.py").write_text('project = "pages"\n')
    return folder


def test_a_site_is_built_with_one_line(pages: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (pages / "index.rst").write_text("Page\n====\n\nText.\n")
    assert build_site.build([], pages, tmp_path / "html") == ""
    assert "<p>Text.</p>" in (tmp_path / "html" / "index.html").read_text()
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "[dyn] building the site (ten minutes, when notebooks run)"
    assert all(line.startswith("[dyn]   ") for line in said[1:])  # of a machine that is slow


def test_warnings_are_errors_and_are_told(pages: Path, tmp_path: Path) -> None:
    """All of them, with their places; a reference that leads nowhere is one."""
    (pages / "index.rst").write_text("Long title\n====\n\n:func:`dyn.gone`\n")
    problem = build_site.build([], pages, tmp_path / "html")
    lines = [line for line in problem.splitlines() if "WARNING" in line]
    assert [line.partition("WARNING: ")[2].split(" [")[0] for line in lines] == [
        "Title underline too short.",
        "py:func reference target not found: dyn.gone",
    ]
    assert f"{pages / 'index.rst'}:4: " in lines[1]


def test_what_ends_sphinx_is_told(pages: Path, tmp_path: Path) -> None:
    (pages / "conf.py").write_text("1 / 0\n")
    assert "ZeroDivisionError: division by zero" in build_site.build([], pages, tmp_path / "html")


def test_progress_is_sphinxs_and_no_librarys() -> None:
    sphinx, kernel = "reading sources... [ 55%] api/dyn-numpy", "[IPKernelApp] WARNING | Kernel is running over TCP"
    assert build_site.at_which_page([]) == build_site.at_which_page([kernel]) == ""
    assert build_site.at_which_page([sphinx, kernel]) == f": {sphinx}"
    notebook = "/checkout/docs/notebooks/01-first-steps.ipynb: Executing notebook using local CWD [mystnb]"
    assert build_site.at_which_page([sphinx, notebook, kernel]) == ": running 01-first-steps.ipynb"
