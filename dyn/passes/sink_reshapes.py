"""Reshapes behind elementwise functions, not in front of them: ``Function -> Function``.

A group norm reduces channels by groups, in a shape where these are two axes, and is scaled in the shape of its
argument, where they are one. Elementwise functions do as well in the shape with more axes, where they share loops with
the reductions; the reshape that is left moves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dyn.ir.core import Function, Op, Value
from dyn.ir.opdef import OpKind
from dyn.ops.shape import broadcast_in_dim, reshape
from dyn.shapes import Dim, Facts

#: The kinds of ops that have no loop in common with what they read, whatever its shape.
_APART = (OpKind.CONTRACT, OpKind.OPAQUE, OpKind.SCATTER, OpKind.RUNNING, OpKind.CONTROL)


def sink_reshapes(function: Function) -> Function:
    """Compute elementwise functions of reshaped values in the shape from before, where several axes are one after it.

    Their other operands are broadcasts, which can be made in any shape, or reshaped alike. It is done for values that
    are results, or are read by what has loops of its own: others may share loops with what is read in the shape from
    after. Needs nothing. Leaves no view that nothing reads.
    """
    return sunk(function)[0]


def sunk(function: Function) -> tuple[Function, Mapping[Op, Op]]:
    """:func:`sink_reshapes`, and for each op that it has made the one that it stands for."""
    sinking = _Sinking(function)
    if not sinking.made:
        return function, {}
    live, kept = set(function.results), list[Op]()
    for op in reversed(sinking.ops):
        if op.opdef.kind is not OpKind.VIEW or not live.isdisjoint(op.results):
            live.update(op.reads())
            kept.append(op)
    return function.with_ops(tuple(reversed(kept)), function.results), sinking.made


class _Sinking:
    """The ops of a function, with reshapes behind elementwise functions."""

    def __init__(self, function: Function) -> None:
        self.facts: Facts = function.facts
        self.producers = function.producers()
        self.ops: list[Op] = []
        self.made: dict[Op, Op] = {}
        #: For values of fewer axes those that they are reshapes of.
        self.finer: dict[Value, Value] = {}
        free = _ends_apart(function)
        for op in function.ops:
            if op.opdef is reshape and self._merges(op) and self._is_pointwise(op.operands[0]):
                self.finer[op.result] = op.operands[0]
            elif _is_identity(op) and op.operands[0] in self.finer:
                self.finer[op.result] = self.finer[op.operands[0]]
            elif op in free and op.opdef.kind is OpKind.POINTWISE and any(v in self.finer for v in op.operands):
                made = self._in_finer_space(op)
                self.ops += made
                self.made |= dict.fromkeys(made, op)
                if made:
                    continue
            self.ops.append(op)

    def _is_pointwise(self, value: Value) -> bool:
        op = self.producers.get(value)
        return op is not None and op.opdef.kind is OpKind.POINTWISE

    def _merges(self, op: Op) -> bool:
        return self._merged(op.operands[0].shape, op.result.shape) is not None

    def _merged(self, fine: Sequence[Dim], coarse: Sequence[Dim]) -> tuple[int, int] | None:
        """The one axis of a shape that several axes of a finer one are, and how many these are."""
        front = 0
        while front < min(len(coarse), len(fine)) and self.facts.same(fine[front], coarse[front]):
            front += 1
        count = len(fine) - len(coarse) + 1
        behind = zip(fine[front + count :], coarse[front + 1 :], strict=False)
        alike = count > 1 and front < len(coarse) and all(self.facts.same(a, b) for a, b in behind)
        return (front, count) if alike else None

    def _in_finer_space(self, op: Op) -> list[Op]:
        """The ops that compute an op's result in the shape with more axes; none where its operands forbid it."""
        fine = [self.finer[v] for v in op.operands if v in self.finer]
        shape = fine[0].shape
        found = self._merged(shape, op.result.shape)
        if found is None or any(v.shape != shape for v in fine):
            return []
        made: list[Op] = []
        operands: list[Value] = []
        for value in op.operands:
            own = self.finer.get(value)
            if own is None:
                own = self._spread(value, shape, *found, made)
            if own is None:
                return []
            operands.append(own)
        result = Value(op.result.type.with_shape(shape))
        made.append(Op(op.opdef, tuple(operands), op.attrs, (result,), op.loc, op.regions))
        made.append(Op(reshape, (result,), {"shape": op.result.shape}, op.results, op.loc))
        self.finer[op.result] = result
        return made

    def _spread(self, value: Value, shape: tuple[Dim, ...], axis: int, count: int, made: list[Op]) -> Value | None:
        """A broadcast made in the finer shape, whose axes from ``axis`` on are ``count`` in place of one; None if it
        cannot be."""
        op = self.producers.get(value)
        if op is None or op.opdef is not broadcast_in_dim:
            return None
        source, dims = op.operands[0], list[int]()
        parts = list(source.shape)
        for number, dim in reversed(list(enumerate(op.attrs["dims"]))):
            own = [dim if dim < axis else dim + count - 1]
            if dim == axis:
                own = [axis]
                if source.shape[number] != 1:
                    if not self.facts.same(source.shape[number], value.shape[axis]):
                        return None
                    parts[number : number + 1] = shape[axis : axis + count]
                    own = list(range(axis, axis + count))
            dims = [*own, *dims]
        if len(parts) != len(source.shape):
            split = Value(source.type.with_shape(tuple(parts)))
            made.append(Op(reshape, (source,), {"shape": tuple(parts)}, (split,), op.loc))
            source = split
        spread = Value(value.type.with_shape(shape))
        made.append(Op(broadcast_in_dim, (source,), {"dims": tuple(dims), "shape": shape}, (spread,), op.loc))
        return spread


def _is_identity(op: Op) -> bool:
    """Whether an op is a broadcast that changes nothing."""
    return op.opdef is broadcast_in_dim and op.operands[0].shape == op.result.shape


def _ends_apart(function: Function) -> set[Op]:
    """The elementwise functions whose values are results, or are read by what has loops of its own, or by others of
    these."""
    users, found = function.users(), set[Op]()
    for op in reversed(function.ops):
        if (op.opdef.kind is OpKind.POINTWISE and not op.regions) or _is_identity(op):
            readers = [user for result in op.results for user in users[result]]
            if all(user in found or user.opdef.kind in _APART for user in readers):
                found.add(op)
    return found
