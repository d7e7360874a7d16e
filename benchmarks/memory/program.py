"""A memory-bound program: the same computation as each library's users write it, and its arguments at each size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]
#: Makes arguments of about so many rows and columns.
Make = Callable[[np.random.Generator, int, int], tuple[Any, ...]]

#: Rows and columns of the main array, float32. On the machines that dyn was measured on, it and its result lie in the
#: first level of the cache, in the second, in the third, and beyond.
SIZES: Mapping[str, tuple[int, int]] = {"L1": (4, 768), "L2": (64, 768), "L3": (512, 768), "beyond": (2048, 3072)}


@dataclass(frozen=True)
class Program:
    """A program with its form for NumPy, dyn, JAX (``jax.jit``) and PyTorch (eager).

    ``own_numbers`` says that each library draws random numbers of its own: then only what is known of them is checked.
    """

    name: str
    what: str
    make: Make
    numpy: Function
    dyn: Function
    jax: Function
    torch: Function
    tolerance: float = 2e-4
    own_numbers: bool = False


def same(result: Any, expected: Any, tolerance: float) -> bool:
    """Whether results agree; they may be trees of tuples."""
    if isinstance(expected, tuple | list):
        return len(result) == len(expected) and all(map(lambda a, b: same(a, b, tolerance), result, expected))
    got, wanted = np.asarray(result), np.asarray(expected)
    if got.shape != wanted.shape:
        return False
    scale = max(float(np.max(np.abs(wanted), initial=0.0)), 1e-6)
    return bool(np.all(np.abs(got.astype("f8") - wanted.astype("f8")) <= tolerance * scale))
