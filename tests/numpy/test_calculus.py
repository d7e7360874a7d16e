"""Differences, integrals, polynomials, covariances: NumPy's values at every size, from one trace."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import DynError, InvalidValueError, NotYetError, ShapeError
from tests.numpy.differential import compare

SIZES = (0, 1, 2, 7, 64)


@pytest.fixture(scope="module")
def jax() -> ModuleType:
    return pytest.importorskip("jax")


def test_trapezoid() -> None:
    def program(xp: Any, y: Any, x: Any, places: Any) -> Any:
        return (
            xp.trapezoid(y),
            xp.trapezoid(y, dx=0.5, axis=0),
            xp.trapezoid(y, places, axis=1),
            xp.trapezoid(y, x, axis=0),
        )

    compare(program, "float64 n m", "float64 n m", "float64 m", sizes=SIZES)
    compare(lambda xp, y: xp.trapezoid(y), "int32 n")


def test_ediff1d_and_unwrap() -> None:
    def program(xp: Any, x: Any) -> Any:
        return (
            xp.ediff1d(x), xp.ediff1d(x, to_begin=9.5, to_end=xp.asarray([1.0, 2.0])), xp.unwrap(x * 2, axis=0),
            xp.unwrap(x * 3, discont=4.0), xp.unwrap(x * 3, period=3.0),
        )  # fmt: skip

    compare(program, "float64 n 3", sizes=SIZES)


@pytest.mark.parametrize("order", [1, 2])
def test_gradient(order: int) -> None:
    def program(xp: Any, f: Any, x: Any) -> Any:
        places = xp.cumsum(xp.abs(x) + 0.5)
        return (
            *xp.gradient(f, edge_order=order),
            *xp.gradient(f, 0.5, 2.0, edge_order=order),
            xp.gradient(f, places, axis=0, edge_order=order),
            *xp.gradient(f, places, 0.25, edge_order=order),
        )

    compare(program, "float64 n 4", "float64 n", sizes=SIZES)


@pytest.mark.parametrize(
    "program",
    [
        lambda xp, f, x: xp.sum(xp.trapezoid(f, x) ** 2),
        lambda xp, f, x: xp.sum(xp.gradient(f, axis=0) ** 2),
        lambda xp, f, x: xp.sum(xp.polyval(f, x) ** 2),
        lambda xp, f, x: xp.sum(xp.cov(xp.stack([f, x])) ** 2),
        lambda xp, f, x: xp.sum(xp.corrcoef(xp.stack([f, x, f * x])) ** 2),
        lambda xp, f, x: xp.sum(xp.unwrap(f * 4) * x),
        lambda xp, f, x: xp.sum(xp.sinc(f) * xp.i0(x)),
        lambda xp, f, x: xp.sum(xp.poly(f) ** 2),
        lambda xp, f, x: xp.sum(xp.ldexp(f, 3) * xp.frexp(x)[0] + xp.modf(f)[0] * x),
        lambda xp, f, x: xp.sum(xp.average(f, weights=x) ** 2),
    ],
    ids=["trapezoid", "gradient", "polyval", "cov", "corrcoef", "unwrap", "special", "poly", "parts", "average"],
)  # fmt: skip
def test_derivatives(jax: ModuleType, program: Any) -> None:
    rng = np.random.default_rng(0)
    f, x = (rng.standard_normal(6).astype(np.float32) for _ in range(2))
    found = dyn.grad(lambda f, x: program(dnp, f, x), argnums=(0, 1))(f, x)
    wanted = jax.jit(jax.grad(lambda f, x: program(jax.numpy, f, x), argnums=(0, 1)))(f, x)
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-3, atol=2e-3)


# ---- polynomials -----------------------------------------------------------------------------------------------------


def test_polynomials() -> None:
    def program(xp: Any, p: Any, q: Any, x: Any) -> Any:
        return (
            xp.polyval(p, x), xp.polyval(q[:2], x), xp.polyadd(p, q), xp.polysub(p, q), xp.polyder(p), xp.polyder(p, 3),
            xp.polyint(p), xp.polyint(p, 2, [1.0, 2.0]), xp.polyint(p, 2, 3.0),
        )  # fmt: skip

    compare(program, "float64 n", "float64 m", "float64 3 2", sizes=(1, 2, 7, 40))
    compare(lambda xp, p, x: xp.polyval(p, x), "int32 n", "float64 m", sizes=SIZES)
    compare(lambda xp, z: xp.poly(z), "float64 n", sizes=(1, 2, 7))


def test_products_of_polynomials() -> None:
    p, q = np.array([1.0, 2, 0]), np.array([0.5, -1])
    np.testing.assert_allclose(dnp.polymul(p, q), np.polymul(p, q))
    np.testing.assert_allclose(dnp.polymul(np.array([0.0, 1]), q), [0, 0.5, -1])


def test_vander() -> None:
    def program(xp: Any, x: Any) -> Any:
        return xp.vander(x), xp.vander(x, 3), xp.vander(x, 4, increasing=True), xp.vander(x, x.shape[0], True)

    compare(program, "float64 n", sizes=(0, 1, 2, 7))
    compare(lambda xp, x: xp.vander(x, 3), "int32 n")


# ---- covariances -----------------------------------------------------------------------------------------------------


def test_covariances() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        whole = xp.abs(xp.round(y)).astype("int64") + 1
        return (
            xp.cov(x), xp.cov(x, y), xp.cov(y), xp.cov(x, rowvar=False), xp.cov(x, bias=True), xp.cov(x, ddof=3),
            xp.cov(x, fweights=whole), xp.cov(x, aweights=xp.abs(y) + 0.1),
            xp.cov(x, fweights=whole, aweights=xp.abs(y) + 0.1),
        )  # fmt: skip

    compare(program, "float64 3 n", "float64 n", sizes=(2, 7, 64))
    compare(lambda xp, x: (xp.cov(x), xp.corrcoef(x)), "float64 2 n", sizes=(1, 2, 7))


def test_correlations() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return xp.corrcoef(x), xp.corrcoef(x, y), xp.corrcoef(x, rowvar=False)[:2], xp.corrcoef(y)

    compare(program, "float64 3 n", "float64 n", sizes=(2, 7, 64))
    compare(lambda xp, x: xp.corrcoef(x), "complex128 3 n", sizes=(2, 7))


def test_averages() -> None:
    def program(xp: Any, x: Any, w: Any, v: Any) -> Any:
        return (
            xp.average(x), xp.average(x, 0), xp.average(x, weights=v), xp.average(x, 0, xp.abs(w) + 1),
            *xp.average(x, 0, xp.abs(w) + 1, returned=True), *xp.average(x, 1, returned=True),
            xp.average(x, axis=(0, 1), weights=v, keepdims=True),
        )  # fmt: skip

    compare(program, "float64 n 3", "float64 n", "float64 n 3", sizes=(1, 2, 7))
    compare(lambda xp, x, w: xp.average(x, 0, xp.abs(w) + 1), "int32 n 3", "int32 n", sizes=(1, 7))


def test_running_without_nan() -> None:
    def program(xp: Any, x: Any) -> Any:
        holes = xp.where(x > 1, float("nan"), x)
        return xp.nancumsum(holes, axis=0), xp.nancumprod(holes, axis=1), xp.nancumsum(holes), xp.nancumprod(x)

    compare(program, "float64 n 3", sizes=SIZES)


def test_spaces() -> None:
    def program(xp: Any, x: Any) -> Any:
        n = x.shape[0]
        return (
            xp.logspace(0, 2, n), xp.logspace(1, 3, n, endpoint=False, base=2), xp.geomspace(1, 256, n),
            xp.geomspace(-8.0, -0.5, n, endpoint=False), xp.geomspace(3, 81, 4),
        )  # fmt: skip

    compare(program, "float64 n", sizes=SIZES)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda x: dnp.gradient(x, edge_order=3), InvalidValueError, "gradient: the edge order is 3."),
        (lambda x: dnp.polyder(x, -1), InvalidValueError, "polyder: the order is -1."),
        (
            lambda x: dnp.poly(x[:, None] * x),
            NotYetError,
            "poly of a matrix comes later: it needs its eigenvalues.",
        ),
        (
            lambda x: dnp.average(x[:, None] * x, None, x),
            ShapeError,
            "average: weights of one axis need the number of that axis of the array.",
        ),
        (lambda x: dnp.cov(x[None, None]), ShapeError, "cov: (1, 1, n) has 3 axes."),
    ],
)
def test_refusals(call: Any, kind: type[DynError], text: str) -> None:
    with pytest.raises(kind) as caught:
        dyn.jit(call, shapes=[("n",)])(np.ones(3, np.float32))
    assert caught.value.problem == text
    assert caught.value.remedy
    assert caught.value.loc is not None
