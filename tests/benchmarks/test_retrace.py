"""The benchmark of calls that are traced anew runs, with and without JAX."""

from __future__ import annotations

import argparse

import pytest

from benchmarks.suites import retrace


@pytest.mark.parametrize("skip_peers", [True, False])
def test_every_call_is_timed(skip_peers: bool) -> None:
    if not skip_peers:
        pytest.importorskip("jax")
    found = retrace.run(argparse.Namespace(repeats=1, layers=1, skip_peers=skip_peers))
    (table,) = found.tables
    assert [len(row) for row in table.rows] == [4] * 6
    assert all(float(row[1]) > 0 and (row[2] == "") == skip_peers for row in table.rows)


def test_what_cannot_be_measured_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^--repeats and --layers must be at least 1\.$"):
        retrace.run(argparse.Namespace(repeats=0, layers=1, skip_peers=True))
