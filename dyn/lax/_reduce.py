"""Reductions with a function of one's own, along axes and in windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn.errors import ShapeError, UnsupportedOpError
from dyn.ir.core import Region, Value
from dyn.lax._folds import Computation, Tree, folded, is_identity
from dyn.ops.regions import monoid_of
from dyn.ops.variadic_reduce import reduced
from dyn.ops.windows.sliding import same_padding
from dyn.shapes import Dim
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.dims import unwrap_dim


def reduce(operands: Tree, init_values: Tree, computation: Computation, dimensions: Sequence[int]) -> Tree:
    """Fold of arrays along axes with a function of one's own, as in ``jax.lax.reduce``.

    Each result is ``computation(…computation(init, x[0])…, x[n-1])``, in the order of the elements. Where the function
    is the sum, product, maximum, minimum, ``&``, ``|`` or ``^`` of its arguments, leaf by leaf, the order is any, and
    it runs as quickly as these.

    Args:
        operands: array, or a tree of arrays of one shape.
        init_values: tree of scalars like it, which is the result where there are no elements.
        computation: function of two such trees of scalars, what the fold has come to and the next elements. It computes
            with its arguments, Python numbers and dims.
        dimensions: axes to reduce; sizes there may be symbolic.

    Returns:
        A tree of arrays without these axes.

    Raises:
        ArgumentError: if trees differ.
        ShapeError: if shapes or dtypes differ, or an axis is not there.
        UnsupportedOpError: if the function reads an array from outside, or gives no scalar.

    Example:
        >>> lax.reduce(np.array([1, 2, 3]), 0, lambda a, b: 10 * a + b, (0,))
        array(123)
    """

    def emit(trace: Trace, arrays: list[Value], inits: list[Value], body: Region) -> Sequence[Value]:
        axes = _axes(dimensions, arrays[0].type.rank)
        trace.builder.loc = user_loc()
        return reduced(trace.builder, arrays, inits, axes, body)

    return folded("reduce", operands, init_values, computation, emit)


def reduce_window(
    operand: Tree,
    init_value: Tree,
    computation: Computation,
    window_dimensions: Sequence[Any],
    window_strides: Sequence[int],
    padding: str | Sequence[tuple[Any, Any]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Tree:
    """Fold of each window of arrays with a function of one's own, as in ``jax.lax.reduce_window``.

    Args:
        operand: array, or a tree of arrays of one shape.
        init_value: tree of scalars like it; what is in a hole has this value too.
        computation: function of two such trees of scalars, as for :func:`reduce`.
        window_dimensions: sizes of a window, ints or dimensions.
        window_strides: distances of windows.
        padding: ``"VALID"``, ``"SAME"``, ``"SAME_LOWER"``, or pairs of ints or dimensions.
        base_dilation: distances of elements, between which there are holes; None: 1.
        window_dilation: distances of a window's taps; None: 1.

    Returns:
        A tree of arrays with an element for each window.

    Raises:
        ArgumentError: if trees differ.
        ShapeError: if shapes or dtypes differ, or there is not a number for each axis.
        UnsupportedOpError: if the function reads an array from outside, or gives no scalar.

    Example:
        >>> lax.reduce_window(np.array([1, 2, 3, 4]), 0, lambda a, b: a + b, (2,), (2,), "VALID")
        array([3, 7])
    """

    def emit(trace: Trace, arrays: list[Value], inits: list[Value], body: Region) -> Sequence[Value]:
        shape = arrays[0].shape
        ones = (1,) * len(shape)
        base = ones if base_dilation is None else tuple(base_dilation)
        dilation = ones if window_dilation is None else tuple(window_dilation)
        window, strides = _sizes(window_dimensions), tuple(window_strides)
        if any(len(numbers) != len(shape) for numbers in (window, strides, base, dilation)):
            raise ShapeError(
                f"reduce_window: an array with {len(shape)} axes has {len(window)} window dimensions, {len(strides)} "
                f"strides, and dilations of {len(base)} and {len(dilation)} axes.",
                loc=user_loc(),
                remedy="give one number for each axis.",
            )
        sizes = [(n - 1) * b + 1 if b != 1 else n for n, b in zip(shape, base, strict=True)]
        reach = [(w - 1) * d + 1 for w, d in zip(window, dilation, strict=True)]
        attrs: dict[str, Any] = {
            "window": window, "strides": strides, "padding": _padding("reduce_window", padding, sizes, reach, strides),
            "base_dilations": base, "window_dilations": dilation,
        }  # fmt: skip
        monoids = monoid_of(body)
        if monoids is None or not all(is_identity(trace, i, m) for i, m in zip(inits, monoids, strict=True)):
            return trace.emit_all("variadic_reduce_window", *arrays, *inits, regions=(body,), **attrs)
        return [trace.emit("reduce_window", x, combine=m, **attrs) for m, x in zip(monoids, arrays, strict=True)]

    return folded("reduce_window", operand, init_value, computation, emit)


def _axes(dimensions: Sequence[int], rank: int) -> tuple[int, ...]:
    axes = [int(axis) for axis in dimensions]
    numbers = tuple(sorted(axis % rank if -rank <= axis < rank else axis for axis in axes))
    if len(set(numbers)) != len(numbers) or any(not 0 <= axis < rank for axis in numbers):
        raise ShapeError(
            f"reduce: the dimensions {tuple(axes)} are not different axes of an array with {rank} axes.",
            loc=user_loc(),
            remedy="name each axis once." if rank else "a 0-d array has none: pass dimensions=().",
        )
    return numbers


def _sizes(given: Sequence[Any]) -> tuple[Dim, ...]:
    sizes: list[Dim] = []
    for number in given:
        size = unwrap_dim(number)
        if size is None:
            raise UnsupportedOpError(
                f"reduce_window does not take the {type(number).__name__} {number!r} for a size.",
                loc=user_loc(),
                remedy="use an int, or a dimension such as x.shape[0].",
            )
        sizes.append(size)
    return tuple(sizes)


def window_padding(
    what: str, padding: str | Sequence[tuple[Any, Any]], sizes: Sequence[Dim], window: Sequence[Dim],
    strides: Sequence[int],
) -> tuple[tuple[Dim, Dim], ...]:  # fmt: skip
    """The padding of windows without dilations."""
    if not len(sizes) == len(window) == len(strides):
        raise ShapeError(
            f"{what}: an array with {len(sizes)} axes has {len(window)} window dimensions and {len(strides)} strides.",
            loc=user_loc(),
            remedy="give one number for each axis.",
        )
    return _padding(what, padding, sizes, window, strides)


def _padding(
    what: str,
    padding: str | Sequence[tuple[Any, Any]],
    sizes: Sequence[Dim],
    reach: Sequence[Dim],
    strides: Sequence[int],
) -> tuple[tuple[Dim, Dim], ...]:
    """Padding in front of and behind each axis, for windows that reach so far."""
    name = padding.upper() if isinstance(padding, str) else ""
    if name == "VALID":
        return ((0, 0),) * len(sizes)
    if name in ("SAME", "SAME_LOWER"):
        lower = name == "SAME_LOWER"
        return tuple(same_padding(n, r, s, lower=lower) for n, r, s in zip(sizes, reach, strides, strict=True))
    pairs = [] if isinstance(padding, str) else [_sizes(pair) for pair in padding]
    if len(pairs) != len(sizes) or any(len(pair) != 2 for pair in pairs):
        raise ShapeError(
            f"{what}: padding is {padding!r}, and {len(sizes)} pairs are needed.",
            loc=user_loc(),
            remedy='give (low, high) for each axis, or "SAME", "SAME_LOWER" or "VALID".',
        )
    return tuple((low, high) for low, high in pairs)
