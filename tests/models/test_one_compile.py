"""One compile for every size, and the oracle's results at each."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp

SIZES = (0, 1, 2, 7, 64, 1000)
RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def check(function: Any, arguments: Callable[[int], tuple[Any, ...]], sizes: tuple[int, ...] = SIZES) -> None:
    """Call at every size; compare with the oracle; count compiles."""
    for size in sizes:
        given = arguments(size)
        result = function(*given)
        expected = function.reference(*given)
        assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)
    assert function.cache_info().compiles == 1
    assert function.cache_info().hits == len(sizes) - 1


@pytest.mark.parametrize("which", ["rows", "columns", "both"])
def test_softmax(which: str) -> None:
    @dyn.jit
    def softmax(x):
        return dyn.nn.softmax(x, axis=-1)

    shapes = {"rows": lambda n: (n, 33), "columns": lambda n: (5, n), "both": lambda n: (n, n)}
    check(softmax, lambda n: (floats(*shapes[which](n)),))


def test_softmax_as_in_the_readme() -> None:
    @dyn.jit
    def softmax(x):
        e = dnp.exp(x - dnp.max(x, axis=-1, keepdims=True))
        return e / dnp.sum(e, axis=-1, keepdims=True)

    check(softmax, lambda n: (floats(n, 1024),))
    with pytest.raises(dyn.errors.ShapeError, match="maximum of nothing"):
        softmax(floats(3, 0))


def test_softmax_takes_numpys_own_functions() -> None:
    @dyn.jit
    def softmax(x):
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True)

    check(softmax, lambda n: (floats(n, 17),))


def test_layer_norm() -> None:
    @dyn.jit
    def layer_norm(x, weight, bias):
        return dyn.nn.layer_norm(x, weight, bias)

    check(layer_norm, lambda n: (floats(n, 3, 96), floats(96), floats(96)))
    check(dyn.jit(dyn.nn.layer_norm), lambda n: (floats(4, n), floats(n), floats(n)))


def test_mlp_with_every_dim_symbolic() -> None:
    @dyn.jit
    def mlp(x, params):
        for layer in params[:-1]:
            x = dyn.nn.gelu(x @ layer["w"] + layer["b"])
        return x @ params[-1]["w"] + params[-1]["b"]

    def arguments(n: int) -> tuple[Any, ...]:
        widths = (12, n, 9, 5)
        return floats(n, 12), [{"w": floats(a, b), "b": floats(b)} for a, b in pairwise(widths)]

    check(mlp, arguments, sizes=(0, 1, 2, 7, 64, 300))


def test_mlp_over_captured_weights() -> None:
    w1, b1, w2, b2 = floats(32, 64), floats(64), floats(64, 10), floats(10)

    @dyn.jit(shapes="n 32")
    def mlp(x):
        return dyn.nn.relu(x @ w1 + b1) @ w2 + b2

    check(mlp, lambda n: (floats(n, 32),))
    with pytest.raises(dyn.errors.ShapeError, match="declared to be 32"):
        mlp(floats(3, 31))


def test_attention_with_a_mask() -> None:
    @dyn.jit(shapes="b s 4 16, b s 4 16, b s 4 16, b s")
    def attention(q, k, v, mask):
        q, k, v = (t.transpose(0, 2, 1, 3) for t in (q, k, v))
        scores = q @ k.transpose(0, 1, 3, 2) * q.shape[-1] ** -0.5
        scores = dnp.where(mask[:, None, None, :], scores, -1e9)
        context = dyn.nn.softmax(scores, axis=-1) @ v
        return context.transpose(0, 2, 1, 3).reshape(mask.shape[0], mask.shape[1], 64)

    def arguments(n: int) -> tuple[Any, ...]:
        batch = 1 if n > 64 else 3
        return (*(floats(batch, n, 4, 16) for _ in range(3)), RNG.random((batch, n)) < 0.8)

    check(attention, arguments)
    for batch in (0, 1, 5):
        given = (*(floats(batch, 9, 4, 16) for _ in range(3)), RNG.random((batch, 9)) < 0.8)
        np.testing.assert_allclose(attention(*given), attention.reference(*given), rtol=2e-5, atol=2e-5)
    assert attention.cache_info().compiles == 1


def test_undecided_broadcast() -> None:
    @dyn.jit
    def add(a, b):
        return a + b * 2.0

    for n, m in [(5, 5), (1, 5), (5, 1), (1, 1), (0, 1), (0, 0), (1, 0), (64, 64)]:
        a, b = floats(n), floats(m)
        np.testing.assert_allclose(add(a, b), a + b * 2.0, rtol=1e-6)
    assert add.cache_info().compiles == 1
    with pytest.raises(dyn.errors.ShapeError):
        add(floats(3), floats(4))


def test_a_broadcast_that_stretches_nothing_takes_the_quick_kernel() -> None:
    scale = dyn.jit(lambda x, w, b: x * w + b)
    for n, m, k in [(3, 7, 7), (3, 1, 7), (1, 1, 1), (0, 7, 1), (2, 7, 1)]:
        x, w, b = floats(n, 7 if m != 1 or k != 1 else 1), floats(m), floats(k)
        np.testing.assert_allclose(scale(x, w, b), x * w + b, rtol=1e-6, atol=1e-6)
    assert scale.cache_info().compiles == 1
    text = str(scale.explain())
    assert "nothing stretched: when max(" in text
    assert "variant loop add: always" in text
