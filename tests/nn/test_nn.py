"""``dyn.nn`` against JAX at every size, from one trace."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import dtypes, nn
from tests.numpy.differential import compare, run, trace

Array = np.ndarray[Any, Any]
Require = Callable[[str], ModuleType]


@pytest.fixture
def jnn(require_module: Require) -> Any:
    """``jax.nn`` in double precision."""
    jax = require_module("jax")
    with jax.enable_x64(True):
        yield jax.nn


ACTIVATIONS = [
    "celu", "elu", "gelu", "hard_sigmoid", "hard_swish", "hard_tanh", "leaky_relu", "log_sigmoid", "relu", "relu6",
    "sigmoid", "silu", "soft_sign", "softplus", "squareplus", "swish", "tanh",
]  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation(name: str, jnn: Any) -> None:
    compare(
        lambda xp, x: getattr(nn, name)(x * 4),
        "float32 n 7",
        oracle=lambda xp, x: np.asarray(getattr(jnn, name)(x * 4)),
        rtol=2e-6,
    )


def test_gelu_of_both_kinds(jnn: Any) -> None:
    for approximate in (True, False):
        compare(
            lambda xp, x, how=approximate: nn.gelu(x, approximate=how),
            "float64 n",
            oracle=lambda xp, x, how=approximate: np.asarray(jnn.gelu(x, approximate=how)),
            rtol=1e-12,
        )


def test_glu(jnn: Any) -> None:
    compare(
        lambda xp, x: (nn.glu(x), nn.glu(x, 0)),
        "float64 n 6",
        sizes=(0, 2, 4),
        oracle=lambda xp, x: (np.asarray(jnn.glu(x)), np.asarray(jnn.glu(x, 0))),
    )


def test_activations_keep_dtypes() -> None:
    traced = trace(lambda xp, x: [getattr(nn, name)(x) for name in ACTIVATIONS], "bfloat16 n")
    assert {v.dtype.name for v in traced.function.results} == {"bfloat16"}


# ---- softmax ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [-1, 0, (0, 1)])
def test_softmax(name: str, axis: Any, jnn: Any) -> None:
    def oracle(xp: Any, x: Array) -> Array:
        return np.zeros_like(x) if x.size == 0 else np.asarray(getattr(jnn, name)(x * 50, axis=axis))

    compare(lambda xp, x: getattr(nn, name)(x * 50, axis), "float64 n m", oracle=oracle)


def test_softmax_is_one_row_after_another() -> None:
    traced = trace(lambda xp, x: nn.softmax(x), "float32 n m")
    names = [op.opdef.name for op in traced.function.ops if op.opdef.name not in ("reshape", "broadcast_in_dim")]
    assert names == ["reduce", "subtract", "exponential", "reduce", "divide"]
    assert traced.function.facts.relations == ()


def test_softmax_where() -> None:
    def program(xp: Any, x: Any, keep: Any) -> Any:
        return nn.softmax(x, where=keep), nn.log_softmax(x, where=keep)

    def oracle(xp: Any, x: Array, keep: Array) -> Any:
        e = np.where(keep, np.exp(x), 0)
        soft = np.where(keep, e / e.sum(-1, keepdims=True), 0)
        return soft, np.where(keep, np.log(soft), -np.inf)

    compare(program, "float64 n m", "bool n m", oracle=oracle)


def test_softmax_where_agrees_with_jax(jnn: Any) -> None:
    traced = trace(lambda xp, x, keep: nn.softmax(x, where=keep), "float64 n m", "bool n m")
    x = np.array([[1.0, 2.0, -np.inf], [0.0, 1.0, 2.0]])
    keep = np.array([[True, False, True], [False, False, False]])
    np.testing.assert_allclose(run(traced, [x, keep])[0], jnn.softmax(x, where=keep), rtol=1e-12)


def test_logsumexp() -> None:
    from scipy.special import logsumexp

    def oracle(xp: Any, x: Array) -> Any:
        if x.size == 0:
            return np.full((x.shape[0],), -np.inf), np.array(-np.inf)
        return logsumexp(x, axis=1), logsumexp(x)

    compare(lambda xp, x: (nn.logsumexp(x, 1), nn.logsumexp(x)), "float64 n m", oracle=oracle)


# ---- normalisation ---------------------------------------------------------------------------------------------------


def layer_norm(x: Array, axis: Any, epsilon: float) -> Array:
    centred = x - x.mean(axis, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis, keepdims=True) + epsilon)


@pytest.mark.parametrize("axis", [-1, 0, (0, 1)])
def test_layer_norm(axis: Any) -> None:
    compare(
        lambda xp, x, w, b: (nn.layer_norm(x, w, b, axis, epsilon=1e-3), nn.standardize(x, axis)),
        "float64 n m",
        "float64 m",
        "float64 m",
        oracle=lambda xp, x, w, b: (layer_norm(x, axis, 1e-3) * w + b, layer_norm(x, axis, 1e-5)),
    )


def test_rms_norm() -> None:
    compare(
        lambda xp, x, w: (nn.rms_norm(x, w), nn.rms_norm(x, axis=0)),
        "float64 n m",
        "float64 m",
        oracle=lambda xp, x, w: (
            x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w,
            x / np.sqrt((x * x).mean(0, keepdims=True) + 1e-6),
        ),
    )


def test_half_precision_is_normalised_in_float32() -> None:
    def program(xp: Any, x: Any, w: Any) -> Any:
        return nn.layer_norm(x, w), nn.rms_norm(x, w)

    traced = trace(program, "float16 n m", "float16 m")
    x = np.full((1, 4096), 300, np.float16)
    x[0, 0] = 301
    first, second = run(traced, [x, np.ones(4096, np.float16)])
    assert first.dtype == second.dtype == np.float16
    wide = x.astype(np.float64)
    np.testing.assert_allclose(first, layer_norm(wide, -1, 1e-5), rtol=2e-3)
    np.testing.assert_allclose(second, wide / np.sqrt((wide**2).mean()), rtol=2e-3)


# ---- layers ----------------------------------------------------------------------------------------------------------


def test_linear_and_embedding() -> None:
    compare(
        lambda xp, x, w, b: (nn.linear(x, w, b), nn.linear(x, w)),
        "float64 n m",
        "float64 m 3",
        "float64 3",
        oracle=lambda xp, x, w, b: (x @ w + b, x @ w),
    )
    compare(lambda xp, t, i: nn.embedding(i % 5, t), "float64 5 3", "int64 n m", oracle=lambda xp, t, i: t[i % 5])


def test_one_hot(jnn: Any) -> None:
    def program(xp: Any, x: Any) -> Any:
        return nn.one_hot(x, 4), nn.one_hot(x, 3, axis=0, dtype="int32"), nn.one_hot(x, x.shape[0] + 1)

    def oracle(xp: Any, x: Array) -> Any:
        return (
            np.asarray(jnn.one_hot(x, 4)),
            np.asarray(jnn.one_hot(x, 3, axis=0, dtype="int32")),
            np.asarray(jnn.one_hot(x, x.shape[0] + 1)),
        )

    compare(program, "int64 n 2", oracle=oracle)


# ---- attention -------------------------------------------------------------------------------------------------------


def attention(q: Array, k: Array, v: Array, mask: Array | None = None, bias: Any = 0.0, causal: bool = False) -> Array:
    scores = np.einsum("btnh,bsnh->bnts", q, k) / np.sqrt(q.shape[-1]) + bias
    keep = np.ones(scores.shape, bool) if mask is None else np.broadcast_to(mask, scores.shape)
    if causal:
        keep = keep & np.tril(np.ones(scores.shape[-2:], bool))
    scores = np.where(keep, scores, -0.7 * np.finfo(scores.dtype).max)
    e = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    return np.einsum("bnts,bsnh->btnh", e / e.sum(-1, keepdims=True), v)


def test_attention() -> None:
    def program(xp: Any, q: Any, k: Any, v: Any, mask: Any, bias: Any) -> Any:
        return (
            nn.dot_product_attention(q, k, v),
            nn.dot_product_attention(q, k, v, mask=mask),
            nn.dot_product_attention(q, k, v, bias, is_causal=True),
            nn.dot_product_attention(q, k, v, bias, mask, is_causal=True),
        )

    def oracle(xp: Any, q: Array, k: Array, v: Array, mask: Array, bias: Array) -> Any:
        return (
            attention(q, k, v),
            attention(q, k, v, mask),
            attention(q, k, v, None, bias, True),
            attention(q, k, v, mask, bias, True),
        )

    specs = ("float64 b t 2 4", "float64 b s 2 4", "float64 b s 2 4", "bool b 1 t s", "float64 t s")
    compare(program, *specs, sizes=(0, 1, 3), oracle=oracle)


def test_attention_agrees_with_jax(jnn: Any) -> None:
    def draw(*shape: int) -> Array:
        return np.random.default_rng(0).normal(size=shape)

    q, k, v = draw(2, 5, 4, 8), draw(2, 3, 4, 8), draw(2, 3, 4, 8)
    mask = np.random.default_rng(1).random((2, 1, 5, 3)) < 0.6
    mask[0, 0, 2] = False
    bias = draw(4, 5, 3)
    options: list[dict[str, Any]] = [{}, {"is_causal": True}, {"scale": 0.3}]
    for option in options:
        traced = trace(
            lambda xp, q, k, v, m, b, o=option: nn.dot_product_attention(q, k, v, b, m, **o),
            "float64 b t 4 8", "float64 b s 4 8", "float64 b s 4 8", "bool b 1 t s", "float64 4 t s",
        )  # fmt: skip
        (actual,) = run(traced, [q, k, v, mask, bias])
        np.testing.assert_allclose(actual, jnn.dot_product_attention(q, k, v, bias, mask, **option), rtol=1e-5)


def test_heads_that_are_shared_and_missing_batches(jnn: Any) -> None:
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(2, 5, 6, 8)), rng.normal(size=(2, 3, 2, 8)), rng.normal(size=(2, 3, 2, 8))
    traced = trace(
        lambda xp, q, k, v: (nn.dot_product_attention(q, k, v), nn.dot_product_attention(q[0], k[0], v[0])),
        "float64 b t 6 8", "float64 b s 2 8", "float64 b s 2 8",
    )  # fmt: skip
    batched, single = run(traced, [q, k, v])
    np.testing.assert_allclose(batched, jnn.dot_product_attention(q, k, v), rtol=1e-5)
    np.testing.assert_allclose(single, jnn.dot_product_attention(q[0], k[0], v[0]), rtol=1e-5)


def test_width_that_is_symbolic() -> None:
    compare(
        lambda xp, q, k, v: nn.dot_product_attention(q, k, v),
        "float64 2 t 2 h", "float64 2 s 2 h", "float64 2 s 2 h",
        sizes=(1, 3),
        oracle=lambda xp, q, k, v: attention(q, k, v),
    )  # fmt: skip


# ---- precision of 16-bit floats --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    "function",
    [
        nn.gelu, partial(nn.gelu, approximate=False), nn.silu, nn.softplus, nn.log_sigmoid, nn.soft_sign,
        nn.hard_sigmoid, nn.hard_swish, nn.glu, nn.softmax, nn.log_softmax, nn.logsumexp,
    ],
)  # fmt: skip
def test_16_bit_floats_are_rounded_once(function: Callable[..., Any], dtype: str) -> None:
    """As what float32 gives is rounded: in a program, alone, and of a number beside one."""
    x = (np.random.default_rng(0).standard_normal((5, 34)) * 4).astype(dtypes.dtype(dtype).np)
    expected = np.asarray(dyn.jit(function)(x.astype(np.float32))).astype(x.dtype)
    for made in (dyn.jit(function)(x), function(x), dyn.jit(lambda x: function(x * 1.0))(x)):
        assert made.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(made).view(np.uint16), expected.view(np.uint16))
    slope = dyn.grad(lambda x: dnp.sum(function(x)))(x)
    assert (slope.dtype, slope.shape) == (x.dtype, x.shape)
