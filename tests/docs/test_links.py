"""Links in the documentation lead somewhere, and the files of the repository that it names are there.

``make docs-links`` asks the servers of links that lead out; here these are looked at as texts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import dyn

ROOT = Path(dyn.__file__).parents[1]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(page for folder in ("docs", "docs/decisions", "docs/performance") for page in (ROOT / folder).glob("*.md")),
        *ROOT.glob("notebooks/*.ipynb"),
    ]
)
#: Pages and folders that tell of what was: the files that they name may have been renamed since.
RECORDS = {"CHANGELOG.md", "changelog_0_1.md", "decisions", "performance"}

MODULES = [
    path.relative_to(ROOT).as_posix()
    for room in ("dyn", "tests", "benchmarks", "examples", "scripts")
    for path in (ROOT / room).rglob("*.py")
]

_CODE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)\)")
_FILE = re.compile(r"`((?:dyn|tests|benchmarks|examples|scripts|docs|notebooks)/[\w./]*)`")
_MODULE = re.compile(r"`([\w/]+\.py)`")
_FILE_AND_NAME = re.compile(r"`(dyn/[\w/]+\.py)`\s+\(`([\w.]+)`")
_NAME_IN_FILE = re.compile(r"`([\w.]+)`\s+in\s+`(dyn/[\w/]+\.py)`")
_URL = re.compile(r"https?://[^\s<>`\"'|\\]+")


def text_of(page: Path) -> str:
    """The prose of a page, without blocks of code; of a notebook, its text cells."""
    text = page.read_text()
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return _CODE.sub("", text)


def is_record(page: Path) -> bool:
    """Return True for a page that tells of what was."""
    return page.name in RECORDS or page.parent.name in RECORDS


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    return {anchor_of(title) for title in re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)}


def anchor_of(title: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it of its words."""
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", title)
    return re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")


def broken(page: Path) -> Iterator[str]:
    """The links of a page that lead nowhere."""
    for target in _LINK.findall(text_of(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.exists() or (anchor and found.suffix == ".md" and anchor not in anchors_of(found)):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert list(broken(page)) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_pages_name_are_there(page: Path) -> None:
    named = [] if is_record(page) else [name for name in _FILE.findall(text_of(page)) if "/_build/" not in name]
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_that_pages_name_by_the_end_of_their_paths_are_there(page: Path) -> None:
    """``x86/tables.py`` in a page on ``dyn/schedule``."""
    named = [] if is_record(page) else _MODULE.findall(text_of(page))
    assert [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in MODULES)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_definitions_that_pages_place_in_a_file_are_in_it(page: Path) -> None:
    """``dyn/api.py`` (``Jitted._call``), and ``Jitted._call`` in ``dyn/api.py``."""
    text = "" if is_record(page) else text_of(page)
    placed = [(name, path) for path, name in _FILE_AND_NAME.findall(text)] + _NAME_IN_FILE.findall(text)
    assert [at for at in placed if not re.search(rf"\b{at[0].split('.')[-1]}\b", (ROOT / at[1]).read_text())] == []


def test_addresses_are_well_formed() -> None:
    texts = [*map(text_of, PAGES), *(path.read_text() for path in (ROOT / "dyn").rglob("*.py"))]
    found = {url.rstrip(".,:;)]") for text in texts for url in _URL.findall(text)}
    assert len(found) > 30
    parts = {url: urlsplit(url) for url in found if "{" not in url}
    wrong = [url for url, at in parts.items() if at.scheme != "https" or "." not in at.netloc or "//" in at.path]
    assert wrong == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "performance").glob("*.md")), ids=lambda page: page.stem)
def test_pages_of_the_record_of_measurements_begin_with_their_contents(page: Path) -> None:
    text = page.read_text()
    contents, sections = text[: text.index("\n## ")], re.findall(r"^## (.+)$", text, re.MULTILINE)
    linked = re.findall(r"\]\(#([^)]+)\)", contents)
    assert linked == [anchor_of(title) for title in sections]


def test_the_charts_lead_to_all_of_the_record() -> None:
    text = (ROOT / "docs" / "performance.md").read_text()
    pages = {page.name for page in (ROOT / "docs" / "performance").glob("*.md")}
    assert set(re.findall(r"^\| \[[^]]+\]\(performance/([^)]+)\)", text, re.MULTILINE)) == pages


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Some words\n[a](#some-words) [b](#others) [c](page.md#some-words) [d](gone.md)\n```\n[e](x)\n```\n"
    )
    assert list(broken(page)) == ["#others", "gone.md"]
