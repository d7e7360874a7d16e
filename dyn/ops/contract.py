"""dot_general: sums of products over named axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.opdef import Attrs, ContractionLoops, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.complex_parts import Pair, Real, select_index, stack
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
        unit = 1 + 2j if dtype.kind is Kind.COMPLEX else 1
        arrays = tuple([(unit * rng.standard_normal(shape)).astype(dtype.np) for shape in (a, b)])
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
        make((3, 4), (4, 5), (), (), (1,), (0,), dtype=dtypes.complex64),
        make((2, 3, 4), (2, 5, 4), (0,), (0,), (2,), (2,), dtype=dtypes.complex64),
        make((3, 4), (4,), (), (), (1,), (0,), dtype=dtypes.complex128),
    ]


def _parts(b: Builder, op: Op, operands: tuple[Pair, ...]) -> Pair:
    """One real contraction where an operand lies in memory as complex numbers: it is read there. Else four."""
    (lhs, rhs), at = operands, op.attrs
    own_l = op.operands[0], lhs, at["lhs_batch"], at["lhs_contracting"]
    own_r = op.operands[1], rhs, at["rhs_batch"], at["rhs_contracting"]
    free_l, free_r = (free_axes(len(v.shape), batch, axes) for v, _, batch, axes in (own_l, own_r))
    if free_r and (matrix := _in_memory(b, rhs)) is not None:
        return _by_pairs(b, lhs, *matrix, own_l[2:], own_r[2:])
    if not free_r and free_l and (matrix := _in_memory(b, lhs)) is not None:
        return _by_pairs(b, rhs, *matrix, own_r[2:], own_l[2:])
    r = Real(b)

    def dot(i: int, j: int) -> Value:
        return b.op("dot_general", lhs[i], rhs[j], **op.attrs)

    return r.sub(dot(0, 0), dot(1, 1)), r.add(dot(0, 1), dot(1, 0))


def _in_memory(b: Builder, x: Pair) -> tuple[Value, int] | None:
    """The complex array, or view of one, whose parts these are, and the axis along which it lies in memory.

    None where they are computed.
    """
    ops = [op for op in map(b.producer, x) if op is not None]
    if len(ops) < 2 or len({len(op.operands) for op in ops}) > 1:
        return None
    (re, im), sources = ops, [op.operands[0] for op in ops]
    if (re.opdef.name, im.opdef.name) == ("real", "imag") and sources[0] is sources[1]:
        return sources[0], len(x[0].shape) - 1
    if re.opdef is not im.opdef or re.opdef.name != "transpose" or re.attrs != im.attrs:
        return None
    found = _in_memory(b, (sources[0], sources[1]))
    if found is None:
        return None
    whole, last = found
    permutation = re.attrs["permutation"]
    return b.op("transpose", whole, permutation=permutation), permutation.index(last)


_Axes = tuple[tuple[int, ...], tuple[int, ...]]


def _by_pairs(b: Builder, few: Pair, matrix: Value, last: int, own: _Axes, of_matrix: _Axes) -> Pair:
    """The product of two arrays, of which one is read as pairs of parts; ``own`` are batch and contracting axes.

    Where the matrix lies along a contracted axis, so do its pairs: for ``re`` they are multiplied with ``(re, -im)`` of
    the other array, for ``im`` with ``(im, re)``. Else pairs are two columns, which both parts are multiplied with.
    """
    (batch, axes), (its_batch, its_axes) = own, of_matrix
    rank, its_rank = len(few[0].shape), len(matrix.shape)
    pairs, at = b.op("view_as_real", matrix), len(batch)
    dims = {
        "lhs_batch": tuple([a + 1 for a in batch]), "rhs_batch": its_batch,
        "lhs_contracting": tuple([a + 1 for a in axes]), "rhs_contracting": its_axes,
    }  # fmt: skip
    if last in its_axes:
        re, im = few
        turned = [b.op("complex", *parts) for parts in ((re, b.op("negate", im)), (im, re))]
        rows = stack(b, [b.op("view_as_real", value) for value in turned], 0)
        dims["lhs_contracting"] += (rank + 1,)
        dims["rhs_contracting"] += (its_rank,)
        made = b.op("dot_general", rows, pairs, **dims)
        return select_index(b, made, at, 0), select_index(b, made, at, 1)
    made = b.op("dot_general", stack(b, few, 0), pairs, **dims)

    def part(row: int, column: int) -> Value:
        return select_index(b, select_index(b, made, len(made.shape) - 1, column), at, row)

    r = Real(b)
    return r.sub(part(0, 0), part(1, 1)), r.add(part(0, 1), part(1, 0))


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
