"""The examples of the documentation run, page by page, and give what the pages show."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import dyn
from tests.docs.examples import PAGES, examples_of, run_in_fresh_process

DOCS = Path(dyn.__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", PAGES)
def test_examples_run_and_give_what_is_shown(
    page: str, require_module: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    for module in ("sybil", *PAGES[page]):
        require_module(module)
    said = run_in_fresh_process(DOCS / page, tmp_path)
    count = re.search(r"^(\d+) examples of ", said.splitlines()[-1])
    assert count is not None
    assert int(count[1]) > 0, f"{page} has no examples: take it off the list"


def test_examples_of_the_readme_run(require_module: Callable[[str], ModuleType], tmp_path: Path) -> None:
    for module in ("sybil", "jax"):
        require_module(module)
    said = run_in_fresh_process(DOCS.parent / "README.md", tmp_path)
    assert "softmax: 1 compile, 1 hit, 0 guards" in said


def test_the_native_function_of_a_page_is_built_as_it_says(
    require_module: Callable[[str], ModuleType], require_tool: Callable[..., str], tmp_path: Path
) -> None:
    for module in ("sybil", *PAGES["callbacks.md"]):
        require_module(module)
    text = (DOCS / "callbacks.md").read_text()
    source, command = re.findall(r"^```c\n(.*?)^```\n\n```sh\n(cc .*?)\n```$", text, re.DOTALL | re.MULTILINE)[0]
    (tmp_path / "outer.c").write_text(source)
    compiler = require_tool("cc", "gcc", "g++")
    subprocess.run([compiler, *shlex.split(command)[1:], "-Wall", "-Werror"], cwd=tmp_path, check=True)
    said = run_in_fresh_process(DOCS / "callbacks.md", tmp_path)
    assert "(2, 3)\n(0, 3)\n(1, 3)\n(300, 3)\n" in said
    assert "not run" not in said


def test_every_page_with_examples_is_run() -> None:
    blocks = re.compile(r"^```(python|pycon)$", re.MULTILINE)
    pages = {page.name for page in DOCS.glob("*.md") if blocks.search(page.read_text())}
    assert pages == {*PAGES, "from_tensorflow.md", "tensorflow.md"}  # these tests/interop/tf/test_tf_page.py runs


def test_what_is_not_run_says_on_which_machine_it_is() -> None:
    """A block may be left out by a condition alone, with the reason."""
    directives = [
        directive
        for page in [DOCS.parent / "README.md", *DOCS.glob("*.md")]
        for directive in re.findall(r"<!-- skip: .*", page.read_text())
    ]
    assert [text for text in directives if not re.fullmatch(r'<!-- skip: next if\(.*, reason=".*"\) -->', text)] == []


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


def unpasteable(code: str) -> Iterator[str]:
    """Statements that Python's prompt takes otherwise than a file: a blank line ends a block, and nothing else does."""
    lines = code.splitlines()
    for statement in ast.parse(code).body:
        end = statement.end_lineno or statement.lineno
        if not hasattr(statement, "body"):  # no block: def, class, for, with, …
            continue
        if not all(line.strip() for line in lines[statement.lineno - 1 : end]):
            yield f"{lines[statement.lineno - 1]}: has a blank line"
        if end < len(lines) and lines[end].strip():
            yield f"{lines[statement.lineno - 1]}: goes on without a blank line"


def test_examples_can_be_pasted_at_pythons_prompt() -> None:
    """Those that add to the sources are for files."""
    pages = [DOCS.parent / "README.md", *DOCS.glob("*.md")]
    blocks = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
    wrong = [
        f"{page.name}: {text}"
        for page in pages
        if not page.name.startswith("adding_")
        for code in blocks.findall(page.read_text())
        for text in unpasteable(code)
    ]
    assert wrong == []
    assert len([*unpasteable("class A:\n    x = 1\n\n    y = 2\n\nA()\n")]) == 1
    assert len([*unpasteable("with a:\n    b()\nc()\n")]) == 1
    assert [*unpasteable("a = (\n\n    1)\nb = 2\ndef f():\n    return 1\n")] == []


def test_no_paragraph_is_a_wall() -> None:
    """A paragraph or an item of a list has 105 words at most. Records are as they were written."""
    records = {DOCS / "changelog_0_1.md"}
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


def test_names_with_two_underscores_stand_in_code() -> None:
    """Markdown would take them for emphasis: ``__init__`` is a bold *init*."""
    pages = [DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
    code = re.compile(r"^```.*?^```$|`+[^`]*`+|<!--.*?-->", re.DOTALL | re.MULTILINE)
    names = {page.name: re.findall(r"(?<!\\)\b__\w+__", code.sub("", page.read_text())) for page in pages}
    assert {page: found for page, found in names.items() if found} == {}


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
