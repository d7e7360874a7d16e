"""Tracing: from a Python function to a DHLO function."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from dyn.dtypes import DType
from dyn.errors import ArgumentError, ShapeError, TraceError
from dyn.frozen import record
from dyn.ir.binding import Binding, bind_axes, bind_function
from dyn.ir.builder import Builder
from dyn.ir.core import Function, Op, ParamInfo, Region, Value
from dyn.ir.types import TensorType
from dyn.passes.inline_calls import end_trace
from dyn.shapes import (
    Dim,
    Facts,
    NamedDim,
    Reason,
    Relation,
    Symbol,
    SymExpr,
    as_dim,
    first_broken,
    free_symbols,
    keeping_recent,
    parse_constraints,
    parse_dim,
)
from dyn.source import Loc, user_loc
from dyn.trace.annotations import Marked, marked_relations
from dyn.trace.answered_names import answered
from dyn.trace.attributes import AttributeReads
from dyn.trace.closed_numbers import with_hidden_numbers
from dyn.trace.closure_names import closure_names
from dyn.trace.context import Trace, tracing
from dyn.trace.custom import Orders
from dyn.trace.dims import SymbolicDim
from dyn.trace.foreign import refused_by_jax
from dyn.trace.held import Frozen, Held
from dyn.trace.identifiers import identifier
from dyn.trace.joint_function import joint_of
from dyn.trace.lift import is_liftable, lift, settled_dtype
from dyn.trace.pytree import TreeSpec, flatten, leaf_names, map_keys
from dyn.trace.stretched_sizes import stretched_ones
from dyn.trace.symbol_reuse import DimMemory
from dyn.trace.tracer import Tracer

_CALLEES = Reason("functions that are called say what is likely")


@record()
class LeafSpec:
    """An array argument as a trace sees it.

    ``axes`` has an entry an axis: an int makes it static, a string names a dim or gives an expression over names, None
    makes it a dim of its own. ``sizes`` are those of the call that is traced, where there is one. Results may take the
    memory of an argument that is ``donated``.
    """

    name: str
    dtype: DType
    axes: tuple[int | str | None, ...]
    weak: bool = False
    sizes: tuple[int, ...] | None = None
    donated: bool = False


@record()
class Declarations:
    """Declarations of a function's dims by the user: ranges by name, and constraints as text."""

    dims: tuple[NamedDim, ...] = ()
    constraints: tuple[str, ...] = ()


@record(eq=False)
class TracedFunction:
    """A traced program with what the calls need: guards, captured arrays, the tree of the results."""

    function: Function
    #: Relations that Python branches took for granted; where one fails another version is traced.
    guards: tuple[Relation, ...]
    captured: tuple[Any, ...]
    out_tree: TreeSpec
    #: The parameters, by number, whose memory results may take.
    donated: tuple[int, ...] = ()
    #: What was declared of its dims.
    declared: Facts = Facts.EMPTY
    #: The symbols that arguments are which are sizes, each with the number of the argument.
    sizes: tuple[tuple[Symbol, int], ...] = ()
    #: The dim that each result is, where it is a size.
    result_dims: tuple[Dim | None, ...] = ()
    #: What it has asked of derivatives that are taken around it.
    orders: tuple[Orders, ...] = ()
    #: The dims that were 1 in the traced call where others were not, and were broadcast to those. They are a hint: they
    #: say which sizes code is made for that is quicker than the general one.
    ones: frozenset[Symbol] = frozenset()
    #: The function and the second half of its derivative as one (``dyn.trace.joint_function``); None where it has none.
    joint: Region | None = None
    #: The attributes of plain objects that it read: conditions of the program beside its arguments.
    held: tuple[Held, ...] = ()
    #: The captured arrays, by number, of which a front end says that nothing changes them.
    frozen: tuple[tuple[int, Frozen], ...] = ()
    #: The constants that were made of floats which the function closes over.
    of_closed_floats: tuple[Value, ...] = ()
    _binding: Binding | None = field(default=None, init=False)

    @property
    def binding(self) -> Binding:
        """Binding of the symbols to the arguments' sizes."""
        if self._binding is None:
            object.__setattr__(self, "_binding", bind_function(self.function))
        assert self._binding is not None
        return self._binding

    def sizes_of(self, arrays: Sequence[Any]) -> dict[Symbol, int]:
        """The size of each symbol which a guard may ask about. What does not divide is refused by the program."""
        return self.binding.sizes([np.shape(array) for array in (*arrays, *self.captured)])

    def broken(self, arrays: Sequence[Any]) -> Relation | None:
        """The first branch that a call from outside with these arguments would take another way.

        Raises ShapeError where a branch before it has no answer for them.
        """
        return first_broken(self.guards, self.sizes_of(arrays)) if self.guards else None

    def matches(self, arrays: Sequence[Any]) -> bool:
        """Whether a call from outside with these arguments would be traced to the same program."""
        if not all(order.holds_in(None) for order in self.orders) or not self.is_current():
            return False
        return self.broken(arrays) is None

    def is_current(self) -> bool:
        """Return True if the attributes that it read have the values that they had."""
        return all(one.is_alike() for one in self.held)

    def is_gone(self) -> bool:
        """Return True if an attribute that it read is another object now, and so the old one is not needed again."""
        return any(one.is_gone() for one in self.held)

    def changed(self) -> str:
        """The attributes that have other values now, in words; empty where there are none."""
        return next((one.changed() for one in self.held if not one.is_alike()), "")

    def with_hidden_numbers(self) -> TracedFunction:
        """The program with the floats that the function closes over as captured numbers, where they only enter
        arithmetic (``dyn.trace.closed_numbers``)."""
        if not self.of_closed_floats or self.joint is not None:
            return self
        function, numbers = with_hidden_numbers(self.function, self.of_closed_floats)
        return replace(self, function=function, captured=(*self.captured, *numbers), of_closed_floats=())

    def ended(self) -> TracedFunction:
        """The program for calls from outside of traces: results are not weak, and nobody takes derivatives any more."""
        function = self.function
        if any(value.type.weak for value in function.results):
            builder = Builder(function.facts, user_loc())
            results = tuple(
                [builder.op("convert", v, dtype=settled_dtype(v.dtype)) if v.type.weak else v for v in function.results]
            )
            function = function.with_ops((*function.ops, *builder.ops), results)
        joint = self.joint
        if joint is not None:
            own = Function(function.name, joint.params, joint.ops, joint.results, Facts.EMPTY, ())
            ended = end_trace(own)
            joint = replace(joint, ops=ended.ops, results=ended.results)
        return replace(self, function=end_trace(function), joint=joint)


def trace_function(
    call: Callable[[list[Tracer]], Any],
    name: str,
    leaves: Sequence[LeafSpec],
    declarations: Declarations | None = None,
    *,
    abstracts_closures: bool = False,
    closed_floats: Mapping[int, object] = MappingProxyType({}),
    reads: AttributeReads | None = None,
    ends: bool = True,
    memory: DimMemory | None = None,
    function: Callable[..., Any] | None = None,
) -> TracedFunction:
    """Run ``call`` on tracers for ``leaves`` and record what it computes.

    If it ``ends``, the program is for calls from outside of traces alone (:meth:`TracedFunction.ended`). With
    ``abstracts_closures`` it is one for any numbers and arrays that are closed over: these are hidden parameters, the
    arrays of any size. ``closed_floats`` are floats whose constants are noted, and ``reads`` records the attributes
    that it reads. What is found out of the dims stays in ``memory``, which no other trace may have at the same time.
    ``function`` is the user's, where it is known. Errors inside are raised as they are, with the user's lines in them.
    """

    def traced() -> TracedFunction:
        own = DimMemory(None) if memory is None else memory
        scope = DimScope(leaves, declarations or Declarations(), own)
        scope.find_sizes()
        builder = Builder(scope.facts(), user_loc(), symbols=own.symbols)
        trace = Trace(
            name, builder, sizes=scope.sizes, abstracts_closures=abstracts_closures, closed_floats=closed_floats,
            reads=reads, closure=functools.partial(closure_names, function),
        )  # fmt: skip
        made = run_traced(call, trace, scope)
        return made.ended() if ends else made

    with keeping_recent():
        return answered(traced, function)


def _as_key(key: Any) -> Any:
    """A key of a dict that leaves its trace: dims in it are numbers, which their hashes have made them."""
    if type(key) is tuple:
        parts = tuple([_as_key(part) for part in key])
        return key if all(map(operator.is_, parts, key)) else parts
    return int(key) if isinstance(key, SymbolicDim) else key


def run_traced(call: Callable[[list[Tracer]], Any], trace: Trace, scope: DimScope) -> TracedFunction:
    """Trace ``call``, given tracers for the leaves of ``scope``, in ``trace``."""
    leaves = scope.leaves
    declared, loc = trace.builder.facts.apart(), user_loc()
    reads = trace.reads
    with tracing(trace), contextlib.nullcontext() if reads is None else reads.recording():
        try:
            result = call([Tracer(trace, value, loc) for value in scope.params])
        except TypeError as error:
            told = refused_by_jax(trace, error, (Tracer, SymbolicDim))
            if told is None:
                raise
            raise told from None
        out_leaves, out_tree = flatten(map_keys(_as_key, result))
        names = leaf_names(out_tree, "result")
        values = [_result(trace, leaf, names, number) for number, leaf in enumerate(out_leaves)]
    infos = [ParamInfo(leaf.name) for leaf in leaves] + [info for _, info, _ in trace.hidden]
    function = Function(
        identifier(trace.name, "function"),
        (*scope.params, *(value for value, _, _ in trace.hidden)),
        tuple(trace.builder.ops),
        tuple(values),
        _with_hints(trace, scope).apart(),
        tuple(infos),
        names,
    )
    _check_regions(function.ops, function.facts)
    donated = tuple(number for number, leaf in enumerate(leaves) if leaf.donated)
    second = trace.halves[0] if len(trace.halves) == 1 else None
    joint = None if second is None else joint_of(function, second)
    return TracedFunction(
        function, tuple(trace.guards), tuple(a for _, _, a in trace.hidden), out_tree, donated, declared,
        result_dims=tuple([_size(leaf) for leaf in out_leaves]), orders=tuple(trace.derivatives),
        ones=stretched_ones(function.facts, scope.sizes), joint=joint, of_closed_floats=tuple(trace.of_closed_floats),
        held=() if reads is None else reads.held(),
        frozen=tuple([(n, trace.frozen[id(a)]) for n, (*_, a) in enumerate(trace.hidden) if id(a) in trace.frozen]),
    )  # fmt: skip


def _with_hints(trace: Trace, scope: DimScope) -> Facts:
    """Facts at the end of a trace, with the likely sizes of functions that were called there behind those that are
    declared here, as far as the declarations allow them."""
    facts = trace.builder.facts
    own = {symbol for param in scope.params for dim in param.shape for symbol in free_symbols(dim)}
    declared = {one.symbol: one for one in facts.declarations}
    for symbol, sizes in trace.likely.items():
        known = declared.get(symbol)
        likely = [n for n in sizes if n >= 0 and (known is None or known.holds(n))]
        likely = tuple(dict.fromkeys((*(() if known is None else known.likely), *likely)))
        if likely and symbol in own:
            facts = facts.declare(symbol, likely=likely, reason=_CALLEES if known is None else known.reason)
    return facts


def _size(leaf: Any) -> Dim | None:
    return leaf.dim if isinstance(leaf, SymbolicDim) else None


def _check_regions(ops: Sequence[Op], facts: Facts) -> None:
    """Raise the ShapeError of a region that can never run, by what was learned after it."""
    for op in ops:
        for region in op.regions:
            _check_regions(region.ops, facts.within(region.demands))


def _result(trace: Trace, leaf: Any, names: Sequence[str], number: int) -> Value:
    if not is_liftable(leaf):
        raise TraceError(
            f"{trace.name} returns a {type(leaf).__name__} ({names[number]}), which is not an array.",
            loc=user_loc(),
            remedy="return arrays, numbers, or trees (tuples, lists, dicts) of them.",
        )
    return lift(trace, leaf)


class DimScope:
    """The dims of one trace: names to symbols, their sizes, what is declared of them.

    A declared name is the dim of the first axis that is that name alone, wherever it stands.
    """

    def __init__(self, leaves: Sequence[LeafSpec], declarations: Declarations, memory: DimMemory | None = None) -> None:
        self.leaves, self.declarations = leaves, declarations
        self.memory = DimMemory(None) if memory is None else memory
        self.symbols: dict[str, Symbol] = {}
        self.sizes: dict[Symbol, int] = {}
        #: Each axis whose size is known, as the number of its leaf, the axis and its declared dim.
        self.axes: list[tuple[int, int, Dim]] = []
        #: ``x.shape[0]`` to the symbol that this axis is: what constraints may call it.
        self.places: dict[str, Symbol] = {}
        #: The axes that are a declared dim or 1.
        self.marked: list[Marked] = []
        for leaf in leaves:
            for axis, declared in enumerate(leaf.axes):
                if isinstance(declared, str) and declared.isidentifier():
                    self.named(declared, f"{leaf.name}.shape[{axis}]")
        self.params = [self.param(number) for number in range(len(leaves))]

    def named(self, name: str, origin: str) -> Symbol:
        found = self.symbols.get(name)
        if found is None:
            found = self.symbols[name] = self.memory.symbols.symbol(name, origin)
        return found

    def param(self, number: int) -> Value:
        leaf = self.leaves[number]
        shape = tuple(self.axis(number, axis) for axis in range(len(leaf.axes)))
        return Value(TensorType(leaf.dtype, shape, leaf.weak), identifier(leaf.name, "arg"))

    def axis(self, number: int, axis: int) -> Dim:
        leaf = self.leaves[number]
        declared = leaf.axes[axis]
        origin = f"{leaf.name}.shape[{axis}]"
        if isinstance(declared, int):
            dim: Dim = declared
        elif declared is None or declared.startswith("#"):
            dim = as_dim(self.memory.symbols.symbol(f"{identifier(leaf.name, 'arg')}_{axis}", origin))
            if declared is not None:
                self.marked.append(Marked(origin, dim, declared[1:]))
        else:
            dim = self.declared(declared, origin)
        if isinstance(dim, SymExpr) and dim.is_symbol is not None:
            self.places[origin] = dim.is_symbol
        if leaf.sizes is not None:
            self.axes.append((number, axis, dim))
        return dim

    def declared(self, text: str, origin: str) -> Dim:
        def symbol_of(name: str) -> Symbol:
            if not name.isidentifier():
                raise ArgumentError(
                    f"{origin} is declared as {text}, and {name} is not the name of a dim.",
                    remedy="give that axis a name in shapes=, and use the name.",
                )
            return self.named(name, f"the declared dim {name}")

        return parse_dim(text, symbol_of)

    def resolve(self, text: str) -> Dim | None:
        """The dim that ``#text`` is 1 or; None for a name that no axis is alone."""
        if text.isidentifier():
            found = self.symbols.get(text)
            return None if found is None else as_dim(found)
        return self.declared(text, f"#{text}")

    # Sizes ----------------------------------------------------------------------------------------------------

    def find_sizes(self) -> None:
        """The size of each symbol in the call that is traced, as the compiled program will find it.

        Raises the ShapeError that the compiled program would, where axes do not agree with one another.
        """
        binding = bind_axes(self.axes)
        self.sizes = binding.check([leaf.sizes or () for leaf in self.leaves], [leaf.name for leaf in self.leaves])

    # What is declared -----------------------------------------------------------------------------------------

    def facts(self) -> Facts:
        """The declarations, which the sizes of the traced call satisfy."""
        facts = self.memory.facts
        for dim in self.declarations.dims:
            symbol = self.symbols.get(dim.name)
            if symbol is None:
                raise ArgumentError(
                    f"dims= declares {dim.name}, which no axis of an argument is.",
                    remedy=f"name an axis {dim.name} in shapes=, or leave the declaration out.",
                )
            self.check_range(dim, symbol)
            facts = facts.declare(
                symbol, min=dim.min, max=dim.max, multiple_of=dim.multiple_of, likely=dim.likely,
                reason=Reason(f"dyn.Dim({dim.name!r}) says so"),
            )  # fmt: skip
        for relation in marked_relations(self.marked, self.resolve, Loc("annotations")):
            self.check_relation(relation)
            facts = facts.assume(relation)
        names = {**self.places, **self.symbols}
        for text in self.declarations.constraints:
            for kind, lhs, rhs in parse_constraints(text, names):
                relation = Relation(kind, lhs, rhs, Reason(f"constraints={text!r}", Loc("constraints=")))
                self.check_relation(relation)
                facts = facts.assume(relation)
        return facts

    def check_range(self, dim: NamedDim, symbol: Symbol) -> None:
        size = self.sizes.get(symbol)
        if size is not None and not dim.allows(size):
            raise ShapeError(
                f"{symbol.origin} is {size}, and {dim.describe()} was declared.",
                remedy=f"pass an array of a size that was declared, or change the declaration of {dim.name}.",
            )

    def check_relation(self, relation: Relation) -> None:
        symbols = sorted(free_symbols(relation.lhs) | free_symbols(relation.rhs), key=lambda s: s.uid)
        if all(s in self.sizes for s in symbols) and not relation.holds(self.sizes):
            raise ShapeError(
                relation.failure(self.sizes),
                loc=relation.reason.loc,
                notes=tuple(f"{s.name} is {s.origin} = {self.sizes[s]}" for s in symbols),
                remedy="pass arguments whose shapes satisfy it.",
            )
