"""The nests of groups without contractions: loops, copies, stitched reductions, and windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dyn.ir.core import Op, Value
from dyn.ir.opdef import OpKind, OrderedWindows, ReductionLoops, WindowFold
from dyn.ops.choices import Choice
from dyn.ops.regions import region_values
from dyn.ops.scalar import Scalar
from dyn.schedule.accumulation import accumulation, start_of
from dyn.schedule.axes import Axis, AxisKind, axis, index_of, linearize
from dyn.schedule.elements import ElementReader, Index
from dyn.schedule.expressions import literal
from dyn.schedule.kernel import Buffer, Carry, Const, Expr, Store, scalar_monoid
from dyn.schedule.monoids import extreme_and_place
from dyn.schedule.nest import Nest, OrderedReduction, Reduction, Stage, Write, casts
from dyn.schedule.order import Order
from dyn.schedule.regions import ordered_carries
from dyn.schedule.sweeps import Sweeps
from dyn.shapes import Dim, Symbol
from dyn.stitch.access import Views, as_index, axis_symbols
from dyn.stitch.groups import Group, Plan
from dyn.stitch.ordered_reductions import choice, is_ordered


def loop(name: str, extent: Dim, kind: AxisKind = AxisKind.PARALLEL) -> Axis | None:
    """An axis; none where its size is 1."""
    return None if extent == 1 else axis(name, extent, kind)


def present(axes: Sequence[Axis | None]) -> tuple[Axis, ...]:
    """The axes without those of size 1."""
    return tuple(a for a in axes if a is not None)


# Loops and copies ---------------------------------------------------------------------------------------------------


def loop_nest(plan: Plan, group: Group) -> Nest:
    """One stage: every output at each index of the group's space."""
    axes = [loop(f"i{a}", extent) for a, extent in enumerate(group.space)]
    index = index_of(axes)
    stage = Stage(index=index, writes=tuple(write_at(v, index) for v in group.outputs))
    return Nest(plan, group, present(axes), (stage,))


def write_at(output: Value, index: Index) -> Write:
    """A full-size output at an index of its group's space, or a view that permutes one."""
    return Write(output, lambda elements, buffer: permuted_stores(elements, buffer, output, index))


def permuted_stores(elements: ElementReader, buffer: Buffer, value: Value, index: Index) -> tuple[Store, ...]:
    """Store a full-size member, or a view that permutes one, at an index of the group's space."""
    op = elements.members[value]
    if op.opdef.kind is not OpKind.VIEW or elements.group.ops == (op,):
        return elements.stores(buffer, linearize(index, value.shape), value, index)
    symbols = axis_symbols(value.shape)
    views = Views(elements.producers, lambda v: v in elements.members and v is not value)
    base, at = views.chain(value, as_index(symbols))
    places = {dim: index[position] for position, dim in enumerate(at)}
    own = tuple(places.get(variable, 0) for variable in as_index(symbols))
    return elements.stores(buffer, linearize(own, value.shape), base, index)


# Stitched reductions ------------------------------------------------------------------------------------------------


def stitch_nest(
    plan: Plan,
    group: Group,
    sweeps: Sweeps,
    order: Order | None = None,
    passes: Callable[[Sequence[Axis | None]], list[Stage]] | None = None,
) -> Nest:
    """A stage a sweep over the reduced axes, or those of ``passes``, and at last one for what is known of each row."""
    axes = [None if a in group.reduced else loop(f"i{a}", extent) for a, extent in enumerate(group.space)]
    if passes is not None:
        stages = passes(axes)
    else:
        stages = [sweep_stage(plan, group, sweep.reduces, sweep.stored, axes) for sweep in sweeps.sweeps if sweep]
    stretched = sweeps.stretched()
    stages += [stretched_stage(values, shape, axes) for shape, values in stretched.items()]
    others = [v for v in group.outputs if not sweeps.is_full(v)]
    rows = tuple(row_write(v, group, axes) for v in others if v.shape not in stretched)
    return Nest(plan, group, present(axes), (*stages, *([Stage(writes=rows)] if rows else [])), order)


def stretched_stage(values: Sequence[Value], shape: tuple[Dim, ...], axes: Sequence[Axis | None]) -> Stage:
    """Values over a shape whose axes stretch those that are reduced, once all of a row is known."""
    own = [
        loop(f"s{a}", extent) if kept is None else None
        for a, (kept, extent) in enumerate(zip(axes, shape, strict=True))
    ]
    index = index_of([kept or mine for kept, mine in zip(axes, own, strict=True)])
    return Stage(present(own) or (axis("s", 1),), index, tuple(write_at(v, index) for v in values))


def sweep_stage(
    plan: Plan,
    group: Group,
    reduces: Sequence[Op],
    stored: Sequence[Value],
    axes: Sequence[Axis | None],
    inner: Mapping[int, Axis | None] | None = None,
) -> Stage:
    """One pass over the reduced axes, whose loops are ``inner`` if given; ``axes`` are the loops over the kept ones."""
    ordered = [op for op in reduces if is_ordered(op, plan.producers)]
    kind = AxisKind.FOLD if ordered else AxisKind.REDUCE if reduces else AxisKind.PARALLEL
    own = {a: loop(f"r{a}", group.space[a], kind) for a in sorted(group.reduced)} if inner is None else inner
    index = index_of([own.get(a, axes[a]) for a in range(len(axes))])
    return Stage(
        axes=present(list(own.values())) or (axis("r", 1, kind),),
        index=index,
        writes=tuple(write_at(v, index) for v in stored),
        reductions=tuple(_reduction(plan, op, index) for op in reduces if op not in ordered),
        ordered=tuple(_ordered(op, index) for op in ordered),
    )


def _reduction(plan: Plan, op: Op, index: Index) -> Reduction:
    """A reduction of what its operands have at an index."""
    chosen = choice(op, plan.producers)
    if chosen is not None:
        return _choice(op, chosen, index)
    loops, (operand,) = op.opdef.loops, op.operands
    assert isinstance(loops, ReductionLoops)
    return accumulated(op.result, loops.combine(op.attrs), start_of(op), lambda elements: elements.at(operand, index))


def accumulated(result: Value, combine: Scalar, start: Const, element: Callable[[ElementReader], Expr]) -> Reduction:
    """The reduction of elements by a scalar function, computed in the dtype of its identity ``start``."""
    made = accumulation(combine, start)

    def states(elements: ElementReader) -> tuple[Expr, ...]:
        return (elements.k.cast(element(elements), start.dtype),)

    def finish(elements: ElementReader, state: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (elements.k.cast(made.finish(elements.k, state), result.dtype),)

    return Reduction((result,), made.monoid, states, finish, made.block)


def _choice(op: Op, chosen: Choice, index: Index) -> Reduction:
    """A choice among pairs. What the op starts from is joined by its region at the end, as if it came first."""
    values, places = op.results
    wide, (body,) = values.dtype.wide, op.regions

    def states(elements: ElementReader) -> tuple[Expr, ...]:
        return elements.k.cast(elements.at(op.operands[0], index), wide), elements.at(op.operands[1], index)

    def finish(elements: ElementReader, state: tuple[Expr, ...]) -> tuple[Expr, ...]:
        best = elements.k.cast(state[0], values.dtype), state[1]
        return region_values(elements.k, body, [*(elements.at(v, ()) for v in op.operands[2:]), *best])

    monoid = extreme_and_place(chosen.combine, wide, places.dtype, nan_wins=chosen.nan_wins)
    return Reduction(op.results, monoid, states, finish)


def _ordered(op: Op, index: Index) -> OrderedReduction:
    """A reduction in order of what its operands have at an index."""
    count, (body,) = len(op.results), op.regions

    def carries(elements: ElementReader) -> tuple[Carry, ...]:
        found = [elements.at(v, index) for v in op.operands[:count]]
        inits = [elements.at(v, ()) for v in op.operands[count:]]
        return ordered_carries(elements.k, body, inits, found)

    return OrderedReduction(op.results, carries)


def row_write(output: Value, group: Group, axes: Sequence[Axis | None]) -> Write:
    """An output that has an element for each index of the kept axes: with axes of size 1 for the others, or without."""
    own = [a for number, a in enumerate(axes) if number not in group.reduced]
    index = index_of(own if len(output.shape) == len(own) else axes)
    place = linearize(index, output.shape)
    return Write(output, lambda elements, buffer: elements.stores(buffer, place, output, index))


# Windows ------------------------------------------------------------------------------------------------------------


def window_nest(plan: Plan, group: Group, op: Op, windows: WindowFold | OrderedWindows) -> Nest:
    """A stage that folds the window of ``op`` at each index of the space, and one that stores what comes of it."""
    axes = [loop(f"i{a}", extent) for a, extent in enumerate(group.space)]
    index = index_of(axes)
    kind = AxisKind.REDUCE if isinstance(windows, WindowFold) else AxisKind.FOLD
    taps = [loop(f"t{a}", extent, kind) for a, extent in enumerate(windows.extents(op))]
    own = present(taps) or (axis("t", 1, kind),)
    if isinstance(windows, WindowFold):
        folded = _window(op, windows, index, index_of(taps))
        fold = Stage(own, reductions=(folded,), lengths=_lengths(op, windows, index, own))
    else:
        fold = Stage(own, ordered=(_ordered_window(op, windows, index, index_of(taps)),))
    store = Stage(index=index, writes=tuple(write_at(v, index) for v in group.outputs))
    return Nest(plan, group, present(axes), (fold, store))


def _lengths(
    op: Op, windows: WindowFold, index: Index, taps: tuple[Axis, ...]
) -> dict[Symbol, Callable[[ElementReader], Dim]]:
    """Lengths of the axis of taps, where windows are of different sizes."""
    length = windows.length
    if length is None:
        return {}
    (tap,) = taps
    return {tap.var: lambda elements: length(elements.k, op, index, _operand(elements, op))}


def _operand(elements: ElementReader, op: Op) -> Callable[..., Expr]:
    """The reader of an op's operands, for its rule."""

    def get(i: int, at: Index, mask: Expr | None = None, other: Expr | None = None) -> Expr:
        return elements.at(op.operands[i], at, mask, other)

    return get


def _window(op: Op, windows: WindowFold, index: Index, taps: Index) -> Reduction:
    wide = op.result.dtype.wide

    def states(elements: ElementReader) -> tuple[Expr, ...]:
        return (windows.at(elements.k, op, index, taps, _operand(elements, op), wide),)

    monoid = scalar_monoid(windows.combine(op.attrs), literal(wide, windows.identity(op.attrs, op.result.dtype)))
    return Reduction(op.results, monoid, states, casts(op.results))


def _ordered_window(op: Op, windows: OrderedWindows, index: Index, taps: Index) -> OrderedReduction:
    """Fold windows with the op's region, which each tap goes through in turn."""
    count, (body,) = len(op.results), op.regions

    def carries(elements: ElementReader) -> tuple[Carry, ...]:
        inits = [elements.at(v, ()) for v in op.operands[count:]]
        get = _operand(elements, op)
        found = [windows.at(elements.k, op, i, index, taps, get, init) for i, init in enumerate(inits)]
        return ordered_carries(elements.k, body, inits, found)

    return OrderedReduction(op.results, carries)
