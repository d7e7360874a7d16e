"""A convolutional classifier whose layers are dataclasses registered as pytrees, as Equinox and Flax have them.

Images come in batches of any size, of any height and width.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


@partial(jax.tree_util.register_dataclass, data_fields=["kernel", "bias"], meta_fields=["stride"])
@dataclass
class Conv:
    """A convolution, ``SAME`` padding, images as ``(batch, height, width, channels)``."""

    kernel: Any
    bias: Any
    stride: int

    def __call__(self, x: jax.Array) -> jax.Array:
        layout = ("NHWC", "HWIO", "NHWC")
        strides = (self.stride, self.stride)
        return lax.conv_general_dilated(x, self.kernel, strides, "SAME", dimension_numbers=layout) + self.bias


@partial(jax.tree_util.register_dataclass, data_fields=["scale", "bias"], meta_fields=["groups"])
@dataclass
class GroupNorm:
    scale: Any
    bias: Any
    groups: int

    def __call__(self, x: jax.Array) -> jax.Array:
        split = x.reshape(*x.shape[:3], self.groups, -1)
        mean = split.mean((1, 2, 4), keepdims=True)
        variance = split.var((1, 2, 4), keepdims=True)
        return ((split - mean) * lax.rsqrt(variance + 1e-5)).reshape(x.shape) * self.scale + self.bias


@partial(jax.tree_util.register_dataclass, data_fields=["first", "norm", "second", "shortcut"], meta_fields=[])
@dataclass
class Block:
    """Two convolutions and a way around them."""

    first: Conv
    norm: GroupNorm
    second: Conv
    shortcut: Conv

    def __call__(self, x: jax.Array) -> jax.Array:
        inner = jax.nn.relu(self.norm(self.first(x)))
        return jax.nn.relu(self.second(inner) + self.shortcut(x))


def conv(key: jax.Array, size: int, into: int, out: int, stride: int = 1) -> Conv:
    kernel = jax.random.normal(key, (size, size, into, out)) / np.sqrt(size * size * into)
    return Conv(kernel, jnp.zeros(out), stride)


def init(seed: int = 0, widths: tuple[int, ...] = (8, 16, 32), classes: int = 10) -> dict[str, Any]:
    keys = iter(jax.random.split(jax.random.key(seed), 3 * len(widths) + 2))
    stem = conv(next(keys), 3, 3, widths[0])
    blocks: list[Block] = []
    for into, out in zip((widths[0], *widths), widths, strict=False):
        norm = GroupNorm(jnp.ones(out), jnp.zeros(out), 4)
        first, second = conv(next(keys), 3, into, out, 2), conv(next(keys), 3, out, out)
        blocks.append(Block(first, norm, second, conv(next(keys), 1, into, out, 2)))
    return {"stem": stem, "blocks": blocks, "head": jax.random.normal(next(keys), (widths[-1], classes)) * 0.1}


def classify(model: dict[str, Any], images: jax.Array) -> jax.Array:
    """Log probabilities ``(batch, classes)`` of images ``(batch, height, width, 3)``."""
    x = jax.nn.relu(model["stem"](images))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for block in model["blocks"]:
        x = block(x)
    return jax.nn.log_softmax(x.mean((1, 2)) @ model["head"])


def requests(count: int, seed: int = 0) -> list[tuple[jax.Array, ...]]:
    """Batches of images of all sizes."""
    rng = np.random.default_rng(seed)
    sizes = [(int(rng.integers(1, 5)), int(rng.integers(9, 50)), int(rng.integers(9, 50)), 3) for _ in range(count)]
    return [(jnp.asarray(rng.standard_normal(size), jnp.float32),) for size in sizes]


PROGRAM = classify
