"""Linear algebra beyond products, Fourier transforms, and functions of statistics."""

from __future__ import annotations

import math
from typing import Any

import dyn.numpy as dnp
from dyn import lax, random
from dyn.interop.converters import Data
from dyn.interop.tf.converter_registry import converts, takes_call
from dyn.interop.tf.ops.randomness import SEEDS, key_of_draw
from dyn.interop.tf.values import known_dtype


def _adjoint(a: Data) -> Any:
    return dnp.conj(dnp.swapaxes(a, -1, -2)) if a.dtype.kind == "c" else dnp.swapaxes(a, -1, -2)


@converts("MatrixInverse")
def matrix_inverse(a: Data, *, adjoint: bool = False) -> Any:
    return dnp.linalg.inv(_adjoint(a) if adjoint else a)


@converts("MatrixDeterminant")
def matrix_determinant(a: Data) -> Any:
    return dnp.linalg.det(a)


@converts("LogMatrixDeterminant")
def log_matrix_determinant(a: Data) -> Any:
    return list(dnp.linalg.slogdet(a))


@converts("MatrixSolve")
def matrix_solve(a: Data, b: Data, *, adjoint: bool = False) -> Any:
    return dnp.linalg.solve(_adjoint(a) if adjoint else a, b)


@converts("MatrixTriangularSolve")
def triangular_solve(a: Data, b: Data, *, lower: bool = True, adjoint: bool = False) -> Any:
    lead = dnp.broadcast_arrays(dnp.zeros(a.shape[:-2]), dnp.zeros(b.shape[:-2]))[0].shape
    a, b = [dnp.broadcast_to(one, (*lead, *one.shape[-2:])) for one in (a, b)]
    return lax.linalg.triangular_solve(
        a, b, left_side=True, lower=lower, transpose_a=adjoint, conjugate_a=adjoint and a.dtype.kind == "c"
    )


@converts("SelfAdjointEigV2")
def self_adjoint_eig(a: Data, *, compute_v: bool = True) -> Any:
    if compute_v:
        return list(dnp.linalg.eigh(a))
    return [dnp.linalg.eigvalsh(a), dnp.zeros((0,), dtype=a.dtype)]


@converts("Svd")
def svd(a: Data, *, compute_uv: bool = True, full_matrices: bool = False) -> Any:
    nothing = dnp.zeros((0,), dtype=a.dtype)
    if not compute_uv:
        return [dnp.linalg.svdvals(a), nothing, nothing]
    u, s, v = dnp.linalg.svd(a, full_matrices=full_matrices)
    return [s, u, _adjoint(v)]


@converts("Qr")
def qr(a: Data, *, full_matrices: bool = False) -> Any:
    return list(dnp.linalg.qr(a, mode="complete" if full_matrices else "reduced"))


@converts("Cross")
def cross(a: Data, b: Data) -> Any:
    return dnp.cross(a, b, axis=-1)


# ---- Fourier transforms ----------------------------------------------------------------------------------------------


def _transform(name: str, function: Any, rank: int) -> None:
    @converts(name)
    def run(a: Data) -> Any:
        return function(a, axes=tuple(range(-rank, 0)))


def _real_transform(name: str, function: Any, rank: int, out: str) -> None:
    @takes_call(name, attrs=[out])
    def run(call: Any) -> Any:
        sizes = tuple(call.sizes(1))
        made = function(call.value(0), s=sizes, axes=tuple(range(-rank, 0)))
        attr = call.attributes((out,))
        return made.astype(known_dtype(attr[out]).np) if attr else made


for _rank, _suffix in ((1, ""), (2, "2D"), (3, "3D")):
    _transform(f"FFT{_suffix}", dnp.fft.fftn, _rank)
    _transform(f"IFFT{_suffix}", dnp.fft.ifftn, _rank)
    _real_transform(f"RFFT{_suffix}", dnp.fft.rfftn, _rank, "Tcomplex")
    _real_transform(f"IRFFT{_suffix}", dnp.fft.irfftn, _rank, "Treal")


# ---- statistics ------------------------------------------------------------------------------------------------------


@converts("Ndtri")
def ndtri(p: Data) -> Any:
    return lax.erf_inv(p * 2 - 1) * math.sqrt(2)


@converts("PopulationCount")
def population_count(x: Data) -> Any:
    return lax.population_count(x).astype("uint8")


@converts("ApproximateEqual")
def approximate_equal(a: Data, b: Data, *, tolerance: float = 1e-5) -> Any:
    return dnp.abs(a - b) < tolerance


@takes_call("Multinomial", attrs=["output_dtype", *SEEDS])
def multinomial(call: Any) -> Any:
    """Classes by their logits, of the greatest logit with noise of Gumbel's."""
    logits, count = call.value(0).astype("float32"), call.sizes(1)
    shape = (logits.shape[0], count, logits.shape[1])
    noise = -dnp.log(-dnp.log(random.uniform(key_of_draw(call), shape, "float32", minval=1e-20)))
    return dnp.argmax(logits[:, None, :] + noise, axis=-1).astype(known_dtype(call.attr("output_dtype")).np)
