"""Rows beyond the caches are asked for before they are read: what is computed stays the same, to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp

#: The bytes ahead.
_DISTANCE = "i64 16384"


def _rows(x: Any) -> Any:
    return dyn.nn.softmax(x, axis=-1)


def _places(x: Any) -> Any:
    return dnp.argmax(x, axis=-1)


def _norms(x: Any) -> Any:
    d = x - dnp.mean(x, axis=-1, keepdims=True)
    return d / dnp.sqrt(dnp.mean(d * d, axis=-1, keepdims=True) + 1e-5)


@pytest.mark.parametrize("f", [_rows, _places, _norms])
@pytest.mark.parametrize(("dtype", "columns"), [("f4", 1001), ("f4", 17), ("f8", 333), ("f2", 4097)])
def test_rows_in_cache_and_beyond_it(f: Callable[[Any], Any], dtype: str, columns: int) -> None:
    """Some rows of many are what they are alone. The last ones ask for memory behind the array's end."""
    rows = (17 << 20) // (columns * np.dtype(dtype).itemsize) + 1
    x = np.random.default_rng(0).standard_normal((rows, columns)).astype(dtype)
    compiled = dyn.jit(f)
    whole = compiled(x)
    for few in (slice(0, 3), slice(rows - 5, rows)):
        assert compiled(x[few]).tobytes() == whole[few].tobytes()


def _asks(f: Callable[[Any], Any], shape: tuple[int, ...]) -> bool:
    text = dyn.jit(f).lower(np.ones(shape, "f4")).compile().as_text("llvm")
    return any("getelementptr i8" in line and _DISTANCE in line for line in text.splitlines())


@pytest.mark.parametrize("f", [_rows, _places, _norms])
def test_what_is_swept_again_is_asked_for(f: Callable[[Any], Any]) -> None:
    assert _asks(f, (4, 768))


@pytest.mark.parametrize("f", [lambda x: x * 2, lambda x: dnp.sum(x, axis=-1), lambda x: dnp.sum(x, axis=0)])
def test_what_is_swept_once_is_not(f: Callable[[Any], Any]) -> None:
    assert not _asks(f, (4, 768))
