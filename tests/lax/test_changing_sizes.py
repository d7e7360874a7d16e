"""Loops whose carried arrays change their sizes: written out where the number of steps is known, else an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ShapeError

Array = Any


def doubled(x: Array) -> Array:
    return lax.fori_loop(0, 2, lambda i, c: dnp.concatenate([c, c]), x)


def test_growing() -> None:
    step = dyn.jit(doubled)
    for size in (3, 0, 1, 5):
        x = np.arange(float(size))
        np.testing.assert_array_equal(step(x), np.tile(x, 4))
    assert step.cache_info().compiles == 1
    slope = dyn.grad(lambda x: dnp.sum(doubled(x) * dnp.arange(12.0)))(np.ones(3))
    np.testing.assert_array_equal(slope, [18, 22, 26])


def test_slices_and_masks() -> None:
    """By the loop's number, which is a number of Python's there; and sizes that the data have."""
    step = dyn.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: x[: i + 1], x[:1]))
    masked = dyn.jit(lambda x: lax.fori_loop(0, 2, lambda i, c: c[c > i], x))
    for x in (np.array([1.0, 3.0, 0.5, 2.0]), np.array([-1.0, -2.0])):
        np.testing.assert_array_equal(step(x), x[:3])
        np.testing.assert_array_equal(masked(x), x[x > 1])
    assert (step.cache_info().compiles, masked.cache_info().compiles) == (1, 1)
    sums = dyn.jit(lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + dnp.sum(x[: i + 1]), 0.0))
    assert sums(np.arange(4.0)) == 10
    assert sums(np.arange(2.0)) == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse: bool) -> None:
    """Rows come in the order of what is scanned."""
    xs = np.array([1.0, 2.0, 3.0])
    step = dyn.jit(
        lambda x, xs: lax.scan(lambda c, v: (dnp.append(c, v), dnp.sum(c)), x, xs, reverse=reverse), shapes="n, 3"
    )
    for x in (np.array([5.0]), np.zeros(0)):
        carry, rows = step(x, xs)
        order = xs[::-1] if reverse else xs
        np.testing.assert_array_equal(carry, [*x, *order])
        before = [x.sum() + order[:k].sum() for k in range(3)]
        np.testing.assert_array_equal(rows, before[::-1] if reverse else before)
    assert step.cache_info().compiles == 1


def test_sizes_of_arguments_are_checked() -> None:
    """Two that may be equal stay a check of a loop, however few its steps."""
    step = dyn.jit(lambda x, y: lax.fori_loop(0, 2, lambda i, c: y + 1, x))
    np.testing.assert_array_equal(step(np.zeros(2), np.ones(2)), [2, 2])
    with pytest.raises(ShapeError, match="the body of fori_loop gives"):
        step(np.zeros(2), np.ones(3))


def refused(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(ShapeError) as caught:
        call()
    lines = [line for line in str(caught.value).splitlines() if not line.startswith("  at ")]
    assert "\n".join(lines) == text


def test_where_the_steps_are_not_known() -> None:
    """No step, or nothing to carry, is right; any other is an error before anything is computed."""
    step = dyn.jit(lambda x, n: lax.fori_loop(0, n, lambda i, c: dnp.concatenate([c, c]), x))
    x = np.arange(3.0)
    np.testing.assert_array_equal(step(x, np.int64(0)), x)
    np.testing.assert_array_equal(step(x[:0], np.int64(2)), x[:0])
    refused(
        lambda: step(x, np.int64(2)),
        "the body of while_loop gives init_val[2] with the size 6 on axis 0, where what it started with has 3.\n"
        "  x_0 is x.shape[0] = 3\n"
        "  help: give the loop a number of steps that is known while tracing (at most 64), or carry an array of the "
        "greatest size and how much of it is filled.",
    )
    refused(
        lambda: dyn.jit(lambda x: lax.while_loop(lambda c: dnp.sum(c) > 2, lambda c: c[c > 0], x))(x),
        "the body of while_loop gives f64[count], and the size of axis 0 is found out inside of it.\n"
        "  count is the number of nonzero elements of (x_0,)\n"
        "  help: compute what is of one size from it inside, as a sum, or give it a size of your own (size= of nonzero,"
        " unique and their kin).",
    )


def test_names_of_states_are_no_patterns() -> None:
    key = "{}{a}"
    made = dyn.jit(lambda x, y: lax.while_loop(lambda c: c[key].sum() < 0, lambda c: {key: y}, {key: x}))
    np.testing.assert_array_equal(made(np.ones(3), np.ones(3))[key], np.ones(3))
    with pytest.raises(dyn.errors.ShapeError, match=r"\{\}\{a\}"):
        made(-np.ones(3), np.ones(4))
