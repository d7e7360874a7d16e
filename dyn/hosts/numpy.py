"""NumPy: arrays and scalars as they are. Results are arrays, those of rank 0 too."""

from __future__ import annotations

from typing import Any

from dyn.hosts.base import NumpyArray


class NumpyHost:
    """``np.ndarray`` and ``np.generic``."""

    name = "numpy"

    def view(self, value: Any) -> NumpyArray:
        return value

    def wrap(self, array: NumpyArray) -> Any:
        return array
