"""A row's bits do not depend on how many rows there are: always where nothing else says so, everywhere if asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.schedule.families import contract_schedules
from dyn.schedule.sizes import Reach
from dyn.schedule.target import Target

ROWS = (1, 2, 3, 5, 8, 9, 20, 33, 70)
BF16 = np.dtype(ml_dtypes.bfloat16)
#: The right operand as it lies, and how it is multiplied.
PRODUCTS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "columns": (lambda x, w: x @ w, "kn"),
    "transposed": (lambda x, w: x @ w.T, "nk"),
    "left transposed": (lambda x, w: x.T.copy().T @ w, "kn"),
    "behind it": (lambda x, w: dnp.maximum(x @ w.T, 0) + 1, "nk"),
    "computed": (lambda x, w: x @ (w.astype("float32") * 2), "kn"),
}


def rows_of(f: Callable[..., Any], x: np.ndarray, w: np.ndarray) -> list[bytes]:
    """The bits of the first row, alone and among others."""
    return [np.asarray(f(x[:rows], w))[:1].tobytes() for rows in ROWS]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_everywhere_if_asked_for(name: str, dtype: str) -> None:
    """Few columns of many products too, which would be summed in parts."""
    function, lies = PRODUCTS[name]
    rng = np.random.default_rng(0)
    own = BF16 if dtype == "bfloat16" else np.dtype(dtype)
    with dyn.config.override(variants="all", batch_invariant=True):
        f = dyn.jit(function)
        for k, n in [(700, 130), (9000, 5), (64, 48)]:
            x, w = rng.standard_normal((max(ROWS), k)), rng.standard_normal((k, n) if lies == "kn" else (n, k))
            assert len(set(rows_of(f, x.astype(own), w.astype(own)))) == 1, (k, n)
    assert "dots" not in str(f.explain())
    assert "parts" not in str(f.explain())


def test_as_it_is() -> None:
    """Rows that are contiguous along the columns; not a transposed right operand, of which few rows are by lanes."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((max(ROWS), 700)).astype(np.float32), rng.standard_normal((700, 130)).astype(np.float32)
    with dyn.config.override(variants="all"):
        assert len(set(rows_of(dyn.jit(lambda x, w: x @ w), x, w))) == 1
        assert len(set(rows_of(dyn.jit(lambda x, w: x @ w.T), x, np.ascontiguousarray(w.T)))) > 1


def test_programs_are_made_for_the_setting() -> None:
    """A program from before is another one; and in regions and modules the setting holds as well."""
    f = dyn.jit(lambda x, w: x @ w.T)
    x, w = np.ones((3, 40), np.float32), np.ones((20, 40), np.float32)
    f(x, w)
    with dyn.config.override(batch_invariant=True):
        f(x, w)
        assert "turned" in str(f.explain())
    f(x, w)
    assert f.cache_info().compiles == 2


def test_of_one_function_by_an_option() -> None:
    """Its stages and its calls; others are as they were, and so is one that is traced into another."""
    x, w = np.ones((3, 40), np.float32), np.ones((20, 40), np.float32)
    f, g = dyn.jit(lambda x, w: x @ w.T, batch_invariant=True), dyn.jit(lambda x, w: x @ w.T)
    f(x, w)
    g(x, w)
    assert "turned" in str(f.explain())
    assert "turned" not in str(g.explain())
    assert "turned" in f.lower(x, w).compile().as_text("kernel")
    h = dyn.jit(lambda x, w: f(x, w) + 1)
    h(x, w)
    assert "turned" not in str(h.explain())


def test_gpus_have_no_partial_sums_then() -> None:
    target = Target("cuda", "sm_90a", warp=32)
    for invariant in (False, True):
        own = Target("cuda", "sm_90a", warp=32, batch_invariant=invariant)
        found = contract_schedules(own, dyn.float32, Reach(dyn.float32, dyn.float32), 100, 100)
        assert [v.tile.rows for v in found][-1] == 8
        assert all(v.adds_alike for v in found[:-1]) is invariant
        assert found[0].min_rows == 0
    assert not target.batch_invariant
