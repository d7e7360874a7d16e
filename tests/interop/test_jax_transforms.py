"""Fourier transforms of JAX's, and functions of ``jax.scipy.signal`` made of them: one program for all lengths.

Where Python that JAX's functions are written in goes two ways, there are two programs: ``PROGRAMS`` says of which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

jax: Any = pytest.importorskip("jax")
import jax.numpy as _jnp  # noqa: E402
import jax.scipy as _jsp  # noqa: E402
from jax import lax as _lax  # noqa: E402

import dyn.interop.jax as djax  # noqa: E402
from dyn.interop.stablehlo import load  # noqa: E402
from tests.interop.counting import counts  # noqa: E402

pytestmark = pytest.mark.usefixtures("quick_xla")

#: What they say of their functions' arguments is not about symbolic sizes.
jnp: Any = _jnp
signal: Any = _jsp.signal
lax: Any = _lax

SIZES = (5, 8, 1, 2, 3, 12, 7, 16, 20, 33)
Case = tuple[Callable[..., Any], Callable[[int], Sequence[Any]]]


def reals(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4")


def numbers(*shape: int) -> Any:
    return (reals(*shape) + 1j * reals(*shape)[::-1]).astype("c8")


def gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    return jax.grad(lambda *args: sum((abs(leaf) ** 2).sum() for leaf in jax.tree.leaves(function(*args))))


#: Of each function its arguments at a size.
TRANSFORMS: dict[str, Case] = {
    "fft": (jnp.fft.fft, lambda n: (numbers(n),)),
    "fft of reals": (jnp.fft.fft, lambda n: (reals(n),)),
    "ifft": (jnp.fft.ifft, lambda n: (numbers(n),)),
    "rfft": (jnp.fft.rfft, lambda n: (reals(n),)),
    "irfft": (jnp.fft.irfft, lambda n: (numbers(n),)),
    "hfft": (jnp.fft.hfft, lambda n: (numbers(n),)),
    "ihfft": (jnp.fft.ihfft, lambda n: (reals(n),)),
    "fft2": (jnp.fft.fft2, lambda n: (reals(n, n + 1),)),
    "fftn": (jnp.fft.fftn, lambda n: (reals(n, 2, n),)),
    "ifftn of four axes": (jnp.fft.ifftn, lambda n: (numbers(2, n, 2, n),)),
    "rfftn of four axes": (jnp.fft.rfftn, lambda n: (reals(2, n, 2, n),)),
    "irfft2": (jnp.fft.irfft2, lambda n: (numbers(n, n + 1),)),
    "by lax": (lambda x: lax.fft(x, "FFT", x.shape[1:]), lambda n: (numbers(2, n, n + 1),)),
    "half as long": (lambda x: jnp.fft.fft(x, n=x.shape[0] // 2), lambda n: (reals(n + 1),)),
    "twice as long": (lambda x: jnp.fft.rfft(x, n=2 * x.shape[0]), lambda n: (reals(n),)),
    "as long as another": (
        lambda x, y: jnp.fft.irfft(x, n=y.shape[0]), lambda n: (numbers(n // 2 + 1), reals(n)),
    ),
    "of a number of places": (lambda x: jnp.fft.fft(x, n=8), lambda n: (reals(n),)),
    "by s": (lambda x: jnp.fft.fftn(x, s=(x.shape[1], x.shape[0] + 1)), lambda n: (reals(n, n + 2),)),
    "ortho": (lambda x: jnp.fft.fft(x, norm="ortho"), lambda n: (reals(n),)),
    "forward": (lambda x: jnp.fft.ifft(x, norm="forward"), lambda n: (numbers(n),)),
    "along the first axis": (lambda x: jnp.fft.fft(x, axis=0), lambda n: (reals(n, 3),)),
    "of examples": (jax.vmap(jnp.fft.fft), lambda n: (reals(3, n),)),
    "there and back": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x), n=x.shape[0]), lambda n: (reals(n),)),
    "gradient of fft": (gradient(jnp.fft.fft), lambda n: (reals(n),)),
    "gradient of rfft": (
        gradient(lambda x: jnp.fft.rfft(x) * jnp.arange(x.shape[0] // 2 + 1)), lambda n: (reals(n),),
    ),
    "gradient of irfft": (
        gradient(lambda x, y: jnp.fft.irfft(x + 1j * x**2, n=y.shape[0]) * y),
        lambda n: (reals(n // 2 + 1), reals(n)),
    ),
    "gradients of examples": (jax.vmap(gradient(jnp.fft.rfft)), lambda n: (reals(3, n),)),
    "tangent": (lambda x: jax.jvp(jnp.fft.rfft, (x,), (2 * x,)), lambda n: (reals(n),)),
    "in a scan": (
        lambda x: lax.scan(lambda c, row: (c + jnp.fft.fft(row).real, jnp.fft.rfft(row)), x[0], x),
        lambda n: (reals(3, n),),
    ),
    "in branches": (
        lambda x: lax.cond(x.sum() > 0, lambda v: jnp.fft.fft(v).real, lambda v: jnp.fft.fft(v).imag, x),
        lambda n: (reals(n),),
    ),
    "frequencies": (
        lambda x: (jnp.fft.fftfreq(x.shape[0], 0.5), jnp.fft.rfftfreq(x.shape[0], d=2.0), x + 1),
        lambda n: (reals(n),),
    ),
    "shifted": (lambda x: jnp.fft.fftshift(jnp.fft.fft(x)), lambda n: (reals(n),)),
}  # fmt: skip
SPECTRA: dict[str, Case] = {
    "fftconvolve": (signal.fftconvolve, lambda n: (reals(n), reals(3))),
    "fftconvolve, as long": (lambda x, y: signal.fftconvolve(x, y, mode="same"), lambda n: (reals(n + 3), reals(3))),
    "fftconvolve of what fits": (lambda x, y: signal.fftconvolve(x, y, "valid"), lambda n: (reals(n + 3), reals(3))),
    "fftconvolve of two axes": (signal.fftconvolve, lambda n: (numbers(n, n + 1), numbers(3, 2))),
    "convolve": (lambda x, y: signal.convolve(x, y, method="fft"), lambda n: (reals(n), reals(n + 4))),
    "gradient of fftconvolve": (gradient(signal.fftconvolve), lambda n: (reals(n), reals(3))),
    "stft": (lambda x: signal.stft(x, nperseg=8), lambda n: (reals(n + 10),)),
    "stft by all options": (
        lambda x: signal.stft(x, 2.0, "hann", 16, 4, 32, "linear", False, None, True, 0), lambda n: (reals(n + 20, 2),),
    ),
    "stft of a window's numbers": (
        lambda x, w: signal.stft(x, window=w, nperseg=8, boundary="even"), lambda n: (reals(n + 10), reals(8)),
    ),
    "stft, extended oddly": (
        lambda x: signal.stft(x, nperseg=7, boundary="odd", padded=False), lambda n: (reals(n + 10),),
    ),
    "stft of a part of the length": (lambda x: signal.stft(x, nperseg=x.shape[0] // 2), lambda n: (reals(n + 9),)),
    "istft": (lambda z: signal.istft(z, nperseg=8), lambda n: (numbers(2, 5, n + 3),)),
    "istft of all frequencies": (signal.istft, lambda n: (numbers(n + 3, n + 4),)),
    "stft and back": (
        lambda x: signal.istft(signal.stft(x, nperseg=8)[2], nperseg=8), lambda n: (reals(n + 10),),
    ),
    "gradient of stft and back": (
        gradient(lambda x: signal.istft(signal.stft(x, nperseg=x.shape[0] // 2)[2])[1]), lambda n: (reals(n + 9),),
    ),
    "welch": (lambda x: signal.welch(x, nperseg=8), lambda n: (reals(n + 10),)),
    "welch of one segment": (signal.welch, lambda n: (reals(n + 1),)),
    "welch of medians": (lambda x: signal.welch(x, nperseg=8, average="median"), lambda n: (reals(2, n + 10),)),
    "csd": (lambda x, y: signal.csd(x, y, nperseg=8, average="median"), lambda n: (reals(n + 10), reals(n + 12))),
    "gradient of welch": (gradient(lambda x: signal.welch(x, nperseg=8)[1]), lambda n: (reals(n + 10),)),
}  # fmt: skip
CASES = {**TRANSFORMS, **SPECTRA}
#: Of a half that is one number there is nothing; arrays of one element are multiplied; which array is the longer; a
#: last frequency, which counts once, has an even length alone.
PROGRAMS = {
    "irfft": 2, "hfft": 2, "fftconvolve": 2, "fftconvolve of two axes": 2,
    "convolve": 2, "gradient of fftconvolve": 2, "welch of one segment": 2,
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_program_of_one_trace(name: str) -> None:
    function, arguments = CASES[name]
    run, plain = djax.jit(function), jax.jit(function)
    for n in SIZES:
        given = arguments(n)
        check(run(*given), plain(*given))
    wanted = PROGRAMS.get(name, 1)
    assert counts(run) == (wanted, wanted)


def check(made: Any, wanted: Any, tolerance: float = 2e-6) -> None:
    """The same within the rounding of transforms, which is that of their greatest number."""
    for one, other in zip(jax.tree.leaves(made), jax.tree.leaves(wanted), strict=True):
        assert (one.shape, one.dtype, one.weak_type) == (other.shape, other.dtype, other.weak_type)
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * max(1.0, abs(other).max(initial=0)))


@pytest.mark.parametrize("name", ["rfft", "there and back", "gradient of irfft", "by s", "welch", "istft"])
def test_numbers_of_64_bits(name: str) -> None:
    function, arguments = CASES[name]
    run, plain = djax.jit(function), jax.jit(function)
    with jax.enable_x64(True):
        for n in (5, 1, 2, 12, 7):
            given = [np.asarray(x, "c16" if x.dtype.kind == "c" else "f8") for x in arguments(n)]
            check(run(*given), plain(*given), 1e-14)
    assert counts(run) == (1, 1)


def test_no_places_are_a_program_of_their_own() -> None:
    run = djax.jit(jnp.fft.fft)
    for n in (4, 7, 0):
        check(run(reals(2, n)), jax.jit(jnp.fft.fft)(reals(2, n)))
    assert run.cache_info().compiles == 2


def test_lengths_that_are_no_sizes_are_errors_of_jax() -> None:
    for function, error in (
        (lambda x: jnp.fft.fft(x, n=x.shape[0] - 4), "Shape should be positive"),
        (lambda x: lax.fft(x + 0j, "FFT", (x.shape[0] + 1,)), "must be equal to fft_lengths"),
    ):
        for own in (jax.jit, djax.jit):
            with pytest.raises(ValueError, match=error):
                own(function)(reals(4))


def test_a_program_with_transforms_is_read_again() -> None:
    """What a trace of JAX's has become, as StableHLO: the custom call comes back as the op."""
    run = djax.jit(lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2, n=x.shape[0]))
    text = run.lower(reals(6)).as_text("stablehlo")
    assert text.count("@dyn.fft(") == 2
    loaded = load(text)
    for n in SIZES:
        np.testing.assert_allclose(loaded(reals(n)), 2 * reals(n), rtol=1e-4, atol=1e-5)
    assert loaded.cache_info().compiles == 1
