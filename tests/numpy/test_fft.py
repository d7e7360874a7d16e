"""Fourier transforms: NumPy's results at every size from one trace, and JAX's derivatives."""

from __future__ import annotations

from types import ModuleType
from typing import Any, cast

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ArgumentError, ShapeError, UnsupportedOpError
from tests.numpy.differential import compare

NORMS = (None, "backward", "forward", "ortho")
#: NumPy transforms no empty axis: what comes of it is tested below.
SIZES = (1, 2, 7, 8)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int32", "bool"])
def test_over_one_axis(dtype: str) -> None:
    def program(xp: Any, x: Any) -> Any:
        f = xp.fft
        found = [f.fft(x), f.ifft(x, axis=0), f.fft(x, 5), f.ifft(x, n=3, axis=0), f.hfft(x, 6), f.irfft(x, 7)]
        if not dtype.startswith("complex"):
            found += [f.rfft(x), f.rfft(x, 5, axis=0), f.ihfft(x), f.ihfft(x, 4), f.irfft(x, 4, axis=0)]
        # NumPy computes integers in float64, as the default is here.
        return found

    compare(program, f"{dtype} n m", sizes=SIZES)


def test_norms() -> None:
    def program(xp: Any, x: Any, z: Any) -> Any:
        f = xp.fft
        return [
            y
            for norm in NORMS
            for y in (
                f.fft(z, norm=norm), f.ifft(z, norm=norm), f.rfft(x, norm=norm), f.irfft(z, 9, norm=norm),
                f.hfft(z, 9, norm=norm), f.ihfft(x, norm=norm), f.fft2(z, norm=norm), f.irfft2(z, (4, 5), norm=norm),
            )
        ]  # fmt: skip

    compare(program, "float64 n m", "complex128 n m", sizes=(1, 2, 7))


def test_over_several_axes() -> None:
    def program(xp: Any, x: Any, z: Any) -> Any:
        f = xp.fft
        return [
            f.fftn(z), f.ifftn(z, axes=(0, 2)), f.fftn(z, (4, 3), axes=(2, 0)), f.fft2(z), f.ifft2(z, axes=(0, 1)),
            f.rfftn(x), f.rfftn(x, axes=(2, 0)), f.rfft2(x, (3, 6)), f.irfftn(z, (2, 3, 5), axes=(0, 1, 2)),
            f.irfftn(z, (3, 4), axes=(1, 0)), f.irfft2(z, (4, 6)), f.fftn(x), f.rfftn(x, (-1, 4), axes=(0, 1)),
        ]  # fmt: skip

    compare(program, "float64 n 3 m", "complex128 n 3 m", sizes=(1, 2, 7))


def test_more_axes_than_the_op_has() -> None:
    def program(xp: Any, x: Any, z: Any) -> Any:
        f = xp.fft
        axes = (0, 1, 2, 3)
        return f.fftn(z), f.ifftn(z), f.rfftn(x), f.irfftn(z, (3, 2, 2, 4), axes), f.rfftn(x, axes=(3, 0, 2, 1))

    compare(program, "float64 n 2 m 3", "complex128 n 2 m 3", sizes=(1, 2, 5))


def test_a_half_has_twice_as_many_less_two() -> None:
    def program(xp: Any, z: Any) -> Any:
        return xp.fft.irfft(z), xp.fft.hfft(z), xp.fft.irfftn(z, axes=(1, 0)), xp.fft.irfft2(z)

    compare(program, "complex128 n m", sizes=(2, 3, 7))
    f = dyn.jit(dnp.fft.irfft)
    assert f(np.ones(4, np.complex64)).shape == (6,)
    assert f(np.ones(1, np.complex64)).shape == (0,)  # NumPy refuses it
    with pytest.raises(ShapeError) as caught:
        f(np.ones(0, np.complex64))
    assert caught.value.problem == "x_0 >= 1 is required, but x_0 is 0: irfft of axis 0 has 2 * (x_0 - 1) elements."


def test_lengths_are_dimensions() -> None:
    def program(xp: Any, x: Any, y: Any) -> Any:
        n, m = x.shape[0], y.shape[0]
        return (
            xp.fft.irfft(xp.fft.rfft(x, 2 * n + m) * xp.fft.rfft(y, 2 * n + m), 2 * n + m),
            xp.fft.fft(x, m), xp.fft.ifft(y, n), xp.fft.rfft(y, n), xp.fft.irfft(x, m), xp.fft.fftfreq(n + m, 0.5),
            xp.fft.rfftfreq(m), xp.fft.fftshift(xp.fft.fftfreq(n)), xp.fft.ifftshift(y),
        )  # fmt: skip

    compare(program, "float64 n", "float64 m", sizes=(1, 2, 7, 8, 64))


def test_shifts() -> None:
    def program(xp: Any, x: Any) -> Any:
        f = xp.fft
        return f.fftshift(x), f.fftshift(x, 0), f.ifftshift(x, (0, 1)), f.ifftshift(f.fftshift(x)), f.ifftshift(x, -1)

    compare(program, "int32 n m", sizes=(0, 1, 2, 7))


def test_nothing_is_transformed_to_nothing() -> None:
    """One program for every size, 0 among them: NumPy has no transforms of that."""

    @dyn.jit
    def f(x: Any) -> Any:
        half = dnp.fft.rfft(x)
        return dnp.fft.fft(x), dnp.fft.ifft(x, norm="ortho"), half, dnp.fft.irfft(half, x.shape[1]), dnp.fft.fft(x, 0)

    for shape in ((3, 8), (3, 0), (0, 8), (0, 0), (1, 1)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        full, _, half, back, none = f(x)
        assert (full.shape, full.dtype, half.shape, none.shape) == (
            shape, np.complex64, (shape[0], shape[1] // 2 + 1), (shape[0], 0),
        )  # fmt: skip
        np.testing.assert_allclose(back, x, atol=1e-6)
        np.testing.assert_allclose(half[:, 0], x.sum(axis=1), atol=1e-5)
    assert f.cache_info().compiles == 1


def test_precision_follows_the_operand() -> None:
    for dtype, wanted in (("float16", np.complex64), ("float32", np.complex64), ("float64", np.complex128)):
        assert dnp.fft.rfft(np.ones(4, dtype)).dtype == wanted
    assert dnp.fft.irfft(np.ones(4, np.complex64)).dtype == np.float32
    assert dnp.fft.fft(np.ones(4, np.int32)).dtype == np.complex64  # the default float is float32
    assert dnp.fft.fftfreq(4).dtype == np.float32
    assert dnp.fft.rfftfreq(4, dtype="float64").dtype == np.float64


def test_nan_and_infinity_stay_in_their_row() -> None:
    x = np.ones((3, 4))
    x[1, 2] = np.nan
    found = dnp.fft.rfft(x)
    assert np.isnan(found[1]).all()
    np.testing.assert_array_equal(found[[0, 2]], np.fft.rfft(x[[0, 2]]))


def test_what_is_refused() -> None:
    x = np.ones((3, 4), np.float32)
    with pytest.raises(ArgumentError) as caught:
        dnp.fft.fft(x, norm="half")
    assert caught.value.problem == "fft: norm is 'backward', 'forward' or 'ortho', not 'half'."
    with pytest.raises(UnsupportedOpError) as refused:
        dnp.fft.rfft(x.astype(np.complex64))
    assert refused.value.problem == "rfft takes real numbers, not complex64."
    with pytest.raises(ArgumentError) as counted:
        dnp.fft.fftn(x, (2, 2), axes=(0,))
    assert counted.value.problem == "fftn: s has 2 sizes for 1 axes."
    with pytest.raises(ArgumentError) as listed:
        dnp.fft.fftn(x, cast(Any, 4))
    assert listed.value.problem == "fftn: s is a sequence of sizes, not 4."
    with pytest.raises(ShapeError) as axis:
        dnp.fft.fft(x, axis=2)
    assert axis.value.problem == "fft: axis 2 is not an axis of an array with 2 axes."
    with pytest.raises(ShapeError) as negative:
        dnp.fft.fft(x, -3)
    assert negative.value.problem == "fft: the shape (-3,) has a negative size."


# ---- derivatives -----------------------------------------------------------------------------------------------------


def loss(xp: Any, x: Any, w: Any) -> Any:
    """Every transform, weighted so that all numbers count."""
    f, n = xp.fft, 6
    spectrum = f.rfft(x)
    whole = f.fft(x * w, n)
    filtered = f.irfft(spectrum * f.rfft(w), x.shape[-1])
    return (
        xp.sum(xp.abs(spectrum) ** 2) + xp.sum(xp.real(whole) * xp.imag(whole)) + xp.sum(filtered**3)
        + xp.sum(f.hfft(whole, 5) ** 2) + xp.sum(xp.real(f.ifft(whole) ** 2)) + xp.sum(xp.imag(f.ihfft(x)) ** 2)
        + xp.sum(f.irfftn(f.rfftn(w), w.shape) ** 2)
    )  # fmt: skip


def test_gradients_are_jax_s() -> None:
    jax: ModuleType = pytest.importorskip("jax")
    mine = dyn.jit(dyn.grad(lambda x, w: loss(dnp, x, w), argnums=(0, 1)))
    many = dyn.jit(dyn.vmap(dyn.grad(lambda x, w: loss(dnp, x, w)), in_axes=(0, None)))
    second = dyn.jit(dyn.hessian(lambda x, w: loss(dnp, x, w)))
    with jax.enable_x64(True):
        theirs = jax.jit(jax.grad(lambda x, w: loss(jax.numpy, x, w), argnums=(0, 1)))
        for size in (1, 7, 8):
            rng = np.random.default_rng(size)
            x, w = rng.standard_normal(size), rng.standard_normal(size)
            for a, b in zip(mine(x, w), theirs(x, w), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(many(np.stack([x, 2 * x]), w)[1], theirs(2 * x, w)[0], rtol=1e-9, atol=1e-9)
            found = second(x, w)
            if size == 7:
                wanted = jax.jit(jax.hessian(lambda x, w: loss(jax.numpy, x, w)))(x, w)
                np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-8)
    assert (mine.cache_info().compiles, many.cache_info().compiles, second.cache_info().compiles) == (1, 1, 1)
