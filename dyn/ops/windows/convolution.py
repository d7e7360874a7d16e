"""Convolutions: sums of products of an image's windows with kernels."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.frozen import record
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.opdef import Attrs, Convolution, Get, OpDef, OpKind, Sample, ScalarBuilder, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.complex_parts import Pair, Real
from dyn.ops.rules import NUMBER, require_kinds
from dyn.ops.transform_rules import bilinear
from dyn.ops.windows.convolution_rules import convolution_batch, convolution_vjp
from dyn.ops.windows.sliding import WindowAxis, all_of, dilate_and_pad, in_range, window_counts
from dyn.shapes import Dim, RelKind, SymExpr, floordiv, format_dim

Array = np.ndarray[Any, Any]


@record()
class Geometry:
    """A convolution's numbers by meaning, whatever the order of its operands' axes.

    ``lhs``, ``rhs`` and ``out`` say where axes are, as in ``jax.lax.ConvDimensionNumbers``: (batch, feature,
    *spatial), (output feature, input feature, *spatial), (batch, feature, *spatial). ``groups`` are independent
    convolutions side by side, which share out the features of the image (``by_batch`` false) or its batch.
    """

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    out: tuple[int, ...]
    axes: tuple[WindowAxis, ...]
    reversal: tuple[bool, ...]
    groups: Dim
    by_batch: bool
    batch: Dim
    #: Features in and out of one group.
    channels: Dim
    features: Dim

    @staticmethod
    def of(lhs: tuple[Dim, ...], rhs: tuple[Dim, ...], attrs: Attrs) -> Geometry:
        ls, rs = attrs["lhs_spec"], attrs["rhs_spec"]
        axes = tuple(
            WindowAxis(lhs[a], rhs[b], stride, low, high, base, dilation)
            for a, b, stride, (low, high), base, dilation in zip(
                ls[2:], rs[2:], attrs["strides"], attrs["padding"], attrs["lhs_dilation"], attrs["rhs_dilation"],
                strict=True,
            )
        )  # fmt: skip
        by_batch = attrs["batch_group_count"] != 1
        groups = attrs["batch_group_count"] if by_batch else attrs["feature_group_count"]
        batch = floordiv(lhs[ls[0]], groups) if by_batch else lhs[ls[0]]
        features = floordiv(rhs[rs[0]], groups) if groups != 1 else rhs[rs[0]]
        return Geometry(
            ls, rs, attrs["out_spec"], axes, attrs["reversal"], groups, by_batch, batch, rhs[rs[1]], features
        )


@record()
class Term:
    """One product of one result element: its batch, group, feature within the group and place, and the channel and
    taps that are multiplied.

    With ``joined`` the last tap is 0 and ``channel`` runs over the taps of the last spatial axis and the channels
    together, which lie next to each other in the image.
    """

    batch: Dim
    group: Dim
    feature: Dim
    place: tuple[Dim, ...]
    channel: Dim
    taps: tuple[Dim, ...]
    joined: bool = False


def image_element(k: ScalarBuilder, geometry: Geometry, term: Term, get: Get, dtype: DType) -> Any:
    """The image's factor of a term; 0 where there is a hole."""
    g = geometry
    index: list[Dim] = [0] * len(g.lhs)
    index[g.lhs[0]] = term.batch + term.group * g.batch if g.by_batch else term.batch
    index[g.lhs[1]] = term.channel if g.by_batch else term.channel + term.group * g.channels
    masks: list[Any] = []
    for number, (axis, at) in enumerate(zip(g.axes, g.lhs[2:], strict=True)):
        index[at], mask = axis.read(k, term.place[number], term.taps[number])
        if mask is not None and term.joined and number == len(g.axes) - 1:
            mask = in_range(k, index[at] * g.channels + term.channel, axis.size * g.channels)
        masks.append(mask)
    mask = all_of(k, masks)
    return get(0, tuple(index), mask, None if mask is None else k.const(dtype, 0))


def kernel_element(geometry: Geometry, term: Term, get: Get) -> Any:
    """The kernel's factor of a term."""
    g = geometry
    index: list[Dim] = [0] * len(g.rhs)
    index[g.rhs[0]] = term.group * g.features + term.feature
    index[g.rhs[1]] = term.channel
    for axis, at, tap, reverse in zip(g.axes, g.rhs[2:], term.taps, g.reversal, strict=True):
        index[at] = axis.window - 1 - tap if reverse else tap
    return get(1, tuple(index))


# --- the op -------------------------------------------------------------------------------------------------------


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    lhs, rhs = operands
    require_kinds(ctx, operands, NUMBER)
    rank = lhs.rank
    if rhs.rank != rank or rank < 2:
        raise ctx.fail(f"an image {lhs} and a kernel {rhs} have {lhs.rank} and {rhs.rank} axes", "give both as many.")
    for name in ("lhs_spec", "rhs_spec", "out_spec"):
        if sorted(attrs[name]) != list(range(rank)):
            raise ctx.fail(f"{name} {attrs[name]} does not place {rank} axes", "name each axis once.")
    for name in ("strides", "padding", "lhs_dilation", "rhs_dilation", "reversal"):
        if len(attrs[name]) != rank - 2:
            raise ctx.fail(f"{rank - 2} spatial axes have {name} {attrs[name]}", "give one for each spatial axis.")
    _check_groups(ctx, lhs, rhs, attrs)
    geometry = Geometry.of(lhs.shape, rhs.shape, attrs)
    shape: list[Dim] = [0] * rank
    shape[geometry.out[0]] = geometry.batch
    shape[geometry.out[1]] = rhs.shape[geometry.rhs[0]]
    for axis, at, source in zip(geometry.axes, geometry.out[2:], geometry.lhs[2:], strict=True):
        axis.check(ctx, source)
        shape[at] = axis.count(ctx)
    return (TensorType(lhs.dtype, tuple(shape)),)


def _check_groups(ctx: TypeContext, lhs: TensorType, rhs: TensorType, attrs: Attrs) -> None:
    by_feature, by_batch = attrs["feature_group_count"], attrs["batch_group_count"]
    for name, count in (("feature_group_count", by_feature), ("batch_group_count", by_batch)):
        if isinstance(count, int) and count < 1:
            raise ctx.fail(f"{name} is {count}", "it is 1 or more.")
    if by_feature != 1 and by_batch != 1:
        raise ctx.fail(
            f"feature_group_count {format_dim(by_feature)} and batch_group_count {format_dim(by_batch)} are both given",
            "one of them is 1.",
        )
    channels, inputs = lhs.shape[attrs["lhs_spec"][1]], rhs.shape[attrs["rhs_spec"][1]]
    text = "the kernel has as many input features as a group of the image has features"
    ctx.require(RelKind.EQ, inputs * by_feature, channels, text)
    features = rhs.shape[attrs["rhs_spec"][0]]
    for count, size, what in (
        (by_feature, features, "the kernel's output features"),
        (by_batch, features, "the kernel's output features"),
        (by_batch, lhs.shape[attrs["lhs_spec"][0]], "the image's batch"),
    ):
        if isinstance(count, int) and isinstance(size, int):
            if size % count:
                raise ctx.fail(f"{what}, {size}, cannot be shared out among {count} groups")
        elif count != 1:
            if isinstance(count, SymExpr):
                ctx.require(RelKind.GE, count, 1, "there is at least one group")
            ctx.require(RelKind.DIVIDES, count, size, f"{what} are shared out among the groups")


def _reference(lhs: Array, rhs: Array, **attrs: Any) -> Array:
    x, w = dtypes.widened(lhs), dtypes.widened(rhs)
    g = Geometry.of(x.shape, w.shape, attrs)
    x, w = x.transpose(g.lhs), w.transpose(g.rhs)
    flipped = tuple(slice(None, None, -1 if r else 1) for r in g.reversal)
    w = w[:, :, *flipped]
    padding = ((0, 0), (0, 0), *attrs["padding"])
    x = dilate_and_pad(x, (1, 1, *attrs["lhs_dilation"]), padding, x.dtype.type(0))
    groups, batch, features = int(g.groups), int(g.batch), int(g.features)
    channels = int(g.channels)
    places = window_counts(x.shape[2:], w.shape[2:], attrs["strides"], attrs["rhs_dilation"])
    result = np.zeros((batch, w.shape[0], *places), x.dtype)
    with np.errstate(all="ignore"):
        for number in range(groups) if result.size else ():
            part = (
                x[number * batch : (number + 1) * batch]
                if g.by_batch
                else x[:, number * channels : (number + 1) * channels]
            )
            own = slice(number * features, (number + 1) * features)
            for taps in itertools.product(*(range(n) for n in w.shape[2:])):
                starts = [t * d for t, d in zip(taps, attrs["rhs_dilation"], strict=True)]
                steps = attrs["strides"]
                at = tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, places, steps, strict=True))
                window = part[:, :, *at]
                result[:, own] += np.einsum("bc...,oc->bo...", window, w[own, :, *taps]).astype(x.dtype)
    inverse = tuple(int(a) for a in np.argsort(g.out))
    return np.ascontiguousarray(result.transpose(inverse)).astype(lhs.dtype)


NHWC = ((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
NCHW = ((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3))


def _samples() -> list[Sample]:
    rng = np.random.default_rng(0)
    calls: list[Sample] = []

    def add(
        lhs: tuple[int, ...], rhs: tuple[int, ...], specs: Any, dtype: DType = dtypes.float32, **given: Any
    ) -> None:
        spatial = len(lhs) - 2
        attrs: dict[str, Any] = {
            "strides": (1,) * spatial, "padding": ((0, 0),) * spatial, "lhs_dilation": (1,) * spatial,
            "rhs_dilation": (1,) * spatial, "reversal": (False,) * spatial, "lhs_spec": specs[0],
            "rhs_spec": specs[1], "out_spec": specs[2], "feature_group_count": 1, "batch_group_count": 1,
        }  # fmt: skip
        low = 0 if dtype.kind is dtypes.Kind.UINT else -3
        arrays = tuple(rng.integers(low, 4, shape).astype(dtype.np) for shape in (lhs, rhs))
        calls.append(Sample(arrays, {**attrs, **given}))

    same: dict[str, Any] = {"padding": ((1, 1), (1, 1))}
    for n in (0, 1, 2, 7):
        add((2, n, 5, 3), (3, 3, 3, 4), NHWC, **same)
        add((n, 3, 5, 6), (4, 3, 3, 2), NCHW, strides=(2, 1), padding=((1, 0), (2, -1)))
    add((1, 3, 4, 2), (1, 1, 2, 5), NHWC)
    add((2, 3, 9, 4), (3, 3, 1, 4), NHWC, feature_group_count=4, rhs_dilation=(1, 2), **same)
    add((2, 4, 3, 9), (6, 2, 3, 2), NCHW, feature_group_count=2, **same)
    add((4, 3, 5, 2), (2, 3, 2, 6), NHWC, batch_group_count=2, reversal=(True, False))
    add((2, 3, 4, 3), (3, 3, 3, 2), NHWC, lhs_dilation=(2, 3), padding=((2, 1), (0, 2)))
    line = ((0, 1, 2), (0, 1, 2), (0, 1, 2))
    for size in (0, 1, 2, 64):
        add((2, 3, size), (4, 3, 2), line)
    cube = ((0, 4, 1, 2, 3), (4, 3, 0, 1, 2), (0, 4, 1, 2, 3))
    add((1, 3, 4, 2, 2), (2, 2, 2, 2, 3), cube)
    add((2, 7), (3, 7), ((0, 1), (0, 1), (0, 1)))
    for dtype in (
        dtypes.float64,
        dtypes.complex64,
        dtypes.bfloat16,
        dtypes.float16,
        dtypes.float8_e4m3fn,
        dtypes.int8,
        dtypes.int32,
        dtypes.uint16,
    ):
        add((1, 4, 4, 3), (3, 3, 3, 2), NHWC, dtype, **same)
        add((1, 3, 4, 4), (3, 1, 3, 3), NCHW, dtype, feature_group_count=3, **same)
    return calls


def _parts(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    """Four real convolutions."""
    r, (lhs, rhs) = Real(b), operands

    def conv(i: int, j: int) -> Value:
        return b.op("convolution", lhs[i], rhs[j], **op.attrs)

    return r.sub(conv(0, 0), conv(1, 1)), r.add(conv(0, 1), conv(1, 0))


#: StableHLO's convolution; ``padding`` and group counts may be dims. The result of no window has no elements.
convolution = OpDef(
    "convolution",
    OpKind.CONTRACT,
    types=_types,
    loops=Convolution(),
    reference=_reference,
    samples=_samples,
    vjp=convolution_vjp, jvp=bilinear, batch=convolution_batch,
    parts=_parts,
)  # fmt: skip
