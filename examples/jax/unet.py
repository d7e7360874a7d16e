"""A step of denoising by diffusion: a UNet predicts the noise of latents of any size, DDIM takes some of it away."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

#: Height and width are multiples of this, as the UNet halves them twice.
MULTIPLE = 4
STEPS = 50


def init(seed: int = 0, width: int = 16, channels: int = 4) -> dict[str, Any]:
    keys = iter(jax.random.split(jax.random.key(seed), 40))

    def dense(*shape: int) -> jax.Array:
        return jax.random.normal(next(keys), shape) / np.sqrt(np.prod(shape[:-1]))

    def block(into: int, out: int) -> dict[str, jax.Array]:
        return {
            "first": dense(3, 3, into, out),
            "time": dense(width, out),
            "second": dense(3, 3, out, out),
            "around": dense(1, 1, into, out),
        }

    wide = 2 * width
    return {
        "into": dense(3, 3, channels, width),
        "down": [block(width, width), block(width, wide)],
        "middle": block(wide, wide),
        "attention": {"qkv": dense(wide, 3 * wide), "out": dense(wide, wide)},
        "up": [block(wide + wide, wide), block(wide + width, width)],
        "out": dense(3, 3, width, channels),
    }


def conv(x: jax.Array, kernel: jax.Array, stride: int = 1) -> jax.Array:
    return lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def normalize(x: jax.Array) -> jax.Array:
    return (x - x.mean((1, 2), keepdims=True)) * lax.rsqrt(x.var((1, 2), keepdims=True) + 1e-5)


def residual(p: dict[str, jax.Array], x: jax.Array, time: jax.Array) -> jax.Array:
    inner = conv(jax.nn.silu(normalize(x)), p["first"]) + (time @ p["time"])[:, None, None, :]
    return conv(jax.nn.silu(normalize(inner)), p["second"]) + conv(x, p["around"])


def attend(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    batch, _, _, width = x.shape
    q, k, v = jnp.split(normalize(x).reshape(batch, -1, width) @ p["qkv"], 3, -1)
    weights = jax.nn.softmax(q @ k.swapaxes(1, 2) / np.sqrt(width), axis=-1)
    return x + (weights @ v @ p["out"]).reshape(x.shape)


def predict(params: dict[str, Any], x: jax.Array, time: jax.Array) -> jax.Array:
    """The noise in ``x``, ``(batch, height, width, channels)``, at ``time``, ``(batch,)``."""
    half = params["down"][0]["time"].shape[0] // 2
    angles = time[:, None] * jnp.exp(-np.log(10_000.0) * jnp.arange(half) / half)
    time = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)
    x = conv(x, params["into"])
    skips: list[jax.Array] = []
    for block in params["down"]:
        x = residual(block, x, time)
        skips.append(x)
        x = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
    x = attend(params["attention"], residual(params["middle"], x, time))
    for block in params["up"]:
        x = jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)
        x = residual(block, jnp.concatenate([x, skips.pop()], axis=-1), time)
    return conv(jax.nn.silu(normalize(x)), params["out"])


def denoise(params: dict[str, Any], x: jax.Array, step: jax.Array) -> jax.Array:
    """Latents of one step before ``step``, ``(batch,)`` of int32 from 1 to ``STEPS``."""
    kept = jnp.cos(0.5 * np.pi * jnp.arange(STEPS + 1) / (STEPS + 8)) ** 2
    now, before = (kept[s][:, None, None, None] for s in (step, step - 1))
    noise = predict(params, x, step.astype(x.dtype))
    image = jnp.clip((x - jnp.sqrt(1 - now) * noise) / jnp.sqrt(now), -3, 3)
    return jnp.sqrt(before) * image + jnp.sqrt(1 - before) * noise


def requests(count: int, seed: int = 0) -> list[tuple[jax.Array, ...]]:
    """Batches of latents of all sizes."""
    rng = np.random.default_rng(seed)
    made: list[tuple[jax.Array, ...]] = []
    for _ in range(count):
        batch, height, width = int(rng.integers(1, 4)), *(MULTIPLE * int(n) for n in rng.integers(2, 10, 2))
        latents = jnp.asarray(rng.standard_normal((batch, height, width, 4)), jnp.float32)
        made.append((latents, jnp.asarray(rng.integers(1, STEPS + 1, batch), jnp.int32)))
    return made


PROGRAM = denoise
#: Height and width are multiples of 4, and there is a step for each image.
SHAPES = f"..., b {MULTIPLE}*h {MULTIPLE}*w 4, b"
