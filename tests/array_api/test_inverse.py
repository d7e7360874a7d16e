"""Inverse functions of complex numbers: errors, sides of the branch cuts, derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp

NAMES = ("acos", "acosh", "asin", "asinh", "atan", "atanh")
#: Epsilons of the dtype, relative to the absolute value: what ``docs/numerics.md`` says.
BOUND = 4.0


def points(dtype: str) -> np.ndarray[Any, Any]:
    """Numbers of all sizes, and near the branch points."""
    rng = np.random.default_rng(0)
    wide = np.exp(rng.normal(0, 4, 8000)) * np.exp(1j * rng.uniform(-np.pi, np.pi, 8000))
    near = [at + (rng.normal(0, 1, 2000) + 1j * rng.normal(0, 1, 2000)) * size for at in (1, -1, 1j, -1j)
            for size in (1e-2, 1e-6)]  # fmt: skip
    return np.concatenate([wide, *near]).astype(dtype)


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("name", NAMES)
def test_errors(name: str, dtype: str) -> None:
    z = points(dtype)
    wanted = getattr(np, name)(z.astype(np.clongdouble))
    error = np.abs(dyn.jit(getattr(dnp, name))(z) - wanted) / np.abs(wanted)
    assert error.max() / np.finfo(dtype).eps < BOUND


@pytest.mark.parametrize("name", NAMES)
def test_sides_of_the_cuts(name: str) -> None:
    sides = [complex(x, y) for x in (2.5, -2.5, 0.5) for y in (0.0, -0.0)]
    z = np.array(sides + [complex(s.imag, s.real) for s in sides])
    np.testing.assert_allclose(dyn.jit(getattr(dnp, name))(z), getattr(np, name)(z), rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives(name: str) -> None:
    def function(z: Any) -> Any:
        return getattr(dnp, name)(z)

    gradient = dyn.jit(dyn.grad(function, holomorphic=True))
    for z in (0.3 + 0.4j, -0.3 + 0.1j, 2.5 - 1j, 0.2j, -3 - 2j):
        h = 1e-6
        wanted = (getattr(np, name)(z + h) - getattr(np, name)(z - h)) / (2 * h)
        assert abs(gradient(np.array(z)) - wanted) < 1e-8
    assert gradient.cache_info().compiles == 1
