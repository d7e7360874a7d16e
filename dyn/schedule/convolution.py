"""The nest of a convolution: a matrix product whose one factor, the image's windows, is never written to memory.

Where the features of the result lie next to each other (NHWC), rows are places, columns are features: windows are
rows of the left operand, read in runs of channels. Where places do (NCHW), rows are features and columns are the
places of one image: windows are columns of the right operand, read in runs along the image's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from dyn.frozen import record
from dyn.ir.core import Op
from dyn.ops.windows.convolution import Geometry, Term, image_element, kernel_element
from dyn.schedule.axes import Axis, AxisKind, index_of, onto
from dyn.schedule.contract import contraction_nest
from dyn.schedule.elements import ElementReader, Index
from dyn.schedule.expressions import Rewriter
from dyn.schedule.kernel import Expr
from dyn.schedule.nest import Contraction, Nest
from dyn.schedule.nests import loop, present
from dyn.shapes import Dim, as_dim
from dyn.stitch.groups import Group, Plan


def geometry_of(op: Op) -> Geometry:
    """A convolution's numbers by meaning."""
    lhs, rhs = op.operands
    return Geometry.of(lhs.shape, rhs.shape, op.attrs)


def along_features(g: Geometry, shape: Sequence[Dim]) -> bool:
    """Whether the features of a result lie next to each other in memory: the rows are places."""
    return all(d == 1 for d in shape[g.out[1] + 1 :])


def convolution_nest(plan: Plan, group: Group, op: Op, g: Geometry) -> Nest:
    """A stage that contracts, for each feature of each group at each place, and one that stores what comes of it.

    The numbers of ``g`` are those of ``op``, or what these are where the kernel is chosen.
    """
    shape = op.result.shape
    by_rows = along_features(g, shape)
    number, feature = loop("g", g.groups), loop("f", g.features)
    places = [loop(f"i{a}", d) if a != g.out[1] else None for a, d in enumerate(shape)]
    index = list(index_of(places))
    sums = _sums(plan, group, op, g, _ResultElement(tuple(index), _value(number), _value(feature)), by_rows=by_rows)
    index[g.out[1]] = _value(number) * g.features + _value(feature)
    before, behind, features = present(places[: g.out[1]]), present(places[g.out[1] + 1 :]), present([feature])
    rows, columns = (before, features) if by_rows else (features, behind)
    contraction = Contraction(op.result, rows, columns, sums.operands)
    shared = (*before, *present([number]), *features, *behind)
    return contraction_nest(plan, group, shared, sums.axes, tuple(index), contraction)


@record()
class _ResultElement:
    """An element of the result: its index but for the feature, its group and its feature in the group."""

    index: Index
    group: Dim
    feature: Dim


@record()
class _Sums:
    """The axes that are summed over, and both factors over them: the rows' operand first."""

    axes: tuple[Axis, ...]
    operands: Callable[[ElementReader], tuple[Expr, Expr]]


def _sums(plan: Plan, group: Group, op: Op, g: Geometry, at: _ResultElement, *, by_rows: bool) -> _Sums:
    """The sums of a result's element, with axes in the order that suits the operand whose runs are along them: with
    places as rows the order of the image's axes, otherwise that of the kernel's."""
    last = len(g.axes) - 1
    joined = by_rows and bool(g.axes) and _joins(plan, group, op, g)
    taps = [loop(f"t{number}", a.window, AxisKind.CONTRACTED) for number, a in enumerate(g.axes)]
    channel = loop("c", g.channels * g.axes[last].window if joined else g.channels, AxisKind.CONTRACTED)
    if joined:
        taps[last] = None
    order = g.lhs if by_rows else g.rhs
    ordered = sorted([(order[2 + n], a) for n, a in enumerate(taps)] + [(order[1], channel)], key=lambda p: p[0])
    batch, place = at.index[g.out[0]], tuple(at.index[a] for a in g.out[2:])
    term = Term(batch, at.group, at.feature, place, _value(channel), index_of(taps), joined)

    def operands(elements: ElementReader) -> tuple[Expr, Expr]:
        def get(i: int, index: Index, mask: Expr | None = None, other: Expr | None = None) -> Expr:
            return elements.at(op.operands[i], index, mask, other)

        k, wide = elements.k, op.result.dtype.wide
        if joined and channel is not None:
            # What the image reads in one run, the kernel has in two axes: they are put together again.
            tap, inner = loop(f"t{last}", g.axes[last].window), loop("c", g.channels)
            whole_taps = (*term.taps[:last], _value(tap))
            kernel = kernel_element(g, replace(term, channel=_value(inner), taps=whole_taps), get)
            kernel = Rewriter(onto(channel, present([tap, inner]))).expr(kernel)
        else:
            kernel = kernel_element(g, term, get)
        image = image_element(k, g, term, get, op.operands[0].dtype)
        image, kernel = k.cast(image, wide), k.cast(kernel, wide)
        return (image, kernel) if by_rows else (kernel, image)

    return _Sums(tuple(a for _, a in ordered if a is not None), operands)


def _joins(plan: Plan, group: Group, op: Op, g: Geometry) -> bool:
    """Whether neighbouring taps of the last spatial axis read neighbouring channels: one run for all of both.

    Memory has to hold the image as it is: what is behind a place's channels in a view is not the next place's.
    """
    if ElementReader(plan, group).storage(op.operands[0]) is None:
        return False
    axis = g.axes[-1]
    neighbours = g.lhs[1] == len(g.lhs) - 1 and g.lhs[-1 if len(g.axes) else 0] == len(g.lhs) - 2
    whole = g.by_batch or g.groups == 1
    return neighbours and whole and axis.base == 1 and axis.dilation == 1 and axis.window != 1


def _value(a: Axis | None) -> Dim:
    return 0 if a is None else as_dim(a.var)
