"""Reductions of nothing, of NaN and of infinities by the array API standard; and sorting them."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ShapeError

CASES: dict[str, list[tuple[list[float], Any]]] = {
    "sum": [([], 0.0), ([1.0, nan], nan), ([inf, -inf], nan), ([inf, 1.0], inf), ([-0.0], -0.0)],
    "prod": [([], 1.0), ([nan, 0.0], nan), ([inf, 0.0], nan), ([inf, -2.0], -inf)],
    "mean": [([], nan), ([1.0, nan], nan), ([inf, 1.0], inf), ([3.0], 3.0)],
    "var": [([], nan), ([1.0, nan], nan), ([3.0], 0.0), ([1.0, 3.0], 1.0)],
    "std": [([], nan), ([nan], nan), ([3.0], 0.0), ([1.0, 3.0], 1.0)],
    "max": [([1.0, nan], nan), ([nan, 1.0], nan), ([-inf, 1.0, inf], inf), ([-inf], -inf)],
    "min": [([1.0, nan], nan), ([nan, 1.0], nan), ([-inf, 1.0, inf], -inf), ([inf], inf)],
    "all": [([], True), ([nan, 1.0], True), ([1.0, 0.0], False), ([inf, -inf], True), ([-0.0], False)],
    "any": [([], False), ([nan], True), ([0.0, -0.0], False), ([0.0, inf], True)],
    "count_nonzero": [([], 0), ([nan, 0.0, -0.0, inf, 1.0], 3)],
    "cumulative_sum": [([], []), ([1.0, nan, 2.0], [1.0, nan, nan]), ([inf, -inf], [inf, nan])],
    "cumulative_prod": [([], []), ([2.0, nan, 2.0], [2.0, nan, nan]), ([inf, 0.0], [inf, nan])],
    "argmax": [([1.0, 3.0, 3.0], 1), ([-inf], 0)],
    "argmin": [([1.0, -3.0, -3.0], 1), ([inf, inf], 0)],
}


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", CASES)
def test_special_values(name: str, dtype: str) -> None:
    ours = dyn.jit(getattr(dnp, name))
    rows = dyn.jit(lambda x: getattr(dnp, name)(x, axis=1))
    for values, wanted in CASES[name]:
        x = np.array(values, dtype)
        for found in (ours(x), ours.reference(x), getattr(dnp, name)(dnp.asarray(x))):
            np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted).astype(np.asarray(found).dtype))
        for times in (0, 1, 5):
            found = rows(np.tile(x, (times, 1)))
            np.testing.assert_array_equal(found, np.array([wanted] * times).astype(found.dtype).reshape(found.shape))
    assert (ours.cache_info().compiles, rows.cache_info().compiles) == (1, 1)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_of_nothing(name: str) -> None:
    ours = dyn.jit(lambda x: getattr(dnp, name)(x, axis=0))
    assert ours(np.ones((2, 0), "f4")).shape == (0,)
    with pytest.raises(ShapeError):
        ours(np.ones((0, 2), "f4"))
    with pytest.raises(ShapeError):
        getattr(dnp, name)(dnp.zeros((0, 2)), axis=0)


@pytest.mark.parametrize("correction", [1, 2.0, 2.5])
def test_too_few_for_a_correction(correction: float) -> None:
    """Over no degrees of freedom, or fewer: a zero over them is NaN, as is any sum."""
    ours = dyn.jit(lambda x: (dnp.var(x, correction=correction), dnp.std(x, correction=correction)))
    for n in (0, 1, 2, 3, 4):
        x = np.arange(float(n)) ** 2
        if n > correction:
            wanted = np.var(x) * n / (n - correction)
            np.testing.assert_allclose(ours(x), (wanted, np.sqrt(wanted)), rtol=1e-14)
        elif n:
            assert not np.isfinite(np.stack(ours(x))).any()
    assert ours.cache_info().compiles == 1


def test_sorting() -> None:
    """NaN comes last, either way round; zeros of both signs are equal, and equal ones keep their order."""
    x = np.array([3.0, nan, -0.0, 1.0, 0.0, -inf, inf, nan, 1.0])
    ours = dyn.jit(lambda x: (dnp.sort(x), dnp.argsort(x), dnp.argsort(x, descending=True)))
    ordered, places, down = ours(x)
    np.testing.assert_array_equal(ordered, np.sort(x))
    assert places.tolist() == [5, 2, 4, 3, 8, 0, 6, 1, 7]
    assert sorted(down.tolist()) == list(range(9))
    kept = [p for p in down.tolist() if p in (3, 8)], [p for p in down.tolist() if p in (2, 4)]
    assert kept == ([3, 8], [2, 4])
