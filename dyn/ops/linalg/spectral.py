"""Eigenvalues and singular values, computed by LAPACK.

Derivatives: M. B. Giles, "An extended collection of matrix derivative results for forward and reverse mode algorithmic
differentiation", 2008; of the SVD as in JAX (J. Townsend, "Differentiating the singular value decomposition", 2016); of
eigenvectors that are not orthogonal C. Boeddeker et al., "On the computation of complex-valued gradients with
application to statistically optimum beamforming", 2017. Vectors have derivatives where values differ, inf and NaN where
two are equal; and up to a phase, which nothing that is computed of them should depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.errors import UnsupportedOpError
from dyn.ir.builder import Builder
from dyn.ir.core import Attr, Op, Value
from dyn.ir.opdef import Attrs, LibraryRoutine, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.counts import per_matrix, third
from dyn.ops.linalg.matrices import (
    LAPACK_DTYPES,
    OBLONGS,
    SQUARES,
    Array,
    Matrices,
    complex_of,
    each_matrix,
    positive_matrices,
    random_matrices,
    real_of,
    require_matrices,
    require_square,
)
from dyn.ops.transform_rules import pointwise_batch, transposed
from dyn.shapes import Dim, dim_max, dim_min


def _only_values(place: int) -> Callable[[Op, set[Value]], Op]:
    """``prune``: without the vectors, if nobody reads any; the values are result ``place``."""

    def prune(op: Op, live: set[Value]) -> Op:
        if not op.attrs["vectors"] or any(v in live for i, v in enumerate(op.results) if i != place):
            return op
        return replace(op, attrs={**op.attrs, "vectors": False}, results=(op.results[place],))

    return prune


def _from_left(matrix: Array) -> Array:
    """``matrix^H matrix``"""
    return np.conj(matrix.swapaxes(-1, -2)) @ matrix


def _with_vectors(b: Builder, op: Op) -> Sequence[Value]:
    """All results, for a derivative."""
    attrs: dict[str, Attr] = {**op.attrs, "vectors": True}
    return op.results if op.attrs["vectors"] else b.op_all(op.opdef.name, *op.operands, **attrs)


# --- eigh ---------------------------------------------------------------------------------------------------------


def _eigh_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (a,) = operands
    require_square(ctx, a)
    values = TensorType(real_of(a.dtype), a.shape[:-1])
    return (values, TensorType(a.dtype, a.shape)) if attrs["vectors"] else (values,)


def _eigh(a: Array, lower: bool, vectors: bool) -> Any:
    side = "L" if lower else "U"
    values = (a.shape[:-1], a.real.dtype)
    if not vectors:
        return each_matrix(lambda x: np.linalg.eigvalsh(x, side), a, outputs=(values,))
    return each_matrix(lambda x: tuple(np.linalg.eigh(x, side)), a, outputs=(values, (a.shape, a.dtype)))


def _eigh_jvp(b: Builder, op: Op, tangents: tuple[Value, ...]) -> tuple[Value, ...]:
    """Tangents of eigh: with ``C = V^H dA V``, ``dw`` is its diagonal, and ``dV = V (F * C)`` with
    ``F[i, j] = 1 / (w[j] - w[i])``."""
    m, lower = Matrices(b), op.attrs["lower"]
    w, v = _with_vectors(b, op)
    inner = m.dot(m.h(v), m.hermitian(tangents[0], lower), v)
    dw = m.real(m.diagonal(inner))
    if not op.attrs["vectors"]:
        return (dw,)
    gaps = m.gaps(m.columns(w, v.shape), m.rows(w, v.shape))
    return dw, m.dot(v, m.scale(inner, gaps))


def _eigh_determined(operands: Sequence[Array], results: Sequence[Array]) -> tuple[Array, ...]:
    """Values, the matrix again, and products of vectors: phases, and bases of equal values, are free."""
    values, *vectors = results
    return (values, *[part for v in vectors for part in ((v * values[..., None, :]) @ np.conj(v.mT), _from_left(v))])


#: The eigenvalues of Hermitian matrices from the least to the greatest, and with ``vectors`` the columns that they
#: belong to. Only one triangle is read, and the real part of the diagonal.
eigh = OpDef(
    "eigh",
    OpKind.OPAQUE,
    types=_eigh_types,
    loops=LibraryRoutine("eigh"),
    flops=per_matrix(lambda op, n, _: 9 * n * n * n if op.attrs["vectors"] else third(4 * n * n * n)),
    is_backward_stable=True,
    reference=_eigh,
    samples=lambda: [
        Sample((positive_matrices(shape, dtype),), {"lower": lower, "vectors": vectors})
        for dtype in LAPACK_DTYPES
        for shape in SQUARES
        for lower, vectors in ((True, True), (False, True), (True, False))
    ],
    vjp=transposed(_eigh_jvp), jvp=_eigh_jvp, batch=pointwise_batch,
    prune=_only_values(0),
    determined=_eigh_determined,
)  # fmt: skip


# --- svd ----------------------------------------------------------------------------------------------------------


def _svd_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (a,) = operands
    require_matrices(ctx, a)
    *lead, m, n = a.shape
    k = dim_min(m, n)
    values = TensorType(real_of(a.dtype), (*lead, k))
    if not attrs["vectors"]:
        return (values,)
    left, right = (m, n) if attrs["full_matrices"] else (k, k)
    return TensorType(a.dtype, (*lead, m, left)), values, TensorType(a.dtype, (*lead, right, n))


def _svd(a: Array, full_matrices: bool, vectors: bool) -> Any:
    *lead, m, n = a.shape
    k = min(m, n)
    values = ((*lead, k), a.real.dtype)
    if not vectors:
        return each_matrix(lambda x: np.linalg.svd(x, compute_uv=False), a, outputs=(values,))
    left, right = (m, n) if full_matrices else (k, k)
    return each_matrix(
        lambda x: tuple(np.linalg.svd(x, full_matrices=full_matrices)),
        a,
        outputs=(((*lead, m, left), a.dtype), values, ((*lead, right, n), a.dtype)),
    )


def _svd_flops(op: Op, m: Dim, n: Dim) -> Dim:
    """Golub and Reinsch's: the singular values alone, with as many vectors, or with all of the longer side."""
    k, q = dim_min(m, n), dim_max(m, n)
    if not op.attrs["vectors"]:
        return 4 * q * k * k - third(4 * k * k * k)
    if op.attrs["full_matrices"]:
        return 4 * q * q * k + 8 * q * k * k + 9 * k * k * k
    return 14 * q * k * k + 8 * k * k * k


def _svd_jvp(b: Builder, op: Op, tangents: tuple[Value]) -> tuple[Value, ...]:
    """Tangents of SVD: with ``C = U^H dA V``, ``ds`` is its diagonal; ``dU = U (F * (C S + S C^H))`` and what leaves
    the span of U."""
    m, (t,), (a,) = Matrices(b), tangents, op.operands
    *_, rows, columns = a.shape
    if not op.attrs["vectors"]:
        u, s, vh = b.op_all("svd", a, full_matrices=False, vectors=True)
        return (m.real(m.diagonal(m.dot(m.h(u), t, m.h(vh)))),)
    if op.attrs["full_matrices"] and not b.facts.eq(rows, columns).proved:
        raise UnsupportedOpError(
            "svd: the full factors of matrices that may not be square have no derivative, for the vectors that "
            "complete them are not determined.",
            loc=op.loc,
            remedy="use full_matrices=False.",
        )
    u, s, vh = op.results
    v = m.h(vh)
    inner = m.dot(m.h(u), t, v)
    shape = inner.shape
    right, left = m.rows(s, shape), m.columns(s, shape)
    # 1 / (s[j]^2 - s[i]^2), as the product of a difference and a sum.
    one = m.eye(right)
    gaps = m.sub(m.div(m.fill(right, 1), m.add(m.mul(m.add(right, left), m.sub(right, left)), one)), one)
    by_right, by_left = m.scale(inner, right), m.scale(inner, left)
    du = m.scale(m.add(by_right, m.h(by_right)), gaps)
    dv = m.scale(m.add(by_left, m.h(by_left)), gaps)
    if inner.dtype.kind is dtypes.Kind.COMPLEX:  # the phases, which the two share
        none = m.cmp(right, "EQ", 0)
        inverse = m.where(none, 0, m.div(m.fill(right, 0.5), m.where(none, 1, right)))
        du = m.add(du, m.keep(m.scale(m.sub(inner, m.h(inner)), inverse), "EQ"))
    du, dv = m.dot(u, du), m.dot(v, dv)
    if not b.facts.ge(columns, rows).proved:
        du = m.add(du, _outside(m, u, m.dot(t, v), s, _more(m, op, rows, columns, u)))
    if not b.facts.ge(rows, columns).proved:
        dv = m.add(dv, _outside(m, v, m.dot(m.h(t), u), s, _more(m, op, columns, rows, v)))
    return du, m.real(m.diagonal(inner)), m.h(dv)


def _more(m: Matrices, op: Op, size: Any, other: Any, like: Value) -> Value | None:
    """Whether one size is greater than another, everywhere in the shape of ``like``; None where it is known to be."""
    if m.b.facts.ge(size, other + 1).proved:
        return None
    sizes = [m.b.op("dim_size", size=d, dtype=dtypes.int64) for d in (size, other)]
    return m.b.op("broadcast_in_dim", m.cmp(sizes[0], "GT", sizes[1]), shape=like.shape, dims=())


def _outside(m: Matrices, u: Value, change: Value, s: Value, where: Value | None) -> Value:
    """The part of a change that is orthogonal to the columns of ``u``, by the singular values; 0 where there is none:
    where the columns span everything, which leaves but rounding."""
    own = m.sub(change, m.dot(u, m.dot(m.h(u), change)))
    values = m.rows(s, own.shape)
    if where is not None:
        own, values = m.where(where, own, 0), m.where(where, values, 1)
    return m.div(own, m.as_complex(values) if own.dtype.kind is dtypes.Kind.COMPLEX else values)


def _svd_determined(operands: Sequence[Array], results: Sequence[Array]) -> tuple[Array, ...]:
    """As of :func:`_eigh_determined`: values, the matrix again, and products of vectors."""
    if len(results) == 1:
        return tuple(results)
    u, values, vh = results
    count = values.shape[-1]
    matrix = (u[..., :count] * values[..., None, :]) @ vh[..., :count, :]
    return values, matrix, _from_left(u), _from_left(np.conj(vh.mT))


#: ``U``, the singular values from the greatest to the least, and ``V^H``, with ``U * s @ V^H == a``: without
#: ``vectors`` the values alone; with ``full_matrices`` both are square.
svd = OpDef(
    "svd",
    OpKind.OPAQUE,
    types=_svd_types,
    loops=LibraryRoutine("svd"),
    flops=per_matrix(_svd_flops),
    is_backward_stable=True,
    reference=_svd,
    samples=lambda: [
        Sample((random_matrices(shape, dtype),), {"full_matrices": False, "vectors": vectors})
        for dtype in LAPACK_DTYPES
        for shape in OBLONGS
        for vectors in (True, False)
    ],
    vjp=transposed(_svd_jvp), jvp=_svd_jvp, batch=pointwise_batch,
    prune=_only_values(1),
    determined=_svd_determined,
)  # fmt: skip


# --- eig ----------------------------------------------------------------------------------------------------------


def _eig_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (a,) = operands
    require_square(ctx, a)
    own = complex_of(a.dtype)
    values = TensorType(own, a.shape[:-1])
    return (values, TensorType(own, a.shape)) if attrs["vectors"] else (values,)


def _eig(a: Array, vectors: bool) -> Any:
    own = np.result_type(a.dtype, np.complex64)
    values = (a.shape[:-1], own)
    if not vectors:
        return each_matrix(np.linalg.eigvals, a, outputs=(values,))
    return each_matrix(lambda x: tuple(np.linalg.eig(x)), a, outputs=(values, (a.shape, own)))


def _eig_jvp(b: Builder, op: Op, tangents: tuple[Value, ...]) -> tuple[Value, ...]:
    """Tangents of eig: with ``C = inv(V) dA V``, ``dw`` is its diagonal; ``dV = V (F * C)``, less what would change
    lengths."""
    m = Matrices(b)
    w, v = _with_vectors(b, op)
    inner = b.op("solve", v, m.dot(m.as_complex(tangents[0]), v))
    dw = m.diagonal(inner)
    if not op.attrs["vectors"]:
        return (dw,)
    free = m.dot(v, m.mul(inner, m.gaps(m.columns(w, v.shape), m.rows(w, v.shape))))
    longer = m.real(m.mul(m.conj(v), free))
    along = b.op("reduce", longer, axes=(len(v.shape) - 2,), combine="add", nonempty=False)
    return dw, m.sub(free, m.scale(v, m.rows(along, v.shape)))


def _eig_determined(operands: Sequence[Array], results: Sequence[Array]) -> tuple[Array, ...]:
    """Values, in an order, and vectors by what they leave of the matrix, which is added to it, and by their lengths."""
    (a,), (values, *vectors) = operands, results
    # The order is that of a direction in which neither conjugates nor opposite values are equal.
    order = np.argsort(values.real + 0.618 * values.imag, axis=-1)
    parts = [(a + (a @ v - v * values[..., None, :]), np.linalg.norm(v, axis=-2)) for v in vectors]
    return (np.take_along_axis(values, order, axis=-1), *[one for part in parts for one in part])


#: The eigenvalues of square matrices, complex ones, and with ``vectors`` the columns of length 1 that they belong to.
eig = OpDef(
    "eig",
    OpKind.OPAQUE,
    types=_eig_types,
    loops=LibraryRoutine("eig"),
    flops=per_matrix(lambda op, n, _: (25 if op.attrs["vectors"] else 10) * n * n * n),
    is_backward_stable=True,
    reference=_eig,
    samples=lambda: [
        Sample((random_matrices(shape, dtype),), {"vectors": vectors})
        for dtype in LAPACK_DTYPES
        for shape in SQUARES
        for vectors in (True, False)
    ],
    vjp=transposed(_eig_jvp), jvp=_eig_jvp, batch=pointwise_batch,
    prune=_only_values(0),
    determined=_eig_determined,
)  # fmt: skip
