"""Regions that read nothing from outside: what a function closes over is passed to it.

Small constants are made again inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dyn.errors import ShapeError, TraceError
from dyn.ir.core import Op, Region, Value, with_operands
from dyn.ir.opdef import OpKind
from dyn.ir.types import TensorType
from dyn.shapes import Reason, Relation, RelKind, literal
from dyn.source import user_loc
from dyn.trace.comparison import side_by_side
from dyn.trace.context import Trace
from dyn.trace.lift import fitting_of, yields_to


def closure_converted(trace: Trace, regions: Sequence[Region]) -> tuple[list[Region], list[Value]]:
    """The regions with constants of their own; and the values that they read from outside."""
    made = [_with_constants(trace, region) for region in regions]
    return made, list(dict.fromkeys(v for region in made for v in region.reads()))


def _with_constants(trace: Trace, region: Region) -> Region:
    ops: dict[Value, Op] = {}
    for value in dict.fromkeys(region.reads()):
        _collect(trace, value, ops)
    copies = {value: Value(value.type, value.name) for value in ops}
    own = tuple(replace(with_operands(op, copies), results=(copies[value],)) for value, op in ops.items())
    inner = tuple(with_operands(op, copies) for op in region.ops)
    results = tuple(copies.get(v, v) for v in region.results)
    return replace(region, ops=(*own, *inner), results=results)


def _collect(trace: Trace, value: Value, ops: dict[Value, Op]) -> bool:
    """Note the ops that make a constant, if ``value`` is one: a number, its broadcast, a range."""
    op = trace.builder.producer(value)
    while op is None and trace.outer is not None:
        trace = trace.outer
        op = trace.builder.producer(value)
    if op is None or op.opdef.kind not in (OpKind.GENERATE, OpKind.VIEW):
        return False
    if not all(_collect(trace, v, ops) for v in op.operands):
        return False
    ops.setdefault(value, op)
    return True


def with_outside_parameters(region: Region, free: Sequence[Value], at: int) -> Region:
    """The region with values from outside for parameters, from number ``at`` on."""
    own = {value: Value(value.type, value.name) for value in free}
    ops = tuple(with_operands(op, own) for op in region.ops)
    params = (*region.params[:at], *own.values(), *region.params[at:])
    return replace(region, params=params, ops=ops, results=tuple(own.get(v, v) for v in region.results))


def with_carried_values(region: Region, free: Sequence[Value], at: int) -> Region:
    """:func:`with_outside_parameters`, of a region that hands the values on as results."""
    own = with_outside_parameters(region, free, at)
    handed = own.params[at : at + len(free)]
    return replace(own, results=(*own.results[:at], *handed, *own.results[at:]))


def fitted(
    trace: Trace, region: Region, types: Sequence[TensorType], names: Sequence[str], what: str, start: str,
    remedy: str = "",
) -> Region:  # fmt: skip
    """The region with its first results of ``types``: weak ones are converted, others have to be.

    That sizes agree has to be so where the region runs. ``remedy`` says what to do where they do not.
    """
    inner = trace.builder.inner()
    inner.adopt(region.demands)
    results = list(region.results)
    given = [(name, str(v.type)) for name, v in zip(names, results, strict=False)]
    for i, (type, name) in enumerate(zip(types, names, strict=True)):
        value = results[i]
        if value.dtype is not type.dtype and yields_to(value, type.dtype):
            inner.loc = user_loc()
            inner.adopt(fitting_of(next((op for op in region.ops if value in op.results), None), type.dtype))
            results[i] = value = inner.op("convert", value, dtype=type.dtype)
        if value.dtype is not type.dtype or value.type.rank != type.rank:
            raise TraceError(
                f"{what} gives {value.type} for {name}, and {start} is {type}.",
                loc=user_loc(),
                notes=side_by_side(list(zip(names, map(str, types), strict=True)), given, (start, "what it gives")),
                remedy="convert it with .astype, or start from another value.",
            )
        for axis, (a, b) in enumerate(zip(value.shape, type.shape, strict=True)):
            if a is not b:
                said = literal(f"{what} gives {name} with the size"), literal(f"on axis {axis}, where {start} has")
                form = f"{said[0]} {{}} {said[1]} {{}}"
                reason = Reason.about(form, (a, b), user_loc(), ShapeError, remedy)
                inner.adopt((Relation(RelKind.EQ, a, b, reason),))
        if any(a is not b for a, b in zip(value.shape, type.shape, strict=True)):
            inner.loc = user_loc()
            results[i] = inner.op("reshape", value, shape=type.shape)
    return Region(region.params, (*region.ops, *inner.ops), tuple(results), inner.demands)
