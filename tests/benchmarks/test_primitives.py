"""``python -m benchmarks primitives``, ``linalg`` and ``training``: that they run, and what their reports have."""

from __future__ import annotations

import argparse
import json
from types import ModuleType

import pytest

from benchmarks.suites import linalg, primitives, training


def options(suite: ModuleType, *words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    suite.add_arguments(parser)
    return parser.parse_args(words)


def test_the_report_of_primitives() -> None:
    words = ("--size", "1000", "--repeats", "1", "--skip-jax")
    report = primitives.run(options(primitives, *words))
    (table,) = report.tables
    assert table.header == ("", "dyn", "numpy", "jax", "dyn / best other")
    assert [row[0] for row in table.rows][:2] == ["sort 1,000 float32", "argsort 1,000 float32"]
    assert len(table.rows) == len(primitives.CASES)
    assert all(seconds["numpy"] > 0 for seconds in json.loads(report.json())["calls"].values())


def test_the_report_of_linalg() -> None:
    report = linalg.run(options(linalg, "--only", "det, inv", "--repeats", "1", "--skip-jax"))
    (table,) = report.tables
    assert table.header == ("", "dyn", "numpy", "jax", "dyn / best other")
    assert [row[0] for row in table.rows][::3] == ["det of 1000 × 4 × 4", "inv of 1000 × 4 × 4"]


def test_the_report_of_training() -> None:
    words = ("--layers", "1", "--width", "16", "--shapes", "2x3,1x5", "--repeats", "1", "--peers", "")
    report = training.run(options(training, *words))
    (table,) = report.tables
    assert table.header == ("batch × length", "dyn")
    assert [row[0] for row in table.rows] == ["2 × 3", "1 × 5"]


@pytest.mark.parametrize(
    ("suite", "words", "text"),
    [
        (primitives, ("--only", "heap"), "there is no row 'heap'; there are sort, argsort, cumsum, cumsum_columns, "
         "top_k, scatter_add, scatter_add_rows, scan."),
        (primitives, ("--size", "5"), "--size must be at least 1000, and --repeats 1."),
        (linalg, ("--only", "rank"), "there is no 'rank'; there are cholesky, solve, inv, det, qr, eigh, svd, eig."),
        (linalg, ("--repeats", "0"), "--repeats must be at least 1."),
        (training, ("--peers", "mxnet"), "--peers are among torch, jax, and --repeats is at least 1."),
    ],
)  # fmt: skip
def test_bad_options(suite: ModuleType, words: tuple[str, ...], text: str) -> None:
    with pytest.raises(ValueError) as wrong:
        suite.run(options(suite, *words))
    assert str(wrong.value) == text
