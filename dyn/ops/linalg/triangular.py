"""Cholesky's factors, and systems of equations with triangular matrices: StableHLO's ops, computed by LAPACK and BLAS.

Derivatives: M. B. Giles, "An extended collection of matrix derivative results for forward and reverse mode algorithmic
differentiation", 2008, and I. Murray, "Differentiation of the Cholesky decomposition", 2016.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.opdef import Attrs, LibraryRoutine, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.counts import per_matrix, third
from dyn.ops.linalg.matrices import (
    LAPACK_DTYPES,
    SQUARES,
    Array,
    Matrices,
    each_matrix,
    positive_matrices,
    random_matrices,
    require_matrices,
    require_square,
)
from dyn.ops.transform_rules import pointwise_batch, transposed
from dyn.requirements import scipy_module
from dyn.shapes import Dim, RelKind

_TRANSPOSES = ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")


# --- cholesky -----------------------------------------------------------------------------------------------------


def _cholesky_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (a,) = operands
    require_square(ctx, a)
    return (TensorType(a.dtype, a.shape),)


def _cholesky(a: Array, lower: bool) -> Array:
    made = each_matrix(lambda x: np.linalg.cholesky(x, upper=not lower), a, outputs=((a.shape, a.dtype),))
    return np.tril(made) if lower else np.triu(made)


def _cholesky_jvp(b: Builder, op: Op, tangents: tuple[Value, ...]) -> tuple[Value]:
    """``dL = L phi(inv(L) dA inv(L)^H)``, where phi is the lower triangle with half the diagonal; of dA the triangle
    that is read."""
    m, y, lower = Matrices(b), op.result, op.attrs["lower"]
    whole = m.hermitian(tangents[0], lower)
    first, then = ("NO_TRANSPOSE", "ADJOINT") if lower else ("ADJOINT", "NO_TRANSPOSE")
    inner = m.triangular(y, whole, lower=lower, transpose=first)
    inner = m.triangular(y, inner, lower=lower, left=False, transpose=then)
    half = m.where(m.mask(inner, "EQ"), m.mul(inner, 0.5), m.keep(inner, "GT" if lower else "LT"))
    return (m.dot(y, half) if lower else m.dot(half, y),)


#: The triangular L with ``L L^H == a`` (``lower``), or U with ``U^H U == a``. Only that triangle of ``a`` is read; of
#: a matrix that is not positive definite NaN.
cholesky = OpDef(
    "cholesky",
    OpKind.OPAQUE,
    types=_cholesky_types,
    loops=LibraryRoutine("cholesky"),
    flops=per_matrix(lambda op, n, _: third(n * n * n)),
    is_backward_stable=True,
    reference=_cholesky,
    samples=lambda: [
        Sample((positive_matrices(shape, dtype),), {"lower": lower})
        for dtype in LAPACK_DTYPES
        for shape in SQUARES
        for lower in (True, False)
    ],
    vjp=transposed(_cholesky_jvp), jvp=_cholesky_jvp, batch=pointwise_batch,
)  # fmt: skip


# --- triangular_solve ---------------------------------------------------------------------------------------------


def _solve_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    a, y = operands
    require_matrices(ctx, a, y)
    require_square(ctx, a)
    if attrs["transpose_a"] not in _TRANSPOSES:
        raise ctx.fail(f"transpose_a is one of {', '.join(_TRANSPOSES)}, not {attrs['transpose_a']}")
    axis = -2 if attrs["left_side"] else -1
    ctx.require(RelKind.EQ, a.shape[-1], y.shape[axis], "the triangular matrix fits the other operand")
    return (TensorType(y.dtype, y.shape),)


def _triangular_solve(a: Array, b: Array, left_side: bool, lower: bool, unit_diagonal: bool, transpose_a: str) -> Array:
    result = np.array(b)
    if result.size == 0:
        return result
    trsm: Any = scipy_module("linalg", "triangular_solve").get_blas_funcs("trsm", dtype=a.dtype)
    # BLAS reads columns first, and so sees every matrix transposed: of X op(A) = B it solves op(A)^T X^T = B^T.
    options = {"side": left_side, "lower": not lower, "trans_a": _TRANSPOSES.index(transpose_a), "diag": unit_diagonal}
    with np.errstate(all="ignore"):
        for place in np.ndindex(a.shape[:-2]):
            result[place] = trsm(1.0, a[place].T, b[place].T, **options).T
    return result


def _solved(b: Builder, op: Op, y: Value) -> Value:
    """Solution of an op's system with another right side."""
    return b.op("triangular_solve", op.operands[0], y, **op.attrs)


def _read(m: Matrices, op: Op, x: Value) -> Value:
    """The triangle that the op reads."""
    strict = op.attrs["unit_diagonal"]
    return m.keep(x, ("GT" if strict else "GE") if op.attrs["lower"] else ("LT" if strict else "LE"))


def _solve_jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value]:
    """``dX = inv(op(A)) (dB - op(dA) X)``"""
    m, (da, dy), x, how = Matrices(b), tangents, op.result, op.attrs["transpose_a"]
    if da is None:
        assert dy is not None, "not all tangents are zero"
        return (_solved(b, op, dy),)
    own = _read(m, op, da)
    own = own if how == "NO_TRANSPOSE" else m.t(own) if how == "TRANSPOSE" else m.h(own)
    moved = m.dot(own, x) if op.attrs["left_side"] else m.dot(x, own)
    return (_solved(b, op, m.neg(moved) if dy is None else m.sub(dy, moved)),)


def _solve_vjp(b: Builder, op: Op, cts: tuple[Value, ...]) -> tuple[Value, Value]:
    """``B* = inv(op(A))^T X*``, and ``op(A)* = -B* X^T``."""
    m, (a, _), x, how, left = Matrices(b), op.operands, op.result, op.attrs["transpose_a"], op.attrs["left_side"]
    attrs = {**op.attrs, "transpose_a": "TRANSPOSE" if how == "NO_TRANSPOSE" else "NO_TRANSPOSE"}
    dy = b.op("triangular_solve", m.conj(a) if how == "ADJOINT" else a, cts[0], **attrs)
    moved = m.dot(dy, m.t(x)) if left else m.dot(m.t(x), dy)
    own = moved if how == "NO_TRANSPOSE" else m.t(moved) if how == "TRANSPOSE" else m.h(moved)
    return m.neg(_read(m, op, own)), dy


def _sides(op: Op) -> Dim:
    """The number of right sides of each system."""
    return op.operands[1].shape[-1 if op.attrs["left_side"] else -2]


def _solve_samples() -> list[Sample]:
    """Every form of one system, and systems of every shape in one form."""

    def call(shape: tuple[int, ...], dtype: DType, how: str, left: bool, lower: bool) -> Sample:
        other = (*shape[:-2], shape[-1], 4) if left else (*shape[:-2], 4, shape[-1])
        a = random_matrices(shape, dtype) + 3 * np.eye(shape[-1], dtype=dtype.np)
        attrs = {"left_side": left, "lower": lower, "unit_diagonal": not lower, "transpose_a": how}
        return Sample((a, random_matrices(other, dtype, 1)), attrs)

    forms = itertools.product(_TRANSPOSES, (True, False), (True, False))
    calls = [call((3, 3), dtype, *form) for form in forms for dtype in (dtypes.float32, dtypes.complex64)]
    return calls + [
        call(shape, dtype, "NO_TRANSPOSE", True, True)
        for dtype in LAPACK_DTYPES
        for shape in ((1, 1), (0, 0), (0, 2, 2), (2, 2, 2))
    ]


#: ``X`` of ``op(A) X = B`` (``left_side``) or ``X op(A) = B``, where A is triangular: ``lower`` or upper, and with ones
#: on its diagonal where ``unit_diagonal``. What is on its other side is not read. Of a zero on the diagonal inf, NaN.
triangular_solve = OpDef(
    "triangular_solve",
    OpKind.OPAQUE,
    types=_solve_types,
    loops=LibraryRoutine("triangular_solve"),
    flops=per_matrix(lambda op, n, _: n * n * _sides(op)),
    is_backward_stable=True,
    reference=_triangular_solve,
    samples=_solve_samples,
    vjp=_solve_vjp, jvp=_solve_jvp, batch=pointwise_batch,
)  # fmt: skip
