"""binomial, multivariate_normal and orthogonal against ``jax.random``, at every size with one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
from dyn import random
from dyn.errors import ShapeError, UndecidedDimError, UnsupportedOpError

MEAN = np.array([1, 2, 3], np.float32)
COV = np.array([[2, 0.5, 0.1], [0.5, 3, 0], [0.1, 0, 1]], np.float32)


@pytest.fixture(scope="module")
def jr(require_module: Callable[[str], Any]) -> Any:
    return require_module("jax").random


@pytest.mark.slow
def test_binomial(jr: Any) -> None:
    """Both ways of drawing, and all that is no number of trials and no probability."""
    key = np.asarray(jr.PRNGKey(3))
    n = np.array([5, 100, 1000, 20, 20, 7, -1, np.inf, 10, 0], np.float32)
    p = np.array([0.3, 0.5, 0.9, 0.0, 1.0, np.nan, 0.5, 0.5, -0.2, 0.5], np.float32)
    for shape in (None, (0, 10), (50, 10)):
        mine, theirs = random.binomial(key, n, p, shape), np.asarray(jr.binomial(key, n, p, shape))
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(random.binomial(key, 30, 0.5, (9,)), jr.binomial(key, 30, 0.5, (9,)))
    counts = random.binomial(random.key(1), 40.0, 0.3, (100_000,))
    assert np.mean(counts) == pytest.approx(12, rel=0.01)
    assert np.var(counts) == pytest.approx(8.4, rel=0.02)


@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
def test_multivariate_normal(jr: Any, method: str) -> None:
    key = np.asarray(jr.PRNGKey(3))
    for mean, cov, shape in (
        (MEAN, COV, (5,)),
        (MEAN, COV, (0,)),
        (np.stack([MEAN] * 4), COV, None),
        (MEAN, np.stack([COV, 2 * COV]), (3, 2)),
    ):
        mine = random.multivariate_normal(key, mean, cov, shape, method=method)
        theirs = jr.multivariate_normal(key, mean, cov, shape, method=method)
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "arguments",
    [{"n": 4}, {"n": 4, "m": 2}, {"n": 2, "m": 5}, {"n": 3, "shape": (2,)}, {"n": 0}, {"n": 3, "dtype": "complex64"}],
    ids=str,
)
def test_orthogonal(jr: Any, arguments: dict[str, Any]) -> None:
    key = np.asarray(jr.PRNGKey(3))
    mine, theirs = random.orthogonal(key, **arguments), jr.orthogonal(key, **arguments)
    assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(mine, theirs, atol=1e-5)


def test_sizes_that_are_dims() -> None:
    @dyn.jit
    def f(key: Any, mean: Any, cov: Any, tall: Any) -> Any:
        n, m = mean.shape[0], tall.shape[0]
        rows = random.orthogonal(key, n, (2,))
        return random.multivariate_normal(key, mean, cov, (m,)), rows, random.orthogonal(key, n, (), None, n + m)

    key = random.key(1)
    for n, m in ((0, 1), (1, 0), (3, 2), (7, 64)):
        mean, cov = np.arange(n, dtype=np.float32), 2 * np.eye(n, dtype=np.float32)
        normal, square, wide = f(key, mean, cov, np.zeros(m, np.float32))
        np.testing.assert_allclose(normal, random.multivariate_normal(key, mean, cov, (m,)), rtol=1e-5)
        np.testing.assert_allclose(square, random.orthogonal(key, n, (2,)), atol=1e-5)
        np.testing.assert_allclose(wide @ wide.T, np.eye(n), atol=1e-5)
    assert f.cache_info().compiles == 1


def test_refusals() -> None:
    key = random.key(0)
    with pytest.raises(UnsupportedOpError) as method:
        random.multivariate_normal(key, MEAN, COV, method="lu")
    assert method.value.problem == "multivariate_normal knows the methods cholesky, eigh, svd, not 'lu'."
    with pytest.raises(ShapeError) as axes:
        random.multivariate_normal(key, MEAN, MEAN)
    assert axes.value.problem == "multivariate_normal: cov has 1 axes, and at least 2 are needed."
    with pytest.raises(UndecidedDimError) as greater:
        dyn.jit(lambda x, y: random.orthogonal(key, x.shape[0], (), None, y.shape[0]))(MEAN, MEAN)
    assert greater.value.problem == "orthogonal: which of x_0 and y_0 is the greater is not known."
