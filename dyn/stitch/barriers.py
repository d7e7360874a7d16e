"""Barriers taken away: what reads their results reads their operands, and remembers what it has to wait for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dyn.ir.core import Function, Op, Value, with_operands
from dyn.ir.opdef import OpKind


def without_barriers(function: Function) -> tuple[Function, Mapping[Op, Sequence[Value]]]:
    """The function without BARRIER ops; and for ops that read a barrier's results, all of the barrier's operands.

    A view or a constant is computed where it is read: what reads it waits as it would.
    """
    if not any(op.opdef.kind is OpKind.BARRIER for op in function.ops):
        return function, {}
    values: dict[Value, Value] = {}
    #: For what stands behind a barrier, or is a view of it: the operands of that barrier.
    behind: dict[Value, tuple[Value, ...]] = {}
    waits: dict[Op, tuple[Value, ...]] = {}
    ops: list[Op] = []
    for old in function.ops:
        op = with_operands(old, values)
        late = tuple(dict.fromkeys(v for read in old.reads() for v in behind.get(read, ())))
        if op.opdef.kind is OpKind.BARRIER:
            values.update(zip(old.results, op.operands, strict=True))
            behind.update((v, tuple(dict.fromkeys((*op.operands, *late)))) for v in old.results)
            continue
        ops.append(op)
        if late:
            waits[op] = late
        if late and op.opdef.kind is OpKind.VIEW:
            behind.update((v, late) for v in old.results)
    results = tuple([values.get(v, v) for v in function.results])
    return function.with_ops(tuple(ops), results), waits
