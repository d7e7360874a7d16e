"""The Fourier transform as ``jax.lax.fft`` has it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from dyn.lax._operands import emitted, raw
from dyn.trace.dims import unwrap_dim


class FftType(Enum):
    """Kinds of Fourier transform, by JAX's names.

    Attributes:
        FFT: forward, of complex numbers.
        IFFT: inverse, with its factor 1 / n.
        RFFT: of n real numbers to the n // 2 + 1 that say all.
        IRFFT: from these back to n real numbers.
    """

    FFT = "FFT"
    IFFT = "IFFT"
    RFFT = "RFFT"
    IRFFT = "IRFFT"


@raw
def fft(x: Any, fft_type: FftType | str, fft_lengths: Sequence[Any]) -> Any:
    """Discrete Fourier transform over the last axes, as in ``jax.lax.fft``; ``dyn.numpy.fft`` cuts and fills.

    Args:
        x: array of complex64 or complex128, of ``"RFFT"`` of float32 or float64.
        fft_type: kind of transform, a :class:`FftType` or its name.
        fft_lengths: sizes of up to three last axes, ints or dimensions, which ``x`` has to have: nothing is cut or
            filled.

    Returns:
        An array of complex numbers, of ``"IRFFT"`` of floats.

    Raises:
        ShapeError: if sizes are others, at the call at the latest.
        UnsupportedOpError: if ``x`` has another dtype.

    Example:
        >>> lax.fft(np.array([1, 0, 0, 0], np.complex64), "FFT", (4,))
        array([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], dtype=complex64)
    """
    kind = FftType(fft_type.upper()) if isinstance(fft_type, str) else fft_type
    lengths = tuple([unwrap_dim(n) for n in fft_lengths])
    return emitted("fft", "fft", [x], fft_type=kind.value, fft_length=lengths)[0]
