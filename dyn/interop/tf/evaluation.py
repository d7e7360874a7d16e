"""The reading of a TensorFlow graph into a trace of dyn's: node after node, by the tables of ``dyn.interop.tf.ops``.

An operation whose inputs are known beforehand is done at once, where it folds: so sizes stay dims through whatever
TensorFlow does with them. All others become ops of the program. Functions are read where they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn.errors import NotYetError, UnsupportedOpError, problem_of
from dyn.frontend.fallback import Piece
from dyn.interop.converters import OperationCall, Typed, noted
from dyn.interop.sizes import conditions
from dyn.interop.sizes.values import elements_of, is_known, settled
from dyn.interop.tf.attributes import check_all_read, of_inputs, unread
from dyn.interop.tf.converter_registry import OPERATIONS
from dyn.interop.tf.faults import DataFault
from dyn.interop.tf.graphs import FunctionLibrary, Graph, GraphNode, constant
from dyn.interop.tf.values import ConstantChoice, EachAxis, Reductions, known_dtype
from dyn.ir.core import Value
from dyn.shapes import RelKind, format_dim
from dyn.source import within_module
from dyn.trace.context import Trace, current_trace
from dyn.trace.tracer import Tracer

#: Rules of operations ask of sizes what the function asks that the user calls.
ASKS_FOR_OTHERS = True


@dataclass
class EffectState:
    """The state that operations have effects on, as data: variables by number, how often numbers were drawn, and which
    errors were found.

    A region has a state of its own, which begins as that around it.
    """

    values: dict[Any, Any] = field(default_factory=dict[Any, Any])
    written: set[Any] = field(default_factory=set[Any])
    outer: EffectState | None = None
    #: Whether it is that of a region, which errors wait for the end of.
    is_region: bool = True

    def get(self, key: Any) -> Any:
        if key in self.values or self.outer is None:
            return self.values[key]
        return self.outer.get(key)

    def set(self, key: Any, value: Any) -> None:
        if isinstance(key, DataFault) and not self._waits:
            key.raise_where(value)
            return
        self.values[key] = value
        self.written.add(key)

    def note_fault(self, fault: DataFault, found: Any) -> None:
        """Have the program raise an error where a truth value is true: once the region is over that this is the state
        of, and those around it."""
        if self._waits:
            around = self
            while around.outer is not None:
                around = around.outer
            around.values.setdefault(fault, np.zeros((), bool))
            found = dnp.logical_or(found, self.get(fault))
        self.set(fault, found)

    @property
    def _waits(self) -> bool:
        return self.outer is not None and self.is_region


#: The operations that take the axes of :class:`Reductions` where it is not known which these are.
_TAKE_REDUCTIONS = frozenset({
    "Sum", "Prod", "Max", "Min", "Add", "AddV2", "Identity", "IdentityN", "GreaterEqual", "Cast",
})  # fmt: skip

#: The values of nodes' outputs, by the names of the nodes.
Known = dict[str, Sequence[Any]]


class Evaluation:
    """A graph that is read in a trace.

    ``otherwise(call, reason)`` takes operations for which there is no converter; without, they raise.
    """

    def __init__(
        self, library: FunctionLibrary, state: EffectState, otherwise: Callable[[NodeCall, str], Any] | None = None,
    ) -> None:  # fmt: skip
        self.library, self.state, self.otherwise = library, state, otherwise
        #: The number of the branch that is read, the innermost.
        self.branch: int | None = None
        #: What ``otherwise`` has taken.
        self.pieces: list[Piece] = []
        #: What is known of data that is one of two constants.
        self.choices: dict[Value, ConstantChoice] = {}
        #: Whether TensorFlow is wrong about sizes from here on.
        self.is_misled = False

    @property
    def trace(self) -> Trace:
        trace = current_trace()
        assert trace is not None, "graphs are read in traces"
        return trace

    def run(self, graph: Graph, arguments: Sequence[Any]) -> list[Any]:
        """The values of a graph's outputs."""
        known = Known(zip(graph.arguments, [(value,) for value in arguments], strict=True))
        self.read(graph, graph.needed, known)
        return [known[name][number] for name, number in graph.outputs]

    def read(self, graph: Graph, nodes: Iterable[GraphNode], known: Known) -> None:
        """Read nodes of a graph, after which the values of their outputs are ``known``, too."""
        for node in nodes:
            inputs = [known[name][number] for name, number in node.inputs]
            if node.op not in _TAKE_REDUCTIONS:
                inputs = list(map(self.counted, inputs))
            known[node.name] = self._node(NodeCall(self, graph, node, inputs))

    def counted(self, value: Any) -> Any:
        """The axes that a gradient is summed over as numbers: a size that may be 1 is a guard. Others as they are."""
        if isinstance(value, EachAxis):
            return np.ones(len(self.counted(value.reductions)), np.int32)
        if not isinstance(value, Reductions):
            return value
        extra, first = max(len(value.other) - len(value.own), 0), value.first
        ones = [
            first + extra + axis
            for axis, dim in enumerate(value.own)
            if conditions.decide(conditions.equal(dim, 1), self.trace.here)
        ]
        return np.array([*range(first, first + extra), *ones], np.int32)

    def within(self, state: EffectState, *, alone: bool = False) -> Evaluation:
        """The reading of a region, which has a state of its own; where it is ``alone``, without TensorFlow."""
        inner = Evaluation(self.library, state, None if alone else self.otherwise)
        inner.pieces, inner.branch, inner.is_misled = self.pieces, self.branch, self.is_misled
        inner.choices = self.choices
        return inner

    def distrust(self) -> None:
        """Believe nothing of what TensorFlow infers of the sizes of what follows."""
        self.is_misled = True

    def _node(self, call: NodeCall) -> Sequence[Any]:
        name = call.node.name
        with noted(f"{name} ({call.node.op}) of TensorFlow's graph"), within_module(name.rpartition("/")[0]):
            made = self._made(call)
        results = list(made) if isinstance(made, list | tuple) else [made]
        for value, shape in zip(results, call.node.output_shapes, strict=False):
            if shape is not None and not self.is_misled:
                self.claim(value, shape)
        return results

    def _made(self, call: NodeCall) -> Any:
        node = call.node
        if node.op == "Const":
            return constant(node)
        if node.op == "NoOp":
            return ()
        fold = OPERATIONS.folds.get(node.op)
        if fold is not None and all(map(is_known, call.inputs)) and not unread(node, {*fold.attrs, fold.dtype}):
            made = fold.run(*[elements_of(value) for value in call.inputs], **call.attributes(fold.attrs))
            if made is not NotImplemented:
                name = node.attr(fold.dtype) if node.has(fold.dtype) else fold.dtype
                return _settled(made, name)
        converter = OPERATIONS.converters.get(node.op)
        if converter is None and node.op in self.library:
            return self.run(self.library[node.op], call.inputs)
        if converter is None:
            return self._otherwise(call, f"{node.op} has no converter.")
        if self.otherwise is None:
            check_all_read(node, OPERATIONS.read[node.op])
            return converter(call)
        try:
            check_all_read(node, OPERATIONS.read[node.op])
            return converter(call)
        except (UnsupportedOpError, NotYetError) as error:
            return self._otherwise(call, problem_of(error))

    def _otherwise(self, call: NodeCall, reason: str) -> Any:
        if self.otherwise is None:
            raise NotYetError(reason, remedy="compute it outside of the function.")
        made = self.otherwise(call, reason)
        self.pieces.append(Piece(call.node.op, reason, name=call.node.name))
        return made

    def claim(self, value: Any, shape: Sequence[Any]) -> None:
        """Demand that a value has the sizes that TensorFlow knows or asserts; those that are None are open."""
        if not isinstance(value, Tracer) or len(shape) != len(value.dims):
            return
        for axis, (dim, size) in enumerate(zip(value.dims, shape, strict=True)):
            if size is not None and dim is not size:
                text = f"TensorFlow's graph says that axis {axis} has the size {format_dim(size)}"
                self.trace.demand(RelKind.EQ, dim, size, text)


def _settled(made: Any, dtype: str) -> Any:
    """Results of an operation on known values, as one or several values."""
    if isinstance(made, list):
        return [_settled(one, dtype) for one in made]
    if isinstance(made, Typed):
        return _settled(made.elements, made.dtype)
    if made.dtype.kind in "SUO" and dtype == "string":
        return made
    return settled(made, known_dtype(dtype))


@dataclass(frozen=True, eq=False)
class NodeCall(OperationCall):
    """An operation with its inputs."""

    evaluation: Evaluation
    graph: Graph
    node: GraphNode
    inputs: Sequence[Any]

    @property
    def op(self) -> str:
        return self.node.op

    @property
    def trace(self) -> Trace:
        return self.evaluation.trace

    def attr(self, name: str) -> Any:
        self._check_declared(name)
        return self.node.attr(name)

    def attributes(self, names: Iterable[str]) -> Mapping[str, Any]:
        """Those of the attributes that the operation has."""
        found: dict[str, Any] = {}
        for name in names:
            if self.node.has(name):
                self._check_declared(name)
                found[name] = self.node.attr(name)
        return found

    def _check_declared(self, name: str) -> None:
        op, own = self.node.op, OPERATIONS
        folds = {*own.folds[op].attrs, own.folds[op].dtype} if op in own.folds else set[str]()
        assert name in own.read.get(op, ()) or name in folds or name in of_inputs(op), (
            f"{op}'s rule does not say {name}"
        )
