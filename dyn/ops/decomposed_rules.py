"""Rules of an op by those of the ops that it could be written as.

``parts(b, op, operands)`` writes an op out as others: its results for operands of the types that the op has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dyn.ir.builder import Builder
from dyn.ir.core import Op, Region, Value
from dyn.ir.differentiate import gathered, pull_back, push_forward
from dyn.ir.inline_regions import build_region, splice
from dyn.ir.opdef import BatchRule, JvpRule, VjpRule
from dyn.ir.types import TensorType
from dyn.ir.vectorize import batched, spread
from dyn.shapes import Dim

Parts = Callable[[Builder, Op, tuple[Value, ...]], Sequence[Value]]


def _region(b: Builder, op: Op, parts: Parts) -> Region:
    types = [TensorType(v.dtype, v.shape) for v in op.operands]
    return build_region(b, types, lambda inner, params: parts(inner, op, params))


def vjp_by_parts(parts: Parts) -> VjpRule:
    """The op is computed again, as its parts, and cotangents are pulled through those."""

    def rule(b: Builder, op: Op, cts: tuple[Value | None, ...]) -> Sequence[Any]:
        own = [b.op("copy", v) for v in op.operands]  # one value may be given twice
        start = len(b.ops)
        results = splice(b, _region(b, op, parts), own, prepare=True)
        return pull_back(b, tuple(b.ops[start:]), gathered(b, results, cts), own)

    return rule


def jvp_by_parts(parts: Parts) -> JvpRule:
    """The tangents of the parts."""

    def rule(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> Sequence[Any]:
        known = {v: t for v, t in zip(op.operands, tangents, strict=True) if t is not None}
        start = len(b.ops)
        results = splice(b, _region(b, op, parts), op.operands)
        push_forward(b, tuple(b.ops[start:]), known)
        return [known.get(v) for v in results]

    return rule


def batch_by_parts(parts: Parts) -> BatchRule:
    """The parts for many examples."""

    def rule(b: Builder, op: Op, operands: tuple[Value, ...], flags: tuple[bool, ...], size: Dim) -> Sequence[Any]:
        results, own = batched(b, _region(b, op, parts), operands, flags, size)
        return [v if flag else spread(b, v, size) for v, flag in zip(results, own, strict=True)]

    return rule
