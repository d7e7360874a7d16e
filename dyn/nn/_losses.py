"""Losses."""

from __future__ import annotations

import dyn.numpy as dnp
from dyn import dtypes
from dyn.numpy._axes import one_axis
from dyn.numpy._creation import indices
from dyn.numpy._operands import operand, promote, shape_of, to_float
from dyn.numpy._public import Array, ArrayLike, public

__all__ = ["softmax_cross_entropy_with_integer_labels"]


@public
def softmax_cross_entropy_with_integer_labels(
    logits: ArrayLike, labels: ArrayLike, /, axis: int = -1, *, where: ArrayLike | None = None
) -> Array:
    """Cross entropy ``-log_softmax(logits)`` at the label, without overflow: one number a row.

    As in Optax (there from a gather), the loss of a label whose logit is -inf is inf, and classes that ``where`` leaves
    out count as -inf.

    Args:
        logits: array of any real dtype.
        labels: array of integers, of the shape of ``logits`` without ``axis``. A label that is no class gives NaN.
        axis: axis of the classes; its size may be symbolic, or 0.
        where: array of booleans that broadcasts with ``logits``: which classes there are; None: all.

    Returns:
        An array of the shape of ``labels``, in the dtype of ``logits``, of integers in the default float dtype.

    Raises:
        ShapeError: if the labels have another shape: at once where that is proved, otherwise when called.

    Example:
        >>> nn.softmax_cross_entropy_with_integer_labels(np.array([[0.0, 0.0]]), np.array([1]))
        array([0.69314718])
    """
    (value,) = promote("softmax_cross_entropy_with_integer_labels", logits, choose=to_float)
    number = one_axis("softmax_cross_entropy_with_integer_labels", axis, value.ndim)
    if where is not None:
        value = dnp.where(where, value, -dnp.inf)
    chosen = dnp.expand_dims(operand("softmax_cross_entropy_with_integer_labels", labels, value), number)
    shape = tuple(d if a == number else 1 for a, d in enumerate(shape_of(value)))
    hit = chosen == indices(value._trace, shape, number, dtypes.int64)
    high = dnp.max(value, number, True, initial=-dnp.inf)
    # An infinite greatest logit would make NaN of differences that have a value.
    shift = dnp.where(dnp.isfinite(high), high, 0)
    shifted = value - shift
    total = dnp.log(dnp.sum(dnp.exp(shifted), number))
    # One of many, as a maximum: a sum would make NaN of -inf and the zeros beside it.
    picked = dnp.max(dnp.where(hit, shifted, -dnp.inf), number, initial=-dnp.inf)
    return dnp.where(dnp.any(hit, number), total - picked, dnp.nan)
