"""Graphs of PyTorch's as functions of tensors alone, and which graphs are the same but for their sizes.

Dynamo traces anew for sizes 0 and 1, and where a size stops being always the same. Most graphs that come of it differ
from an earlier one in nothing but numbers where that has symbols: its program, which is one for every size, is theirs.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Hashable, Mapping, Sequence
from enum import Enum
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx._graph_pickler import GraphPickler, Options
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.fx.node import Node
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from dyn.frozen import record
from dyn.interop.torch.tensors import float_of

#: A symbol of PyTorch's (``sympy.Symbol``), an expression over them (``sympy.Expr``), and a size: one, or a number.
Symbol = Any
Expression = Any
Size = Any


class ArgumentKind(Enum):
    """Kind of an argument of a graph: the form in which the compiled function of tensors gets it."""

    TENSOR = "itself"
    INT = "as the sizes of a tensor without elements"
    FLOAT = "as a tensor of it"
    STATIC = "as a part of the key"
    OBJECT = "as a part of the key, and not by what is in it"


@record(eq=False)
class LoweredGraph:
    """A graph as a function of those of its arguments that it needs, and then of ``carried``, each an INT.

    ``graph`` takes the same arguments without those carried, and then ``sizes``, which follow from the rest.
    """

    graph: torch.fx.GraphModule
    #: The arguments of the graph as it came, by number, and what they are passed as.
    kept: tuple[tuple[int, ArgumentKind], ...]
    #: The shapes of those that are tensors; None for others.
    shapes: tuple[tuple[Size, ...] | None, ...]
    #: Where each symbol is read: an axis of an argument, by its number among ``kept``.
    axes: Mapping[Symbol, tuple[int, int]]
    #: The symbols that no tensor has, and the arguments, by number, that they are.
    carried: Mapping[Symbol, int]
    #: All symbols that are arguments, with the arguments' numbers.
    numbered: Mapping[Symbol, int]
    sizes: tuple[Expression, ...]
    #: All of the graph that is no size; None where graphs cannot be compared.
    structure: Hashable
    #: The sizes in it, in their order: those of the arguments first.
    numbers: tuple[Size, ...]
    #: Those of the arguments as it came, by number, that are parameters and buffers of modules, and global tensors.
    closed_over: frozenset[int]

    def __call__(self, *given: Any) -> Any:
        """The graph's results. Numbers are among the arguments as tensors that carry them (:func:`carrier`)."""
        rest = len(self.kept)
        known: dict[Any, Any] = {symbol: given[number].shape[axis] for symbol, (number, axis) in self.axes.items()}
        known.update(zip(self.carried, map(_carried_int, given[rest:]), strict=True))
        own = [_argument(kind, one) for (_, kind), one in zip(self.kept, given[:rest], strict=True)]
        return self.graph(*own, *[sympy_interp(_SizeArithmetic, dict(known), size) for size in self.sizes])

    def saved(self) -> dict[str, Any]:
        """All of it as what can be pickled, but for what compares it: other processes know other graphs."""
        graph = torch.fx.Graph()
        made: dict[Node, Node] = {}
        for node in self.graph.graph.nodes:
            made[node] = graph.node_copy(node, made.__getitem__)
            made[node].meta = {name: node.meta[name] for name in ("stack_trace",) if name in node.meta}
        bare = torch.fx.GraphModule(self.graph, graph)
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {**fields, "graph": GraphPickler.dumps(bare, Options(ops_filter=None)), "structure": None, "numbers": ()}

    @staticmethod
    def loaded(saved: dict[str, Any]) -> LoweredGraph:
        """The graph of :meth:`saved`."""
        graph: Any = GraphPickler.loads(saved["graph"], FakeTensorMode(shape_env=ShapeEnv()))
        graph.recompile()
        return LoweredGraph(**{**saved, "graph": graph})


class _SizeArithmetic(PythonReferenceAnalysis):
    """Arithmetic of PyTorch's on symbolic sizes, with the division of integers, which it has of expressions alone."""

    @staticmethod
    def int_truediv(a: Any, b: Any) -> Any:
        return a / b

    @staticmethod
    def trunc_to_int(x: Any, dtype: Any) -> Any:
        return math.trunc(x)

    @staticmethod
    def floor_to_int(x: Any, dtype: Any) -> Any:
        return math.floor(x)

    @staticmethod
    def ceil_to_int(x: Any, dtype: Any) -> Any:
        return math.ceil(x)


@record()
class _Whole:
    """An object that a graph only hands on, such as the mesh of a ``DTensor``: its attributes are no arguments."""

    value: Any


def carrier(kind: ArgumentKind, argument: Any) -> Any:
    """An argument of a call as one of the compiled function. A tensor of n by 0 takes no memory, and n is its size."""
    if kind is ArgumentKind.OBJECT:
        return _Whole(argument)
    if kind is ArgumentKind.INT:
        return torch.empty((max(argument, 0), max(-argument, 0), 0))
    return torch.tensor(argument, dtype=torch.float64) if kind is ArgumentKind.FLOAT else argument


def _carried_int(given: Any) -> Any:
    return given.shape[0] - given.shape[1]


def _argument(kind: ArgumentKind, given: Any) -> Any:
    if kind is ArgumentKind.INT:
        return _carried_int(given)
    if kind is ArgumentKind.OBJECT:
        return given.value
    return float_of(given) if kind is ArgumentKind.FLOAT else given


# ---- lowering --------------------------------------------------------------------------------------------------------


def lowered(graph: torch.fx.GraphModule) -> LoweredGraph:
    """A graph of Dynamo's or AOTAutograd's, whose numbers are known by the fake tensors of its nodes.

    What its symbols are known to be, constants among them, PyTorch has checked before each call (*guards*).
    """
    return _Lowering(graph).lowered()


def value_of(node: Node) -> Any:
    """The stand-in for the result of a node: a fake tensor or a symbolic number, where there is one."""
    return node.meta["val"] if "val" in node.meta else node.meta.get("example_value")


class _Lowering:
    def __init__(self, graph: torch.fx.GraphModule) -> None:
        self.old = graph
        self.nodes = list(graph.graph.nodes)
        self.inputs = [node for node in self.nodes if node.op == "placeholder"]
        values = [value_of(node) for node in self.inputs]
        #: Where symbols are found: on axes of arguments, used ones first, or as arguments of their own.
        self.axes: dict[Symbol, tuple[int, int]] = {}
        by_use = sorted(range(len(values)), key=lambda number: not self.inputs[number].users)
        for number in by_use:
            value = values[number]
            if isinstance(value, torch.Tensor):
                for axis, size in enumerate(value.shape):
                    if isinstance(size, torch.SymInt) and expression(size).is_symbol:
                        self.axes.setdefault(expression(size), (number, axis))
        self.numbers: dict[Symbol, int] = {}
        for number, value in enumerate(values):
            if isinstance(value, torch.SymInt) and expression(value).is_symbol:
                self.numbers.setdefault(expression(value), number)
        self.values = values
        #: The numbers that stand for nodes: those that are constants, and those that follow from the arguments.
        self.constants: dict[Node, Any] = {}
        self.computed: dict[Node, Expression] = {}
        for node in self.nodes:
            self._classify(node)

    def _classify(self, node: Node) -> None:
        value = value_of(node)
        if node.op == "output" or not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return
        found = expression(value)
        if found.is_number or found in (sympy.true, sympy.false):
            kind = int if isinstance(value, torch.SymInt) else float if isinstance(value, torch.SymFloat) else bool
            self.constants[node] = kind(found)
        elif isinstance(value, torch.SymInt) and all(s in self.axes or s in self.numbers for s in found.free_symbols):
            self.computed[node] = found

    def lowered(self) -> LoweredGraph:
        live = dict.fromkeys([n for n in self.nodes if n not in self.constants and n not in self.computed])
        sizes: dict[Expression, int] = {}
        for node in live:
            for needed in node.all_input_nodes:
                if needed in self.computed:
                    sizes.setdefault(self.computed[needed], len(sizes))
        symbols = sorted({s for size in sizes for s in size.free_symbols}, key=str)
        on_axes = {symbol: self.axes[symbol] for symbol in symbols if symbol in self.axes}
        carried = {symbol: self.numbers[symbol] for symbol in symbols if symbol not in self.axes}
        needed_for_sizes = {number for number, _ in on_axes.values()}
        kept = [
            (number, _kind(value))
            for number, (node, value) in enumerate(zip(self.inputs, self.values, strict=True))
            if number in needed_for_sizes or (node in live and not live.keys().isdisjoint(node.users))
        ]
        places = {number: place for place, (number, _) in enumerate(kept)}
        new, made = torch.fx.Graph(), dict[Node, Any](self.constants)
        for number, _ in kept:
            made[self.inputs[number]] = new.node_copy(self.inputs[number])
        as_nodes = [new.placeholder(str(size) if size.is_symbol else f"size_{n}") for size, n in sizes.items()]
        made |= {node: as_nodes[sizes[size]] for node, size in self.computed.items() if size in sizes}
        for node in live:
            if node.op != "placeholder":
                made[node] = new.node_copy(node, made.__getitem__)
        shapes = [_shape(self.values[number]) for number, _ in kept]
        structure = _Structure(self, list(live), kept, shapes)
        return LoweredGraph(
            torch.fx.GraphModule(self.old, new),
            tuple(kept),
            tuple(shapes),
            {symbol: (places[number], axis) for symbol, (number, axis) in on_axes.items()},
            carried,
            self.numbers,
            tuple(sizes),
            structure.key,
            tuple(structure.numbers),
            frozenset([number for number, node in enumerate(self.inputs) if _is_closed_over(node)]),
        )


def _is_closed_over(node: Node) -> bool:
    """Return True if Dynamo has found an argument of a graph in a module, or among a function's globals."""
    name = getattr(getattr(node.meta.get("grapharg"), "source", None), "name", "")
    return isinstance(name, str) and (name.startswith("G[") or "._parameters[" in name or "._buffers[" in name)


def expression(value: Any) -> Any:
    """The expression of a symbolic number over symbols of PyTorch's."""
    return value.node.expr


def _shape(value: Any) -> tuple[Size, ...] | None:
    if not isinstance(value, torch.Tensor):
        return None
    found = [size if isinstance(size, int) else expression(size) for size in value.shape]
    return tuple([size if isinstance(size, int) or not size.is_number else int(size) for size in found])


def _kind(value: Any) -> ArgumentKind:
    if isinstance(value, torch.Tensor):
        return ArgumentKind.TENSOR
    if isinstance(value, torch.SymInt):
        return ArgumentKind.INT
    if isinstance(value, torch.SymFloat):
        return ArgumentKind.FLOAT
    return ArgumentKind.STATIC if isinstance(value, int | float | str | None) else ArgumentKind.OBJECT


# ---- comparison ------------------------------------------------------------------------------------------------------


class _Structure:
    """Collects all of a graph that is no size as a key, and its sizes."""

    def __init__(
        self, lowering: _Lowering, live: Sequence[Node], kept: Sequence[tuple[int, ArgumentKind]], shapes: Any
    ) -> None:
        self.lowering = lowering
        self.numbers: list[Size] = [size for shape in shapes if shape is not None for size in shape]
        self._places = {lowering.inputs[number]: place for place, (number, _) in enumerate(kept)}
        rows: list[Any] = []
        for number, kind in kept:
            value = lowering.values[number]
            rows.append((kind, value.dtype, value.ndim, value.device) if kind is ArgumentKind.TENSOR else kind)
        for node in live:
            if node.op == "placeholder":
                continue
            target = _attribute(lowering.old, node.target) if node.op in ("get_attr", "call_module") else node.target
            rows.append((node.op, target, self._leaf(node.args), self._leaf(node.kwargs)))
            self._places[node] = len(self._places)
        self.key: Hashable = tuple(rows)
        try:
            hash(self.key)
        except TypeError:
            self.key = None

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, Node):
            if value in self._places:
                return _At(self._places[value])
            value = self.lowering.computed.get(value, self.lowering.constants.get(value))
        if isinstance(value, sympy.Expr) or type(value) is int:
            self.numbers.append(value)
            return _NUMBER
        if isinstance(value, float):
            return float, repr(value)
        if isinstance(value, tuple | list):
            return tuple, tuple([self._leaf(one) for one in value])
        if isinstance(value, dict):
            return dict, tuple([(name, self._leaf(one)) for name, one in value.items()])
        if isinstance(value, slice):
            return slice, self._leaf(value.start), self._leaf(value.stop), self._leaf(value.step)
        return type(value), value


@record()
class _At:
    """The result of a node, by its place."""

    place: int


#: In the place of a size.
_NUMBER = ArgumentKind.INT


def _attribute(graph: torch.fx.GraphModule, target: Any) -> Any:
    """The object that a graph has by a name, compared by identity. The graph keeps it alive."""
    return "attribute", id(operator.attrgetter(target)(graph))


@record()
class Match:
    """A graph as a case of another: sizes for that one's symbols, where its own symbols are ``equal`` in pairs."""

    sizes: Mapping[Symbol, Size]
    equal: tuple[tuple[Symbol, Symbol], ...] = ()


def match(known: LoweredGraph, new: LoweredGraph) -> Match | None:
    """The case of ``known`` that ``new``, of the same structure, is at certain sizes; None where it is another graph.

    Dynamo takes sizes that are equal at its first trace for one size, and for two in a later one: that they are equal
    is then left to be asked of each call.
    """
    found: dict[Symbol, Size] = {}
    same: dict[Symbol, Symbol] = {}
    later: list[tuple[Expression, Size]] = []
    for own, other in zip(known.numbers, new.numbers, strict=True):
        if isinstance(own, int):
            if own != other:
                return None
        elif not own.is_symbol:
            later.append((own, other))
        elif (first := found.setdefault(own, other)) != other:
            if first not in new.numbered or other not in new.numbered or same.setdefault(other, first) != first:
                return None
    symbols = {*known.carried, *known.axes, *[symbol for own, _ in later for symbol in own.free_symbols]}
    if not symbols <= found.keys():
        return None
    if any(isinstance(size := found[symbol], sympy.Expr) and size not in new.numbered for symbol in known.carried):
        return None
    for own, other in later:
        if own.subs(found) != (other if isinstance(other, int) else other.subs(same)):
            return None
    return Match(found, tuple(same.items()))
