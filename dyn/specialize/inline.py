"""Calls of a function in a trace: found in the table of its programs, or traced once, and written into the caller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dyn import config
from dyn.errors import ArgumentError
from dyn.shapes import Dim, Symbol, last_data_dependent
from dyn.specialize.arguments import ShapeDtypeStruct, read_leaf
from dyn.specialize.table import ProgramTable
from dyn.trace import random_draws
from dyn.trace.attributes import AttributeReads, objects_read
from dyn.trace.context import Trace
from dyn.trace.dims import SymbolicDim
from dyn.trace.function import Declarations, TracedFunction
from dyn.trace.lift import lift
from dyn.trace.pytree import unflatten_sorted
from dyn.trace.signature import BoundArguments, Signature
from dyn.trace.traced_calls import Argument, Callee, caller_dims, common_axes, demand_declared, goes_the_same_way, write
from dyn.trace.tracer import Tracer


def call_in_trace(
    trace: Trace,
    table: ProgramTable[TracedFunction],
    signature: Signature,
    declarations: Declarations,
    bound: BoundArguments,
) -> Any:
    """Call a function with arguments in a trace: its program is found or traced, and written into the caller.

    Its Python runs once for arguments of one kind, as for calls from outside: for dtypes, ranks and static values, and
    here for sizes that are numbers in the caller, or one and the same. A function that reads what the traces around it
    know is traced at each call.
    """
    return _InlinedCall(trace, table, signature, declarations, bound).made()


class _InlinedCall:
    """A call in a trace."""

    def __init__(
        self,
        trace: Trace,
        table: ProgramTable[TracedFunction],
        signature: Signature,
        declarations: Declarations,
        bound: BoundArguments,
    ) -> None:
        self.trace, self.table, self.signature, self.bound = trace, table, signature, bound
        self.declarations = declarations
        self._names: list[str] = []
        self.args = [self.argument(number, leaf) for number, leaf in enumerate(bound.leaves)]
        declared, self.wanted = signature.declared(bound, [arg.type[1] for arg in self.args])
        axes = common_axes(declared, self.args)
        self.axes = axes
        types = tuple([arg.type for arg in self.args])
        # Where the sizes say nothing, a call from outside has the same key.
        sizes = () if axes == tuple(declared) else axes
        self.key = (bound.tree, bound.static, bound.keywords, types, config.current().key(), sizes)
        self._dims: dict[TracedFunction, Mapping[Symbol, Dim]] = {}

    def made(self) -> Any:
        """The call's result, after the function was found or traced, and written into the caller."""
        known = self.table.of(self.key)
        if known:
            first = known[0]
            dims = self.dims_of(first)
            demand_declared(self.trace, self.signature.name, self.names, first.binding, first.declared, dims, self.args)
        found = self.table.find(self.key, self.fits)
        traced = self.traced() if found is None else found
        reads = self.trace.program.reads
        if reads is not None:
            reads.adopt(traced.held)
        return write(self.trace, self.signature.name, traced, self.dims_of(traced), self.args)

    def names(self) -> list[str]:
        """The names of the argument leaves, which cost time: for errors, and for what is traced."""
        if not self._names:
            self._names = self.signature.leaf_names(self.bound)
        return self._names

    def argument(self, number: int, leaf: Any) -> Argument:
        """An argument leaf in the caller; ArgumentError for what is neither an array, a number nor a size."""
        name = self.signature.name
        if isinstance(leaf, SymbolicDim):
            size = _simplest(self.trace, leaf.known_here())
            # A symbol is at least 0. What may be less is a number like others.
            if self.trace.builder.facts.ge(size, 0).proved:
                return Argument(None, (size,))
        if isinstance(leaf, ShapeDtypeStruct):
            raise ArgumentError(
                f"{name}() was called with a ShapeDtypeStruct, which has no elements.",
                remedy="pass arrays, or use .trace(...).lower().compile().",
            )
        if not isinstance(leaf, Tracer | SymbolicDim):
            read_leaf(leaf, self.names()[number], name)  # which raises
        value = lift(self.trace, leaf)
        return Argument(value, tuple([_simplest(self.trace, dim) for dim in value.shape]))

    def dims_of(self, traced: TracedFunction) -> Mapping[Symbol, Dim]:
        """The caller's dims for the function's symbols."""
        found = self._dims.get(traced)
        if found is None:
            found = self._dims[traced] = caller_dims(traced.binding, traced.sizes, self.args)
        return found

    def fits(self, traced: TracedFunction) -> bool:
        """Whether the function would be traced like this here."""
        return traced.is_current() and goes_the_same_way(self.trace, traced, self.dims_of(traced))

    def traced(self) -> TracedFunction:
        """The function traced for this call; kept for others unless it is a part of this caller."""
        name, signature = self.signature.name, self.signature
        for where, arg, wanted in zip(self.names(), self.args, self.wanted, strict=True):
            if arg.value is not None:
                signature.check_dtype(where, arg.value.dtype, wanted)
        donated = signature.donated(self.bound)
        callee = Callee(name, self.names(), self.args, self.axes, self.declarations, donated)
        facts, dims = callee.facts(), caller_dims(callee.binding, callee.bound_sizes(), self.args)
        demand_declared(self.trace, name, self.names, callee.binding, facts, dims, self.args)
        with random_draws.warned_of(signature.function, name):
            traced, is_part = callee.run(
                self.trace, lambda leaves: signature.call(self.bound, leaves, unflatten_sorted), self.args, facts,
                AttributeReads(objects_read(signature.function, self.bound.static), self.trace.program.reads),
            )  # fmt: skip
        return traced if is_part else self.table.get(self.key, self.fits, lambda: traced)[0]


def _simplest(trace: Trace, dim: Dim) -> Dim:
    """The dim as the facts have it, unless that is known later."""
    simple = trace.builder.facts.simplify(dim)
    return dim if simple is dim or last_data_dependent(simple) > last_data_dependent(dim) else simple
