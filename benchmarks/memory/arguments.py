"""Arguments of programs, drawn at random: those that several tables of programs have."""

from __future__ import annotations

import numpy as np

from benchmarks.memory.program import Array, Make


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return rng.standard_normal(shape, "f4")


def arrays(*shapes: str) -> Make:
    """Arrays whose axes are letters: ``r`` rows, ``c`` columns, ``n`` all of them, ``1``."""

    def make(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, ...]:
        sizes = {"r": rows, "c": columns, "n": rows * columns, "1": 1}
        return tuple(normal(rng, *[sizes[axis] for axis in shape]) for shape in shapes)

    return make


def labels(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, ...]:
    return normal(rng, rows, columns), rng.integers(0, columns, rows)


def rotary_arguments(rng: np.random.Generator, rows: int, columns: int) -> tuple[Array, ...]:
    length = max(rows * columns // 768, 1)
    return normal(rng, length, 12, 64), normal(rng, length, 1, 32), normal(rng, length, 1, 32)
