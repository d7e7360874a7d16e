"""Elements around an array: constants, or its own elements again."""

from __future__ import annotations

from typing import Any

from dyn import dtypes
from dyn.errors import InvalidValueError, NotYetError, ShapeError
from dyn.numpy._axes import shape_in, text_of
from dyn.numpy._binary import maximum, minimum, remainder, subtract
from dyn.numpy._operands import cast, emit, made, operand, promote, shape_of
from dyn.numpy._options import one_of
from dyn.numpy._public import Array, ArrayLike, public
from dyn.ops.indexing.gather import take_attrs
from dyn.shapes import Dim, dim_max
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = ["pad"]

_MODES = ("edge", "reflect", "symmetric", "wrap")
_LATER = ("linear_ramp", "maximum", "mean", "median", "minimum", "empty")


@public
def pad(x: ArrayLike, /, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Array:
    """Array with elements before and after its own.

    Args:
        x: array of any dtype.
        pad_width: how many: a number, ``(before, after)`` for every axis, or a pair for each; ints or dimensions.
        mode: ``"constant"``; or by the array's own elements: ``"edge"``, ``"reflect"``, ``"symmetric"``, ``"wrap"``.
        constant_values: values of ``"constant"``: one, ``(before, after)``, or a pair for each axis.

    Returns:
        An array of the dtype of ``x``, each size with what comes before and after.

    Raises:
        ShapeError: if a width is negative, or an empty axis is to be padded with its own elements, at the call at the
            latest.
        NotYetError: if ``mode`` is another one of NumPy's.
        InvalidValueError: if ``mode`` is none, or ``constant_values`` are given beside another one.

    Example:
        >>> dnp.pad(np.array([1, 2, 3]), (1, 2), "reflect")
        array([2, 1, 2, 3, 2, 1])
    """
    value = operand("pad", x, pad_width, constant_values)
    widths = [_sizes(value, pair) for pair in _pairs(value, pad_width, "widths")]
    if mode == "constant":
        return _constant(value, widths, _pairs(value, constant_values, "values"))
    if mode in _LATER:
        known = ", ".join(map(repr, _MODES))
        raise NotYetError(f"pad with mode={mode!r} comes later.", loc=user_loc(), remedy=f"use 'constant', {known}.")
    one_of("pad", "mode", mode, ("constant", *_MODES))
    if type(constant_values) is not int or constant_values != 0:
        raise InvalidValueError(
            f"pad with mode={mode!r} has no constant_values.", loc=user_loc(), remedy="leave them out."
        )
    for axis, (before, after) in enumerate(widths):
        if before != 0 or after != 0:
            value = _own_elements(value, axis, before, after, mode)
    return value


def _pairs(x: Tracer, given: Any, what: str) -> list[tuple[Any, Any]]:
    """A pair for each axis."""
    if not isinstance(given, list | tuple):
        return [(given, given)] * x.ndim
    nested = any(isinstance(g, list | tuple) for g in given)
    pairs = [tuple(g) for g in given] if nested else [tuple(given)]
    pairs = [p if len(p) == 2 else p * 2 for p in pairs]
    if len(pairs) == 1:
        pairs *= x.ndim
    if len(pairs) != x.ndim or any(len(p) != 2 for p in pairs):
        raise ShapeError(
            f"pad: {len(pairs)} pairs of {what} are given, and {text_of(x)} has {x.ndim} axes.",
            loc=user_loc(),
            remedy="give one pair for each axis.",
        )
    return pairs


def _sizes(x: Tracer, pair: tuple[Any, Any]) -> tuple[Dim, Dim]:
    before, after = shape_in(x._trace, pair, "pad")
    return before, after


def _constant(x: Tracer, widths: list[tuple[Dim, Dim]], values: list[tuple[Any, Any]]) -> Tracer:
    """One pad where all sides have one value, else one for each side, the last axis last, as NumPy fills corners."""
    first = values[0][0] if values else 0
    if all(v is first for pair in values for v in pair):
        return _padded(x, [b for b, _ in widths], [a for _, a in widths], first)
    none: list[Dim] = [0] * x.ndim
    for axis, ((before, after), (low, high)) in enumerate(zip(widths, values, strict=True)):
        x = _padded(x, [before if a == axis else 0 for a in range(x.ndim)], none, low)
        x = _padded(x, none, [after if a == axis else 0 for a in range(x.ndim)], high)
    return x


def _padded(x: Tracer, before: list[Dim], after: list[Dim], value: Any) -> Tracer:
    if all(d == 0 for d in (*before, *after)):
        return x
    fill = cast(promote("pad", x, value)[1], x.element_type)
    edges = {"edge_padding_low": tuple(before), "edge_padding_high": tuple(after)}
    return emit("pad", x, fill, interior_padding=(0,) * x.ndim, **edges)


def _own_elements(x: Tracer, axis: int, before: Dim, after: Dim, mode: str) -> Tracer:
    """An axis with its own elements on both sides: each place says which."""
    trace, size = x._trace, shape_of(x)[axis]

    def number(dim: Dim) -> Tracer:
        return made(trace, "dim_size", size=dim, dtype=dtypes.int64)

    count = trace.facts.simplify(before + size + after)
    place = subtract(made(trace, "iota", shape=(count,), dimension=0, dtype=dtypes.int64), number(before))
    if mode == "edge":
        place = maximum(minimum(place, number(size - 1)), 0)
    elif mode == "wrap":
        place = remainder(place, number(dim_max(size, 1)))
    else:
        # There and back again: a period in which each element stands twice, but with "reflect" not the two ends.
        turn = 2 * size - 1 if mode == "symmetric" else 2 * size - 2
        period = 2 * size if mode == "symmetric" else turn
        place = remainder(place, number(dim_max(period, 1)))
        place = minimum(place, maximum(subtract(number(turn), place), 0))
    return emit("gather", x, place, **take_attrs(shape_of(x), axis, 1))
