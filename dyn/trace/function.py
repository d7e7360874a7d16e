"""From a Python function to a DHLO function."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dyn import config, dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import ShapeError, TraceError
from dyn.ir.builder import Builder
from dyn.ir.core import Function, ParamInfo, Value
from dyn.ir.types import TensorType
from dyn.shapes import Dim, Facts, NamedDim, Reason, Relation, Symbol, as_dim, linear_in, parse_constraints, parse_dim
from dyn.shapes import symbol as new_symbol
from dyn.source import Loc, user_loc
from dyn.trace.context import Trace, tracing
from dyn.trace.lift import is_liftable, lift
from dyn.trace.pytree import TreeSpec, flatten, leaf_names
from dyn.trace.tracer import Tracer


@dataclass(frozen=True, slots=True)
class LeafSpec:
    """An array argument as a trace sees it.

    ``axes`` has an entry an axis: an int makes it static, a string names a dim or gives an expression over names, None
    makes it a dim of its own. ``sizes`` are those of the call that is traced, where there is one.
    """

    name: str
    dtype: DType
    axes: tuple[int | str | None, ...]
    weak: bool = False
    sizes: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Declarations:
    """What the user declared of dims: ranges by name, and constraints as text."""

    dims: tuple[NamedDim, ...] = ()
    constraints: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class TracedFunction:
    """A traced program with what the calls need: guards, captured arrays, the tree of the results."""

    function: Function
    #: Relations that Python branches took for granted; where one fails another version is traced.
    guards: tuple[Relation, ...]
    captured: tuple[Any, ...]
    out_tree: TreeSpec


def trace_function(
    call: Callable[[list[Tracer]], Any],
    name: str,
    leaves: Sequence[LeafSpec],
    declarations: Declarations | None = None,
) -> TracedFunction:
    """Run ``call`` on tracers for ``leaves`` and record what it computes.

    Errors inside are raised as they are, with the user's lines in them.
    """
    scope = _Scope(declarations or Declarations())
    params = [scope.param(leaf) for leaf in leaves]
    facts = scope.facts()
    trace = Trace(name, Builder(facts, user_loc()), sizes=scope.sizes)
    with tracing(trace):
        result = call([Tracer(trace, value) for value in params])
        out_leaves, out_tree = flatten(result)
        values = [
            _result(trace, leaf, path) for leaf, path in zip(out_leaves, leaf_names(out_tree, "result"), strict=True)
        ]
    infos = [ParamInfo(leaf.name) for leaf in leaves] + [info for _, info, _ in trace.hidden]
    function = Function(
        re.sub(r"\W", "_", name),
        (*params, *(value for value, _, _ in trace.hidden)),
        tuple(trace.builder.ops),
        tuple(values),
        trace.facts,
        tuple(infos),
        tuple(leaf_names(out_tree, "result")),
    )
    return TracedFunction(function, tuple(trace.guards), tuple(a for _, _, a in trace.hidden), out_tree)


def _result(trace: Trace, leaf: Any, path: str) -> Value:
    if not is_liftable(leaf):
        raise TraceError(
            f"{trace.name} returns a {type(leaf).__name__} ({path}), which is not an array.",
            loc=user_loc(),
            remedy="return arrays, numbers, or trees (tuples, lists, dicts) of them.",
        )
    value = lift(trace, leaf)
    if value.type.weak:
        default = dtypes.dtype(config.current().default_float)
        kind = value.dtype.kind
        target = default if kind is Kind.FLOAT else value.dtype
        if kind is Kind.COMPLEX and default is not dtypes.float64:
            target = dtypes.complex64
        return trace.emit("convert", value, dtype=target)
    return value


class _Scope:
    """The dims of one trace: names to symbols, their sizes, what is declared of them."""

    def __init__(self, declarations: Declarations) -> None:
        self.declarations = declarations
        self.symbols: dict[str, Symbol] = {}
        self.sizes: dict[Symbol, int] = {}
        self.own: set[str] = {d.name for d in declarations.dims}

    def named(self, name: str, origin: str = "") -> Symbol:
        found = self.symbols.get(name)
        if found is None:
            found = self.symbols[name] = new_symbol(name, origin or f"the declared dim {name}")
        return found

    def param(self, leaf: LeafSpec) -> Value:
        shape = tuple(self.axis(leaf, axis) for axis in range(len(leaf.axes)))
        return Value(TensorType(leaf.dtype, shape, leaf.weak), re.sub(r"\W+", "_", leaf.name).strip("_"))

    def axis(self, leaf: LeafSpec, axis: int) -> Dim:
        declared = leaf.axes[axis]
        size = leaf.sizes[axis] if leaf.sizes is not None else None
        origin = f"{leaf.name}.shape[{axis}]"
        if isinstance(declared, int):
            if size is not None and size != declared:
                raise ShapeError(
                    f"{origin} is {size}, and it is declared to be {declared}.",
                    remedy=f"pass an array whose axis {axis} has {declared} elements, or change shapes=.",
                )
            return declared
        if declared is None:
            base = re.sub(r"\W+", "_", leaf.name).strip("_") or "arg"
            fresh = new_symbol(f"{base}_{axis}", origin)
            if size is not None:
                self.sizes[fresh] = size
            return as_dim(fresh)
        dim = as_dim(self.named(declared, origin)) if declared.isidentifier() else parse_dim(declared, self.named)
        if size is not None:
            self.solve(dim, size)
        return dim

    def solve(self, dim: Dim, size: int) -> None:
        """Remember the size of the one symbol of ``dim`` that has none yet."""
        for symbol in self.symbols.values():
            linear = linear_in(dim, symbol)
            if symbol not in self.sizes and linear is not None:
                factor, rest = linear
                if isinstance(factor, int) and isinstance(rest, int) and factor != 0:
                    self.sizes[symbol] = (size - rest) // factor
                    return

    def facts(self) -> Facts:
        facts = Facts.EMPTY
        for dim in self.declarations.dims:
            symbol = self.symbols.get(dim.name)
            if symbol is not None:
                facts = facts.declare(
                    symbol, min=dim.min, max=dim.max, multiple_of=dim.multiple_of, likely=dim.likely,
                    reason=Reason(f"dyn.Dim({dim.name!r}) says so"),
                )  # fmt: skip
        for text in self.declarations.constraints:
            for kind, lhs, rhs in parse_constraints(text, self.symbols):
                facts = facts.assume(Relation(kind, lhs, rhs, Reason(f"constraints={text!r}", Loc("constraints="))))
        return facts
