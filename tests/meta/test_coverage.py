"""The page on coverage is what the ops and the tests say."""

from __future__ import annotations

from tests import coverage


def test_the_page_is_up_to_date() -> None:
    assert coverage.PATH.read_text(encoding="utf-8") == coverage.table(), "run: python -m tests.coverage"


def test_there_is_no_unexplained_hole() -> None:
    assert " – |" not in coverage.table()
