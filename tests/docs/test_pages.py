"""The examples of the documentation run, page by page, and give what the pages show."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import pytest

import dyn
from dyn.ir.opdef import REGISTRY
from tests.docs.examples import PAGES, examples_of

DOCS = Path(dyn.__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", PAGES)
def test_examples_run_and_give_what_is_shown(
    page: str, require_module: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("sybil", *PAGES[page]):
        require_module(module)
    monkeypatch.chdir(tmp_path)  # examples may write files
    examples = list(examples_of(DOCS / page))
    assert examples, f"{page} has no examples: take it off the list"
    with patch.dict(REGISTRY):  # and declare ops
        for example in examples:
            example.evaluate()


def test_examples_of_the_readme_run(
    require_module: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    require_module("sybil")
    for example in examples_of(DOCS.parent / "README.md"):
        example.evaluate()
    assert "softmax: 1 compile, 1 hit, 0 guards" in capsys.readouterr().out


def test_lines_of_code_fit_into_a_column_of_a_page() -> None:
    pages = [DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md", *DOCS.glob("*.md")]
    blocks = re.compile(r"^```(python|pycon)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    long = [
        f"{page.name}: {line}"
        for page in pages
        for kind, code in blocks.findall(page.read_text())
        for line in code.splitlines()
        if len(line) > 97 and (kind == "python" or line.startswith((">>> ", "... ")))
    ]
    assert long == []


def test_no_paragraph_is_a_wall() -> None:
    """A paragraph or an item of a list has 105 words at most. Records are as they were written."""
    records = {DOCS / "performance.md", DOCS / "changelog_0_1.md"}
    pages = {DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md", *DOCS.glob("*.md")} - records
    blocks = re.compile(r"^(```|::::?).*?^\1$", re.DOTALL | re.MULTILINE)
    walls = [
        f"{page.name}: {len(item.split())} words: {item.strip()[:60]}"
        for page in pages
        for paragraph in re.split(r"\n\s*\n", blocks.sub("", page.read_text()))
        if not paragraph.lstrip().startswith("|")
        for item in re.split(r"\n(?=\s*[-*] |\s*\d+\. )", paragraph)
        if len(item.split()) > 105
    ]
    assert walls == []


def test_every_page_begins_with_what_a_reader_can_do_after_it() -> None:
    included = "```{include} "  # the changelog, and CONTRIBUTING, which begins so itself
    pages = {page: page.read_text() for page in [*DOCS.glob("*.md"), DOCS.parent / "CONTRIBUTING.md"]}
    wrong = [
        page.name
        for page, text in pages.items()
        if not text.startswith(included) and not text.partition("\n\n")[2].startswith("*After this page you ")
    ]
    assert wrong == ["index.md"]  # where readers choose a page


def test_another_answer_is_found(require_module: Callable[[str], ModuleType], tmp_path: Path) -> None:
    require_module("sybil")
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```pycon\n>>> x\n2\n>>> x\n1\n```\n")
    block, wrong, right = examples_of(page)
    block.evaluate()
    with pytest.raises(AssertionError, match="Expected:\n    2\nGot:\n    1"):
        wrong.evaluate()
    right.evaluate()
