"""TensorFlow's graphs as plain data: the nodes of a ``GraphDef`` or of a function in its library, in an order to run.

A tensor is ``(node, number of the output)``. ``GraphDef`` numbers outputs (``split:1``), and functions name them
(``split:output:1``), for which the definition of the operation says how many tensors each name is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyn.errors import NotYetError
from dyn.interop.tf.internals import op_def_registry, tf
from dyn.lazy_property import lazy_property

#: A tensor: the name of a node, and the number of its output.
Tensor = tuple[str, int]


@dataclass(frozen=True, eq=False)
class GraphNode:
    """An operation: its inputs, the nodes that run before it, and its attributes, read when they are asked for."""

    name: str
    op: str
    inputs: tuple[Tensor, ...]
    controls: tuple[str, ...]
    proto: Any

    def has(self, name: str) -> bool:
        return self.proto is not None and name in self.proto.attr

    def attr(self, name: str) -> Any:
        """An attribute: a number, a bool, text, a dtype's name, a shape, an array, a function's name, or a list."""
        return _decoded(self.proto.attr[name])

    @lazy_property
    def output_shapes(self) -> list[tuple[int | None, ...] | None]:
        """Shapes of its outputs as TensorFlow has inferred them and ``set_shape`` states them."""
        return self.attr("_output_shapes") if self.has("_output_shapes") else []


@dataclass(frozen=True, eq=False)
class Graph:
    """A function of tensors: ``nodes`` by name, each after what it needs.

    Arguments are nodes too. ``effects`` are the nodes that run whether or not an output needs them.
    """

    name: str
    arguments: tuple[str, ...]
    nodes: Mapping[str, GraphNode]
    outputs: tuple[Tensor, ...]
    effects: tuple[str, ...]

    @lazy_property
    def needed(self) -> tuple[GraphNode, ...]:
        """The nodes that run, arguments aside, in order."""
        reached: set[str] = set()
        waiting = [*[name for name, _ in self.outputs], *self.effects]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                node = self.nodes[name]
                waiting += [*[source for source, _ in node.inputs], *node.controls]
        arguments = set(self.arguments)
        return tuple([node for name, node in self.nodes.items() if name in reached and name not in arguments])

    def depending(self, arguments: Sequence[str]) -> frozenset[str]:
        """The nodes that run and whose values depend on some of the arguments, by name.

        Edges of control do not count: outputs have them from all that has effects, later ones among them.
        """
        found = set(arguments)
        for node in self.needed:
            if any(name in found for name, _ in node.inputs):
                found.add(node.name)
        return frozenset(found)

    def leading_to(self, tensor: Tensor) -> list[GraphNode]:
        """The nodes that a tensor is computed by, each after those that it needs."""
        found: set[str] = set()
        waiting = [tensor[0]]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += [source for source, _ in self.nodes[name].inputs]
        return [node for name, node in self.nodes.items() if name in found]

    def source(self, tensor: Tensor) -> Tensor:
        """The tensor that this one is, behind operations that give what they are given."""
        while True:
            node = self.nodes[tensor[0]]
            if node.op != "Identity" or not node.inputs:
                return tensor
            tensor = node.inputs[0]


class FunctionLibrary:
    """The functions that a graph calls, by name."""

    def __init__(self, functions: Sequence[Any], written: Callable[[], Any]) -> None:
        self._protos = {function.signature.name: function for function in functions}
        self._written = written
        self._graphs: dict[str, Graph] = {}

    @property
    def names(self) -> list[str]:
        return list(self._protos)

    @lazy_property
    def proto(self) -> Any:
        """The functions as TensorFlow has them: it takes no other ones of their names."""
        return self._written()

    def __contains__(self, name: str) -> bool:
        return name in self._protos

    def __getitem__(self, name: str) -> Graph:
        found = self._graphs.get(name)
        if found is None:
            found = self._graphs[name] = _of_function(self._protos[name], self)
        return found

    def outputs_of(self, node: Any) -> Sequence[tuple[str, int]]:
        """Names of an operation's outputs, each with the number of tensors."""
        if node.op in self._protos:
            return [(arg.name, 1) for arg in self._protos[node.op].signature.output_arg]
        definition = op_def_registry.get(node.op)
        if definition is None:
            raise NotYetError(f"{node.op}, an operation that this TensorFlow does not define.")
        return [(arg.name, _count(arg, node)) for arg in definition.output_arg]


def _count(arg: Any, node: Any) -> int:
    if arg.number_attr:
        return node.attr[arg.number_attr].i
    return len(node.attr[arg.type_list_attr].list.type) if arg.type_list_attr else 1


def of_graph(graph: Any, outputs: Sequence[Any], effects: Sequence[str]) -> tuple[Graph, FunctionLibrary]:
    """A ``tf.Graph`` with the tensors that it gives and the operations that have effects; and its functions."""
    proto = graph.as_graph_def(add_shapes=True)
    nodes = [_node(one, _numbered) for one in proto.node]
    arguments = tuple([tensor.op.name for tensor in graph.inputs])
    given = tuple([(tensor.op.name, tensor.value_index) for tensor in outputs])
    return Graph(graph.name, arguments, _ordered(nodes), given, tuple(effects)), FunctionLibrary(
        proto.library.function, lambda: graph.as_graph_def().library
    )


def _of_function(proto: Any, library: FunctionLibrary) -> Graph:
    """A function of the library."""
    arguments = [arg.name for arg in proto.signature.input_arg]
    starts: dict[tuple[str, str], int] = {}
    for node in proto.node_def:
        start = 0
        for name, count in library.outputs_of(node):
            starts[node.name, name] = start
            start += count

    def read(text: str) -> Tensor:
        name, _, rest = text.partition(":")
        if not rest:
            return name, 0
        output, _, number = rest.partition(":")
        return name, starts[name, output] + int(number)

    nodes = [GraphNode(name, "_Arg", (), (), None) for name in arguments] + [_node(one, read) for one in proto.node_def]
    outputs = tuple([read(proto.ret[arg.name]) for arg in proto.signature.output_arg])
    effects = tuple(proto.control_ret.values())
    return Graph(proto.signature.name, tuple(arguments), _ordered(nodes), outputs, effects)


def _numbered(text: str) -> Tensor:
    name, _, number = text.partition(":")
    return name, int(number or 0)


def _node(proto: Any, read: Callable[[str], Tensor]) -> GraphNode:
    inputs = tuple([read(text) for text in proto.input if not text.startswith("^")])
    controls = tuple([text[1:] for text in proto.input if text.startswith("^")])
    return GraphNode(proto.name, proto.op, inputs, controls, proto)


def _ordered(nodes: Sequence[GraphNode]) -> dict[str, GraphNode]:
    """Nodes by name, each after those that it needs, and otherwise as they are."""
    by_name = {node.name: node for node in nodes}
    ordered: dict[str, GraphNode] = {}
    for start in nodes:
        stack = [start]
        while stack:
            node = stack[-1]
            needed = [*[name for name, _ in node.inputs], *node.controls]
            waiting = [] if node.name in ordered else [by_name[name] for name in needed if name not in ordered]
            if waiting:
                stack += waiting
            else:
                ordered[node.name] = stack.pop()
    return ordered


def _shape(proto: Any) -> tuple[int | None, ...] | None:
    if proto.unknown_rank:
        return None
    return tuple([None if dim.size < 0 else dim.size for dim in proto.dim])


def _decoded(proto: Any) -> Any:
    kind = proto.WhichOneof("value")
    match kind:
        case "s":
            return proto.s.decode("utf-8", "surrogateescape")
        case "i" | "f" | "b":
            return getattr(proto, kind)
        case "type":
            return tf.dtypes.as_dtype(proto.type).name
        case "shape":
            return _shape(proto.shape)
        case "tensor":
            return tf.make_ndarray(proto.tensor)
        case "func":
            return proto.func.name
        case "list":
            return _list(proto.list)
        case _:
            return None


def _list(proto: Any) -> list[Any]:
    if proto.s:
        return [one.decode("utf-8", "surrogateescape") for one in proto.s]
    if proto.type:
        return [tf.dtypes.as_dtype(one).name for one in proto.type]
    if proto.shape:
        return [_shape(one) for one in proto.shape]
    if proto.func:
        return [one.name for one in proto.func]
    return [*proto.i, *proto.f, *proto.b]


def constant(node: GraphNode) -> np.ndarray[Any, Any]:
    """The array of a ``Const``."""
    return np.asarray(node.attr("value"))
