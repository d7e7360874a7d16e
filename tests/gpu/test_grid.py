"""A part of the grid (``grid.py``): some forms of every op, each on one kind of software GPU, at all sizes."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

import dyn
from dyn import dtypes
from dyn.backends.families import Placement
from dyn.runtime import driver
from tests.gpu import grid
from tests.rarely import rarely

#: Forms are many, and kinds of GPUs three: one form in so many is run, on one of them, and how many results at least
#: agree. Cases of groups are run on all kinds elsewhere (``tests/schedule``).
_PARTS = [(162, 83), rarely(54, 250)]
#: Programs of so many forms.
_TOGETHER = 20


@pytest.mark.parametrize("kind", [rarely(kind) if kind == "cuda32" else kind for kind in grid.SOFTWARE])
@pytest.mark.parametrize(("every", "least"), _PARTS)
def test_forms_of_ops(
    every: int,
    least: int,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
    require_tool: Callable[..., str],
    require_module: Callable[[str], ModuleType],
) -> None:
    require_tool("g++")
    require_tool("hipcc") if kind != "cuda32" else require_module("cuda.pathfinder")  # the drivers' headers
    placement, chosen = Placement(grid.SOFTWARE[kind]), [s for s in grid.subjects() if not s.alone]
    number = list(grid.SOFTWARE).index(kind)
    gpu = grid.install(kind, monkeypatch)
    try:
        mine, outcome = chosen[number * (every // 3) :: every], grid.Outcome()
        for first in range(0, len(mine), _TOGETHER):
            outcome += grid.run(mine[first : first + _TOGETHER], placement)
    finally:
        gc.collect()
        driver.driver_of.cache_clear()
        gpu.set(hidden=1)
    assert not outcome.wrong, "\n".join(outcome.wrong)
    assert not gpu.problems()
    assert outcome.agree > least


def test_a_difference_is_seen() -> None:
    one, other = np.array([1.0, 2.0], "f4"), np.array([1.0, 2.00001], "f4")
    assert grid.disagreement(one, one, dtypes.float32, 1) == ""
    assert grid.disagreement(other, one, dtypes.float32, 1).startswith("1 of 2 elements differ, 2.00001")
    assert grid.disagreement(other, one, dtypes.float32, 8) == ""
    assert grid.disagreement(one.astype("i4"), one, dtypes.float32, 1) == "int32 (2,) and not float32 (2,)"
    assert grid.disagreement(np.array([1]), np.array([2]), dtypes.int64, 8) == "1 of 1 elements differ"


def test_axes_that_vary_together() -> None:
    """Those of a product: its rows, what is contracted, its columns; each at every size."""
    (product,) = [s for s in grid.subjects() if s.name == "matrices"]
    assert product.alone
    dot = next(s for s in grid.subjects() if s.name == "dot_general 0")
    function, calls = dot.made
    said = [text for text, _, _ in calls if not text.startswith("sample")]
    assert len({text.partition(" = ")[0] for text in said}) * len(grid.SIZES) == len(said)
    assert {len(p.shape) for p in function.params} == {2}
    assert len(said) == 3 * len(grid.SIZES)
    with dyn.config.override(cache_dir=""):
        assert all(text.rpartition(" ")[2] in map(str, grid.SIZES) for text in said)
