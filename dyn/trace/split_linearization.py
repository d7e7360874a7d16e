"""A derivative in two programs: one computes a function and keeps what the other needs to pull or push.

The second half is a region of the first program. What it reads of that goes out as arrays, *residuals*; a program
that is given them, with dims of its own, writes the region out once more, in those. A dim that no axis of a residual is
goes out as an axis of an array without elements.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from dyn import dtypes
from dyn.frozen import record
from dyn.ir.core import Function, ParamInfo, Region, Value
from dyn.ir.data_dependent import data_dependent_dims, with_own_dims
from dyn.ir.differentiate import zeros
from dyn.ir.inline_regions import infer_again
from dyn.ir.substitute_dims import Substitution
from dyn.ir.types import TensorType
from dyn.shapes import Dim, Facts, RelKind, Symbol, SymExpr, as_dim, exact_text, free_symbols
from dyn.trace.annotations import Axes
from dyn.trace.closures import closure_converted, with_outside_parameters
from dyn.trace.context import Trace, current_trace
from dyn.trace.gradients import Leaves, Linearized
from dyn.trace.lift import lift
from dyn.trace.partition import Memory, recomputing
from dyn.trace.pytree import TreeSpec, unflatten
from dyn.trace.region import trace_region
from dyn.trace.small_sizes import restated, without_small_size_guards
from dyn.trace.tracer import Tracer


@record(eq=False)
class Half:
    """The second half: from residuals of these types, and a tree like ``given``, to a tree of ``out_tree``."""

    name: str
    region: Region
    residuals: tuple[TensorType, ...]
    given: Leaves
    #: What the leaves that it is given are: ``cotangent`` or ``tangent``.
    what: str
    out_tree: TreeSpec


def split_derivative(trace: Trace, found: Linearized, *, forward: bool) -> tuple[list[Tracer], Half]:
    """The residuals of a function that was written into the program, and what pulls, or with ``forward`` pushes."""
    given = found.primals if forward else found.results

    def run(*leaves: Tracer) -> Any:
        here = current_trace()
        assert here is not None  # a region has a trace of its own
        values = [leaf.value_in(here) for leaf in leaves]
        return found.pushed(values) if forward else found.pulled(values)

    return second_half(trace, run, found.function, given, "tangent" if forward else "cotangent")


def second_half(
    trace: Trace, run: Callable[..., Any], name: str, given: Leaves, what: str, memory: Memory = "default"
) -> tuple[list[Tracer], Half]:
    """The residuals of a second half that ``run`` writes, of a tracer for each value of ``given``; and that half.

    It reads what it likes of the program so far. What of that is kept, and what is computed again from less, is
    decided by :func:`~dyn.trace.partition.recomputing`.
    """
    types = [TensorType(v.dtype, v.shape) for v in given.values]
    traced = trace_region(trace, run, types, name=name)
    guards = len(trace.guards)
    (region,), free = closure_converted(trace, [recomputing(trace, traced.region, memory)])
    trace.halves.append(traced.region if len(trace.guards) == guards else None)
    whole = with_outside_parameters(region, free, 0)
    # What the first program has decided and checked of the sizes is demanded of the second: its shapes rest on it.
    symbols = set(_symbols(whole))
    checked = [r for r in trace.builder.facts.relations if r.symbols() <= symbols]
    whole = _loosened(trace, replace(whole, demands=(*checked, *whole.demands)))
    kept = [*free, *_carriers(trace, whole, free)]
    # Results of a program are not weak: what is, is marked so again in the second one.
    strong = [trace.emit("convert", v, dtype=v.dtype) if v.type.weak else v for v in kept]
    half = Half(name, whole, tuple([v.type for v in kept]), given, what, traced.out_tree)
    return [Tracer(trace, v) for v in strong], half


def _loosened(trace: Trace, half: Region) -> Region:
    """A second half that rests on as few of the guards that tell sizes 0 and 1 from others as may be."""
    infos = (ParamInfo("given"),) * len(half.params)
    facts = restated(Facts.EMPTY, half.demands)
    loose = without_small_size_guards(
        Function("half", half.params, half.ops, half.results, facts, infos), set(trace.guards)
    )
    return half if loose is None else replace(half, ops=loose.ops, demands=loose.facts.relations)


def declared_axes(residuals: Sequence[TensorType]) -> tuple[Axes, ...]:
    """Declarations of the residuals' axes for a program of the second half, one dim for all axes that the first program
    has found equal: nothing is left to prove of them. None for an axis of a dim that no axis is alone."""
    alone = [d.is_symbol for type in residuals for d in type.shape if isinstance(d, SymExpr)]
    names = _unique_names(dict.fromkeys([symbol for symbol in alone if symbol is not None]))

    def declared(dim: Dim) -> int | str | None:
        if isinstance(dim, int):
            return dim
        if dim.is_symbol is not None:
            return names[dim.is_symbol]
        # Spaces divide axes, but in parentheses.
        return f"({exact_text(dim, names)})" if free_symbols(dim) <= names.keys() else None

    return tuple([tuple([declared(dim) for dim in type.shape]) for type in residuals])


def _unique_names(symbols: Iterable[Symbol]) -> dict[Symbol, str]:
    """A name for each symbol: what it is called, with a number where an earlier one is called so."""
    names: dict[Symbol, str] = {}
    taken = set[str]()
    for symbol in symbols:
        name, number = symbol.name, 0
        while name in taken or not name.isidentifier() or name == "_":
            number += 1
            name = f"{symbol.name}_{number}" if symbol.name.isidentifier() else f"d{number}"
        taken.add(name)
        names[symbol] = name
    return names


def _carriers(trace: Trace, region: Region, residuals: Sequence[Value]) -> list[Value]:
    """An array without elements for each dim of the region that no axis of a residual is.

    They are as many as the dims: NumPy has no arrays of many axes, nor of large sizes beside one of 0.
    """
    known = {d.is_symbol for v in residuals for d in v.shape if isinstance(d, SymExpr)}
    known.update(data_dependent_dims(region.ops))  # the second half finds them out itself
    return [zeros(trace.builder, TensorType(dtypes.bool_, (as_dim(s), 0))) for s in _symbols(region) if s not in known]


def _symbols(region: Region) -> Iterable[Symbol]:
    """The symbols of the dims in a region, and of what it demands of them."""
    written = Function("half", region.params, region.ops, region.results, Facts.EMPTY, ()).symbols()
    demanded = {symbol for relation in region.demands for symbol in relation.symbols()}
    return dict.fromkeys([*written, *sorted(demanded, key=lambda symbol: symbol.uid)])


def write_second_half(trace: Trace, half: Half, residuals: Sequence[Any], tree: Any, zero: Collection[int] = ()) -> Any:
    """The second half in a program that is given the residuals, and a tree of cotangents or tangents.

    Those whose numbers are in ``zero`` are zeros, and no array is passed for them: ``tree`` is a tuple of the others.
    """
    values = [lift(trace, residual) for residual in residuals]
    here = Substitution(_dims_of(half.residuals, values))
    for value, type in zip(values, half.residuals, strict=True):
        for axis, (own, dim) in enumerate(zip(value.shape, type.shape, strict=True)):
            trace.demand(RelKind.EQ, own, here.dim(dim), f"what {half.name} kept has its size on axis {axis}")
    weak = [
        trace.emit("convert", v, dtype=v.dtype, weak=True) if type.weak else v
        for v, type in zip(values, half.residuals, strict=True)
    ]
    own = tuple([here.value(v) for v in half.given.values])
    like = replace(half.given, values=own)
    if zero:
        left = iter(tree)
        tree = tuple([
            Tracer(trace, zeros(trace.builder, value.type)) if number in zero else next(left)
            for number, value in enumerate(own)
        ])  # fmt: skip
    given = Linearized(trace, half.name, like, like, None, (), ()).matched(tree, like, half.what)
    uncarried = weak[: len(half.region.params) - len(given)]
    region = with_own_dims(trace.builder, here.region(half.region))
    found = frozenset(data_dependent_dims(region.ops))
    trace.builder.adopt([r for r in region.demands if not r.symbols() & found])
    made = infer_again(trace.builder, region, [*uncarried, *given])
    return unflatten(half.out_tree, [Tracer(trace, v) for v in made])


def _dims_of(types: Sequence[TensorType], values: Sequence[Value]) -> dict[Symbol, Dim]:
    """Dims of this program for the symbols of the first one."""
    env: dict[Symbol, Dim] = {}
    for type, value in zip(types, values, strict=True):
        for dim, own in zip(type.shape, value.shape, strict=True):
            if isinstance(dim, SymExpr) and dim.is_symbol is not None:
                env.setdefault(dim.is_symbol, own)
    return env
