"""Regions written out where they stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dyn.ir.builder import Builder
from dyn.ir.core import Op, Region, Value, with_operands
from dyn.ir.measured import with_own_dims
from dyn.ir.types import TensorType


def splice(b: Builder, region: Region, args: Sequence[Value], *, prepare: bool = False) -> tuple[Value, ...]:
    """The region's ops at the end of ``b``, with ``args`` for its parameters. Gives its results.

    The values are new, and so are the dims that it measures, so that a region can be written out more than once. What
    the region demands of the dims is demanded where it is written out. With ``prepare`` the ops are to be
    differentiated backward (``OpDef.prepare``). A transparent call's own region is written out in its place
    (``OpDef.transparent``).
    """
    return written_once(b, with_own_dims(b, region), args, prepare=prepare)


def written_once(b: Builder, region: Region, args: Sequence[Value], *, prepare: bool = False) -> tuple[Value, ...]:
    """The same of a region that is written out here alone: its dims stay."""
    b.adopt(region.demands)
    values: dict[Value, Value] = dict(zip(region.params, args, strict=True))
    for op in region.ops:
        if op.opdef.transparent:
            made = written_once(b, op.regions[0], [values.get(v, v) for v in op.operands], prepare=prepare)
            values.update(zip(op.results, made, strict=True))
            continue
        ready = op.opdef.prepare(op) if prepare and op.opdef.prepare is not None else op
        b.append(copied(ready, values))
    return tuple([values.get(v, v) for v in region.results])


def copied(op: Op, values: dict[Value, Value]) -> Op:
    """The op with ``values`` in place of what it reads, and results of its own, which ``values`` learns."""
    regions = op.regions and tuple([_fresh(region) for region in with_operands(op, values).regions])
    operands = tuple([values.get(v, v) for v in op.operands])
    results = tuple([Value(v.type, v.name) for v in op.results])
    values.update(zip(op.results, results, strict=True))
    return Op(op.opdef, operands, op.attrs, results, op.loc, regions)


def _fresh(region: Region) -> Region:
    """The region with values of its own: one value is defined in one place."""
    values = {v: Value(v.type, v.name) for v in region.params}
    params = tuple(values.values())
    ops = tuple([copied(op, values) for op in region.ops])
    return Region(params, ops, tuple([values.get(v, v) for v in region.results]), region.demands)


def build_region(
    b: Builder, types: Sequence[TensorType], build: Callable[[Builder, tuple[Value, ...]], Sequence[Value]]
) -> Region:
    """The region with parameters of ``types`` whose results are what ``build`` makes of them."""
    inner = b.inner()
    params = tuple([Value(type) for type in types])
    results = tuple(build(inner, params))
    return Region(params, tuple(inner.ops), results, inner.finished())
