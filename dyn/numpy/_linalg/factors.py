"""Factors of matrices: Cholesky's, QR, eigenvalues and singular values.

Matrices are the last two axes. LAPACK computes them in float32, float64, complex64 or complex128: 16-bit floats are
converted there and back. Where LAPACK gives up, on NaN or a matrix that is not positive definite, results are NaN for
that matrix, as in JAX, and nothing is raised. What the derivatives are is said in ``dyn/ops/linalg/spectral.py``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dyn.errors import InvalidValueError
from dyn.numpy._binary import multiply
from dyn.numpy._indexing.take import take_along_axis
from dyn.numpy._linalg.stacks import Stacks, adjoint, as_complex, one_square_stack, one_stack, symmetrized
from dyn.numpy._manipulation import expand_dims
from dyn.numpy._operands import emit, emit_all
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._sorting.sort import argsort
from dyn.numpy._unary import abs, sign
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = [
    "EigResult", "EighResult", "QRResult", "SVDResult", "cholesky", "eig", "eigh", "eigvals", "eigvalsh", "qr", "svd",
    "svdvals",
]  # fmt: skip


class EighResult(NamedTuple):
    """Results of :func:`eigh`.

    Args:
        eigenvalues: from the least to the greatest, (..., n), real.
        eigenvectors: in columns, (..., n, n).
    """

    eigenvalues: Array
    eigenvectors: Array


class EigResult(NamedTuple):
    """Results of :func:`eig`.

    Args:
        eigenvalues: in no order, (..., n), complex.
        eigenvectors: in columns, (..., n, n), complex.
    """

    eigenvalues: Array
    eigenvectors: Array


class QRResult(NamedTuple):
    """Results of :func:`qr`.

    Args:
        Q: matrices with orthonormal columns.
        R: upper triangular matrices.
    """

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """Results of :func:`svd`.

    Args:
        U: matrices with orthonormal columns.
        S: singular values from the greatest to the least.
        Vh: matrices with orthonormal rows.
    """

    U: Array
    S: Array
    Vh: Array


@public
def cholesky(x: ArrayLike, /, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """Cholesky factors of Hermitian, positive definite matrices.

    Args:
        x: array of shape (..., n, n) of any dtype; sizes may be symbolic, or 0.
        upper: whether U with ``U^H U == x`` is given, rather than L with ``L L^H == x``.
        symmetrize_input: whether ``(x + x^H) / 2`` is taken, as in JAX, so that gradients are symmetric; else one
            triangle is read.

    Returns:
        Triangular matrices of the shape of ``x``; NaN for one that is not definite, where NumPy raises. 16-bit floats
        are computed in float32, integers in the default float dtype.

    Raises:
        ShapeError: if matrices are not square, at the call at the latest.

    Example:
        >>> dnp.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]]))
        array([[2., 0.],
               [1., 2.]])
    """
    stacks, value = one_square_stack("cholesky", x)
    value = symmetrized(value) if symmetrize_input else value
    return stacks.back(emit("cholesky", value, lower=not upper))


@public
def qr(x: ArrayLike, /, mode: str = "reduced") -> Any:
    """QR factors of matrices: ``Q R == x`` with orthonormal columns in Q and an upper triangular R.

    Complete factors of more rows than columns have no derivative.

    Args:
        x: array of shape (..., m, n) of any dtype; sizes may be symbolic, or 0.
        mode: ``"reduced"``: k = min(m, n); ``"complete"``: k = m; ``"r"``: R alone.

    Returns:
        A :class:`QRResult` of (..., m, k) and (..., k, n), or R. 16-bit floats are computed in float32, integers in the
        default float dtype.

    Raises:
        InvalidValueError: if ``mode`` is another one.
        ShapeError: if ``x`` has fewer than two axes.

    Example:
        >>> dnp.linalg.qr(np.ones((3, 2))).Q.shape
        (3, 2)
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
    """Eigenvalues of Hermitian matrices from the least to the greatest, and their vectors.

    The gradient of vectors is infinite or NaN where eigenvalues are equal.

    Args:
        x: array of shape (..., n, n) of any dtype; sizes may be symbolic, or 0.
        UPLO: triangle that is read, ``"L"`` or ``"U"``; None: ``(x + x^H) / 2`` is taken, as in JAX.
        symmetrize_input: whether it is taken in any case; None: as ``UPLO`` says.

    Returns:
        An :class:`EighResult`. 16-bit floats are computed in float32, integers in the default float dtype.

    Raises:
        InvalidValueError: if ``UPLO`` is another one.
        ShapeError: if matrices are not square, at the call at the latest.

    Example:
        >>> dnp.linalg.eigh(np.array([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
        array([1., 2.])
    """
    return EighResult(*_eigh("eigh", x, UPLO, symmetrize_input))


@public
def eigvalsh(x: ArrayLike, /, UPLO: str | None = None, *, symmetrize_input: bool | None = None) -> Array:
    """Eigenvalues of Hermitian matrices from the least to the greatest.

    Args:
        x: array of shape (..., n, n) of any dtype; sizes may be symbolic, or 0.
        UPLO: triangle that is read, ``"L"`` or ``"U"``; None: ``(x + x^H) / 2`` is taken, as in JAX.
        symmetrize_input: whether it is taken in any case; None: as ``UPLO`` says.

    Returns:
        A real array of shape (..., n). 16-bit floats are computed in float32, integers in the default float dtype.

    Raises:
        InvalidValueError: if ``UPLO`` is another one.
        ShapeError: if matrices are not square, at the call at the latest.

    Example:
        >>> dnp.linalg.eigvalsh(np.array([[2.0, 0.0], [0.0, 1.0]]))
        array([1., 2.])
    """
    return _eigh("eigvalsh", x, UPLO, symmetrize_input)[0]


def _eig(what: str, x: ArrayLike) -> tuple[Tracer, Tracer]:
    _, value = one_square_stack(what, x)
    w, v = emit_all("eig", value, vectors=True)
    return w, v


@public
def eig(x: ArrayLike, /) -> EigResult:
    """Eigenvalues of square matrices, in no order, and their vectors.

    Vectors have length 1, and a phase that nothing should depend on: gradients leave it out.

    Args:
        x: array of shape (..., n, n) of any dtype; sizes may be symbolic, or 0.

    Returns:
        An :class:`EigResult`, complex of real matrices too, where NumPy's may be real. 16-bit floats are computed in
        float32, integers in the default float dtype.

    Raises:
        ShapeError: if matrices are not square, at the call at the latest.

    Example:
        >>> abs(dnp.linalg.eig(np.array([[0.0, -1.0], [1.0, 0.0]])).eigenvalues)
        array([1., 1.])
    """
    return EigResult(*_eig("eig", x))


@public
def eigvals(x: ArrayLike, /) -> Array:
    """Eigenvalues of square matrices, in no order.

    Args:
        x: array of shape (..., n, n) of any dtype; sizes may be symbolic, or 0.

    Returns:
        An array of shape (..., n), complex of real matrices too. 16-bit floats are computed in float32, integers in the
        default float dtype.

    Raises:
        ShapeError: if matrices are not square, at the call at the latest.

    Example:
        >>> abs(dnp.linalg.eigvals(np.array([[0.0, -1.0], [1.0, 0.0]])))
        array([1., 1.])
    """
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
    """Singular value decomposition of matrices: ``U * S @ Vh == x``.

    The gradient of vectors is infinite or NaN where singular values are equal; those that complete the others to a
    square have none.

    Args:
        x: array of shape (..., m, n) of any dtype; sizes may be symbolic, or 0.
        full_matrices: whether U is (..., m, m) and Vh (..., n, n), rather than with k = min(m, n) columns and rows.
        compute_uv: whether vectors are computed.
        hermitian: whether ``x`` is Hermitian, so that eigenvalues are taken.

    Returns:
        An :class:`SVDResult`, or S alone: (..., k), from the greatest to the least. 16-bit floats are computed in
        float32, integers in the default float dtype.

    Raises:
        ShapeError: if ``x`` has fewer than two axes. With ``hermitian``, if matrices are not square.

    Example:
        >>> dnp.linalg.svd(np.array([[3.0, 0.0], [0.0, 4.0]])).S
        array([4., 3.])
    """
    if hermitian:
        parts = _hermitian_svd(*one_square_stack("svd", x))
    else:
        parts = _svd(*one_stack("svd", x), full_matrices and compute_uv)
    return SVDResult(*parts) if compute_uv else parts[1]


@public
def svdvals(x: ArrayLike, /) -> Array:
    """Singular values of matrices from the greatest to the least.

    Args:
        x: array of shape (..., m, n) of any dtype; sizes may be symbolic, or 0.

    Returns:
        A real array of shape (..., min(m, n)). 16-bit floats are computed in float32, integers in the default float
        dtype.

    Raises:
        ShapeError: if ``x`` has fewer than two axes.

    Example:
        >>> dnp.linalg.svdvals(np.array([[3.0, 0.0], [0.0, 4.0]]))
        array([4., 3.])
    """
    return _svd(*one_stack("svdvals", x), False)[1]
