"""Contractions in the order and the rank in which their results are used: ``Function -> Function``.

The gradient of a weight comes out of the rule of its contraction with its two axes exchanged, and is transposed. Which
operand is the left one decides the order of the result and nothing else, so they exchange places, and the transpose
goes: what follows, such as an optimiser's update, is then the epilogue, and reads and writes in its order.

A product of matrices serves arrays of more axes by reshapes: axes are merged before it, and parted again behind it.
Over the axes as they are it is the same contraction, whose result has the shape of what follows, its epilogue again.
"""

from __future__ import annotations

from collections.abc import Mapping

from dyn.ir.builder import Builder
from dyn.ir.core import Function, Op, Value, with_operands
from dyn.ir.opdef import OpKind
from dyn.ops.contract import dot_general, free_axes
from dyn.ops.panels import from_panels
from dyn.ops.shape import reshape, reshape_groups, transpose
from dyn.shapes import Dim
from dyn.source import UNKNOWN

#: So many values at most are looked at that compute an operand.
_MOST_COMPUTED = 48


def keep_axes(function: Function) -> Function:
    """Contractions of merged axes, with nothing but the reshape behind them that parts these, leave them apart.

    Needs no common subexpressions: two reshapes alike would both stay. Leaves the merging reshapes, as dead code or for
    others.
    """
    users, results, producers = function.users(), frozenset(function.results), function.producers()
    apart: dict[Op, tuple[Op, tuple[Value, ...], dict[str, tuple[int, ...]]]] = {}
    for op in function.ops:
        if op.opdef is reshape and op.operands[0] not in results and users[op.operands[0]] == [op]:
            made = producers.get(op.operands[0])
            if made is not None and made.opdef is dot_general:
                found = _parted(made, op.result.shape, producers)
                if found is not None:
                    apart[op] = (made, *found)
    if not apart:
        return function
    gone = {made for made, _, _ in apart.values()}
    builder = Builder(function.facts, UNKNOWN)
    values: dict[Value, Value] = {}
    for old in function.ops:
        if old in apart:
            made, operands, attrs = apart[old]
            builder.loc = made.loc
            values[old.result] = builder.op("dot_general", *[values.get(v, v) for v in operands], **attrs)
        elif old not in gone:
            builder.append(with_operands(old, values))
    return function.with_ops(tuple(builder.ops), tuple(values.get(v, v) for v in function.results), builder.facts)


def _parted(
    contraction: Op, shape: tuple[Dim, ...], producers: Mapping[Value, Op]
) -> tuple[tuple[Value, ...], dict[str, tuple[int, ...]]] | None:
    """Operands and attributes of a contraction with a result of this shape, whose operands are there before a reshape;
    None where the reshape does not part single axes, or an operand would have to be reshaped."""
    at = contraction.attrs
    lhs, rhs = contraction.operands
    groups: list[tuple[Dim, ...]] = []
    for olds, news in reshape_groups(contraction.result.shape, shape):
        if len(olds) != 1 or not news:
            return None
        groups.append(tuple([shape[axis] for axis in news]))
    left = free_axes(len(lhs.shape), at["lhs_batch"], at["lhs_contracting"])
    right = free_axes(len(rhs.shape), at["rhs_batch"], at["rhs_contracting"])
    batch, first = groups[: len(at["lhs_batch"])], groups[len(at["lhs_batch"]) :]
    attrs: dict[str, tuple[int, ...]] = {}
    operands: list[Value] = []
    for side, value, free, own in (("lhs", lhs, left, first[: len(left)]), ("rhs", rhs, right, first[len(left) :])):
        parts: list[tuple[Dim, ...]] = [(size,) for size in value.shape]
        for axis, group in zip((*at[f"{side}_batch"], *free), (*batch, *own), strict=True):
            parts[axis] = group
        wanted = tuple([size for part in parts for size in part])
        made = producers.get(value)
        if value.shape != wanted:
            if made is None or made.opdef is not reshape or made.operands[0].shape != wanted:
                return None
            value = made.operands[0]
        operands.append(value)
        starts = [0]
        for part in parts:
            starts.append(starts[-1] + len(part))
        for kind in ("batch", "contracting"):
            name = f"{side}_{kind}"
            attrs[name] = tuple([place for axis in at[name] for place in range(starts[axis], starts[axis + 1])])
    return tuple(operands), attrs


def order_contractions(function: Function) -> Function:
    """Contractions with nothing but one transpose behind them, which exchanges their operands' axes, do without it; but
    for those of a right operand in panels (``dyn.ops.panels``), which no left one is read from.

    Needs no common subexpressions: two transposes alike would both stay.
    """
    users, results, producers = function.users(), frozenset(function.results), function.producers()
    exchanged: dict[Op, Op] = {}
    for op in function.ops:
        if op.opdef is transpose and op.operands[0] not in results and users[op.operands[0]] == [op]:
            made = producers.get(op.operands[0])
            if made is None or made.opdef is not dot_general or not _exchanges(made, op.attrs["permutation"]):
                continue
            if not _is_from_panels(made.operands[1], producers):
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


def _is_from_panels(value: Value, producers: Mapping[Value, Op]) -> bool:
    """Whether an operand lies in panels, or is computed of what does, element by element: a left one is packed."""
    stack, seen = [value], set[Value]()
    while stack and len(seen) <= _MOST_COMPUTED:
        value = stack.pop()
        op = producers.get(value)
        if op is None or value in seen:
            continue
        seen.add(value)
        if op.opdef is from_panels:
            return True
        if op.opdef.kind in (OpKind.POINTWISE, OpKind.VIEW):
            stack += op.operands
    return False


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
