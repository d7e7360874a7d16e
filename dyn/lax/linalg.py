"""Factors of matrices as ``jax.lax.linalg`` has them: of the last two axes of float32, float64, complex64, complex128.

Nothing is broadcast or converted, and nothing is made symmetric unless it says so. Where a matrix has no answer the
results are NaN for that one. ``dyn.numpy.linalg`` has the functions that people use.
"""

from __future__ import annotations

from typing import Any

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.lax._operands import emitted, raw
from dyn.trace.tracer import Tracer

__all__ = ["cholesky", "eigh", "lu", "qr", "svd", "triangular_solve"]

#: An array; a tracer inside of a trace, and what the caller's arrays are outside of one.
Array = Any


def _symmetrized(what: str, x: Array) -> Tracer:
    """``(x + x^H) / 2``"""
    rank = x.ndim
    (turned,) = emitted(what, "transpose", [x], permutation=(*range(rank - 2), rank - 1, rank - 2))
    if turned.element_type.kind is Kind.COMPLEX:
        real, imag = (emitted(what, part, [turned])[0] for part in ("real", "imag"))
        (turned,) = emitted(what, "complex", [real, emitted(what, "negate", [imag])[0]])
    return (x + turned) * 0.5


@raw
def cholesky(a: Array, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular L with ``L L^H == a``, or of ``(a + a^H) / 2`` with ``symmetrize_input``."""
    if symmetrize_input:
        a = _symmetrized("cholesky", a)
    return emitted("cholesky", "cholesky", [a], lower=True)[0]


@raw
def eigh(x: Array, *, lower: bool = True, symmetrize_input: bool = True) -> tuple[Array, Array]:
    """The eigenvectors of Hermitian matrices, in columns, and the eigenvalues from the least to the greatest.

    Without ``symmetrize_input`` one triangle is read: the lower one, or the upper.
    """
    if symmetrize_input:
        x = _symmetrized("eigh", x)
    values, vectors = emitted("eigh", "eigh", [x], lower=lower, vectors=True)
    return vectors, values


@raw
def lu(x: Array) -> tuple[Array, Array, Array]:
    """The factors of (..., m, n) with rows exchanged, pivots and permutation.

    U stands in the upper triangle, and L without its ones below; ``pivots`` (..., min(m, n)) say which row each step
    exchanged its own with, and ``permutation`` (..., m) the order that rows are in then; both are int32.
    """
    factors, pivots, permutation = emitted("lu", "lu", [x])
    return factors, pivots, permutation


@raw
def qr(x: Array, *, full_matrices: bool = True) -> tuple[Array, Array]:
    """Q with orthonormal columns, m of (..., m, n) with ``full_matrices``, else min(m, n); and R, upper triangular."""
    q, r = emitted("qr", "qr", [x], full_matrices=full_matrices)
    return q, r


@raw
def svd(x: Array, *, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """``U``, the singular values from the greatest to the least, and ``V^H``; those alone without ``compute_uv``."""
    if not compute_uv:
        return emitted("svd", "svd", [x], full_matrices=False, vectors=False)[0]
    u, s, vh = emitted("svd", "svd", [x], full_matrices=full_matrices, vectors=True)
    return u, s, vh


@raw
def triangular_solve(
    a: Array,
    b: Array,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """``X`` of ``op(a) X == b`` with ``left_side``, else of ``X op(a) == b``; ``a`` is triangular.

    ``op`` transposes, and conjugates what is transposed. What is on the other side of ``a`` is not read, nor its
    diagonal with ``unit_diagonal``. Of a zero on the diagonal inf and NaN.
    """
    if conjugate_a and not transpose_a and dtypes.dtype(a.dtype).kind is Kind.COMPLEX:
        (real,), (imag,) = (emitted("triangular_solve", part, [a]) for part in ("real", "imag"))
        (a,) = emitted("triangular_solve", "complex", [real, emitted("triangular_solve", "negate", [imag])[0]])
    how = "NO_TRANSPOSE" if not transpose_a else "ADJOINT" if conjugate_a else "TRANSPOSE"
    return emitted(
        "triangular_solve", "triangular_solve", [a, b],
        left_side=left_side, lower=lower, unit_diagonal=unit_diagonal, transpose_a=how,
    )[0]  # fmt: skip
