"""What all peers of products have in common: calls with several weights, in turn."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Rotation:
    """A peer that makes the same product with one of its weights after the other."""

    def __init__(self, calls: Sequence[Callable[[], Any]], versions: str) -> None:
        self._count, self._next, self._versions = len(calls), itertools.cycle(calls).__next__, versions

    def __len__(self) -> int:
        """How many weights there are."""
        return self._count

    def __call__(self) -> Any:
        """The product with the next of the weights, in a framework's own array."""
        return self._next()()

    def to_numpy(self, result: Any) -> np.ndarray:
        """A result in a dtype that files have: narrow floats as float32."""
        array = np.asarray(result)
        return array.astype(np.float32) if array.dtype.kind in "fV" else array

    def compiled(self) -> tuple[int, float]:
        return 0, 0.0  # compiles are not what is measured

    def versions(self) -> str:
        return self._versions
