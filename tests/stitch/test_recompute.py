"""Outputs that readers compute again: they have the bits of those that are read, at all sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp


def step(x: Any, w: Any, b: Any) -> Any:
    """A layer and its gradient by hand: what follows the product reads several values of what comes before it."""
    h = x @ w + b
    t = dnp.tanh(h)
    shown = (h * 0.5, 1 + t, 1 - t, h * h)
    half, plus, minus, square = shown
    y = (half * plus) @ w
    rows = dnp.sum(plus * minus, axis=-1, keepdims=True)
    return y * plus + half * (plus * minus) * square - dnp.exp(minus) / (1 + dnp.exp(rows)), shown


def stored(function: Any, *arguments: Any) -> int:
    return function.trace(*arguments).lower().as_text("stitch").count("-> stored")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("shapes", [None, "n k, k k, k"])
def test_bits_do_not_depend_on_what_is_stored(dtype: str, shapes: str | None) -> None:
    """Values that are results are in memory, and are read there."""
    few = dyn.jit(lambda *a: step(*a)[0], shapes=shapes)
    all_ = dyn.jit(step, shapes=shapes)
    rng = np.random.default_rng(0)
    for n, k in ((0, 3), (3, 1), (1, 1), (1, 7), (5, 33), (40, 70)):
        x, w, b = (dnp.astype(rng.standard_normal(s), dtype) for s in ((n, k), (k, k), (k,)))
        np.testing.assert_array_equal(np.asarray(few(x, w, b)), np.asarray(all_(x, w, b)[0]))
    assert few.cache_info().compiles == all_.cache_info().compiles == 1
    assert stored(few, x, w, b) < stored(all_, x, w, b) - 2


def test_explained() -> None:
    function = dyn.jit(lambda *a: step(*a)[0], shapes="n k, k k, k")
    function(*(np.ones(s, "f4") for s in ((2, 3), (3, 3), (3,))))
    assert "computed again, rather than read: add at test_recompute.py:18" in str(function.explain())


def test_in_regions_and_donated() -> None:
    """A loop's body is cut as a function is; memory that is given away is read until the last reader is done."""

    def body(x: Any, w: Any) -> Any:
        t = dnp.tanh(x)
        y = (x * t) @ w
        return y * (1 - t) + (1 + t) * (x * 0.5)

    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((4, 6)), rng.standard_normal((6, 6)) / 6

    def by_numpy(x: Any) -> Any:
        t = np.tanh(x)
        return ((x * t) @ w) * (1 - t) + (1 + t) * (x * 0.5)

    wanted = x
    for _ in range(3):
        wanted = by_numpy(wanted)
    looped = dyn.jit(lambda x, w: dyn.lax.fori_loop(0, 3, lambda i, v: body(v, w), x))
    np.testing.assert_allclose(looped(x, w), wanted, rtol=1e-12)
    donated = dyn.jit(body, donate_argnums=0, shapes="n k, k k")
    np.testing.assert_allclose(donated(x.copy(), w), by_numpy(x), rtol=1e-12)


def test_sizes_that_are_measured() -> None:
    def f(x: Any, w: Any) -> Any:
        x = x[x[:, 0] > 0]
        t = dnp.tanh(x)
        return ((x * t) @ w) * (1 - t) + (1 + t) * (x * 0.5)

    rng = np.random.default_rng(2)
    for n in (0, 1, 9):
        x, w = rng.standard_normal((n, 4)), rng.standard_normal((4, 4))
        kept = x[x[:, 0] > 0]
        t = np.tanh(kept)
        np.testing.assert_allclose(dyn.jit(f)(x, w), ((kept * t) @ w) * (1 - t) + (1 + t) * (kept * 0.5), rtol=1e-12)
