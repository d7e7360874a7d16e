"""Control flow: loops and choices. StableHLO's while, if and case, and scan, which it has none of.

What a region reads is passed to it: regions read nothing from outside. A value that all steps of a loop read is carried
unchanged, which costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.ir.builder import Builder
from dyn.ir.core import Dense, Region, Value
from dyn.ir.evaluate import RegionFunction
from dyn.ir.inline_regions import build_region
from dyn.ir.opdef import Attrs, Control, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops import control_rules as transform
from dyn.shapes import Facts, RelKind, format_dim, value_conditions
from dyn.source import UNKNOWN

Array = np.ndarray[Any, Any]


def _plain(type: TensorType) -> TensorType:
    return TensorType(type.dtype, type.shape)


def _same(ctx: TypeContext, given: TensorType, wanted: TensorType, what: str) -> None:
    """Demand that a value of a region's edge has a type."""
    if given.dtype is not wanted.dtype or given.rank != wanted.rank:
        raise ctx.fail(f"{what} is {given}, and has to be {wanted}")
    for axis, (a, b) in enumerate(zip(given.shape, wanted.shape, strict=True)):
        ctx.require(RelKind.EQ, a, b, f"{what} has one size on axis {axis}, before and after")


def _edges(
    ctx: TypeContext, number: int, params: Sequence[TensorType], results: Sequence[TensorType], what: str
) -> None:
    """Demand what a region takes, and what its first results are: where it runs."""
    region, inside = ctx.regions[number], ctx.inside(number)
    if len(region.params) != len(params) or len(region.results) < len(results):
        raise ctx.fail(f"{what} takes {len(region.params)} values and gives {len(region.results)}")
    for kind, values, wanted in (("argument", region.params, params), ("result", region.results, results)):
        for place, (value, type) in enumerate(zip(values, wanted, strict=False)):
            _same(inside, value.type, type, f"{kind} {place} of {what}")


def _sizes(ctx: TypeContext, region: Region, values: Sequence[Value]) -> None:
    """Demand that shapes which a region's results lend to those of the op are sizes even if the region does not run."""
    if region.demands:
        for dim in (d for v in values for d in v.shape):
            text = f"{format_dim(dim)} is a size of a result, whether the region runs or not"
            for kind, lhs, rhs in value_conditions(dim):
                ctx.require(kind, lhs, rhs, text)
            ctx.require(RelKind.GE, dim, 0, text)


# --- while --------------------------------------------------------------------------------------------------------


def _while_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    _edges(ctx, 0, operands, (TensorType(dtypes.bool_, ()),), "the condition")
    _edges(ctx, 1, operands, operands, "the body")
    return tuple(_plain(t) for t in operands)


def _while(*state: Array, regions: tuple[RegionFunction, RegionFunction]) -> tuple[Array, ...]:
    condition, body = regions
    while condition(*state)[0]:
        state = body(*state)
    return state


def _number(b: Builder, value: Any, like: Value) -> Value:
    made = b.op("constant", value=Dense(np.asarray(value).astype(like.dtype.np)))
    return b.op("broadcast_in_dim", made, shape=like.shape, dims=()) if like.shape else made


def _built(types: Sequence[TensorType], build: Any) -> Region:
    return build_region(Builder(Facts.EMPTY, UNKNOWN), types, build)


def _while_samples() -> list[Sample]:
    """Doubling until a counter runs out: no step, one, several."""
    calls: list[Sample] = []
    for size in (0, 1, 2, 7):
        types = (TensorType(dtypes.int32, ()), TensorType(dtypes.float64, (size,)), TensorType(dtypes.float64, (size,)))

        def condition(b: Builder, p: tuple[Value, ...]) -> tuple[Value, ...]:
            return (b.op("compare", p[0], _number(b, 0, p[0]), direction="GT"),)

        def body(b: Builder, p: tuple[Value, ...]) -> tuple[Value, ...]:
            return b.op("subtract", p[0], _number(b, 1, p[0])), b.op("add", b.op("add", p[1], p[1]), p[2]), p[2]

        regions = (_built(types, condition), _built(types, body))
        for steps in (0, 1, 3):
            x = np.arange(float(size))
            calls.append(Sample((np.asarray(steps, np.int32), x, x + 1), {}, regions))
    return calls


#: The operands, changed by the second region as long as the first one gives true.
while_ = OpDef(
    "while",
    OpKind.CONTROL,
    types=_while_types,
    loops=Control.WHILE,
    reference=_while,
    samples=_while_samples,
    vjp=transform.while_vjp, jvp=transform.while_jvp, batch=transform.while_batch,
    simplify=transform.unchanged_outside,
    prune=transform.while_prune,
)  # fmt: skip


# --- scan ---------------------------------------------------------------------------------------------------------


def _scan_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    count, length = attrs["carries"], attrs["length"]
    (body,) = ctx.regions
    carries, arrays = operands[:count], operands[count:]
    ctx.require(RelKind.GE, length, 0, "a scan takes no negative number of steps")
    for number, x in enumerate(arrays):
        if x.rank == 0:
            raise ctx.fail(f"array {number} is {x}, which has no axis to go along")
        ctx.require(RelKind.EQ, x.shape[0], length, "arrays that are scanned together have one length")
    slices = [TensorType(x.dtype, x.shape[1:]) for x in arrays]
    _edges(ctx, 0, (*carries, *slices), carries, "the body")
    _sizes(ctx, body, body.results[count:])
    made = [TensorType(y.dtype, (length, *y.shape)) for y in body.results[count:]]
    return (*(_plain(t) for t in carries), *made)


def _scan(
    *operands: Array, regions: tuple[RegionFunction], carries: int, length: int, reverse: bool, saved: int = 0
) -> tuple[Array, ...]:
    (body,) = regions
    state, arrays = operands[:carries], operands[carries:]
    rows: list[tuple[Array, ...]] = []
    for i in reversed(range(length)) if reverse else range(length):
        made = body(*state, *(x[i] for x in arrays))
        state = made[:carries]
        rows.append(made[carries:])
    if not rows:
        return (*state, *body.no_rows(carries))
    columns = zip(*(reversed(rows) if reverse else rows), strict=True)
    return (*state, *(np.stack(column) for column in columns))


def _scan_samples() -> list[Sample]:
    """Running sums of rows with a decay that all steps share, in both directions."""
    calls: list[Sample] = []
    for length in (0, 1, 2, 7):
        for size in (0, 1, 3):
            row = TensorType(dtypes.float64, (size,))

            def body(b: Builder, p: tuple[Value, ...]) -> tuple[Value, ...]:
                total, decay, x = p
                made = b.op("add", b.op("multiply", total, decay), x)
                return made, decay, b.op("tanh", made), x

            region = _built((row, row, row), body)
            x = np.linspace(-1, 1, length * size).reshape(length, size)
            start, decay = np.full(size, 0.5), np.full(size, 0.9)
            for reverse in (False, True):
                attrs = {"carries": 2, "length": length, "reverse": reverse}
                calls.append(Sample((start, decay, x), attrs, (region,)))
    return calls


#: ``carries`` values through a step for each row of the other operands; what the steps give beside them, as rows.
scan = OpDef(
    "scan",
    OpKind.CONTROL,
    types=_scan_types,
    loops=Control.SCAN,
    reference=_scan,
    samples=_scan_samples,
    vjp=transform.scan_vjp, jvp=transform.scan_jvp, batch=transform.scan_batch,
    simplify=transform.unchanged_outside,
    prune=transform.scan_prune,
    prepare=transform.scan_prepare,
)  # fmt: skip


# --- choices ------------------------------------------------------------------------------------------------------


def _choice_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    index, *given = operands
    if index.rank:
        raise ctx.fail(f"what it chooses by is {index}, not a scalar")
    if not ctx.regions:
        raise ctx.fail("there are no branches to choose from")
    results = [_plain(v.type) for v in ctx.regions[0].results]
    for number, region in enumerate(ctx.regions):
        if len(region.results) != len(results):
            raise ctx.fail(f"branch {number} gives {len(region.results)} values, and branch 0 gives {len(results)}")
        _edges(ctx, number, given, results, f"branch {number}")
    _sizes(ctx, ctx.regions[0], ctx.regions[0].results)
    return tuple(results)


def _if_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    if operands[0].dtype is not dtypes.bool_ or len(ctx.regions) != 2:
        raise ctx.fail(f"{operands[0]} does not choose one of {len(ctx.regions)} branches")
    return _choice_types(ctx, operands, attrs)


def _case_types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    if operands[0].dtype is not dtypes.int32:
        raise ctx.unsupported(f"branches are numbered by {operands[0].dtype.name}", "convert it to int32")
    return _choice_types(ctx, operands, attrs)


def _case(index: Array, *given: Array, regions: tuple[RegionFunction, ...]) -> tuple[Array, ...]:
    number = int(index)
    return regions[number if 0 <= number < len(regions) else len(regions) - 1](*given)


def _branches() -> tuple[TensorType, list[Any]]:
    row = TensorType(dtypes.float64, (3,))
    return row, [
        lambda b, p: (b.op("add", p[0], p[1]), p[0]),
        lambda b, p: (b.op("multiply", p[0], p[1]), b.op("sine", p[1])),
        lambda b, p: (p[1], p[1]),
    ]


def _choice_samples(indices: Sequence[Array], count: int) -> list[Sample]:
    row, branches = _branches()
    regions = tuple(_built((row, row), branch) for branch in branches[:count])
    x, y = np.linspace(-1, 1, 3), np.linspace(2, 3, 3)
    nothing = TensorType(dtypes.float64, (0,)), TensorType(dtypes.float64, (1,))
    small = [
        Sample((indices[0], np.ones(t.shape)), {}, tuple(_built((t,), lambda b, p: p) for _ in range(count)))
        for t in nothing
    ]
    return [*small, *(Sample((index, x, y), {}, regions) for index in indices)]


#: The results of the first region, of the other operands, where the first one is true, else those of the second.
if_ = OpDef(
    "if",
    OpKind.CONTROL,
    types=_if_types,
    loops=Control.IF,
    reference=lambda index, *given, regions: regions[0 if index else 1](*given),
    samples=lambda: _choice_samples([np.asarray(True), np.asarray(False)], 2),
    vjp=transform.choice_vjp, jvp=transform.choice_jvp, batch=transform.choice_batch,
    prune=transform.choice_prune,
)  # fmt: skip

#: The results of the region that the first operand numbers; of the last one where there is none of that number.
case = OpDef(
    "case",
    OpKind.CONTROL,
    types=_case_types,
    loops=Control.CASE,
    reference=_case,
    samples=lambda: _choice_samples([np.asarray(i, np.int32) for i in (0, 1, 2, -1, 9)], 3),
    vjp=transform.choice_vjp, jvp=transform.choice_jvp, batch=transform.choice_batch,
    prune=transform.choice_prune,
)  # fmt: skip
