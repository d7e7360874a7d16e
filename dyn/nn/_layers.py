"""Linear maps and look-ups."""

from __future__ import annotations

import dyn.numpy as dnp
from dyn import dtypes
from dyn.numpy._axes import one_axis
from dyn.numpy._creation import indices
from dyn.numpy._manipulation import moveaxis
from dyn.numpy._operands import default_float, operand, shape_of, size_in
from dyn.numpy._public import Array, ArrayLike, DTypeLike, Size, public
from dyn.trace.lift import dtype_of

__all__ = ["embedding", "linear", "one_hot"]


@public
def linear(x: ArrayLike, w: ArrayLike, b: ArrayLike | None = None, /) -> Array:
    """``x @ w + b``, a layer's linear map.

    Args:
        x: array ``[..., in]`` of any dtype; sizes may be symbolic, or 0.
        w: matrix ``[in, out]``, where PyTorch has the transposed one.
        b: vector ``[out]``; None: there is none.

    Returns:
        An array ``[..., out]``, in the dtype that all promote to.

    Raises:
        ShapeError: if sizes differ: at once where that is proved, otherwise when called.

    Example:
        >>> nn.linear(np.array([[1.0, 2.0]]), np.array([[1.0], [1.0]]), np.array([0.5]))
        array([[3.5]])
    """
    result = dnp.matmul(x, w)
    return result if b is None else result + b


@public
def embedding(ids: ArrayLike, table: ArrayLike, /) -> Array:
    """Rows of a table at given places.

    Args:
        ids: array of integers ``[...]``; negative ones count from the end, and what is out of range takes the nearest
            row.
        table: array ``[rows, width]`` of any dtype.

    Returns:
        An array ``[..., width]`` in the dtype of the table.

    Raises:
        UnsupportedOpError: if ``ids`` are not integers.
        ShapeError: if rows are taken from a table without any, at the call at the latest.

    Example:
        >>> nn.embedding(np.array([1, 0]), np.array([[1.0, 2.0], [3.0, 4.0]]))
        array([[3., 4.],
               [1., 2.]])
    """
    return dnp.take(table, ids, 0)


@public
def one_hot(x: ArrayLike, /, num_classes: Size, *, dtype: DTypeLike = None, axis: int = -1) -> Array:
    """Array with a new axis, of which the element that each index names is 1 and the others are 0.

    Args:
        x: array of numbers; those that name no element give zeros only, as in JAX.
        num_classes: size of the new axis, an int, a dimension or a traced integer.
        dtype: dtype of the result; None: the default float dtype.
        axis: place of the new axis in the result.

    Returns:
        An array of one more axis.

    Raises:
        ShapeError: if ``num_classes`` is negative, or ``axis`` is not there.

    Example:
        >>> nn.one_hot(np.array([0, 2]), 3)
        array([[1., 0., 0.],
               [0., 0., 1.]], dtype=float32)
    """
    value = operand("one_hot", x, num_classes)
    count = size_in(value._trace, num_classes, "one_hot")
    places = indices(value._trace, (count,), 0, dtypes.int64)
    hot = dnp.astype(
        dnp.expand_dims(value, value.ndim) == places, default_float() if dtype is None else dtype_of(dtype)
    )
    assert len(shape_of(hot)) == value.ndim + 1
    return moveaxis(hot, -1, one_axis("one_hot", axis, value.ndim + 1))
