"""Concatenations of concatenations as one: ``Function -> Function``."""

from __future__ import annotations

from dataclasses import replace

from dyn.ir.core import Function, Op, Value
from dyn.ops.shape import concatenate


def flatten_concatenations(function: Function) -> Function:
    """Join the pieces of a concatenation with those of the one along the same axis that alone reads it.

    Needs nothing. Leaves no concatenation whose only reader is another along its axis: front ends write those of many
    arrays as trees, whose inner nodes would be written and read again. One that others read too stays, and is a piece.
    """
    inner = _inner(function)
    if not inner:
        return function
    pieces: dict[Value, tuple[Value, ...]] = {}
    ops: list[Op] = []
    for op in function.ops:
        if op.opdef is concatenate:
            own = tuple([piece for v in op.operands for piece in pieces.get(v, (v,))])
            if op in inner:
                pieces[op.result] = own
                continue
            op = replace(op, operands=own) if own != op.operands else op
        ops.append(op)
    return function.with_ops(tuple(ops), function.results)


def _inner(function: Function) -> set[Op]:
    """The concatenations that are read by one more along the same axis, and by nothing else."""
    users, results = function.users(), frozenset(function.results)

    def reader(op: Op) -> Op | None:
        readers = users[op.result] if op.opdef is concatenate and op.result not in results else []
        return readers[0] if len(readers) == 1 and readers[0].opdef is concatenate else None

    found = {op: reader(op) for op in function.ops}
    return {
        op for op, outer in found.items() if outer is not None and outer.attrs["dimension"] == op.attrs["dimension"]
    }
