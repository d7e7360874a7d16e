"""Rules that calls share: the type of a call, and transformations of its region where it is computed."""

from __future__ import annotations

from collections.abc import Sequence

from dyn.ir.builder import Builder
from dyn.ir.core import Op, Region, Value
from dyn.ir.differentiate import gathered, leading_to, pull_back, push_forward, zeros
from dyn.ir.effects import without_effects
from dyn.ir.inline_regions import build_region, copied, splice
from dyn.ir.opdef import Attrs, TypeContext
from dyn.ir.types import TensorType
from dyn.ir.vectorize import batched, spread
from dyn.shapes import Dim, RelKind

Maybe = Value | None


def call_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    """The types of the first region's results; the operands are its arguments."""
    region: Region = ctx.regions[0]
    if len(region.params) != len(operands):
        raise ctx.fail(f"{len(operands)} operands are given to a region that takes {len(region.params)}")
    for number, (param, given) in enumerate(zip(region.params, operands, strict=True)):
        if param.dtype is not given.dtype or param.type.rank != given.rank:
            raise ctx.fail(f"argument {number} of the region is {param.type}, and {given} is given")
        for axis, (a, b) in enumerate(zip(param.shape, given.shape, strict=True)):
            ctx.require(RelKind.EQ, a, b, f"argument {number} of a call has its size on axis {axis}")
    return tuple([v.type for v in region.results])


def or_zeros(b: Builder, value: Maybe, like: Value) -> Value:
    return zeros(b, TensorType(like.dtype, like.shape)) if value is None else value


def smooth(values: Sequence[Value]) -> list[int]:
    """The places of what can have a derivative."""
    return [i for i, v in enumerate(values) if v.dtype.is_inexact]


def distinct(b: Builder, values: Sequence[Value]) -> list[Value]:
    """Copies: one value may be given twice, and has a derivative for each."""
    return [b.op("copy", v) for v in values]


# --- the region itself --------------------------------------------------------------------------------------------


def through_vjp(b: Builder, op: Op, cts: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    """The cotangents of the region's arguments, where it is computed again."""
    own = distinct(b, op.operands)
    start = len(b.ops)
    results = splice(b, without_effects(op.regions[0]), own, prepare=True)
    return tuple(pull_back(b, tuple(b.ops[start:]), gathered(b, results, cts), own))


def pushed(b: Builder, region: Region, args: Sequence[Value], tangents: Sequence[Maybe]) -> list[Maybe]:
    """The tangents of a region's results, where it is computed again."""
    own = distinct(b, args)
    start = len(b.ops)
    results = splice(b, without_effects(region), own)
    known = {v: t for v, t in zip(own, tangents, strict=True) if t is not None}
    push_forward(b, leading_to(b.ops[start:], results), known)
    return [known.get(v) for v in results]


def through_jvp(b: Builder, op: Op, tangents: tuple[Value | None, ...]) -> tuple[Value | None, ...]:
    """The tangents of the region's results; what else it computes is merged with what was computed before."""
    return tuple(pushed(b, op.regions[0], op.operands, tangents))


def through_batch(
    b: Builder, op: Op, operands: tuple[Value, ...], flags: tuple[bool, ...], size: Dim
) -> tuple[Value, ...]:
    """The ops of the region, for many examples."""
    made, found = batched(b, op.regions[0], operands, flags, size)
    return tuple([v if flag else spread(b, v, size) for v, flag in zip(made, found, strict=True)])


def one_by_one(
    b: Builder, op: Op, operands: tuple[Value, ...], flags: tuple[bool, ...], size: Dim
) -> tuple[Value, ...]:
    """The op for one example after the other, in their order: a rule for ops that are made for one."""
    shared = [v for v, flag in zip(operands, flags, strict=True) if not flag]
    arrays = [v for v, flag in zip(operands, flags, strict=True) if flag]

    def step(inner: Builder, params: tuple[Value, ...]) -> tuple[Value, ...]:
        same, rows = iter(params[: len(shared)]), iter(params[len(shared) :])
        values = {v: next(rows) if flag else next(same) for v, flag in zip(op.operands, flags, strict=True)}
        return (*params[: len(shared)], *inner.append(copied(op, values)))

    slices = [v.type.with_shape(v.shape[1:]) for v in arrays]
    region = build_region(b, [*(v.type for v in shared), *slices], step)
    made = b.op_all("scan", *shared, *arrays, regions=(region,), carries=len(shared), length=size, reverse=False)
    return made[len(shared) :]


# --- regions for many examples ------------------------------------------------------------------------------------


def _many(values: Sequence[Value], flags: Sequence[bool], size: Dim) -> list[TensorType]:
    return [v.type.with_shape((size, *v.shape)) if flag else v.type for v, flag in zip(values, flags, strict=True)]


def batched_region(
    b: Builder, region: Region, flags: Sequence[bool], size: Dim, full: int
) -> tuple[Region, tuple[bool, ...]]:
    """The region for many examples, and which of its results have their axis: the first ``full`` all do."""
    own: list[bool] = []

    def build(inner: Builder, params: tuple[Value, ...]) -> list[Value]:
        made, found = batched(inner, region, params, flags, size)
        own.extend([i < full or flag for i, flag in enumerate(found)])
        return [
            spread(inner, v, size) if i < full and not flag else v
            for i, (v, flag) in enumerate(zip(made, found, strict=True))
        ]

    return build_region(b, _many(region.params, flags, size), build), tuple(own)


def summed_region(b: Builder, region: Region, flags: Sequence[bool], wanted: Sequence[bool], size: Dim) -> Region:
    """The region for many examples; a result that is not ``wanted`` for each is their sum."""

    def build(inner: Builder, params: tuple[Value, ...]) -> list[Value]:
        made, found = batched(inner, region, params, flags, size)
        full = [v if flag else spread(inner, v, size) for v, flag in zip(made, found, strict=True)]
        return [
            v if keep else inner.op("reduce", v, axes=(0,), combine="add", nonempty=False)
            for v, keep in zip(full, wanted, strict=True)
        ]

    return build_region(b, _many(region.params, flags, size), build)
