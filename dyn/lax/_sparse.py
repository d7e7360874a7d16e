"""Products of sparse matrices and dense arrays."""

from __future__ import annotations

from typing import Any

from dyn.lax._operands import lifted_each, raw, settled, trace_of
from dyn.trace.tracer import Tracer


@raw
def csr_matmul(values: Any, indices: Any, row_starts: Any, dense: Any) -> Any:
    """Product of a matrix in compressed sparse rows (CSR) and a dense array.

    Row ``i`` has the elements from ``row_starts[i]`` to ``row_starts[i + 1]``, at columns ``indices``. So sums of
    segments that follow one another are the product with ones at columns 0, 1, 2, …; and sums of bags of a table's
    rows, as of embeddings, that with ones at the rows' numbers. Nothing is recompiled when rows change in length.

    Args:
        values: the elements, shape (count,), of the dtype of ``dense``.
        indices: the column of each, shape (count,), integers. Elements of columns that there are not are left out.
        row_starts: where rows begin, shape (rows + 1,), integers that do not decrease; brought into [0, count].
        dense: shape (columns, …), of any dtype but bool.

    Returns:
        An array of shape (rows, …) and the dtype of ``dense``. Each element is summed in the order of ``values``, in
        float32 where the dtype is narrower.

    Raises:
        ShapeError: if the sizes do not fit.
        UnsupportedOpError: if the dtypes are others.

    Example:
        >>> table = np.array([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]], "f4")
        >>> bags = np.array([0, 2, 1, 1]), np.array([0, 2, 2, 4])
        >>> lax.csr_matmul(np.ones(4, "f4"), *bags, table)
        array([[101., 202.],
               [  0.,   0.],
               [ 20.,  40.]], dtype=float32)
    """
    trace = trace_of(values, indices, row_starts, dense)
    operands = [settled(trace, x) for x in lifted_each("csr_matmul", trace, [values, indices, row_starts, dense])]
    return Tracer(trace, trace.emit("csr_matmul", *operands))
