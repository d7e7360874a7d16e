"""Ops that do something beside giving results: they are neither left out, nor merged, nor moved past one another.

An op says so itself (``OpDef.effects``); a loop, a choice or a call has the effects of what it runs. Effects happen in
the order of the program, one after the other, whether anybody reads what the ops give or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from dyn.errors import UnsupportedOpError
from dyn.ir.core import Op, Region, Value, with_operands
from dyn.ir.opdef import OpKind

#: What computes again, in errors.
_DERIVATIVE = "a derivative that computes the function around it again"


def run_regions(op: Op) -> tuple[Region, ...]:
    """The regions whose ops run where the op does: those of a call that are rules for derivatives do not."""
    return op.regions[:1] if op.opdef.kind is OpKind.CALL else op.regions


def has_own_effect(op: Op) -> bool:
    """Whether the op itself, rather than an op of its regions, has an effect."""
    return op.opdef.effects is not None and op.opdef.effects(op)


def has_effect(op: Op) -> bool:
    """Whether the op has an effect, or an op that it runs."""
    return has_own_effect(op) or any(has_effect(inner) for region in run_regions(op) for inner in region.ops)


def must_run(op: Op) -> bool:
    """Whether an op is needed although nobody reads its results: it, or one that it runs, has an effect or measures a
    dim."""
    if op.opdef.kind is OpKind.DATA_DEPENDENT_SIZE or has_own_effect(op):
        return True
    return any(must_run(inner) for region in op.regions for inner in region.ops)


def effects_in(ops: Sequence[Op]) -> Iterator[Op]:
    """The ops with effects of their own, those in the regions that run too, in order."""
    for op in ops:
        if has_own_effect(op):
            yield op
        for region in run_regions(op):
            yield from effects_in(region.ops)


def without_effects(region: Region, known: Mapping[Value, Value] | None = None, by: str = _DERIVATIVE) -> Region:
    """The region as it is computed a second time: what it does to the world was done the first time.

    Ops with effects go. ``known`` has what they gave the first time; UnsupportedOpError where a result that is not
    there is needed, ``by`` what.
    """
    values = dict(known or {})
    if not any(has_effect(op) for op in region.ops):
        return region
    gone: dict[Value, Op] = {}
    ops: list[Op] = []
    for op in region.ops:
        if has_own_effect(op):
            gone.update((v, op) for v in op.results if v not in values)
            continue
        ops.append(regions_without_effects(with_operands(op, values), by))
    results = tuple([values.get(v, v) for v in region.results])
    needed, kept = set(results), list[Op]()
    for op in reversed(ops):
        if op.opdef.kind is OpKind.DATA_DEPENDENT_SIZE or any(v in needed for v in op.results):
            kept.append(op)
            needed.update(op.reads())
    for value, op in gone.items():
        if value in needed:
            raise UnsupportedOpError(
                f"{op.opdef.name}: what a callback with effects gives is needed by {by}, and it is not called twice.",
                loc=op.loc,
                remedy="make the call outside of loops, branches and checkpoints, and pass in what it gives; or use "
                "dyn.pure_callback.",
            )
    return replace(region, ops=tuple(reversed(kept)), results=results)


def regions_without_effects(op: Op, by: str = _DERIVATIVE) -> Op:
    """The op, one without effects of its own, as it is computed a second time (:func:`without_effects`)."""
    if not any(has_effect(inner) for region in op.regions for inner in region.ops):
        return op
    count = len(op.regions) - op.opdef.has_backward
    regions = [without_effects(region, by=by) for region in op.regions[:count]]
    return replace(op, regions=(*regions, *op.regions[count:]))
