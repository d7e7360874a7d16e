"""Places in sorted arrays, and what is found by them: NumPy's values at every size, from one trace."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import DynError, InvalidValueError, ShapeError, UnsupportedOpError
from tests.numpy.differential import compare

SIZES = (0, 1, 2, 7, 64)


@pytest.fixture(scope="module")
def jax() -> ModuleType:
    return pytest.importorskip("jax")


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint8", "bool"])
def test_searchsorted(dtype: str) -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        table = xp.sort(x)
        return [xp.searchsorted(table, y, side=side) for side in ("left", "right")]

    compare(program, f"{dtype} n", f"{dtype} m 3", sizes=SIZES)


def test_searchsorted_in_tables_of_a_known_size() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return [xp.searchsorted(xp.sort(t), y, side=side) for t in (x, x[:5], x[:0]) for side in ("left", "right")]

    compare(program, "float32 40", "float32 n")


def test_searchsorted_with_an_order_and_another_dtype() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        order = xp.argsort(x)
        return xp.searchsorted(x, y, sorter=order), xp.searchsorted(x[order], 1.5, "right")

    compare(program, "int32 n", "float64 m", sizes=SIZES)


def test_nan_is_more_than_any_number() -> None:
    table = np.sort(np.array([3.0, np.nan, -np.inf, 1.0, np.inf, np.nan, -0.0, 0.0] * 6, np.float32))
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 2.0], np.float32)
    for side in ("left", "right"):
        for t in (table, table[:8]):
            np.testing.assert_array_equal(dnp.searchsorted(t, values, side), np.searchsorted(t, values, side))


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_digitize(dtype: str) -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        bins = xp.sort(y)
        return [xp.digitize(x, b, right) for b in (bins, xp.flip(bins)) for right in (False, True)]

    compare(program, f"{dtype} n 2", f"{dtype} m", sizes=SIZES)
    compare(lambda xp, x: xp.digitize(x, [-1, 0, 2]), f"{dtype} n")


@pytest.mark.parametrize("dtype", ["float64", "int32", "bool"])
def test_isin(dtype: str) -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return xp.isin(x, y), xp.isin(x, y, invert=True), xp.isin(x, y[:3, 0])

    compare(program, f"{dtype} n 2", f"{dtype} m 3", sizes=SIZES)


def test_isin_of_lists_and_complex_numbers() -> None:
    compare(lambda xp, x: (xp.isin(x, [1, 2, 0]), xp.isin(x, 3), xp.isin(x, [])), "int64 n")
    z = np.array([1 + 1j, 2, np.nan])
    np.testing.assert_array_equal(dnp.isin(z, z[:2]), [True, True, False])


# ---- interpolation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_interp(dtype: str) -> None:
    def program(xp: Any, x: Any, points: Any, heights: Any) -> Any:
        points = xp.cumsum(xp.abs(points) + 0.25)
        return (
            xp.interp(x, points, heights),
            xp.interp(x, points, heights, left=-1.5, right=99),
            xp.interp(points, points, heights),
        )

    compare(program, f"{dtype} n 2", f"{dtype} m", f"{dtype} m", sizes=SIZES)


def test_interp_on_a_circle() -> None:
    def program(xp: Any, x: Any, points: Any, heights: Any) -> Any:
        apart = points + 0.013 * xp.arange(points.shape[0])  # of points at one place NumPy takes either
        return xp.interp(x, apart, heights, period=3.0), xp.interp(x, apart, heights, left=5, period=-2.5)

    compare(program, "float64 n", "float64 m", "float64 m", sizes=SIZES)


def test_interp_of_complex_heights_and_nan() -> None:
    compare(lambda xp, x, p, f: xp.interp(x, xp.sort(p), f), "float64 n", "float64 4", "complex128 4")
    x = np.array([np.nan, -np.inf, np.inf, 1.5])
    points, heights = np.array([1.0, 2.0]), np.array([1.0, 3.0])
    np.testing.assert_array_equal(dnp.interp(x, points, heights), np.interp(x, points, heights))
    # NaN stays NaN for a single point too, where NumPy has its height.
    np.testing.assert_array_equal(dnp.interp(x, points[:1], heights[:1]), [np.nan, 1, 1, 1])


def test_interp_goes_on(jax: ModuleType) -> None:
    x, p, f = np.linspace(-3, 5, 9), np.array([0.0, 1.0, 3.0]), np.array([1.0, -1.0, 2.0])
    with jax.enable_x64(True):
        wanted = jax.numpy.interp(x, p, f, left="extrapolate", right="extrapolate")
    np.testing.assert_allclose(dnp.interp(x, p, f, left="extrapolate", right="extrapolate"), wanted)


def test_interp_has_derivatives(jax: ModuleType) -> None:
    x = np.random.default_rng(0).uniform(-1, 6, 9).astype(np.float32)
    p, f = np.arange(6, dtype=np.float32), np.random.default_rng(1).standard_normal(6).astype(np.float32)
    gradient = dyn.grad(lambda x, p, f: dnp.sum(dnp.interp(x, p, f) ** 2), argnums=(0, 1, 2))
    wanted = jax.jit(jax.grad(lambda x, p, f: (jax.numpy.interp(x, p, f) ** 2).sum(), argnums=(0, 1, 2)))(x, p, f)
    for mine, theirs in zip(gradient(x, p, f), wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_many_tables_at_once(jax: ModuleType) -> None:
    tables = np.sort(np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32))
    values = np.random.default_rng(1).standard_normal((3, 5)).astype(np.float32)
    found = dyn.vmap(dnp.searchsorted)(tables, values)
    np.testing.assert_array_equal(found, [np.searchsorted(t, v) for t, v in zip(tables, values, strict=True)])


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda x: dnp.searchsorted(x, x, "middle"),
            InvalidValueError,
            "searchsorted: 'middle' is no side.",
        ),
        (
            lambda x: dnp.searchsorted(x[:, None], x),
            ShapeError,
            "searchsorted takes a vector there: (n, 1) has 2 axes.",
        ),
        (lambda x: dnp.interp(x, x, x, period=0), InvalidValueError, "interp: the period is 0."),
        (
            lambda x: dnp.searchsorted(x + 1j, x),
            UnsupportedOpError,
            "searchsorted does not take complex64.",
        ),
    ],
)
def test_refusals(call: Any, kind: type[DynError], text: str) -> None:
    with pytest.raises(kind) as caught:
        dyn.jit(call, shapes=[("n",)])(np.ones(3, np.float32))
    assert caught.value.problem == text
    assert caught.value.remedy
    assert caught.value.loc is not None
