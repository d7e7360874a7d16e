"""Windows that slide over an array: the geometry that convolutions and reductions in windows share.

It is StableHLO's (https://openxla.org/stablehlo/spec#reduce_window): an axis is dilated by ``base`` (holes
between elements), padded by ``low`` and ``high`` (holes in front and behind; negative numbers cut elements off), and a
window of ``window`` taps, ``dilation`` places apart, starts at every ``stride``-th place that has room for all of it.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from dyn import dtypes
from dyn.frozen import record
from dyn.ir.opdef import Attrs, ScalarBuilder, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.scalar import Scalar
from dyn.shapes import Answer, Dim, RelKind, SymExpr, dim_max, floordiv, mod

Array = np.ndarray[Any, Any]
#: The attributes of a reduction that say how its windows slide, a number (or a pair) for each axis.
WINDOW_ATTRS = ("window", "strides", "padding", "base_dilations", "window_dilations")


class FactsSource(Protocol):
    """A source of facts about dims: a type rule's context, or a builder's facts."""

    def eq(self, a: Dim, b: Dim, /) -> Answer: ...


@record()
class WindowAxis:
    """Windows along an axis of ``size`` elements."""

    size: Dim
    window: Dim
    stride: int = 1
    low: Dim = 0
    high: Dim = 0
    base: int = 1
    dilation: int = 1

    def check(self, ctx: TypeContext, axis: int) -> None:
        """Refuse windows of nothing and steps of nothing."""
        steps = (self.stride, self.base, self.dilation)
        if any(not isinstance(s, int) or s < 1 for s in steps):
            raise ctx.fail(
                f"axis {axis} has the stride {self.stride} and the dilations {self.base} and {self.dilation}",
                "strides and dilations are 1 or more.",
            )
        if isinstance(self.window, int) and self.window < 1:
            raise ctx.fail(f"axis {axis} has a window of {self.window} elements", "a window has at least one.")
        if isinstance(self.window, SymExpr):
            ctx.require(RelKind.GE, self.window, 1, f"a window along axis {axis} has at least one element")

    def count(self, ctx: FactsSource) -> Dim:
        """Number of windows: none where the padded axis is shorter than one."""
        padded = dilated(ctx, self.size, self.base) + self.low + self.high
        steps = padded - dilated(ctx, self.window, self.dilation) + self.stride
        return floordiv(at_least_0(ctx, steps), self.stride)

    def inside(self) -> bool:
        """Whether no window reaches a hole, whatever the sizes: the last one ends where the padded axis ends."""
        no_padding = all(isinstance(p, int) and p <= 0 for p in (self.low, self.high))
        return self.base == 1 and no_padding

    def place(self, number: Dim, tap: Dim) -> Dim:
        """Place of a tap of a window on the dilated axis."""
        return number * self.stride + tap * self.dilation - self.low

    def read(self, k: ScalarBuilder, number: Dim, tap: Dim) -> tuple[Dim, Any]:
        """The element under a tap of a window, and whether there is one: None where there always is."""
        place = self.place(number, tap)
        if self.inside():
            return place, None
        return floordiv(place, self.base), self._exists(k, place)

    def _exists(self, k: ScalarBuilder, place: Dim) -> Any:
        within = in_range(k, floordiv(place, self.base), self.size)
        if self.base == 1:
            return within
        rest, zero = k.index(dtypes.int64, mod(place, self.base)), k.const(dtypes.int64, 0)
        on_element = k.apply(Scalar.EQ, [rest, zero], dtypes.bool_)
        return k.apply(Scalar.AND, [on_element, within], dtypes.bool_)


def same_padding(size: Dim, reach: Dim, stride: int, *, lower: bool = False) -> tuple[Dim, Dim]:
    """Padding for ``ceil(size / stride)`` windows; where it is odd, one more behind, or with ``lower`` in front.

    Where windows overlap nothing is cut off; where they leave elements out, those behind the last window are, which
    makes the number of windows ``ceil(size / stride)`` by algebra alone.
    """
    total = (floordiv(size + stride - 1, stride) - 1) * stride + reach - size
    added = dim_max(total, 0)
    low = floordiv(added + 1, 2) if lower else floordiv(added, 2)
    return low, total - low


def in_range(k: ScalarBuilder, index: Dim, size: Dim) -> Any:
    """``0 <= index < size`` in one comparison: as an unsigned number a negative index is larger than any size."""
    return k.apply(Scalar.LT, [k.index(dtypes.uint64, index), k.index(dtypes.uint64, size)], dtypes.bool_)


def all_of(k: ScalarBuilder, masks: list[Any]) -> Any:
    """The conjunction of the masks that are not None; None where there is none."""
    result: Any = None
    for mask in masks:
        if mask is not None:
            result = mask if result is None else k.apply(Scalar.AND, [result, mask], dtypes.bool_)
    return result


def at_least_0(ctx: FactsSource, dim: Dim) -> Dim:
    """``max(dim, 0)``, as ``dim`` where that is known to be the same."""
    bounded = dim_max(dim, 0)
    return dim if bounded is dim or ctx.eq(bounded, dim).proved else bounded


def dilated(ctx: FactsSource, size: Dim, step: int) -> Dim:
    """The length of ``size`` elements that lie ``step`` places apart."""
    return size if step == 1 else at_least_0(ctx, size * step - step + 1)


def window_axes(shape: tuple[Dim, ...], attrs: Attrs) -> list[WindowAxis]:
    """Windows of an op along each axis of an array of that shape."""
    names = ("window", "strides", "base_dilations", "window_dilations")
    window, strides, base, dilations = (attrs[name] for name in names)
    return [
        WindowAxis(size, w, s, low, high, b, d)
        for size, w, s, (low, high), b, d in zip(shape, window, strides, attrs["padding"], base, dilations, strict=True)
    ]


def check_windows(ctx: TypeContext, x: TensorType, attrs: Attrs) -> list[WindowAxis]:
    """Refuse windows that do not fit the axes of ``x``; how they slide over each."""
    if any(len(attrs[name]) != x.rank for name in WINDOW_ATTRS):
        lengths = ", ".join(f"{name} {len(attrs[name])}" for name in WINDOW_ATTRS)
        raise ctx.fail(f"{x} has {x.rank} axes, but there are {lengths}", "give one number for each axis.")
    axes = window_axes(x.shape, attrs)
    for number, axis in enumerate(axes):
        axis.check(ctx, number)
    return axes


# --- NumPy --------------------------------------------------------------------------------------------------------


def dilate_and_pad(x: Array, base: tuple[int, ...], padding: tuple[tuple[int, int], ...], fill: Any) -> Array:
    """A copy of ``x`` with holes between its elements and around them; a negative padding cuts elements off."""
    shape = [max((n - 1) * b + 1, 0) if n else 0 for n, b in zip(x.shape, base, strict=True)]
    result = np.full(shape, fill, x.dtype)
    result[tuple(slice(None, None, b) for b in base)] = x
    result = np.pad(result, [(max(low, 0), max(high, 0)) for low, high in padding], constant_values=fill)
    cuts = [(max(-low, 0), max(-high, 0)) for low, high in padding]
    return result[tuple(slice(a, max(n - b, a)) for (a, b), n in zip(cuts, result.shape, strict=True))]


def window_counts(
    padded: tuple[int, ...], window: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
) -> tuple[int, ...]:
    """Number of windows along each axis."""
    return tuple(
        max((p - ((w - 1) * d + 1)) // s + 1, 0)
        for p, w, s, d in zip(padded, window, strides, dilations, strict=True)
    )  # fmt: skip
