"""``scripts/versions.py``: what it says of runs. Nothing is installed here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dyn.requirements import EXTRAS
from scripts import versions
from scripts.versions import FRONT_ENDS, KNOWN, Failure, Run

REPORT = """<?xml version="1.0"?><testsuites><testsuite>
<testcase classname="tests.a" name="one"/>
<testcase classname="tests.a" name="two[x]"><failure message="assert 1 == 2&#10;more">text</failure></testcase>
<testcase classname="tests.a" name="three"><skipped message="PyTorch is missing"/></testcase>
<testcase classname="" name="tests.b"><error message="collection failure"/></testcase>
</testsuite></testsuites>"""


def test_what_a_report_says(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT, encoding="utf-8")
    assert versions.read_report(report) == (
        1,
        ["tests.a::two[x]: assert 1 == 2", "::tests.b: collection failure"],
        ["tests.a::three: PyTorch is missing"],
    )


def test_a_table_leaves_nothing_out() -> None:
    runs = [
        Run("torch==2.14.1", "3.11", 1234, (), (), 61.4),
        Run("tensorflow-cpu==2.20.0,keras==3.14.1", "3.13", 7, ("t::a: bad",), ("t::b: PyTorch is missing",), 5),
    ]
    assert versions.table(runs).splitlines() == [
        "| versions | Python | passed | failed | skipped | s |",
        "|---|---|--:|--:|--:|--:|",
        "| torch==2.14.1 | 3.11 | 1,234 | 0 | 0 | 61 |",
        "| tensorflow-cpu==2.20.0, keras==3.14.1 | 3.13 | 7 | 1 | 1 | 5 |",
        "failed with tensorflow-cpu==2.20.0,keras==3.14.1 and Python 3.13: t::a: bad",
        "skipped with tensorflow-cpu==2.20.0,keras==3.14.1 and Python 3.13: t::b: PyTorch is missing",
    ]


def test_the_tests_are_there() -> None:
    for one in FRONT_ENDS.values():
        assert all(versions.test_files([pattern]) for pattern in (*one.tests, *one.whole))
        assert set(one.extras) <= set(EXTRAS)
    with pytest.raises(Failure) as caught:
        versions.front_end("scipy==1.17.0")
    assert str(caught.value) == "scipy==1.17.0 begins with no name that has tests: numpy, jax, torch, tensorflow-cpu."


def test_known_versions_are_those_that_the_front_ends_take() -> None:
    from dyn.interop.jax.internals import KNOWN as jax

    folder = versions.ROOT / "dyn" / "interop"
    taken = {"jax": jax}
    for name, room in (("torch", "torch"), ("tensorflow-cpu", "tf")):  # read: neither is imported here
        text = (folder / room / "installed.py").read_text(encoding="utf-8")
        found = re.search(r"^KNOWN = \((.*)\)$", text, re.MULTILINE)
        assert found is not None
        taken[name] = tuple(re.findall(r'"([^"]+)"', found[1]))
    for version in KNOWN:
        name, _, number = version.partition(",")[0].partition("==")
        assert ".".join(number.split(".")[:2]) in taken[name]
