"""Common parts of linear algebra's ops: types, algebra on matrices for rules, NumPy's functions for references.

Matrices are the last two axes of operands, whatever stands before them. Where there is no answer (a matrix is singular,
or has NaN in it, or an iteration does not end), the results are NaN for that matrix, and right for those beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.ir.core import Value
from dyn.ir.opdef import TypeContext
from dyn.ir.types import TensorType
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.complex_parts import part_dtype
from dyn.shapes import Dim, RelKind

Array = np.ndarray[Any, Any]

#: What LAPACK computes with; 16-bit floats are converted by who calls.
LAPACK_DTYPES = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)


# --- types --------------------------------------------------------------------------------------------------------


def require_matrices(ctx: TypeContext, *operands: TensorType) -> None:
    """Demand stacks of matrices of one LAPACK dtype, with the same axes before the last two."""
    first = operands[0]
    for x in operands:
        if x.dtype not in LAPACK_DTYPES:
            remedy = "convert it with .astype('float32')"
            raise ctx.unsupported(f"takes float32, float64, complex64 and complex128, not {x.dtype.name}", remedy)
        if x.rank < 2:
            raise ctx.fail(f"{x} has no matrices: it has fewer than 2 axes", "reshape it to (..., m, n)")
        if x.dtype is not first.dtype or x.rank != first.rank:
            raise ctx.fail(f"operands have different dtypes or ranks: {first} and {x}")
        for axis, (a, b) in enumerate(zip(first.shape[:-2], x.shape[:-2], strict=True)):
            ctx.require(RelKind.EQ, a, b, f"there are as many matrices in both operands, along axis {axis}")


def require_square(ctx: TypeContext, x: TensorType) -> None:
    """Demand a stack of square matrices of a LAPACK dtype."""
    require_matrices(ctx, x)
    ctx.require(RelKind.EQ, x.shape[-2], x.shape[-1], "the matrices are square")


def real_of(dtype: DType) -> DType:
    """The dtype of absolute values."""
    return part_dtype(dtype)


def complex_of(dtype: DType) -> DType:
    """The complex dtype with parts of a dtype; itself where it is complex."""
    return {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}.get(dtype, dtype)


# --- algebra for rules --------------------------------------------------------------------------------------------


class Matrices(Arithmetic):
    """Ops on stacks of matrices, by short names."""

    def dot(self, *factors: Value) -> Value:
        """The product of matrices, from the left."""
        x, *rest = factors
        for y in rest:
            rank = len(x.shape)
            lead = tuple(range(rank - 2))
            x = self.b.op(
                "dot_general", x, y,
                lhs_batch=lead, rhs_batch=lead, lhs_contracting=(rank - 1,), rhs_contracting=(rank - 2,),
            )  # fmt: skip
        return x

    def t(self, x: Value) -> Value:
        """Transposed."""
        rank = len(x.shape)
        return self.b.op("transpose", x, permutation=(*range(rank - 2), rank - 1, rank - 2))

    def conj(self, x: Value) -> Value:
        if x.dtype.kind is not Kind.COMPLEX:
            return x
        return self.f("complex", self.f("real", x), self.neg(self.f("imag", x)))

    def h(self, x: Value) -> Value:
        """Transposed and conjugated."""
        return self.t(self.conj(x))

    def real(self, x: Value) -> Value:
        return self.f("real", x) if x.dtype.kind is Kind.COMPLEX else x

    def imaginary(self, x: Value) -> Value:
        """``i`` times the imaginary part of a complex value."""
        imag = self.f("imag", x)
        return self.f("complex", self.fill(imag, 0), imag)

    def as_complex(self, x: Value) -> Value:
        return x if x.dtype.kind is Kind.COMPLEX else self.f("complex", x, self.fill(x, 0))

    def scale(self, x: Value, by: Value) -> Value:
        """``x`` times real numbers of its shape."""
        return self.mul(x, self.as_complex(by) if x.dtype.kind is Kind.COMPLEX else by)

    # Parts of matrices ----------------------------------------------------------------------------------------------

    def mask(self, x: Value, direction: str) -> Value:
        """Mask of where a row's number compares with a column's: ``EQ`` the diagonal, ``GE`` that and what is below."""
        rank = len(x.shape)
        places = [self.b.op("iota", shape=x.shape, dimension=d, dtype=dtypes.int64) for d in (rank - 2, rank - 1)]
        return self.cmp(places[0], direction, places[1])

    def keep(self, x: Value, direction: str) -> Value:
        """Zeros but for a mask."""
        return self.where(self.mask(x, direction), x, 0)

    def eye(self, x: Value) -> Value:
        """Ones on the diagonal, in the shape and dtype of ``x``."""
        return self.keep(self.fill(x, 1), "EQ")

    def diagonal(self, x: Value) -> Value:
        """The diagonals of square matrices."""
        return self.total_rows(self.keep(x, "EQ"))

    def total(self, x: Value) -> Value:
        """The sum of each matrix."""
        rank = len(x.shape)
        return self.b.op("reduce", x, axes=(rank - 2, rank - 1), combine="add", nonempty=False)

    def total_rows(self, x: Value) -> Value:
        """The sum of each row of matrices."""
        return self.b.op("reduce", x, axes=(len(x.shape) - 1,), combine="add", nonempty=False)

    def hermitian(self, x: Value, lower: bool) -> Value:
        """The Hermitian matrices of which ``x`` holds one triangle, and the real part of the diagonal."""
        half = self.keep(x, "GT" if lower else "LT")
        middle = self.keep(self.real(x), "EQ")
        if x.dtype.kind is Kind.COMPLEX:
            middle = self.as_complex(middle)
        return self.add(self.add(half, self.h(half)), middle)

    # Vectors over matrices ------------------------------------------------------------------------------------------

    def rows(self, v: Value, shape: tuple[Dim, ...]) -> Value:
        """A vector for each row of matrices of a shape."""
        rank = len(shape)
        return self.b.op("broadcast_in_dim", v, shape=shape, dims=(*range(rank - 2), rank - 1))

    def columns(self, v: Value, shape: tuple[Dim, ...]) -> Value:
        """A vector for each column of matrices of a shape."""
        rank = len(shape)
        return self.b.op("broadcast_in_dim", v, shape=shape, dims=tuple(range(rank - 1)))

    def spread(self, s: Value, shape: tuple[Dim, ...]) -> Value:
        """A number for each matrix, everywhere in it."""
        return self.b.op("broadcast_in_dim", s, shape=shape, dims=tuple(range(len(shape) - 2)))

    def gaps(self, x: Value, y: Value) -> Value:
        """``1 / (y - x)`` off the diagonals, which are 0: infinite where two are equal."""
        one = self.eye(x)
        return self.sub(self.div(self.fill(x, 1), self.add(self.sub(y, x), one)), one)

    # Solving --------------------------------------------------------------------------------------------------------

    def triangular(
        self, a: Value, y: Value, *, lower: bool, left: bool = True, unit: bool = False, transpose: str = "NO_TRANSPOSE"
    ) -> Value:
        """``triangular_solve``."""
        attrs: dict[str, Any] = {"left_side": left, "lower": lower, "unit_diagonal": unit, "transpose_a": transpose}
        return self.b.op("triangular_solve", a, y, **attrs)


# --- NumPy's calls ------------------------------------------------------------------------------------------------


def each_matrix(compute: Callable[..., Any], *arrays: Array, outputs: tuple[tuple[tuple[int, ...], Any], ...]) -> Any:
    """Results of ``compute`` for stacks of matrices, in arrays of the shapes and dtypes ``outputs``.

    Where it refuses the stack because of one matrix, it is asked for each alone, and what has no answer is NaN.
    """
    with np.errstate(all="ignore"):
        try:
            made = compute(*arrays)
            return _as(made if isinstance(made, tuple) else (made,), outputs)
        except np.linalg.LinAlgError:
            pass
        results = [np.full(shape, np.nan, dtype) for shape, dtype in outputs]
        for place in np.ndindex(arrays[0].shape[:-2]):
            try:
                made = compute(*(x[place] for x in arrays))
            except np.linalg.LinAlgError:
                continue
            for result, part in zip(results, made if isinstance(made, tuple) else (made,), strict=True):
                result[place] = part
    return results[0] if len(results) == 1 else tuple(results)


def _as(made: tuple[Any, ...], outputs: tuple[tuple[tuple[int, ...], Any], ...]) -> Any:
    arrays = tuple(
        np.asarray(x).astype(dtype, copy=False).reshape(shape) for x, (shape, dtype) in zip(made, outputs, strict=True)
    )
    return arrays[0] if len(arrays) == 1 else arrays


# --- samples ------------------------------------------------------------------------------------------------------

#: Stacks of square matrices: of size 0 and 1, none of them, and more.
SQUARES: tuple[tuple[int, ...], ...] = ((0, 0), (1, 1), (3, 3), (2, 2, 2), (0, 2, 2), (7, 7))
#: Stacks of matrices with more rows, and with more columns.
OBLONGS: tuple[tuple[int, ...], ...] = (*SQUARES, (4, 2), (2, 4), (3, 0), (0, 3), (2, 3, 2), (1, 2, 5))


def random_matrices(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Array:
    """Matrices without any structure."""
    rng = np.random.default_rng([seed, *shape])
    made = rng.standard_normal(shape)
    if dtype.kind is Kind.COMPLEX:
        made = made + 1j * rng.standard_normal(shape)
    return made.astype(dtype.np)


def positive_matrices(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Array:
    """Hermitian matrices with positive eigenvalues, each its own."""
    x = random_matrices(shape, dtype, seed)
    made = x @ np.conj(np.swapaxes(x, -1, -2)) + np.diag(np.arange(1.0, shape[-1] + 1))
    return made.astype(dtype.np)
