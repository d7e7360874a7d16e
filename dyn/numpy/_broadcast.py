"""NumPy's broadcasting where sizes may be undecided.

Sizes that are proved equal, or of which one is 1, cost nothing. Otherwise that they fit becomes a check of each call,
and the result has the size ``broadcast(a, b)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn.errors import ShapeError
from dyn.numpy._operands import Choose, emit, promote, shape_of
from dyn.shapes import (
    Dim,
    Opaque,
    OpaqueKind,
    Reason,
    Relation,
    RelKind,
    SymExpr,
    broadcast,
    format_dim,
    format_shape,
    joined_from,
)
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.tracer import Tracer

_SIGNS = {
    "add": "+", "subtract": "-", "multiply": "*", "true_divide": "/", "floor_divide": "//", "remainder": "%",
    "power": "**", "matmul": "@", "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
}  # fmt: skip


def shown(what: str, operands: Sequence[Tracer]) -> str:
    """An operation as the user may have written it, ``x + y``, where the operands have names."""
    names = [x._value.name for x in operands]
    if what in _SIGNS and len(names) == 2 and all(names):
        return f"{names[0]} {_SIGNS[what]} {names[1]}"
    return what


def join_shapes(what: str, trace: Trace, shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
    """The shape that shapes broadcast to; demands that they do. ``what`` names the operation in errors."""
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[Dim] = []
    for axis in range(rank):
        size: Dim = 1
        for shape in shapes:
            place = axis - rank + len(shape)
            if place >= 0:
                size = _join(what, trace, axis, size, shape[place], shapes)
        result.append(size)
    return tuple(result)


def _join(what: str, trace: Trace, axis: int, a: Dim, b: Dim, shapes: Sequence[tuple[Dim, ...]]) -> Dim:
    if a is b or b == 1:
        return a
    if a == 1:
        return b
    facts = trace.facts
    for whole, part in ((a, b), (b, a)):
        if set(joined_from(part)) <= set(joined_from(whole)):  # that they fit was demanded where it was made
            return whole
    if facts.eq(a, b).proved:
        return facts.simplify(a)
    answer = facts.broadcasts(a, b)
    if answer.refuted:
        listed = " and ".join(dict.fromkeys(format_shape(shape) for shape in shapes))
        raise ShapeError(
            f"{what}: the shapes {listed} do not broadcast: on axis {axis} the sizes are "
            f"{format_dim(a)} and {format_dim(b)}, and neither is 1.",
            loc=user_loc(),
            notes=tuple(f"known: {reason}" for reason in answer.why),
            remedy="make the sizes equal, or one of them 1, as in x[:, None].",
        )
    reason = Reason(f"{what} broadcasts axis {axis}", user_loc())
    if _cut(trace, a, b) or _cut(trace, b, a):
        trace.require(Relation(RelKind.EQ, a, b, reason))
    else:
        trace.require(Relation(RelKind.BROADCASTS, a, b, reason))
    return trace.facts.simplify(broadcast(a, b))


def _cut(trace: Trace, whole: Dim, part: Dim) -> bool:
    """Tell whether ``part`` is ``min(whole, c, …)`` with every c at least 2.

    Then they fit only where they are equal: a part that is 1 is all of a whole that is 1. This is ``x + table[:n]``.
    """
    atom = part.is_atom if isinstance(part, SymExpr) else None
    if not isinstance(atom, Opaque) or atom.kind is not OpaqueKind.MIN or whole not in atom.args:
        return False
    return all(trace.facts.ge(c, 2).proved for c in atom.args if c is not whole)


def same_dims(trace: Trace, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    """Tell whether two shapes are proved equal."""
    return len(a) == len(b) and all(x is y or trace.facts.eq(x, y).proved for x, y in zip(a, b, strict=True))


def expand(x: Tracer, shape: tuple[Dim, ...]) -> Tracer:
    """``x`` brought to a shape that it broadcasts to; itself where it has that shape."""
    own = shape_of(x)
    if same_dims(x._trace, own, shape):
        return x
    return emit("broadcast_in_dim", x, shape=shape, dims=tuple(range(len(shape) - len(own), len(shape))))


def align(what: str, operands: Sequence[Tracer]) -> list[Tracer]:
    """The operands brought to one shape."""
    trace = operands[0]._trace
    first = shape_of(operands[0])
    if all(same_dims(trace, shape_of(x), first) for x in operands[1:]):
        return list(operands)
    shape = join_shapes(shown(what, operands), trace, [shape_of(x) for x in operands])
    return [expand(x, shape) for x in operands]


def elementwise(name: str, what: str, *values: Any, choose: Choose | None = None, **attrs: Any) -> Tracer:
    """The op ``name`` of operands brought to one dtype and one shape; ``what`` is the function the user called."""
    return emit(name, *align(what, promote(what, *values, choose=choose)), **attrs)
