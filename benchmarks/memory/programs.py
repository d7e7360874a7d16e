"""The memory-bound programs, by name. Those that all array libraries write alike are written once, over a namespace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.memory.arguments import arrays, labels, normal, rotary_arguments
from benchmarks.memory.program import EPSILON, Array, Function, Make, Program, over


def programs() -> dict[str, Program]:
    """All programs. Imports the libraries."""
    import jax
    import jax.numpy as jnp
    import torch
    import torch.nn.functional as F
    from scipy import special

    import dyn
    import dyn.numpy as dnp

    found: dict[str, Program] = {}

    def add(name: str, what: str, make: Make, plain: Callable[..., Any], torch_form: Function, **other: Any) -> None:
        """``plain`` takes a namespace first; ``numpy``, ``dyn`` and ``jax`` in ``other`` replace it for a library."""
        forms: dict[str, Function] = {}
        for who, namespace in (("numpy", np), ("dyn", dnp), ("jax", jnp)):
            forms[who] = other.pop(who, None) or over(plain, namespace)
        found[name] = Program(name, what, make, torch=torch_form, **forms, **other)

    # ---- rows: normalisations and what surrounds them ----------------------------------------------------------------

    def layer_norm(lib: Any, x: Any, g: Any, b: Any) -> Any:
        d = x - lib.mean(x, axis=-1, keepdims=True)
        return d / lib.sqrt(lib.mean(d * d, axis=-1, keepdims=True) + EPSILON) * g + b

    def softmax(lib: Any, x: Any) -> Any:
        e = lib.exp(x - lib.max(x, axis=-1, keepdims=True))
        return e / lib.sum(e, axis=-1, keepdims=True)

    def gelu(lib: Any, x: Any) -> Any:
        return 0.5 * x * (1 + lib.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    def logsumexp(lib: Any, x: Any) -> Any:
        most = lib.max(x, axis=-1, keepdims=True)
        return lib.log(lib.sum(lib.exp(x - most), axis=-1)) + most[..., 0]

    def torch_gelu(x: Any) -> Any:
        return F.gelu(x, approximate="tanh")

    def torch_norm(x: Any, g: Any, b: Any) -> Any:
        return F.layer_norm(x, (x.shape[-1],), g, b, EPSILON)

    add("layer_norm", "layer norm with scale and shift", arrays("rc", "c", "c"), layer_norm, torch_norm)
    add("softmax", "softmax of rows", arrays("rc"), softmax, lambda x: torch.softmax(x, -1))
    add("softmax_vocabulary", "softmax of one row", arrays("1n"), softmax, lambda x: torch.softmax(x, -1))
    add(
        "rms_norm", "RMS norm with scale", arrays("rc", "c"),
        lambda lib, x, g: x / lib.sqrt(lib.mean(x * x, axis=-1, keepdims=True) + EPSILON) * g,
        lambda x, g: F.rms_norm(x, (x.shape[-1],), g, EPSILON),
    )  # fmt: skip
    add("logsumexp", "log-sum-exp of rows", arrays("rc"), logsumexp, lambda x: torch.logsumexp(x, -1))
    add(
        "cross_entropy", "mean cross-entropy with labels", labels,
        lambda lib, x, i: lib.mean(logsumexp(lib, x) - lib.take_along_axis(x, i[:, None], axis=-1)[:, 0]),
        F.cross_entropy,
    )  # fmt: skip
    add(
        "bias_residual_layer_norm", "layer norm of x + b + r", arrays("rc", "c", "rc", "c", "c"),
        lambda lib, x, b, r, g, s: layer_norm(lib, x + b + r, g, s), lambda x, b, r, g, s: torch_norm(x + b + r, g, s),
    )  # fmt: skip
    add("argmax", "argmax of rows", arrays("rc"), lambda lib, x: lib.argmax(x, axis=-1), lambda x: x.argmax(-1))
    add(
        "group_norm", "group norm, 8 groups of 4 channels of 96 places", _channels(32, 96, 2), _group_norm,
        lambda x, g, b: F.group_norm(x, 8, g, b, EPSILON),
    )  # fmt: skip

    # ---- elementwise and broadcasts ----------------------------------------------------------------------------------

    add(
        "bias_gelu",
        "gelu(x + b)",
        arrays("rc", "c"),
        lambda lib, x, b: gelu(lib, x + b),
        lambda x, b: torch_gelu(x + b),
    )
    add(
        "gelu_bias_residual", "gelu(x + b[1, m]) + r", arrays("rc", "1c", "rc"),
        lambda lib, x, b, r: gelu(lib, x + b) + r, lambda x, b, r: torch_gelu(x + b) + r,
    )  # fmt: skip
    add("row_bias", "x + b[1, m]", arrays("rc", "1c"), lambda lib, x, b: x + b, lambda x, b: x + b)
    add("column_scale", "x * c[n, 1]", arrays("rc", "r1"), lambda lib, x, c: x * c, lambda x, c: x * c)
    add(
        "swiglu", "silu(a) * b", arrays("rc", "rc"), lambda lib, a, b: a / (1 + lib.exp(-a)) * b,
        lambda a, b: F.silu(a) * b,
    )  # fmt: skip
    add("rotary", "rotary embedding of (s, 12, 64)", rotary_arguments, rotary, lambda *x: rotary(torch, *x))
    add("adam", "Adam's update of n numbers", adam_arguments, adam, lambda *x: adam(torch, *x))
    add(
        "black_scholes", "call prices of n options", _options, lambda lib, *x: _black_scholes(lib, dyn.lax.erf, *x),
        lambda *x: _black_scholes(torch, torch.erf, *x), numpy=lambda *x: _black_scholes(np, special.erf, *x),
        jax=lambda *x: _black_scholes(jnp, jax.lax.erf, *x),
    )  # fmt: skip
    add(
        "batch_norm_inference", "batch norm with given statistics, 16 channels", _channels(16, 256, 4),
        lambda lib, x, m, v, g, b: (x - m[:, None]) / lib.sqrt(v[:, None] ** 2 + EPSILON) * g[:, None] + b[:, None],
        lambda x, m, v, g, b: F.batch_norm(x, m, v * v, g, b, False, 0.0, EPSILON),
    )  # fmt: skip
    add(
        "dropout", "dropout of a tenth", arrays("rc"), lambda lib, x: x, lambda x: F.dropout(x, 0.1),
        numpy=_numpy_dropout(),
        dyn=lambda x: dnp.where(dyn.random.bernoulli(dyn.random.key(0), 0.9, x.shape), x / 0.9, 0.0),
        jax=lambda x: jnp.where(jax.random.bernoulli(jax.random.key(0), 0.9, x.shape), x / 0.9, 0.0), own_numbers=True,
    )  # fmt: skip
    add(
        "transposed_argument", "2 m.T + 1, m.T given", lambda rng, r, c: (normal(rng, c, r).T,),
        lambda lib, x: x * 2 + 1, lambda x: x * 2 + 1,
    )  # fmt: skip
    add(
        "stencil", "five points", arrays("rc"),
        lambda lib, x: 0.5 * x[1:-1, 1:-1] + 0.125 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]),
        lambda x: 0.5 * x[1:-1, 1:-1] + 0.125 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]),
    )  # fmt: skip

    # ---- reductions --------------------------------------------------------------------------------------------------

    add("sum_all", "sum of everything", arrays("rc"), lambda lib, x: lib.sum(x), torch.sum)
    add(
        "sum_of_product",
        "sum(x * y)",
        arrays("rc", "rc"),
        lambda lib, x, y: lib.sum(x * y),
        lambda x, y: (x * y).sum(),
    )
    add("column_sums", "sums of columns", arrays("rc"), lambda lib, x: lib.sum(x, axis=0), lambda x: x.sum(0))
    add(
        "few_columns", "sums of 8 long columns", lambda rng, r, c: (normal(rng, r * c // 8, 8),),
        lambda lib, x: lib.sum(x, axis=0), lambda x: x.sum(0),
    )  # fmt: skip
    add(
        "long_column", "sum of a column [n, 1]", lambda rng, r, c: (normal(rng, r * c, 1),),
        lambda lib, x: lib.sum(x, axis=0), lambda x: x.sum(0),
    )  # fmt: skip
    add(
        "batch_norm_statistics", "mean and variance of 16 channels", _channels(16, 256, 0),
        lambda lib, x: (lib.mean(x, axis=(0, 2)), lib.var(x, axis=(0, 2))),
        lambda x: torch.var_mean(x, (0, 2), correction=0)[::-1],
    )  # fmt: skip
    add("vector_dot", "x @ y of vectors", arrays("n", "n"), lambda lib, x, y: x @ y, lambda x, y: x @ y, tolerance=2e-3)
    add(
        "small_gram", "x.T @ y of [n, 16]",
        lambda rng, r, c: (normal(rng, r * c // 16, 16), normal(rng, r * c // 16, 16)),
        lambda lib, x, y: x.T @ y, lambda x, y: x.T @ y,
    )  # fmt: skip

    # ---- moves -------------------------------------------------------------------------------------------------------

    add("transpose", "x.T", arrays("rc"), lambda lib, x: x.T, lambda x: x.T.contiguous(), numpy=lambda x: x.T.copy())
    add(
        "strided_slices", "x[:, ::2]", arrays("rc"), lambda lib, x: x[:, ::2], lambda x: x[:, ::2].contiguous(),
        numpy=lambda x: x[:, ::2].copy(),
    )  # fmt: skip
    add(
        "pad",
        "pad by 1 to 3",
        arrays("rc"),
        lambda lib, x: lib.pad(x, ((1, 1), (2, 3))),
        lambda x: F.pad(x, (2, 3, 1, 1)),
    )
    add("roll", "roll of rows by 5", arrays("rc"), lambda lib, x: lib.roll(x, 5, axis=-1), lambda x: x.roll(5, -1))
    add("concat_2", "two arrays, side by side", arrays("rc", "rc"), *_joined(torch, 1))
    add(
        "concat_64",
        "64 pieces",
        lambda rng, r, c: tuple(normal(rng, r * c // 64) for _ in range(64)),
        *_joined(torch, 0),
    )
    add("gather", "rows by index", _rows(1), lambda lib, x, i: x[i], lambda x, i: x[i])
    add(
        "embedding_sum", "sums of 8 rows by index", _rows(8), lambda lib, x, i: lib.sum(x[i], axis=1),
        lambda x, i: F.embedding_bag(i, x, mode="sum"),
    )  # fmt: skip
    add(
        "narrow_scatter", "rows of 2 added to 64 places", _narrow,
        lambda lib, x, i: lib.zeros((64, 2), x.dtype).at[i].add(x),
        lambda x, i: torch.zeros(64, 2).index_add_(0, i, x), numpy=_numpy_scatter, tolerance=2e-3,
    )  # fmt: skip
    add(
        "histogram", "counts of 256 integers", lambda rng, r, c: (rng.integers(0, 256, r * c),),
        lambda lib, x: lib.bincount(x, length=256), lambda x: torch.bincount(x, minlength=256),
        numpy=lambda x: np.bincount(x, minlength=256),
    )  # fmt: skip

    # ---- in order ----------------------------------------------------------------------------------------------------

    add("cumsum", "running sum of n", arrays("n"), lambda lib, x: lib.cumsum(x), lambda x: x.cumsum(0), tolerance=2e-3)
    add(
        "cumsum_rows",
        "running sums along rows",
        arrays("rc"),
        lambda lib, x: lib.cumsum(x, axis=1),
        lambda x: x.cumsum(1),
    )
    add(
        "cumsum_columns", "running sums along columns", arrays("rc"), lambda lib, x: lib.cumsum(x, axis=0),
        lambda x: x.cumsum(0),
    )  # fmt: skip
    add(
        "sort_1000", "rows of 1000, sorted", lambda rng, r, c: (normal(rng, max(r * c // 1000, 1), 1000),),
        lambda lib, x: lib.sort(x, axis=-1), lambda x: torch.sort(x, -1)[0],
    )  # fmt: skip
    add(
        "depthwise_convolution", "3 x 3 windows of 64 channels", _image, lambda lib, x, w: x,
        lambda x, w: F.conv2d(x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1, groups=64).permute(0, 2, 3, 1),
        numpy=_numpy_depthwise, dyn=_depthwise(dyn.nn.conv), jax=_depthwise(jax.lax.conv_general_dilated),
    )  # fmt: skip
    return found


# ---- arguments -------------------------------------------------------------------------------------------------------


def _channels(channels: int, places: int, vectors: int) -> Make:
    """``[batch, channels, places]``, and vectors of the channels."""

    def make(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, ...]:
        batch = max(rows * columns // (channels * places), 1)
        return (normal(rng, batch, channels, places), *[normal(rng, channels) for _ in range(vectors)])

    return make


def _rows(several: int) -> Make:
    def make(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, ...]:
        shape = (rows,) if several == 1 else (max(rows // several, 1), several)
        return normal(rng, rows, columns), rng.integers(0, rows, shape)

    return make


def _narrow(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, ...]:
    return normal(rng, rows * columns // 2, 2), rng.integers(0, 64, rows * columns // 2)


def adam_arguments(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, ...]:
    p, g, m, v = (normal(rng, rows * columns) for _ in range(4))
    return p, g, m, np.abs(v)


def _options(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, ...]:
    return tuple(rng.uniform(low, high, rows * columns).astype("f4") for low, high in ((50, 150), (50, 150), (0.1, 2)))


def _image(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, ...]:
    side = max(round((rows * columns / 64) ** 0.5), 1)
    return normal(rng, 1, side, side, 64), normal(rng, 3, 3, 1, 64)


# ---- longer programs -------------------------------------------------------------------------------------------------


def _group_norm(lib: Any, x: Any, g: Any, b: Any) -> Any:
    grouped = lib.reshape(x, (x.shape[0], 8, 4 * x.shape[2]))
    d = grouped - lib.mean(grouped, axis=-1, keepdims=True)
    standard = d / lib.sqrt(lib.mean(d * d, axis=-1, keepdims=True) + EPSILON)
    return lib.reshape(standard, x.shape) * g[:, None] + b[:, None]


def rotary(lib: Any, x: Any, cos: Any, sin: Any) -> Any:
    first, second = x[..., :32], x[..., 32:]
    return lib.concatenate([first * cos - second * sin, second * cos + first * sin], -1)


def adam(lib: Any, p: Any, g: Any, m: Any, v: Any) -> Any:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - 0.001 * (m / 0.1) / (lib.sqrt(v / 0.001) + 1e-8), m, v


def _black_scholes(lib: Any, erf: Function, price: Any, strike: Any, years: Any) -> Any:
    spread = 0.2 * lib.sqrt(years)
    d1 = (lib.log(price / strike) + (0.03 + 0.02) * years) / spread

    def cumulative(x: Any) -> Any:
        return 0.5 * (1 + erf(x * 0.70710678))

    return price * cumulative(d1) - strike * lib.exp(-0.03 * years) * cumulative(d1 - spread)


def _joined(torch: Any, axis: int) -> tuple[Function, Function]:
    return lambda lib, *parts: lib.concatenate(parts, axis=axis), lambda *parts: torch.cat(parts, axis)


def _depthwise(conv: Function) -> Function:
    numbers = ("NHWC", "HWIO", "NHWC")
    return lambda x, w: conv(x, w, (1, 1), "SAME", dimension_numbers=numbers, feature_group_count=64)


def _numpy_depthwise(x: Array, w: Array) -> Array:
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = x.shape[1:3]
    total = np.zeros_like(x)
    for i in range(3):
        for j in range(3):
            total += padded[:, i : i + height, j : j + width] * w[i, j, 0]
    return total


def _numpy_scatter(x: Array, i: Array) -> Array:
    total = np.zeros((64, 2), x.dtype)
    np.add.at(total, i, x)
    return total


def _numpy_dropout() -> Function:
    rng = np.random.default_rng(0)
    return lambda x: np.where(rng.random(x.shape, "f4") < 0.9, x / np.float32(0.9), np.float32(0))
