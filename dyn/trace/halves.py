"""A derivative in two programs: one computes a function and keeps what the other needs to pull or push.

The second half is a region of the first program. What it reads of that goes out as arrays, *residuals*; a program
that is given them, with dims of its own, writes the region out once more, in those. A dim that no axis of a residual is
goes out as an axis of an array without elements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dyn import dtypes
from dyn.ir.builder import Builder
from dyn.ir.core import Function, Region, Value, map_attr_dims
from dyn.ir.differentiate import zeros
from dyn.ir.measured import measured_dims, with_own_dims
from dyn.ir.splice import build_region
from dyn.ir.types import TensorType
from dyn.shapes import Dim, Facts, RelKind, Symbol, SymExpr, as_dim, substitute
from dyn.trace.closures import closed, taking
from dyn.trace.context import Trace, current_trace
from dyn.trace.gradients import Leaves, Linearized
from dyn.trace.lift import lift
from dyn.trace.pytree import TreeSpec, unflatten
from dyn.trace.region import trace_region
from dyn.trace.tracer import Tracer


@dataclass(frozen=True, eq=False, slots=True)
class Half:
    """The second half: from residuals of these types, and a tree like ``given``, to a tree of ``out_tree``."""

    name: str
    region: Region
    residuals: tuple[TensorType, ...]
    given: Leaves
    #: What the leaves that it is given are: ``cotangent`` or ``tangent``.
    what: str
    out_tree: TreeSpec


def halve(trace: Trace, found: Linearized, *, forward: bool) -> tuple[list[Tracer], Half]:
    """The residuals of a function that was written into the program, and what pulls, or with ``forward`` pushes."""
    given, made = (found.primals, found.results) if forward else (found.results, found.primals)

    def run(*leaves: Tracer) -> Any:
        here = current_trace()
        assert here is not None  # a region has a trace of its own
        values = [leaf.value_in(here) for leaf in leaves]
        return found.pushed(values) if forward else found.pulled(values)

    types = [TensorType(v.dtype, v.shape) for v in given.values]
    traced = trace_region(trace, run, types, name=found.function)
    (region,), free = closed(trace, [traced.region])
    whole = taking(region, free, 0)
    kept = [*free, *_carriers(trace, whole, free)]
    # Results of a program are not weak: what is, is marked so again in the second one.
    strong = [trace.emit("convert", v, dtype=v.dtype) if v.type.weak else v for v in kept]
    half = Half(
        found.function, whole, tuple([v.type for v in kept]), given, "tangent" if forward else "cotangent", made.tree
    )
    return [Tracer(trace, v) for v in strong], half


def _carriers(trace: Trace, region: Region, residuals: Sequence[Value]) -> list[Value]:
    """An array without elements, with an axis for each dim of the region that no axis of a residual is; or none."""
    symbols = Function("half", region.params, region.ops, region.results, Facts.EMPTY, ()).symbols()
    known = {d.is_symbol for v in residuals for d in v.shape if isinstance(d, SymExpr)}
    known.update(measured_dims(region.ops))  # the second half finds them out itself
    missing = tuple([as_dim(s) for s in symbols if s not in known])
    return [zeros(trace.builder, TensorType(dtypes.bool_, (*missing, 0)))] if missing else []


def finish(trace: Trace, half: Half, residuals: Sequence[Any], tree: Any) -> Any:
    """The second half in a program that is given the residuals, and a tree of cotangents or tangents."""
    values = [lift(trace, residual) for residual in residuals]
    env = _dims_of(half.residuals, values)
    for value, type in zip(values, half.residuals, strict=True):
        for axis, (own, dim) in enumerate(zip(value.shape, type.shape, strict=True)):
            trace.demand(RelKind.EQ, own, _moved(dim, env), f"what {half.name} kept has its size on axis {axis}")
    weak = [
        trace.emit("convert", v, dtype=v.dtype, weak=True) if type.weak else v
        for v, type in zip(values, half.residuals, strict=True)
    ]
    own = tuple([Value(_moved_type(v.type, env)) for v in half.given.values])
    like = replace(half.given, values=own)
    given = Linearized(trace, half.name, like, like, None, (), ()).matched(tree, like, half.what)
    uncarried = weak[: len(half.region.params) - len(given)]
    made = _written(trace.builder, half.region, [*uncarried, *given], env)
    return unflatten(half.out_tree, [Tracer(trace, v) for v in made])


def _dims_of(types: Sequence[TensorType], values: Sequence[Value]) -> dict[Symbol, Dim]:
    """What the dims of the first program are in this one."""
    env: dict[Symbol, Dim] = {}
    for type, value in zip(types, values, strict=True):
        for dim, own in zip(type.shape, value.shape, strict=True):
            if isinstance(dim, SymExpr) and dim.is_symbol is not None:
                env.setdefault(dim.is_symbol, own)
    return env


def _moved(dim: Dim, env: Mapping[Symbol, Dim]) -> Dim:
    return substitute(dim, env) if isinstance(dim, SymExpr) else dim


def _moved_type(type: TensorType, env: Mapping[Symbol, Dim]) -> TensorType:
    return type.with_shape(tuple([_moved(d, env) for d in type.shape]))


def _written(b: Builder, region: Region, args: Sequence[Value], env: Mapping[Symbol, Dim]) -> tuple[Value, ...]:
    """The region's ops at the end of ``b``, over its dims: what they demand of them is demanded once more."""
    region = with_own_dims(b, region)
    values: dict[Value, Value] = dict(zip(region.params, args, strict=True))
    for op in region.ops:
        b.loc = op.loc
        regions = tuple([_moved_region(b, inner, env) for inner in op.regions])
        attrs = map_attr_dims(op.attrs, lambda dim: _moved(dim, env))
        made = b.emit(op.opdef, [values.get(v, v) for v in op.operands], regions, **attrs)
        values.update(zip(op.results, made, strict=True))
    return tuple([values.get(v, v) for v in region.results])


def _moved_region(b: Builder, region: Region, env: Mapping[Symbol, Dim]) -> Region:
    types = [_moved_type(v.type, env) for v in region.params]
    return build_region(b, types, lambda inner, params: _written(inner, region, params, env))
