"""Order statistics: NumPy's values at every size, from one trace, by every method."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import InvalidValueError, ShapeError, UnsupportedOpError
from tests.numpy.differential import compare

SIZES = (1, 2, 7, 64)
METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
    "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
)  # fmt: skip
SHARES = [0.0, 0.1, 0.25, 0.3, 0.5, 0.75, 0.9, 1.0]


@pytest.fixture(scope="module")
def jax() -> ModuleType:
    return pytest.importorskip("jax")


@pytest.mark.parametrize("method", METHODS)
def test_quantile(method: str) -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return (
            xp.quantile(x, xp.asarray(SHARES), axis=0, method=method),
            xp.quantile(x, 0.4, method=method),
            xp.percentile(x, 37.5, axis=(0, 1), method=method, keepdims=True),
            xp.quantile(y, 0.6, method=method),
        )

    compare(program, "float64 n 3", "int32 n", sizes=SIZES)


@pytest.mark.parametrize("method", ["linear", "lower", "hazen"])
def test_what_is_not_nan(method: str) -> None:
    def program(xp: Any, x: Any) -> Any:
        holes = xp.where(x > 1, float("nan"), x)
        return (
            xp.nanquantile(holes, xp.asarray(SHARES), axis=0, method=method),
            xp.nanpercentile(holes, 30, axis=1, method=method, keepdims=True),
            xp.quantile(holes, 0.5, axis=1, method=method),
        )

    compare(program, "float64 n 3", sizes=SIZES)


def test_medians() -> None:
    def program(xp: Any, x: Any) -> Any:
        holes = xp.where(x > 1, float("nan"), x)
        return [
            f(v, axis=axis, keepdims=keepdims)
            for f in (xp.median, xp.nanmedian)
            for v in (x, holes)
            for axis, keepdims in ((0, False), (1, True), (None, False), ((0, 1), True))
        ]

    compare(program, "float64 n 3", sizes=(0, *SIZES))
    compare(lambda xp, x: (xp.median(x), xp.nanmedian(x, axis=1)), "int32 n 3", sizes=(0, *SIZES))


def test_dtypes_and_infinities() -> None:
    x = np.array([np.inf, 1.0, np.inf, -np.inf], np.float32)
    np.testing.assert_array_equal(dnp.median(x[:3]), np.inf)
    assert np.asarray(dnp.median(x)).dtype == np.float32
    half = np.array([60000, 65000], np.float16)
    np.testing.assert_array_equal(dnp.median(half), np.float16(62500))
    np.testing.assert_array_equal(dnp.quantile(half, 0.5), np.float16(62500))
    assert np.asarray(dnp.quantile(np.arange(5), 0.3)).dtype == np.float32
    assert np.asarray(dnp.quantile(np.arange(5), 0.3, method="lower")).dtype == np.int64
    assert np.isnan(dnp.quantile(np.zeros(0, np.float32), 0.5))
    assert np.shape(dnp.quantile(np.zeros((4, 3)), [[0.5], [0.1]], axis=0)) == (2, 1, 3)


def test_partitions() -> None:
    def program(x: Any) -> Any:
        return dnp.partition(x, 2, axis=0), dnp.argpartition(x, (0, -1), axis=1)

    f = dyn.jit(program)
    for n in (3, 7, 64):
        x = np.random.default_rng(n).integers(0, 9, (n, 4))
        found, places = f(x)
        np.testing.assert_array_equal(found[2], np.sort(x, 0)[2])
        assert (found[:2] <= found[2]).all()
        assert (found[3:] >= found[2]).all()
        ordered = np.take_along_axis(x, np.asarray(places), 1)
        np.testing.assert_array_equal(ordered[:, 0], x.min(1))
        np.testing.assert_array_equal(ordered[:, -1], x.max(1))
    assert f.cache_info().compiles == 1
    with pytest.raises(ShapeError) as caught:
        f(np.zeros((2, 4), np.int64))
    assert "partition has element 2 of axis 0" in str(caught.value)


def test_derivatives(jax: ModuleType) -> None:
    x = np.random.default_rng(0).standard_normal((7, 3)).astype(np.float32)
    q = np.array([0.2, 0.55, 0.77], np.float32)  # not where an element is: there NumPy's line has a kink

    def program(xp: Any, x: Any, q: Any) -> Any:
        return xp.sum(xp.quantile(x, q, axis=0) ** 2) + xp.sum(xp.median(x, axis=1) ** 2)

    found = dyn.grad(lambda x, q: program(dnp, x, q), argnums=(0, 1))(x, q)
    wanted = jax.jit(jax.grad(lambda x, q: program(jax.numpy, x, q), argnums=(0, 1)))(x, q)
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_many_examples() -> None:
    x = np.random.default_rng(0).standard_normal((4, 9))
    np.testing.assert_allclose(dyn.vmap(lambda r: dnp.quantile(r, 0.3))(x), np.quantile(x, 0.3, axis=1), rtol=1e-6)


def test_refusals() -> None:
    with pytest.raises(InvalidValueError) as caught:
        dnp.quantile(np.ones(3), 0.5, method="guess")
    assert caught.value.problem == "quantile: 'guess' is no method."
    with pytest.raises(UnsupportedOpError) as caught:
        dnp.median(np.ones(3, np.complex64))
    assert caught.value.problem == "median does not take complex64: complex numbers have no order."
    with pytest.raises(UnsupportedOpError) as caught:
        dnp.partition(np.ones(3), 1.5)
    assert caught.value.problem == "partition: kth is an int or a list of ints, not the float 1.5."
