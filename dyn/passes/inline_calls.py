"""Calls written out: ``Function -> Function``."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from dyn.ir.core import Function, Op, Region, Value, with_operands
from dyn.ir.opdef import Inline, OpKind


def inline_calls(function: Function) -> Function:
    """Replace every call by the ops of its first region.

    Needs nothing. Leaves no CALL ops, in regions neither. Facts stay: what a call's region demands is demanded where
    the call stands (``Builder.emit``).
    """
    return inlined(function, tuple(Inline))


def end_trace(function: Function) -> Function:
    """The calls that only transformations look at become the ops of their regions: there will be no more of those."""
    return inlined(function, (Inline.AFTER_TRACE,))


def inlined(function: Function, when: Collection[Inline]) -> Function:
    """The function with those calls written out that are at one of these moments (``OpDef.loops``)."""
    if not _has_calls(function.ops, when):
        return function
    body = _written_out(Region(function.params, function.ops, function.results), when)
    return function.with_ops(body.ops, body.results)


def _is_call(op: Op, when: Collection[Inline]) -> bool:
    return op.opdef.kind is OpKind.CALL and op.opdef.loops in when


def _has_calls(ops: tuple[Op, ...], when: Collection[Inline]) -> bool:
    return any(_is_call(op, when) or any(_has_calls(r.ops, when) for r in op.regions) for op in ops)


def _written_out(region: Region, when: Collection[Inline]) -> Region:
    """The region without calls. One that has a call is written out once, so its values stay what they are."""
    values: dict[Value, Value] = {}
    ops: list[Op] = []

    def add(op: Op) -> None:
        op = with_operands(op, values)
        if not _is_call(op, when):
            ops.append(_without_calls(op, when))
            return
        body = op.regions[0]
        values.update(zip(body.params, op.operands, strict=True))
        for inner in body.ops:
            add(inner)
        values.update((own, values.get(v, v)) for own, v in zip(op.results, body.results, strict=True))

    for op in region.ops:
        add(op)
    return replace(region, ops=tuple(ops), results=tuple([values.get(v, v) for v in region.results]))


def _without_calls(op: Op, when: Collection[Inline]) -> Op:
    if not _has_calls((op,), when):
        return op
    return replace(op, regions=tuple([_written_out(region, when) for region in op.regions]))
