"""Transposes that cancel across the ops between them: ``Function -> Function``.

A model that was written for one order of axes and runs in another is full of pairs: a transpose, some elementwise ops
and reductions, and the transpose back. Either transpose alone is free, for its consumer reads or stores in the other
order; but everything between the two then walks through memory in strides. This pass turns such a *region* to the order
of what goes into it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dyn.ir.builder import Builder
from dyn.ir.core import Function, Op, Value, with_operands
from dyn.ir.opdef import OpKind
from dyn.ops.reduce import reduce
from dyn.ops.shape import broadcast_in_dim, iota, transpose
from dyn.passes.contraction_order import keep_axes, order_contractions
from dyn.shapes import Dim
from dyn.source import UNKNOWN

Permutation = tuple[int, ...]


def propagate_transposes(function: Function) -> Function:
    """Regions between transposes work in the order of what goes in.

    Needs no common subexpressions: a value that is transposed twice would seem to be needed in both orders. A region is
    turned only where no transpose is added for it: all that leaves it is transposed already, or reduced. Transposes of
    contractions that are left go where the operands may change places, and reshapes around them where they cancel
    (``dyn.passes.contraction_order``).
    """
    uses = _Uses(function)
    orders = dict.fromkeys(op.attrs["permutation"] for op in function.ops if op.opdef is transpose)
    for order in orders:
        if list(order) != sorted(order):
            region = _TurnedOps(uses, order)
            if region.members:
                uses = _Uses(_turned(uses.function, region))
    return order_contractions(keep_axes(uses.function))


class _Uses:
    """A function, and what makes and uses its values: looked up once for all orders that leave it as it is."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.users = function.users()
        self.producers = function.producers()
        self.results = frozenset(function.results)


@dataclass
class _Found:
    """A connected part of a region: its transposed inputs, its ops, and whether turning it gains something."""

    entries: list[Op] = field(default_factory=list[Op])
    members: list[Op] = field(default_factory=list[Op])
    gains: bool = False


class _TurnedOps:
    """The ops that can be turned by one order: ``result == transpose(turned result, order)``.

    ``entries`` are the transposes that lead in. Reductions are members whose results are not in the order any more.
    ``made`` are values that can be made in any order, from broadcasts: a second time, where both orders are needed.
    """

    def __init__(self, uses: _Uses, order: Permutation) -> None:
        self.uses = uses
        self.order = order
        function = uses.function
        self.entries = {op.result: op for op in function.ops if self._leads_in(op)}
        self.made: set[Value] = set()
        for op in function.ops:
            if self._is_made(op):
                self.made.add(op.result)
        self.members: dict[Value, Op] = {}
        for op in function.ops:
            if self._fits(op):
                self.members[op.result] = op
        while self._shrink():
            pass
        self._keep_gains()

    def _leads_in(self, op: Op) -> bool:
        return op.opdef is transpose and op.attrs["permutation"] == self.order

    def is_turned(self, value: Value) -> bool:
        """Whether there is a value that this one is the transpose of."""
        op = self.members.get(value)
        return value in self.entries or (op is not None and op.opdef is not reduce)

    def _fits(self, op: Op) -> bool:
        if op.opdef is reduce:
            return self.is_turned(op.operands[0])
        if op.opdef.kind is not OpKind.POINTWISE or len(op.result.shape) != len(self.order):
            return False
        turned = [self.is_turned(v) for v in op.operands]
        return any(turned) and all(t or v in self.made for t, v in zip(turned, op.operands, strict=True))

    def _is_made(self, op: Op) -> bool:
        if len(op.results) != 1 or len(op.result.shape) != len(self.order):
            return False
        if op.opdef.kind is OpKind.POINTWISE:
            return all(v in self.made for v in op.operands)
        return op.opdef in (broadcast_in_dim, iota)

    def remade(self) -> set[Value]:
        """The made values that members need in the new order."""
        needed: set[Value] = set()
        stack = [v for op in self.members.values() for v in op.operands]
        while stack:
            value = stack.pop()
            if value in self.made and value not in needed:
                needed.add(value)
                if self.uses.producers[value].opdef.kind is OpKind.POINTWISE:
                    stack.extend(self.uses.producers[value].operands)
        return needed

    def _shrink(self) -> bool:
        """Drop what does not belong; whether there was something."""
        bad = [v for v in (*self.entries, *self.members) if self.is_turned(v) and self._leaves_badly(v)]
        bad += [v for v, op in self.members.items() if not self._fits(op)]
        for value in bad:
            self.entries.pop(value, None)
            self.members.pop(value, None)
        return bool(bad)

    def _leaves_badly(self, value: Value) -> bool:
        """Whether something outside needs a value in its own order."""
        return value in self.uses.results or any(
            user.opdef is not transpose and not any(r in self.members for r in user.results)
            for user in self.uses.users[value]
        )

    def _keep_gains(self) -> None:
        """Drop connected parts that lose no transpose and no strided reduction by turning."""
        part: dict[Value, _Found] = {}
        for value, op in (*self.entries.items(), *self.members.items()):
            found = _Found()
            for operand in op.operands:
                other = part.get(operand)
                if other is not None and value in self.members and other is not found:
                    found = self._join(found, other, part)
            (found.entries if value in self.entries else found.members).append(op)
            found.gains = found.gains or op.opdef is reduce or self._is_undone(value)
            part[value] = found
        for value, found in part.items():
            if not found.gains or not found.members:
                self.entries.pop(value, None)
                self.members.pop(value, None)

    def _join(self, a: _Found, b: _Found, part: dict[Value, _Found]) -> _Found:
        for op in (*a.entries, *a.members):
            part[op.result] = b
        b.entries += a.entries
        b.members += a.members
        b.gains = b.gains or a.gains
        return b

    def _is_undone(self, value: Value) -> bool:
        """Whether a member is transposed back."""
        back = sorted(range(len(self.order)), key=lambda axis: self.order[axis])
        return value in self.members and any(
            user.opdef is transpose and list(user.attrs["permutation"]) == back for user in self.uses.users[value]
        )


def _turned(function: Function, region: _TurnedOps) -> Function:
    """The function with a region in the order of its inputs."""
    builder = Builder(function.facts, UNKNOWN)
    values: dict[Value, Value] = {}
    #: For a value of the region, the one that it is the transpose of.
    turned: dict[Value, Value] = {}
    remade = region.remade()
    for old in function.ops:
        op = with_operands(old, values)
        builder.loc = op.loc
        if not old.results:
            builder.append(op)
            continue
        result = old.results[0]
        if result in remade and op.opdef.kind is not OpKind.POINTWISE:
            turned[result] = _remade(builder, op, region.order)
        elif result in remade or (result in region.members and op.opdef is not reduce):
            (turned[result],) = builder.emit(op.opdef, [turned[v] for v in old.operands], op.regions, **op.attrs)
        if result in region.entries:
            (source,) = op.operands
            if old.operands[0] in turned:
                # Transposed twice by the same order: what the second one leads in is the first one's result.
                source = builder.op("transpose", turned[old.operands[0]], permutation=region.order)
            turned[result] = source
        elif old.opdef is transpose and old.operands[0] in turned:
            values[result] = _transposed(builder, op, turned[old.operands[0]], region.order)
        elif result not in region.members or result in remade:
            builder.append(op)
        elif old.opdef is reduce:
            values[result] = _reduced(builder, op, turned[old.operands[0]], region.order)
    results = tuple(values.get(v, v) for v in function.results)
    return function.with_ops(tuple(builder.ops), results, builder.facts)


def _transposed(builder: Builder, op: Op, source: Value, order: Permutation) -> Value:
    """A transpose of ``transpose(source, order)``, from ``source`` itself."""
    permutation = tuple(order[axis] for axis in op.attrs["permutation"])
    return (
        source if list(permutation) == sorted(permutation) else builder.op("transpose", source, permutation=permutation)
    )


def _reduced(builder: Builder, op: Op, source: Value, order: Permutation) -> Value:
    """``reduce(transpose(source, order))`` from ``source`` itself."""
    axes = op.attrs["axes"]
    kept = [order[axis] for axis in range(len(order)) if axis not in axes]
    attrs: dict[str, Any] = {**op.attrs, "axes": tuple(sorted(order[axis] for axis in axes))}
    (value,) = builder.emit(op.opdef, (source,), **attrs)
    if kept == sorted(kept):
        return value
    places = sorted(kept)
    return builder.op("transpose", value, permutation=tuple(places.index(axis) for axis in kept))


def _remade(builder: Builder, op: Op, order: Permutation) -> Value:
    """A broadcast or an iota whose transpose by ``order`` is the result of ``op``."""
    shape: list[Dim] = [0] * len(order)
    for axis, place in enumerate(order):
        shape[place] = op.result.shape[axis]
    if op.opdef is iota:
        attrs: dict[str, Any] = {**op.attrs, "shape": tuple(shape), "dimension": order[op.attrs["dimension"]]}
        (made,) = builder.emit(op.opdef, (), **attrs)
        return made
    (source,), places = op.operands, [order[d] for d in op.attrs["dims"]]
    if places != sorted(places):
        permutation = tuple(sorted(range(len(places)), key=lambda axis: places[axis]))
        source = builder.op("transpose", source, permutation=permutation)
    return builder.op("broadcast_in_dim", source, shape=tuple(shape), dims=tuple(sorted(places)))
