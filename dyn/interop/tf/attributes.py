"""Attributes of TensorFlow's operations: each is read by a rule, follows from the inputs, or changes nothing.

An attribute that nobody reads would be passed over in silence, and what it asks for with it
(docs/decisions/0021-attributes-that-nobody-reads.md). So an operation with an attribute that its rule does not name is
refused, unless the table here says that it changes no element of a result. A test walks the converters and this table.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from dyn.errors import UnsupportedOpError
from dyn.interop.tf.graphs import GraphNode
from dyn.interop.tf.internals import op_def_registry

_CHOICES = "If StatelessIf Case StatelessCase"
_CALLS = "PartitionedCall StatefulPartitionedCall"
_SCATTERS = "ResourceScatterNdUpdate ResourceScatterNdAdd ResourceScatterNdMax ResourceScatterNdMin"

_SPARSE_SEGMENTS = " ".join([
    f"SparseSegment{fold}{rest}" for fold in ("Sum", "Mean", "SqrtN") for rest in ("", "WithNumSegments")
])  # fmt: skip

#: Attributes that change no element of a result: operations, attributes, and the reason.
_ROWS = (
    (f"{_CHOICES} {_CALLS}", "Tout", "types of results, which the functions that are called show"),
    (f"{_CHOICES} While StatelessWhile", "output_shapes", "shapes of results, which the functions show"),
    ("While StatelessWhile", "parallel_iterations", "a limit to what TensorFlow runs at once"),
    (_CALLS, "config config_proto executor_type", "the way that TensorFlow runs it"),
    ("Angle Complex ComplexAbs Imag Real", "Tout", "it has a kernel for one type of result by type of operand"),
    ("Assert", "summarize", "the length of an error's text"),
    ("PreventGradient", "message", "the text of an error while gradients are made, which TensorFlow makes"),
    ("AssignVariableOp", "validate_shape", "what is assigned has the variable's sizes in any case"),
    (_SCATTERS, "use_locking", "the order of updates by several threads, of which a program is one"),
    ("Gather ResourceGather", "validate_indices", "TensorFlow has stopped reading it, and checks in any case"),
    ("Conv2D Conv2DBackpropInput Conv2DBackpropFilter", "use_cudnn_on_gpu", "the library on GPUs"),
    ("MatMul", "grad_a grad_b", "a hint about which operand is a gradient"),
    ("BatchMatMul BatchMatMulV2 BatchMatMulV3", "grad_x grad_y", "a hint about which operand is a gradient"),
    (_SPARSE_SEGMENTS, "sparse_gradient", "the form of the gradient's graph"),
    ("TopKV2", "sorted", "without it any order will do"),
    ("Empty", "init", "without it any elements will do"),
)  # fmt: skip
WITHOUT_EFFECT: Mapping[tuple[str, str], str] = {
    (operation, attribute): reason
    for operations, attributes, reason in _ROWS
    for operation in operations.split()
    for attribute in attributes.split()
}


@functools.cache
def of_inputs(operation: str) -> frozenset[str]:
    """The attributes of an operation that say types and numbers of its inputs."""
    definition: Any = op_def_registry.get(operation)
    if definition is None:
        return frozenset()
    return frozenset([
        name for arg in definition.input_arg for name in (arg.type_attr, arg.number_attr, arg.type_list_attr) if name
    ])  # fmt: skip


def unread(node: GraphNode, used: AbstractSet[str]) -> list[str]:
    """The attributes of a node that a rule which reads those that are ``used`` passes over, and that have an effect."""
    names: Sequence[str] = [] if node.proto is None else list(node.proto.attr)
    derived = of_inputs(node.op)
    return [
        name
        for name in names
        if name not in used
        and name not in derived
        and not name.startswith("_")
        and (node.op, name) not in WITHOUT_EFFECT
    ]


def check_all_read(node: GraphNode, used: AbstractSet[str]) -> None:
    """Raise UnsupportedOpError for a node with an attribute that a rule, which reads those ``used``, passes over."""
    for name in unread(node, used):
        raise UnsupportedOpError(f"{node.op} has the attribute {name} = {node.attr(name)!r}, which dyn does not read.")
