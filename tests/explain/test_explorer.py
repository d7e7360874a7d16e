"""The HTML page of a compile: what stands in its columns, and that its links hold."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

import dyn
import dyn.numpy as dnp


def block(x, w):
    y = dnp.tanh(x @ w)
    return dyn.nn.softmax(y)


def pages(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.compile.html"))


class Columns(HTMLParser):
    """The texts of each column, and the source lines that each of them is linked with."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.columns: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
        self.open: list[str] = []
        self.places: tuple[str, ...] = ()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta",):
            self.open.append(tag)
        self.places = tuple((dict(attrs).get("data-p") or "").split("|")) if tag == "pre" else ()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] == "h2":
            self.columns[data] = []
        elif self.open[-1] == "pre":
            list(self.columns.values())[-1].append((data, self.places))


def test_each_line_is_linked_with_what_became_of_it(tmp_path: Path) -> None:
    with dyn.config.override(dump=str(tmp_path)):
        dyn.jit(block)(np.ones((2, 3), "f4"), np.ones((3, 4), "f4"))
    (page,) = pages(tmp_path)
    parsed = Columns(page.read_text())
    assert parsed.open == []
    columns = parsed.columns
    assert list(columns) == ["your lines", "DHLO", "kernels", "code", "assembly"]
    line = block.__code__.co_firstlineno + 1
    product, softmax = (f"test_explorer.py:{line}",), (f"test_explorer.py:{line + 1}",)
    mine = {places: text for text, places in columns["your lines"] if places != ("",)}
    assert mine[product].endswith("y = dnp.tanh(x @ w)")
    assert mine[softmax].endswith("return dyn.nn.softmax(y)")
    dhlo = {places for text, places in columns["DHLO"] if "dot_general" in text or "tanh" in text}
    assert dhlo == {product}
    for stage in ("kernels", "code", "assembly"):
        linked = {place for _, places in columns[stage] for place in places} - {""}
        assert linked == {*product, *softmax}, stage
    assert any("define " in text for text, _ in columns["code"])
    assert any(".globl" in text for text, _ in columns["assembly"])


def test_programs_have_a_page_each_and_one_index(tmp_path: Path) -> None:
    f = dyn.jit(lambda x: x + 1 if x.shape[0] > 2 else x * 2)
    with dyn.config.override(dump=str(tmp_path)):
        f(np.ones(1, "f4"))
        f(np.ones(3, "f4"))
    names = [path.name for path in pages(tmp_path)]
    assert names == ["lambda.0001.compile.html", "lambda.0002.compile.html"]
    index = (tmp_path / "index.html").read_text()
    assert re.findall(r'href="([^"]*)"', index) == names
    assert not [path for path in tmp_path.iterdir() if path.suffix.isdigit()]


def test_what_is_shown_is_escaped(tmp_path: Path) -> None:
    def f(x):
        return dnp.where(x < 1, x, "<b>&" and 2)

    with dyn.config.override(dump=str(tmp_path)):
        dyn.jit(f)(np.ones(0, "f4"))
    (page,) = pages(tmp_path)
    assert "<b>&" not in page.read_text()
    assert "&lt;b&gt;&amp;" in page.read_text()
