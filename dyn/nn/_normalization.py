"""Softmax and its kin, and normalisation of rows. Of nothing they give nothing.

Each is written as the reductions and element functions that it consists of, in the order in which one pass over a row
can follow another; stitching makes one kernel of them. Sums of 16-bit floats are accumulated in float32.
"""

from __future__ import annotations

import dyn.numpy as dnp
from dyn import dtypes
from dyn.dtypes import DType
from dyn.numpy._axes import one_axis
from dyn.numpy._operands import cast, promote, to_float
from dyn.numpy._public import Array, ArrayLike, Axis, Size, public

__all__ = [
    "batch_norm", "group_norm", "instance_norm", "layer_norm", "log_softmax", "logsumexp", "rms_norm", "softmax",
    "standardize",
]  # fmt: skip


def _float(what: str, x: ArrayLike) -> Array:
    return promote(what, x, choose=to_float)[0]


# ---- softmax ---------------------------------------------------------------------------------------------------------


@public
def softmax(x: ArrayLike, /, axis: Axis = -1, *, where: ArrayLike | None = None) -> Array:
    """``exp(x)`` over its sum along ``axis``, without overflow.

    Elements that ``where`` leaves out count as -inf and give 0, also where it leaves out a whole row. Without ``where``
    a row of -inf alone gives NaN, as in JAX.
    """
    value = _float("softmax", x)
    if where is not None:
        value = dnp.where(where, value, -dnp.inf)
    # Not shifted by -inf: the row has no other element, and -inf less -inf is NaN.
    exponentials = dnp.exp(value - dnp.max(value, axis, True, initial=-dnp.inf))
    if where is not None:
        exponentials = dnp.where(where, exponentials, 0)
    result = exponentials / dnp.sum(exponentials, axis, None, True)
    return result if where is None else dnp.where(where, result, 0)


@public
def log_softmax(x: ArrayLike, /, axis: Axis = -1, *, where: ArrayLike | None = None) -> Array:
    """``log(softmax(x))``, precise where the softmax is small; -inf for elements that ``where`` leaves out."""
    value = _float("log_softmax", x)
    if where is not None:
        value = dnp.where(where, value, -dnp.inf)
    shifted = value - dnp.max(value, axis, True, initial=-dnp.inf)
    result = shifted - dnp.log(dnp.sum(dnp.exp(shifted), axis, None, True, where=where))
    return result if where is None else dnp.where(where, result, -dnp.inf)


@public
def logsumexp(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """``log(sum(exp(x)))`` without overflow; -inf of nothing."""
    value = _float("logsumexp", x)
    high = dnp.max(value, axis, True, initial=-dnp.inf)
    # An infinite greatest element would make NaN of a difference.
    shift = dnp.where(dnp.isfinite(high), high, 0)
    total = dnp.sum(dnp.exp(value - shift), axis, None, keepdims)
    shift = shift if keepdims else dnp.reshape(shift, dnp.shape(total))
    return dnp.log(total) + shift


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
    """``x`` less its mean, over the square root of its variance plus ``epsilon``, along ``axis``."""
    return layer_norm(x, axis=axis, epsilon=epsilon)


@public
def layer_norm(
    x: ArrayLike, /, weight: ArrayLike | None = None, bias: ArrayLike | None = None, axis: Axis = -1, *,
    epsilon: float = 1e-5,
) -> Array:  # fmt: skip
    """Layer normalisation (https://arxiv.org/abs/1607.06450): rows of mean 0 and variance 1, scaled and shifted.

    Mean and variance are taken in two passes along ``axis``, of 16-bit floats in float32. ``weight`` and ``bias``
    broadcast with ``x``.
    """
    given = _float("layer_norm", x)
    value: Array = cast(given, given.element_type.wide)
    centred = value - dnp.mean(value, axis, None, True)
    variance = dnp.mean(centred * centred, axis, None, True)
    return _scaled(centred * _rsqrt(variance + epsilon), weight, bias, given.element_type)


@public
def rms_norm(x: ArrayLike, /, weight: ArrayLike | None = None, axis: Axis = -1, *, epsilon: float = 1e-6) -> Array:
    """``x`` over its root mean square along ``axis``, scaled (https://arxiv.org/abs/1910.07467)."""
    given = _float("rms_norm", x)
    value: Array = cast(given, given.element_type.wide)
    mean_square = dnp.mean(value * value, axis, None, True)
    return _scaled(value * _rsqrt(mean_square + epsilon), weight, None, given.element_type)


@public
def batch_norm(
    x: ArrayLike, /, mean: ArrayLike, variance: ArrayLike, weight: ArrayLike | None = None,
    bias: ArrayLike | None = None, axis: int = -1, *, epsilon: float = 1e-5,
) -> Array:  # fmt: skip
    """Batch normalisation with statistics that are given, as at inference (https://arxiv.org/abs/1502.03167).

    ``(x - mean) / sqrt(variance + epsilon) * weight + bias``, with vectors along ``axis`` (``[features]``), as one
    multiplication and one addition an element.
    """
    given = _float("batch_norm", x)
    value: Array = cast(given, given.element_type.wide)
    scale = _rsqrt(dnp.asarray(variance) + epsilon)
    if weight is not None:
        scale = scale * weight
    shift = -(dnp.asarray(mean) * scale)
    if bias is not None:
        shift = shift + bias
    number = one_axis("batch_norm", axis, value.ndim)
    after = (None,) * (value.ndim - 1 - number)
    result = value * scale[..., *after] + shift[..., *after]
    return cast(result, given.element_type) if given.element_type.is_narrow else result


@public
def group_norm(
    x: ArrayLike, /, groups: Size, weight: ArrayLike | None = None, bias: ArrayLike | None = None, axis: int = -1, *,
    epsilon: float = 1e-5,
) -> Array:  # fmt: skip
    """Group normalisation (https://arxiv.org/abs/1803.08494): of each image, all places and neighbouring features.

    ``x`` is ``[batch, ..., features]`` with the features along ``axis``, which ``groups`` shares out; ``weight`` and
    ``bias`` are ``[features]``. Raises ShapeError where features cannot be shared out so.
    """
    given = _float("group_norm", x)
    number = one_axis("group_norm", axis, given.ndim)
    shape = given.shape
    parts = (*shape[:number], groups, shape[number] // groups, *shape[number + 1 :])
    value = dnp.reshape(cast(given, given.element_type.wide), parts)
    reduced = tuple(a for a in range(value.ndim) if a not in (0, number))
    result = dnp.reshape(layer_norm(value, axis=reduced, epsilon=epsilon), shape)
    return _along(result, weight, bias, number, given.element_type)


@public
def instance_norm(
    x: ArrayLike, /, weight: ArrayLike | None = None, bias: ArrayLike | None = None, axis: int = -1, *,
    epsilon: float = 1e-5,
) -> Array:  # fmt: skip
    """Instance normalisation (https://arxiv.org/abs/1607.08022): of each image and feature, all places.

    ``x`` is ``[batch, ..., features]`` with the features along ``axis``; ``weight`` and ``bias`` are ``[features]``.
    """
    given = _float("instance_norm", x)
    number = one_axis("instance_norm", axis, given.ndim)
    value: Array = cast(given, given.element_type.wide)
    reduced = tuple(a for a in range(value.ndim) if a not in (0, number))
    return _along(layer_norm(value, axis=reduced, epsilon=epsilon), weight, bias, number, given.element_type)


def _along(value: Array, weight: ArrayLike | None, bias: ArrayLike | None, axis: int, dtype: DType) -> Array:
    """Scaled and shifted by vectors along an axis."""
    after = (None,) * (value.ndim - 1 - axis)
    weight = None if weight is None else dnp.asarray(weight)[..., *after]
    bias = None if bias is None else dnp.asarray(bias)[..., *after]
    return _scaled(value, weight, bias, dtype)


def _rsqrt(x: Array) -> Array:
    return dnp.power(x, -0.5)
