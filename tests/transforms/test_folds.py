"""Folds with a function of one's own, differentiated and for many examples: one program for every size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax

Array = Any
SIZES = (0, 1, 2, 7, 64)


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def close(mine: Any, theirs: Any, tolerance: float = 3e-5) -> None:
    np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=tolerance, atol=tolerance)


def squares(x: Array) -> Array:
    """Squared distances from the mean by Welford's recurrence, along the last axis."""

    def joined(state: Any, element: Any) -> Any:
        n, mean, m2 = state
        more, x, _ = element
        count = n + more
        off = x - mean
        mean = mean + off * (more / count)
        return count, mean, m2 + off * (x - mean)

    ones, zero = dnp.ones_like(x), np.float32(0)
    return lax.reduce((ones, x, dnp.zeros_like(x)), (zero, zero, zero), joined, (x.ndim - 1,))[2]


def test_gradients_of_a_fold() -> None:
    f = dyn.jit(dyn.grad(lambda x: dnp.sum(squares(x))))
    for n in SIZES:
        x = floats(3, n)
        close(f(x), 2 * (x - x.mean(1, keepdims=True)) if n else x)
    assert f.cache_info().compiles == 1


def test_tangents_of_a_fold_and_second_derivatives() -> None:
    forward = dyn.jit(lambda x, t: dyn.jvp(squares, (x,), (t,))[1])
    for n in SIZES[1:]:
        x, t = floats(3, n), floats(3, n, seed=1)
        close(forward(x, t), (2 * (x - x.mean(1, keepdims=True)) * t).sum(1), 1e-4)
    assert forward.cache_info().compiles == 1
    second = dyn.jit(dyn.hessian(squares))
    for n in (1, 2, 7):
        close(second(floats(n)), 2 * (np.eye(n) - 1 / n))
    assert second.cache_info().compiles == 1


def log_sum(x: Array, start: Array) -> Array:
    """The logarithm of a sum of exponentials in one pass: the greatest so far, and the sum in its measure."""

    def joined(state: Any, element: Any) -> Any:
        top, total = state
        x, more = element
        new = dnp.maximum(top, x)
        return new, total * dnp.exp(top - new) + more * dnp.exp(x - new)

    top, total = lax.reduce((x, dnp.ones_like(x)), (start, np.float32(1)), joined, (0,))
    return top + dnp.log(total)


def test_initial_values_move_the_result_too() -> None:
    f = dyn.jit(dyn.value_and_grad(log_sum, argnums=(0, 1)))
    for n in SIZES:
        x, start = floats(n), np.float32(0.3)
        value, (by_x, by_start) = f(x, start)
        share = np.exp(np.append(x, start) - np.logaddexp.reduce(np.append(x, start)))
        close(value, np.logaddexp.reduce(np.append(x, start)))
        close(np.append(by_x, by_start), share)
    assert f.cache_info().compiles == 1


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_many_examples_with_initial_values_of_their_own(axes: tuple[int | None, int | None]) -> None:
    each = dyn.jit(dyn.vmap(log_sum, in_axes=axes))
    for count in (0, 1, 3):
        for n in (0, 1, 7):
            x = floats(count, n) if axes[0] == 0 else floats(n)
            start: Any = floats(count, seed=2) if axes[1] == 0 else np.float32(0.5)
            made = np.asarray(each(x, start))
            assert made.shape == (count,)
            for i in range(count):
                own = np.append(x[i] if axes[0] == 0 else x, start[i] if axes[1] == 0 else start)
                close(made[i], np.logaddexp.reduce(own))
    assert each.cache_info().compiles == 1


def test_folds_over_several_axes_and_none() -> None:
    def power(x: Array, axes: tuple[int, ...]) -> Array:
        return dnp.sum(lax.reduce(x, np.float32(2), lambda a, b: a * dnp.cos(b) + b, axes) ** 2)

    for axes in ((0, 2), (1,), ()):
        f = dyn.jit(dyn.grad(lambda x, axes=axes: power(x, axes)))
        for n in (0, 1, 4):
            x = floats(2, n, 3)
            h = np.float32(1e-2)
            made = np.asarray(f(x))
            for place in np.ndindex(x.shape):
                step = np.zeros_like(x)
                step[place] = h
                close(made[place], (power(x + step, axes) - power(x - step, axes)) / (2 * h), 2e-2)
        assert f.cache_info().compiles == 1


def last_greater(x: Array) -> Array:
    """In windows of three with holes around: the sum of what grew, in order."""
    zero = np.float32(0)
    shape = ((3,), (2,), ((2, 1),))
    grown = lax.reduce_window(x, zero, lambda a, b: dnp.where(b > a, a + b * b, a * 0.5), *shape)
    return dnp.sum(grown * grown)


def test_folds_in_windows() -> None:
    gradient, hessian = (
        dyn.jit(dyn.grad(last_greater)),
        dyn.jit(lambda x: dyn.jvp(dyn.grad(last_greater), (x,), (x,))[1]),
    )
    each = dyn.jit(dyn.vmap(last_greater))
    for n in (0, 1, 2, 7):
        x = floats(n, seed=3)
        made, h = np.asarray(gradient(x)), np.float32(1e-2)
        for i in range(n):
            step = np.eye(n, dtype=np.float32)[i] * h
            close(made[i], (last_greater(x + step) - last_greater(x - step)) / (2 * h), 2e-2)
        assert hessian(x).shape == (n,)
        many = floats(3, n, seed=4)
        close(each(many), [last_greater(row) for row in many])
    assert [f.cache_info().compiles for f in (gradient, hessian, each)] == [1, 1, 1]
