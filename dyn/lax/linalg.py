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
    """Cholesky factors of Hermitian, positive definite matrices.

    Args:
        a: array of shape (..., n, n), of float32, float64, complex64 or complex128; n may be symbolic, or 0.
        symmetrize_input: whether ``(a + a^H) / 2`` is taken, rather than the lower triangle.

    Returns:
        The lower triangular L with ``L L^H == a``, of the shape and dtype of ``a``; NaN for a matrix that is not
        definite.

    Raises:
        ShapeError: if matrices are not square, at the call at the latest.
        UnsupportedOpError: if ``a`` has another dtype, and is not made a float by being made symmetric.

    Example:
        >>> lax.linalg.cholesky(np.array([[4.0, 0.0], [0.0, 9.0]]))
        array([[2., 0.],
               [0., 3.]])
    """
    if symmetrize_input:
        a = _symmetrized("cholesky", a)
    return emitted("cholesky", "cholesky", [a], lower=True)[0]


@raw
def eigh(x: Array, *, lower: bool = True, symmetrize_input: bool = True) -> tuple[Array, Array]:
    """Eigenvectors and eigenvalues of Hermitian matrices.

    Args:
        x: array of shape (..., n, n), of float32, float64, complex64 or complex128; n may be symbolic, or 0.
        lower: whether the lower triangle is read rather than the upper one, where it is not made symmetric.
        symmetrize_input: whether ``(x + x^H) / 2`` is taken.

    Returns:
        The vectors, in the columns of (..., n, n), and the values from the least to the greatest, (..., n), real.

    Raises:
        ShapeError: if matrices are not square, at the call at the latest.
        UnsupportedOpError: if ``x`` has another dtype.

    Example:
        >>> lax.linalg.eigh(np.array([[2.0, 0.0], [0.0, 1.0]]))[1]
        array([1., 2.])
    """
    if symmetrize_input:
        x = _symmetrized("eigh", x)
    values, vectors = emitted("eigh", "eigh", [x], lower=lower, vectors=True)
    return vectors, values


@raw
def lu(x: Array) -> tuple[Array, Array, Array]:
    """LU factors of matrices with rows exchanged.

    Args:
        x: array of shape (..., m, n), of float32, float64, complex64 or complex128; sizes may be symbolic, or 0.

    Returns:
        The factors in one array: U in the upper triangle, L without its ones below; ``pivots`` (..., min(m, n)), int32:
        which row each step exchanged its own with; ``permutation`` (..., m), int32: the order that rows are in then.

    Raises:
        ShapeError: if ``x`` has fewer than two axes.
        UnsupportedOpError: if ``x`` has another dtype.

    Example:
        >>> lax.linalg.lu(np.array([[0.0, 2.0], [1.0, 3.0]]))
        (array([[1., 3.],
               [0., 2.]]), array([1, 1], dtype=int32), array([1, 0], dtype=int32))
    """
    factors, pivots, permutation = emitted("lu", "lu", [x])
    return factors, pivots, permutation


@raw
def qr(x: Array, *, full_matrices: bool = True) -> tuple[Array, Array]:
    """QR factors of matrices.

    Args:
        x: array of shape (..., m, n), of float32, float64, complex64 or complex128; sizes may be symbolic, or 0.
        full_matrices: whether Q is square.

    Returns:
        Q with orthonormal columns, m of them or ``min(m, n)``, and R, upper triangular.

    Raises:
        ShapeError: if ``x`` has fewer than two axes.
        UnsupportedOpError: if ``x`` has another dtype.
    """
    q, r = emitted("qr", "qr", [x], full_matrices=full_matrices)
    return q, r


@raw
def svd(x: Array, *, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Singular value decomposition of matrices.

    Args:
        x: array of shape (..., m, n), of float32, float64, complex64 or complex128; sizes may be symbolic, or 0.
        full_matrices: whether U and V^H are square.
        compute_uv: whether vectors are computed.

    Returns:
        U, the singular values from the greatest to the least, and V^H; or the values alone.

    Raises:
        ShapeError: if ``x`` has fewer than two axes.
        UnsupportedOpError: if ``x`` has another dtype.

    Example:
        >>> lax.linalg.svd(np.array([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False)
        array([4., 3.])
    """
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
    """Solutions of systems whose matrices are triangular: ``op(a) X == b``, or ``X op(a) == b``.

    What is on the other side of ``a`` is not read. Of a zero on the diagonal there come inf and NaN.

    Args:
        a: array of shape (..., n, n), of float32, float64, complex64 or complex128; n may be symbolic, or 0.
        b: array of the same dtype, (..., n, k) with ``left_side``, else (..., k, n); axes in front are equal.
        left_side: whether ``a`` is on the left.
        lower: whether ``a`` is lower triangular.
        transpose_a: whether ``op`` transposes.
        conjugate_a: whether ``op`` conjugates.
        unit_diagonal: whether the diagonal is taken for ones, and not read.

    Returns:
        X, of the shape and dtype of ``b``.

    Raises:
        ShapeError: if sizes do not fit, at the call at the latest, or dtypes differ.
        UnsupportedOpError: if the dtype is another one.

    Example:
        >>> a, b = np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([[2.0], [9.0]])
        >>> lax.linalg.triangular_solve(a, b, left_side=True, lower=True)
        array([[1.],
               [2.]])
    """
    if conjugate_a and not transpose_a and dtypes.dtype(a.dtype).kind is Kind.COMPLEX:
        (real,), (imag,) = (emitted("triangular_solve", part, [a]) for part in ("real", "imag"))
        (a,) = emitted("triangular_solve", "complex", [real, emitted("triangular_solve", "negate", [imag])[0]])
    how = "NO_TRANSPOSE" if not transpose_a else "ADJOINT" if conjugate_a else "TRANSPOSE"
    return emitted(
        "triangular_solve", "triangular_solve", [a, b],
        left_side=left_side, lower=lower, unit_diagonal=unit_diagonal, transpose_a=how,
    )[0]  # fmt: skip
