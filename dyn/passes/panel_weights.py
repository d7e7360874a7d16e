"""Right operands of products that never change, in panels: what is kept of a program's arrays beside its calls.

A program of frozen arrays becomes one whose hidden parameters are, in the place of some of these, their matrices in
panels (``dyn.ops.panels``), which whoever binds the program to its arrays computes once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from dyn.dtypes import DType
from dyn.frozen import record
from dyn.ir.builder import Builder, buffer_of
from dyn.ir.core import Dense, Function, Op, ParamInfo, Region, Value, with_operands
from dyn.ir.opdef import Control, OpKind
from dyn.ir.region_passes import body_of, carries, is_loop, unchanged
from dyn.ir.types import TensorType
from dyn.ops.contract import dot_general, free_axes
from dyn.ops.elementwise import convert
from dyn.ops.panels import from_panels, panel_shape
from dyn.ops.shape import broadcast_in_dim, reshape, reshape_groups, slice_, transpose
from dyn.passes.redundancy import eliminate_dead_code
from dyn.shapes import Dim

#: So many values at most are looked at in front of a product for weights that are narrower than its operand.
_MOST_COMPUTED = 48
#: The axes of batches, of rows and of columns of a right operand, or of what it is computed of.
_Axes = tuple[Sequence[int], Sequence[int], Sequence[int]]
#: ``layout(lhs, rhs, acc, columns)``: the columns of a panel in which a matrix of dtype ``rhs`` is kept for products
#: with ``lhs`` that are summed in ``acc``, and the rows of a step; None where it is read as it lies.
PanelLayout = Callable[[DType, DType, DType, int], tuple[int, int] | None]


@record()
class Panels:
    """A captured array, by its number, or a constant as matrices in panels of ``width`` columns and steps of ``group``
    rows: ``axes`` are those of its batches, then that of its rows, then that of its columns. It is seen through
    ``views`` first, reshapes and transposes by name."""

    source: int | Dense
    axes: tuple[int, ...]
    width: int
    group: int = 1
    views: tuple[tuple[str, tuple[int, ...]], ...] = ()


@record(eq=False)
class PanelledFunction:
    """A function, and what each of its hidden parameters is: a captured array by its number, or one in panels."""

    function: Function
    hidden: tuple[int | Panels, ...]


def panel_weights(function: Function, frozen: Collection[int], layout: PanelLayout) -> PanelledFunction:
    """The function whose products read those of its captured arrays in panels that are ``frozen``, by number, and large
    constants.

    Needs nothing. Leaves functions as they are that have no such product.
    """
    arguments = sum(not info.hidden for info in function.infos)
    own = list(zip(function.params, function.infos, strict=True))
    numbers = {param: n for n, (param, _) in enumerate(own[arguments:]) if n in frozen}
    scope = _Scope()
    ops = _Rewriting(function, numbers, layout).block(function.ops, scope)
    if not scope.panels:
        return PanelledFunction(function, tuple(range(len(own) - arguments)))
    changed = eliminate_dead_code(function.with_ops(ops))
    read = {value for op in changed.ops for value in op.reads()} | {*changed.results}
    hidden: list[int | Panels] = []
    kept = own[:arguments]
    for number, (param, info) in enumerate(own[arguments:]):
        if param in read or number not in {panels.source for panels in scope.panels}:
            hidden.append(number)
            kept.append((param, info))
    for panels, param in scope.panels.items():
        name = param.name if isinstance(panels.source, Dense) else own[arguments + panels.source][1].name
        hidden.append(panels)
        kept.append((param, ParamInfo(name, hidden=True)))
    params, infos = zip(*kept, strict=True)
    return PanelledFunction(replace(changed, params=params, infos=infos), tuple(hidden))


def _passed(op: Op) -> dict[Value, Value]:
    """The values outside of a loop or a choice, by the parameters of its regions that stand for them throughout."""
    if not isinstance(op.opdef.loops, Control):
        return {}
    given, same = op.operands, unchanged(op)
    if not is_loop(op):
        given = op.operands[1:]
        same = (True,) * len(given)
    return {region.params[n]: given[n] for region in op.regions for n, stays in enumerate(same) if stays}


@record(eq=False)
class _Weight:
    """A frozen value and its source. Seen through ``views`` it has a ``shape``; ``places`` says which axes of that
    those of the operand are that was asked for."""

    value: Value
    source: int | Dense
    views: tuple[tuple[str, tuple[int, ...]], ...]
    shape: tuple[Dim, ...]
    places: tuple[int, ...]


class _Scope:
    """The ops of the function, or of a region of a loop or choice, which reads nothing from outside but what it is
    passed: the panels that it needs, each as a value there."""

    def __init__(self) -> None:
        self.panels: dict[Panels, Value] = {}

    def value(self, panels: Panels, weight: Value, sizes: Sequence[int]) -> Value:
        """The value of the panels of a weight: matrices of these ``sizes``, of batches, of rows and of columns."""
        found = self.panels.get(panels)
        if found is None:
            *batch, rows, columns = sizes
            shape = panel_shape(batch, rows, columns, panels.width, panels.group)
            found = self.panels[panels] = Value(TensorType(weight.dtype, shape), f"{weight.name or 'weight'}_panels")
        return found


@record(eq=False)
class _Right:
    """The right operand of a product with a left one that lies in dtype ``lhs``, summed in ``acc``, as it is built."""

    builder: Builder
    scope: _Scope
    lhs: DType
    acc: DType


@record(eq=False)
class _Lies:
    """A weight in panels of ``width`` columns and steps of ``group`` rows: the order of its axes, and their sizes."""

    order: tuple[int, ...]
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    width: int
    group: int


class _Rewriting:
    """The ops of a function with panels in the place of weights."""

    def __init__(self, function: Function, numbers: dict[Value, int], layout: PanelLayout) -> None:
        self._facts, self._numbers, self._layout = function.facts, numbers, layout
        self._producers: dict[Value, Op] = {}
        #: What a region is passed, and does not change, by what that is outside of it.
        self._passed: dict[Value, Value] = {}

    def block(self, ops: tuple[Op, ...], scope: _Scope) -> tuple[Op, ...]:
        """The ops of a scope, which is told of the panels that they read."""
        found: list[Op] = []
        for op in ops:
            self._producers.update(dict.fromkeys(op.results, op))
            if isinstance(op.opdef.loops, Control):
                found.append(self._control(op, scope))
            else:
                found += self._product(op, scope) if op.opdef is dot_general else [op]
        same = len(found) == len(ops) and all(a is b for a, b in zip(found, ops, strict=True))
        return ops if same else tuple(found)

    def _control(self, op: Op, scope: _Scope) -> Op:
        """A loop or a choice, which is passed the panels that its regions read."""
        given = op.operands if is_loop(op) else op.operands[1:]
        self._passed.update(_passed(op))
        scopes = [_Scope() for _ in op.regions]
        blocks = [self.block(region.ops, own) for region, own in zip(op.regions, scopes, strict=True)]
        wanted = dict.fromkeys(panels for own in scopes for panels in own.panels)
        if not wanted:
            return op
        matrices = {panels: own.panels[panels] for own in scopes for panels in own.panels}
        more = [_like(matrices[panels]) for panels in wanted]
        outside = [scope.panels.setdefault(panels, one) for panels, one in zip(wanted, more, strict=True)]
        at = carries(op) if is_loop(op) else len(given)
        regions: list[Region] = []
        for region, own, ops in zip(op.regions, scopes, blocks, strict=True):
            inside = [own.panels[panels] if panels in own.panels else _like(matrices[panels]) for panels in wanted]
            results = region.results
            if is_loop(op) and region is body_of(op):
                results = (*results[:at], *inside, *results[at:])
            regions.append(Region((*region.params[:at], *inside, *region.params[at:]), ops, results, region.demands))
        at_operand = at + len(op.operands) - len(given)
        operands = (*op.operands[:at_operand], *outside, *op.operands[at_operand:])
        results, attrs = op.results, op.attrs
        if is_loop(op):
            results = (*results[:at], *[_like(one) for one in more], *results[at:])
            attrs = {**attrs, "carries": at + len(more)} if "carries" in attrs else attrs
        return replace(op, operands=operands, regions=tuple(regions), results=results, attrs=attrs)

    def _product(self, op: Op, scope: _Scope) -> list[Op]:
        """A product, and in front of it what it reads from panels, where it does."""
        left, right = op.operands
        batch, contracted = op.attrs["rhs_batch"], op.attrs["rhs_contracting"]
        free = free_axes(len(right.shape), batch, contracted)
        if left is right or not contracted or not free:
            return [op]
        axes = (batch, contracted, free)
        own = _Right(Builder(self._facts, op.loc), scope, self._as_it_lies(left).dtype, op.result.dtype.wide)
        weight = self._weight(right)
        if weight is None:
            read = self._computed(own, right, axes)
            return [op] if read is None else [*own.builder.ops, with_operands(op, {right: read})]
        lies = self._lies(own, weight, axes, weight.value.dtype)
        if lies is None:
            return [op]
        read = self._matrix(own, weight, lies)
        if read.dtype is not right.dtype:
            (read,) = own.builder.emit(convert, (read,), dtype=right.dtype)
        n, k = len(batch), len(contracted)
        attrs = {**op.attrs, "rhs_batch": tuple(range(n)), "rhs_contracting": tuple(range(n, n + k))}
        return [*own.builder.ops, replace(with_operands(op, {right: read}), attrs=attrs)]

    def _lies(self, own: _Right, weight: _Weight, axes: _Axes, dtype: DType) -> _Lies | None:
        """The layout in panels of a weight whose batches, rows and columns some axes are; None where it is read as it
        lies. Of ``dtype`` is what comes of its elements before they are multiplied."""
        places = [tuple([weight.places[axis] for axis in one]) for one in axes]
        if not all(isinstance(size := weight.shape[place], int) and size > 0 for one in places for place in one):
            return None
        batch, rows, columns = [tuple([int(weight.shape[place]) for place in one]) for one in places]
        layout = self._layout(own.lhs, dtype, own.acc, math.prod(columns))
        if layout is None or (dtype is not weight.value.dtype and layout[1] != 1):
            return None
        if len(columns) > 1 and columns[-1] % layout[0]:  # a panel would have some of one head and of the next
            return None
        return _Lies(tuple([place for one in places for place in one]), batch, rows, columns, *layout)

    def _matrix(self, own: _Right, weight: _Weight, lies: _Lies) -> Value:
        """A weight from panels, in the order of batches, rows and columns."""
        order, views = lies.order, weight.views
        sizes = (*lies.batch, math.prod(lies.rows), math.prod(lies.columns))
        if len(sizes) < len(order):  # several axes are rows, or columns
            views = (*views, ("transpose", order), ("reshape", sizes))
            order = tuple(range(len(sizes)))
        panels = own.scope.value(
            Panels(weight.source, order, lies.width, lies.group, views), weight.value, sizes
        )  # fmt: skip
        (read,) = own.builder.emit(from_panels, (panels,), rows=lies.rows, columns=lies.columns)
        return read

    def _computed(self, own: _Right, operand: Value, axes: _Axes) -> Value | None:
        """A right operand that is computed, element by element, of weights that are narrower than it, which are read
        from panels with the scales of their groups; None where it is nothing of the kind."""
        found = dict[Value, tuple[_Weight, _Lies]]()
        stack, seen = [(operand, axes)], set[Value]()
        while stack:
            value, its = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            weight = self._weight_of_groups(value, its)
            if weight is None or not _is_small(weight.value, operand):
                operands = self._computing(value, its)
                if not operands and not _goes_along_columns(value, its):
                    return None
                stack += operands
                continue
            lies = self._lies(own, weight, its, operand.dtype)
            if lies is None:
                return None
            found[value] = weight, lies
        columns = {math.prod(lies.columns) for _, lies in found.values()}
        narrow = [weight for weight, _ in found.values() if _is_narrow(weight.value, operand)]
        if not narrow or len(columns) > 1 or len(seen) > _MOST_COMPUTED:
            return None
        return self._from_panels(own, operand, axes, found, {})

    def _computing(self, value: Value, axes: _Axes) -> list[tuple[Value, _Axes]]:
        """The values that a value is computed of, element by element, with their axes of batches, rows and columns."""
        op = self._producers.get(value)
        if op is None or len(op.results) != 1 or op.regions:
            return []
        if op.opdef.kind is OpKind.POINTWISE:
            return [(operand, axes) for operand in op.operands]
        if op.opdef is transpose:
            permutation = op.attrs["permutation"]
            return [(op.operands[0], _mapped(axes, lambda axis: [permutation[axis]]))]
        if op.opdef is broadcast_in_dim:
            dims = list(op.attrs["dims"])
            return [(op.operands[0], _mapped(axes, lambda axis: [dims.index(axis)] if axis in dims else []))]
        if _is_whole(op):
            return [(op.operands[0], axes)]
        inner = _in_front_of(op, axes) if op.opdef is reshape else None
        return [] if inner is None else [(op.operands[0], inner)]

    def _weight_of_groups(self, value: Value, axes: _Axes) -> _Weight | None:
        """The weight that a value is, where it has more than one row and more than one column."""
        weight = self._weight(value) if value.shape else None
        _, rows, columns = axes
        several = [any(value.shape[axis] != 1 for axis in one) for one in (rows, columns)]
        return weight if all(several) and sum(map(len, axes)) == len(value.shape) else None

    def _from_panels(
        self, own: _Right, value: Value, axes: _Axes, weights: Mapping[Value, tuple[_Weight, _Lies]],
        made: dict[Value, Value],
    ) -> Value:  # fmt: skip
        """A value with weights in panels in the place of those that it is computed of."""
        if value in made:
            return made[value]
        found = value
        if value in weights:
            read = self._matrix(own, *weights[value])
            order = [axis for one in axes for axis in one]
            (found,) = own.builder.emit(transpose, (read,), permutation=tuple(map(order.index, range(len(order)))))
            if found.dtype is not value.dtype:
                (found,) = own.builder.emit(convert, (found,), dtype=value.dtype)
        else:
            inner = [self._from_panels(own, one, its, weights, made) for one, its in self._computing(value, axes)]
            op = self._producers.get(value)
            if op is not None and any(a is not b for a, b in zip(inner, op.operands, strict=False)):
                (found,) = own.builder.emit(op.opdef, inner, **op.attrs)
        made[value] = found
        return found

    def _as_it_lies(self, value: Value) -> Value:
        """The value in front of conversions that change no number."""
        while (op := self._producers.get(value)) is not None and _is_widening(op):
            (value,) = op.operands
        return value

    def _weight(self, value: Value) -> _Weight | None:
        """The frozen parameter or the constant that a value is, through transposes, reshapes, regions and conversions
        that change no number."""
        places, shown, views = tuple(range(len(value.shape))), None, list[tuple[str, tuple[int, ...]]]()
        while True:
            op = self._producers.get(value)
            if op is None and value in self._passed:
                value = self._passed[value]
            elif op is not None and op.opdef is transpose:
                permutation = op.attrs["permutation"]
                if shown is None:
                    places = tuple([permutation[place] for place in places])
                else:
                    views.append(("transpose", permutation))
                (value,) = op.operands
            elif op is not None and op.opdef is reshape and all(isinstance(size, int) for size in op.result.shape):
                shown = op.result if shown is None else shown
                views.append(("reshape", op.attrs["shape"]))
                (value,) = op.operands
            elif op is not None and (_is_widening(op) or _is_whole(op)):
                (value,) = op.operands
            else:
                source = self._numbers.get(value) if op is None else buffer_of(op)
                shape = value.shape if shown is None else shown.shape
                return None if source is None else _Weight(value, source, tuple(reversed(views)), shape, places)


def _is_widening(op: Op) -> bool:
    """Whether an op converts numbers to a dtype that holds them all."""
    return op.opdef is convert and op.result.dtype.holds(op.operands[0].dtype)


def _is_whole(op: Op) -> bool:
    """Whether an op is a slice of everything, as an index with a new axis is."""
    return op.opdef is slice_ and op.result.shape == op.operands[0].shape


def _is_narrow(weight: Value, operand: Value) -> bool:
    """Whether a weight has numbers in fewer bytes than an operand that is computed of it, or several in a word."""
    return weight.dtype.itemsize < operand.dtype.itemsize or (
        weight.dtype.is_integer and operand.dtype.is_float and _is_small(weight, operand)
    )


def _is_small(weight: Value, operand: Value) -> bool:
    """Whether a weight has half of an operand's bytes at most; not where their sizes are no numbers."""
    own, its = weight.type.nbytes, operand.type.nbytes
    return isinstance(own, int) and isinstance(its, int) and own * 2 <= its


def _mapped(axes: _Axes, change: Callable[[int], Sequence[int]]) -> _Axes:
    """Axes of an operand for those of a result, each with none or several."""
    batch, rows, columns = [tuple([own for axis in one for own in change(axis)]) for one in axes]
    return batch, rows, columns


def _in_front_of(op: Op, axes: _Axes) -> _Axes | None:
    """The axes that a reshape merges or parts; None where it mixes rows and columns, or takes them in another order."""
    (source,), shape = op.operands, op.result.shape
    own, alone = dict[int, Sequence[int]](), list[int]()
    for olds, news in reshape_groups(source.shape, shape):
        wide = [axis for axis in news if shape[axis] != 1]
        if len(wide) > 1 and not any(_is_run(wide, one) for one in axes):
            return None
        own.update((axis, ()) for axis in news)
        if len(news) > 0:
            own[wide[0] if wide else news.start] = olds
        else:  # of size 1 all of them
            alone += olds
    batch, rows, columns = _mapped(axes, own.__getitem__)
    return batch, (*rows, *alone), columns


def _goes_along_columns(value: Value, axes: _Axes) -> bool:
    """Whether neighbours of what is read beside panels are neighbours along columns, or in one of them."""
    wide = [axis for axis, size in enumerate(value.shape) if size != 1]
    columns = [axis for axis in axes[2] if axis in wide]
    return not columns or wide[-1] == columns[-1]


def _is_run(wanted: Sequence[int], axes: Sequence[int]) -> bool:
    """Whether some axes stand one behind the other among others."""
    return any(list(axes[n : n + len(wanted)]) == list(wanted) for n in range(len(axes)))


def _like(value: Value) -> Value:
    """Another value of the same type and name."""
    return Value(value.type, value.name)
