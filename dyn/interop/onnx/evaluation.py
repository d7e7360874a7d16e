"""The reading of an ONNX graph into a trace of dyn's: node after node, by the tables of ``dyn.interop.onnx.ops``.

As in TensorFlow's graphs, an operation whose inputs are known beforehand is done at once where it folds, and sizes stay
dims. An operation without a converter that ONNX defines by others is read by that definition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx.defs

from dyn import dtypes
from dyn.errors import UnsupportedOpError
from dyn.interop.converters import ConstantFolder, ConverterRegistry, OperationCall, noted
from dyn.interop.onnx.graphs import (
    OnnxFunction,
    OnnxGraph,
    OnnxModel,
    OnnxNode,
    Reference,
    dtype_of,
    of_function,
    value_of,
)
from dyn.interop.sizes.folds import MOST
from dyn.interop.sizes.values import SizeTensor, elements_of, is_known, settled
from dyn.ir.core import Dense
from dyn.source import located
from dyn.trace import constants
from dyn.trace.context import Trace, current_trace

#: ONNX's operations.
OPERATIONS = ConverterRegistry()
converts, takes_call, folds = OPERATIONS.converts, OPERATIONS.takes_call, OPERATIONS.folds_known

#: Rules of operations ask of sizes what the function asks that the user calls.
ASKS_FOR_OTHERS = True
_defs: Any = onnx.defs

#: Attributes that change no element of a result, by operation.
_WITHOUT_EFFECT = {
    ("BatchNormalization", "spatial"), ("Conv", "kernel_shape"), ("ConvInteger", "kernel_shape"),
    ("ConvTranspose", "kernel_shape"), ("Dropout", "seed"), ("MaxPool", "storage_order"),
    ("QLinearConv", "kernel_shape"), ("TopK", "sorted"),
}  # fmt: skip

#: The values of a graph by their names.
Known = dict[str, Any]


@dataclass(frozen=True, eq=False)
class GraphReader:
    """A reader of a model, in a trace. ``attributes`` are those of the call of a function whose nodes are read."""

    model: OnnxModel
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def trace(self) -> Trace:
        trace = current_trace()
        assert trace is not None, "graphs are read in traces"
        return trace

    def run(self, graph: OnnxGraph, arguments: Sequence[Any], around: Known | None = None) -> list[Any]:
        """The values of a graph's outputs. What is ``around`` it, it can read."""
        known = Known(around or {})
        for name, one in graph.arrays.items():
            known[name] = constants.elements_of(self.trace, one) if isinstance(one, Dense) else one
        known.update(zip(graph.arguments, arguments, strict=True))
        for node in graph.nodes:
            inputs = [known[name] if name else None for name in node.inputs]
            while inputs and inputs[-1] is None:
                inputs.pop()
            results = self._node(OnnxCall(self, node, inputs, known))
            known.update(zip(node.outputs, results, strict=False))
        return [known[name] for name in graph.outputs]

    def _node(self, call: OnnxCall) -> Sequence[Any]:
        named = f"{call.node.name} ({call.node.title})".lstrip()
        with noted(f"{named} of the ONNX graph"), located(call.node.loc):
            made = self._made(call)
        return list(made) if isinstance(made, list | tuple) else [made]

    def _made(self, call: OnnxCall) -> Any:
        node = call.node
        function = self.model.functions.get((node.domain, node.op, node.overload))
        if function is not None:
            return self._called(function, call)
        if node.domain:
            raise UnsupportedOpError(
                f"dyn has no operation {node.op} of the domain {node.domain}.",
                remedy="export with ONNX's own operations.",
            )
        fold = OPERATIONS.folds.get(node.op)
        if fold is not None and call.is_known and not call.unread({*fold.attrs, fold.dtype}):
            made = _folded(call, fold)
            if made is not NotImplemented:
                return settled(made, dtypes.dtype(_dtype(call, fold.dtype)))
        converter = OPERATIONS.converters.get(node.op)
        if converter is None:
            return self._called(self._definition(call), call)
        for name in call.unread(OPERATIONS.read[node.op]):
            raise UnsupportedOpError(f"{node.op} with {name}={call.attribute(name)!r}, which dyn does not read.")
        return converter(call)

    def _definition(self, call: OnnxCall) -> OnnxFunction:
        """The operation as ONNX defines it by others; UnsupportedOpError where it does not."""
        version = self.model.versions.get("", _defs.onnx_opset_version())
        try:
            schema = _defs.get_schema(call.node.op, version, "")
        except _defs.SchemaError:
            schema = None
        if schema is None or not schema.has_function:
            raise UnsupportedOpError(
                f"dyn has no operation {call.node.op} of ONNX's.", remedy="compute it outside of the model."
            )
        own = of_function(schema.function_body)
        defaults = {
            name: value for name, one in schema.attributes.items() if (value := value_of(one.default_value)) is not None
        }
        return replace(own, defaults={**defaults, **own.defaults})

    def _called(self, function: OnnxFunction, call: OnnxCall) -> list[Any]:
        attributes = {**function.defaults, **call.all_attributes()}
        given = [*call.inputs, *[None] * (len(function.graph.arguments) - len(call.inputs))]
        return GraphReader(self.model, attributes).run(function.graph, given)


def _folded(call: OnnxCall, fold: ConstantFolder) -> Any:
    """The results of an operation on known values; NotImplemented where it is one of data, or has something to say."""
    arrays = [None if value is None else elements_of(value) for value in call.inputs]
    if any(one is not None and one.size > MOST for one in arrays):
        return NotImplemented
    attributes = dict(call.attributes(fold.attrs))
    if "dtype" in fold.attrs:
        attributes["dtype"] = call.dtype(0)
    try:
        return fold.run(*arrays, **attributes)
    except (ValueError, IndexError, TypeError, ZeroDivisionError):  # NumPy's: the converter says what is wrong
        return NotImplemented


def _dtype(call: OnnxCall, name: str) -> Any:
    """The dtype of a fold: for ``T`` the first input's and for ``T1`` the second's, an attribute's, or its own."""
    if name in ("T", "T1"):
        return call.dtype(int(name[1:] or 0))
    found = call.attributes([name])
    return dtype_of(found[name]) if name in found else name


@dataclass(frozen=True, eq=False)
class OnnxCall(OperationCall):
    """An operation with its inputs, and what else is known where it stands."""

    evaluation: GraphReader
    node: OnnxNode
    inputs: Sequence[Any]
    around: Known

    @property
    def op(self) -> str:
        return self.node.op

    @property
    def trace(self) -> Trace:
        return self.evaluation.trace

    @property
    def count(self) -> int:
        """The number of results that are asked for."""
        return max([number + 1 for number, name in enumerate(self.node.outputs) if name], default=0)

    def dtype(self, number: int) -> Any:
        """The dtype of an input, as NumPy has it."""
        value = self.inputs[number]
        return np.dtype(value.dtype.np) if isinstance(value, SizeTensor) else value.dtype

    @property
    def is_known(self) -> bool:
        """Whether all inputs that there are are known while the graph is read."""
        return all(value is None or is_known(value) for value in self.inputs)

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute of the node; in a function perhaps one of its caller."""
        found = self.node.attributes.get(name)
        if isinstance(found, Reference):
            found = self.evaluation.attributes.get(found.name)
        return default if found is None else found

    def all_attributes(self) -> Mapping[str, Any]:
        """All attributes that have a value."""
        found = {name: self.attribute(name) for name in self.node.attributes}
        return {name: value for name, value in found.items() if value is not None}

    def attributes(self, names: Iterable[str]) -> Mapping[str, Any]:
        found = self.all_attributes()
        return {name: found[name] for name in names if name in found}

    def unread(self, used: Iterable[str]) -> list[str]:
        """The attributes that a rule which reads those ``used`` passes over, and that have an effect."""
        passed = [name for name in self.node.attributes if name not in used]
        return [name for name in passed if (self.op, name) not in _WITHOUT_EFFECT and self.attribute(name) is not None]

    def has(self, number: int) -> bool:
        """Whether there is an input of this number."""
        return number < len(self.inputs) and self.inputs[number] is not None
