"""Numbers to sort, and Python's order of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dyn import dtypes

Array = np.ndarray[Any, Any]
DTYPES = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16",
          "float32", "float64")  # fmt: skip
KINDS = ("few", "many", "in order", "backwards", "equal")


def numbers(dtype: str, size: int, kind: str) -> Array:
    """A vector: of few different numbers or many, zeros of both signs, NaN of both, inf and the ends of integers."""
    element = dtypes.dtype(dtype)
    rng = np.random.default_rng([size, KINDS.index(kind)])
    if element.kind.name == "BOOL":
        made = rng.random(size) < 0.5
    elif element.is_integer:
        info = np.iinfo(element.np)
        made = rng.integers(info.min, info.max, size, element.np, endpoint=True)
        if kind == "few":
            made = rng.choice(np.array([info.min, info.max, 3, 1, 0], element.np), size)
    else:
        made = rng.normal(0, 3, size)
        odd = rng.choice([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-6], size)
        made = np.where(rng.random(size) < (0.8 if kind == "few" else 0.1), odd, made).astype(element.np)
    if kind == "in order":
        made = made[ordered([made], False)]
    elif kind == "backwards":
        made = made[ordered([made], True)]
    elif kind == "equal" and size:
        made[:] = made[0]
    return np.ascontiguousarray(made)


def ordered(keys: list[Array], descending: bool) -> list[int]:
    """Python's order of vectors: NaN is more than inf, and all are alike."""
    sign = -1 if descending else 1

    def key(place: int) -> list[Any]:
        found = [k[place].item() for k in keys]
        return [(sign * math.isnan(x), 0.0 if math.isnan(x) else sign * x) for x in found]

    return sorted(range(len(keys[0])), key=key)


def bits(x: Array) -> bytes:
    """The elements to the sign of a zero; of NaN it says that it is one."""
    return x.astype(np.float64).tobytes() if x.dtype.kind not in "biu" else x.tobytes()


def without_payloads(x: Array) -> Array:
    return np.where(np.isnan(x), np.full_like(x, np.nan), x) if x.dtype.kind not in "biu" else x
