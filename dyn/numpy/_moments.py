"""Moments: means, variances and standard deviations, over some axes or all.

They are computed in the default float of integers and booleans, and in float32 of 16-bit floats.
"""

from __future__ import annotations

from typing import Any

from dyn.dtypes import DType, Kind
from dyn.errors import ShapeError
from dyn.numpy._axes import all_axes, one_axis
from dyn.numpy._binary import add, maximum, multiply, subtract, true_divide
from dyn.numpy._broadcast import align, expand
from dyn.numpy._indexing.selection import where as select
from dyn.numpy._logic import less_equal, truth
from dyn.numpy._manipulation import view
from dyn.numpy._operands import cast, operand, promote, shape_of, to_float
from dyn.numpy._public import Array, ArrayLike, Axis, DTypeLike, public
from dyn.numpy._reductions import fold, masked, sum
from dyn.numpy._unary import filled, imag, real, sqrt, square
from dyn.ops.complex_parts import part_dtype
from dyn.shapes import Dim, dim_max, product
from dyn.source import user_loc
from dyn.trace.dims import unwrap_dim, wrap_dim
from dyn.trace.lift import dtype_of
from dyn.trace.tracer import Tracer

__all__ = ["average", "mean", "std", "var"]


def _folded_size(x: Tracer, axes: tuple[int, ...]) -> Dim:
    """Number of elements that a reduction folds into one."""
    return product([shape_of(x)[a] for a in axes])


def _wide(dtype: DType) -> DType:
    """The dtype that moments are computed in: sums of 16-bit floats may not fit in 16 bits."""
    return to_float(dtype).wide


def _mean(
    x: Tracer, axes: tuple[int, ...], where: ArrayLike | None, keepdims: bool, less: Any = 0, is_told: bool = False
) -> Tracer:
    """The sum over the number of elements less ``less``, in the dtype of ``x``.

    ``is_told``: the caller tells where nothing is left to divide by. What comes there is finite, and so is its slope.
    """
    total = fold(masked(x, where, "add", "mean"), "add", axes, keepdims)
    if where is not None:
        mask = expand(truth(operand("mean", where, x)), shape_of(x))
        count: Any = fold(cast(mask, part_dtype(x.element_type)), "add", axes, keepdims)
        left = subtract(count, less)
        return true_divide(total, select(less_equal(left, 0), 1, left) if is_told else maximum(left, 0))
    size = _folded_size(x, axes)
    taken = unwrap_dim(less)
    if taken is not None:
        return true_divide(total, wrap_dim(x._trace, dim_max(size - taken, 0)))
    return true_divide(total, maximum(subtract(wrap_dim(x._trace, size), less), 0.0))


@public
def mean(
    x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, keepdims: bool = False, *,
    where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Mean of the elements along axes: their sum over their number.

    Args:
        x: array of any dtype.
        axis: axis or axes to reduce; None: all.
        dtype: dtype to compute in and of the result; None: that of ``x`` where it is inexact, else the default float.
            16-bit floats are computed in float32.
        keepdims: whether these axes stay, with size 1.
        where: mask that broadcasts with ``x``: elements to take.

    Returns:
        An array of the shape of ``x`` without the axes; NaN where there are no elements.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice.
    """
    value = operand("mean", x, where)
    target = to_float(value.element_type) if dtype is None else dtype_of(dtype)
    result = _mean(cast(value, _wide(target)), all_axes("mean", axis, value.ndim), where, keepdims)
    return cast(result, target)


@public
def average(
    x: ArrayLike, /, axis: Axis = None, weights: ArrayLike | None = None, returned: bool = False, *,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """Weighted mean along axes.

    Args:
        x: array of any dtype, of any shape.
        axis: axis or axes to reduce; None: all.
        weights: array of the shape of ``x``, or a vector for the one axis; None: all are 1.
        returned: whether the sum of the weights is given too.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array of the shape of ``x`` without the axes, with ``returned`` a pair of two such; NaN or infinite where the
        weights add up to 0 (NumPy raises).

    Raises:
        ShapeError: if an axis is not one of ``x``; if weights are a vector, and no one axis is named.

    Example:
        >>> dnp.average(np.array([1.0, 3.0]), weights=np.array([3, 1]))
        array(1.5)
    """
    value = operand("average", x, weights)
    if weights is None:
        found = mean(value, axis, None, keepdims)
        total = filled(found, 1) if not returned else multiply(filled(found, 1), _count(value, axis))
        return (found, total) if returned else found
    own = operand("average", weights, value)
    if own.ndim == 1 and value.ndim > 1:
        if axis is None or isinstance(axis, tuple | list):
            raise ShapeError(
                "average: weights of one axis need the number of that axis of the array.",
                loc=user_loc(),
                remedy="pass axis=.",
            )
        number = one_axis("average", axis, value.ndim)
        own = view(own, tuple(shape_of(own)[0] if a == number else 1 for a in range(value.ndim)))
    (scaled,) = promote("average", multiply(value, own), choose=to_float)
    spread = align("average", [cast(own, scaled.element_type), scaled])[0]
    total = sum(spread, axis, None, keepdims)
    found = true_divide(sum(scaled, axis, None, keepdims), total)
    return (found, total) if returned else found


def _count(x: Tracer, axis: Axis) -> Any:
    return wrap_dim(x._trace, _folded_size(x, all_axes("average", axis, x.ndim)))


@public
def var(
    x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, ddof: float = 0, keepdims: bool = False, *,
    correction: float | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Variance along axes: the sum of squared distances from the mean, in two passes, over ``n - ddof``.

    Args:
        x: array of any dtype.
        axis: axis or axes to reduce; None: all.
        dtype: dtype to compute in and of the result; None: that of ``x`` where it is inexact, else the default float.
            16-bit floats are computed in float32.
        ddof: number to take from the number of elements, by which the sum is divided.
        keepdims: whether these axes stay, with size 1.
        correction: ``ddof`` by its name in the array API.
        where: mask that broadcasts with ``x``: elements to take.

    Returns:
        An array of the shape of ``x`` without the axes; of complex numbers real, unless ``dtype`` is
        given; where ``ddof`` leaves nothing to divide by NaN if all elements are equal, else inf.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice.
    """
    return variance("var", x, axis, dtype, ddof if correction is None else correction, keepdims, where)


def variance(
    what: str, x: ArrayLike, axis: Axis, dtype: DTypeLike, less: float, keepdims: bool, where: ArrayLike | None,
    is_told: bool = False,
) -> Tracer:  # fmt: skip
    """See :func:`var`; ``is_told`` as in :func:`_mean`."""
    value = operand(what, x, where)
    target = to_float(value.element_type) if dtype is None else dtype_of(dtype)
    wide = cast(value, _wide(target))
    axes = all_axes(what, axis, value.ndim)
    # What is left out is 0 before it is squared: its own slope may be NaN, and NaN times a cotangent of 0 is NaN.
    centred = masked(subtract(wide, _mean(wide, axes, where, True, is_told=is_told)), where, "add", what)
    if target.kind is Kind.COMPLEX:
        squares = add(square(real(centred)), square(imag(centred)))
    else:
        squares = multiply(centred, centred)
    if isinstance(less, float) and less.is_integer():
        less = int(less)
    return cast(_mean(squares, axes, where, keepdims, less, is_told), part_dtype(target) if dtype is None else target)


@public
def std(
    x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, ddof: float = 0, keepdims: bool = False, *,
    correction: float | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Standard deviation along axes: the square root of :func:`var`.

    Args:
        x: array of any dtype.
        axis: axis or axes to reduce; None: all.
        dtype: dtype to compute in and of the result; None: that of ``x`` where it is inexact, else the default float.
            16-bit floats are computed in float32.
        ddof: number to take from the number of elements, by which the sum is divided.
        keepdims: whether these axes stay, with size 1.
        correction: ``ddof`` by its name in the array API.
        where: mask that broadcasts with ``x``: elements to take.

    Returns:
        An array of the shape of ``x`` without the axes; of complex numbers real, unless ``dtype`` is
        given; NaN or inf as :func:`var`.

    Raises:
        ShapeError: if an axis is not one of ``x``, or is named twice.
    """
    return sqrt(variance("std", x, axis, dtype, ddof if correction is None else correction, keepdims, where))
