"""Bounds of draws: integers of any span are even, and uniform floats stay below theirs."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.stats

import dyn
from dyn import random

Array = np.ndarray[Any, Any]


def evenness(drawn: Array, low: int, span: int, parts: int) -> float:
    """The p-value of a chi-squared test that so many parts of a span are drawn as often."""
    places = np.array([(int(v) - low) * parts // span for v in drawn])
    assert places.min() >= 0
    assert places.max() < parts
    return float(scipy.stats.chisquare(np.bincount(places, minlength=parts)).pvalue)


@pytest.mark.parametrize(
    ("dtype", "low", "span"),
    [
        ("int32", 0, 100_000), ("int32", -7, 10**8), ("int32", 0, 3 * 2**29), ("int32", -(2**31), 3 * 2**30),
        ("int32", -(2**31), 2**32 - 1), ("uint32", 5, 3 * 2**30 + 1), ("int64", -5, 3 * 2**40), ("int64", 0, 3 * 2**61),
        ("int64", -(2**63), 2**64 - 1), ("uint64", 1, 3 * 2**62),
    ],
)  # fmt: skip
def test_integers_of_long_spans_are_even(dtype: str, low: int, span: int) -> None:
    """JAX draws a third of the numbers of a span of 3 * 2**30 half more often than the others."""
    drawn = np.asarray(random.randint(random.key(11), (30_000,), low, low + span, dtype))
    assert evenness(drawn, low, span, 3) > 1e-3
    assert evenness(drawn, low, span, 64) > 1e-3
    rows = np.array([[low], [low], [low]])
    bounds = random.randint(random.key(11), (3, 10_000), rows.astype(dtype), (rows + 10).astype(dtype), dtype)
    assert evenness(np.asarray(bounds).ravel(), low, 10, 10) > 1e-3


BOUNDS = {
    "float32": [
        (1e6, 1e6 + 1),
        (-1e6 - 1, -1e6),
        (16777215.0, 16777216.0),
        (0.0, 1e-45),
        (1.0, 1.0000001),
        (-3.0, 5.0),
    ],
    "float64": [(1e15, 1e15 + 1), (2.0**53 - 1, 2.0**53), (-1.0, 1.0)],
    "float16": [(1000.0, 1001.0), (2047.0, 2048.0), (-3.0, 4.0), (0.0, 6e-8)],
    "bfloat16": [(100.0, 101.0), (255.0, 256.0), (-3.0, 4.0)],
}


@pytest.mark.parametrize("dtype", BOUNDS)
def test_uniform_floats_stay_below_their_bound(dtype: str) -> None:
    """However few floats there are between the bounds, and whether or not the bounds are known in the trace."""
    key, of = random.key(2), np.dtype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
    run = dyn.jit(lambda low, high: random.uniform(key, (5000,), of, low, high))
    for low, high in BOUNDS[dtype]:
        drawn = np.asarray(random.uniform(key, (5000,), of, low, high))
        assert drawn.max() < of.type(high), (low, high)
        assert drawn.min() >= of.type(low), (low, high)
        np.testing.assert_array_equal(run(of.type(low), of.type(high)), drawn)


def test_bounds_that_no_float_reaches_cost_nothing() -> None:
    """What scaling cannot round up to is not asked for."""
    key = random.key(2)
    for low, high, asked in ((0.0, 3.0, False), (-1.0, 1.0, False), (1e6, 1e6 + 1, True)):
        text = dyn.jit(lambda low=low, high=high: random.uniform(key, (3,), "float32", low, high)).lower().as_text()
        assert ("select(" in text) == asked, (low, high)


@pytest.mark.parametrize(("dtype", "most"), [("float32", 3e38), ("float64", 1e308), ("float16", 6e4)])
def test_spans_that_no_float_holds(dtype: str, most: float) -> None:
    for draw in (random.uniform, dyn.jit(random.uniform, static_argnames=("shape", "dtype"))):
        drawn = draw(random.key(0), shape=(100_000,), dtype=dtype, minval=-most, maxval=most)
        shares = np.asarray(drawn).astype("float64") / most
        assert np.abs(shares).max() <= 1
        assert abs(shares.mean()) < 0.01
        assert abs(shares.std() - 3**-0.5) < 0.01
