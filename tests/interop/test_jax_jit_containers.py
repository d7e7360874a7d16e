"""Arrays in containers of dyn.interop.jax.jit: an axis that differs at its second call is symbolic from then on."""

from __future__ import annotations

import logging
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dyn.interop import jax as djax


def step(params: Any, batch: Any) -> Any:
    def loss(p: Any) -> Any:
        return jnp.mean((jnp.tanh(batch["x"] @ p["w"]) @ p["v"] - batch["y"]) ** 2)

    value, gradient = jax.value_and_grad(loss)(params)
    return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, gradient)


def arrays(n: int, width: int = 4) -> tuple[Any, Any]:
    rng = np.random.default_rng(n)
    params = {"w": rng.standard_normal((5, width)).astype("f4"), "v": np.ones(width, "f4")}
    return params, {"x": rng.standard_normal((n, 5)).astype("f4"), "y": np.ones(n, "f4")}


def test_a_batch_of_every_size_in_two_compiles(caplog: pytest.LogCaptureFixture) -> None:
    run = djax.jit(step)
    with caplog.at_level(logging.INFO, "dyn.compile"):
        for n in (7, 8, 9, 64, 1, 7, 2):
            value, params = run(*arrays(n))
            expected, expected_params = step(*arrays(n))
            np.testing.assert_allclose(value, expected, rtol=1e-5)
            np.testing.assert_allclose(params["w"], expected_params["w"], rtol=1e-5, atol=1e-6)
    assert run.cache_info().compiles == 2
    places = "batch['x'].shape[0], batch['y'].shape[0]"
    assert f"axes in containers, symbolic since calls differ there: {places}\n" in str(run.explain())
    assert f"step: symbolic from now on, since calls differ there: {places}" in caplog.messages


def test_further_axes_follow() -> None:
    run = djax.jit(step)
    for n, width in ((7, 4), (8, 4), (8, 6), (9, 3), (3, 8)):
        np.testing.assert_allclose(run(*arrays(n, width))[0], step(*arrays(n, width))[0], rtol=1e-5)
    before = run.cache_info().compiles
    for n, width in ((5, 5), (6, 7)):
        run(*arrays(n, width))
    assert run.cache_info().compiles == before <= 3


def test_many_axes_that_differ_are_another_model() -> None:
    def apply(params: Any, x: Any) -> Any:
        for w in params:
            x = jnp.tanh(x @ w)
        return x

    run = djax.jit(apply)
    for width in (3, 4):
        params = [np.full((width, width), 0.1, "f4") for _ in range(20)]
        x = np.ones((2, width), "f4")
        np.testing.assert_allclose(run(params, x), apply(params, x), rtol=1e-5)
    assert "symbolic since calls differ" not in str(run.explain())
    assert run.cache_info().compiles == 2


def test_ranks_have_plans_of_their_own() -> None:
    run = djax.jit(lambda x, tree: tree["b"] * 2)
    shapes = [(2, 3), (3, 3), (3,), (4,), (5, 3), (), (7, 7), (9,)]
    for shape in shapes:
        b = np.ones(shape, "f4")
        np.testing.assert_array_equal(run(np.ones(3, "f4"), {"b": b}), b * 2)
    assert run.cache_info().compiles == 6  # two for the second and for the first rank, one for numbers, one for (7, 7)


def test_other_ranks_and_dtypes_are_other_programs() -> None:
    run = djax.jit(lambda tree: tree["x"] * 2)
    for x in (np.ones(3, "f4"), np.ones((3, 2), "f4"), np.ones(3, "i4"), np.ones(4, "f4"), np.ones(0, "f4")):
        np.testing.assert_array_equal(run({"x": x}), x * 2)
