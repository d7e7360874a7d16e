"""Products of matrices."""

from __future__ import annotations

from typing import Any

import dyn.numpy as dnp
from dyn import lax
from dyn.errors import UnsupportedOpError
from dyn.interop.tf.converter_registry import Data, converts, rank_of
from dyn.interop.tf.values import known_dtype


def _turned(a: Data, transposed: bool, adjoint: bool = False) -> Any:
    if adjoint:
        a = dnp.conj(a)
    return dnp.swapaxes(a, -1, -2) if transposed or adjoint else a


@converts("MatMul")
def matmul(a: Data, b: Data, *, transpose_a: bool = False, transpose_b: bool = False) -> Any:
    return dnp.matmul(_turned(a, transpose_a), _turned(b, transpose_b))


@converts("BatchMatMul", "BatchMatMulV2")
def batch_matmul(a: Data, b: Data, *, adj_x: bool = False, adj_y: bool = False) -> Any:
    is_complex = a.dtype.kind == "c"
    return dnp.matmul(_turned(a, adj_x, is_complex and adj_x), _turned(b, adj_y, is_complex and adj_y))


@converts("BatchMatMulV3")
def batch_matmul_to(a: Data, b: Data, *, Tout: str, adj_x: bool = False, adj_y: bool = False) -> Any:
    out = known_dtype(Tout).np
    return batch_matmul(a.astype(out), b.astype(out), adj_x=adj_x, adj_y=adj_y)


@converts("Einsum")
def einsum(*operands: Data, equation: str) -> Any:
    """Sums of products; a label that stands twice in the result is its diagonal, and all else is 0."""
    given, _, wanted = equation.replace(" ", "").partition("->")
    before, dots, after = wanted.partition("...")
    labels = [*before, *([dots] if dots else []), *after]
    unique = list(dict.fromkeys(labels))
    made = dnp.einsum(f"{given}->{''.join(unique)}", *operands)
    open_axes = rank_of(made) - (len(unique) - bool(dots))
    axis, first = 0, dict[str, int]()
    for label in labels:
        if label in first:
            made = dnp.expand_dims(made, axis)
            shape = [*made.shape]
            shape[axis] = shape[first[label]]
            places = [lax.broadcasted_iota("int32", shape, one) for one in (axis, first[label])]
            made = dnp.where(places[0] == places[1], made, dnp.zeros((), dtype=made.dtype))
        first.setdefault(label, axis)
        axis += open_axes if label == dots else 1
    return made


@converts("MatrixBandPart")
def matrix_band_part(a: Data, lower: Data, upper: Data) -> Any:
    rows = lax.broadcasted_iota("int64", a.shape[-2:], 0)
    columns = lax.broadcasted_iota("int64", a.shape[-2:], 1)
    lower, upper = lower.astype("int64"), upper.astype("int64")
    inside = ((lower < 0) | (rows - columns <= lower)) & ((upper < 0) | (columns - rows <= upper))
    return dnp.where(inside, a, dnp.zeros_like(a))


@converts("Cholesky")
def cholesky(a: Data) -> Any:
    return lax.linalg.cholesky(a, symmetrize_input=False)


@converts("MatrixDiagV3", numbers=(1, 2, 3))
def matrix_diag(a: Data, k: Any, rows: Any, columns: Any, fill: Data, *, align: str = "RIGHT_LEFT") -> Any:
    if k.any() or int(rows) >= 0 or int(columns) >= 0:
        raise UnsupportedOpError("tf.linalg.diag with k=, num_rows= or num_cols=.", remedy="pad the matrix.")
    size = a.shape[-1]
    is_on = lax.broadcasted_iota("int32", (size, size), 0) == lax.broadcasted_iota("int32", (size, size), 1)
    return dnp.where(is_on, a[..., None], fill)


@converts("MatrixDiagPartV3", numbers=(1,))
def matrix_diag_part(a: Data, k: Any, fill: Data, *, align: str = "RIGHT_LEFT") -> Any:
    if k.any():
        raise UnsupportedOpError("tf.linalg.diag_part with k=.", remedy="slice the matrix.")
    return dnp.diagonal(a, axis1=-2, axis2=-1)


@converts("MatrixSetDiagV3", numbers=(2,))
def matrix_set_diag(a: Data, diagonal: Data, k: Any, *, align: str = "RIGHT_LEFT") -> Any:
    if k.any():
        raise UnsupportedOpError("tf.linalg.set_diag with k=.")
    is_on = lax.broadcasted_iota("int32", a.shape[-2:], 0) == lax.broadcasted_iota("int32", a.shape[-2:], 1)
    wide = lax.pad(diagonal, dnp.zeros((), dtype=a.dtype), [
        *[(0, 0, 0)] * (rank_of(a) - 2), (0, a.shape[-2] - diagonal.shape[-1], 0)
    ])  # fmt: skip
    return dnp.where(is_on, wide[..., None], a)
