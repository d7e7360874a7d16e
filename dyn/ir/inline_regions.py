"""Regions written out where they stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dyn.ir.builder import Builder
from dyn.ir.core import Op, Region, Value, with_operands
from dyn.ir.data_dependent import data_dependent_dims, with_own_dims
from dyn.ir.substitute_dims import Substitution
from dyn.ir.types import TensorType
from dyn.shapes import Dim, Symbol, as_dim


def splice(b: Builder, region: Region, args: Sequence[Value], *, prepare: bool = False) -> tuple[Value, ...]:
    """The region's ops at the end of ``b``, with ``args`` for its parameters. Gives its results.

    The values are new, and so are the dims that it measures, so that a region can be written out more than once. What
    the region demands of the dims is demanded where it is written out. With ``prepare`` the ops are to be
    differentiated backward (``OpDef.prepare``). A transparent call's own region is written out in its place
    (``OpDef.transparent``).
    """
    return written_once(b, with_own_dims(b, region), args, prepare=prepare)


def written_once(b: Builder, region: Region, args: Sequence[Value], *, prepare: bool = False) -> tuple[Value, ...]:
    """:func:`splice` of a region that is written out here alone: the dims that it measures stay."""
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


def splice_over(
    b: Builder, region: Region, args: Sequence[Value], dims: Mapping[Symbol, Dim]
) -> tuple[tuple[Value, ...], Mapping[Symbol, Dim]]:
    """The ops of a region of another program at the end of ``b``, with ``dims`` for the symbols of that.

    Gives the results, and ``dims`` with those that it measures. Transparent calls stay calls. What the region demands
    is demanded, and so all that was known in it holds here too. Where dims are renamed it is proved here as well, and
    no type is inferred again; where they become expressions a proof may be lost, and what is not proved is demanded.
    """
    measured = {
        s: as_dim(b.symbols.symbol(s.name, s.origin, data_dependent=True)) for s in data_dependent_dims(region.ops)
    }
    own = {**dims, **measured}
    b.adopt([relation.substituted(own) for relation in region.demands])
    if not all(isinstance(dim, int) or dim.is_symbol is not None for dim in own.values()):
        return infer_again(b, Substitution(own).region(replace(region, demands=())), args), own
    copy = _Copy(own, dict(zip(region.params, args, strict=True)))
    for op in region.ops:
        b.append(copy.op(op))
    return tuple([copy.value(v) for v in region.results]), own


class _Copy(Substitution):
    """Ops over other dims, with results of their own."""

    def __init__(self, dims: Mapping[Symbol, Dim], values: dict[Value, Value]) -> None:
        super().__init__(dims)
        self.values = values

    def op(self, op: Op) -> Op:
        operands = tuple([self.value(v) for v in op.operands])
        regions = tuple([self.region(region) for region in op.regions])
        return Op(op.opdef, operands, self.attrs(op), tuple([self.defined(v) for v in op.results]), op.loc, regions)

    def region(self, region: Region) -> Region:
        for param in region.params:
            self.defined(param)
        return super().region(region)

    def defined(self, value: Value) -> Value:
        """A new value for one that is defined here."""
        type = value.type
        new = Value(type.with_shape(tuple([self.dim(d) for d in type.shape])) if type.shape else type, value.name)
        self.values[value] = new
        return new


def infer_again(b: Builder, region: Region, args: Sequence[Value]) -> tuple[Value, ...]:
    """The region's ops at the end of ``b``, of other types: what they demand of them is demanded once more.

    For a region of another program, of which the facts are not all known here, or not all proved.
    """
    values: dict[Value, Value] = dict(zip(region.params, args, strict=True))
    for op in region.ops:
        b.loc = op.loc
        regions = tuple([_region_again(b, inner) for inner in op.regions])
        made = b.emit(op.opdef, [values.get(v, v) for v in op.operands], regions, **op.attrs)
        values.update(zip(op.results, made, strict=True))
    return tuple([values.get(v, v) for v in region.results])


def _region_again(b: Builder, region: Region) -> Region:
    return build_region(b, [v.type for v in region.params], lambda inner, params: infer_again(inner, region, params))


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
