"""Ops that are what other ops make of them: declared once, as the program that they stand for.

Such an op stays one op as long as people and front ends look at it, and becomes its program when it is simplified.
Its derivatives and its batching are those of that program's ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dyn.ir.builder import Builder
from dyn.ir.core import Op, Region, Value
from dyn.ir.differentiate import gathered, pull_back, push_forward
from dyn.ir.opdef import BatchRule, JvpRule, VjpRule
from dyn.ir.vectorize import batched, spread
from dyn.shapes import Dim

#: ``expand(b, op, operands)``: the results of ``op`` for other operands of the same types, made with the builder ``b``.
Expand = Callable[[Any, Op, tuple[Value, ...]], Sequence[Value]]


def expanded(expand: Expand) -> Callable[[Any, Op], tuple[Value, ...]]:
    """The ``simplify`` of an op: its program."""

    def rule(b: Builder, op: Op) -> tuple[Value, ...]:
        return tuple(expand(b, op, op.operands))

    return rule


def expanded_vjp(expand: Expand) -> VjpRule:
    """Cotangents pulled back through the op's program, which is written out once more."""

    def rule(b: Builder, op: Op, cts: tuple[Value | None, ...]) -> Sequence[Value | None]:
        # A value that is given twice has a cotangent for each: it is two values to the program.
        own = op.operands
        if len(set(own)) < len(own):
            own = tuple([b.op("copy", v) for v in own])
        start = len(b.ops)
        results = expand(b, op, own)
        made = tuple(b.ops[start:])
        return pull_back(b, made, gathered(b, results, cts), own)

    return rule


def expanded_jvp(expand: Expand) -> JvpRule:
    """Tangents pushed forward through the op's program, which is written out once more."""

    def rule(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
        start = len(b.ops)
        results = expand(b, op, op.operands)
        made = tuple(b.ops[start:])
        found = {v: t for v, t in zip(op.operands, tangents, strict=True) if t is not None}
        push_forward(b, made, found)
        return tuple([found.get(v) for v in results])

    return rule


def expanded_batch(expand: Expand) -> BatchRule:
    """The op's program for many examples."""

    def rule(b: Builder, op: Op, operands: tuple[Value, ...], flags: tuple[bool, ...], size: Dim) -> tuple[Value, ...]:
        params = tuple([Value(v.type) for v in op.operands])
        inner = b.inner()
        results = tuple(expand(inner, op, params))
        made, own = batched(b, Region(params, tuple(inner.ops), results, inner.demands), operands, flags, size)
        return tuple([v if flag else spread(b, v, size) for v, flag in zip(made, own, strict=True)])

    return rule
