"""The Fourier transform as ``jax.lax.fft`` has it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from dyn.lax._operands import emitted, raw
from dyn.trace.dims import unwrap_dim


class FftType(Enum):
    """Kinds of Fourier transform, by JAX's names."""

    FFT = "FFT"
    IFFT = "IFFT"
    RFFT = "RFFT"
    IRFFT = "IRFFT"


@raw
def fft(x: Any, fft_type: FftType | str, fft_lengths: Sequence[Any]) -> Any:
    """The transform over the last axes, as many as there are lengths (up to 3), which are ints or dimensions.

    Forward ("FFT"), inverse with its factor ("IFFT"), of real numbers (n) to the n // 2 + 1 that say all ("RFFT"), or
    back ("IRFFT"). The sizes of ``x`` have to be those lengths: ``dyn.numpy.fft`` cuts and fills.
    """
    kind = FftType(fft_type.upper()) if isinstance(fft_type, str) else fft_type
    lengths = tuple([unwrap_dim(n) for n in fft_lengths])
    return emitted("fft", "fft", [x], fft_type=kind.value, fft_length=lengths)[0]
