"""The tile for a vector of columns at most: it adds up as the one for any number does, and is never waited for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
from dyn import config
from dyn.specialize.shared_code import CODES

Array = np.ndarray[Any, Any]


def _array(dtype: str, *shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


#: Rows, columns and products: around vectors and tiles, more products than a part has, nothing at all.
SIZES = [
    (m, n, k)
    for m, k in ((1, 3), (5, 100), (16, 3000), (97, 517), (16, 9000), (0, 4), (7, 0))
    for n in (0, 1, 8, 15, 16, 17, 50)
]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("layout", ["gram", "plain", "weights"])
def test_no_bit_depends_on_the_tile(dtype: str, layout: str) -> None:
    def program(x: Any, y: Any) -> Any:
        return x.T @ y if layout == "gram" else x @ y if layout == "plain" else x @ y.T

    def arguments(m: int, n: int, k: int) -> tuple[Array, Array]:
        left, right = (k, m) if layout == "gram" else (m, k), (n, k) if layout == "weights" else (k, n)
        return _array(dtype, *left), _array(dtype, *right)

    found: list[list[Array]] = []
    for when in ("none", "all"):
        CODES.clear()
        with config.override(variants=when):
            run = dyn.jit(program)
            found.append([run(*arguments(*sizes)) for sizes in SIZES])
            assert run.cache_info().compiles == 1
    for sizes, alone, chosen in zip(SIZES, *found, strict=True):
        assert alone.tobytes() == chosen.tobytes(), sizes
        assert np.allclose(chosen, program(*arguments(*sizes)), rtol=1e-3, atol=1e-3), sizes


def test_the_first_call_waits_for_no_narrow_tile() -> None:
    CODES.clear()
    with config.override(variants="none"):
        f = dyn.jit(lambda x, y: x.T @ y)
        x = _array("f4", 40, 16)
        f(x, _array("f4", 40, 90))
    shown = [line for line in str(f.explain()).splitlines() if "variant" in line and "columns" in line]
    assert shown
    assert all("not compiled" in line for line in shown)
