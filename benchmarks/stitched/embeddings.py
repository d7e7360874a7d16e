"""Rows of many tables side by side, as recommendation models (DLRM) begin: by an index, or the sums of several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.memory.arguments import normal
from benchmarks.memory.program import Array, Make, Program
from benchmarks.stitched.writing import forward

TABLES = 26


def programs() -> Iterator[Program]:
    import torch
    import torch.nn.functional as F

    def torch_rows(tables: list[Any], indices: list[Any]) -> Any:
        return torch.cat([F.embedding(i, t) for t, i in zip(tables, indices, strict=True)], 1)

    def torch_bags(tables: list[Any], indices: list[Any]) -> Any:
        return torch.cat([F.embedding_bag(i, t, mode="sum") for t, i in zip(tables, indices, strict=True)], 1)

    yield forward(
        "embeddings", "embedding_rows", f"rows of {TABLES} tables, side by side", _tables(()), _rows, torch_rows
    )
    yield forward(
        "embeddings", "embedding_bags", f"sums of 4 rows of each of {TABLES} tables, side by side", _tables((4,)),
        _bags, torch_bags,
    )  # fmt: skip


def _rows(lib: Any, tables: list[Any], indices: list[Any]) -> Any:
    return lib.concatenate([table[i] for table, i in zip(tables, indices, strict=True)], axis=1)


def _bags(lib: Any, tables: list[Any], indices: list[Any]) -> Any:
    return lib.concatenate([lib.sum(table[i], axis=1) for table, i in zip(tables, indices, strict=True)], axis=1)


def _tables(bag: tuple[int, ...]) -> Make:
    """Tables of 1 to 4 times as many rows as there are indices, and indices of ``[rows, *bag]`` for each."""

    def make(rng: np.random.Generator, rows: int, columns: int) -> tuple[list[Array], ...]:
        heights, width = [rows * (1 + at % 4) for at in range(TABLES)], max(columns // 24, 1)
        return (
            [normal(rng, height, width) for height in heights],
            [rng.integers(0, height, (rows, *bag)) for height in heights],
        )

    return make
