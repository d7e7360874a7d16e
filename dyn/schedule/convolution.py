"""Convolutions as matrix products whose one factor, the image's windows, is never written to memory.

Where the features of the result lie next to each other (NHWC), rows are places, columns are features: windows are
rows of the left operand, read in runs of channels. Where places do (NCHW), rows are features and columns are the
places of one image: windows are columns of the right operand, read in runs along the image's rows. The tiles' packing
copies the windows that it needs, runs as vectors; a convolution with a window of 1 and a stride of 1 has an operand
that needs no packing, and is a plain contraction. Groups too narrow
for tiles, such as those of one channel, are folds instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dyn.ir.opdef import Convolution
from dyn.ops.convolution import Geometry, Term, image_element, kernel_element
from dyn.schedule.axes import Axis, axis, collapse, flatten, index_of
from dyn.schedule.contract import Tiled, TileLowering
from dyn.schedule.elements import Index
from dyn.schedule.expressions import Rewriter, expr_dims
from dyn.schedule.families import schedules_of
from dyn.schedule.kernel import Digits, Expr
from dyn.schedule.launch import Launch
from dyn.schedule.nests import window_nest
from dyn.schedule.target import Target
from dyn.shapes import Dim, Symbol, as_dim, product, substitute
from dyn.stitch.groups import Group, Plan

#: Up to how many features of a group a fold of vectors of places is quicker than a tile.
_FEW_FEATURES = 8


def lower_convolution(plan: Plan, group: Group, target: Target) -> Launch:
    """The launch of a convolution's group."""
    return _ConvolutionLowering(plan, group, target).run()


@dataclass(frozen=True, slots=True)
class _Factors:
    """Both factors of a term over loops: where ``places`` are those of the result but its features, and ``reduced``
    those that are summed over."""

    image: Expr
    kernel: Expr
    reduced: list[Axis]


class _ConvolutionLowering(TileLowering):
    def run(self) -> Launch:
        loops = self.op.opdef.loops
        assert isinstance(loops, Convolution)
        lhs, rhs = self.op.operands
        geometry = Geometry.of(lhs.shape, rhs.shape, self.op.attrs)
        if geometry.groups != 1 and self._is_narrow(geometry):
            nest = window_nest(self.plan, self.group, self.op, loops.windows)
            return schedules_of(self.target).windows(nest, self.target)
        return self._tiled(geometry)

    def _is_narrow(self, g: Geometry) -> bool:
        """Whether a group would leave most of a tile idle: with one channel, or few features where these are rows."""
        if not g.by_batch and self.plan.function.facts.eq(g.channels, 1).proved:
            return True
        by_places = g.out[1] != len(g.out) - 1
        return by_places and isinstance(g.features, int) and g.features <= _FEW_FEATURES

    def _tiled(self, g: Geometry) -> Launch:
        """The group as tiles: axes of the result behind its features are columns, or else those before them rows."""
        shape = self.op.result.shape
        group = self._axis("g", g.groups)
        feature = self._axis("f", g.features)
        places = [self._axis(f"i{a}", d) if a != g.out[1] else None for a, d in enumerate(shape)]
        index = list(index_of(places))
        by_rows = all(a is None for a in places[g.out[1] + 1 :])
        factors = self._factors(g, index, _value(group), feature, by_rows=by_rows)
        index[g.out[1]] = _value(group) * g.features + _value(feature)
        stores = self.stores(self.acc, tuple(index))
        kernel_rows = [feature] if feature is not None else []
        if by_rows:
            sides = [a for a in places if a is not None], kernel_rows
            left, right, outer = factors.image, factors.kernel, []
        else:
            sides = kernel_rows, [a for a in places[g.out[1] + 1 :] if a is not None]
            left, right = factors.kernel, factors.image
            outer = [a for a in places[: g.out[1]] if a is not None]
        row, column, red = _whole("m", sides[0]), _whole("n", sides[1]), _whole("k", factors.reduced)
        digits: list[Digits] = []
        left = _written(left, [(row, sides[0]), (red, factors.reduced)], digits)
        right = _written(right, [(red, factors.reduced), (column, sides[1])], digits)
        onto_row, onto_column = _onto(row, sides[0]), _onto(column, sides[1])
        stores = Rewriter(lambda dim: onto_column(onto_row(dim))).block(stores)
        outer = [*([group] if group is not None else []), *outer]
        return self.tiles(Tiled(row, column, red, outer, left, right, stores, tuple(digits)))

    def _axis(self, name: str, extent: Dim) -> Axis | None:
        return None if extent == 1 else axis(name, extent)

    def _factors(
        self, g: Geometry, index: Sequence[Dim], group: Dim, feature: Axis | None, *, by_rows: bool
    ) -> _Factors:
        """Both factors, and the axes of the sum in the order that suits the operand whose runs are along them: with
        places as rows the order of the image's axes, otherwise that of the kernel's."""
        last = len(g.axes) - 1
        joined = by_rows and bool(g.axes) and self._joins(g)
        taps = [self._axis(f"t{number}", a.window) for number, a in enumerate(g.axes)]
        channel = self._axis("c", g.channels * g.axes[last].window if joined else g.channels)
        if joined:
            taps[last] = None
        order = g.lhs if by_rows else g.rhs
        ordered = sorted([(order[2 + n], a) for n, a in enumerate(taps)] + [(order[1], channel)], key=lambda p: p[0])
        place = tuple(index[a] for a in g.out[2:])
        image_term = Term(index[g.out[0]], group, _value(feature), place, _value(channel), index_of(taps), joined)
        lhs = self.op.operands[0]

        def get(i: int, at: Index, mask: Expr | None = None, other: Expr | None = None) -> Expr:
            return self.elements.at(self.op.operands[i], at, mask, other)

        kernel_term = image_term
        reduced = [a for _, a in ordered if a is not None]
        if joined and channel is not None:
            # What the image reads in one run, the kernel has in two axes: they are put together again below.
            tap, inner = self._axis(f"t{last}", g.axes[last].window), self._axis("c", g.channels)
            both = [a for a in (tap, inner) if a is not None]
            whole_taps = (*index_of(taps[:last]), _value(tap))
            kernel_term = Term(0, group, _value(feature), place, _value(inner), whole_taps)
            kernel = kernel_element(g, kernel_term, get)
            kernel = _written(kernel, [(channel, both)], None)
        else:
            kernel = kernel_element(g, kernel_term, get)
        image = image_element(self.k, g, image_term, get, lhs.dtype)
        return _Factors(self.k.cast(image, self.wide), self.k.cast(kernel, self.wide), reduced)

    def _joins(self, g: Geometry) -> bool:
        """Whether neighbouring taps of the last spatial axis read neighbouring channels: one run for all of both.

        Memory has to hold the image as it is: what is behind a place's channels in a view is not the next place's.
        """
        if self.elements.storage(self.op.operands[0]) is None:
            return False
        axis = g.axes[-1]
        neighbours = g.lhs[1] == len(g.lhs) - 1 and g.lhs[-1 if len(g.axes) else 0] == len(g.lhs) - 2
        whole = g.by_batch or g.groups == 1
        return neighbours and whole and axis.base == 1 and axis.dilation == 1 and axis.window != 1


def _value(a: Axis | None) -> Dim:
    return 0 if a is None else as_dim(a.var)


def _whole(name: str, axes: Sequence[Axis]) -> Axis:
    """One axis for several."""
    return axis(name, product(a.extent for a in axes))


def _onto(whole: Axis, axes: list[Axis]) -> Callable[[Dim], Dim]:
    """Index expressions over several axes as ones over the whole: exactly where one stride runs through all, by
    division otherwise."""
    flat, by_division = flatten(axes) if len(axes) > 1 else ([whole], {})
    by_division = {s: substitute(d, {flat[0].var: as_dim(whole.var)}) for s, d in by_division.items()}

    def change(dim: Dim) -> Dim:
        if not axes:
            return dim
        left, merged = collapse(axes, [dim])
        if len(left) > 1:
            return substitute(dim, by_division)
        return substitute(substitute(dim, merged), {left[0].var: as_dim(whole.var)})

    return change


def _written(operand: Expr, sides: list[tuple[Axis, list[Axis]]], digits: list[Digits] | None) -> Expr:
    """An operand over the whole axes, where one stride runs through each's parts; otherwise over the parts, which then
    are ``digits`` of the whole, or with None quotients of it."""
    for whole, axes in sides:
        if not axes:
            continue
        left, merged = collapse(axes, expr_dims((operand,)))
        if len(left) == 1:
            onto: dict[Symbol, Dim] = {left[0].var: as_dim(whole.var)}
            change = {s: substitute(d, onto) for s, d in merged.items()} | onto
            operand = Rewriter(lambda dim, change=change: substitute(dim, change)).expr(operand)
        elif digits is None:
            operand = Rewriter(_onto(whole, axes)).expr(operand)
        else:
            # Fewer digits are fewer divisions and longer runs. They are this operand's own.
            parts = [axis(a.var.name, a.extent) for a in left]
            own: dict[Symbol, Dim] = {a.var: as_dim(part.var) for a, part in zip(left, parts, strict=True)}
            change = {s: substitute(d, own) for s, d in merged.items()} | own
            operand = Rewriter(lambda dim, change=change: substitute(dim, change)).expr(operand)
            digits.append(Digits(as_dim(whole.var), tuple((a.var, a.extent) for a in parts)))
    return operand
