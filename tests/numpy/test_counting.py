"""Counts and histograms: NumPy's at every size, from one trace."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import InvalidValueError, NotYetError, ShapeError, UnsupportedOpError
from tests.numpy.differential import compare

SIZES = (0, 1, 2, 7, 64)


@pytest.fixture(scope="module")
def jax() -> ModuleType:
    return pytest.importorskip("jax")


def test_bincount(jax: ModuleType) -> None:
    f = dyn.jit(
        lambda x, w: (dnp.bincount(x, length=5), dnp.bincount(x, w, length=5), dnp.bincount(x, length=w.shape[0]))
    )
    for size in SIZES:
        x = np.random.default_rng(size).integers(-2, 9, size).astype(np.int32)
        w = np.random.default_rng(1).standard_normal(size).astype(np.float32)
        counts, sums, several = f(x, w)
        np.testing.assert_array_equal(counts, jax.numpy.bincount(x, length=5))
        np.testing.assert_allclose(sums, jax.numpy.bincount(x, w, length=5), rtol=1e-5, atol=1e-6)
        assert np.asarray(counts).dtype == np.int64
        assert np.asarray(sums).dtype == np.float32
        assert several.shape == (size,)
    assert f.cache_info().compiles == 1
    np.testing.assert_array_equal(dnp.bincount([1, 1, 3], length=2, minlength=6), [0, 2, 0, 1, 0, 0])
    np.testing.assert_array_equal(dnp.bincount(np.array([2**64 - 1, 1], np.uint64), length=2), [0, 1])


def test_bincount_up_to_the_greatest() -> None:
    f = dyn.jit(lambda x, w: (dnp.bincount(x), dnp.bincount(x, w, minlength=4), dnp.bincount(x, minlength=w.shape[0])))
    for size in SIZES:
        x = np.random.default_rng(size).integers(0, 9, size)
        w = np.random.default_rng(1).standard_normal(size)
        wanted = np.bincount(x), np.bincount(x, w, minlength=4), np.bincount(x, minlength=size)
        for mine, theirs in zip(f(x, w), wanted, strict=True):
            assert np.shape(mine) == theirs.shape
            np.testing.assert_allclose(mine, theirs)
    assert f.cache_info().compiles == 1


def test_bincount_refuses() -> None:
    with pytest.raises(UnsupportedOpError) as wrong:
        dnp.bincount(np.ones(3), length=2)
    assert wrong.value.problem == "bincount counts integers, not float64."
    with pytest.raises(ShapeError) as unequal:
        dyn.jit(lambda x, w: dnp.bincount(x, w, length=2))(np.arange(3), np.ones(4))
    assert "bincount has a weight for each element on axis 0" in str(unequal.value)


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_histogram(dtype: str) -> None:
    def program(xp: Any, x: Any, w: Any) -> Any:
        return [
            part
            for options in (
                {},
                {"bins": 3, "range": (-1, 2.5)},
                {"bins": [-2, -1, 0, 1.5, 4]},
                {"bins": 40},
                {"bins": 4, "weights": w},
                {"bins": xp.sort(w[:, 0])},
            )
            for part in xp.histogram(x, **options)
        ] + [xp.histogram_bin_edges(x, 6)]

    compare(program, f"{dtype} n 2", "float64 n 2", sizes=(1, 2, 7, 64))


def test_histogram_of_nothing_of_one_value_and_as_a_density() -> None:
    compare(lambda xp, x: xp.histogram(x, 4), "float64 n", sizes=(0, 1))
    compare(lambda xp, x: xp.histogram(x * 0 + 3, 4), "float64 n", sizes=(1, 7))
    compare(lambda xp, x: xp.histogram(x, [-9, -1, 0, 2, 9], density=True), "float64 n", sizes=(1, 7, 64))


def test_what_lies_outside_and_nan() -> None:
    x = np.array([np.nan, -np.inf, np.inf, 0.0, 1.0, 0.999, 2.0], np.float32)
    counts, edges = dnp.histogram(x, 2, (0, 1))
    np.testing.assert_array_equal(counts, [1, 2])
    np.testing.assert_array_equal(edges, np.array([0, 0.5, 1], np.float32))


def test_grids() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        many, edges = xp.histogramdd(xp.stack([x, y, x + y], 1), bins=(2, 3, [-5.0, 0.0, 5.0]))
        dense, _ = xp.histogramdd((x, y), 3, range=((-9, 9), (-9, 9)), density=True)
        return xp.histogram2d(x, y, bins=(4, 3)), many, list(edges), dense, xp.histogram2d(x, y, 2, weights=y)

    compare(program, "float64 n", "float64 n", sizes=(1, 2, 7, 64))


def test_sums_of_weights_have_derivatives(jax: ModuleType) -> None:
    x = np.random.default_rng(0).standard_normal(20).astype(np.float32)
    w = np.random.default_rng(1).standard_normal(20).astype(np.float32)
    found = dyn.grad(lambda w: dnp.sum(dnp.histogram(x, 4, weights=w)[0] ** 2))(w)
    wanted = jax.jit(jax.grad(lambda w: (jax.numpy.histogram(x, 4, weights=w)[0] ** 2).sum()))(w)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_histogram_refuses() -> None:
    with pytest.raises(NotYetError) as caught:
        dnp.histogram(np.ones(3), "auto")
    assert (
        caught.value.problem
        == "histogram with bins='auto' has a data-dependent shape; data-dependent shapes come later."
    )
    with pytest.raises(InvalidValueError) as none:
        dnp.histogram(np.ones(3), 0)
    assert none.value.problem == "histogram: the number of bins is 0."
    with pytest.raises(ShapeError) as several:
        dnp.histogramdd((np.ones(3), np.ones(3)), (2, 3, 4))
    assert several.value.problem == "histogramdd: there are 2 coordinates, 3 bins and 2 ranges."
