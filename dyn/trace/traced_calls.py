"""Functions that are called in a trace: traced apart, with dims of their own, and written into it.

What is traced knows nothing of its caller, so that it is the same program for every one. Where a Python branch in it
goes by the sizes, the caller is asked, as if it stood there: what is not proved becomes a guard of the caller's. What
the function demands of its dims, it demands of the caller's.

A function that reads arrays or dims of the traces around it (it closes over them) is a part of these, and of no use to
other callers. It is traced like the others, and written into this caller alone.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from dyn.dtypes import DType
from dyn.errors import ShapeError
from dyn.frozen import record
from dyn.ir.binding import Binding, bind_axes
from dyn.ir.builder import Builder
from dyn.ir.core import Function, Region, Value
from dyn.ir.data_dependent import data_dependent_dims
from dyn.ir.inline_regions import splice_over
from dyn.shapes import (
    Dim,
    Facts,
    Reason,
    Relation,
    RelKind,
    Symbol,
    as_dim,
    evaluate,
    free_symbols,
    substitute,
    symbol,
)
from dyn.source import user_loc
from dyn.trace.annotations import Axes
from dyn.trace.attributes import AttributeReads
from dyn.trace.context import Trace
from dyn.trace.dims import wrap_dim
from dyn.trace.function import Declarations, DimScope, LeafSpec, TracedFunction, identifier, run_traced
from dyn.trace.pytree import unflatten
from dyn.trace.tracer import Tracer


@record()
class Argument:
    """An argument leaf: an array of the caller's, or a size, which is no array."""

    value: Value | None
    dims: tuple[Dim, ...]

    @property
    def type(self) -> tuple[DType | None, int, bool]:
        """Abstract type of the argument beside its sizes: its dtype, its rank, and whether it is weak."""
        if self.value is None:
            return None, 0, False
        return self.value.dtype, len(self.dims), self.value.type.weak


def common_axes(declared: Sequence[Axes], args: Sequence[Argument]) -> tuple[Axes, ...]:
    """The axes that a function is traced for: as they are declared, and else as the caller's dims say.

    What is a number there is one, and sizes that are one dim have one name: that of a declared axis, or ``=0``.
    """
    names: dict[Dim, str] = {}
    for axes, arg in zip(declared, args, strict=True):
        for declaration, dim in zip(_of(axes, arg), arg.dims, strict=True):
            if isinstance(declaration, str) and declaration.isidentifier():
                names[dim] = declaration
    free = Counter(
        dim
        for axes, arg in zip(declared, args, strict=True)
        for declaration, dim in zip(_of(axes, arg), arg.dims, strict=True)
        if declaration is None
    )
    found: list[Axes] = []
    for axes, arg in zip(declared, args, strict=True):
        own: list[int | str | None] = []
        for declaration, dim in zip(_of(axes, arg), arg.dims, strict=True):
            if declaration is not None or isinstance(dim, int):
                own.append(dim if declaration is None and isinstance(dim, int) else declaration)
                continue
            if dim not in names and free[dim] > 1:
                names[dim] = f"={len(names)}"
            own.append(names.get(dim))
        found.append(tuple(own))
    return tuple(found)


def _of(axes: Axes, arg: Argument) -> Axes:
    """Declarations of the dims of an argument; nothing of a size."""
    return (None,) if arg.value is None else axes


class Callee:
    """A function about to be traced for a call: its parameters, and what its dims are in the caller.

    ``axes`` are those of :func:`common_axes`.
    """

    def __init__(
        self, name: str, names: Sequence[str], args: Sequence[Argument], axes: Sequence[Axes], declared: Declarations,
        donated: Sequence[bool],
    ) -> None:  # fmt: skip
        self.name = name
        axes = _with_names(names, axes)
        self.arrays = [number for number, arg in enumerate(args) if arg.value is not None]
        specs = [LeafSpec(names[n], _dtype(args[n]), axes[n], args[n].type[2], donated=donated[n]) for n in self.arrays]
        self.scope = DimScope(specs, declared)
        #: For each size among the arguments its number, and what it is in the function.
        self.sizes: list[tuple[int, Dim]] = []
        for number, arg in enumerate(args):
            if arg.value is None:
                self.sizes.append((number, self._size(names[number], axes[number][0])))

    def _size(self, name: str, axis: int | str | None) -> Dim:
        if isinstance(axis, int):
            return axis
        return as_dim(symbol(name, name) if axis is None else self.scope.named(axis, name))

    def facts(self) -> Facts:
        """Facts that the declarations of the dims are."""
        return self.scope.facts()

    @property
    def binding(self) -> Binding:
        """Binding of the symbols to the sizes of the arrays."""
        params = self.scope.params
        return bind_axes([(n, axis, dim) for n, v in enumerate(params) for axis, dim in enumerate(v.shape)])

    def bound_sizes(self) -> tuple[tuple[Symbol, int], ...]:
        """The symbols that sizes are, each with the number of the argument."""
        return tuple([(dim.is_symbol, n) for n, dim in self.sizes if not isinstance(dim, int) and dim.is_symbol])

    def run(
        self, trace: Trace, call: Callable[[list[Any]], Any], args: Sequence[Argument], facts: Facts,
        reads: AttributeReads | None = None,
    ) -> tuple[TracedFunction, bool]:  # fmt: skip
        """The traced function, and whether it is a part of ``trace``, the caller's.

        ``call`` takes a leaf for each argument. ``reads`` records the attributes that it reads.
        """
        dims = caller_dims(self.binding, self.bound_sizes(), args)
        builder = Builder(facts, user_loc())
        inner = Trace(self.name, builder, _sizes(dims, trace.program.sizes), outer=trace, caller_dims=dims, reads=reads)

        def with_sizes(tracers: list[Tracer]) -> Any:
            leaves: list[Any] = [None] * len(args)
            for number, tracer in zip(self.arrays, tracers, strict=True):
                leaves[number] = tracer
            for number, dim in self.sizes:
                leaves[number] = wrap_dim(inner, dim)
            return call(leaves)

        traced = run_traced(with_sizes, inner, self.scope)
        traced = replace(traced, sizes=self.bound_sizes())
        return traced, inner.reads_outside or _reads_outside(traced.function, dims)


def _sizes(dims: Mapping[Symbol, Dim], known: Mapping[Symbol, int]) -> dict[Symbol, int]:
    """The sizes of a function's symbols in the call that is traced, where those of the caller's dims are known."""
    found: dict[Symbol, int] = {}
    for sym, dim in dims.items():
        if free_symbols(dim) <= known.keys():
            with contextlib.suppress(ShapeError):
                found[sym] = evaluate(dim, known)
    return found


def _dtype(arg: Argument) -> DType:
    assert arg.value is not None
    return arg.value.dtype


def _with_names(names: Sequence[str], axes: Sequence[Axes]) -> list[Axes]:
    """The axes with names of dims for ``=0``: that of the first axis which is so."""
    taken = {axis for own in axes for axis in own if isinstance(axis, str)}
    found: dict[str, str] = {}
    for name, own in zip(names, axes, strict=True):
        for number, axis in enumerate(own):
            if isinstance(axis, str) and axis.startswith("=") and axis not in found:
                new = f"{identifier(name, 'arg')}_{number}"
                while new in taken:
                    new += "_"
                taken.add(new)
                found[axis] = new
    return [tuple([found.get(axis, axis) if isinstance(axis, str) else axis for axis in own]) for own in axes]


def _reads_outside(function: Function, dims: Mapping[Symbol, Dim]) -> bool:
    """Whether values or dims are in a function that are not its own."""
    if any(True for _ in Region(function.params, function.ops, function.results).reads()):
        return True
    return not set(function.symbols()) <= {*dims, *data_dependent_dims(function.ops)}


# --- in the caller ----------------------------------------------------------------------------------------------------


def caller_dims(binding: Binding, sizes: Sequence[tuple[Symbol, int]], args: Sequence[Argument]) -> dict[Symbol, Dim]:
    """The caller's dims for the symbols of a function."""
    found = binding.dims([arg.dims for arg in args if arg.value is not None])
    for sym, number in sizes:
        found.setdefault(sym, args[number].dims[0])
    return found


def demand_declared(
    trace: Trace, function: str, names: Callable[[], Sequence[str]], binding: Binding, facts: Facts,
    dims: Mapping[Symbol, Dim], args: Sequence[Argument],
) -> None:  # fmt: skip
    """Demand of the caller's dims what is declared of the function's: ``facts``, and that one name is one size.

    ``names`` gives those of the arguments.
    """
    loc, arrays = user_loc(), [(number, arg.dims) for number, arg in enumerate(args) if arg.value is not None]

    def demand(kind: RelKind, lhs: Dim, rhs: Dim, text: str) -> None:
        trace.require(Relation(kind, lhs, rhs, Reason(f"{function} declares {text}", loc)))

    for check in binding.checks:
        number, shape = arrays[check.input]
        given, wanted = shape[check.axis], substitute(check.dim, dims)
        if given is not wanted and given != wanted:
            demand(RelKind.EQ, given, wanted, f"{names()[number]}.shape[{check.axis}] as {check.dim}")
    for bind in binding.binds:
        if bind.offset != 0 or bind.factor != 1:
            name, sym = names()[arrays[bind.input][0]], bind.symbol
            demand(RelKind.GE, dims[sym], 0, f"{name}.shape[{bind.axis}], where {sym.name} is a size")
    for declared in facts.declarations:
        dim, name = dims[declared.symbol], declared.symbol.name
        demand(RelKind.GE, dim, declared.min, name)
        if declared.max is not None:
            demand(RelKind.GE, declared.max, dim, name)
        if declared.multiple_of != 1:
            demand(RelKind.DIVIDES, declared.multiple_of, dim, name)
    for relation in facts.relations:
        text = relation.reason.text
        reason = Reason(f"{function} has {text}" if text.startswith("constraints=") else text, loc)
        trace.require(replace(relation.substituted(dims), reason=reason))


def goes_the_same_way(trace: Trace, traced: TracedFunction, dims: Mapping[Symbol, Dim]) -> bool:
    """Whether a function that is traced already would take the same branches if it were called in ``trace``.

    Raises what such a branch would.
    """
    return all(order.holds_in(trace) for order in traced.orders) and all(
        trace.answer(guard.substituted(dims)) for guard in traced.guards
    )


def write(trace: Trace, name: str, traced: TracedFunction, dims: Mapping[Symbol, Dim], args: Sequence[Argument]) -> Any:
    """The ops of the function ``name`` at the end of a trace, over the dims of that; what it returns there."""
    function = traced.function
    for guard in traced.guards:
        trace.take(guard.substituted(dims))
    for declared in function.facts.declarations:
        if declared.likely and declared.symbol in dims:
            trace.expect(dims[declared.symbol], declared.likely)
    taken = {id(guard) for guard in traced.guards}
    demands = tuple([_said_of(name, r) for r in function.facts.relations if id(r) not in taken])
    region = Region(function.params, function.ops, function.results, demands)
    values = [arg.value for arg in args if arg.value is not None]
    for param, array in zip(function.params[len(values) :], traced.captured, strict=True):
        shape = tuple([int(n) for n in param.shape])
        values.append(trace.captured(array, param.dtype, shape, literal=True))
    made, dims = splice_over(trace.builder, region, values, dims)
    leaves: list[Any] = []
    for value, dim in zip(made, traced.result_dims, strict=True):
        leaves.append(Tracer(trace, value) if dim is None else wrap_dim(trace, substitute(dim, dims)))
    return unflatten(traced.out_tree, leaves)


def _said_of(function: str, relation: Relation) -> Relation:
    """The relation with the function in its reason, whose names for dims may stand there."""
    reason = relation.reason
    if reason.form is None:
        return replace(relation, reason=Reason(f"{reason.text}, in {function}", reason.loc))
    form, dims = reason.form
    name = function.replace("{", "{{").replace("}", "}}")
    return replace(relation, reason=Reason.about(f"{form}, in {name}", dims, reason.loc))
