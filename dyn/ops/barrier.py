"""Optimization barriers: passes may not look through them (https://openxla.org/stablehlo/spec#optimization_barrier)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.opdef import Attrs, Inline, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ir.vectorize import spread
from dyn.shapes import Dim

Array = np.ndarray[Any, Any]


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    return operands


def _prune(op: Op, live: set[Value]) -> Op:
    """Drop operands that nobody reads behind the barrier."""
    kept = [i for i, v in enumerate(op.results) if v in live]
    return replace(op, operands=tuple([op.operands[i] for i in kept]), results=tuple([op.results[i] for i in kept]))


def _again(b: Builder, op: Op, values: tuple[Any, ...]) -> tuple[Value | None, ...]:
    """The barrier of derivatives, where there are any."""
    made = iter(b.emit(op.opdef, [v for v in values if v is not None]))
    return tuple([None if v is None else next(made) for v in values])


def _batch(b: Builder, op: Op, operands: tuple[Value, ...], batched: tuple[bool, ...], size: Dim) -> tuple[Value, ...]:
    made = b.emit(op.opdef, operands)
    return tuple([v if flag else spread(b, v, size) for v, flag in zip(made, batched, strict=True)])


def _samples() -> list[Sample]:
    shapes = ((), (0,), (1,), (7,), (2, 3))
    arrays = [np.arange(float(np.prod(shape))).reshape(shape) for shape in shapes]
    return [Sample((x,)) for x in arrays] + [Sample((x, np.int32(3) + np.zeros(2, np.int32), x * 2)) for x in arrays]


#: Its operands.
optimization_barrier = OpDef(
    "optimization_barrier",
    OpKind.BARRIER,
    types=_types,
    loops=Inline.STITCHED,
    reference=lambda *arrays: tuple(np.array(x) for x in arrays),
    samples=_samples,
    vjp=_again, jvp=_again, batch=_batch,
    prune=_prune,
)  # fmt: skip
