"""Numbers that conversions to floats of 8 bits can get wrong."""

from __future__ import annotations

import functools

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from tests.lower.test_x86_scalars import values


@functools.cache
def dense(dtype: DType) -> np.ndarray:
    """Every code of a narrow float; of others the middles between those of every format of 8 bits, what is next to
    them, and what is past all of them."""
    if dtype.is_narrow:
        return np.arange(1 << dtype.bits).astype(f"u{dtype.itemsize}").view(dtype.np)
    if not dtype.is_float:
        return values(dtype, 3)
    found = [np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e38, 3.4e38, 1e-38, 1e-45, 2.0**-127, 2.0**-128])]
    for narrow in dtypes.FLOAT8:
        numbers = dense(narrow).astype(np.float64)
        numbers = np.unique(numbers[np.isfinite(numbers)])
        past = 2 * numbers[-1] - numbers[-2]
        middles = np.append((numbers[1:] + numbers[:-1]) / 2, (past + numbers[-1]) / 2).astype(dtype.np)
        step = dtype.np.type(np.inf)
        found += [numbers, middles, np.nextafter(middles, step), np.nextafter(middles, -step)]
    rng = np.random.default_rng(8)
    found.append(rng.integers(0, 256, 4000 * dtype.itemsize, np.uint8).view(dtype.np))
    with np.errstate(all="ignore"):
        x = np.concatenate([v.astype(dtype.np) for v in found])
        return np.concatenate([x, -x])
