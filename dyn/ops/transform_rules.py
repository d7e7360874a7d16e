"""Rules of transformations that many ops share: derivatives of elementwise, linear and bilinear ops, and batching."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.differentiate import pull_back, zeros
from dyn.ir.opdef import BatchRule, JvpRule, VjpRule
from dyn.ir.types import TensorType
from dyn.ir.vectorize import spread
from dyn.ops.arithmetic import Arithmetic
from dyn.shapes import Dim, dim_max, floordiv

#: ``formula(a, ct, y, *x)``: the operands' cotangents, of the cotangent, the result and the operands.
Formula = Callable[..., tuple[Value | None, ...]]


def elementwise_vjp(formula: Formula) -> VjpRule:
    """The rule of an op with one result, as a formula."""

    def rule(b: Builder, op: Op, cts: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
        return formula(Arithmetic(b), cts[0], op.result, *op.operands)

    return rule


def again(b: Builder, op: Op, operands: Sequence[Value], **attrs: Any) -> tuple[Value, ...]:
    """The op of other operands, with some attributes changed."""
    return b.emit(op.opdef, tuple(operands), op.regions, **{**op.attrs, **attrs})


def linear(*places: int) -> JvpRule:
    """The tangent of an op that is linear in the operands at ``places``, or in all, and constant in the others."""

    def rule(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
        own = places or range(len(op.operands))
        if all(tangents[i] is None for i in own):
            return (None,) * len(op.results)
        operands = list(op.operands)
        for i in own:
            tangent = tangents[i]
            operands[i] = zeros(b, operands[i].type) if tangent is None else tangent
        return again(b, op, operands)

    return rule


def bilinear(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    """The tangent of a product of two operands; others, such as indices, have no tangents."""
    parts = [
        again(b, op, (*op.operands[:i], t, *op.operands[i + 1 :]))[0] for i, t in enumerate(tangents) if t is not None
    ]
    return (parts[0] if len(parts) == 1 else b.op("add", *parts),)


def unbroadcast(b: Builder, ct: Value, type: TensorType, dims: tuple[int, ...]) -> Value:
    """The cotangent of an operand of ``type`` whose axis ``i`` was broadcast to axis ``dims[i]`` of ``ct``.

    Sums over the axes that are new or were stretched. Of an axis of which that is not known, of size n in a result of
    size B, (n, B // max(n, 1)) are summed over the second: all of the elements or one each.
    """
    shape: list[Dim] = []
    sums: list[int] = []
    for axis, size in enumerate(ct.shape):
        own = type.shape[dims.index(axis)] if axis in dims else 1
        if axis in dims and (own is size or b.facts.eq(own, size).proved):
            shape.append(size)
        elif b.facts.eq(own, 1).proved:
            sums.append(len(shape))
            shape.append(size)
        else:
            shape.append(own)
            sums.append(len(shape))
            shape.append(floordiv(size, dim_max(own, 1)))
    split = ct if len(shape) == len(ct.shape) else b.op("reshape", ct, shape=tuple(shape))
    total = b.op("reduce", split, axes=tuple(sums), combine="add", nonempty=False) if sums else split
    return total if total.type.shape == type.shape else b.op("reshape", total, shape=type.shape)


# --- batching -----------------------------------------------------------------------------------------------------


def shifted(**changes: Callable[[Any, Dim], Any]) -> BatchRule:
    """The op of operands that all have the axis of examples. An attribute becomes ``changes[name](value, size)``."""

    def rule(
        b: Builder, op: Op, operands: tuple[Value, ...], batched: tuple[bool, ...], size: Dim
    ) -> tuple[Value, ...]:
        full = [v if own else spread(b, v, size) for v, own in zip(operands, batched, strict=True)]
        return again(b, op, full, **{name: change(op.attrs[name], size) for name, change in changes.items()})

    return rule


#: The op of operands that all have the axis of examples.
pointwise_batch = shifted()


def later(axes: Sequence[int], size: Dim = 0) -> tuple[int, ...]:
    """Axes, where one more stands in front."""
    return tuple([axis + 1 for axis in axes])


def one_later(axis: int, size: Dim = 0) -> int:
    """An axis, where one more stands in front."""
    return axis + 1


def later_from_0(axes: Sequence[int], size: Dim = 0) -> tuple[int, ...]:
    """Places of axes where one more stands in front and stays there."""
    return (0, *later(axes))


def size_in_front(shape: tuple[Dim, ...], size: Dim) -> tuple[Dim, ...]:
    """A shape, and one more axis in front."""
    return (size, *shape)


def of_nothing(
    b: Builder, op: Op, operands: tuple[Value, ...], batched: tuple[bool, ...], size: Dim
) -> tuple[Value, ...]:
    """Batching rule of an op without operands, which nobody asks for: it is the same for all examples."""
    raise AssertionError(f"{op.opdef.name} has no operand that could have an axis of examples")


def transposed(jvp: JvpRule) -> VjpRule:
    """The ``vjp`` of an op by its ``jvp``: what that writes is linear in the tangents, and is gone through backward.

    The tangents that it is written for are zeros; nobody reads what is computed of them, and it goes with dead code.
    """

    def rule(b: Builder, op: Op, cts: tuple[Value | None, ...]) -> Sequence[Value | None]:
        tangents = [zeros(b, v.type) if v.dtype.is_inexact else None for v in op.operands]
        start = len(b.ops)
        results = jvp(b, op, tuple(tangents))
        given = {v: ct for v, ct in zip(results, cts, strict=True) if v is not None and ct is not None}
        wanted = [t for t in tangents if t is not None]
        pulled = iter(pull_back(b, tuple(b.ops[start:]), given, wanted))
        return [None if t is None else next(pulled) for t in tangents]

    return rule
