"""Convolutions, products of vectors, divisors: NumPy's values at every size, from one trace."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import DynError, InvalidValueError, ShapeError, UnsupportedOpError
from tests.numpy.differential import compare

SIZES = (0, 1, 2, 5, 8, 64)


@pytest.fixture(scope="module")
def jax() -> ModuleType:
    return pytest.importorskip("jax")


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex128", "bool"])
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_sliding(name: str, dtype: str) -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return [getattr(xp, name)(x, y, mode) for mode in ("full", "same", "valid")]

    compare(program, f"{dtype} n", f"{dtype} m", sizes=SIZES if dtype == "float64" else (1, 2, 5))


def test_sliding_a_known_kernel() -> None:
    compare(lambda xp, x, y: (xp.convolve(x, y), xp.convolve(x, y, "same"), xp.correlate(y, x)), "float64 n", "int32 3")


def test_sliding_has_derivatives(jax: ModuleType) -> None:
    x = np.random.default_rng(0).standard_normal(9).astype(np.float32)
    k = np.random.default_rng(1).standard_normal(4).astype(np.float32)

    def program(xp: Any, x: Any, k: Any) -> Any:
        return xp.sum(xp.convolve(x, k, "same") ** 2) + xp.sum(xp.correlate(x, k, "full") ** 3)

    found = dyn.grad(lambda x, k: program(dnp, x, k), argnums=(0, 1))(x, k)
    wanted = jax.jit(jax.grad(lambda x, k: program(jax.numpy, x, k), argnums=(0, 1)))(x, k)
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)
    batch = np.stack([x, x * 2])
    np.testing.assert_allclose(
        dyn.vmap(lambda r: dnp.convolve(r, k))(batch), [np.convolve(r, k) for r in batch], rtol=1e-4, atol=1e-5
    )


def test_cross() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return xp.cross(x, y), xp.cross(x, y, axisa=1, axisb=1, axisc=0), xp.cross(x[0], y)

    compare(program, "float64 n 3", "float64 n 3")
    compare(lambda xp, x, y: xp.cross(x, y, axis=0), "int32 3 n", "int32 3 n")


def test_cross_in_the_plane() -> None:
    """Which NumPy will give up; JAX has it. That there are two components has to be known."""
    compare(
        lambda xp, x, y, z: (xp.cross(x, y), xp.cross(x, z), xp.cross(z, x)), "float64 2", "float64 n 2", "float64 3"
    )


def test_kron() -> None:
    compare(lambda xp, x, y: (xp.kron(x, y), xp.kron(x[0], y), xp.kron(x, 2)), "float64 n 2", "float64 3 m")


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_divisors(dtype: str) -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        return xp.gcd(x * 6, y * 4), xp.lcm(x, y), xp.gcd(x[:, 0], y[0, 0])

    compare(program, f"{dtype} n 2", f"{dtype} n 2", sizes=(1, 2, 7, 64))
    compare(lambda xp, x, y: (xp.gcd(x, y), xp.lcm(x, y)), f"{dtype} n", f"{dtype} n", sizes=(0, 7))


def test_large_divisors() -> None:
    x = np.array([2**62, -(2**63), 7540113804746346429, 0], np.int64)
    y = np.array([2**40 * 3, 12, 4660046610375530309, 0], np.int64)
    np.testing.assert_array_equal(dnp.gcd(x, y), np.gcd(x, y))


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda x: dnp.convolve(x, x, "most"), InvalidValueError, "convolve: 'most' is no mode."),
        (lambda x: dnp.gcd(x, x), UnsupportedOpError, "gcd takes integers, not float32."),
        (
            lambda x: dnp.cross(dnp.ones((3, 4)), dnp.ones((3, 4))),
            ShapeError,
            "cross: axis 1 of (3, 4) has 4 elements.",
        ),
    ],
)
def test_refusals(call: Any, kind: type[DynError], text: str) -> None:
    with pytest.raises(kind) as caught:
        dyn.jit(call)(np.ones(3, np.float32))
    assert caught.value.problem == text
    assert caught.value.remedy
