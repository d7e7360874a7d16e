"""Convolutions, in the terms of ``jax.lax.conv_general_dilated``. Batch, places, features and padding may be dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn.errors import ShapeError, UnsupportedOpError
from dyn.numpy._axes import text_of
from dyn.numpy._manipulation import flip, permuted
from dyn.numpy._operands import emit, promote, shape_of, size_in
from dyn.numpy._public import Array, ArrayLike, Size, public
from dyn.ops.windows.sliding import same_padding
from dyn.shapes import Dim, dim_max, dim_min, floordiv
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.tracer import Tracer

__all__ = ["conv", "conv_general_dilated", "conv_transpose"]

#: One pair for each spatial axis, or the name of a rule.
Padding = str | Sequence[tuple[Size, Size]]
#: Where the axes of the image, the kernel and the result are.
Specs = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@public
def conv(
    lhs: ArrayLike, rhs: ArrayLike, /, window_strides: int | Sequence[int] = 1, padding: Padding = "VALID",
    lhs_dilation: int | Sequence[int] | None = None, rhs_dilation: int | Sequence[int] | None = None,
    dimension_numbers: Any = None, feature_group_count: Size = 1, batch_group_count: Size = 1,
) -> Array:  # fmt: skip
    """Convolution of an image with a kernel: for each place the sum of the products with its window.

    Arguments are those of ``jax.lax.conv_general_dilated``, its name here too. Batch, places, features and padding may
    be symbolic. An image smaller than the window gives no places, not an error.

    Args:
        lhs: image of any dtype but bool.
        rhs: kernel of as many axes.
        window_strides: distance of windows, an int or one for each spatial axis.
        padding: ``"VALID"``; ``"SAME"``: results for every ``stride``-th element, with an odd element of padding
            behind; ``"SAME_LOWER"``: in front; or ``(low, high)`` for each spatial axis, of which negative ones cut
            off.
        lhs_dilation: distance of the image's elements, between which there are zeros; None: 1.
        rhs_dilation: distance of the kernel's elements; None: 1.
        dimension_numbers: axes of image, kernel and result, such as ``("NHWC", "HWIO", "NHWC")``; None:
            ``("NCHW", "OIHW", "NCHW")`` with as many spatial axes as there are.
        feature_group_count: how many groups features are in, an int or a dimension; as many as features: a depthwise
            convolution.
        batch_group_count: how many groups the batch is in.

    Returns:
        An image in the dtype that both promote to.

    Raises:
        ShapeError: if features and groups do not fit: at once where that is proved, otherwise when called; if numbers
            of axes differ, or ``dimension_numbers`` do not name them.
        UnsupportedOpError: if ``padding`` is another name, or a name beside ``lhs_dilation``.

    Example:
        >>> nn.conv(np.arange(4.0).reshape(1, 1, 4), np.ones((1, 1, 2)))
        array([[[1., 3., 5.]]])
    """
    image, kernel = promote("conv", lhs, rhs)
    specs = _specs("conv", image, kernel, dimension_numbers)
    spatial = image.ndim - 2
    strides = per_axis("conv", "window_strides", window_strides, spatial)
    base = per_axis("conv", "lhs_dilation", 1 if lhs_dilation is None else lhs_dilation, spatial)
    dilation = per_axis("conv", "rhs_dilation", 1 if rhs_dilation is None else rhs_dilation, spatial)
    if isinstance(padding, str) and set(base) - {1}:
        raise UnsupportedOpError(
            f'conv does not take padding="{padding}" with lhs_dilation {base}.',
            loc=user_loc(),
            remedy="use nn.conv_transpose, or give pairs of numbers.",
        )
    sizes = [shape_of(image)[a] for a in specs[0][2:]]
    windows = [shape_of(kernel)[a] for a in specs[1][2:]]
    reach = [effective(w, d) for w, d in zip(windows, dilation, strict=True)]
    pads = paddings(image._trace, "conv", padding, sizes, reach, strides)
    groups = size_in(image._trace, feature_group_count, "conv"), size_in(image._trace, batch_group_count, "conv")
    return _emit(image, kernel, specs, strides, pads, base, dilation, groups)


conv_general_dilated = conv


@public
def conv_transpose(
    lhs: ArrayLike, rhs: ArrayLike, /, strides: int | Sequence[int] = 1, padding: Padding = "SAME",
    rhs_dilation: int | Sequence[int] | None = None, dimension_numbers: Any = None, transpose_kernel: bool = False,
) -> Array:  # fmt: skip
    """Convolution of an image with holes between its elements, which makes it larger, as in ``jax.lax.conv_transpose``.

    Args:
        lhs: image of any dtype but bool; sizes may be symbolic.
        rhs: kernel of as many axes.
        strides: distance of the image's elements, an int or one for each spatial axis.
        padding: ``"SAME"``: ``size * stride`` places; ``"VALID"``: ``size * stride + max(window - stride, 0)``; or a
            pair for each spatial axis.
        rhs_dilation: distance of the kernel's elements; None: 1.
        dimension_numbers: axes of image, kernel and result; None: ``("NHWC", "HWIO", "NHWC")``.
        transpose_kernel: whether the kernel is that of the convolution whose gradient this is: turned around, its
            features exchanged.

    Returns:
        An image in the dtype that both promote to.

    Raises:
        ShapeError: if features do not fit: at once where that is proved, otherwise when called; if numbers of axes
            differ, or ``dimension_numbers`` do not name them.
        UnsupportedOpError: if ``padding`` is another name.

    Example:
        >>> nn.conv_transpose(np.ones((1, 2, 1)), np.ones((2, 1, 1)), 2).shape
        (1, 4, 1)
    """
    image, kernel = promote("conv_transpose", lhs, rhs)
    spatial = image.ndim - 2
    if dimension_numbers is None:
        letters = "HWDUVXYZ"[:spatial]
        dimension_numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    specs = _specs("conv_transpose", image, kernel, dimension_numbers)
    steps = per_axis("conv_transpose", "strides", strides, spatial)
    dilation = per_axis("conv_transpose", "rhs_dilation", 1 if rhs_dilation is None else rhs_dilation, spatial)
    windows = [shape_of(kernel)[a] for a in specs[1][2:]]
    reach = [effective(w, d) for w, d in zip(windows, dilation, strict=True)]
    if isinstance(padding, str):
        pads = tuple(_transposed_padding(padding, k, s) for k, s in zip(reach, steps, strict=True))
    else:
        pads = paddings(image._trace, "conv_transpose", padding, windows, reach, steps)
    if transpose_kernel:
        kernel = flip(kernel, specs[1][2:])
        order = list(range(kernel.ndim))
        order[specs[1][0]], order[specs[1][1]] = order[specs[1][1]], order[specs[1][0]]
        kernel = permuted(kernel, order)
    return _emit(image, kernel, specs, (1,) * spatial, pads, steps, dilation, (1, 1))


def _emit(
    image: Tracer, kernel: Tracer, specs: Specs, strides: tuple[int, ...], pads: tuple[tuple[Dim, Dim], ...],
    base: tuple[int, ...], dilation: tuple[int, ...], groups: tuple[Dim, Dim],
) -> Tracer:  # fmt: skip
    return emit(
        "convolution", image, kernel, strides=strides, padding=pads, lhs_dilation=base, rhs_dilation=dilation,
        reversal=(False,) * len(strides), lhs_spec=specs[0], rhs_spec=specs[1], out_spec=specs[2],
        feature_group_count=groups[0], batch_group_count=groups[1],
    )  # fmt: skip


# ---- what users write ------------------------------------------------------------------------------------------------


def per_axis(what: str, name: str, value: int | Sequence[int], count: int) -> tuple[int, ...]:
    """One positive number for each of ``count`` axes; a single number counts for all."""
    numbers = (value,) * count if isinstance(value, int) else tuple(value)
    if len(numbers) != count or any(not isinstance(n, int) or n < 1 for n in numbers):
        raise ShapeError(
            f"{what}: {name} is {value}, and {count} positive numbers are needed.",
            loc=user_loc(),
            remedy="give one for each spatial axis.",
        )
    return numbers


def effective(window: Dim, dilation: int) -> Dim:
    """Extent of a window, from its first to its last element, both included."""
    return (window - 1) * dilation + 1


def paddings(
    trace: Trace, what: str, padding: Padding, sizes: Sequence[Dim], reach: Sequence[Dim], strides: Sequence[int]
) -> tuple[tuple[Dim, Dim], ...]:
    """The padding in front of and behind each axis, for windows that reach so far."""
    if not isinstance(padding, str):
        pairs = [tuple(pair) for pair in padding]
        if len(pairs) != len(sizes) or any(len(pair) != 2 for pair in pairs):
            raise ShapeError(
                f"{what}: padding is {padding}, and {len(sizes)} pairs are needed.",
                loc=user_loc(),
                remedy='give (low, high) for each spatial axis, or "SAME" or "VALID".',
            )
        return tuple((size_in(trace, low, what), size_in(trace, high, what)) for low, high in pairs)
    name = padding.upper()
    if name == "VALID":
        return ((0, 0),) * len(sizes)
    if name not in ("SAME", "SAME_LOWER"):
        raise UnsupportedOpError(
            f"{what} has no padding {padding!r}.", loc=user_loc(), remedy='write "SAME", "SAME_LOWER" or "VALID".'
        )
    return tuple(
        same_padding(size, k, s, lower=name == "SAME_LOWER") for size, k, s in zip(sizes, reach, strides, strict=True)
    )


def _transposed_padding(padding: str, reach: Dim, stride: int) -> tuple[Dim, Dim]:
    name = padding.upper()
    if name == "SAME":
        total = reach + stride - 2
        low = dim_min(reach - 1, floordiv(total + 1, 2))
        return low, total - low
    if name == "VALID":
        return reach - 1, stride - 1 + dim_max(reach - stride, 0)
    raise UnsupportedOpError(
        f"conv_transpose has no padding {padding!r}.", loc=user_loc(), remedy='write "SAME" or "VALID".'
    )


def _specs(what: str, image: Tracer, kernel: Tracer, numbers: Any) -> Specs:
    """The places of axes: from three texts, or from an object as ``jax.lax.conv_dimension_numbers`` makes it."""
    rank = image.ndim
    if kernel.ndim != rank or rank < 2:
        raise ShapeError(
            f"{what}: the image is {text_of(image)} and the kernel {text_of(kernel)}; both need as many axes.",
            loc=user_loc(),
            remedy="give the image a batch and a feature axis, and the kernel two feature axes.",
        )
    if numbers is None:
        default = tuple(range(rank))
        return default, default, default
    if hasattr(numbers, "lhs_spec"):
        return tuple(numbers.lhs_spec), tuple(numbers.rhs_spec), tuple(numbers.out_spec)
    texts = tuple(numbers)
    if len(texts) != 3 or not all(isinstance(t, str) and len(set(t)) == len(t) == rank for t in texts):
        _refuse(what, numbers, rank)
    left, right, out = texts
    same = len({frozenset(set(t) - set(pair)) for t, pair in ((left, "NC"), (right, "OI"), (out, "NC"))}) == 1
    if not same or not {"N", "C"} <= set(left) or not {"O", "I"} <= set(right) or not {"N", "C"} <= set(out):
        _refuse(what, numbers, rank)
    spatial = [letter for letter in right if letter not in "OI"]

    def places(text: str, first: str) -> tuple[int, ...]:
        return tuple(text.index(letter) for letter in (*first, *spatial))

    return places(left, "NC"), places(right, "OI"), places(out, "NC")


def _refuse(what: str, numbers: Any, rank: int) -> None:
    raise ShapeError(
        f"{what}: the dimension_numbers {numbers!r} do not name {rank} axes of image, kernel and result.",
        loc=user_loc(),
        remedy='write for example ("NHWC", "HWIO", "NHWC"): N and C, O and I, and the same spatial letters.',
    )
