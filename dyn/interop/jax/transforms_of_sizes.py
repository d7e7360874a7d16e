"""Fourier transforms of JAX's, and the functions of ``jax.scipy.signal`` that are made of them, for symbolic lengths.

StableHLO's operation has lengths that are numbers. Where one is a symbol the transform is a custom call of dyn's, whose
second operand the lengths are (:mod:`dyn.interop.stablehlo.codecs.linalg`).

:data:`FUNCTIONS` is the table of :mod:`~dyn.interop.jax.functions_of_sizes`, continued.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

from dyn.interop.jax.functions_of_sizes import RenamedModule, Written, is_symbolic, jax_modules, with_names
from dyn.interop.jax.internals import ir_type, required
from dyn.interop.stablehlo.codecs.linalg import FFT

#: Its functions are called in the places of JAX's, which they call: frames of theirs are as JAX's (dyn.tracebacks).
IN_PLACES_OF_JAX = True

_SIGNAL, _HELPER = "jax._src.scipy.signal", "jax._src.third_party.scipy.signal_helper"


# ---- transforms ------------------------------------------------------------------------------------------------------


def fft_lowering(own: Written, ctx: Any, x: Any, *, fft_type: Any, fft_lengths: Sequence[Any]) -> Any:
    """The custom call."""
    if not any(map(is_symbolic, fft_lengths)):
        return own(ctx, x, fft_type=fft_type, fft_lengths=fft_lengths)
    mlir: Any = required("jax._src.interpreters.mlir")
    ir: Any = required("jax._src.lib.mlir", "ir")
    (result,) = ctx.avals_out
    lengths = mlir.eval_dynamic_shape_as_tensor(ctx, tuple(fft_lengths))
    made = mlir.custom_call(
        FFT, result_types=[ir_type(ctx, result)], operands=[x, lengths],
        backend_config={"fft_type": ir.StringAttr.get(fft_type.name)},
    )  # fmt: skip
    return made.results


def _weights(t: Any, length: Any, size: Any, dtype: Any) -> Any:
    """The number of elements, 1 or 2, of a transform of ``length`` reals that each of its first half stands for."""
    jnp, lax = jax_modules()
    place = jnp.arange(size)
    once = (place == 0) | (2 * place == length)
    return lax.expand_dims(jnp.where(once, 1, 2).astype(dtype), range(t.ndim - 1))


def rfft_transpose(own: Written, t: Any, fft_lengths: Sequence[Any]) -> Any:
    """Whether a length is odd the program finds out."""
    if not any(map(is_symbolic, fft_lengths)):
        return own(t, fft_lengths)
    _, lax = jax_modules()
    halved = lax.conj(t) / _weights(t, fft_lengths[-1], t.shape[-1], t.dtype)
    return math.prod(fft_lengths) * lax.fft(halved, "IRFFT", fft_lengths)


def irfft_transpose(own: Written, t: Any, fft_lengths: Sequence[Any]) -> Any:
    """Whether a length is odd the program finds out."""
    if not any(map(is_symbolic, fft_lengths)):
        return own(t, fft_lengths)
    _, lax = jax_modules()
    x = lax.fft(t, "RFFT", fft_lengths)
    return lax.conj(1 / math.prod(fft_lengths) * _weights(x, fft_lengths[-1], x.shape[-1], x.dtype) * x)


def fft_of_sizes(
    own: Written, func_name: str, fft_type: Any, a: Any, s: Sequence[Any] | None, axes: Any, norm: Any
) -> Any:
    """Sizes of the result that are symbols are not made integers."""
    if s is not None and any(map(is_symbolic, s)):
        own = with_names(own, map=lambda _, sizes: sizes)
    return own(func_name, fft_type, a, s, axes, norm)


def rfftfreq(own: Written, n: Any, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """JAX asks whether the length is odd, and counts as far as the half either way."""
    if not is_symbolic(n):
        return own(n, d, dtype=dtype, device=device)
    jnp, _ = jax_modules()
    dtype = dtype or required("jax._src.dtypes", "default_float_dtype")()
    made = jnp.arange(n // 2 + 1, dtype=dtype) / jnp.array(d * n, dtype=dtype)
    return made if device is None else made.to_device(device)


# ---- spectra ---------------------------------------------------------------------------------------------------------


def spectral_helper(own: Written, x: Any, y: Any, *args: Any, **options: Any) -> Any:
    """Times are floats that JAX counts up to a float of a size: here as many as there are segments."""
    shapes = [size for array in (x, y) for size in getattr(array, "shape", ())]
    if not any(map(is_symbolic, [*shapes, *args, *options.values()])):
        return own(x, y, *args, **options)
    jnp, _ = jax_modules()
    given: list[tuple[Any, Any]] = []

    def arange(start: Any, stop: Any, step: Any, dtype: Any) -> Any:  # one float, for what is done to all of them
        given.append((start, step))
        return jnp.zeros((), dtype)

    frequencies, shift, spectrum = with_names(own, jnp=RenamedModule(own.__globals__["jnp"], arange=arange))(
        x, y, *args, **options
    )
    if not given:  # of no elements
        return frequencies, shift, spectrum
    ((start, step),) = given
    fs = inspect.signature(own).bind(x, y, *args, **options).arguments.get("fs", 1.0)
    count, dtype = spectrum.shape[-1], frequencies.dtype
    places = jnp.asarray(start).astype(dtype) + jnp.asarray(step).astype(dtype) * jnp.arange(count, dtype=dtype)
    return frequencies, places / fs + shift, spectrum


def triage_segments(own: Written, window: Any, nperseg: Any, **options: Any) -> Any:
    """The length of a segment stays a size."""
    if is_symbolic(nperseg):
        own = with_names(own, int=lambda size: size)
    return own(window, nperseg, **options)


def median_bias(own: Written, n: Any) -> Any:
    """JAX counts in floats."""
    if not is_symbolic(n):
        return own(n)
    jnp, _ = jax_modules()
    even = 2.0 * jnp.arange(1, (n + 1) // 2)
    return 1 + jnp.sum(1.0 / (even + 1) - 1.0 / even)


def csd(own: Written, x: Any, y: Any, *args: Any, **options: Any) -> Any:
    """JAX asks whether there are several segments: the average of one is the segment."""
    average = inspect.signature(own).bind(x, y, *args, **options).arguments.get("average", "mean")

    def averaged(*helped: Any, **by_name: Any) -> Any:  # as of one segment
        frequencies, times, spectra = own.__globals__["_spectral_helper"](*helped, **by_name)
        if is_symbolic(spectra.shape[-1]) and average in ("mean", "median"):
            spectra = _average(spectra, average)[..., None]
        return frequencies, times, spectra

    return with_names(own, _spectral_helper=averaged)(x, y, *args, **options)


def _average(spectra: Any, average: str) -> Any:
    jnp, lax = jax_modules()
    if average == "mean":
        return spectra.mean(axis=-1)
    bias = required(_HELPER, "_median_bias")(spectra.shape[-1]).astype(spectra.dtype)
    if not jnp.iscomplexobj(spectra):
        return jnp.median(spectra, axis=-1) / bias
    return lax.complex(*[jnp.median(part, axis=-1) for part in (spectra.real, spectra.imag)]) / bias


def overlap_and_add(own: Written, x: Any, step_size: Any) -> Any:
    """Each element goes to its place: in how many rows a segment overlaps others JAX counts by its length."""
    if not (is_symbolic(step_size) or is_symbolic(x.shape[-1])):
        return own(x, step_size)
    jnp, _ = jax_modules()
    *batch, count, length = x.shape
    places = jnp.arange(count)[:, None] * step_size + jnp.arange(length)
    return jnp.zeros((*batch, step_size * (count - 1) + length), x.dtype).at[..., places].add(x)


#: The functions, by where JAX has them, and what does each for symbolic sizes.
FUNCTIONS: Sequence[tuple[str, str, Written]] = (
    ("jax._src.lax.fft", "_fft_lowering", fft_lowering), ("jax._src.lax.fft", "_rfft_transpose", rfft_transpose),
    ("jax._src.lax.fft", "_irfft_transpose", irfft_transpose), ("jax._src.numpy.fft", "_fft_core", fft_of_sizes),
    ("jax._src.numpy.fft", "rfftfreq", rfftfreq), (_SIGNAL, "_spectral_helper", spectral_helper),
    (_HELPER, "_triage_segments", triage_segments), (_HELPER, "_median_bias", median_bias),
    (_SIGNAL, "csd", csd), (_SIGNAL, "_overlap_and_add", overlap_and_add),
)  # fmt: skip
