"""The grids of which ``make test`` runs a part are there, and the part is what it says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.rarely import GRIDS, part

pytest_plugins = ["pytester"]

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("file", GRIDS)
def test_each_grid_is_a_test(file: str) -> None:
    tree = ast.parse((TESTS / file).read_text("utf-8"))
    assert GRIDS[file].keys() <= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert all(count > 1 for count in GRIDS[file].values())


@pytest.mark.parametrize(
    ("cases", "count", "kept"), [(1, 4, 1), (4, 4, 1), (5, 4, 2), (10, 3, 4), (7, 1, 7), (0, 2, 0)]
)
def test_one_in_so_many_is_kept(cases: int, count: int, kept: int) -> None:
    names = [f"test[{number}]" for number in range(cases)]
    chosen = part(names, count)
    assert len(chosen) == kept
    assert chosen <= {*names}
    assert chosen == part(reversed(names), count)


def test_a_case_that_is_asked_for_runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """And of all of them the part, whichever marks the others have."""
    monkeypatch.setitem(GRIDS, "test_grid.py", {"test_it": 3})
    pytester.makeini("[pytest]\naddopts = -m 'not slow'\nmarkers = slow: rarely")
    pytester.makeconftest("""
import pytest
from tests.rarely import leave_out
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    leave_out(items)
""")
    pytester.makepyfile(
        test_grid="""
import pytest
@pytest.mark.parametrize("n", range(7))
def test_it(n): pass
"""
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=3, deselected=4)
    pytester.runpytest_inprocess("-m", "slow").assert_outcomes(passed=4, deselected=3)
    for number in range(7):
        pytester.runpytest_inprocess(f"test_grid.py::test_it[{number}]").assert_outcomes(passed=1)
