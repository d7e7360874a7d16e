"""Reductions with a monoid, over any axes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind, Special
from dyn.ir.builder import Builder
from dyn.ir.core import Dense, Op, Value
from dyn.ir.opdef import Attrs, OpDef, OpKind, ReductionLoops, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops import complex_parts
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.rules import SAMPLE_SHAPES, numbers, samples
from dyn.ops.scalar import Scalar
from dyn.ops.transform_rules import later, shifted
from dyn.shapes import RelKind, product

Array = np.ndarray[Any, Any]

COMBINES = {
    "add": Scalar.ADD,
    "multiply": Scalar.MUL,
    "maximum": Scalar.MAX,
    "minimum": Scalar.MIN,
    "and": Scalar.AND,
    "or": Scalar.OR,
    "xor": Scalar.XOR,
}
UFUNCS = {
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
_BITWISE = ("and", "or", "xor")


def identity(combine: str, dtype: DType) -> bool | int | float:
    """The value that changes nothing under ``combine``: what a reduction of nothing gives.

    Of floats without infinities that is the lowest or the greatest number for a maximum or a minimum.
    """
    if combine in ("add", "or", "xor"):
        return False if dtype.kind is Kind.BOOL else 0
    if combine == "multiply":
        return 1
    if combine == "and":
        return True if dtype.kind is Kind.BOOL else (1 << dtype.bits) - 1 if dtype.kind is Kind.UINT else -1
    lowest = combine == "maximum"
    if dtype.format is not None:
        if dtype.format.special is Special.IEEE:
            return float("-inf") if lowest else float("inf")
        bounds = ml_dtypes.finfo(dtype.np)
        return float(bounds.min if lowest else bounds.max)
    if dtype.kind is Kind.BOOL:
        return not lowest
    info = np.iinfo(dtype.np)
    return int(info.min if lowest else info.max)


def require_combinable(ctx: TypeContext, dtype: DType, combine: str) -> None:
    """Refuse elements that ``combine`` does not take."""
    taken = dtype.kind is Kind.BOOL or dtype.is_integer if combine in _BITWISE else dtype.kind is not Kind.BOOL
    ordered = combine in ("maximum", "minimum")
    if ordered and dtype.kind is Kind.COMPLEX:
        raise ctx.unsupported(
            f"{combine} does not take {dtype.name}, which has no order", "reduce the absolute values, or a part."
        )
    if not taken and not ordered:
        raise ctx.unsupported(f"cannot combine {dtype.name} with {combine}", "convert it with .astype")


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,), axes, combine = operands, attrs["axes"], attrs["combine"]
    if any(not 0 <= a < x.rank for a in axes) or len(set(axes)) != len(axes):
        raise ctx.fail(f"axes {axes} are not distinct axes of {x}")
    require_combinable(ctx, x.dtype, combine)
    kept = tuple(d for i, d in enumerate(x.shape) if i not in axes)
    if attrs["nonempty"]:
        # As in NumPy, whether or not the result has elements.
        text = f"the {combine} of nothing has no value, and an axis that is reduced is empty"
        ctx.require(RelKind.GE, product([x.shape[a] for a in axes]), 1, text)
    return (TensorType(x.dtype, kept, x.weak),)


def _reference(x: Array, axes: tuple[int, ...], combine: str, nonempty: bool) -> Array:
    # As kernels do, so that long sums are no worse.
    wide = x.astype(dtypes.dtype(x.dtype).accumulator.np, copy=False) if combine == "add" else dtypes.widened(x)
    initial = np.asarray(identity(combine, dtypes.dtype(x.dtype))).astype(wide.dtype)
    if not axes:
        return x
    with np.errstate(all="ignore"):
        return np.asarray(UFUNCS[combine].reduce(wide, axis=axes, initial=initial, dtype=wide.dtype)).astype(x.dtype)


def _samples() -> list[Sample]:
    calls: list[Sample] = []
    for sample in samples(1, (dtypes.float32, dtypes.int32, dtypes.bfloat16, dtypes.float8_e4m3fn))():
        rank = sample.operands[0].ndim
        for axes in {(), (0,), (rank - 1,), tuple(range(rank))} if rank else [()]:
            for combine in ("add", "maximum", "minimum", "multiply"):
                calls.append(Sample(sample.operands, {"axes": axes, "combine": combine, "nonempty": False}))
    for size in (0, 1, 7, 64):
        for combine in ("add", "multiply"):
            z = numbers((3, size), np.complex64) / 2
            calls += [Sample((z,), {"axes": axes, "combine": combine, "nonempty": False}) for axes in ((), (0,), (1,))]
    for shape in SAMPLE_SHAPES[1:]:
        for combine in _BITWISE:
            x = np.indices(shape).sum(0) % 2 == 0
            calls.append(Sample((x,), {"axes": (0,), "combine": combine, "nonempty": False}))
            wholes = np.arange(x.size, dtype=np.uint8).reshape(shape)
            calls.append(Sample((wholes,), {"axes": (0,), "combine": combine, "nonempty": False}))
    return calls


def _spread_back(b: Builder, op: Op, value: Value) -> Value:
    """A value of the result's shape, in that of the operand."""
    shape, axes = op.operands[0].shape, op.attrs["axes"]
    return b.op("broadcast_in_dim", value, shape=shape, dims=tuple(a for a in range(len(shape)) if a not in axes))


def _share(b: Builder, op: Op) -> Value:
    """Partial derivative of the result by each element of the operand."""
    a, (x,), y = Arithmetic(b), op.operands, op.result
    if op.attrs["combine"] == "multiply":
        return _others(b, x, op.attrs["axes"])
    # Equal extremes share.
    chosen = a.cmp(x, "EQ", _spread_back(b, op, y))
    ones = a.where(chosen, a.fill(x, 1), 0)
    count = b.op("reduce", ones, axes=op.attrs["axes"], combine="add", nonempty=False)
    return a.div(ones, _spread_back(b, op, count))


def _others(b: Builder, x: Value, axes: tuple[int, ...]) -> Value:
    """For each element, the product of all others along ``axes``: what stands before it times what stands after it."""
    kept = tuple(a for a in range(len(x.shape)) if a not in axes)
    front = b.op("transpose", x, permutation=(*kept, *axes))
    last = len(kept)
    flat = b.op("reshape", front, shape=(*front.shape[:last], product(front.shape[last:])))
    one = b.op("constant", value=Dense(x.dtype.np.type(1)))
    sides: list[Value] = []
    for low, high, reverse in ((1, -1, False), (-1, 1, True)):
        running = b.op("cumulative", flat, dimension=last, combine="multiply", reverse=reverse)
        edges = {"edge_padding_low": (*(0,) * last, low), "edge_padding_high": (*(0,) * last, high)}
        sides.append(b.op("pad", running, one, **edges, interior_padding=(0,) * (last + 1)))
    both = b.op("reshape", b.op("multiply", *sides), shape=front.shape)
    return b.op("transpose", both, permutation=tuple(int(a) for a in np.argsort((*kept, *axes))))


def _vjp(b: Builder, op: Op, cts: tuple[Value, ...]) -> tuple[Value]:
    ct = _spread_back(b, op, cts[0])
    return (ct if op.attrs["combine"] == "add" else b.op("multiply", ct, _share(b, op)),)


def _jvp(b: Builder, op: Op, tangents: tuple[Value]) -> tuple[Value, ...]:
    (t,), sums = tangents, {"axes": op.attrs["axes"], "combine": "add", "nonempty": False}
    return (b.op("reduce", t if op.attrs["combine"] == "add" else b.op("multiply", t, _share(b, op)), **sums),)


#: ``combine`` over ``axes``. With ``nonempty`` a reduction of nothing is an error; without, it gives the identity.
reduce = OpDef(
    "reduce",
    OpKind.REDUCE,
    types=_types,
    loops=ReductionLoops(combine=lambda attrs: COMBINES[attrs["combine"]]),
    reference=_reference,
    samples=_samples,
    vjp=_vjp, jvp=_jvp, batch=shifted(axes=later),
    simplify=lambda b, op: op.operands if not op.attrs["axes"] else None,
    parts=complex_parts.folded("variadic_reduce"),
)  # fmt: skip
