"""``python -m benchmarks dispatch``: that it runs, and what its report has."""

from __future__ import annotations

import argparse
import json

import pytest

from benchmarks.suites import dispatch


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    dispatch.add_arguments(parser)
    return parser.parse_args(words)


def test_the_report() -> None:
    report = dispatch.run(options("--bursts", "1", "--burst-ms", "0.01", "--skip-peers"))
    (table,) = report.tables
    assert table.header == ("call", "dyn", "numpy")
    assert {"x + 1, 8 floats", "16 arrays of 8 floats, x + 1", "200-leaf dict in and out"} <= {r[0] for r in table.rows}
    assert all(call["seconds"] > 0 for call in json.loads(report.json())["calls"])
    assert "| x + 1, 8 floats |" in report.markdown()


def test_bad_options() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        dispatch.run(options("--bursts", "0"))
