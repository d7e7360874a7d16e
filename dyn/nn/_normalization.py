"""Softmax and its kin, and normalisation of rows. Of nothing they give nothing.

Each is written as the reductions and element functions that it consists of, in the order in which one pass over a row
can follow another; stitching makes one kernel of them. Sums of 16-bit floats are accumulated in float32.
"""

from __future__ import annotations

import dyn.numpy as dnp
from dyn import dtypes
from dyn.dtypes import DType
from dyn.nn._precision import rounded, wide
from dyn.numpy._axes import one_axis
from dyn.numpy._operands import cast
from dyn.numpy._public import Array, ArrayLike, Axis, Size, public

__all__ = [
    "batch_norm", "group_norm", "instance_norm", "layer_norm", "log_softmax", "logsumexp", "rms_norm", "softmax",
    "standardize",
]  # fmt: skip


# ---- softmax ---------------------------------------------------------------------------------------------------------


@public
def softmax(x: ArrayLike, /, axis: Axis = -1, *, where: ArrayLike | None = None) -> Array:
    """``exp(x)`` over its sum along axes, without overflow; of nothing nothing.

    Args:
        x: array of any real dtype, of any shape.
        axis: axis or axes of a row; their sizes may be symbolic, or 0.
        where: array of booleans that broadcasts with ``x``: elements that it leaves out count as -inf, and give 0, also
            where a whole row is left out.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype. Without
        ``where`` a row of -inf alone gives NaN, as in JAX.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
        ShapeError: if an axis is not one of ``x``.

    Example:
        >>> nn.softmax(np.array([0.0, np.log(3.0)]))
        array([0.25, 0.75])
    """
    value, dtype = wide("softmax", x)
    if where is not None:
        value = dnp.where(where, value, -dnp.inf)
    # Not shifted by -inf: the row has no other element, and -inf less -inf is NaN.
    exponentials = dnp.exp(value - dnp.max(value, axis, True, initial=-dnp.inf))
    if where is not None:
        exponentials = dnp.where(where, exponentials, 0)
    result = exponentials / dnp.sum(exponentials, axis, None, True)
    return rounded(result if where is None else dnp.where(where, result, 0), dtype)


@public
def log_softmax(x: ArrayLike, /, axis: Axis = -1, *, where: ArrayLike | None = None) -> Array:
    """``log(softmax(x))`` along axes, precise where the softmax is small.

    Args:
        x: array of any real dtype, of any shape.
        axis: axis or axes of a row; their sizes may be symbolic, or 0.
        where: array of booleans that broadcasts with ``x``: elements that it leaves out give -inf.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
        ShapeError: if an axis is not one of ``x``.

    Example:
        >>> nn.log_softmax(np.array([0.0, 0.0]))
        array([-0.69314718, -0.69314718])
    """
    value, dtype = wide("log_softmax", x)
    if where is not None:
        value = dnp.where(where, value, -dnp.inf)
    shifted = value - dnp.max(value, axis, True, initial=-dnp.inf)
    result = shifted - dnp.log(dnp.sum(dnp.exp(shifted), axis, None, True, where=where))
    return rounded(result if where is None else dnp.where(where, result, -dnp.inf), dtype)


@public
def logsumexp(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """``log(sum(exp(x)))`` along axes, without overflow.

    Args:
        x: array of any real dtype, of any shape.
        axis: axis or axes to reduce; None: all.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array of the shape of ``x`` without the axes; -inf of nothing.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
        ShapeError: if an axis is not one of ``x``.

    Example:
        >>> nn.logsumexp(np.array([1000.0, 1000.0]))
        array(1000.69314718)
    """
    value, dtype = wide("logsumexp", x)
    high = dnp.max(value, axis, True, initial=-dnp.inf)
    # An infinite greatest element would make NaN of a difference.
    shift = dnp.where(dnp.isfinite(high), high, 0)
    total = dnp.sum(dnp.exp(value - shift), axis, None, keepdims)
    shift = shift if keepdims else dnp.reshape(shift, dnp.shape(total))
    return rounded(dnp.log(total) + shift, dtype)


# ---- normalisation ---------------------------------------------------------------------------------------------------


def _scaled(value: Array, weight: ArrayLike | None, bias: ArrayLike | None, dtype: DType) -> Array:
    if weight is not None:
        value = value * weight
    if bias is not None:
        value = value + bias
    # A 16-bit input was computed in float32 only for precision; wider weights make a wider result.
    return cast(value, dtype) if value.element_type is dtypes.float32 and dtype.is_narrow else value


@public
def standardize(x: ArrayLike, /, axis: Axis = -1, *, epsilon: float = 1e-5) -> Array:
    """Rows of mean 0 and variance 1: :func:`layer_norm` without factors.

    Args:
        x: array of any dtype, of any shape.
        axis: axis or axes of a row; their sizes may be symbolic, or 0.
        epsilon: what is added to the variance, a Python number.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Raises:
        ShapeError: if an axis is not one of ``x``.

    Example:
        >>> nn.standardize(np.array([1.0, 3.0]))
        array([-0.999995,  0.999995])
    """
    return layer_norm(x, axis=axis, epsilon=epsilon)


@public
def layer_norm(
    x: ArrayLike, /, weight: ArrayLike | None = None, bias: ArrayLike | None = None, axis: Axis = -1, *,
    epsilon: float = 1e-5,
) -> Array:  # fmt: skip
    """Layer normalisation: rows of mean 0 and variance 1, scaled and shifted (https://arxiv.org/abs/1607.06450).

    Mean and variance are taken in two passes, of 16-bit floats in float32.

    Args:
        x: array of any dtype, of any shape.
        weight: factors, which broadcast with ``x``; None: 1.
        bias: summands, which broadcast with ``x``; None: 0.
        axis: axis or axes of a row; their sizes may be symbolic, or 0.
        epsilon: what is added to the variance, a Python number.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype. Wider factors
        make it wider.

    Raises:
        ShapeError: if an axis is not one of ``x``, or factors do not broadcast, at the call at the latest.

    Example:
        >>> nn.layer_norm(np.array([[1.0, 3.0]]), np.array([2.0, 2.0]), np.array([1.0, 1.0]))
        array([[-0.99999,  2.99999]])
    """
    value, dtype = wide("layer_norm", x)
    centred = value - dnp.mean(value, axis, None, True)
    variance = dnp.mean(centred * centred, axis, None, True)
    return _scaled(centred * _rsqrt(variance + epsilon), weight, bias, dtype)


@public
def rms_norm(x: ArrayLike, /, weight: ArrayLike | None = None, axis: Axis = -1, *, epsilon: float = 1e-6) -> Array:
    """Rows over their root mean square, scaled (https://arxiv.org/abs/1910.07467).

    Args:
        x: array of any dtype, of any shape.
        weight: factors, which broadcast with ``x``; None: 1.
        axis: axis or axes of a row; their sizes may be symbolic, or 0.
        epsilon: what is added to the mean square, a Python number.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype. Wider factors
        make it wider.

    Raises:
        ShapeError: if an axis is not one of ``x``, or factors do not broadcast, at the call at the latest.

    Example:
        >>> nn.rms_norm(np.array([3.0, 4.0]))
        array([0.8485281, 1.1313708])
    """
    value, dtype = wide("rms_norm", x)
    mean_square = dnp.mean(value * value, axis, None, True)
    return _scaled(value * _rsqrt(mean_square + epsilon), weight, None, dtype)


@public
def batch_norm(
    x: ArrayLike, /, mean: ArrayLike, variance: ArrayLike, weight: ArrayLike | None = None,
    bias: ArrayLike | None = None, axis: int = -1, *, epsilon: float = 1e-5,
) -> Array:  # fmt: skip
    """Batch normalisation with statistics that are given, as at inference (https://arxiv.org/abs/1502.03167).

    ``(x - mean) / sqrt(variance + epsilon) * weight + bias``, as one multiplication and one addition an element.

    Args:
        x: array of any dtype, of any shape.
        mean: vector ``[features]``.
        variance: vector ``[features]``.
        weight: vector ``[features]`` of factors; None: 1.
        bias: vector ``[features]`` of summands; None: 0.
        axis: axis of the features; its size may be symbolic.
        epsilon: what is added to the variance, a Python number.

    Returns:
        An array of the shape of ``x``, in the dtype that all promote to, of 16-bit floats in theirs.

    Raises:
        ShapeError: if vectors do not broadcast with the axis, at the call at the latest.

    Example:
        >>> nn.batch_norm(np.array([[1.0], [3.0]]), np.array([2.0]), np.array([1.0]))
        array([[-0.999995],
               [ 0.999995]])
    """
    value, dtype = wide("batch_norm", x)
    scale = _rsqrt(dnp.asarray(variance) + epsilon)
    if weight is not None:
        scale = scale * weight
    shift = -(dnp.asarray(mean) * scale)
    if bias is not None:
        shift = shift + bias
    number = one_axis("batch_norm", axis, value.ndim)
    after = (None,) * (value.ndim - 1 - number)
    result = value * scale[..., *after] + shift[..., *after]
    return rounded(result, dtype)


@public
def group_norm(
    x: ArrayLike, /, groups: Size, weight: ArrayLike | None = None, bias: ArrayLike | None = None, axis: int = -1, *,
    epsilon: float = 1e-5,
) -> Array:  # fmt: skip
    """Group normalisation: of each image, all places and neighbouring features (https://arxiv.org/abs/1803.08494).

    Args:
        x: array ``[batch, ..., features]`` of any dtype.
        groups: how many groups share the features, an int or a dimension.
        weight: vector ``[features]`` of factors; None: 1.
        bias: vector ``[features]`` of summands; None: 0.
        axis: axis of the features; its size may be symbolic.
        epsilon: what is added to the variance, a Python number.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype. Wider factors
        make it wider.

    Raises:
        ShapeError: if features cannot be shared out so: at once where that is proved, otherwise when called.

    Example:
        >>> nn.group_norm(np.array([[1.0, 3.0, 2.0, 6.0]]), 2)
        array([[-0.999995  ,  0.999995  , -0.99999875,  0.99999875]])
    """
    value, dtype = wide("group_norm", x)
    number = one_axis("group_norm", axis, value.ndim)
    shape = value.shape
    parts = (*shape[:number], groups, shape[number] // groups, *shape[number + 1 :])
    value = dnp.reshape(value, parts)
    reduced = tuple(a for a in range(value.ndim) if a not in (0, number))
    result = dnp.reshape(layer_norm(value, axis=reduced, epsilon=epsilon), shape)
    return _along(result, weight, bias, number, dtype)


@public
def instance_norm(
    x: ArrayLike, /, weight: ArrayLike | None = None, bias: ArrayLike | None = None, axis: int = -1, *,
    epsilon: float = 1e-5,
) -> Array:  # fmt: skip
    """Instance normalisation: of each image and feature, all places (https://arxiv.org/abs/1607.08022).

    Args:
        x: array ``[batch, ..., features]`` of any dtype.
        weight: vector ``[features]`` of factors; None: 1.
        bias: vector ``[features]`` of summands; None: 0.
        axis: axis of the features; its size may be symbolic.
        epsilon: what is added to the variance, a Python number.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype. Wider factors
        make it wider.

    Raises:
        ShapeError: if ``axis`` is not one of ``x``, or vectors do not broadcast with it, at the call at the latest.
    """
    value, dtype = wide("instance_norm", x)
    number = one_axis("instance_norm", axis, value.ndim)
    reduced = tuple(a for a in range(value.ndim) if a not in (0, number))
    return _along(layer_norm(value, axis=reduced, epsilon=epsilon), weight, bias, number, dtype)


def _along(value: Array, weight: ArrayLike | None, bias: ArrayLike | None, axis: int, dtype: DType) -> Array:
    """Scaled and shifted by vectors along an axis."""
    after = (None,) * (value.ndim - 1 - axis)
    weight = None if weight is None else dnp.asarray(weight)[..., *after]
    bias = None if bias is None else dnp.asarray(bias)[..., *after]
    return _scaled(value, weight, bias, dtype)


def _rsqrt(x: Array) -> Array:
    return dnp.power(x, -0.5)
