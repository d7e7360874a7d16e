"""Shapes with one size that follows from the others, as guests write them: ``-1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dyn.numpy as dnp
from dyn.shapes import exact_quotient, product
from dyn.trace.dims import unwrap_dim, wrap_dim


def reshaped(a: Any, shape: Sequence[Any]) -> Any:
    """An array in another shape. Sizes that stay are cancelled, so that they may be 0: x of ``(n, 6)`` as ``(n, -1)``.

    Args:
        a: an array of a trace.
        shape: numbers and sizes of the trace, at most one of them -1.
    """
    sizes: list[Any] = [unwrap_dim(size) for size in shape]
    if sizes.count(-1) == 1:
        rest = exact_quotient(product(a.dims), product([size for size in sizes if size != -1]))
        if rest is not None:
            pairs = zip(sizes, shape, strict=True)
            shape = [wrap_dim(a._trace, rest) if size == -1 else face for size, face in pairs]
    return dnp.reshape(a, tuple(shape))
