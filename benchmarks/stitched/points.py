"""All pairs of points: forces between bodies, sums of kernels, nearest neighbours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.memory.arguments import normal
from benchmarks.memory.program import Array, Program
from benchmarks.stitched.writing import forward

#: What is added to squares of distances between bodies.
SOFTENING = 0.01
#: NumPy computes so many rows of pairs at once.
_BLOCK = 512


def programs() -> Iterator[Program]:
    import torch

    def torch_kernel(x: Any, y: Any, w: Any) -> Any:
        return torch.exp(-(torch.cdist(x, y) ** 2)) @ w

    def torch_nearest(x: Any, y: Any) -> Any:
        # The other way to compute distances rounds too much to choose among neighbours.
        return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").argmin(1)

    yield forward(
        "points", "nbody_forces", "softened gravity between n bodies", _bodies, _forces,
        lambda x, m: _forces(torch, x, m), numpy=_numpy_forces,
    )  # fmt: skip
    yield forward(
        "points", "rbf_kernel_rows", "sum_j w_j exp(-|x_i - y_j|²) of n points", _weighted, _kernel_rows, torch_kernel,
        numpy=_by_rows(_kernel_rows), for_inductor=lambda *x: _kernel_rows(torch, *x),
    )  # fmt: skip
    yield forward(
        "points", "nearest_neighbours", "argmin_j |x_i - y_j|² of n points", _pairs, _nearest, torch_nearest,
        numpy=_by_rows(_nearest), for_inductor=lambda *x: _nearest(torch, *x),
    )  # fmt: skip


def _squares(lib: Any, x: Any, y: Any) -> Any:
    d = x[:, None, :] - y[None, :, :]
    return lib.sum(d * d, -1)


def _kernel_rows(lib: Any, x: Any, y: Any, w: Any) -> Any:
    return lib.sum(w * lib.exp(-_squares(lib, x, y)), 1)


def _nearest(lib: Any, x: Any, y: Any) -> Any:
    return lib.argmin(_squares(lib, x, y), 1)


def _forces(lib: Any, x: Any, m: Any) -> Any:
    return _pulls(lib, x, m, x, m)


def _pulls(lib: Any, some: Any, masses: Any, x: Any, m: Any) -> Any:
    """The forces of all bodies on some."""
    d = x[None, :, :] - some[:, None, :]
    squares = lib.sum(d * d, -1) + SOFTENING
    weights = m / (squares * lib.sqrt(squares))
    return masses[:, None] * lib.sum(weights[:, :, None] * d, 1)


# ---- NumPy, which would need memory for all pairs at once ------------------------------------------------------------


def _by_rows(plain: Callable[..., Any]) -> Callable[..., Array]:
    def blocks(x: Array, *others: Array) -> Array:
        return np.concatenate([plain(np, x[at : at + _BLOCK], *others) for at in range(0, len(x), _BLOCK)])

    return blocks


def _numpy_forces(x: Array, m: Array) -> Array:
    rows = range(0, len(x), _BLOCK)
    return np.concatenate([_pulls(np, x[at : at + _BLOCK], m[at : at + _BLOCK], x, m) for at in rows])


# ---- arguments -------------------------------------------------------------------------------------------------------


def _points(rng: np.random.Generator, rows: int, columns: int) -> Array:
    """As many points in space as there are pairs in the main array, rounded up to a power of two: at the four sizes 64,
    256, 1,024 and 4,096."""
    count = 1
    while count * count < rows * columns:
        count *= 2
    return normal(rng, count, 3)


def _bodies(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, ...]:
    x = _points(rng, rows, columns)
    return x, rng.uniform(0.5, 1.5, len(x)).astype("f4")


def _pairs(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, ...]:
    return _points(rng, rows, columns), _points(rng, rows, columns)


def _weighted(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, ...]:
    x, y = _pairs(rng, rows, columns)
    return x, y, normal(rng, len(y))
