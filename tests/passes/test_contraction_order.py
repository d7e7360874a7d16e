"""Contractions that are computed in the order in which they are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp


def text(function: Callable[..., Any], shapes: str, *ranks: int) -> str:
    arguments = [dyn.ShapeDtypeStruct((None,) * rank, "float32") for rank in ranks]
    return dyn.jit(function, shapes=shapes).trace(*arguments).lower().as_text()


def test_the_gradient_of_a_weight_is_not_transposed() -> None:
    found = text(dyn.grad(lambda w, x: dnp.sum((x @ w) ** 2)), "k n, b s k", 2, 3)
    assert found.count("dot_general(") == 2
    assert "transpose(" not in found


def test_an_update_is_the_epilogue_of_its_gradient() -> None:
    def step(w: Any, x: Any) -> Any:
        return w - 0.1 * dyn.grad(lambda w: dnp.sum((x @ w) ** 2))(w)

    jitted = dyn.jit(step, shapes="k n, b k", donate_argnums=0)
    w, x = np.ones((3, 5), np.float32), np.arange(6, dtype=np.float32).reshape(2, 3)
    wanted = w - 0.1 * x.T @ (2 * x @ w)
    found = jitted(w, x)
    assert found is w
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert "contract dot_general_multiply_subtract [k, n]: 3 ops" in str(jitted.explain())


@pytest.mark.parametrize(
    ("function", "shapes", "ranks"),
    [
        (lambda x, y: (x @ y, (x @ y).T), "m k, k n", (2, 2)),
        (lambda x, y: ((z := x @ y).T, z + 1), "m k, k n", (2, 2)),
        (lambda x, y: dnp.transpose(x @ y, (0, 2, 1, 3)), "a b m k, a b k n", (4, 4)),
        (lambda x, y: dnp.transpose(x @ y, (1, 0, 2)), "b m k, k n", (3, 2)),
    ],
    ids=["used both ways", "used otherwise", "batch axes", "free axes of one operand"],
)
def test_what_stays(function: Callable[..., Any], shapes: str, ranks: tuple[int, ...]) -> None:
    assert text(function, shapes, *ranks).count("transpose(") == 1


@pytest.mark.parametrize("size", [0, 1, 2, 7, 64])
def test_values(size: int) -> None:
    function = dyn.jit(lambda x, y: (dnp.exp((x @ y).T), dnp.einsum("abk,ack->acb", x[None], x[None] * 2)))
    random = np.random.default_rng(size)
    x, y = random.standard_normal((size, 5)).astype("f4"), random.standard_normal((5, 3)).astype("f4")
    first, second = function(x, y)
    np.testing.assert_allclose(first, np.exp((x @ y).T), rtol=1e-5)
    np.testing.assert_allclose(second, np.swapaxes(x[None] @ (x[None] * 2).swapaxes(1, 2), 1, 2), rtol=1e-5, atol=1e-5)
