"""``dyn.lax.linalg`` and ``dyn.lax.fft`` against JAX's, one program for every size."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import dyn
from dyn import lax
from dyn.errors import UnsupportedOpError

Array = Any


@pytest.fixture(scope="module")
def theirs() -> ModuleType:
    return pytest.importorskip("jax").lax


def draw(*shape: int, dtype: str = "float32") -> Array:
    rng = np.random.default_rng(shape[-1])
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape)).astype(dtype) if dtype.startswith("c") else x.astype(dtype)


def near(mine: Any, wanted: Any) -> None:
    for a, b in zip(mine, wanted, strict=True):
        assert (np.shape(a), np.asarray(a).dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_factors(theirs: ModuleType, dtype: str) -> None:
    def program(x: Array, xp: Any) -> Any:
        la = xp.linalg
        q, r = la.qr(x, full_matrices=False)
        return *la.lu(x), q, r, la.svd(x, compute_uv=False), la.svd(x, full_matrices=False)[1]

    mine = dyn.jit(lambda x: program(x, lax))
    for shape in ((3, 3), (4, 2), (2, 5), (2, 3, 3)):
        x = draw(*shape, dtype=dtype)
        near(mine(x), program(x, theirs))
    assert mine.cache_info().compiles == 2  # for two ranks


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_hermitian_matrices(theirs: ModuleType, dtype: str) -> None:
    def program(x: Array, xp: Any) -> Any:
        la = xp.linalg
        (_, w), (_, upper) = la.eigh(x), la.eigh(x, lower=False, symmetrize_input=False)
        return la.cholesky(x), la.cholesky(x, symmetrize_input=False), w, upper

    mine = dyn.jit(lambda x: program(x, lax))
    for size in (1, 3, 7):
        x = draw(size, size, dtype=dtype)
        x = (x @ np.conj(x.T) + np.eye(size)).astype(dtype)
        near(mine(x), program(x, theirs))
    assert mine.cache_info().compiles == 1


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_triangular_systems(theirs: ModuleType, dtype: str) -> None:
    forms = [
        {"left_side": left, "lower": lower, "transpose_a": turn, "conjugate_a": conj, "unit_diagonal": unit}
        for left, lower, turn, conj, unit in (
            (True, True, False, False, False), (False, True, True, False, True), (True, False, True, True, False),
            (False, False, False, False, False), (True, True, True, True, True),
        )
    ]  # fmt: skip
    forms.append({"left_side": True, "lower": True, "conjugate_a": True})

    def program(a: Array, b: Array, xp: Any) -> Any:
        return [xp.linalg.triangular_solve(a, b, **form) for form in forms]

    mine = dyn.jit(lambda a, b: program(a, b, lax))
    for size in (1, 3, 7):
        a = (draw(size, size, dtype=dtype) + 4 * np.eye(size)).astype(dtype)
        near(mine(a, draw(size, size, dtype=dtype)), program(a, draw(size, size, dtype=dtype), theirs))
    assert mine.cache_info().compiles == 1


def test_fft(theirs: ModuleType) -> None:
    def program(x: Array, z: Array, xp: Any) -> Any:
        n, m = x.shape
        return (
            xp.fft(z, xp.FftType.FFT, (m,)), xp.fft(z, "ifft", (n, m)), xp.fft(x, "RFFT", (n, m)),
            xp.fft(xp.fft(x, "RFFT", (m,)), "IRFFT", (m,)),
        )  # fmt: skip

    mine = dyn.jit(lambda x, z: program(x, z, lax))
    for size in (2, 7):
        x, z = draw(3, size), draw(3, size, dtype="complex64")
        near(mine(x, z), program(x, z, theirs))
    assert mine.cache_info().compiles == 1


def test_outside_of_traces() -> None:
    x = draw(3, 3)
    factors, pivots, permutation = lax.linalg.lu(x)
    assert (factors.shape, pivots.dtype, permutation.dtype) == ((3, 3), np.int32, np.int32)
    with pytest.raises(UnsupportedOpError) as caught:
        lax.linalg.lu([[1.0]])
    assert caught.value.problem == "lu does not take a list for an array."
