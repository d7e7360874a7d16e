"""Inlined values: consumers compute them where they need them; and those of them that are stored after all."""

from __future__ import annotations

from dyn.ir.builder import buffer_of
from dyn.ir.core import Function, Op, Value
from dyn.ir.opdef import OpKind
from dyn.shapes import SymExpr
from dyn.stitch.access import own_index, view_index

#: A scalar that takes more functions than this is computed once, by a kernel.
_MOST_SCALAR_OPS = 16


def inline_values(function: Function, producers: dict[Value, Op], users: dict[Value, list[Op]]) -> set[Value]:
    """Values that consumers compute themselves: views, small constants, iotas, and short scalar arithmetic on those."""
    inline: set[Value] = set()
    params, results = set(function.params), set(function.results)
    weights: dict[Value, int] = {}
    for op in function.ops:
        if buffer_of(op) is not None:
            continue
        if op.opdef.kind in (OpKind.VIEW, OpKind.GENERATE):
            inline.add(op.result)
            weights[op.result] = sum(weights.get(v, 0) for v in op.operands)
        elif op.opdef.kind is OpKind.POINTWISE and op.result.type.size == 1:
            weight = 1 + sum(weights.get(v, 0) for v in op.operands)
            free = all(_is_free(v, inline, params, producers) for v in op.operands)
            if free and weight <= _MOST_SCALAR_OPS and not _is_shown(op.result, results, users):
                inline.add(op.result)
                weights[op.result] = weight
    return inline


def _is_shown(value: Value, results: set[Value], users: dict[Value, list[Op]]) -> bool:
    """Whether a value is a result, or a result is a view of it."""
    stack = [value]
    while stack:
        value = stack.pop()
        if value in results:
            return True
        stack.extend(op.result for op in users[value] if op.opdef.kind is OpKind.VIEW)
    return False


def _is_free(value: Value, inline: set[Value], params: set[Value], producers: dict[Value, Op]) -> bool:
    """Whether a scalar's operand is itself computed from sizes, constants and parameters alone."""
    while value in inline:
        op = producers[value]
        if op.opdef.kind is not OpKind.VIEW:
            return True
        value = op.operands[0]
    return value in params


def pinned_views(function: Function, producers: dict[Value, Op], inline: set[Value]) -> set[Value]:
    """Inlined values that must lie in memory after all.

    A reshape that divides an index needs what it reads in memory in its own order, as do library calls, loops and
    choices, what is measured, and the results.
    """
    pinned: set[Value] = set()
    for op in function.ops:
        if op.opdef.kind in (OpKind.OPAQUE, OpKind.CONTROL, OpKind.DATA_DEPENDENT_SIZE):
            pinned.update(v for v in op.operands if not _lies_in_memory(v, pinned, producers, inline))
        if op.opdef.keeps_order and not is_local(op) and not _lies_in_order(op.operands[0], pinned, producers):
            pinned.add(op.operands[0])
    pinned.update(v for v in function.results if not _lies_in_order(v, pinned, producers))
    return pinned


def is_local(op: Op) -> bool:
    """Whether a reshape maps an index without division: it only adds or drops axes of size 1."""
    old, new = op.operands[0].shape, op.result.shape
    if [d for d in old if d != 1] == [d for d in new if d != 1]:
        return True
    own = own_index(len(new))
    return all(not isinstance(d, SymExpr) or any(d is i for i in own) for d in view_index(op, own))


def _lies_in_memory(value: Value, pinned: set[Value], producers: dict[Value, Op], inline: set[Value]) -> bool:
    """Whether a value is stored, or shows something stored in its own order."""
    if not _lies_in_order(value, pinned, producers):
        return False
    while value not in pinned and value in producers and producers[value].opdef.kind is OpKind.VIEW:
        value = producers[value].operands[0]
    return value in pinned or value not in inline


def _lies_in_order(value: Value, pinned: set[Value], producers: dict[Value, Op]) -> bool:
    """Whether a value's elements lie in memory in its own order, wherever it is stored."""
    while value not in pinned:
        op = producers.get(value)
        if op is None or op.opdef.kind is not OpKind.VIEW:
            return op is None or op.opdef.kind is not OpKind.GENERATE or buffer_of(op) is not None
        if not op.opdef.keeps_order:
            return False
        value = op.operands[0]
    return True
