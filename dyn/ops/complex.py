"""Ops that join real and imaginary parts, and take them apart: what kernels have of complex arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.opdef import Attrs, ElementLoops, OpDef, OpKind, TypeContext, TypeRule
from dyn.ir.types import TensorType
from dyn.ops import rules
from dyn.ops.complex_parts import part_dtype, select_index, stack
from dyn.ops.pointwise import COMPLEXES, draw
from dyn.ops.transform_rules import elementwise_vjp, linear, pointwise_batch

_OF_PARTS = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}


def _complex_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    first = operands[0].dtype
    if first not in _OF_PARTS:
        raise ctx.unsupported(f"takes float32 or float64 parts, not {first.name}", "convert them with .astype")
    (part,) = rules.same_type(rules.FLOAT)(ctx, operands, attrs)
    return (TensorType(_OF_PARTS[part.dtype], part.shape, part.weak),)


def _part_types() -> TypeRule:
    def rule(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
        rules.require_kinds(ctx, operands, frozenset({Kind.COMPLEX}))
        (x,) = operands
        return (TensorType(part_dtype(x.dtype), x.shape, x.weak),)

    return rule


def _joined(real: np.ndarray[Any, Any], imag: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Join parts, not by a sum, which would make NaN of ``0 * inf``, and 0.0 of -0.0."""
    result = np.empty(real.shape, _OF_PARTS[dtypes.dtype(real.dtype)].np)
    result.real, result.imag = real, imag
    return result


#: ``real + i * imag``
complex_ = OpDef(
    "complex",
    OpKind.POINTWISE,
    types=_complex_types,
    loops=ElementLoops(lambda k, op, index, get: k.pair(get(0, index), get(1, index), op.result.dtype)),
    reference=_joined,
    samples=draw(2, (dtypes.float32, dtypes.float64)),
    vjp=elementwise_vjp(lambda a, ct, y, re, im: (a.f("real", ct), a.neg(a.f("imag", ct)))),
    jvp=linear(), batch=pointwise_batch,
    parts=lambda b, op, operands: operands,
)  # fmt: skip

real = OpDef(
    "real",
    OpKind.POINTWISE,
    types=_part_types(),
    loops=ElementLoops(lambda k, op, index, get: k.parts(get(0, index))[0]),
    reference=lambda x: np.array(x.real),
    samples=draw(1, COMPLEXES),
    vjp=elementwise_vjp(lambda a, ct, y, x: (a.f("complex", ct, a.fill(ct, 0)),)),
    jvp=linear(), batch=pointwise_batch,
    parts=lambda b, op, operands: operands[0][0],
)  # fmt: skip

imag = OpDef(
    "imag",
    OpKind.POINTWISE,
    types=_part_types(),
    loops=ElementLoops(lambda k, op, index, get: k.parts(get(0, index))[1]),
    reference=lambda x: np.array(x.imag),
    samples=draw(1, COMPLEXES),
    vjp=elementwise_vjp(lambda a, ct, y, x: (a.f("complex", a.fill(ct, 0), a.neg(ct)),)),
    jvp=linear(), batch=pointwise_batch,
    parts=lambda b, op, operands: operands[0][1],
)  # fmt: skip


def _pair_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    rules.require_kinds(ctx, operands, frozenset({Kind.COMPLEX}))
    (x,) = operands
    return (TensorType(part_dtype(x.dtype), (*x.shape, 2), x.weak),)


def _pair_vjp(b: Builder, op: Op, cts: tuple[Value, ...]) -> tuple[Value]:
    re, im = (select_index(b, cts[0], axis=len(op.operands[0].shape), index=i) for i in range(2))
    return (b.op("complex", re, b.op("negate", im)),)


def _as_real(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.stack([x.real, x.imag], axis=-1)


#: Complex numbers of an array in memory as pairs of parts, the last axis: what lies there, without a copy. PyTorch's
#: name.
view_as_real = OpDef(
    "view_as_real",
    OpKind.VIEW,
    types=_pair_types,
    loops=ElementLoops(lambda k, op, index, get: k.part(get(0, index[:-1]), index[-1])),
    reference=_as_real,
    samples=draw(1, COMPLEXES),
    vjp=_pair_vjp, jvp=linear(), batch=pointwise_batch,
    parts=lambda b, op, operands: stack(b, operands[0], axis=len(op.operands[0].shape)),
)  # fmt: skip
