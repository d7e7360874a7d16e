"""Parts of transformers around their products: norms and rotations, masks and softmax, gates, losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.memory.arguments import arrays, labels, normal, rotary_arguments
from benchmarks.memory.program import EPSILON, Array, Program, TorchGradient
from benchmarks.memory.programs import rotary
from benchmarks.stitched.writing import forward, in_float64

HEADS = 4
#: Columns of the product behind a gate.
FEATURES = 256


def programs() -> Iterator[Program]:
    import jax
    import jax.numpy as jnp
    import torch
    import torch.nn.functional as F

    import dyn
    import dyn.numpy as dnp

    yield forward(
        "transformers", "rms_norm_rotary", "RMS norm and rotary embedding of (s, 12, 64)", _rotated, _rms_norm_rotary,
        lambda x, g, cos, sin: rotary(torch, F.rms_norm(x, (64,), g, EPSILON), cos, sin),
    )  # fmt: skip

    def by_lengths(lib: Any, nn: Any, x: Any, lengths: Any) -> Any:
        mask = lib.arange(x.shape[-1]) < lengths[:, None, None, None]
        return nn.softmax(lib.where(mask, x, -lib.inf))

    def causal(lib: Any, nn: Any, x: Any) -> Any:
        mask = lib.tril(lib.ones(x.shape[-2:], bool))
        return nn.softmax(lib.where(mask, x, -lib.inf))

    def gated(lib: Any, nn: Any, a: Any, b: Any, w: Any) -> Any:
        return (nn.silu(a) * b) @ w

    def loss(lib: Any, nn: Any, x: Any, i: Any) -> Any:
        return -lib.mean(lib.take_along_axis(nn.log_softmax(x), i[:, None], axis=-1))

    def forms(written: Callable[..., Any]) -> dict[str, Any]:
        return {
            "dyn": lambda *arguments: written(dnp, dyn.nn, *arguments),
            "jax": lambda *arguments: written(jnp, jax.nn, *arguments),
            "numpy": lambda *arguments: written(np, _NumpyNN, *arguments),
        }

    def torch_by_lengths(x: Any, lengths: Any) -> Any:
        mask = torch.arange(x.shape[-1]) < lengths[:, None, None, None]
        return torch.softmax(x.masked_fill(~mask, -torch.inf), -1)

    def torch_causal(x: Any) -> Any:
        mask = torch.ones(x.shape[-2:], dtype=torch.bool).tril()
        return torch.softmax(x.masked_fill(~mask, -torch.inf), -1)

    def add(name: str, what: str, make: Any, written: Callable[..., Any], torch_form: Any, family: str) -> Program:
        return forward(family, name, what, make, written, torch_form, **forms(written))

    yield add(
        "softmax_by_lengths", "softmax of scores up to lengths", _scores_and_lengths, by_lengths, torch_by_lengths,
        "transformers",
    )  # fmt: skip
    yield add("softmax_causal", "softmax of scores below the diagonal", _scores, causal, torch_causal, "transformers")
    yield add("swiglu_product", "(silu(a) * b) @ w", _gated, gated, lambda a, b, w: (F.silu(a) * b) @ w, "transformers")
    yield add("cross_entropy", "mean cross-entropy with labels", labels, loss, F.cross_entropy, "losses")
    written = forms(loss)
    yield Program(
        "cross_entropy_backward", "gradient of the mean cross-entropy by its scores", labels,
        numpy=in_float64(_loss_gradient), dyn=lambda *arguments: (dyn.grad(written["dyn"])(*arguments),),
        jax=lambda *arguments: (jax.grad(written["jax"])(*arguments),),
        torch=TorchGradient(F.cross_entropy, 1, cotangent=False), family="losses",
    )  # fmt: skip


class _NumpyNN:
    """NumPy's forms of what other libraries have in ``nn``."""

    @staticmethod
    def softmax(x: Array) -> Array:
        e = np.exp(x - np.max(x, -1, keepdims=True))
        return e / np.sum(e, -1, keepdims=True)

    @staticmethod
    def log_softmax(x: Array) -> Array:
        d = x - np.max(x, -1, keepdims=True)
        return d - np.log(np.sum(np.exp(d), -1, keepdims=True))

    @staticmethod
    def silu(x: Array) -> Array:
        return x / (1 + np.exp(-x))


def _rms_norm_rotary(lib: Any, x: Any, g: Any, cos: Any, sin: Any) -> Any:
    standard = x / lib.sqrt(lib.mean(x * x, axis=-1, keepdims=True) + EPSILON)
    return rotary(lib, standard * g, cos, sin)


def _loss_gradient(x: Array, i: Array) -> tuple[Array]:
    chances = _NumpyNN.softmax(x)
    chances[np.arange(len(i)), i] -= 1
    return (chances / len(i),)


# ---- arguments -------------------------------------------------------------------------------------------------------


def _rotated(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, ...]:
    x, cos, sin = rotary_arguments(rng, rows, columns)
    return x, normal(rng, 64), cos, sin


def _scores(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, ...]:
    """``[batch, heads, length, length]``"""
    total = rows * columns
    length = 16 if total < 10**4 else 32 if total < 10**5 else 64 if total < 10**6 else 256
    return (normal(rng, max(total // (HEADS * length * length), 1), HEADS, length, length),)


def _scores_and_lengths(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, ...]:
    (scores,) = _scores(rng, rows, columns)
    batch, *_, length = scores.shape
    return scores, rng.integers(1, length + 1, batch)


def _gated(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, ...]:
    return *arrays("rc", "rc")(rng, rows, columns), normal(rng, columns, FEATURES)
