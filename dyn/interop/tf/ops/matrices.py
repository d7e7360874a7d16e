"""Products of matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import dyn.numpy as dnp
from dyn import lax
from dyn.interop.converters import Data, rank_of
from dyn.interop.tf.converter_registry import converts, takes_call
from dyn.interop.tf.values import known_dtype
from dyn.shapes import RelKind
from dyn.trace.dims import max_dim, min_dim


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


@dataclass(frozen=True, slots=True)
class _Diagonals:
    """The diagonals from ``low`` to ``high`` of matrices, as an array that has a row for each, the highest first.

    Where there are several, shorter ones begin at the left or end at the right, those below and above the main one as
    ``align`` says.
    """

    low: int
    high: int
    align: str

    @classmethod
    def of(cls, k: Any, align: str) -> _Diagonals:
        ends = [int(one) for one in k.reshape(-1)]
        return cls(ends[0], ends[-1], align)

    def width(self, rows: Any, columns: Any) -> Any:
        """The length of the longest."""
        return min_dim(rows + min(self.high, 0), columns - max(self.low, 0))

    def start(self, number: Any, rows: Any, columns: Any) -> Any:
        """First place in its row of the diagonal with a number."""
        above, below = [word == "RIGHT" for word in self.align.split("_")]
        length = dnp.minimum(rows + dnp.minimum(number, 0), columns - dnp.maximum(number, 0))
        # Both words are about the main diagonal: it begins at the left where one of them says so.
        is_right = ((number > 0) & above) | ((number < 0) & below) | ((number == 0) & (above and below))
        return dnp.where(is_right, self.width(rows, columns) - length, 0)

    def rows_of(self, a: Data, is_single: bool) -> Any:
        """An array with an axis of diagonals, also where there is one of them."""
        return a[..., None, :] if is_single else a

    def spread(self, a: Data, rows: Any, columns: Any) -> tuple[Any, Any]:
        """For each element of matrices whether it is on one of the diagonals, and what these have there."""
        row, column = (lax.broadcasted_iota("int64", (rows, columns), axis) for axis in (0, 1))
        number = column - row
        is_on = (number >= self.low) & (number <= self.high)
        at = dnp.minimum(row, column) + self.start(number, rows, columns)
        which = dnp.clip(self.high - number, 0, self.high - self.low)
        if not a._trace.facts.ge(a.dims[-1], 1).proved:  # an element to take from diagonals that have none
            a = lax.pad(a, dnp.zeros((), dtype=a.dtype), [*[(0, 0, 0)] * (rank_of(a) - 1), (0, 1, 0)])
        return is_on, a[..., which, dnp.clip(at, 0, a.shape[-1] - 1)]


def _check_diagonals(a: Data, diagonals: _Diagonals) -> None:
    """Demand that matrices have the diagonals."""
    for number, size in ((diagonals.high, a.dims[-1]), (-diagonals.low, a.dims[-2])):
        if number > 0:
            text = f"matrices have the diagonals k=({diagonals.low}, {diagonals.high})"
            a._trace.here.demand(RelKind.GE, size, number + 1, text)


@takes_call("MatrixDiagV2")
@takes_call("MatrixDiagV3", attrs=["align"])
def matrix_diag(call: Any) -> Any:
    k, a, fill = call.numbers(1), call.value(0), call.value(4)
    diagonals = _Diagonals.of(k, _align(call))
    width = a.shape[-1]
    least = width - min(diagonals.high, 0), width + max(diagonals.low, 0)
    asked = [call.sizes(number) for number in (2, 3)]
    is_open = [isinstance(one, int) and one < 0 for one in asked]
    if all(is_open):
        rows = columns = max_dim(*least)
    else:
        rows, columns = (low if missing else one for low, missing, one in zip(least, is_open, asked, strict=True))
    if k.any() and not isinstance(width, int):
        call.evaluation.distrust()  # TensorFlow counts with -1 in the place of an open size
    is_on, made = diagonals.spread(diagonals.rows_of(a, diagonals.low == diagonals.high), rows, columns)
    return dnp.where(is_on, made, fill)


def _align(call: Any) -> str:
    return call.attributes(["align"]).get("align", "LEFT_LEFT")


@takes_call("MatrixDiagPartV2")
@takes_call("MatrixDiagPartV3", attrs=["align"])
def matrix_diag_part(call: Any) -> Any:
    k, a, fill = call.numbers(1), call.value(0), call.value(2)
    diagonals = _Diagonals.of(k, _align(call))
    rows, columns = a.shape[-2:]
    _check_diagonals(a, diagonals)
    if not k.any():
        return dnp.diagonal(a, axis1=-2, axis2=-1)
    number = dnp.arange(diagonals.high, diagonals.low - 1, -1).astype("int64")[:, None]
    place = dnp.arange(diagonals.width(rows, columns)).astype("int64")[None, :]
    place = place - diagonals.start(number, rows, columns)
    row, column = place - dnp.minimum(number, 0), place + dnp.maximum(number, 0)
    is_on = (place >= 0) & (row < rows) & (column < columns)
    made = a[..., dnp.clip(row, 0, rows - 1), dnp.clip(column, 0, columns - 1)]
    made = dnp.where(is_on, made, fill)
    return made[..., 0, :] if diagonals.low == diagonals.high else made


@takes_call("MatrixSetDiagV2")
@takes_call("MatrixSetDiagV3", attrs=["align"])
def matrix_set_diag(call: Any) -> Any:
    k, a, values = call.numbers(2), call.value(0), call.value(1)
    diagonals = _Diagonals.of(k, _align(call))
    rows, columns = a.shape[-2:]
    _check_diagonals(a, diagonals)
    is_single = diagonals.low == diagonals.high
    is_on, made = diagonals.spread(diagonals.rows_of(values, is_single), rows, columns)
    return dnp.where(is_on, made, a)
