"""dot_general: sums of products over named axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.opdef import Attrs, ContractionLoops, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.complex_parts import Pair, Real
from dyn.ops.rules import NUMBER, require_kinds
from dyn.ops.transform_rules import again, bilinear, later
from dyn.shapes import Dim, RelKind

Array = np.ndarray[Any, Any]


def free_axes(rank: int, batch: tuple[int, ...], contracting: tuple[int, ...]) -> tuple[int, ...]:
    """The axes of an operand that are neither batch nor contracting, in order."""
    return tuple([a for a in range(rank) if a not in batch and a not in contracting])


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    lhs, rhs = operands
    require_kinds(ctx, operands, NUMBER)
    lb, rb, lc, rc = attrs["lhs_batch"], attrs["rhs_batch"], attrs["lhs_contracting"], attrs["rhs_contracting"]
    if len(lb) != len(rb) or len(lc) != len(rc):
        raise ctx.fail("the two operands name different numbers of batch or contracting axes")
    for a, b in zip(lb, rb, strict=True):
        ctx.require(RelKind.EQ, lhs.shape[a], rhs.shape[b], "the two operands have the same batch dims")
    for a, b in zip(lc, rc, strict=True):
        text = f"axis {a} of the left operand is multiplied and summed with axis {b} of the right one"
        ctx.require(RelKind.EQ, lhs.shape[a], rhs.shape[b], text)
    shape = (
        *(lhs.shape[a] for a in lb),
        *(lhs.shape[a] for a in free_axes(lhs.rank, lb, lc)),
        *(rhs.shape[a] for a in free_axes(rhs.rank, rb, rc)),
    )
    return (TensorType(lhs.dtype, shape),)


def _reference(
    lhs: Array,
    rhs: Array,
    lhs_batch: tuple[int, ...],
    rhs_batch: tuple[int, ...],
    lhs_contracting: tuple[int, ...],
    rhs_contracting: tuple[int, ...],
) -> Array:
    free_l = free_axes(lhs.ndim, lhs_batch, lhs_contracting)
    free_r = free_axes(rhs.ndim, rhs_batch, rhs_contracting)
    batch = tuple(lhs.shape[a] for a in lhs_batch)
    m, n = tuple(lhs.shape[a] for a in free_l), tuple(rhs.shape[a] for a in free_r)
    k = int(np.prod([lhs.shape[a] for a in lhs_contracting], dtype=np.int64))
    x, y = dtypes.widened(lhs), dtypes.widened(rhs)
    x = x.transpose(*lhs_batch, *free_l, *lhs_contracting).reshape(*batch, int(np.prod(m, dtype=np.int64)), k)
    y = y.transpose(*rhs_batch, *rhs_contracting, *free_r).reshape(*batch, k, int(np.prod(n, dtype=np.int64)))
    with np.errstate(all="ignore"):
        return np.matmul(x, y).reshape((*batch, *m, *n)).astype(lhs.dtype)


def _samples() -> list[Sample]:
    rng = np.random.default_rng(0)

    def make(
        a: tuple[int, ...], b: tuple[int, ...], *numbers: tuple[int, ...], dtype: dtypes.DType = dtypes.float32
    ) -> Sample:
        names = ("lhs_batch", "rhs_batch", "lhs_contracting", "rhs_contracting")
        arrays = (rng.standard_normal(a).astype(dtype.np), rng.standard_normal(b).astype(dtype.np))
        return Sample(arrays, dict(zip(names, numbers, strict=True)))

    return [
        make((3, 4), (4, 5), (), (), (1,), (0,)),
        make((0, 4), (4, 5), (), (), (1,), (0,)),
        make((3, 0), (0, 5), (), (), (1,), (0,)),
        make((1, 1), (1, 1), (), (), (1,), (0,)),
        make((2, 3, 4), (2, 5, 4), (0,), (0,), (2,), (2,)),
        make((2, 3, 4), (3, 4, 2), (), (), (1, 2), (0, 1)),
        make((5,), (5,), (), (), (0,), (0,)),
        make((2, 3, 7, 4), (7, 2, 4, 6), (0, 2), (1, 0), (3,), (2,)),
        make((3, 40), (40, 9), (), (), (1,), (0,), dtype=dtypes.float8_e4m3fn),
    ]


def _parts(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    """Four real contractions."""
    r, (lhs, rhs) = Real(b), operands

    def dot(i: int, j: int) -> Value:
        return b.op("dot_general", lhs[i], rhs[j], **op.attrs)

    return r.sub(dot(0, 0), dot(1, 1)), r.add(dot(0, 1), dot(1, 0))


def _vjp(b: Builder, op: Op, cts: tuple[Value]) -> tuple[Value, Value]:
    """The cotangent's axes are the batch, the free ones of the left operand, and of the right one."""
    (ct,), (lhs, rhs), at = cts, op.operands, op.attrs
    lb, rb, lc, rc = at["lhs_batch"], at["rhs_batch"], at["lhs_contracting"], at["rhs_contracting"]
    free_l, free_r = free_axes(len(lhs.shape), lb, lc), free_axes(len(rhs.shape), rb, rc)
    batch = tuple(range(len(lb)))
    own_l = tuple(range(len(lb), len(lb) + len(free_l)))
    own_r = tuple(range(len(lb) + len(free_l), len(ct.shape)))

    def product(y: Value, y_batch: Any, y_free: Any, ct_free: Any, axes: tuple[int, ...]) -> Value:
        """``ct`` times an operand over its free axes; ``axes`` say which axis of the other operand each one is."""
        made = b.op(
            "dot_general", ct, y, lhs_batch=batch, rhs_batch=y_batch, lhs_contracting=ct_free, rhs_contracting=y_free
        )
        order = tuple(sorted(range(len(axes)), key=axes.__getitem__))
        return made if order == tuple(range(len(order))) else b.op("transpose", made, permutation=order)

    def by_axis(contracting: Sequence[int], others: Sequence[int]) -> tuple[int, ...]:
        """The first, in the order in which the second stand in their operand."""
        return tuple([contracting[i] for i in sorted(range(len(others)), key=others.__getitem__)])

    return (
        product(rhs, rb, free_r, own_r, (*lb, *free_l, *by_axis(lc, rc))),
        product(lhs, lb, free_l, own_l, (*rb, *free_r, *by_axis(rc, lc))),
    )


def _batch(b: Builder, op: Op, operands: tuple[Value, ...], batched: tuple[bool, ...], size: Dim) -> tuple[Value, ...]:
    """One more batch axis; where one operand has it, a free axis of that one, which goes to the front."""
    sides = (("lhs_batch", "lhs_contracting"), ("rhs_batch", "rhs_contracting"))
    attrs = {name: later(op.attrs[name]) for own, names in zip(batched, sides, strict=True) if own for name in names}
    if all(batched):
        return again(b, op, operands, **attrs | {name: (0, *attrs[name]) for name in ("lhs_batch", "rhs_batch")})
    (made,) = again(b, op, operands, **attrs)
    place = len(op.attrs["lhs_batch"])
    if batched[1]:
        lhs, at = op.operands[0], op.attrs
        place += len(free_axes(len(lhs.shape), at["lhs_batch"], at["lhs_contracting"]))
    if place == 0:
        return (made,)
    order = (place, *(axis for axis in range(len(made.shape)) if axis != place))
    return (b.op("transpose", made, permutation=order),)


dot_general = OpDef(
    "dot_general",
    OpKind.CONTRACT,
    types=_types,
    loops=ContractionLoops(),
    reference=_reference,
    samples=_samples,
    vjp=_vjp, jvp=bilinear, batch=_batch,
    parts=_parts,
)  # fmt: skip
