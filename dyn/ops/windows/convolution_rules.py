"""Derivatives and batching of convolutions, which are convolutions again.

The arithmetic of paddings, and which groups become which, is that of jax._src.lax.convolution, where sizes may be 0.
"""

from __future__ import annotations

from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ops.indexing.places import not_empty
from dyn.ops.transform_rules import again
from dyn.ops.windows.sliding import FactsSource, WindowAxis, dilated
from dyn.ops.windows.window_rules import vjp_padding
from dyn.shapes import Dim, floordiv

Shape = tuple[Dim, ...]


def convolution_vjp(b: Builder, op: Op, cts: tuple[Value, ...]) -> tuple[Value, Value]:
    return _image_ct(b, op, cts[0]), _kernel_ct(b, op, cts[0])


def _axes(op: Op) -> list[WindowAxis]:
    """Windows of the kernel along each spatial axis."""
    (lhs, rhs), at = op.operands, op.attrs
    return [
        WindowAxis(lhs.shape[i], rhs.shape[j], stride, low, high, base, dilation)
        for i, j, stride, (low, high), base, dilation in zip(
            at["lhs_spec"][2:], at["rhs_spec"][2:], at["strides"], at["padding"], at["lhs_dilation"],
            at["rhs_dilation"], strict=True,
        )
    ]  # fmt: skip


def _groups(op: Op) -> tuple[Dim, bool]:
    """Number of groups, and whether they share out the batch."""
    by_batch = op.attrs["batch_group_count"] != 1
    return op.attrs["batch_group_count" if by_batch else "feature_group_count"], by_batch


def _swapped(spec: tuple[int, ...]) -> tuple[int, ...]:
    """The numbers of axes, with the roles of the first two exchanged."""
    return (spec[1], spec[0], *spec[2:])


def _image_ct(b: Builder, op: Op, ct: Value) -> Value:
    """The cotangent convolved with the kernel, turned around, its features in and out exchanged within each group."""
    (lhs, rhs), at = op.operands, op.attrs
    ls, rs, out = at["lhs_spec"], at["rhs_spec"], at["out_spec"]
    groups, by_batch = _groups(op)
    if groups != 1:
        rhs = _move_groups(b, rhs, groups, rs[0], rs[1])
    padding = tuple(
        vjp_padding(b.facts, axis, ct.shape[a]) for axis, a in zip(_axes(op), out[2:], strict=True)
    )  # fmt: skip
    made = b.op(
        "convolution", ct, rhs, strides=at["lhs_dilation"], padding=padding, lhs_dilation=at["strides"],
        rhs_dilation=at["rhs_dilation"], reversal=tuple(not r for r in at["reversal"]), lhs_spec=out,
        rhs_spec=_swapped(rs), out_spec=ls, feature_group_count=groups, batch_group_count=1,
    )  # fmt: skip
    if by_batch:
        made = _move_groups(b, made, groups, ls[1], ls[0])
    return made if made.shape == lhs.shape else b.op("reshape", made, shape=lhs.shape)


def _kernel_ct(b: Builder, op: Op, ct: Value) -> Value:
    """The image convolved with the cotangent: batches are the features that are summed over."""
    (lhs, rhs), at = op.operands, op.attrs
    out = at["out_spec"]
    groups, by_batch = _groups(op)
    ct = not_empty(b, ct, out[2:])  # no kernel is without taps
    padding = tuple(_kernel_padding(b.facts, axis, ct.shape[a]) for axis, a in zip(_axes(op), out[2:], strict=True))
    made = b.op(
        "convolution", lhs, ct, strides=at["rhs_dilation"], padding=padding, lhs_dilation=at["lhs_dilation"],
        rhs_dilation=at["strides"], reversal=(False,) * len(padding), lhs_spec=_swapped(at["lhs_spec"]),
        rhs_spec=_swapped(out), out_spec=_swapped(at["rhs_spec"]),
        feature_group_count=groups if by_batch else 1, batch_group_count=1 if by_batch else groups,
    )  # fmt: skip
    turned = tuple(a for a, reverse in zip(at["rhs_spec"][2:], at["reversal"], strict=True) if reverse)
    if turned:
        made = b.op("reverse", made, dimensions=turned)
    return made if made.shape == rhs.shape else b.op("reshape", made, shape=rhs.shape)


def _kernel_padding(ctx: FactsSource, axis: WindowAxis, count: Dim) -> tuple[Dim, Dim]:
    """Padding with which windows of ``count`` places, ``stride`` apart, are as many as the kernel has taps."""
    taps = dilated(ctx, axis.window, axis.dilation)
    places = dilated(ctx, count, axis.stride)
    return axis.low, places + taps - 1 - dilated(ctx, axis.size, axis.base) - axis.low


# --- axes split and joined ----------------------------------------------------------------------------------------


def _split(shape: Shape, axis: int, count: Dim) -> Shape:
    """A shape with one axis as ``count`` parts."""
    return (*shape[:axis], count, floordiv(shape[axis], count), *shape[axis + 1 :])


def _joined(shape: Shape, axis: int) -> Shape:
    """A shape with an axis and the next one as one."""
    return (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])


def _move_groups(b: Builder, x: Value, count: Dim, source: int, target: int) -> Value:
    """The ``count`` groups that an axis consists of, as the slower part of another axis."""
    parts = b.op("reshape", x, shape=_split(x.shape, source, count))
    rest = [axis + (axis >= source) for axis in range(len(x.shape))]
    order = (*rest[:target], source, *rest[target:])
    turned = b.op("transpose", parts, permutation=order)
    return b.op("reshape", turned, shape=_joined(turned.shape, target))


def _fold(b: Builder, x: Value, axis: int, groups: Dim = 1) -> Value:
    """The axis of examples, in front, as a part of ``axis`` (counted without it), within each of its groups."""
    if groups != 1:
        x = b.op("reshape", x, shape=_split(x.shape, axis + 1, groups))
    place = axis + (groups != 1)
    order = (*range(1, place + 1), 0, *range(place + 1, len(x.shape)))
    x = b.op("transpose", x, permutation=order) if place else x
    x = b.op("reshape", x, shape=_joined(x.shape, place))
    return x if groups == 1 else b.op("reshape", x, shape=_joined(x.shape, axis))


def _unfold(b: Builder, x: Value, axis: int, size: Dim, own: Dim, groups: Dim = 1) -> Value:
    """Inverse of ``_fold``; ``own`` is the size of the axis in one example."""
    rest = own if groups == 1 else floordiv(own, groups)
    parts = (size, rest) if groups == 1 else (groups, size, rest)
    x = b.op("reshape", x, shape=(*x.shape[:axis], *parts, *x.shape[axis + 1 :]))
    place = axis + (groups != 1)
    order = (place, *(a for a in range(len(x.shape)) if a != place))
    x = b.op("transpose", x, permutation=order) if place else x
    return x if groups == 1 else b.op("reshape", x, shape=_joined(x.shape, axis + 1))


# --- batching -----------------------------------------------------------------------------------------------------


def convolution_batch(
    b: Builder, op: Op, operands: tuple[Value, ...], batched: tuple[bool, ...], size: Dim
) -> tuple[Value, ...]:
    """Examples of images are a larger batch, of kernels more features, of both more groups."""
    (lhs, rhs), at = operands, op.attrs
    ls, rs, out = at["lhs_spec"], at["rhs_spec"], at["out_spec"]
    one = op.result.shape
    groups, by_batch = _groups(op)
    if not batched[1]:
        (made,) = again(b, op, (_fold(b, lhs, ls[0], groups if by_batch else 1), rhs))
        return (_unfold(b, made, out[0], size, one[out[0]]),)
    if not batched[0]:
        (made,) = again(b, op, (lhs, _fold(b, rhs, rs[0], groups)))
        return (_unfold(b, made, out[1], size, one[out[1]], groups),)
    lhs, rhs = (not_empty(b, x, (0,)) for x in (lhs, rhs))  # there is at least one group
    count = lhs.shape[0]
    name = "batch_group_count" if by_batch else "feature_group_count"
    folded = _fold(b, lhs, ls[0] if by_batch else ls[1]), _fold(b, rhs, rs[0])
    (made,) = again(b, op, folded, **{name: count * groups})
    made = _unfold(b, made, out[1], count, one[out[1]])
    if count is size or count == size:
        return (made,)
    start, steps = (0,) * len(made.shape), (1,) * len(made.shape)
    return (b.op("slice", made, start=start, limit=(size, *made.shape[1:]), strides=steps),)
