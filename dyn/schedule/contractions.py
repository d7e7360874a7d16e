"""The launches of contractions: in tiles of accumulators, as folds where tiles would be idle, and in parts where there
are few results of many products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dyn.ir.core import Op
from dyn.ir.opdef import Convolution, OpKind
from dyn.ops.windows.convolution import Geometry
from dyn.schedule.contract import dot_nest
from dyn.schedule.contract_parts import ContractionParts
from dyn.schedule.convolution import convolution_nest, geometry_of
from dyn.schedule.families import schedules_of
from dyn.schedule.launch import Condition, Launch
from dyn.schedule.loops import Loops
from dyn.schedule.nest import Nest
from dyn.schedule.parts import cut_in_turn, in_parts
from dyn.schedule.specialized_kernels import Schedule, SpecializedKernel, launch_nest
from dyn.schedule.target import Target
from dyn.schedule.tiles import Sides, contraction_of, tile_forms
from dyn.shapes import Dim, Facts, Symbol, SymExpr, dim_max, free_symbols
from dyn.stitch.groups import Group, Plan

#: Up to how many features of a group a fold of vectors of places is quicker than a tile.
_FEW_FEATURES = 8
#: Up to how many groups there is no kernel for groups of one channel: lanes would go along the groups.
_FEW_GROUPS = 8


def lower_contraction(plan: Plan, group: Group, target: Target) -> tuple[Launch, ...]:
    """The launch of a group around a contraction or a convolution."""
    (op,) = (op for op in group.ops if op.opdef.kind is OpKind.CONTRACT)
    loops = op.opdef.loops
    if not isinstance(loops, Convolution):
        return _lower_dot(dot_nest(plan, group, op), target)
    g = geometry_of(op)
    nest, forms = convolution_nest(plan, group, op, g), _depthwise(plan, group, op, g, target)
    if not _is_narrow(plan.function.facts, g):
        whole = _in_tiles(Sides(Loops(nest), flat=True), target, forms)
        return in_parts(whole, ContractionParts(nest, target, flat=True).choice())
    return (launch_nest(Loops(nest), side_by_side(target), forms, f"{group.kind.value} {group.name}, folded"),)


def _is_narrow(facts: Facts, g: Geometry) -> bool:
    """Whether a group would leave most of a tile idle: with one channel, or few features where these are rows."""
    if g.groups == 1:
        return False
    if not g.by_batch and facts.eq(g.channels, 1).proved:
        return True
    by_places = g.out[1] != len(g.out) - 1
    return by_places and isinstance(g.features, int) and g.features <= _FEW_FEATURES


def _depthwise(plan: Plan, group: Group, op: Op, g: Geometry, target: Target) -> tuple[SpecializedKernel, ...]:
    """The form for a channel and a feature a group, where that is undecided: it leaves most of a tile idle.

    The sizes of the kernel are substituted, so that the features are one axis.
    """
    rhs, apart, equal = op.operands[1].shape, list[Dim](), dict[Symbol, Dim]()
    for size, number in ((rhs[g.rhs[1]], 1), (rhs[g.rhs[0]], g.groups)):
        if size == number:
            continue
        symbol = size.is_symbol if isinstance(size, SymExpr) else None
        if symbol is None or symbol in free_symbols(number):
            return ()
        apart += [size - number, number - size]
        equal[symbol] = number
    few = isinstance(g.groups, int) and g.groups <= _FEW_GROUPS
    if not apart or few or g.by_batch:
        return ()
    nest = convolution_nest(plan, group, op, replace(g, channels=1, features=1))
    condition = Condition(dim_max(*apart), 0, 0)
    return (SpecializedKernel("a channel a group", condition, lambda: Loops(nest, equal=equal), side_by_side(target)),)


def side_by_side(target: Target) -> Schedule:
    """Results side by side in lanes, each summing up its own products."""

    def schedule(loops: Loops) -> None:
        contraction = contraction_of(loops.nest)
        last = [a for a in loops.shared[-2:] if a not in contraction.rows]
        if len(last) == 2 and last[-1] in contraction.columns:
            loops.flatten(last)
        schedules_of(target).folds(target)(loops)

    return schedule


def _lower_dot(nest: Nest, target: Target) -> tuple[Launch, ...]:
    contraction = contraction_of(nest)
    if contraction.rows or contraction.columns:
        sides = Sides(Loops(nest))
        reads_panels = sides.reads_panels()
        whole = _in_tiles(sides, target)
        if reads_panels:  # there are many panels, and sums go in one order however many rows there are
            return (whole,)
        return in_parts(whole, ContractionParts(nest, target).choice())
    cuts = schedules_of(target).sizes()
    nest = replace(nest, order=cuts.order([contraction.result.dtype.wide], target))
    parts = ContractionParts(nest, target).choice()
    whole = launch_nest(Loops(nest), dots(), (), "dot")
    if not (cuts.in_turn and parts.undecided):
        return in_parts(whole, parts)
    loops = Loops(nest)
    dots(cuts.part)(loops)
    return in_parts(whole, parts, loops.variant("dot, parts one by one"))


def _in_tiles(sides: Sides, target: Target, others: Sequence[SpecializedKernel] = ()) -> Launch:
    """The launch in tiles, and in front of its forms others."""
    *forms, last = tile_forms(sides, target)
    return launch_nest(sides.loops.fork(), last.schedule, [*others, *forms], last.note, prefix="")


def dots(part: int = 0) -> Schedule:
    """Vectors times vectors: lanes along what is contracted, in parts one after the other."""

    def schedule(loops: Loops) -> None:
        first, *_ = loops.phases
        loops.fuse(first.axes, first)
        if part:
            cut_in_turn(loops, first, part)
        loops.bind_lanes(first)

    return schedule
