"""Linear maps and look-ups."""

from __future__ import annotations

import dyn.numpy as dnp
from dyn import dtypes
from dyn.numpy._axes import one_axis
from dyn.numpy._creation import indices
from dyn.numpy._manipulation import moveaxis
from dyn.numpy._operands import default_float, dtype_of, operand, shape_of, size_in
from dyn.numpy._public import Array, ArrayLike, DTypeLike, Size, public

__all__ = ["embedding", "linear", "one_hot"]


@public
def linear(x: ArrayLike, w: ArrayLike, b: ArrayLike | None = None, /) -> Array:
    """``x @ w + b``: ``[..., in]`` by ``[in, out]`` gives ``[..., out]``."""
    result = dnp.matmul(x, w)
    return result if b is None else result + b


@public
def embedding(ids: ArrayLike, table: ArrayLike, /) -> Array:
    """The rows of ``table`` at integer ``ids``: ``[...]`` and ``[rows, width]`` give ``[..., width]``.

    Negative ids count from the end, and what is out of range takes the nearest row. Raises ShapeError, when called at
    the latest, where rows are taken from a table without any.
    """
    return dnp.take(table, ids, 0)


@public
def one_hot(x: ArrayLike, /, num_classes: Size, *, dtype: DTypeLike = None, axis: int = -1) -> Array:
    """A new axis of ``num_classes`` elements that are 1 at the index that ``x`` says, and 0 elsewhere.

    Indices below 0 or too great give zeros only, as in JAX.
    """
    value = operand("one_hot", x, num_classes)
    count = size_in(value._trace, num_classes, "one_hot")
    places = indices(value._trace, (count,), 0, dtypes.int64)
    hot = dnp.astype(
        dnp.expand_dims(value, value.ndim) == places, default_float() if dtype is None else dtype_of(dtype)
    )
    assert len(shape_of(hot)) == value.ndim + 1
    return moveaxis(hot, -1, one_axis("one_hot", axis, value.ndim + 1))
