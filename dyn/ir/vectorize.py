"""Programs for many examples at once: each op by its own rule (``OpDef.batch``).

The axis of examples is in front of every value that has one. What is the same for all examples stays without it, and
is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dyn.errors import UnsupportedOpError
from dyn.ir.builder import Builder
from dyn.ir.core import Region, Value
from dyn.ir.data_dependent import with_own_dims
from dyn.ir.inline_regions import copied
from dyn.ir.opdef import NoBatch, OpKind
from dyn.shapes import Dim


def batched(
    b: Builder, region: Region, args: Sequence[Value], flags: Sequence[bool], size: Dim,
    spreads: Callable[[Value], Value] | None = None,
) -> tuple[tuple[Value, ...], tuple[bool, ...]]:  # fmt: skip
    """Write the region out for ``size`` examples; ``flags`` say which of ``args`` have their axis.

    Where elements of what the examples share, and which is made of ``args``, meet elements of their own, ``spreads``
    gives them their axis.

    Gives the results, and which of them have it.
    """
    region = with_own_dims(b, region)
    b.adopt(region.demands)
    values: dict[Value, Value] = dict(zip(region.params, args, strict=True))
    many = {param for param, flag in zip(region.params, flags, strict=True) if flag}
    shared = set(region.params).difference(many) if spreads is not None else set[Value]()
    for op in region.ops:
        b.loc = op.loc
        own = tuple([v in many for v in op.operands])
        if not any(own) and not any(v in many for v in op.reads()):
            b.append(copied(op, values))
            if not shared.isdisjoint(op.reads()):
                shared.update(op.results)
            continue
        rule = op.opdef.rule("batch", op.loc)
        if isinstance(rule, NoBatch):
            raise UnsupportedOpError(f"vmap: {op.opdef.name}: {rule.reason}.", loc=op.loc, remedy=rule.remedy)
        operands = tuple([values.get(v, v) for v in op.operands])
        if spreads is not None and op.opdef.kind is OpKind.POINTWISE:
            wide = [v in shared and v.dtype.is_inexact for v in op.operands]
            operands = tuple([spreads(v) if is_wide else v for v, is_wide in zip(operands, wide, strict=True)])
            own = tuple([flag or is_wide for flag, is_wide in zip(own, wide, strict=True)])
        values.update(zip(op.results, rule(b, op, operands, own, size), strict=True))
        many.update(op.results)
    return tuple([values.get(v, v) for v in region.results]), tuple([v in many for v in region.results])


def differing(region: Region, flags: Sequence[bool]) -> tuple[bool, ...]:
    """Flags of a region's results: which ``batched`` gives an axis of examples, for ``flags`` of its arguments."""
    many = {param for param, flag in zip(region.params, flags, strict=True) if flag}
    for op in region.ops:
        if any(v in many for v in op.reads()):
            many.update(op.results)
    return tuple([v in many for v in region.results])


def spread(b: Builder, value: Value, size: Dim) -> Value:
    """The value for each of ``size`` examples, in front."""
    shape = (size, *value.shape)
    return b.op("broadcast_in_dim", value, shape=shape, dims=tuple(range(1, len(shape))))
