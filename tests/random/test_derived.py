"""Distributions that are functions of other ones, against ``jax.random``, at every size with one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
from dyn import random
from dyn.errors import UnsupportedOpError

SHAPES = ((), (1000,), (0, 5))
#: The function's other arguments, and how near it is to JAX's: the gamma numbers under some have other last bits.
CALLS: dict[str, tuple[dict[str, Any], float]] = {
    "rayleigh": ({"scale": 1.5}, 1e-5),
    "weibull_min": ({"scale": 2.0, "concentration": 1.3}, 2e-5),
    "triangular": ({"left": -1.0, "mode": 0.25, "right": 2.0}, 1e-5),
    "maxwell": ({}, 1e-5),
    "double_sided_maxwell": ({"loc": 0.5, "scale": 2.0}, 1e-5),
    "wald": ({"mean": 1.5}, 2e-4),
    "f": ({"dfnum": 3.0, "dfden": 5.0}, 2e-3),
    "generalized_normal": ({"p": 1.5}, 2e-4),
    "ball": ({"d": 3, "p": 2.0}, 2e-4),
    "geometric": ({"p": 0.3}, 0),
}


@pytest.fixture(scope="module")
def jr(require_module: Callable[[str], Any]) -> Any:
    return require_module("jax").random


@pytest.mark.parametrize("name", CALLS)
def test_against_jax(jr: Any, name: str) -> None:
    arguments, tolerance = CALLS[name]
    key = np.asarray(jr.PRNGKey(3))
    for shape in SHAPES:
        mine = np.asarray(getattr(random, name)(key, shape=shape, **arguments))
        theirs = np.asarray(getattr(jr, name)(key, shape=shape, **arguments))
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CALLS)
def test_shapes_that_are_dims(name: str) -> None:
    arguments, _ = CALLS[name]
    draw = dyn.jit(lambda key, x: getattr(random, name)(key, shape=x.shape, **arguments))
    key = random.key(1)
    for n in (0, 1, 2, 64):
        x = np.zeros((n, 2), np.float32)
        np.testing.assert_array_equal(draw(key, x), getattr(random, name)(key, shape=(n, 2), **arguments))
    assert draw.cache_info().compiles == 1


def test_parameters_that_are_arrays(jr: Any) -> None:
    key, rows = np.asarray(jr.PRNGKey(5)), np.array([[0.5], [2.0]], np.float32)
    columns = np.array([1.0, 2.0, 3.0], np.float32)
    for mine, theirs in (
        (random.wald(key, columns), jr.wald(key, columns)),
        (random.rayleigh(key, columns, (2, 3)), jr.rayleigh(key, columns, (2, 3))),
        (random.f(key, rows, columns[None]), jr.f(key, rows, columns[None])),
        (random.triangular(key, -rows, 0.0, columns), jr.triangular(key, -rows, 0.0, columns)),
        (random.weibull_min(key, rows, columns), jr.weibull_min(key, rows, columns)),
        (random.double_sided_maxwell(key, rows, columns), jr.double_sided_maxwell(key, rows, columns)),
        (random.geometric(key, rows / 4, (2, 3)), jr.geometric(key, rows / 4, (2, 3))),
    ):
        assert np.shape(mine) == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=2e-3, atol=1e-4)


def test_moments() -> None:
    """Of what the numbers are, whatever JAX draws."""
    key, count = random.key(11), 200_000
    assert np.mean(random.geometric(key, 0.25, (count,))) == pytest.approx(4, rel=0.01)
    assert np.mean(random.wald(key, 2.0, (count,))) == pytest.approx(2, rel=0.02)
    assert np.mean(random.maxwell(key, (count,))) == pytest.approx(2 * np.sqrt(2 / np.pi), rel=0.01)
    assert np.mean(random.triangular(key, 0, 1, 5, (count,))) == pytest.approx(2, rel=0.01)
    points = np.asarray(random.ball(key, 3, shape=(count // 4,)))
    radii = np.linalg.norm(points, axis=-1)
    assert radii.max() <= 1 + 1e-6
    assert np.mean(radii**3) == pytest.approx(0.5, rel=0.02)  # evenly spread: the cube of the radius is uniform


def test_derivatives_by_parameters(jr: Any) -> None:
    import jax

    key = np.asarray(jr.PRNGKey(0))
    for name, value in (("rayleigh", 1.5), ("wald", 1.2)):
        mine = dyn.grad(lambda v, name=name: getattr(random, name)(key, v, (9,)).sum())(np.float32(value))
        theirs = jax.jit(jax.grad(lambda v, name=name: getattr(jr, name)(key, v, (9,)).sum()))(np.float32(value))
        np.testing.assert_allclose(mine, theirs, rtol=1e-3)


def test_refusals() -> None:
    with pytest.raises(UnsupportedOpError) as caught:
        random.maxwell(random.key(0), (3,), "int32")
    assert caught.value.problem == "maxwell draws numbers of a float dtype, not of int32."
    with pytest.raises(UnsupportedOpError) as caught:
        random.geometric(random.key(0), 0.5, (3,), "float32")
    assert caught.value.problem == "geometric draws numbers of an integer dtype, not of float32."
