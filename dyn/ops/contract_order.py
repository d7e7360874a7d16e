"""Contractions whose results are only used transposed, computed in that order: ``Function -> Function``.

The gradient of a weight comes out of the rule of its contraction with its two axes exchanged, and is transposed. Which
operand is the left one decides the order of the result and nothing else, so they exchange places, and the transpose
goes: what follows, such as an optimiser's update, is then the epilogue, and reads and writes in its order.
"""

from __future__ import annotations

from dyn.ir.builder import Builder
from dyn.ir.core import Function, Op, Value, with_operands
from dyn.ops.contract import dot_general, free_axes
from dyn.ops.shape import transpose
from dyn.source import UNKNOWN


def order_contractions(function: Function) -> Function:
    """Contractions with nothing but one transpose behind them, which exchanges their operands' axes, do without it.

    Needs no common subexpressions: two transposes alike would both stay.
    """
    users, results, producers = function.users(), frozenset(function.results), function.producers()
    exchanged: dict[Op, Op] = {}
    for op in function.ops:
        if op.opdef is transpose and op.operands[0] not in results and users[op.operands[0]] == [op]:
            made = producers.get(op.operands[0])
            if made is not None and made.opdef is dot_general and _exchanges(made, op.attrs["permutation"]):
                exchanged[op] = made
    if not exchanged:
        return function
    gone = set(exchanged.values())
    builder = Builder(function.facts, UNKNOWN)
    values: dict[Value, Value] = {}
    for old in function.ops:
        made = exchanged.get(old)
        if made is not None:
            builder.loc = made.loc
            values[old.result] = _exchanged(builder, made, tuple(values.get(v, v) for v in made.operands))
        elif old not in gone:
            builder.append(with_operands(old, values))
    return function.with_ops(tuple(builder.ops), tuple(values.get(v, v) for v in function.results), builder.facts)


def _exchanges(contraction: Op, permutation: tuple[int, ...]) -> bool:
    """Whether a permutation of its result puts the free axes of the right operand before those of the left one."""
    lhs, at = contraction.operands[0], contraction.attrs
    batch = len(at["lhs_batch"])
    left = batch + len(free_axes(len(lhs.shape), at["lhs_batch"], at["lhs_contracting"]))
    rank = len(permutation)
    return batch < left < rank and permutation == (*range(batch), *range(left, rank), *range(batch, left))


def _exchanged(builder: Builder, contraction: Op, operands: tuple[Value, ...]) -> Value:
    at = contraction.attrs
    lhs, rhs = operands
    return builder.op(
        "dot_general", rhs, lhs, lhs_batch=at["rhs_batch"], rhs_batch=at["lhs_batch"],
        lhs_contracting=at["rhs_contracting"], rhs_contracting=at["lhs_contracting"],
    )  # fmt: skip
