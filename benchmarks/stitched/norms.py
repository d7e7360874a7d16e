"""Layer, RMS, group and batch norms, forward and backward: gradients by input, scale and shift, of a cotangent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.memory.arguments import arrays, normal
from benchmarks.memory.program import EPSILON, Array, Function, Make, Program
from benchmarks.stitched.writing import Plain, backward, forward

GROUPS = 8


@dataclass(frozen=True)
class Norm:
    """A norm: how it is written, and its gradients in NumPy by all arguments but the last, which is the cotangent."""

    name: str
    what: str
    make: Make
    plain: Plain
    torch: Function
    gradients: Function
    arguments: int = 3


def programs() -> Iterator[Program]:
    for norm in _norms():
        yield forward("norms", norm.name, norm.what, norm.make, norm.plain, norm.torch)
    for norm in _norms():
        yield backward(
            "gradients of norms", f"{norm.name}_backward", f"gradients of {norm.what}", _with_cotangent(norm.make),
            norm.plain, norm.torch, norm.gradients, norm.arguments,
        )  # fmt: skip


def _norms() -> list[Norm]:
    import torch.nn.functional as F

    def batch_norm(x: Any, g: Any, b: Any) -> Any:
        return F.batch_norm(x, None, None, g, b, True, 0.0, EPSILON)

    return [
        Norm(
            "layer_norm", "layer norm with scale and shift", arrays("rc", "c", "c"),
            lambda lib, x, g, b: _standard(lib, x, -1) * g + b,
            lambda x, g, b: F.layer_norm(x, (x.shape[-1],), g, b, EPSILON),
            lambda x, g, b, t: _gradients(x, g, t, (-1,), (0,)),
        ),
        Norm(
            "rms_norm", "RMS norm with scale", arrays("rc", "c"), _rms_norm,
            lambda x, g: F.rms_norm(x, (x.shape[-1],), g, EPSILON),
            lambda x, g, t: _gradients(x, g, t, (-1,), (0,), centred=False)[:2], arguments=2,
        ),
        Norm(
            "group_norm", f"group norm of images, {GROUPS} groups", _images(channels_last=False), _group_norm,
            lambda x, g, b: F.group_norm(x, GROUPS, g, b, EPSILON), _group_norm_gradients,
        ),
        Norm(
            "batch_norm_nchw", "batch norm of images by their own statistics, NCHW", _images(channels_last=False),
            lambda lib, x, g, b: _standard(lib, x, (0, 2, 3)) * g[:, None, None] + b[:, None, None], batch_norm,
            lambda x, g, b, t: _gradients(x, g[:, None, None], t, (0, 2, 3), (0, 2, 3)),
        ),
        Norm(
            "batch_norm_nhwc", "batch norm of images by their own statistics, NHWC", _images(channels_last=True),
            lambda lib, x, g, b: _standard(lib, x, (0, 1, 2)) * g + b,
            lambda x, g, b: batch_norm(x.permute(0, 3, 1, 2), g, b).permute(0, 2, 3, 1),
            lambda x, g, b, t: _gradients(x, g, t, (0, 1, 2), (0, 1, 2)),
        ),
    ]  # fmt: skip


def _standard(lib: Any, x: Any, axes: int | tuple[int, ...]) -> Any:
    """Less the mean, over the standard deviation."""
    d = x - lib.mean(x, axis=axes, keepdims=True)
    return d / lib.sqrt(lib.mean(d * d, axis=axes, keepdims=True) + EPSILON)


def _rms_norm(lib: Any, x: Any, g: Any) -> Any:
    return x / lib.sqrt(lib.mean(x * x, axis=-1, keepdims=True) + EPSILON) * g


def _group_norm(lib: Any, x: Any, g: Any, b: Any) -> Any:
    n, c, h, w = x.shape
    standard = _standard(lib, lib.reshape(x, (n, GROUPS, c // GROUPS, h, w)), (2, 3, 4))
    return lib.reshape(standard, x.shape) * g[:, None, None] + b[:, None, None]


# ---- gradients in NumPy ----------------------------------------------------------------------------------------------


def _gradients(
    x: Array, g: Array, t: Array, over: tuple[int, ...], shared: tuple[int, ...], *, centred: bool = True
) -> tuple[Array, Array, Array]:
    """Gradients by input, scale and shift, of the cotangent ``t``. Statistics are ``over`` some axes; along those that
    are ``shared`` scale and shift are the same."""
    d = x - np.mean(x, over, keepdims=True) if centred else x
    inverse = 1 / np.sqrt(np.mean(d * d, over, keepdims=True) + EPSILON)
    standard, scaled = d * inverse, t * g
    rest = scaled - standard * np.mean(scaled * standard, over, keepdims=True)
    if centred:
        rest -= np.mean(scaled, over, keepdims=True)
    return rest * inverse, np.sum(t * standard, shared), np.sum(t, shared)


def _group_norm_gradients(x: Array, g: Array, b: Array, t: Array) -> tuple[Array, ...]:
    n, c, h, w = x.shape
    shape = (n, GROUPS, c // GROUPS, h, w)
    grouped = g.reshape(*shape[1:3], 1, 1)
    dx, dg, db = _gradients(x.reshape(shape), grouped, t.reshape(shape), (2, 3, 4), (0, 3, 4))
    return dx.reshape(x.shape), dg.reshape(c), db.reshape(c)


# ---- arguments -------------------------------------------------------------------------------------------------------


def _images(*, channels_last: bool) -> Make:
    """Images, and a scale and a shift of their channels: more of both with size."""

    def make(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, ...]:
        total = rows * columns
        channels, side = (16, 8) if total < 10**5 else (64, 14) if total < 10**6 else (64, 28)
        batch = max(total // (channels * side * side), 1)
        shape = (batch, side, side, channels) if channels_last else (batch, channels, side, side)
        return normal(rng, *shape), normal(rng, channels), normal(rng, channels)

    return make


def _with_cotangent(make: Make) -> Make:
    """Arguments, and a cotangent as the first of them is."""

    def wrapped(rng: np.random.Generator, rows: int, columns: int) -> tuple[Any, ...]:
        arguments = make(rng, rows, columns)
        return *arguments, normal(rng, *arguments[0].shape)

    return wrapped
