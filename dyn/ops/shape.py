"""Ops that move elements about without computing: broadcast, reshape, transpose, slice, concatenate; and makers.

This file is longer than most: it is a list of ops, a block each.
"""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import IRError
from dyn.ir.builder import Builder
from dyn.ir.core import Attr, Dense, Op, Value
from dyn.ir.differentiate import zeros
from dyn.ir.opdef import (
    READS_NOTHING,
    Attrs,
    ElementLoops,
    Get,
    OpDef,
    OpKind,
    Pieces,
    Sample,
    ScalarBuilder,
    TypeContext,
)
from dyn.ir.types import TensorType
from dyn.ir.vectorize import spread
from dyn.ops.complex_parts import Real, part_dtype
from dyn.ops.identities import broadcast_once, joined_once, reshaped_once, transposed_once, whole_slice
from dyn.ops.rules import SAMPLE_SHAPES, view
from dyn.ops.scalar import Scalar
from dyn.ops.transform_rules import (
    again,
    later,
    later_from_0,
    linear,
    of_nothing,
    one_later,
    shifted,
    size_in_front,
    unbroadcast,
)
from dyn.shapes import (
    Atom,
    Dim,
    Opaque,
    OpaqueKind,
    RelKind,
    SymExpr,
    dim_difference,
    dim_max,
    dim_min,
    dim_sum,
    floordiv,
    format_shape,
    mod,
    product,
)

Array = np.ndarray[Any, Any]


# --- broadcast_in_dim ---------------------------------------------------------------------------------------------


def _sizes(ctx: TypeContext, shape: tuple[Dim, ...], known: Container[Dim] = ()) -> tuple[Dim, ...]:
    """The shape of a result, demanded to consist of sizes; of ``known`` ones and of plain symbols that is known."""
    for axis, dim in enumerate(shape):
        if dim not in known and (isinstance(dim, int) or dim.is_symbol is None):
            ctx.require(RelKind.GE, dim, 0, partial(_no_negative_size, shape, axis))
    return shape


def _no_negative_size(shape: tuple[Dim, ...], axis: int) -> str:
    return f"axis {axis} of the shape {format_shape(shape)} has no negative size"


def _broadcast_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,), shape, dims = operands, attrs["shape"], attrs["dims"]
    if len(dims) != x.rank or any(not 0 <= d < len(shape) for d in dims) or list(dims) != sorted(set(dims)):
        raise ctx.fail(f"dims {dims} do not place the {x.rank} axes of {x} in {format_shape(shape)}")
    for axis, target in enumerate(dims):
        size, wanted = x.shape[axis], shape[target]
        if size is wanted or size == 1:
            continue
        ctx.require_broadcast(size, wanted, f"axis {axis} is broadcast to axis {target}")
    return (TensorType(x.dtype, _sizes(ctx, shape, x.shape), x.weak),)


def stretch_factor(size: Dim) -> Dim:
    """The factor of an axis's index where the axis, of this size, may be stretched: 0 for a size of 1, and 1
    for every other. It is 0 for a size of 0 too, where no element is asked for: so it is 0 or 1 whatever the size."""
    return dim_max(dim_min(size - 1, 1), 0)


def is_stretch_factor(dim: Dim) -> bool:
    """Whether a dim is a :func:`stretch_factor`, or a product of some: of an axis that is stretched more than once."""
    if isinstance(dim, int) or dim.constant or len(dim.terms) != 1:
        return False
    ((monomial, coefficient),) = dim.terms
    return coefficient == 1 and all(stretched_size(atom) is not None for atom, _ in monomial.factors)


def stretched_size(atom: Atom) -> Dim | None:
    """The size of which an atom is the :func:`stretch_factor`; None where it is nothing of that kind."""
    inside = _other(atom, OpaqueKind.MAX, 0)
    least = _other(inside.is_atom, OpaqueKind.MIN, 1) if isinstance(inside, SymExpr) else None
    return None if least is None else least + 1


def _other(atom: Atom | None, kind: OpaqueKind, known: int) -> Dim | None:
    """The argument of a minimum or a maximum of two beside a known one."""
    if not isinstance(atom, Opaque) or atom.kind is not kind or len(atom.args) != 2 or known not in atom.args:
        return None
    first, second = atom.args
    return second if first == known else first


def _broadcast_map(op: Op, index: tuple[Dim, ...]) -> tuple[Dim, ...]:
    x, shape, dims = op.operands[0], op.attrs["shape"], op.attrs["dims"]
    result: list[Dim] = []
    for axis, target in enumerate(dims):
        size = x.shape[axis]
        if size == 1:
            result.append(0)
        elif size is shape[target] or isinstance(size, int):
            result.append(index[target])
        else:
            result.append(index[target] * stretch_factor(size))
    return tuple(result)


def _broadcast_vjp(b: Builder, op: Op, cts: tuple[Value, ...]) -> tuple[Value]:
    return (unbroadcast(b, cts[0], op.operands[0].type, op.attrs["dims"]),)


broadcast_in_dim = OpDef(
    "broadcast_in_dim",
    OpKind.VIEW,
    types=_broadcast_types,
    loops=view(_broadcast_map),
    reference=lambda x, shape, dims: np.broadcast_to(
        x.reshape([x.shape[dims.index(i)] if i in dims else 1 for i in range(len(shape))]), shape
    ),
    samples=lambda: [
        Sample((np.ones(s, np.float32),), {"shape": (4, *s), "dims": tuple(range(1, len(s) + 1))})
        for s in SAMPLE_SHAPES
    ],
    vjp=_broadcast_vjp, jvp=linear(), batch=shifted(shape=size_in_front, dims=later_from_0),
    simplify=broadcast_once,
)  # fmt: skip


# --- reshape ------------------------------------------------------------------------------------------------------


def _reshape_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,), shape = operands, attrs["shape"]
    _sizes(ctx, shape, x.shape)
    ctx.require(
        RelKind.EQ, x.size, product(shape), lambda: f"{format_shape(x.shape)} is reshaped to {format_shape(shape)}"
    )
    return (TensorType(x.dtype, shape, x.weak),)


def reshape_groups(old: tuple[Dim, ...], new: tuple[Dim, ...]) -> list[tuple[range, range]]:
    """The finest split of both shapes into runs of axes with equal products: where a reshape is local."""
    groups: list[tuple[range, range]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        start_i, start_j = i, j
        split: tuple[int, int] | None = None
        for end_i in range(start_i, len(old) + 1):
            size = product(old[start_i:end_i])
            for end_j in range(start_j, len(new) + 1):
                if (end_i > start_i or end_j > start_j) and size == product(new[start_j:end_j]):
                    split = (end_i, end_j)
                    break
            if split is not None:
                break
        i, j = split if split is not None else (len(old), len(new))
        groups.append((range(start_i, i), range(start_j, j)))
    return groups


def _reshape_map(op: Op, index: tuple[Dim, ...]) -> tuple[Dim, ...]:
    old, new = op.operands[0].shape, op.result.shape
    if 0 in old or 0 in new:
        return (0,) * len(old)  # there are no elements, and no index to divide
    result: list[Dim] = []
    for olds, news in reshape_groups(old, new):
        linear: Dim = 0
        for axis in news:
            linear = linear * new[axis] + index[axis]
        rest: list[Dim] = []
        for position, axis in reversed(list(enumerate(olds))):
            if position == 0:
                rest.append(linear)
            else:
                rest.append(mod(linear, old[axis]) if old[axis] != 1 else 0)
                linear = floordiv(linear, old[axis])
        result.extend(reversed(rest))
    return tuple(result)


def _reshape_vjp(b: Builder, op: Op, cts: tuple[Value, ...]) -> tuple[Value]:
    return (b.op("reshape", cts[0], shape=op.operands[0].shape),)


reshape = OpDef(
    "reshape",
    OpKind.VIEW,
    types=_reshape_types,
    loops=view(_reshape_map),
    reference=lambda x, shape: x.reshape(shape),
    samples=lambda: [Sample((np.ones(s, np.float32),), {"shape": (1, *reversed(s))}) for s in SAMPLE_SHAPES],
    vjp=_reshape_vjp, jvp=linear(), batch=shifted(shape=size_in_front),
    simplify=reshaped_once,
    keeps_order=True,
)  # fmt: skip


# --- transpose ----------------------------------------------------------------------------------------------------


def _transpose_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,), permutation = operands, attrs["permutation"]
    if sorted(permutation) != list(range(x.rank)):
        raise ctx.fail(f"{permutation} is not a permutation of the {x.rank} axes of {x}")
    return (TensorType(x.dtype, tuple(x.shape[p] for p in permutation), x.weak),)


def _transpose_map(op: Op, index: tuple[Dim, ...]) -> tuple[Dim, ...]:
    result: list[Dim] = [0] * len(index)
    for axis, source in enumerate(op.attrs["permutation"]):
        result[source] = index[axis]
    return tuple(result)


def _transpose_vjp(b: Builder, op: Op, cts: tuple[Value, ...]) -> tuple[Value]:
    inverse = tuple(int(axis) for axis in np.argsort(op.attrs["permutation"]))
    return (b.op("transpose", cts[0], permutation=inverse),)


transpose = OpDef(
    "transpose",
    OpKind.VIEW,
    types=_transpose_types,
    loops=view(_transpose_map),
    reference=lambda x, permutation: x.transpose(permutation),
    samples=lambda: [
        Sample((np.arange(np.prod(s)).reshape(s),), {"permutation": tuple(reversed(range(len(s))))})
        for s in SAMPLE_SHAPES
    ],
    vjp=_transpose_vjp, jvp=linear(), batch=shifted(permutation=later_from_0),
    simplify=transposed_once,
)  # fmt: skip


# --- slice --------------------------------------------------------------------------------------------------------


def _slice_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,) = operands
    shape: list[Dim] = []
    for axis, (start, limit, stride) in enumerate(zip(attrs["start"], attrs["limit"], attrs["strides"], strict=True)):
        ctx.require(RelKind.GE, start, 0, f"a slice of axis {axis} starts inside")
        ctx.require(RelKind.GE, limit, start, f"a slice of axis {axis} does not end before it starts")
        ctx.require(RelKind.GE, x.shape[axis], limit, f"a slice of axis {axis} ends inside")
        shape.append(floordiv(dim_difference(limit, start) + stride - 1, stride))
    return (TensorType(x.dtype, tuple(shape), x.weak),)


def _slice_vjp(b: Builder, op: Op, cts: tuple[Value]) -> tuple[Value]:
    """Zeros around the cotangent, and between its elements."""
    (x,), (ct,), starts, steps = op.operands, cts, op.attrs["start"], op.attrs["strides"]
    spread = [n if step == 1 else n + dim_max(n - 1, 0) * (step - 1) for n, step in zip(ct.shape, steps, strict=True)]
    after = tuple(n - start - s for n, start, s in zip(x.shape, starts, spread, strict=True))
    between = tuple(step - 1 for step in steps)
    zero = zeros(b, TensorType(ct.dtype, ()))
    padded = b.op("pad", ct, zero, edge_padding_low=starts, edge_padding_high=after, interior_padding=between)
    return (padded,)


def _slice_batch(
    b: Builder, op: Op, operands: tuple[Value, ...], batched: tuple[bool, ...], size: Dim
) -> tuple[Value, ...]:
    start, limit, strides = (op.attrs[name] for name in ("start", "limit", "strides"))
    return again(b, op, operands, start=(0, *start), limit=(size, *limit), strides=(1, *strides))


slice_ = OpDef(
    "slice",
    OpKind.VIEW,
    types=_slice_types,
    loops=view(
        lambda op, index: tuple(
            s + i * t for i, s, t in zip(index, op.attrs["start"], op.attrs["strides"], strict=True)
        )
    ),
    reference=lambda x, start, limit, strides: x[tuple(slice(*t) for t in zip(start, limit, strides, strict=True))],
    samples=lambda: [
        Sample((np.arange(12.0).reshape(3, 4),), {"start": (1, 0), "limit": (3, 4), "strides": (1, 2)}),
        Sample((np.arange(12.0).reshape(3, 4),), {"start": (1, 4), "limit": (1, 4), "strides": (1, 1)}),
        Sample((np.zeros((0,)),), {"start": (0,), "limit": (0,), "strides": (3,)}),
        Sample((np.ones((1, 7)),), {"start": (0, 2), "limit": (1, 7), "strides": (1, 3)}),
    ],
    vjp=_slice_vjp, jvp=linear(), batch=_slice_batch,
    simplify=whole_slice,
)  # fmt: skip


# --- reverse ------------------------------------------------------------------------------------------------------


def _reverse_vjp(b: Builder, op: Op, cts: tuple[Value, ...]) -> tuple[Value, ...]:
    return again(b, op, cts)


reverse = OpDef(
    "reverse",
    OpKind.VIEW,
    types=lambda ctx, operands, attrs: operands,
    loops=view(
        lambda op, index: tuple(
            op.result.shape[axis] - 1 - i if axis in op.attrs["dimensions"] else i for axis, i in enumerate(index)
        )
    ),
    reference=lambda x, dimensions: np.flip(x, axis=dimensions),
    samples=lambda: [
        Sample((np.arange(np.prod(s, dtype=np.int64)).reshape(s),), {"dimensions": axes})
        for s in SAMPLE_SHAPES
        for axes in ((), tuple(range(len(s))), tuple(range(len(s)))[:1])
    ],
    vjp=_reverse_vjp, jvp=linear(), batch=shifted(dimensions=later),
    simplify=lambda b, op: op.operands if not op.attrs["dimensions"] else None,
)  # fmt: skip


# --- concatenate --------------------------------------------------------------------------------------------------


def _concatenate_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    first, axis = operands[0], attrs["dimension"]
    if any(o.rank != first.rank or o.dtype is not first.dtype for o in operands) or not 0 <= axis < first.rank:
        raise ctx.fail(f"cannot join {', '.join(str(o) for o in operands)} along axis {axis}")
    for other in operands[1:]:
        for i, (a, b) in enumerate(zip(first.shape, other.shape, strict=True)):
            if i != axis:
                ctx.require(RelKind.EQ, a, b, f"joined arrays agree on axis {i}")
    total = dim_sum([operand.shape[axis] for operand in operands])
    return (TensorType(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :])),)


def _concatenate_at(k: ScalarBuilder, op: Op, index: tuple[Dim, ...], get: Get) -> Any:
    axis = op.attrs["dimension"]
    ends: list[Dim] = []
    total: Dim = 0
    for operand in op.operands:
        total = total + operand.shape[axis]
        ends.append(total)

    def piece(i: int) -> tuple[Dim, ...]:
        start = ends[i - 1] if i else 0
        return (*index[:axis], index[axis] - start, *index[axis + 1 :])

    last = len(op.operands) - 1
    position = k.index(dtypes.int64, index[axis])
    limits = [k.index(dtypes.int64, end) for end in ends]
    zero = k.const(op.result.dtype, 0)

    def inside(i: int) -> Any:
        before = k.apply(Scalar.LT, [position, limits[i]], dtypes.bool_)
        if i == 0:
            return before
        after = k.apply(Scalar.GE, [position, limits[i - 1]], dtypes.bool_)
        return after if i == last else k.apply(Scalar.AND, [before, after], dtypes.bool_)

    if last == 0:
        return get(0, index)
    value = get(last, piece(last), inside(last), zero)
    for i in reversed(range(last)):
        part = get(i, piece(i), inside(i), zero)
        before = k.apply(Scalar.LT, [position, limits[i]], dtypes.bool_)
        value = k.apply(Scalar.SELECT, [before, part, value], op.result.dtype)
    return value


def _concatenate_vjp(b: Builder, op: Op, cts: tuple[Value]) -> tuple[Value, ...]:
    """Each operand's part of the cotangent."""
    (ct,), axis = cts, op.attrs["dimension"]
    parts: list[Value] = []
    start: Dim = 0
    for operand in op.operands:
        end = start + operand.shape[axis]
        first: list[Dim] = [0] * len(ct.shape)
        last = list(ct.shape)
        first[axis], last[axis] = start, end
        strides = (1,) * len(ct.shape)
        parts.append(b.op("slice", ct, start=tuple(first), limit=tuple(last), strides=strides))
        start = end
    return tuple(parts)


concatenate = OpDef(
    "concatenate",
    OpKind.INDEXED,
    types=_concatenate_types,
    loops=Pieces(_concatenate_at),
    reference=lambda *arrays, dimension: np.concatenate(arrays, axis=dimension),
    samples=lambda: [
        Sample(tuple(np.full((2, k), k, np.float32) for k in (3, n, 2)), {"dimension": 1})
        for n in (0, 1, 5)
    ],
    vjp=_concatenate_vjp, jvp=linear(), batch=shifted(dimension=one_later),
    simplify=joined_once,
)  # fmt: skip


# --- makers -------------------------------------------------------------------------------------------------------


def _constant_at(k: ScalarBuilder, op: Op, index: tuple[Dim, ...], get: Get) -> Any:
    """A number, or for an array of a few a choice by position: one of many lies in a buffer."""
    dense, dtype = op.attrs["value"], op.result.dtype
    if dense.has_buffer:
        raise IRError(f"{op.result!r} lies in a buffer, and a kernel computes it")
    array = dense.array
    numbers = _literals(k, (dense.element if dense.is_splat else array).ravel(), dtype)
    value = numbers[-1] if numbers else k.const(dtype, 0)
    place: Dim = 0
    for i, size in zip(index, array.shape, strict=True):
        place = place * size + i
    position = k.index(dtypes.int64, place)
    for number, element in reversed(list(enumerate(numbers[:-1]))):
        here = k.apply(Scalar.EQ, [position, k.const(dtypes.int64, number)], dtypes.bool_)
        value = k.apply(Scalar.SELECT, [here, element, value], dtype)
    return value


def _literals(k: ScalarBuilder, flat: Array, dtype: DType) -> list[Any]:
    """Numbers as constants; of NaNs that are not the usual one the bits."""
    numbers = [k.const(dtype, number) for number in flat.tolist()]
    if dtype.is_float:
        unsigned = dtypes.dtype(f"uint{dtype.bits}")
        bits, usual = flat.view(unsigned.np), np.array(np.nan).astype(dtype.np).view(unsigned.np)
        for place in np.flatnonzero((flat != flat) & (bits != usual)).tolist():
            numbers[place] = k.apply(Scalar.BITCAST, [k.const(unsigned, int(bits[place]))], dtype)
    return numbers


def _constant_parts(b: Builder, op: Op, operands: tuple[Value, ...]) -> Any:
    array, rest = op.attrs["value"].array, {k: v for k, v in op.attrs.items() if k != "value"}
    return tuple(b.op("constant", value=Dense(part), **rest) for part in (array.real, array.imag))


def _one_number(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """Of an array that is one number only the number is kept."""
    dense = op.attrs["value"]
    if not dense.is_splat:
        return None
    attrs: dict[str, Attr] = {**op.attrs, "value": Dense(dense.element)}
    number = b.emit(constant, (), **attrs)[0]
    return (b.op("broadcast_in_dim", number, shape=dense.shape, dims=()),)


def _real_parts(b: Builder, op: Op, operands: tuple[Value, ...]) -> Any:
    """Real and imaginary part: the op of the parts' dtype, and zeros."""
    real = b.op(op.opdef.name, **{**op.attrs, "dtype": part_dtype(op.attrs["dtype"])})
    return real, Real(b).fill(real, 0)


constant = OpDef(
    "constant",
    OpKind.GENERATE,
    types=lambda ctx, operands, attrs: (
        TensorType(dtypes.dtype(attrs["value"].dtype), attrs["value"].shape, attrs.get("weak", False)),
    ),
    loops=ElementLoops(_constant_at),
    reference=lambda value, weak=False: value.array,
    samples=lambda: [
        Sample((), {"value": Dense(np.array(v))})
        for v in (2.5, True, 7, [[1, 2, 3], [4, 5, 6]], [], np.arange(66.0).reshape(3, 22), np.full((9, 9), -0.0))
    ],
    vjp=READS_NOTHING, jvp=READS_NOTHING, batch=of_nothing,
    simplify=_one_number,
    parts=_constant_parts,
)  # fmt: skip


def _iota_at(k: ScalarBuilder, op: Op, index: tuple[Dim, ...], get: Get) -> Any:
    dtype = op.attrs["dtype"]
    position = k.index(dtypes.int64, index[op.attrs["dimension"]])
    return position if dtype is dtypes.int64 else k.apply(Scalar.CAST, [position], dtype)


def _only_zeros(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """An iota over an axis of one index, or none."""
    size = op.attrs["shape"][op.attrs["dimension"]]
    if not b.facts.ge(1, size).proved:
        return None
    zero = b.op("constant", value=Dense(np.zeros((), op.attrs["dtype"].np)))
    return (b.op("broadcast_in_dim", zero, shape=op.attrs["shape"], dims=()),)


iota = OpDef(
    "iota",
    OpKind.GENERATE,
    types=lambda ctx, operands, attrs: (TensorType(attrs["dtype"], _sizes(ctx, attrs["shape"])),),
    loops=ElementLoops(_iota_at),
    reference=lambda shape, dimension, dtype: np.broadcast_to(
        np.arange(shape[dimension]).reshape([-1 if i == dimension else 1 for i in range(len(shape))]), shape
    ).astype(dtype.np),
    samples=lambda: [
        Sample((), {"shape": (3, 4), "dimension": d, "dtype": t})
        for d in (0, 1)
        for t in (dtypes.int32, dtypes.float32)
    ],
    vjp=READS_NOTHING, jvp=READS_NOTHING, batch=of_nothing, simplify=_only_zeros,
    parts=_real_parts,
)  # fmt: skip


def _size_at(k: ScalarBuilder, op: Op, index: tuple[Dim, ...], get: Get) -> Any:
    dtype = op.attrs["dtype"]
    size = k.index(dtypes.int64, op.attrs["size"])
    return size if dtype is dtypes.int64 else k.apply(Scalar.CAST, [size], dtype)


def _static_size(b: Builder, op: Op) -> tuple[Value, ...] | None:
    size = op.attrs["size"]
    if not isinstance(size, int):
        return None
    return (b.op("constant", value=Dense(np.asarray(size).astype(op.result.dtype.np)), weak=True),)


#: A dim as a scalar: what ``x.shape[0] * y`` computes with. StableHLO's get_dimension_size, of any expression.
dim_size = OpDef(
    "dim_size",
    OpKind.GENERATE,
    types=lambda ctx, operands, attrs: (TensorType(attrs["dtype"], (), weak=True),),
    loops=ElementLoops(_size_at),
    reference=lambda size, dtype: np.asarray(size).astype(dtype.np),
    samples=lambda: [Sample((), {"size": n, "dtype": t}) for n in (0, 7) for t in (dtypes.int64, dtypes.float32)],
    vjp=READS_NOTHING, jvp=READS_NOTHING, batch=of_nothing,
    simplify=_static_size,
    parts=_real_parts,
)  # fmt: skip


def _dimension_size_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,), axis = operands, attrs["dimension"]
    if not 0 <= axis < x.rank:
        raise ctx.fail(f"{axis} is not an axis of {x}")
    return (TensorType(dtypes.int32, (), weak=True),)


def _size_batch(b: Builder, op: Op, operands: tuple[Value, ...], batched: tuple[bool, ...], size: Dim) -> tuple[Value]:
    own = op.operands[0].shape[op.attrs["dimension"]]
    return (spread(b, b.op("dim_size", size=own, dtype=dtypes.int32), size),)


#: The size of an axis as an int32 scalar, as StableHLO has it; ``dim_size`` after simplification.
get_dimension_size = OpDef(
    "get_dimension_size",
    OpKind.GENERATE,
    types=_dimension_size_types,
    loops=ElementLoops(
        lambda k, op, index, get: k.apply(
            Scalar.CAST, [k.index(dtypes.int64, op.operands[0].shape[op.attrs["dimension"]])], dtypes.int32
        )
    ),
    reference=lambda x, dimension: np.asarray(x.shape[dimension], np.int32),
    samples=lambda: [
        Sample((np.zeros(s, np.float32),), {"dimension": d}) for s in SAMPLE_SHAPES for d in range(len(s))
    ],
    vjp=READS_NOTHING, jvp=READS_NOTHING, batch=_size_batch,
    simplify=lambda b, op: (
        b.op("dim_size", size=op.operands[0].shape[op.attrs["dimension"]], dtype=dtypes.int32),
    ),
)  # fmt: skip
