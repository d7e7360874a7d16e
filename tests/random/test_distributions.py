"""Distributions, by the test of Kolmogorov and Smirnov and by counts: with fixed keys, so that no run is unlucky."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats

from dyn import random

N = 20_000
KEY = random.key(2024)

CONTINUOUS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "uniform": (lambda: random.uniform(KEY, (N,), minval=-2.0, maxval=3.0), scipy.stats.uniform(-2, 5).cdf),
    "normal": (lambda: random.normal(KEY, (N,)), scipy.stats.norm.cdf),
    "normal64": (lambda: random.normal(KEY, (N,), "float64"), scipy.stats.norm.cdf),
    "truncated_normal": (lambda: random.truncated_normal(KEY, -1.0, 0.5, (N,)), scipy.stats.truncnorm(-1, 0.5).cdf),
    "exponential": (lambda: random.exponential(KEY, (N,)), scipy.stats.expon.cdf),
    "gumbel": (lambda: random.gumbel(KEY, (N,)), scipy.stats.gumbel_r.cdf),
    "gumbel_high": (lambda: random.gumbel(KEY, (N,), mode="high"), scipy.stats.gumbel_r.cdf),
    "laplace": (lambda: random.laplace(KEY, (N,)), scipy.stats.laplace.cdf),
    "logistic": (lambda: random.logistic(KEY, (N,)), scipy.stats.logistic.cdf),
    "cauchy": (lambda: random.cauchy(KEY, (N,)), scipy.stats.cauchy.cdf),
    "pareto": (lambda: random.pareto(KEY, 3.0, (N,)), scipy.stats.pareto(3).cdf),
    "lognormal": (lambda: random.lognormal(KEY, 0.7, (N,)), scipy.stats.lognorm(0.7).cdf),
    "gamma_small": (lambda: random.gamma(KEY, 0.3, (N,)), scipy.stats.gamma(0.3).cdf),
    "gamma": (lambda: random.gamma(KEY, 4.5, (N,), "float64"), scipy.stats.gamma(4.5).cdf),
    "loggamma": (lambda: np.exp(random.loggamma(KEY, 4.5, (N,))), scipy.stats.gamma(4.5).cdf),
    "beta": (lambda: random.beta(KEY, 2.0, 0.7, (N,)), scipy.stats.beta(2, 0.7).cdf),
    "t": (lambda: random.t(KEY, 4.0, (N,)), scipy.stats.t(4).cdf),
    "chisquare": (lambda: random.chisquare(KEY, 5.0, (N,)), scipy.stats.chi2(5).cdf),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name: str) -> None:
    draw, cdf = CONTINUOUS[name]
    drawn = np.asarray(draw())
    assert np.isfinite(drawn).all()
    assert scipy.stats.kstest(drawn.astype(np.float64), cdf).pvalue > 1e-3


def _fits(counts: Any, chances: Any) -> None:
    expected = np.asarray(chances, np.float64) * np.sum(counts)
    assert scipy.stats.chisquare(counts, expected * (np.sum(counts) / expected.sum())).pvalue > 1e-3


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers(dtype: str) -> None:
    _fits(np.bincount(random.randint(KEY, (N,), 0, 13, dtype).astype(np.int64), minlength=13), np.full(13, 1 / 13))


@pytest.mark.parametrize("rate", [0.5, 6.0, 25.0])
def test_poisson(rate: float) -> None:
    most = int(rate + 4 * rate**0.5)
    drawn = np.minimum(random.poisson(KEY, rate, (N,)), most)
    chances = scipy.stats.poisson.pmf(np.arange(most), rate)
    _fits(np.bincount(drawn, minlength=most + 1), [*chances, 1 - chances.sum()])


def test_choices_and_categories() -> None:
    p = np.array([0.1, 0.2, 0.0, 0.3, 0.4], np.float32)
    with np.errstate(divide="ignore"):
        logits = np.log(p)
    for drawn in (random.choice(KEY, 5, (N,), p=p), random.categorical(KEY, logits, shape=(N,))):
        counts = np.bincount(drawn, minlength=5)
        assert counts[2] == 0
        _fits(np.delete(counts, 2), np.delete(p, 2))
    _fits(np.bincount(random.choice(KEY, 7, (N,)), minlength=7), np.full(7, 1 / 7))


def test_coins() -> None:
    for chance in (0.0, 0.25, 1.0):
        assert abs(np.mean(random.bernoulli(KEY, chance, (N,))) - chance) < 0.01
    signs = random.rademacher(KEY, (N,))
    assert set(np.unique(signs)) == {-1, 1}
    assert abs(np.mean(signs)) < 0.02


def test_permutations_are_permutations() -> None:
    for size in (0, 1, 2, 7, 64, 1000):
        np.testing.assert_array_equal(np.sort(random.permutation(KEY, size)), np.arange(size))
    keys = random.split(KEY, 600)
    first = [int(random.permutation(key, 4)[0]) for key in keys]
    _fits(np.bincount(first, minlength=4), np.full(4, 1 / 4))


def test_dirichlet_lies_on_the_simplex() -> None:
    drawn = random.dirichlet(KEY, np.array([0.5, 2.0, 3.5], np.float32), (5000,))
    np.testing.assert_allclose(drawn.sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(drawn.mean(0), np.array([0.5, 2.0, 3.5]) / 6, atol=0.01)
