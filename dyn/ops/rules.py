"""Rules that many ops share: type rules, element rules and samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.ir.core import Op
from dyn.ir.opdef import Attrs, ElementLoops, Get, Sample, ScalarBuilder, TypeContext, TypeRule
from dyn.ir.types import TensorType
from dyn.ops.scalar import Scalar
from dyn.shapes import Dim, RelKind

BOOL = frozenset({Kind.BOOL})
INTEGER = frozenset({Kind.INT, Kind.UINT})
FLOAT = frozenset({Kind.FLOAT})
NUMBER = INTEGER | FLOAT | {Kind.COMPLEX}
INEXACT = FLOAT | {Kind.COMPLEX}
REAL = INTEGER | FLOAT
BITS = INTEGER | BOOL
ANY = NUMBER | BOOL


def require_same_shapes(
    ctx: TypeContext, operands: Sequence[TensorType], why: str = "operands of an elementwise op agree"
) -> None:
    """Demand that operands have one shape, axis by axis: ``why`` they do."""
    first = operands[0]
    for other in operands[1:]:
        if other.rank != first.rank:
            raise ctx.fail(f"operands have ranks {first.rank} and {other.rank}: {first} and {other}")
        for axis, (a, b) in enumerate(zip(first.shape, other.shape, strict=True)):
            ctx.require(RelKind.EQ, a, b, f"{why} on axis {axis}")


def require_kinds(ctx: TypeContext, operands: tuple[TensorType, ...], kinds: frozenset[Kind]) -> None:
    """Refuse operands of other kinds, or of several dtypes."""
    for operand in operands:
        if operand.dtype.kind not in kinds:
            allowed = ", ".join(sorted(k.name.lower() for k in kinds))
            raise ctx.unsupported(f"takes {allowed} operands, not {operand.dtype.name}", "convert it with .astype")
        if operand.dtype is not operands[0].dtype:
            raise ctx.fail(f"operands have dtypes {operands[0].dtype.name} and {operand.dtype.name}")


def same_type(kinds: frozenset[Kind]) -> TypeRule:
    """All operands have one type, which is the result's."""

    def rule(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
        require_kinds(ctx, operands, kinds)
        require_same_shapes(ctx, operands)
        weak = all(o.weak for o in operands)
        return (TensorType(operands[0].dtype, operands[0].shape, weak),)

    return rule


def predicate(kinds: frozenset[Kind]) -> TypeRule:
    """All operands have one type; the result is boolean of that shape."""

    def rule(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
        require_kinds(ctx, operands, kinds)
        require_same_shapes(ctx, operands)
        return (TensorType(dtypes.bool_, operands[0].shape),)

    return rule


def pointwise(fn: Scalar | Callable[[Attrs], Scalar]) -> ElementLoops:
    """The scalar function ``fn`` of the operands' elements at the same index."""

    def at(k: ScalarBuilder, op: Op, index: tuple[Dim, ...], get: Get) -> Any:
        chosen = fn if isinstance(fn, Scalar) else fn(op.attrs)
        return k.apply(chosen, [get(i, index) for i in range(len(op.operands))], op.result.dtype)

    return ElementLoops(at)


def view(index_map: Callable[[Any, tuple[Dim, ...]], tuple[Dim, ...]]) -> ElementLoops:
    """The operand's element at ``index_map(op, index)``."""
    return ElementLoops(lambda k, op, index, get: get(0, index_map(op, index)))


#: Shapes that samples are made in: a size 0, a size 1, and more.
SAMPLE_SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1, 1), (2, 0, 3), (5, 7))
#: The shapes of elementwise ops' samples.
ELEMENT_SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (2,), (7,), (64,))


def _values(shape: tuple[int, ...], dtype: DType, low: float, high: float, seed: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    if dtype.kind is Kind.BOOL:
        return rng.random(shape) < 0.5
    if dtype.is_integer:
        floor = max(int(low), 0) if dtype.kind is Kind.UINT else int(low)
        return rng.integers(floor, int(high), shape, endpoint=True).astype(dtype.np)
    if dtype.kind is Kind.COMPLEX:
        return (rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)).astype(dtype.np)
    return rng.uniform(low, high, shape).astype(dtype.np)


AXIS_DTYPES = (dtypes.float32, dtypes.bfloat16, dtypes.int64, dtypes.uint8, dtypes.bool_, dtypes.float8_e5m2)


def samples(
    arity: int,
    types: tuple[DType, ...] = (dtypes.float32, dtypes.float64),
    low: float = -3.0,
    high: float = 3.0,
    shapes: tuple[tuple[int, ...], ...] = SAMPLE_SHAPES,
    **attrs: Any,
) -> Callable[[], list[Sample]]:
    """Calls with ``arity`` operands of one shape and dtype, drawn from [low, high]; both parts of complex numbers."""

    def make() -> list[Sample]:
        return [
            Sample(tuple(_values(shape, dtype, low, high, seed) for seed in range(arity)), attrs)
            for dtype in types
            for shape in shapes
        ]

    return make


#: A dtype of every kind and of several widths, for ops that move elements whatever they are.
ALL_DTYPES: tuple[np.dtype[Any], ...] = tuple(
    d.np
    for d in (dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int8, dtypes.uint8, dtypes.int64,
              dtypes.bool_, dtypes.complex64, dtypes.float8_e5m2)
)  # fmt: skip


def numbers(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Different numbers, or as different as a dtype can have them."""
    return (np.arange(np.prod(shape, dtype=np.int64)).reshape(shape) % 97).astype(dtype)


def axis_samples(*attrs: dict[str, Any]) -> list[Sample]:
    """Calls of an op that goes along an axis: each axis of arrays of some dtypes, with each of ``attrs``."""
    return [
        Sample(sample.operands, {"dimension": axis, **own})
        for sample in samples(1, AXIS_DTYPES, -9.0, 9.0)()
        for axis in range(sample.operands[0].ndim)
        for own in attrs
    ]
