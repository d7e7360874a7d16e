"""One compile for every size, and the oracle's results at each."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.backends.runtime import native_runtime
from dyn.numpy._indexing.getitem import scatter_update
from dyn.runtime.launch import THRESHOLDS

SIZES = (0, 1, 2, 7, 64, 1000)
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def every_launch_is_split() -> Iterator[None]:
    """Launches use as many threads as they may, however small they are."""
    native_runtime().split_from(awake=0, asleep=0, piece=1)
    yield
    native_runtime().split_from(*THRESHOLDS.values())


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
        for threads in (1, 2, 3, 8):
            with dyn.config.override(num_threads=threads):
                assert function(*given).tobytes() == result.tobytes()
    assert function.cache_info().compiles == 1
    assert function.cache_info().hits == 5 * len(sizes) - 1


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


def test_broadcasts_that_may_stretch_are_one_kernel() -> None:
    scale = dyn.jit(lambda x, w, b: x * w + b)
    for n, m, k in [(3, 7, 7), (3, 1, 7), (1, 1, 1), (0, 7, 1), (2, 7, 1)]:
        x, w, b = floats(n, 7 if m != 1 or k != 1 else 1), floats(m), floats(k)
        np.testing.assert_allclose(scale(x, w, b), x * w + b, rtol=1e-6, atol=1e-6)
    assert scale.cache_info().compiles == 1
    text = str(scale.explain())
    assert "1 distinct kernel:" in text
    assert "variant loop multiply_add: always" in text


def test_arrays_of_one_shape_are_one_loop() -> None:
    """Where nothing is stretched a sum of matrices is a single run over memory."""
    add = dyn.jit(lambda x, y: x + y)
    for n, m, k in [(3, 7, 7), (3, 1, 7), (1, 1, 1), (0, 7, 1), (2, 7, 1)]:
        x, y = floats(n, m), floats(3 if n == 3 else 1, k)
        np.testing.assert_array_equal(add(x, y), x + y)
    text = str(add.explain())
    assert "variant loop add, nothing stretched: when max(" in text
    assert "schedule: fuse i0 i1 into i0i1, split i0i1 by 8192, bind i0i1 to lanes" in text
    assert "variant loop add: always" in text


def test_recommender_with_embeddings() -> None:
    """Tables looked up by ids, dense features, their products two by two, and layers on top: a click's probability."""
    heights, width = (50, 1000, 7), 16
    tables = [floats(height, width) for height in heights]
    parts = len(heights) + 1
    params = {
        "tables": tables,
        "dense": {"w": floats(13, width) / 4, "b": floats(width)},
        "top": [
            {"w": floats(a, b) / 4, "b": floats(b)} for a, b in pairwise((width + parts * (parts - 1) // 2, 32, 1))
        ],
    }

    @dyn.jit
    def recommend(dense, ids, bags, params):
        x = dyn.nn.relu(dense @ params["dense"]["w"] + params["dense"]["b"])
        first, second = (dyn.nn.embedding(ids[:, k], params["tables"][k]) for k in range(2))
        last = dnp.sum(dyn.nn.embedding(bags, params["tables"][2]), axis=1)  # several ids for one feature
        features = dnp.stack([x, first, second, last], axis=1)
        products = features @ features.transpose(0, 2, 1)
        rows, columns = np.tril_indices(parts, -1)
        x = dnp.concatenate([x, products[:, rows, columns]], axis=1)
        for layer in params["top"][:-1]:
            x = dyn.nn.relu(x @ layer["w"] + layer["b"])
        return dyn.nn.sigmoid(x @ params["top"][-1]["w"] + params["top"][-1]["b"])[:, 0]

    def oracle(dense, ids, bags, params):
        x = np.maximum(dense @ params["dense"]["w"] + params["dense"]["b"], 0)
        first, second = (params["tables"][k][ids[:, k]] for k in range(2))
        features = np.stack([x, first, second, params["tables"][2][bags].sum(1)], axis=1)
        products = features @ features.transpose(0, 2, 1)
        x = np.concatenate([x, products[:, *np.tril_indices(parts, -1)]], axis=1)
        for layer in params["top"][:-1]:
            x = np.maximum(x @ layer["w"] + layer["b"], 0)
        return (1 / (1 + np.exp(-(x @ params["top"][-1]["w"] + params["top"][-1]["b"]))))[:, 0]

    for n in SIZES:
        ids = np.stack([RNG.integers(-height, height, n) for height in heights[:2]], axis=1)
        given = (floats(n, 13), ids, RNG.integers(0, heights[2], (n, n % 5)).astype(np.int32), params)
        result = recommend(*given)
        assert (result.dtype, result.shape) == (np.float32, (n,))
        np.testing.assert_allclose(result, oracle(*given), rtol=2e-4, atol=2e-5)
    assert recommend.cache_info().compiles == 1


def test_gradients_of_embeddings() -> None:
    """What the gradient of a look-up is: rows added up where their ids say, in their order."""

    @dyn.jit
    def gradient(table, ids, rows):
        return scatter_update(dnp.zeros_like(table), ids, rows, "add")

    @dyn.jit
    def counts(ids, bins):
        return scatter_update(dnp.zeros(bins.shape, dtype="int64"), ids, 1, "add")

    for n in SIZES:
        table, ids, rows = floats(n + 1, 24), RNG.integers(0, n + 1, 2 * n), floats(2 * n, 24)
        expected = np.zeros_like(table)
        np.add.at(expected, ids, rows)
        np.testing.assert_array_equal(gradient(table, ids, rows), expected)
        np.testing.assert_array_equal(counts(ids, table[:, 0]), np.bincount(ids, minlength=n + 1))
    assert (gradient.cache_info().compiles, counts.cache_info().compiles) == (1, 1)


def test_a_growing_cache() -> None:
    """A window is written into a cache at a place that is data, and read back."""

    @dyn.jit
    def step(cache, new, at):
        index = (slice(None), at + dnp.arange(new.shape[1]))
        cache = scatter_update(cache, index, new)
        return cache, cache[:, at]

    for n in SIZES:
        cache, new = floats(2, n + 2, 8), floats(2, 2, 8)
        for at in {0, n // 2, n}:
            expected = cache.copy()
            expected[:, at : at + 2] = new
            whole, row = step(cache, new, np.int64(at))
            np.testing.assert_array_equal(whole, expected)
            np.testing.assert_array_equal(row, expected[:, at])
    assert step.cache_info().compiles == 1


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_small_cnn_with_dynamic_batch_height_and_width(layout: str) -> None:
    """Convolutions with strides, groups and a residual, pools, a norm and a head; an image may be smaller than a
    window, or have no pixels."""
    axis = layout.index("C")
    numbers = (layout, "HWIO" if layout == "NHWC" else "OIHW", layout)

    def kernel(size: int, inputs: int, outputs: int) -> np.ndarray[Any, Any]:
        made = floats(size, size, inputs, outputs) / np.float32(size * inputs**0.5)
        return made if layout == "NHWC" else np.ascontiguousarray(made.transpose(3, 2, 0, 1))

    stem, first, deep, skip = kernel(3, 3, 20), kernel(3, 20, 20), kernel(3, 1, 20), kernel(1, 20, 33)
    second, scale, shift, head = kernel(3, 20, 33), abs(floats(20)) + 1, floats(20), floats(33, 5)

    @dyn.jit(shapes="b h w 3" if layout == "NHWC" else "b 3 h w")
    def cnn(x):
        def conv(x, w, stride=1, groups=1, padding="SAME"):
            return dyn.nn.conv(x, w, stride, padding, dimension_numbers=numbers, feature_group_count=groups)

        x = dyn.nn.relu(dyn.nn.batch_norm(conv(x, stem, 2), shift, scale, scale, shift, axis))
        x = dyn.nn.relu(conv(x, first) + x)
        x = dyn.nn.max_pool(x, 3, 2, [(1, 1), (1, 1)], dimension_numbers=layout)
        x = conv(x, deep, groups=20, padding="VALID")
        x = dyn.nn.gelu(conv(x, second, 2) + conv(x, skip, 2))
        return dyn.nn.global_avg_pool(x, dimension_numbers=layout) @ head

    def images(b: int, h: int, w: int) -> tuple[Any, ...]:
        return (floats(b, h, w, 3) if layout == "NHWC" else floats(b, 3, h, w),)

    calls = [(1, n, n) for n in (0, 1, 2, 7, 64)] + [(n, 20, 13) for n in (0, 2, 7)] + [(1, 3, 1000), (64, 9, 12)]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(cnn, lambda n: images(*calls[n]), sizes=tuple(range(len(calls))))
