"""Linear algebra on the last two axes, by the names of NumPy and of the Python array API standard.

Where a matrix has no answer (it is singular, not positive definite, or has NaN in it) the results are NaN or inf, as in
JAX, and right for the matrices beside it; there is no LinAlgError. All have derivatives, forward and backward.
"""

from __future__ import annotations

from dyn.numpy._linalg.factors import (
    EighResult,
    EigResult,
    QRResult,
    SVDResult,
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from dyn.numpy._linalg.matrix_products import cross, diagonal, multi_dot, outer, trace
from dyn.numpy._linalg.norms import matrix_norm, norm, vector_norm
from dyn.numpy._linalg.products import matmul, tensordot, vecdot
from dyn.numpy._linalg.solving import (
    SlogdetResult,
    cond,
    det,
    inv,
    lstsq,
    matrix_power,
    matrix_rank,
    pinv,
    slogdet,
    solve,
    tensorinv,
    tensorsolve,
)
from dyn.numpy._manipulation import matrix_transpose

__all__ = [
    "EigResult", "EighResult", "QRResult", "SVDResult", "SlogdetResult", "cholesky", "cond", "cross", "det", "diagonal",
    "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip
