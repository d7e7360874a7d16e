"""Factors of matrices: Cholesky's, QR, eigenvalues and singular values.

Matrices are the last two axes. LAPACK computes them in float32, float64, complex64 or complex128: 16-bit floats are
converted there and back. Where LAPACK gives up, on NaN or a matrix that is not positive definite, results are NaN for
that matrix, as in JAX, and nothing is raised. What the derivatives are is said in ``dyn/ops/spectral.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dyn.errors import InvalidValueError
from dyn.numpy._binary import multiply
from dyn.numpy._manipulation import expand_dims
from dyn.numpy._operands import emit, emit_all
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._sorting import argsort
from dyn.numpy._stacks import Stacks, adjoint, as_complex, one_square_stack, one_stack, symmetrized
from dyn.numpy._take import take_along_axis
from dyn.numpy._unary import abs, sign
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = [
    "EigResult", "EighResult", "QRResult", "SVDResult", "cholesky", "eig", "eigh", "eigvals", "eigvalsh", "qr", "svd",
    "svdvals",
]  # fmt: skip


class EighResult(NamedTuple):
    """Results of :func:`eigh`."""

    eigenvalues: Array
    eigenvectors: Array


class EigResult(NamedTuple):
    """Results of :func:`eig`."""

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Results of :func:`qr`."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """Results of :func:`svd`."""

    U: Array
    S: Array
    Vh: Array


@public
def cholesky(x: ArrayLike, /, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with ``L L^H == x``, or with ``upper`` U with ``U^H U == x``; (..., n, n).

    ``x`` is Hermitian and positive definite: of one that is not definite the triangle is NaN. As in JAX ``x`` is
    replaced by ``(x + x^H) / 2`` first, so that gradients are symmetric; without ``symmetrize_input`` one triangle is
    read.
    """
    stacks, value = one_square_stack("cholesky", x)
    value = symmetrized(value) if symmetrize_input else value
    return stacks.back(emit("cholesky", value, lower=not upper))


@public
def qr(x: ArrayLike, /, mode: str = "reduced") -> Any:
    """``Q R == x`` with orthonormal columns in Q and an upper triangular R.

    Of (..., m, n) they are (..., m, k) and (..., k, n) with ``k = min(m, n)``; with ``mode="complete"`` k is m; with
    ``"r"`` R is given alone. Complete factors of more rows than columns have no derivative.
    """
    if mode not in ("reduced", "complete", "r"):
        raise InvalidValueError(
            f"qr: mode is 'reduced', 'complete' or 'r', not {mode!r}.", loc=user_loc(), remedy="use 'reduced'."
        )
    stacks, value = one_stack("qr", x)
    q, r = emit_all("qr", value, full_matrices=mode == "complete")
    return stacks.back(r) if mode == "r" else QRResult(stacks.back(q), stacks.back(r))


# ---- eigenvalues -----------------------------------------------------------------------------------------------------


def _eigh(what: str, x: ArrayLike, uplo: str | None, symmetrize: bool | None) -> tuple[Tracer, Tracer]:
    if uplo not in (None, "L", "U"):
        raise InvalidValueError(f"{what}: UPLO is 'L' or 'U', not {uplo!r}.", loc=user_loc(), remedy="use 'L'.")
    stacks, value = one_square_stack(what, x)
    if symmetrize or (symmetrize is None and uplo is None):
        value = symmetrized(value)
    w, v = emit_all("eigh", value, lower=uplo != "U", vectors=True)
    return stacks.back(w), stacks.back(v)


@public
def eigh(x: ArrayLike, /, UPLO: str | None = None, symmetrize_input: bool | None = None) -> EighResult:
    """The eigenvalues of Hermitian matrices from the least to the greatest, and their vectors in columns.

    Of (..., n, n) these are (..., n), real, and (..., n, n). Where ``UPLO`` names a triangle only that one is read;
    otherwise ``x`` is replaced by ``(x + x^H) / 2``, as in JAX; ``symmetrize_input`` says it either way. The gradient
    of vectors is infinite or NaN where eigenvalues are equal.
    """
    return EighResult(*_eigh("eigh", x, UPLO, symmetrize_input))


@public
def eigvalsh(x: ArrayLike, /, UPLO: str | None = None, *, symmetrize_input: bool | None = None) -> Array:
    """The eigenvalues of Hermitian matrices from the least to the greatest: see :func:`eigh`."""
    return _eigh("eigvalsh", x, UPLO, symmetrize_input)[0]


def _eig(what: str, x: ArrayLike) -> tuple[Tracer, Tracer]:
    _, value = one_square_stack(what, x)
    w, v = emit_all("eig", value, vectors=True)
    return w, v


@public
def eig(x: ArrayLike, /) -> EigResult:
    """The eigenvalues of square matrices, in no order, and their vectors in columns: complex, of real matrices too.

    Vectors have length 1, and a phase that nothing should depend on: gradients leave it out.
    """
    return EigResult(*_eig("eig", x))


@public
def eigvals(x: ArrayLike, /) -> Array:
    """The eigenvalues of square matrices, in no order; complex, of real matrices too."""
    return _eig("eigvals", x)[0]


# ---- singular values -------------------------------------------------------------------------------------------------


def _svd(stacks: Stacks, value: Tracer, full_matrices: bool) -> tuple[Tracer, Tracer, Tracer]:
    u, s, vh = (stacks.back(v) for v in emit_all("svd", value, full_matrices=full_matrices, vectors=True))
    return u, s, vh


def _hermitian_svd(stacks: Stacks, value: Tracer) -> tuple[Tracer, Tracer, Tracer]:
    """SVD of Hermitian matrices, by eigenvalues: their sizes in order, their signs with the vectors on the right."""
    w, v = emit_all("eigh", symmetrized(value), lower=True, vectors=True)
    order = argsort(abs(w), descending=True)
    w = take_along_axis(w, order, -1)
    v = take_along_axis(v, expand_dims(order, -2), -1)
    signed = multiply(v, expand_dims(as_complex(sign(w), v), -2))
    return stacks.back(v), stacks.back(abs(w)), adjoint(stacks.back(signed))


@public
def svd(x: ArrayLike, /, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """``U * S @ Vh == x``, with the singular values S from the greatest to the least.

    Of (..., m, n) with ``k = min(m, n)`` they are (..., m, k), (..., k) and (..., k, n), or with ``full_matrices``
    (..., m, m), (..., k) and (..., n, n); without ``compute_uv`` S is given alone. ``hermitian`` says that ``x`` is.
    The gradient of vectors is infinite or NaN where singular values are equal; those that complete the others to a
    square have none.
    """
    if hermitian:
        parts = _hermitian_svd(*one_square_stack("svd", x))
    else:
        parts = _svd(*one_stack("svd", x), full_matrices and compute_uv)
    return SVDResult(*parts) if compute_uv else parts[1]


@public
def svdvals(x: ArrayLike, /) -> Array:
    """The singular values from the greatest to the least: (..., min(m, n)) of (..., m, n)."""
    return _svd(*one_stack("svdvals", x), False)[1]
