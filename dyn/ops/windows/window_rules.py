"""Derivatives of reductions in sliding windows, and the choice of an element in each window that they rest on."""

from __future__ import annotations

from typing import Any

from dyn.errors import UnsupportedOpError
from dyn.frozen import record
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.differentiate import zeros
from dyn.ir.types import TensorType
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.indexing.dimension_numbers import Windows
from dyn.ops.indexing.places import gather_numbers, not_empty, scatter_numbers, sized
from dyn.ops.transform_rules import again, shifted
from dyn.ops.windows.sliding import WINDOW_ATTRS, FactsSource, WindowAxis, dilated, window_axes
from dyn.shapes import Dim, product


def of_one(numbers: tuple[Any, ...], size: Dim = 0) -> tuple[Any, ...]:
    """Windows of one example each."""
    return (1, *numbers)


def unpadded(padding: tuple[tuple[Dim, Dim], ...], size: Dim = 0) -> tuple[tuple[Dim, Dim], ...]:
    return ((0, 0), *padding)


#: No window reaches into another example.
BATCH_CHANGES = {name: unpadded if name == "padding" else of_one for name in WINDOW_ATTRS}
window_batch = shifted(**BATCH_CHANGES)


def window_vjp(b: Builder, op: Op, cts: tuple[Value]) -> tuple[Value]:
    """Cotangents of windows: of sums, those of all windows with an element; of extremes, of those that chose it."""
    (x,), (ct,) = op.operands, cts
    if op.attrs["combine"] == "add":
        return (_spread_sums(b, op, ct),)
    _require_choice(op)
    choice = _ChosenPlaces.of(b, op)
    if choice is None:
        return (ct,)
    into = zeros(b, TensorType(x.dtype, choice.shape(x)))
    made = b.op("scatter", into, choice.places, ct, **scatter_numbers(choice.windows, "add"))
    order = choice.order
    made = b.op("reshape", made, shape=tuple(x.shape[a] for a in order))
    back = tuple(order.index(a) for a in range(len(order)))
    return (made if back == order else b.op("transpose", made, permutation=back),)


def window_jvp(b: Builder, op: Op, tangents: tuple[Value]) -> tuple[Value]:
    """Tangents of windows: of sums, the sums of tangents; of extremes, the tangent of the element that was chosen."""
    (x,), (t,) = op.operands, tangents
    if op.attrs["combine"] == "add":
        return again(b, op, (t,))  # pyright: ignore[reportReturnType]
    _require_choice(op)
    choice = _ChosenPlaces.of(b, op)
    if choice is None:
        return (t,)
    order = choice.order
    turned = t if order == tuple(range(len(order))) else b.op("transpose", t, permutation=order)
    flat = not_empty(b, b.op("reshape", turned, shape=choice.shape(x)), (choice.axis,))
    sizes = (1,) * len(flat.shape)
    a, made = Arithmetic(b), b.op("gather", flat, choice.places, **gather_numbers(choice.windows, sizes))
    there = a.cmp(choice.places, "LT", sized(b, choice.places, choice.shape(x)[choice.axis]))
    return (a.where(there, made, 0),)


def _require_choice(op: Op) -> None:
    combine = op.attrs["combine"]
    if combine not in ("maximum", "minimum"):
        raise UnsupportedOpError(
            f"reduce_window: windows with {combine} have no derivative here; those with add, maximum and minimum have.",
            loc=op.loc,
            remedy="multiply shifted slices, or take the exponential of a window sum of logarithms.",
        )


def vjp_padding(ctx: FactsSource, axis: WindowAxis, count: Dim) -> tuple[Dim, Dim]:
    """The padding with which a window of the same taps, reversed, goes back from ``count`` windows to the elements.

    The windows stand ``stride`` apart on an axis where elements stand ``base`` apart; the source is
    jax._src.lax.convolution's rule for the image, which is the same for windows.
    """
    taps = dilated(ctx, axis.window, axis.dilation)
    before = taps - 1 - axis.low
    whole = dilated(ctx, axis.size, axis.base)
    return before, whole + taps - 1 - dilated(ctx, count, axis.stride) - before


def _spread_sums(b: Builder, op: Op, ct: Value) -> Value:
    (x,) = op.operands
    axes = window_axes(x.shape, op.attrs)
    padding = tuple(vjp_padding(b.facts, axis, count) for axis, count in zip(axes, ct.shape, strict=True))
    at = op.attrs
    made = b.op(
        "reduce_window", ct, window=at["window"], strides=at["base_dilations"], padding=padding,
        base_dilations=at["strides"], window_dilations=at["window_dilations"], combine="add",
    )  # fmt: skip
    return made if made.shape == x.shape else b.op("reshape", made, shape=x.shape)


@record()
class _ChosenPlaces:
    """Places of the elements that windows chose, on one axis that stands for all that windows slide along.

    The axes of the operand are taken in ``order``, where those are next to each other, and become ``axis``. ``windows``
    reads the chosen elements, or adds to them; a window that chose none has a place behind all others.
    """

    order: tuple[int, ...]
    slid: tuple[int, ...]
    axis: int
    places: Value
    windows: Windows

    @staticmethod
    def of(b: Builder, op: Op) -> _ChosenPlaces | None:
        """None where windows are the elements themselves."""
        (x,), rank = op.operands, len(op.result.shape)
        axes = window_axes(x.shape, op.attrs)
        slid = tuple(a for a, one in enumerate(axes) if not _is_still(one))
        if not slid:
            return None
        attrs = {name: op.attrs[name] for name in WINDOW_ATTRS}
        places = b.op("window_choice", x, op.result, axes=slid, **attrs)
        still = tuple(a for a in range(rank) if a not in slid)
        before, after = (tuple(a for a in still if (a < slid[0]) is first) for first in (True, False))
        axis = len(before)
        others = tuple(a for a in range(len(still) + 1) if a != axis)
        windows = Windows(len(still) + 1, (), (axis,), others, still, (axis,), rank, False)
        return _ChosenPlaces((*before, *slid, *after), slid, axis, places, windows)

    def shape(self, x: Value) -> tuple[Dim, ...]:
        """The operand's, with all axes that windows slide along in one."""
        sizes = [x.shape[a] for a in self.order if a not in self.slid]
        return (*sizes[: self.axis], product(x.shape[a] for a in self.slid), *sizes[self.axis :])


def _is_still(axis: WindowAxis) -> bool:
    """Whether there is one window for each element, which is that element."""
    numbers = (axis.window, axis.stride, axis.base, axis.low, axis.high)
    return all(isinstance(n, int) for n in numbers) and numbers == (1, 1, 1, 0, 0)
