"""Sparse tensors, which are indices, values and a shape: embeddings of rows of them, products, and dense forms.

Shapes are data here, as TensorFlow has them: only a dense result takes its sizes from one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import lax
from dyn.errors import UnsupportedOpError
from dyn.interop.converters import Data, rank_of
from dyn.interop.tf.converter_registry import converts, takes_call
from dyn.interop.tf.ops.assertions import refuse
from dyn.interop.tf.ops.indexing import gather_rows, in_range, parts_in_range, segment_counts
from dyn.interop.tf.ops.pointwise import divide
from dyn.shapes import RelKind


def _raveled(indices: Data, sizes: Sequence[Any]) -> Any:
    """Indices as the numbers of elements, in the order of rows."""
    numbers = dnp.zeros(indices.shape[:1], dtype="int64")
    for axis, size in enumerate(sizes):
        numbers = numbers * size + indices[:, axis]
    return numbers


def _elements(vector: Data) -> list[Any]:
    """The elements of a vector of which it is known how many it has."""
    count = vector._trace.here.facts.simplify(vector.dims[0])
    if not isinstance(count, int):
        raise UnsupportedOpError("a sparse tensor of a number of axes that the program computes.")
    return [vector[n] for n in range(count)]


def _product(numbers: Sequence[Any]) -> Any:
    return functools.reduce(dnp.multiply, numbers, dnp.ones((), dtype="int64"))


# ---- dense forms -----------------------------------------------------------------------------------------------------


@takes_call("SparseToDense", attrs=["validate_indices"])
def sparse_to_dense(call: Any) -> Any:
    indices, sizes, values, default = call.value(0), call.sizes(1), call.value(2), call.value(3)
    if rank_of(indices) < 2:
        indices = dnp.reshape(indices, (-1, 1))
    if call.attributes(["validate_indices"]).get("validate_indices", True):
        numbers = _raveled(indices.astype("int64"), sizes)
        remedy = "sort it by tf.sparse.reorder, and give each index once."
        refuse(call, dnp.any(numbers[1:] <= numbers[:-1]), "the indices of a sparse tensor do not go up", remedy)
    made = dnp.full(tuple(sizes), default, dtype=values.dtype)
    return made.at[parts_in_range(indices, tuple(sizes))].set(values)


@takes_call("SparseTensorDenseAdd")
def sparse_add(call: Any) -> Any:
    indices, values, b = call.value(0), call.value(1), call.value(3)
    return b.at[parts_in_range(indices, b.shape)].add(values)


@takes_call("SparseReduceSum", attrs=["keep_dims"])
def sparse_sum(call: Any) -> Any:
    indices, values, sizes = call.value(0), call.value(1), call.sizes(2)
    axes = {int(axis) % len(sizes) for axis in call.numbers(3).reshape(-1)}
    kept = [axis for axis in range(len(sizes)) if axis not in axes]
    made = dnp.zeros(tuple([sizes[axis] for axis in kept]), dtype=values.dtype)
    places = tuple([in_range(indices[:, axis], sizes[axis], axis) for axis in kept])
    made = made.at[places].add(values) if places else dnp.sum(values, dtype=values.dtype)
    if call.attributes(["keep_dims"]).get("keep_dims"):
        made = dnp.reshape(made, [1 if axis in axes else sizes[axis] for axis in range(len(sizes))])
    return made


@takes_call("SparseTensorDenseMatMul", attrs=["adjoint_a", "adjoint_b"])
def sparse_matmul(call: Any) -> Any:
    indices, values, sizes, b = call.value(0), call.value(1), call.sizes(2), call.value(3)
    attrs = call.attributes(["adjoint_a", "adjoint_b"])
    rows, columns = 0, 1
    if attrs.get("adjoint_a"):
        rows, columns, values = 1, 0, dnp.conj(values) if values.dtype.kind == "c" else values
    if attrs.get("adjoint_b"):
        b = dnp.conj(b.T) if b.dtype.kind == "c" else b.T
    call.trace.demand(RelKind.EQ, b.dims[0], _dim(sizes[columns]), "a sparse matrix has a column for each row")
    of_rows, of_columns = (in_range(indices[:, axis], sizes[axis], axis) for axis in (rows, columns))
    products = values[:, None] * dnp.take(b, of_columns, axis=0)
    return dnp.zeros((sizes[rows], b.shape[1]), dtype=b.dtype).at[of_rows].add(products)


def _dim(size: Any) -> Any:
    return size if isinstance(size, int) else size.dim


def _with_dense(name: str, function: Callable[[Any, Any], Any]) -> None:
    @takes_call(name)
    def run(call: Any) -> Any:
        """Values by the elements of a dense array that is broadcast to the sparse tensor's shape."""
        indices, values, sizes, dense = call.value(0), call.value(1), _elements(call.value(2)), call.value(3)
        first = len(sizes) - rank_of(dense)
        dims = [dnp.asarray(size).astype("int64") for size in dense.shape]
        for own, dim in zip(sizes[first:], dims, strict=True):
            text = "a dense array that does not broadcast to the shape of a sparse tensor"
            refuse(call, (dim != 1) & (dim != own), text, "give each of its axes that size, or 1.")
        places = [dnp.minimum(indices[:, first + axis], dim - 1) for axis, dim in enumerate(dims)]
        return function(values, dense[tuple(places)] if places else dense)


_with_dense("SparseDenseCwiseMul", dnp.multiply)
_with_dense("SparseDenseCwiseDiv", divide)


# ---- other indices ---------------------------------------------------------------------------------------------------


@converts("SparseReorder")
def sparse_reorder(indices: Data, values: Data, sizes: Data) -> Any:
    order = dnp.argsort(_raveled(indices, _elements(sizes)), stable=True)
    return [dnp.take(indices, order, axis=0), dnp.take(values, order, axis=0)]


@takes_call("SparseReshape")
def sparse_reshape(call: Any) -> Any:
    indices = call.value(0)
    given, wanted = _elements(call.value(1)), _elements(call.value(2))
    total = _product(given)
    others = _product([dnp.where(size < 0, 1, size) for size in wanted])
    sizes = [dnp.where(size < 0, total // dnp.maximum(others, 1), size) for size in wanted]
    text = "a sparse tensor that is reshaped to another number of elements"
    refuse(call, _product(sizes) != total, text, "give sizes whose product is that of the tensor's own.")
    left, parts = _raveled(indices, given), list[Any]()
    for size in reversed(sizes):
        own = dnp.maximum(size, 1)
        parts.append(left % own)
        left = left // own
    nothing = dnp.zeros((indices.shape[0], 0), dtype="int64")
    made = dnp.stack(parts[::-1], axis=1) if parts else nothing
    return [made, dnp.stack(sizes) if sizes else dnp.zeros((0,), dtype="int64")]


@takes_call("SparseFillEmptyRows")
def sparse_fill_empty_rows(call: Any) -> Any:
    """The elements with one for each row that has none; which rows these are; and the places of those there were."""
    indices, values, default = call.value(0), call.value(1), call.value(3)
    rows = call.sizes(2)[0]
    own = in_range(indices[:, 0], rows, 0)
    counts = dnp.zeros((rows,), dtype="int64").at[own].add(1)
    widths = dnp.maximum(counts, 1)
    starts = dnp.cumsum(widths) - widths
    # Of a row, elements stay in their order, whatever that of the rows is.
    order = dnp.argsort(own, stable=True)
    sorted_rows = dnp.take(own, order)
    in_row = dnp.arange(own.shape[0]) - dnp.take(dnp.cumsum(counts) - counts, sorted_rows)
    places = dnp.zeros_like(own).at[order].set(dnp.take(starts, sorted_rows) + in_row)
    total = lax.as_dim(dnp.sum(widths), name="filled")
    numbers = dnp.arange(rows).astype("int64")
    firsts = dnp.zeros((total, indices.shape[1]), dtype="int64").at[starts, 0].set(numbers)
    made = dnp.full((total,), default, dtype=values.dtype).at[places].set(values)
    return [firsts.at[places].set(indices), made, counts == 0, places]


@converts("SparseFillEmptyRowsGrad")
def sparse_fill_empty_rows_grad(places: Data, cotangent: Data) -> Any:
    filled = dnp.ones(cotangent.shape, dtype="bool").at[places].set(False)
    return [dnp.take(cotangent, places), dnp.sum(dnp.where(filled, cotangent, 0), dtype=cotangent.dtype)]


# ---- rows of a table, put together by segments -----------------------------------------------------------------------


def _per(fold: str, counts: Data, dtype: Any) -> Any:
    """Divisors of sums of so many rows."""
    wide = dtype if dtype == np.float64 else np.dtype("float32")
    counts = dnp.maximum(counts, 1).astype(wide)
    return counts if fold == "Mean" else dnp.sqrt(counts)


def _segments(fold: str) -> None:
    def spread(cotangent: Data, segments: Data) -> Any:
        """The cotangent of each row that was taken."""
        in_range(segments, cotangent.shape[0], 0, "segment {} is out of range for {} of them")
        if fold != "Sum":
            counts = segment_counts(segments, cotangent.shape[0])
            factors = (1 / _per(fold, counts, cotangent.dtype)).astype(cotangent.dtype)
            cotangent = cotangent * dnp.reshape(factors, (-1, *[1] * (rank_of(cotangent) - 1)))
        return dnp.take(cotangent, segments, axis=0)

    @converts(f"SparseSegment{fold}WithNumSegments", sizes=(3,))
    def segment(table: Data, places: Data, segments: Data, count: Any) -> Any:
        rows = gather_rows(table, places)
        in_range(segments, count, 0, "segment {} is out of range for {} of them")
        made = dnp.zeros((count, *rows.shape[1:]), dtype=rows.dtype).at[segments].add(rows)
        if fold == "Sum":
            return made
        per = _per(fold, segment_counts(segments, count), made.dtype).astype(made.dtype)
        return divide(made, dnp.reshape(per, (-1, *[1] * (rank_of(made) - 1))))

    @converts(f"SparseSegment{fold}Grad", sizes=(3,))
    def grad(cotangent: Data, places: Data, segments: Data, count: Any) -> Any:
        made = dnp.zeros((count, *cotangent.shape[1:]), dtype=cotangent.dtype)
        return made.at[in_range(places, count, 0)].add(spread(cotangent, segments))

    @converts(f"SparseSegment{fold}GradV2", sizes=(3,))
    def grad_of_rows(cotangent: Data, places: Data, segments: Data, count: Any) -> Any:
        """The cotangents of the rows that were taken, and which rows these are."""
        rows, inverse = dnp.unique(in_range(places, count, 0), return_inverse=True)
        made = dnp.zeros((rows.shape[0], *cotangent.shape[1:]), dtype=cotangent.dtype)
        return [made.at[dnp.reshape(inverse, (-1,))].add(spread(cotangent, segments)), rows]


for _fold in ("Sum", "Mean", "SqrtN"):
    _segments(_fold)
