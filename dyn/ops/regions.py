"""Regions of scalar ops: what a reduction, a window or a scatter combines with (StableHLO's "body").

Such a region takes scalars, gives scalars, reads nothing from outside, and each of its ops computes one element from
one element of each operand. So it can be put into any loop, and its NumPy references compute many elements at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dyn.dtypes import DType, Kind
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Region, Value
from dyn.ir.effects import has_effect
from dyn.ir.opdef import ElementLoops, ScalarBuilder, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.reduce import COMBINES
from dyn.shapes import Facts, RelKind
from dyn.source import Loc


def scalar_region(dtypes: Sequence[DType], build: Callable[..., Any]) -> Region:
    """The region that ``build(builder, *params)`` makes for scalars of these dtypes: for samples and rules."""
    params = tuple(Value(TensorType(dtype, ())) for dtype in dtypes)
    builder = Builder(Facts.EMPTY, Loc("sample.py", 1))
    results = build(builder, *params)
    return Region(params, tuple(builder.ops), results if isinstance(results, tuple) else (results,))


def arrays_and_inits(ctx: TypeContext, operands: Sequence[TensorType]) -> Sequence[TensorType]:
    """The arrays among the operands of a fold: n of one shape, and then n scalars of their dtypes; and one body."""
    count, odd = divmod(len(operands), 2)
    if odd or not count or len(ctx.regions) != 1:
        raise ctx.fail(f"{len(operands)} operands with {len(ctx.regions)} regions are no arrays, scalars and a body")
    arrays, inits = operands[:count], operands[count:]
    first = arrays[0]
    for number, (x, init) in enumerate(zip(arrays, inits, strict=True)):
        if init.rank or init.dtype is not x.dtype:
            raise ctx.fail(f"initial value {number} is {init}, not a scalar of the dtype of {x}")
        if x.rank != first.rank:
            raise ctx.fail(f"operands {first} and {x} differ in rank", "reduce arrays of one shape.")
        for axis, (a, b) in enumerate(zip(first.shape, x.shape, strict=True)):
            ctx.require(RelKind.EQ, a, b, f"arrays that are reduced together agree on axis {axis}")
    return arrays


def check_scalar_region(
    ctx: TypeContext, region: Region, what: str, params: Sequence[DType], results: Sequence[DType]
) -> None:
    """Refuse a region that is not scalar code from ``params`` to ``results``; ``what`` names it: ``its body``."""
    wanted, given = _types(params), _types(v.dtype for v in region.params)
    if any(v.shape for v in region.params) or wanted != given:
        raise ctx.fail(f"{what} takes {wanted}, not ({', '.join(str(v.type) for v in region.params)})")
    wanted, given = _types(results), _types(v.dtype for v in region.results)
    if any(v.shape for v in region.results) or wanted != given:
        raise ctx.fail(f"{what} gives {wanted}, not ({', '.join(str(v.type) for v in region.results)})")
    for op in region.ops:
        if not isinstance(op.opdef.loops, ElementLoops) or any(v.shape for v in (*op.operands, *op.results)):
            types = ", ".join(str(v.type) for v in op.results)
            raise ctx.unsupported(
                f"{what} computes with scalars, and {op.opdef.name} at {op.loc} gives {types}",
                "compute with arrays outside of it.",
            )
    for value in region.reads():
        raise ctx.unsupported(f"{what} reads a {value.type} from outside", "make it one more operand, or a constant.")


def _types(dtypes: Any) -> str:
    return f"({', '.join(f'{dtype.short}[]' for dtype in dtypes)})"


def taken_apart(region: Region) -> tuple[tuple[tuple[int, ...], Region], ...]:
    """A body of n arrays as bodies that have nothing to do with one another: the numbers of each one's arrays, and it.

    One with effects stays whole.
    """
    count = len(region.results)
    makers = {result: op for op in region.ops for result in op.results}
    numbers = {param: number % count for number, param in enumerate(region.params)}
    parts: list[tuple[set[int], set[Op]]] = []
    for number, value in enumerate(region.results):
        own, needed, pending = {number}, set[Op](), [value]
        while pending:
            op = makers.get(read := pending.pop())
            if op is None:
                own.add(numbers[read])
            elif op not in needed:
                needed.add(op)
                pending += op.operands
        met = [part for part in parts if not part[0].isdisjoint(own)]
        parts = [part for part in parts if part not in met]
        parts.append((own.union(*(n for n, _ in met)), needed.union(*(ops for _, ops in met))))
    if len(parts) == 1 or any(has_effect(op) for op in region.ops):
        return ((tuple(range(count)), region),)
    return tuple((tuple(sorted(own)), _part(region, sorted(own), ops)) for own, ops in sorted(parts, key=_first))


def _first(part: tuple[set[int], set[Op]]) -> int:
    return min(part[0])


def _part(region: Region, numbers: Sequence[int], ops: set[Op]) -> Region:
    """The ops of a body that some of its arrays take."""
    count = len(region.results)
    params = [region.params[number + side] for side in (0, count) for number in numbers]
    return Region(tuple(params), tuple(op for op in region.ops if op in ops), tuple(region.results[n] for n in numbers))


def way_to_combine(region: Region) -> str:
    """Name of a body of one array: a monoid's name, ``replace``, ``keep``, or ``body`` for anything else."""
    old, new = region.params
    if region.results[0] in (old, new) and not any(has_effect(op) for op in region.ops):
        return "replace" if region.results[0] is new else "keep"
    known = monoid_of(region)
    return "body" if known is None else known[0]


def region_values(k: ScalarBuilder, region: Region, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The results of a region that ``check_scalar_region`` takes, as scalar code, for arguments of its dtypes.

    Kernels have no complex numbers: their regions are without them after ``split_complex``.
    """
    values: dict[Value, Any] = dict(zip(region.params, arguments, strict=True))
    for op in region.ops:
        loops = op.opdef.loops
        assert isinstance(loops, ElementLoops)
        values[op.result] = loops.at(k, op, (), _Getter(values, op))
    return tuple(values[v] for v in region.results)


class _Getter:
    """Reader of operands for the rule of an op in a region. There is one element, and it is there."""

    def __init__(self, values: dict[Value, Any], op: Op) -> None:
        self.values, self.op = values, op

    def __call__(self, i: int, index: object, mask: Any = None, other: Any = None) -> Any:
        return self.values[self.op.operands[i]]


def monoid_of(region: Region) -> tuple[str, ...] | None:
    """The monoids that a reduction's body combines its n folds with, each by itself; None where it does anything else.

    What is found may be reduced in any order. Products of complex numbers are not: they mix the parts.
    """
    count = len(region.results)
    makers = {result: op for op in region.ops for result in op.results}
    if any(has_effect(op) for op in region.ops):
        return None
    found: list[str] = []
    for number, value in enumerate(region.results):
        own = {region.params[number], region.params[number + count]}
        op = makers.get(value)
        if op is None or op.opdef.name not in COMBINES or len(op.operands) != 2 or set(op.operands) != own:
            return None
        if value.dtype.kind is Kind.COMPLEX and op.opdef.name != "add":
            return None
        found.append(op.opdef.name)
    return tuple(found)
