"""Rotary embeddings: against complex multiplication, in both pairings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
from dyn import nn
from dyn.errors import ShapeError

Array = np.ndarray[Any, Any]


def rotated(x: Array, positions: Array, interleaved: bool, base: float = 10_000.0) -> Array:
    """Pairs as complex numbers, turned by ``exp(i * angle)``."""
    half = x.shape[-1] // 2
    angles = np.asarray(positions, np.float64)[..., None] * base ** (-np.arange(half) / max(half, 1))
    turn = np.exp(1j * angles)[..., None, :]
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    z = (a + 1j * b) * turn
    return np.stack([z.real, z.imag], -1 if interleaved else -2).reshape(x.shape)


@pytest.mark.parametrize("interleaved", [False, True])
def test_every_size_is_one_compile(interleaved: bool) -> None:
    plain = dyn.jit(lambda x: nn.rotary_embedding(x, interleaved=interleaved))
    placed = dyn.jit(lambda x, p: nn.rotary_embedding(x, p, base=500.0, interleaved=interleaved))
    rng = np.random.default_rng(0)
    for batch, length, heads, width in (
        (2, 7, 3, 8),
        (1, 1, 1, 2),
        (0, 3, 2, 4),
        (2, 0, 1, 6),
        (1, 64, 2, 0),
        (1, 1000, 1, 16),
    ):
        x = rng.standard_normal((batch, length, heads, width)).astype(np.float32)
        np.testing.assert_allclose(plain(x), rotated(x, np.arange(length), interleaved), rtol=1e-4, atol=2e-4)
        places = rng.integers(0, 500, (batch, length))
        np.testing.assert_allclose(placed(x, places), rotated(x, places, interleaved, 500.0), rtol=1e-4, atol=2e-4)
    assert plain.cache_info().compiles == placed.cache_info().compiles == 1


def test_half_floats_are_turned_in_float32() -> None:
    x = np.random.default_rng(1).standard_normal((600, 2, 8)).astype(np.float16)
    result = nn.rotary_embedding(x)
    assert result.dtype == np.float16
    np.testing.assert_allclose(result, rotated(x.astype(np.float64), np.arange(600), False), rtol=2e-3, atol=2e-3)


def test_refusals() -> None:
    turn = dyn.jit(nn.rotary_embedding, shapes="a b c")
    with pytest.raises(ShapeError) as odd:
        turn(np.ones((2, 3, 5), np.float32))
    assert odd.value.problem == (
        "c % 2 == 0 is required, but c is 5: rotary_embedding turns pairs of the features of x (a, b, c)."
    )
    with pytest.raises(ShapeError, match="rotary_embedding turns pairs of the features of x"):
        dyn.jit(nn.rotary_embedding, shapes="a b 5")(np.ones((2, 3, 5), np.float32))
    with pytest.raises(ShapeError, match="needs 3 axes at least"):
        nn.rotary_embedding(np.ones((3, 4), np.float32))
