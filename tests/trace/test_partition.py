"""What a second half of a derivative is given, and what it computes again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp

Shape = tuple[int, ...]


def kept(function: Callable[..., Any], *shapes: Shape) -> list[Shape]:
    """The shapes of the residuals of a function, of arguments of these shapes; the pull agrees with the gradient."""
    generator = np.random.default_rng(0)
    arguments = [generator.standard_normal(shape, dtype="f4") for shape in shapes]
    result, pull = dyn.vjp(function, *arguments)
    made = pull(np.ones_like(result))
    wanted = dyn.jit(dyn.grad(lambda *args: dnp.sum(function(*args)), argnums=tuple(range(len(shapes)))))(*arguments)
    for one, other in zip(made, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    return sorted([r.shape for r in residuals(pull) if r.size])


def residuals(pull: Any) -> list[Any]:
    (held,) = [cell.cell_contents for cell in pull.__closure__ if hasattr(cell.cell_contents, "residuals")]
    return list(held.residuals)


@pytest.mark.parametrize("rows", [5, 1])
def test_one_value_for_all_that_follows_from_it(rows: int) -> None:
    def chain(x: Any, w: Any) -> Any:
        h = x @ w
        return dnp.tanh(h) * dnp.exp(-h * h) + dnp.sin(h)

    # The factors, which are given, and h.
    assert kept(chain, (rows, 3), (3, 4)) == sorted([(rows, 3), (3, 4), (rows, 4)])


def test_views_of_what_is_given_are_made_again() -> None:
    assert kept(lambda x, w: x @ dnp.reshape(w.T, (3, 4)), (5, 3), (4, 3)) == [(4, 3), (5, 3)]


def test_the_smaller_of_what_leads_to_a_value() -> None:
    def spread(x: Any, w: Any) -> Any:
        column = dnp.sum(x, axis=1, keepdims=True)  # of which the whole is a broadcast
        return dnp.exp(dnp.broadcast_to(column, x.shape)) * w

    assert (5, 1) in kept(spread, (5, 7), (5, 7))
