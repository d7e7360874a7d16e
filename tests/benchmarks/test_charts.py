"""The charts of docs/performance.md and README.md: their figures are those of the record, their pictures small."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import charts, record, svg
from benchmarks.report import Table

ROOT = Path(charts.__file__).resolve().parents[1]
_SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", charts.CHARTS)
def test_a_chart_is_of_the_record(name: str) -> None:
    """``python -m benchmarks report`` after a table of docs/performance/ has changed."""
    assert (charts.IMAGES / f"{name}.svg").read_text(encoding="utf-8") == charts.CHARTS[name]()


@pytest.mark.parametrize("name", charts.CHARTS)
def test_a_chart_is_small_and_all_of_it_is_inside(name: str) -> None:
    picture = charts.CHARTS[name]()
    assert len(picture) < 32_000
    root = ElementTree.fromstring(picture)
    width, height = int(root.get("width", "")), int(root.get("height", ""))
    assert width == (560 if name == "stream" else svg.WIDTH)
    assert height < 500
    for shape in root.iter():
        left, top = (float(shape.get(x, shape.get(f"c{x}", "0"))) for x in "xy")
        assert left >= 0
        assert left + float(shape.get("width", "0")) <= width
        assert 0 <= top <= height
    for text in root.iter(f"{_SVG}text"):
        x, size = float(text.get("x", "")), 0.53 * len(text.text or "") * (11 if text.get("class") else 13)
        anchor = text.get("text-anchor", "start")
        left = x - size * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        assert left > -5, text.text
        assert left + size < width + 5, text.text
    assert "prefers-color-scheme:dark" in picture


def test_the_page_shows_all_charts_but_that_of_the_readme() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    shown = re.findall(r"\(images/(\w+)\.svg\)", page)
    assert sorted([*shown, "stream"]) == sorted(charts.CHARTS)


def test_pages_say_what_the_chart_of_the_readme_shows() -> None:
    table = record.section("streams", "shape_stream: 12-layer BERT over 100 shapes").table("In all")
    dyn, torch, jax = record.row(table, "first touch, s")[1:]
    description = (
        f"dyn {dyn:.0f} s with one compile, PyTorch eager {torch:.0f} s, jax.jit {jax:.0f} s with 100 compiles"
    )
    _, dyn, _, jax = record.row(table, "compiling, s")
    for page in ("README.md", "docs/index.md"):
        said = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        assert description in said
        assert f"dyn compiles once, in {dyn} s" in said
        assert f"a hundred times, in {jax:.0f} s" in said


def test_tables_of_a_section() -> None:
    text = (
        "Words.\n\n**In all**\n\n|  | dyn | a |\n|---|---:|---:|\n| x | 1,259 | 2.5× |\n| y | – |  |\n\n"
        "| z | w |\n|---|---|\n| u | 3 |\n"
    )
    section = record.Section("page", "Title", text)
    named = Table("In all", ("", "dyn", "a"), (("x", "1,259", "2.5×"), ("y", "–", "")))
    assert section.tables() == [named, Table("", ("z", "w"), (("u", "3"),))]
    assert section.table("In all") == section.table(0) == named
    assert record.row(named, "x") == (None, 1259, 2.5)
    assert record.row(named, "y") == (None, None, None)
    with pytest.raises(ValueError, match=r"^page, 'Title': 0 tables are 'gone'\.$"):
        section.table("gone")
    with pytest.raises(ValueError, match=r"^0 rows of 'In all' are 'gone'\.$"):
        record.row(named, "gone")
    with pytest.raises(ValueError, match=r"^streams\.md has 0 sections 'gone'\.$"):
        record.section("streams", "gone")
    with pytest.raises(ValueError, match=r"^page, 'Title' has no machine 'Cray'\.$"):
        charts.machine(section, "Cray")


def test_a_bar_lies_on_the_side_of_who_is_quicker() -> None:
    picture = ElementTree.fromstring(svg.ratios("Title", [svg.Ratios("a", (("JAX", 0.5), ("NumPy", 2.0)))]))
    _, slower, quicker = picture.iter(f"{_SVG}rect")
    one = float(slower.get("x", "")) + float(slower.get("width", ""))
    assert math.isclose(one, float(quicker.get("x", "")), abs_tol=0.11)
    assert math.isclose(float(slower.get("width", "")), float(quicker.get("width", "")), abs_tol=0.11)
    title = picture.find(f"{_SVG}title")
    assert title is not None
    assert title.text == "Title. a: JAX 0.50×, NumPy 2.00×."


def test_geometric_means_are_those_of_the_record() -> None:
    table = record.section("memory_bound", "Memory-bound programs, where they stand").table(0)
    means = record.row(table, "geometric mean")[1:]
    shown = re.findall(r"mean ([\d.]+)×", charts.CHARTS["performance_memory_bound"]())
    assert [float(mean) for mean in shown] == pytest.approx(list(means), abs=0.011)
