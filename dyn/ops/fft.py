"""Fourier transforms along the last axes: StableHLO's op, computed by pocketfft through NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import dtypes
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.differentiate import zeros
from dyn.ir.opdef import Attrs, LibraryRoutine, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.counts import log2
from dyn.ops.linalg.matrices import Array, Matrices, complex_of, random_matrices, real_of
from dyn.ops.transform_rules import linear, pointwise_batch
from dyn.shapes import Dim, RelKind, dim_max, floordiv, product

_KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")


def half_length(size: Dim) -> Dim:
    """Size of the transform of ``size`` real numbers: 1 of none, which is 0."""
    return floordiv(size, 2) + 1


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,), kind, lengths = operands, attrs["fft_type"], attrs["fft_length"]
    if kind not in _KINDS:
        raise ctx.fail(f"fft_type is one of {', '.join(_KINDS)}, not {kind}")
    if not 1 <= len(lengths) <= 3 or len(lengths) > x.rank:
        raise ctx.fail(f"{len(lengths)} lengths for {x}; there are 1, 2 or 3, and an axis for each")
    wanted = (dtypes.float32, dtypes.float64) if kind == "RFFT" else (dtypes.complex64, dtypes.complex128)
    if x.dtype not in wanted:
        names = " or ".join(d.name for d in wanted)
        raise ctx.unsupported(f"{kind} takes {names}, not {x.dtype.name}", "convert it with .astype")
    lead, own = x.shape[: -len(lengths)], x.shape[-len(lengths) :]
    given = (*lengths[:-1], half_length(lengths[-1])) if kind == "IRFFT" else lengths
    for axis, (size, length) in enumerate(zip(own, given, strict=True), len(lead)):
        ctx.require(RelKind.EQ, size, length, f"axis {axis} has as many elements as fft_length says")
    if kind == "RFFT":
        return (TensorType(complex_of(x.dtype), (*lead, *lengths[:-1], half_length(lengths[-1]))),)
    if kind == "IRFFT":
        return (TensorType(real_of(x.dtype), (*lead, *lengths)),)
    return (TensorType(x.dtype, x.shape),)


def _reference(x: Array, fft_type: str, fft_length: tuple[int, ...]) -> Array:
    axes = tuple(range(x.ndim - len(fft_length), x.ndim))
    real = np.dtype(x.real.dtype)
    dtype = real if fft_type == "IRFFT" else np.result_type(real, np.complex64)
    lead = x.shape[: axes[0]]
    if 0 in fft_length:  # NumPy does not take it; what is left of it is a sum of nothing
        last = (half_length(fft_length[-1]),) if fft_type == "RFFT" else (fft_length[-1],)
        return np.zeros((*lead, *fft_length[:-1], *last), dtype)
    compute: Any = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}[fft_type]
    with np.errstate(all="ignore"):
        return compute(x, s=fft_length, axes=axes).astype(dtype, copy=False)


def _vjp(b: Builder, op: Op, cts: tuple[Value]) -> tuple[Value]:
    """A transform is its own transpose. Of one that gives half of it: with zeros for the other half, the real part; of
    the inverse of that, the numbers that stand for two count twice."""
    m, (ct,), kind, lengths = Matrices(b), cts, op.attrs["fft_type"], op.attrs["fft_length"]
    if kind in ("FFT", "IFFT"):
        return (b.op("fft", ct, **op.attrs),)
    if kind == "RFFT":
        none = (0,) * len(ct.shape)
        more = (*none[1:], lengths[-1] - ct.shape[-1])
        # Of no number there is one: then the padding is negative, and cuts it off.
        whole = _padded(b, ct, none, more)
        return (b.op("real", b.op("fft", whole, fft_type="FFT", fft_length=lengths)),)
    forward = b.op("fft", ct, fft_type="RFFT", fft_length=lengths)
    place = b.op("iota", shape=forward.shape, dimension=len(forward.shape) - 1, dtype=dtypes.int64)
    size = b.op("dim_size", size=lengths[-1], dtype=dtypes.int64)
    end = b.op("broadcast_in_dim", size, shape=forward.shape, dims=())
    once = m.f("or", m.cmp(place, "EQ", 0), m.cmp(m.add(place, place), "EQ", end))
    count = b.op("dim_size", size=dim_max(product(lengths), 1), dtype=real_of(forward.dtype))
    weight = b.op("broadcast_in_dim", m.div(m.fill(count, 1), count), shape=forward.shape, dims=())
    return (m.scale(m.conj(forward), m.where(once, weight, m.mul(weight, 2))),)


def _padded(b: Builder, x: Value, low: tuple[Dim, ...], high: tuple[Dim, ...]) -> Value:
    zero = zeros(b, TensorType(x.dtype, ()))
    return b.op("pad", x, zero, edge_padding_low=low, edge_padding_high=high, interior_padding=(0,) * len(x.shape))


def _samples() -> list[Sample]:
    calls: list[Sample] = []
    lengths = ((0,), (1,), (2,), (7,), (8,), (64,), (2, 3), (3, 4), (2, 3, 4), (3, 0))
    for dtype in (dtypes.float32, dtypes.float64):
        for kind in _KINDS:
            for length in lengths:
                shape = (*length[:-1], length[-1] // 2 + 1) if kind == "IRFFT" else length
                for lead in ((), (2,), (0,)) if length in ((0,), (7,), (2, 3)) else ((),):
                    own = dtype if kind == "RFFT" else complex_of(dtype)
                    attrs = {"fft_type": kind, "fft_length": length}
                    calls.append(Sample((random_matrices((*lead, *shape), own),), attrs))
    return calls


def _flops(op: Op) -> Dim:
    """``5 n log2(n)`` of a transform of n complex numbers, of real ones half of that."""
    lengths = op.attrs["fft_length"]
    count, shape = product(lengths), (op.results[0] if op.attrs["fft_type"] == "IRFFT" else op.operands[0]).shape
    complex_flops = 5 * product(shape) * log2(count)
    return complex_flops if op.attrs["fft_type"] in ("FFT", "IFFT") else floordiv(complex_flops, 2)


#: The discrete Fourier transform over the last axes, as many as ``fft_length`` has sizes: forward (FFT), the inverse
#: with its factor (IFFT), of real numbers the half that says all (RFFT: n // 2 + 1 numbers of the last axis), and the
#: inverse of that (IRFFT), which takes what it is given for such a half.
fft = OpDef(
    "fft",
    OpKind.OPAQUE,
    types=_types,
    loops=LibraryRoutine(),
    flops=_flops,
    is_backward_stable=True,
    reference=_reference,
    samples=_samples,
    vjp=_vjp, jvp=linear(), batch=pointwise_batch,
)  # fmt: skip
