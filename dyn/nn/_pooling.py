"""Pools: the greatest element or the mean of each window of an image."""

from __future__ import annotations

import math
from collections.abc import Sequence

import dyn.numpy as dnp
from dyn import dtypes
from dyn.errors import ShapeError
from dyn.nn._convolution import Padding, effective, paddings, per_axis
from dyn.nn._precision import rounded, wide
from dyn.numpy._axes import text_of
from dyn.numpy._creation import ones
from dyn.numpy._operands import emit, operand, shape_of
from dyn.numpy._public import Array, ArrayLike, public
from dyn.shapes import Dim
from dyn.source import user_loc
from dyn.trace.dims import wrap_dim
from dyn.trace.tracer import Tracer

__all__ = ["avg_pool", "global_avg_pool", "global_max_pool", "max_pool", "min_pool"]


@public
def max_pool(
    x: ArrayLike, /, window_shape: int | Sequence[int], strides: int | Sequence[int] | None = None,
    padding: Padding = "VALID", *, window_dilation: int | Sequence[int] = 1, dimension_numbers: str | None = None,
) -> Array:  # fmt: skip
    """Greatest element of each window of an image; NaN where there is one.

    Padding never wins: a window of padding alone gives -inf, or the least integer. An image smaller than the window has
    no windows, and the result no places.

    Args:
        x: image ``[batch, *places, features]`` of any real dtype, or as ``dimension_numbers`` says; sizes may be
            symbolic.
        window_shape: size of a window, an int or one for each spatial axis.
        strides: distance of windows, an int or one for each spatial axis; None: 1, as in Flax (PyTorch: the window).
        padding: ``"VALID"``, ``"SAME"``, ``"SAME_LOWER"``, or a pair for each spatial axis.
        window_dilation: distance of a window's elements, an int or one for each spatial axis.
        dimension_numbers: order of the axes, such as ``"NCHW"``; None: the features are last.

    Returns:
        An image in the dtype of ``x``.

    Raises:
        ShapeError: if ``x`` is no image, or there is not a positive number for each spatial axis.
        UnsupportedOpError: if ``padding`` is another name.

    Example:
        >>> nn.max_pool(np.arange(4.0).reshape(1, 4, 1), 2, 2).ravel()
        array([1., 3.])
    """
    return _pool("max_pool", "maximum", operand("max_pool", x), window_shape, strides, padding, window_dilation,
                 dimension_numbers)  # fmt: skip


@public
def min_pool(
    x: ArrayLike, /, window_shape: int | Sequence[int], strides: int | Sequence[int] | None = None,
    padding: Padding = "VALID", *, window_dilation: int | Sequence[int] = 1, dimension_numbers: str | None = None,
) -> Array:  # fmt: skip
    """Least element of each window of an image; see :func:`max_pool`.

    Args:
        x: image ``[batch, *places, features]`` of any real dtype, or as ``dimension_numbers`` says; sizes may be
            symbolic.
        window_shape: size of a window, an int or one for each spatial axis.
        strides: distance of windows, an int or one for each spatial axis; None: 1, as in Flax (PyTorch: the window).
        padding: ``"VALID"``, ``"SAME"``, ``"SAME_LOWER"``, or a pair for each spatial axis.
        window_dilation: distance of a window's elements, an int or one for each spatial axis.
        dimension_numbers: order of the axes, such as ``"NCHW"``; None: the features are last.

    Returns:
        An image in the dtype of ``x``.

    Raises:
        ShapeError: if ``x`` is no image, or there is not a positive number for each spatial axis.
        UnsupportedOpError: if ``padding`` is another name.
    """
    return _pool("min_pool", "minimum", operand("min_pool", x), window_shape, strides, padding, window_dilation,
                 dimension_numbers)  # fmt: skip


@public
def avg_pool(
    x: ArrayLike, /, window_shape: int | Sequence[int], strides: int | Sequence[int] | None = None,
    padding: Padding = "VALID", *, count_include_pad: bool = True, dimension_numbers: str | None = None,
) -> Array:  # fmt: skip
    """Mean of each window of an image, of 16-bit floats in float32.

    Args:
        x: image ``[batch, *places, features]`` of any real dtype, or as ``dimension_numbers`` says; sizes may be
            symbolic.
        window_shape: size of a window, an int or one for each spatial axis.
        strides: distance of windows, an int or one for each spatial axis; None: 1, as in Flax (PyTorch: the window).
        padding: ``"VALID"``, ``"SAME"``, ``"SAME_LOWER"``, or a pair for each spatial axis.
        count_include_pad: whether padding counts as zeros, the default in Flax and PyTorch; else it does not count, and
            a window of padding alone gives NaN.
        dimension_numbers: order of the axes, such as ``"NCHW"``; None: the features are last.

    Returns:
        An image in the dtype of ``x``, of integers in the default float dtype.

    Raises:
        ShapeError: if ``x`` is no image, or there is not a positive number for each spatial axis.
        UnsupportedOpError: if ``padding`` is another name.

    Example:
        >>> nn.avg_pool(np.arange(4.0).reshape(1, 4, 1), 2, 2).ravel()
        array([0.5, 2.5])
    """
    value, dtype = wide("avg_pool", x)
    total = _pool("avg_pool", "add", value, window_shape, strides, padding, 1, dimension_numbers)
    places = _places("avg_pool", value, dimension_numbers)
    window = per_axis("avg_pool", "window_shape", window_shape, len(places))
    if count_include_pad or padding == "VALID":
        result = dnp.multiply(total, 1 / math.prod(window))
    else:
        sizes = shape_of(value)
        image = tuple(wrap_dim(value._trace, d) if a in places else 1 for a, d in enumerate(sizes))
        counted = ones(image, value.element_type)
        taken = _pool("avg_pool", "add", counted, window_shape, strides, padding, 1, dimension_numbers)
        result = dnp.true_divide(total, taken)
    return rounded(result, dtype)


@public
def global_max_pool(x: ArrayLike, /, *, keepdims: bool = False, dimension_numbers: str | None = None) -> Array:
    """Greatest element of each feature of each image.

    Args:
        x: image ``[batch, *places, features]`` of any real dtype, or as ``dimension_numbers`` says; sizes may be
            symbolic.
        keepdims: whether the spatial axes stay, with size 1.
        dimension_numbers: order of the axes, such as ``"NCHW"``; None: the features are last.

    Returns:
        An array ``[batch, features]`` in the dtype of ``x``.

    Raises:
        ShapeError: if ``x`` is no image; when called, if it has no places.
    """
    value = operand("global_max_pool", x)
    return dnp.max(value, _places("global_max_pool", value, dimension_numbers), keepdims)


@public
def global_avg_pool(x: ArrayLike, /, *, keepdims: bool = False, dimension_numbers: str | None = None) -> Array:
    """Mean of each feature of each image.

    Args:
        x: image ``[batch, *places, features]`` of any real dtype, or as ``dimension_numbers`` says; sizes may be
            symbolic.
        keepdims: whether the spatial axes stay, with size 1.
        dimension_numbers: order of the axes, such as ``"NCHW"``; None: the features are last.

    Returns:
        An array ``[batch, features]`` in the dtype of ``x``, of integers in the default float dtype; NaN of no places.

    Raises:
        ShapeError: if ``x`` is no image.
    """
    value = operand("global_avg_pool", x)
    return dnp.mean(value, _places("global_avg_pool", value, dimension_numbers), None, keepdims)


def _places(what: str, x: Tracer, numbers: str | None) -> tuple[int, ...]:
    """The spatial axes."""
    if numbers is None:
        if x.ndim >= 2:
            return tuple(range(1, x.ndim - 1))
    elif len(set(numbers)) == len(numbers) == x.ndim and {"N", "C"} <= set(numbers):
        return tuple(a for a, letter in enumerate(numbers) if letter not in "NC")
    raise ShapeError(
        f"{what}: {text_of(x)} is no image" + (f" {numbers}." if numbers is not None else "."),
        loc=user_loc(),
        remedy='an image is [batch, *places, features]; name other orders: dimension_numbers="NCHW".',
    )


def _pool(
    what: str, combine: str, x: Tracer, window_shape: int | Sequence[int], strides: int | Sequence[int] | None,
    padding: Padding, dilation: int | Sequence[int], numbers: str | None,
) -> Tracer:  # fmt: skip
    places = _places(what, x, numbers)
    if x.element_type is dtypes.bool_:
        combine = {"maximum": "or", "minimum": "and"}.get(combine, combine)
    count = len(places)
    window = per_axis(what, "window_shape", window_shape, count)
    steps = per_axis(what, "strides", 1 if strides is None else strides, count)
    spread = per_axis(what, "window_dilation", dilation, count)
    reach = [effective(w, d) for w, d in zip(window, spread, strict=True)]
    pads = paddings(x._trace, what, padding, [shape_of(x)[a] for a in places], reach, steps)
    nothing: tuple[Dim, Dim] = (0, 0)
    table = dict(zip(places, zip(window, steps, pads, spread, strict=True), strict=True))
    rows = [table.get(a, (1, 1, nothing, 1)) for a in range(x.ndim)]
    windows, strides_, padding_, dilations = zip(*rows, strict=True)
    return emit(
        "reduce_window", x, window=windows, strides=strides_, padding=padding_, base_dilations=(1,) * x.ndim,
        window_dilations=dilations, combine=combine,
    )  # fmt: skip
