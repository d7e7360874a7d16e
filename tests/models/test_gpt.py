"""A GPT that generates with a growing cache of keys and values: one compile for every length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import nn

Array = np.ndarray[Any, Any]
LAYERS, HEADS, WIDTH, VOCABULARY = 2, 4, 16, 50
RNG = np.random.default_rng(3)


def weights(*shape: int) -> Array:
    return RNG.normal(0, 1 / np.sqrt(shape[0]), shape).astype(np.float32)


def parameters() -> dict[str, Any]:
    full = HEADS * WIDTH
    return {
        "tokens": weights(VOCABULARY, full),
        "layers": [
            {
                "norm1": weights(full), "norm2": weights(full), "q": weights(full, full), "k": weights(full, full),
                "v": weights(full, full), "out": weights(full, full), "up": weights(full, 2 * full),
                "gate": weights(full, 2 * full), "down": weights(2 * full, full),
            }
            for _ in range(LAYERS)
        ],
        "norm": weights(full),
    }  # fmt: skip


def step(params: dict[str, Any], tokens: Any, past: list[tuple[Any, Any]]) -> tuple[Any, list[tuple[Any, Any]]]:
    """Logits ``[b, t, vocabulary]`` of ``tokens [b, t]`` after ``past``, and the past after them: Llama's blocks."""
    x = nn.embedding(tokens, params["tokens"])
    b, t, full = x.shape
    before = past[0][0].shape[1]
    positions = before + dnp.arange(t)
    # Token i of these sees what was before, and these up to itself.
    mask = dnp.arange(before + t)[None, :] <= positions[:, None]
    cache: list[tuple[Any, Any]] = []
    for layer, (old_k, old_v) in zip(params["layers"], past, strict=True):
        h = nn.rms_norm(x, layer["norm1"])
        q, k, v = (dnp.reshape(h @ layer[name], (b, t, HEADS, WIDTH)) for name in "qkv")
        q, k = nn.rotary_embedding(q, positions), nn.rotary_embedding(k, positions)
        k, v = dnp.concatenate([old_k, k], axis=1), dnp.concatenate([old_v, v], axis=1)
        cache.append((k, v))
        mixed = nn.dot_product_attention(q, k, v, mask=mask[None, None])
        x = x + dnp.reshape(mixed, (b, t, full)) @ layer["out"]
        h = nn.rms_norm(x, layer["norm2"])
        x = x + (nn.silu(h @ layer["gate"]) * (h @ layer["up"])) @ layer["down"]
    return nn.rms_norm(x, params["norm"]) @ params["tokens"].T, cache


# ---- the same in NumPy -----------------------------------------------------------------------------------------------


def numpy_norm(x: Array, weight: Array) -> Array:
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-6) * weight


def numpy_rotate(x: Array, positions: Array) -> Array:
    half = x.shape[-1] // 2
    angles = positions[:, None] * 10_000.0 ** (-np.arange(half) / half)
    cosines, sines = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cosines - b * sines, b * cosines + a * sines], -1)


def numpy_step(params: dict[str, Any], tokens: Array, past: list[tuple[Array, Array]]) -> tuple[Array, list[Any]]:
    x = params["tokens"].astype(np.float64)[tokens]
    b, t, full = x.shape
    before = past[0][0].shape[1]
    positions = before + np.arange(t)
    cache: list[Any] = []
    for layer, (old_k, old_v) in zip(params["layers"], past, strict=True):
        h = numpy_norm(x, layer["norm1"])
        q, k, v = ((h @ layer[name]).reshape(b, t, HEADS, WIDTH) for name in "qkv")
        q, k = numpy_rotate(q, positions), numpy_rotate(k, positions)
        k, v = np.concatenate([old_k, k], 1), np.concatenate([old_v, v], 1)
        cache.append((k, v))
        scores = np.einsum("btnh,bsnh->bnts", q, k) / np.sqrt(WIDTH)
        scores = np.where(np.arange(before + t)[None, :] <= positions[:, None], scores, -np.inf)
        share = np.exp(scores - scores.max(-1, keepdims=True)) if scores.size else scores
        share = share / share.sum(-1, keepdims=True)
        x = x + np.einsum("bnts,bsnh->btnh", share, v).reshape(b, t, full) @ layer["out"]
        h = numpy_norm(x, layer["norm2"])
        gate = h @ layer["gate"]
        x = x + (gate / (1 + np.exp(-gate)) * (h @ layer["up"])) @ layer["down"]
    return numpy_norm(x, params["norm"]) @ params["tokens"].T, cache


# ---- agreement -------------------------------------------------------------------------------------------------------


def empty(batch: int, length: int = 0) -> list[tuple[Array, Array]]:
    def one() -> Array:
        return RNG.standard_normal((batch, length, HEADS, WIDTH)).astype(np.float32)

    return [(one(), one()) for _ in range(LAYERS)]


@pytest.mark.parametrize("captured", [False, True], ids=["parameters are arguments", "parameters are captured"])
def test_every_length_of_the_past_is_one_compile(captured: bool) -> None:
    params = parameters()
    if captured:
        run = dyn.jit(lambda tokens, past: step(params, tokens, past))
    else:
        inner = dyn.jit(step)
        run = inner
    for before in (0, 1, 2, 7, 64, 1000):
        for batch, t in ((1, 1), (2, 1), (1, 5), (0, 1), (2, 0)):
            tokens = RNG.integers(0, VOCABULARY, (batch, t))
            past = empty(batch, before)
            logits, cache = run(tokens, past) if captured else run(params, tokens, past)
            wanted, wanted_cache = numpy_step(params, tokens, past)
            np.testing.assert_allclose(logits, wanted, rtol=2e-4, atol=2e-4)
            for (k, v), (wanted_k, wanted_v) in zip(cache, wanted_cache, strict=True):
                np.testing.assert_allclose(k, wanted_k, rtol=1e-4, atol=1e-4)
                np.testing.assert_allclose(v, wanted_v, rtol=1e-4, atol=1e-4)
    assert run.cache_info().compiles == 1


def test_generating_is_the_same_as_seeing_all_at_once() -> None:
    """Token by token, the cache growing by one each time, against one call over all tokens."""
    params = parameters()
    run = dyn.jit(step)
    tokens = RNG.integers(0, VOCABULARY, (2, 40))
    whole, _ = run(params, tokens, empty(2))
    past, seen = empty(2), []
    for i in range(40):
        logits, past = run(params, tokens[:, i : i + 1], past)
        seen.append(logits)
    np.testing.assert_allclose(np.concatenate(seen, 1), whole, rtol=1e-4, atol=1e-4)
    assert past[0][0].shape == (2, 40, HEADS, WIDTH)
    assert run.cache_info().compiles == 1
