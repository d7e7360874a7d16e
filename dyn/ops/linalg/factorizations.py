"""LU and QR factors, computed by LAPACK.

Derivatives: S. F. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions with application in
optimum experimental design", 2010; of LU as in JAX (``lax.linalg.lu``), of a QR with more columns than rows
D. A. O. Roberts and L. R. Roberts, "QR and LQ decomposition matrix backpropagation algorithms", 2020.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import UnsupportedOpError
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.differentiate import zeros
from dyn.ir.opdef import Attrs, LibraryRoutine, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.counts import per_matrix, third
from dyn.ops.indexing.along import take_along
from dyn.ops.linalg.matrices import LAPACK_DTYPES, OBLONGS, Array, Matrices, random_matrices, require_matrices
from dyn.ops.transform_rules import pointwise_batch, transposed
from dyn.requirements import scipy_module
from dyn.shapes import Dim, dim_max, dim_min

# --- lu -----------------------------------------------------------------------------------------------------------


def _lu_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (a,) = operands
    require_matrices(ctx, a)
    *lead, m, n = a.shape
    return (
        TensorType(a.dtype, a.shape),
        TensorType(dtypes.int32, (*lead, dim_min(m, n))),
        TensorType(dtypes.int32, (*lead, m)),
    )


def _lu(a: Array) -> tuple[Array, Array, Array]:
    *lead, m, n = a.shape
    factors, pivots = np.array(a), np.zeros((*lead, min(m, n)), np.int32)
    if a.size:
        getrf: Any = scipy_module("linalg", "lu").get_lapack_funcs("getrf", dtype=a.dtype)
        for place in np.ndindex(*lead):
            factors[place], pivots[place], _ = getrf(a[place])
    return factors, pivots, _permutations(pivots, m)


def _permutations(pivots: Array, size: int) -> Array:
    """The rows' order after exchanging row i with row ``pivots[i]``, one after the other, for all matrices at once."""
    flat = pivots.reshape(-1, pivots.shape[-1]) if pivots.size else np.zeros((int(np.prod(pivots.shape[:-1])), 0), int)
    order = np.tile(np.arange(size, dtype=np.int32), (len(flat), 1))
    every = np.arange(len(flat))
    for i in range(flat.shape[1]):
        other = flat[:, i]
        order[every, i], order[every, other] = order[every, other], order[every, i].copy()
    return order.reshape(*pivots.shape[:-1], size)


def _lu_jvp(b: Builder, op: Op, tangents: tuple[Value]) -> tuple[Value | None, ...]:
    """Tangents of LU: with ``F = inv(L) P dA inv(U)``, ``dL = L tril(F, -1)`` and ``dU = triu(F) U``."""
    m, (t,), (factors, _, order) = Matrices(b), tangents, op.results
    rank = len(factors.shape)
    rows = b.op("broadcast_in_dim", order, shape=t.shape, dims=tuple(range(rank - 1)))
    moved = take_along(b, t, rows, rank - 2)
    lower, upper = _lower(m, factors), _upper(m, factors)
    inner = m.triangular(lower, moved, lower=True, unit=True)
    inner = m.triangular(upper, inner, lower=False, left=False)
    tangent = m.add(m.dot(lower, m.keep(inner, "GT")), m.dot(m.keep(inner, "LE"), upper))
    return tangent, None, None


def _lower(m: Matrices, factors: Value) -> Value:
    """L of (m, n) factors, as a square matrix: ones on its diagonal, and zeros in columns that it does not have."""
    *_, rows, columns = factors.shape
    k = dim_min(rows, columns)
    below = _padded(m, _cut(m, m.keep(factors, "GT"), rows, k), 0, rows - k)
    return m.add(below, m.eye(below))


def _upper(m: Matrices, factors: Value) -> Value:
    """U of (m, n) factors, as a square matrix with ones on the diagonal in the rows that it does not have."""
    *_, rows, columns = factors.shape
    k = dim_min(rows, columns)
    above = _padded(m, _cut(m, m.keep(factors, "LE"), k, columns), columns - k, 0)
    place = m.b.op("iota", shape=above.shape, dimension=len(above.shape) - 2, dtype=dtypes.int64)
    size = m.b.op("dim_size", size=k, dtype=dtypes.int64)
    end = m.b.op("broadcast_in_dim", size, shape=above.shape, dims=())
    return m.where(m.f("and", m.mask(above, "EQ"), m.cmp(place, "GE", end)), 1, above)


def _cut(m: Matrices, x: Value, rows: Dim, columns: Dim) -> Value:
    """The first rows and columns."""
    lead = x.shape[:-2]
    return m.b.op("slice", x, start=(0,) * len(x.shape), limit=(*lead, rows, columns), strides=(1,) * len(x.shape))


def _padded(m: Matrices, x: Value, rows: Dim, columns: Dim) -> Value:
    """Append so many rows and columns of zeros."""
    before, lead = (0,) * len(x.shape), (0,) * (len(x.shape) - 2)
    zero = zeros(m.b, TensorType(x.dtype, ()))
    return m.b.op(
        "pad", x, zero, edge_padding_low=before, edge_padding_high=(*lead, rows, columns), interior_padding=before
    )


def _lu_flops(op: Op, m: Dim, n: Dim) -> Dim:
    k = dim_min(m, n)
    return dim_max(m, n) * k * k - third(k * k * k)


#: The factors of a matrix with its rows in another order: U, and below it L without its diagonal of ones; which row
#: each step exchanged its own with; and that order: ``a[permutation] == L U``. (JAX's ``lax.linalg.lu``.)
lu = OpDef(
    "lu",
    OpKind.OPAQUE,
    types=_lu_types,
    loops=LibraryRoutine("lu"),
    flops=per_matrix(_lu_flops),
    is_backward_stable=True,
    reference=_lu,
    samples=lambda: [Sample((random_matrices(shape, dtype),)) for dtype in LAPACK_DTYPES for shape in OBLONGS],
    vjp=transposed(_lu_jvp), jvp=_lu_jvp, batch=pointwise_batch,
)  # fmt: skip


# --- qr -----------------------------------------------------------------------------------------------------------


def _qr_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (a,) = operands
    require_matrices(ctx, a)
    *lead, m, n = a.shape
    k = m if attrs["full_matrices"] else dim_min(m, n)
    return TensorType(a.dtype, (*lead, m, k)), TensorType(a.dtype, (*lead, k, n))


def _qr(a: Array, full_matrices: bool) -> tuple[Array, Array]:
    q, r = np.linalg.qr(a, mode="complete" if full_matrices else "reduced")
    return q.astype(a.dtype, copy=False), r.astype(a.dtype, copy=False)


def _qr_jvp(b: Builder, op: Op, tangents: tuple[Value]) -> tuple[Value, Value]:
    """Tangents of QR, of the first columns ``X = Q U``: with ``C = Q^H dX inv(U)`` and D its lower triangle less that
    one's adjoint, ``dQ = Q (D - C) + dX inv(U)``. Then ``R = Q^H A``."""
    m, (t,), (a,), (q, r) = Matrices(b), tangents, op.operands, op.results
    *_, rows, columns = a.shape
    if op.attrs["full_matrices"] and not b.facts.ge(columns, rows).proved:
        raise UnsupportedOpError(
            "qr: the complete factors of matrices that may have more rows than columns have no derivative, for the "
            "columns that complete Q are not determined.",
            loc=op.loc,
            remedy="use mode='reduced'.",
        )
    k = q.shape[-1]
    change = m.triangular(_cut(m, r, k, k), _cut(m, t, rows, k), lower=False, left=False)
    inner = m.dot(m.h(q), change)
    below = m.keep(inner, "GT")
    turn = m.sub(below, m.h(below))
    if inner.dtype.kind is Kind.COMPLEX:  # R's diagonal is real
        turn = m.add(turn, m.keep(m.imaginary(inner), "EQ"))
    dq = m.add(m.dot(q, m.sub(turn, inner)), change)
    dr = m.add(m.dot(m.h(dq), a), m.dot(m.h(q), t))
    return dq, m.keep(dr, "LE")


def _qr_flops(op: Op, m: Dim, n: Dim) -> Dim:
    """R by Householder's reflections, and as much again for as many columns of Q; all m columns take more."""
    k = dim_min(m, n)
    triangular = 2 * dim_max(m, n) * k * k - third(2 * k * k * k)
    return triangular + (4 * m * k * (m - k) + third(4 * k * k * k) if op.attrs["full_matrices"] else triangular)


#: Q with orthonormal columns, and the upper triangular R, with ``Q R == a``: min(m, n) columns, or all m with
#: ``full_matrices``.
qr = OpDef(
    "qr",
    OpKind.OPAQUE,
    types=_qr_types,
    loops=LibraryRoutine("qr"),
    flops=per_matrix(_qr_flops),
    is_backward_stable=True,
    reference=_qr,
    samples=lambda: [
        Sample((random_matrices(shape, dtype),), {"full_matrices": False})
        for dtype in LAPACK_DTYPES
        for shape in OBLONGS
    ],
    vjp=transposed(_qr_jvp), jvp=_qr_jvp, batch=pointwise_batch,
)  # fmt: skip
