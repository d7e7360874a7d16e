"""Functions of arrays, for transformations to be held to JAX's: written once, on the names of either library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

import dyn.nn
import dyn.numpy as dnp
from dyn.numpy._indexing.getitem import scatter_update
from dyn.numpy._operands import emit

Array = Any
NHWC, NCHW = ("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW")


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def places(count: int, *shape: int, seed: int = 0) -> Array:
    """Integers that are places among ``count``, from either end."""
    return np.random.default_rng(seed).integers(-count, max(count, 1), shape).astype(np.int32)


@dataclass(frozen=True)
class Library:
    """What the cases use of a library, under one set of names."""

    np: Any
    nn: Any

    def at(self, x: Array, index: Any, updates: Array, combine: str) -> Array: ...

    def dynamic_slice(self, x: Array, starts: tuple[Any, ...], sizes: tuple[int, ...]) -> Array: ...

    def dynamic_update_slice(self, x: Array, update: Array, starts: tuple[Any, ...]) -> Array: ...


class Mine(Library):
    def __init__(self) -> None:
        super().__init__(dnp, dyn.nn)

    def at(self, x: Array, index: Any, updates: Array, combine: str) -> Array:
        return scatter_update(x, index, updates, combine)

    def dynamic_slice(self, x: Array, starts: tuple[Any, ...], sizes: tuple[int, ...]) -> Array:
        return emit("dynamic_slice", x, *starts, slice_sizes=sizes)

    def dynamic_update_slice(self, x: Array, update: Array, starts: tuple[Any, ...]) -> Array:
        return emit("dynamic_update_slice", x, update, *starts)


class JaxLayers:
    """Layers written with JAX as dyn.nn has them."""

    def __init__(self, jax: ModuleType) -> None:
        self.jax, self.np, self.lax = jax, jax.numpy, jax.lax
        self.softmax, self.log_softmax = jax.nn.softmax, jax.nn.log_softmax
        self.logsumexp, self.gelu = jax.nn.logsumexp, jax.nn.gelu

    def conv(self, x: Array, w: Array, window_strides: int = 1, **options: Any) -> Array:
        return self.lax.conv_general_dilated(x, w, (window_strides,) * 2, **options)

    def _pool(self, x: Array, window: int, stride: int, padding: str, start: float, combine: Any) -> Array:
        return self.lax.reduce_window(x, start, combine, (1, window, window, 1), (1, stride, stride, 1), padding)

    def max_pool(self, x: Array, window: int, strides: int, padding: str = "VALID") -> Array:
        return self._pool(x, window, strides, padding, -np.inf, self.lax.max)

    def min_pool(self, x: Array, window: int, strides: int, padding: str = "VALID") -> Array:
        return self._pool(x, window, strides, padding, np.inf, self.lax.min)

    def avg_pool(self, x: Array, window: int, strides: int, padding: str = "VALID") -> Array:
        return self._pool(x, window, strides, padding, 0.0, self.lax.add) / window**2

    def layer_norm(self, x: Array, weight: Array, bias: Array) -> Array:
        mean, variance = self.np.mean(x, -1, keepdims=True), self.np.var(x, -1, keepdims=True)
        return (x - mean) / self.np.sqrt(variance + 1e-5) * weight + bias

    def rms_norm(self, x: Array, weight: Array) -> Array:
        return x / self.np.sqrt(self.np.mean(x * x, -1, keepdims=True) + 1e-6) * weight

    def embedding(self, ids: Array, table: Array) -> Array:
        return table[ids]

    def softmax_cross_entropy_with_integer_labels(self, logits: Array, labels: Array) -> Array:
        return -self.np.take_along_axis(self.log_softmax(logits), labels[:, None], 1)[:, 0]

    def dot_product_attention(self, q: Array, k: Array, v: Array, *, is_causal: bool = False) -> Array:
        """Of ``[batch, length, heads, width]``."""
        scores = self.np.einsum("bqhd,bkhd->bhqk", q, k) / np.float32(np.sqrt(q.shape[-1]))
        if is_causal:
            scores = self.np.where(self.np.tril(self.np.ones(scores.shape[-2:], bool)), scores, -np.inf)
        return self.np.einsum("bhqk,bkhd->bqhd", self.softmax(scores, -1), v)


class Theirs(Library):
    def __init__(self, jax: ModuleType) -> None:
        super().__init__(jax.numpy, JaxLayers(jax))

    def at(self, x: Array, index: Any, updates: Array, combine: str) -> Array:
        names = {"replace": "set", "maximum": "max", "minimum": "min"}
        return getattr(self.np.asarray(x).at[index], names.get(combine, combine))(updates, **self._unique(combine))

    def _unique(self, combine: str) -> dict[str, bool]:
        return {"unique_indices": True} if combine == "multiply" else {}

    def dynamic_slice(self, x: Array, starts: tuple[Any, ...], sizes: tuple[int, ...]) -> Array:
        return self.nn.lax.dynamic_slice(x, starts, sizes)

    def dynamic_update_slice(self, x: Array, update: Array, starts: tuple[Any, ...]) -> Array:
        return self.nn.lax.dynamic_update_slice(x, update, starts)


@dataclass(frozen=True)
class Case:
    """``body(library, *args)`` of what ``make(n)`` gives, for every n of ``sizes``; floats stand first."""

    body: Callable[..., Any]
    make: Callable[[int], tuple[Any, ...]]
    sizes: tuple[int, ...] = (1, 2, 7, 64)

    def smooth(self) -> int:
        """How many arguments there are to differentiate by."""
        return sum(x.dtype == np.float32 for x in self.make(self.sizes[-1]))


ALL = (0, 1, 2, 7, 64)


def _square(n: int) -> tuple[Array]:
    return (floats(n, n + 3),)


def _halves(lib: Library, x: Array) -> Array:
    left, right = lib.np.split(x, 2, axis=1)
    return left * lib.np.sin(right)


INDEXING = {
    "by_numbers": Case(lambda lib, x, i: x[i] * x[0], lambda n: (floats(n, 3), places(n, n))),
    "by_no_numbers": Case(lambda lib, x, i: x[i], lambda n: (floats(n, 3), places(n, n)), ALL),
    "by_slices": Case(lambda lib, x: x[:, 1:] + x[:, :-1], _square, ALL),
    "by_steps": Case(lambda lib, x: x[::-2, ::3], _square, ALL),
    "by_both": Case(lambda lib, x, i: x[1:, i][..., None], lambda n: (floats(n, 5), places(5, n, 2)), ALL),
    "by_two": Case(
        lambda lib, x, i, j: x[i, j] * x[-1, 1:2],
        lambda n: (floats(n, 5), places(n, 4), places(5, 4, seed=1)),
    ),
    "by_one": Case(lambda lib, x, i: x[:, i] + x[i % 3].sum(), lambda n: (floats(n + 2, 4), np.asarray(-1, np.int32))),
    "take": Case(lambda lib, x, i: lib.np.take(x, i, axis=1), lambda n: (floats(2, n), places(n, 3, n))),
    "take_along_axis": Case(
        lambda lib, x, i: lib.np.take_along_axis(x, i, axis=0), lambda n: (floats(n, 3), places(n, 5, 3))
    ),
    "diagonal": Case(lambda lib, x: lib.np.diagonal(x, 1), _square, ALL),
    "dynamic_slice": Case(
        lambda lib, x, i, j: lib.dynamic_slice(x, (i, j), (1, 2)),
        lambda n: (floats(n, 3), np.asarray(n // 2, np.int32), np.asarray(7, np.int32)),
    ),
    "dynamic_update_slice": Case(
        lambda lib, x, u, i, j: lib.dynamic_update_slice(x, u, (i, j)),
        lambda n: (floats(n, 3), floats(1, 2, seed=1), np.asarray(n // 2, np.int32), np.asarray(-7, np.int32)),
    ),
    "at_set": Case(
        lambda lib, x, u, i: lib.at(x, i, u, "replace"),
        lambda n: (floats(n, 3), floats(5, 3, seed=1), np.arange(5) % 4),
    ),
    "at_set_column": Case(
        lambda lib, x, u, i: lib.at(x, (slice(1, None), i), u, "replace"),
        lambda n: (floats(n, 3), floats(4, seed=1), places(3, 4)[:1].repeat(4)),
    ),
    "at_add": Case(
        lambda lib, x, u, i: lib.at(x, i, u, "add"), lambda n: (floats(n, 3), floats(n, 3, seed=1), places(n, n)), ALL
    ),
    "at_multiply": Case(
        lambda lib, x, u, i: lib.at(x, i, u, "multiply"),
        lambda n: (floats(n, 3), floats(n, 3, seed=1), np.random.default_rng(0).permutation(n)),
    ),
    "at_max": Case(
        lambda lib, x, u, i: lib.at(x, i, u, "maximum"), lambda n: (floats(n, 3), floats(n, 3, seed=1), places(n, n))
    ),
}

REARRANGING = {
    "concatenate": Case(
        lambda lib, x, y: lib.np.concatenate([x, y * 2, x]), lambda n: (floats(n, 3), floats(2, 3, seed=1)), ALL
    ),
    "stack": Case(lambda lib, x, y: lib.np.stack([x, y], axis=1), lambda n: (floats(n, 3), floats(n, 3, seed=1)), ALL),
    "split": Case(_halves, lambda n: (floats(n, 6),), ALL),
    "pad": Case(lambda lib, x: lib.np.pad(x, ((1, 2), (0, 3)), constant_values=2.0), _square, ALL),
    "pad_edges": Case(lambda lib, x: lib.np.pad(x, 1, mode="edge"), _square),
    "roll": Case(lambda lib, x: lib.np.roll(x, 2, axis=0) * x, _square),
    "where": Case(lambda lib, x, y: lib.np.where(x > 0, x * y, y), lambda n: (floats(n, 3), floats(3, seed=1)), ALL),
    "repeat": Case(lambda lib, x: lib.np.repeat(x, 3, axis=0), _square, ALL),
    "tril": Case(lambda lib, x: lib.np.tril(x, 1), _square, ALL),
    "tile": Case(lambda lib, x: lib.np.tile(x, (2, 3)), _square, ALL),
}

ORDERING = {
    "sort": Case(lambda lib, x: lib.np.sort(x, axis=0), _square),
    "sort_rows": Case(lambda lib, x: lib.np.sort(x, axis=1), _square, ALL),
    "cumsum": Case(lambda lib, x: lib.np.cumsum(x, axis=0), _square, ALL),
    "cumprod": Case(lambda lib, x: lib.np.cumprod(lib.np.tanh(x) + 1.1, axis=1), lambda n: (floats(n, 6),), ALL),
    "cumprod_zeros": Case(
        lambda lib, x: lib.np.cumprod(x * (lib.np.abs(x) > 0.3), axis=0), lambda n: (floats(n, 3, seed=3),)
    ),
    "max": Case(lambda lib, x: lib.np.max(x, axis=0) - lib.np.min(x, axis=1).sum(), _square),
    "prod": Case(lambda lib, x: lib.np.prod(x * (lib.np.abs(x) > 0.3), axis=1), lambda n: (floats(n, 4),), ALL),
    "std": Case(lambda lib, x: lib.np.std(x, axis=1) + lib.np.var(x, axis=1), _square),
    "norm": Case(lambda lib, x: lib.np.sqrt(lib.np.sum(x * x, axis=1)), _square),
}


def _image(n: int, channels: int = 3, batch: int = 2) -> Array:
    return floats(batch, n, 5, channels)


LAYERS = {
    "conv": Case(
        lambda lib, x, w: lib.nn.conv(x, w, padding="SAME", dimension_numbers=NHWC),
        lambda n: (_image(n), floats(3, 2, 3, 4, seed=1)),
    ),
    "conv_strides": Case(
        lambda lib, x, w: lib.nn.conv(x, w, window_strides=2, padding=((1, 1), (2, 0)), dimension_numbers=NCHW),
        lambda n: (floats(2, 3, n, 5), floats(4, 3, 2, 3, seed=1)),
    ),
    "conv_groups": Case(
        lambda lib, x, w: lib.nn.conv(
            x, w, padding="SAME", feature_group_count=2, rhs_dilation=(2, 1), dimension_numbers=NHWC
        ),
        lambda n: (_image(n, 4), floats(2, 2, 2, 6, seed=1)),
    ),
    "max_pool": Case(lambda lib, x: lib.nn.max_pool(x, 2, 2), lambda n: (_image(n + 1),)),
    "max_pool_overlaps": Case(lambda lib, x: lib.nn.max_pool(x, 3, 2, "SAME"), lambda n: (_image(n),)),
    "min_pool": Case(lambda lib, x: lib.nn.min_pool(x, 3, 1, "SAME"), lambda n: (_image(n),)),
    "avg_pool": Case(lambda lib, x: lib.nn.avg_pool(x, 3, 2, "SAME"), lambda n: (_image(n),)),
    "layer_norm": Case(
        lambda lib, x, w, v: lib.nn.layer_norm(x, w, v),
        lambda n: (floats(n, 6), floats(6, seed=1), floats(6, seed=2)),
        ALL,
    ),
    "rms_norm": Case(lambda lib, x, w: lib.nn.rms_norm(x, w), lambda n: (floats(n, 6), floats(6, seed=1)), ALL),
    "softmax": Case(lambda lib, x: lib.nn.softmax(x) + lib.nn.softmax(x, axis=0), _square),
    "log_softmax": Case(lambda lib, x: lib.nn.log_softmax(x), _square, ALL),
    "logsumexp": Case(lambda lib, x: lib.nn.logsumexp(x, axis=1), _square),
    "cross_entropy": Case(
        lambda lib, x, i: lib.nn.softmax_cross_entropy_with_integer_labels(x, i),
        lambda n: (floats(n, 6), places(6, n) % 6),
        ALL,
    ),
    "embedding": Case(lambda lib, w, i: lib.nn.embedding(i, w), lambda n: (floats(6, 4), places(6, n, 2) % 6), ALL),
    "attention": Case(
        lambda lib, q, k, v: lib.nn.dot_product_attention(q, k, v, is_causal=True),
        lambda n: (floats(2, n, 2, 4), floats(2, n, 2, 4, seed=1), floats(2, n, 2, 4, seed=2)),
    ),
}

CASES = {**INDEXING, **REARRANGING, **ORDERING, **LAYERS}
