"""Systems of equations, inverses and determinants, computed by LAPACK.

Each is an op, and not composed of factors: its derivative is then a few products (M. B. Giles, "An extended collection
of matrix derivative results for forward and reverse mode algorithmic differentiation", 2008), to any order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.opdef import REGISTRY, Attrs, Composite, LibraryRoutine, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.counts import per_matrix, third
from dyn.ops.linalg.matrices import (
    LAPACK_DTYPES,
    OBLONGS,
    SQUARES,
    Array,
    Matrices,
    each_matrix,
    random_matrices,
    real_of,
    require_matrices,
    require_square,
)
from dyn.ops.transform_rules import pointwise_batch, transposed
from dyn.shapes import RelKind


def _square_samples() -> list[Sample]:
    return [Sample((random_matrices(shape, dtype),)) for dtype in LAPACK_DTYPES for shape in SQUARES]


# --- solve --------------------------------------------------------------------------------------------------------


def _solve_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    a, y = operands
    require_matrices(ctx, a, y)
    require_square(ctx, a)
    ctx.require(RelKind.EQ, a.shape[-1], y.shape[-2], "the matrix has as many rows as the right side")
    return (TensorType(y.dtype, y.shape),)


def _solve(a: Array, y: Array) -> Array:
    return each_matrix(np.linalg.solve, a, y, outputs=((y.shape, y.dtype),))


def _solve_jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value]:
    """``dX = inv(A) (dB - dA X)``"""
    m, (a, _), (da, dy) = Matrices(b), op.operands, tangents
    if da is None:
        assert dy is not None, "not all tangents are zero"
        return (b.op("solve", a, dy),)
    moved = m.dot(da, op.result)
    return (b.op("solve", a, m.neg(moved) if dy is None else m.sub(dy, moved)),)


def _solve_vjp(b: Builder, op: Op, cts: tuple[Value, ...]) -> tuple[Value, Value]:
    """``B* = inv(A)^T X*`` and ``A* = -B* X^T``."""
    m, (a, _) = Matrices(b), op.operands
    dy = b.op("solve", m.t(a), cts[0])
    return m.neg(m.dot(dy, m.t(op.result))), dy


#: ``X`` of ``A X = B``, for square matrices A. Of a singular one NaN.
solve = OpDef(
    "solve",
    OpKind.OPAQUE,
    types=_solve_types,
    loops=LibraryRoutine("solve"),
    flops=per_matrix(lambda op, n, _: third(2 * n * n * n) + 2 * n * n * op.operands[1].shape[-1]),
    is_backward_stable=True,
    reference=_solve,
    samples=lambda: [
        Sample((random_matrices(shape, dtype), random_matrices((*shape[:-1], count), dtype, 1)))
        for dtype in LAPACK_DTYPES
        for shape in SQUARES
        for count in (0, 2)
    ],
    vjp=_solve_vjp, jvp=_solve_jvp, batch=pointwise_batch,
)  # fmt: skip


# --- inverses -----------------------------------------------------------------------------------------------------


def _square_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (a,) = operands
    require_square(ctx, a)
    return (TensorType(a.dtype, a.shape),)


def _inverse_jvp(b: Builder, op: Op, tangents: tuple[Value, ...]) -> tuple[Value]:
    m, y = Matrices(b), op.result
    return (m.neg(m.dot(y, tangents[0], y)),)


def _inverse_vjp(b: Builder, op: Op, cts: tuple[Value, ...]) -> tuple[Value]:
    m = Matrices(b)
    y = m.t(op.result)
    return (m.neg(m.dot(y, cts[0], y)),)


#: The inverses of square matrices. Of a singular one NaN.
inverse = OpDef(
    "inverse",
    OpKind.OPAQUE,
    types=_square_types,
    loops=LibraryRoutine("inverse"),
    flops=per_matrix(lambda op, n, _: 2 * n * n * n),
    is_backward_stable=True,
    reference=lambda a: each_matrix(np.linalg.inv, a, outputs=((a.shape, a.dtype),)),
    samples=_square_samples,
    vjp=_inverse_vjp, jvp=_inverse_jvp, batch=pointwise_batch,
)  # fmt: skip


def _pinv_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    a, rtol = operands
    require_matrices(ctx, a)
    if rtol.dtype is not real_of(a.dtype) or rtol.rank != a.rank - 2:
        raise ctx.fail(f"{rtol} is not a real tolerance for each matrix of {a}")
    for axis, (own, other) in enumerate(zip(rtol.shape, a.shape, strict=False)):
        ctx.require(RelKind.EQ, own, other, f"there is a tolerance for each matrix, along axis {axis}")
    *lead, m, n = a.shape
    return (TensorType(a.dtype, (*lead, n, m)),)


def _pinv(a: Array, rtol: Array) -> Array:
    *lead, m, n = a.shape
    # A stack of one, where a matrix is computed alone, so that its tolerance has an axis to stand along.
    values = rtol[..., None, None] * np.ones((1, 1), rtol.dtype)
    made = each_matrix(
        lambda x, limit: np.linalg.pinv(x, limit[..., 0, 0]), a, values, outputs=(((*lead, n, m), a.dtype),)
    )
    finite = np.isfinite(a).all(axis=(-2, -1), keepdims=True)  # of an infinite matrix NumPy has zeros
    return np.where(finite, made, np.array(np.nan, a.dtype))


def _pinv_jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value | None]:
    """G. H. Golub and V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose
    variables separate", 1973. The rank is taken not to change."""
    m, (a, _), (t, _), p = Matrices(b), op.operands, tangents, op.result
    if t is None:
        return (None,)
    ph, th = m.h(p), m.h(t)
    first = m.dot(p, m.dot(ph, th))
    second = m.dot(th, m.dot(ph, p))
    outer = m.add(m.sub(first, m.dot(first, m.dot(a, p))), m.sub(second, m.dot(p, m.dot(a, second))))
    return (m.sub(outer, m.dot(p, m.dot(t, p))),)


def _pinv_by_values(b: Builder, op: Op) -> tuple[Value]:
    """``V inv(S) U^H`` of the singular values that are more than the tolerance. Vectors that are NaN make all NaN."""
    m, (a, rtol) = Matrices(b), op.operands
    u, s, vh = b.op_all("svd", a, full_matrices=False, vectors=True)
    rank = len(a.shape)
    top = b.op("reduce", s, axes=(rank - 2,), combine="maximum", nonempty=False)
    limit = b.op("broadcast_in_dim", m.mul(top, rtol), shape=s.shape, dims=tuple(range(rank - 2)))
    large = m.cmp(s, "GT", limit)
    inverse = m.where(large, m.div(m.fill(s, 1), m.where(large, s, 1)), 0)
    uh = m.h(u)
    return (m.dot(m.h(vh), m.scale(uh, m.columns(inverse, uh.shape))),)


#: The pseudo-inverse of Moore and Penrose: singular values of up to ``rtol`` times the greatest are taken for 0.
pinv = OpDef(
    "pinv",
    OpKind.OPAQUE,
    types=_pinv_types,
    loops=Composite(),
    is_backward_stable=True,
    reference=_pinv,
    samples=lambda: [
        Sample((random_matrices(shape, dtype), np.full(shape[:-2], 1e-6, real_of(dtype).np)))
        for dtype in LAPACK_DTYPES
        for shape in OBLONGS
    ],
    vjp=transposed(_pinv_jvp), jvp=_pinv_jvp, batch=pointwise_batch,
    simplify=_pinv_by_values,
)  # fmt: skip


# --- determinants -------------------------------------------------------------------------------------------------


def _det_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (a,) = operands
    require_square(ctx, a)
    return (TensorType(a.dtype, a.shape[:-2]),)


def _det_jvp(b: Builder, op: Op, tangents: tuple[Value, ...]) -> tuple[Value]:
    """Jacobi's: the trace of ``adj(A) dA``."""
    m, (a,) = Matrices(b), op.operands
    return (m.total(m.mul(m.t(b.op("adjugate", a)), tangents[0])),)


def _det_vjp(b: Builder, op: Op, cts: tuple[Value, ...]) -> tuple[Value]:
    m, (a,) = Matrices(b), op.operands
    return (m.mul(m.spread(cts[0], a.shape), m.t(b.op("adjugate", a))),)


#: The determinants of square matrices.
det = OpDef(
    "det",
    OpKind.OPAQUE,
    types=_det_types,
    loops=LibraryRoutine("det"),
    flops=per_matrix(lambda op, n, _: third(2 * n * n * n)),
    is_backward_stable=True,
    reference=lambda a: each_matrix(np.linalg.det, a, outputs=((a.shape[:-2], a.dtype),)),
    samples=_square_samples,
    vjp=_det_vjp, jvp=_det_jvp, batch=pointwise_batch,
)  # fmt: skip


def _adjugate(a: Array) -> Array:
    """``det(a) inv(a)``; of a singular matrix, or nearly so, by its singular values and what they come to without each
    one."""
    if a.size == 0:
        return np.array(a)
    with np.errstate(all="ignore"):
        inverses = each_matrix(np.linalg.inv, a, outputs=((a.shape, a.dtype),))
        made = np.linalg.det(a)[..., None, None] * inverses
        size = np.abs(a).sum(axis=-1).max(axis=-1) * np.abs(inverses).sum(axis=-1).max(axis=-1)
        near = ~(size < 1 / np.sqrt(np.finfo(a.dtype).eps))
        known = np.isfinite(a).all(axis=(-1, -2))
        for place in map(tuple, np.argwhere(near & known)):
            made[place] = _adjugate_by_values(a[place])
    return made.astype(a.dtype, copy=False)


def _adjugate_by_values(a: Array) -> Array:
    u, s, vh = np.linalg.svd(a)
    before = np.concatenate([np.ones(1, s.dtype), np.cumprod(s)[:-1]])
    after = np.concatenate([np.cumprod(s[::-1])[::-1][1:], np.ones(1, s.dtype)])
    turn = np.linalg.det(u) * np.linalg.det(vh)
    return turn * (np.conj(vh.T) * (before * after)) @ np.conj(u.T)


def _adjugate_jvp(b: Builder, op: Op, tangents: tuple[Value]) -> tuple[Value]:
    """``(tr(adj dA) adj - adj dA adj) / det``, from ``adj = det inv``; of a matrix that is singular, or nearly so, by
    its singular values. Each is computed of matrices that it is right for, and brings no NaN into the other."""
    m, (a,), (t,) = Matrices(b), op.operands, tangents
    (values,) = b.emit(REGISTRY["svd"], (a,), full_matrices=False, vectors=False)
    rank = len(a.shape)
    least, most = (
        b.op("reduce", values, axes=(rank - 2,), combine=combine, nonempty=False) for combine in ("minimum", "maximum")
    )
    regular = m.cmp(least, "GT", m.mul(most, float(np.sqrt(np.finfo(values.dtype.np).eps))))
    regular = m.spread(regular, a.shape)
    return (m.where(regular, _by_inverse(m, m.where(regular, a, m.eye(a)), t), _by_values(m, a, regular, t)),)


def _by_inverse(m: Matrices, a: Value, t: Value) -> Value:
    y = m.b.op("adjugate", a)
    whole = m.sub(m.mul(m.spread(m.total(m.mul(m.t(y), t)), a.shape), y), m.dot(y, t, y))
    return m.div(whole, m.spread(m.b.op("det", a), a.shape))


def _by_values(m: Matrices, a: Value, regular: Value, t: Value) -> Value:
    """``det(U V^H) V D U^H`` of ``A = U S V^H``: with ``T = U^H dA V`` and ``P_ij`` the product of the singular values
    but the i-th and the j-th, ``D_ij = -P_ij T_ij``, and on the diagonal ``sum_k P_ik T_kk``."""
    places = m.b.op("iota", shape=a.shape, dimension=len(a.shape) - 1, dtype=dtypes.int64)
    steps = m.keep(m.add(m.b.op("convert", places, dtype=a.dtype), 1), "EQ")  # 1, 2, …: different singular values
    u, s, vh = m.b.emit(REGISTRY["svd"], (m.where(regular, steps, a),), full_matrices=True, vectors=True)
    turned = m.dot(m.h(u), t, m.h(vh))
    products = _without_two(m, s, a)
    on_diagonal = m.columns(m.total_rows(m.mul(products, m.rows(m.diagonal(turned), a.shape))), a.shape)
    change = m.sub(m.keep(on_diagonal, "EQ"), m.mul(products, turned))
    turn = m.spread(m.mul(m.b.op("det", u), m.b.op("det", vh)), a.shape)
    return m.mul(turn, m.dot(m.h(vh), change, m.h(u)))


def _without_two(m: Matrices, s: Value, a: Value) -> Value:
    """Products of the singular values but the i-th and the j-th, in the shape and dtype of ``a``; 0 for i = j."""
    rank, shape = len(a.shape), (*a.shape, a.shape[-1])
    factors = m.b.op("broadcast_in_dim", s, shape=shape, dims=(*range(rank - 2), rank))
    i, j, k = (m.b.op("iota", shape=shape, dimension=d, dtype=dtypes.int64) for d in (rank - 2, rank - 1, rank))
    factors = m.where(m.f("or", m.cmp(k, "EQ", i), m.cmp(k, "EQ", j)), 1, factors)
    products = m.b.op("reduce", factors, axes=(rank,), combine="multiply", nonempty=False)
    products = m.where(m.mask(products, "EQ"), 0, products)
    return m.as_complex(products) if a.dtype.kind is Kind.COMPLEX else products


#: The adjugates of square matrices, ``det(a) inv(a)`` where there is an inverse: the derivative of ``det``, transposed.
adjugate = OpDef(
    "adjugate",
    OpKind.OPAQUE,
    types=_square_types,
    loops=LibraryRoutine(),
    flops=per_matrix(lambda op, n, _: 2 * n * n * n + n * n),
    is_backward_stable=True,
    reference=_adjugate,
    samples=_square_samples,
    vjp=transposed(_adjugate_jvp), jvp=_adjugate_jvp, batch=pointwise_batch,
)  # fmt: skip


def _slogdet_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (a,) = operands
    require_square(ctx, a)
    lead = a.shape[:-2]
    return TensorType(a.dtype, lead), TensorType(real_of(a.dtype), lead)


def _slogdet(a: Array) -> tuple[Array, Array]:
    lead = a.shape[:-2]
    return each_matrix(lambda x: tuple(np.linalg.slogdet(x)), a, outputs=((lead, a.dtype), (lead, a.real.dtype)))


def _slogdet_determined(operands: Sequence[Array], results: Sequence[Array]) -> tuple[Array, ...]:
    """The determinant's root of the matrix's order, with its sign: of a matrix that nearly is singular it is about 0,
    and its logarithm is any negative number."""
    sign, size = results
    return (sign * np.exp(size / max(operands[0].shape[-1], 1)),)


def _slogdet_jvp(b: Builder, op: Op, tangents: tuple[Value, ...]) -> tuple[Value | None, Value]:
    """The logarithm of the determinant changes by the trace of ``inv(A) dA``: the real part in size, the other in
    direction."""
    m, (a,), sign = Matrices(b), op.operands, op.results[0]
    change = m.total(m.mul(m.t(b.op("inverse", a)), tangents[0]))
    if a.dtype.kind is not Kind.COMPLEX:
        return None, change
    return m.mul(sign, m.imaginary(change)), m.f("real", change)


#: The sign of the determinant, a complex number of size 1 where the matrix is complex, and the logarithm of its size: 0
#: and -inf where a matrix is singular.
slogdet = OpDef(
    "slogdet",
    OpKind.OPAQUE,
    types=_slogdet_types,
    loops=LibraryRoutine("slogdet"),
    flops=per_matrix(lambda op, n, _: third(2 * n * n * n)),
    is_backward_stable=True,
    determined=_slogdet_determined,
    reference=_slogdet,
    samples=_square_samples,
    vjp=transposed(_slogdet_jvp), jvp=_slogdet_jvp, batch=pointwise_batch,
)  # fmt: skip
