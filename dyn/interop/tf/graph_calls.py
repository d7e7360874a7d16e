"""Calls of compiled functions in graphs that TensorFlow runs: in a ``tf.function``, in ``tf.data``, in replicas.

A call is one ``tf.numpy_function``: of tensors, of what variables are when it comes to it, and of the seed, to results
and to what variables become. Reads and assignments are the graph's own, so that TensorFlow orders them, and gradients
go through a second such call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from dyn.interop.tf.internals import FuncGraph, control_flow_util, resource_variable_ops, save_context, tf
from dyn.interop.tf.programs import TfProgram, is_tracing

Array = np.ndarray[Any, Any]


class IsGradient(Protocol):
    """A gradient by itself, :class:`dyn.interop.tf.gradients.GradientProgram`."""

    program: TfProgram

    @property
    def wanted(self) -> Sequence[int]: ...

    @property
    def places(self) -> Sequence[int]: ...

    def inputs(
        self, tensors: Sequence[Any], cotangents: Sequence[Any], variables: Sequence[Any]
    ) -> tuple[Any, Any]: ...

    def packed(self, parts: Sequence[Any]) -> list[Any]: ...

    def again(self) -> IsGradient: ...


def part_of_graph() -> str | None:
    """The reason why a call has to be a part of the function that TensorFlow traces; None where it need not be."""
    graph = tf.compat.v1.get_default_graph()
    if is_tracing():
        return "a call inside of a function that dyn compiles is a part of that function."
    if not isinstance(graph, FuncGraph):
        return "a call inside of a graph that is no tf.function is a part of that graph."
    if control_flow_util.GraphOrParentsInXlaContext(graph):
        return "a call inside of a tf.function with jit_compile=True is a part of that function."
    if save_context.in_save_context():
        return "a call inside of a function that is saved is a part of that function."
    return None


def call_in_graph(
    program: TfProgram, tensors: Sequence[Any], shapes: Sequence[Any], gradient: Callable[[], IsGradient]
) -> Any:
    """The results of a program, of these shapes, as tensors of the graph at hand."""
    for variable in program.concrete.graph.variables:
        resource_variable_ops.variable_accessed(variable)
    variables = [tf.raw_ops.ReadVariableOp(resource=one.handle, dtype=one.dtype) for one in program.variables]
    seeds = [tf.numpy_function(program.seed, [], tf.uint64)] if program.draws else []
    for seed in seeds:
        seed.set_shape(())
    made = operation(program, [*tensors, *variables], seeds, gradient)
    outputs, assigned = made[: len(shapes)], made[len(shapes) :]
    outputs = [
        one if shape.rank is None or one.shape == shape else tf.ensure_shape(one, shape)
        for one, shape in zip(outputs, shapes, strict=True)
    ]
    for number, value in zip(program.assigned, assigned, strict=True):
        tf.raw_ops.AssignVariableOp(resource=program.variables[number].handle, value=value, validate_shape=False)
    return program.packed(outputs)


def operation(
    program: TfProgram, given: Sequence[Any], seeds: Sequence[Any], gradient: Callable[[], IsGradient]
) -> list[Any]:
    """A program as an operation of the graph at hand: of tensors, of values of its variables, and of seeds."""
    outputs, assigned = program.concrete.outputs, [program.variables[number] for number in program.assigned]
    dtypes = [*[one.dtype for one in outputs], *[one.dtype for one in assigned]]
    shapes = [*[one.shape for one in outputs], *[one.shape for one in assigned]]
    count = len(given) - len(program.variables)

    @tf.custom_gradient
    def run(*given: Any) -> Any:
        made = tf.numpy_function(program.computed, [*given, *seeds], dtypes) if dtypes else []
        for one, shape in zip(made, shapes, strict=True):
            one.set_shape(shape)

        def backward(*cotangents: Any) -> list[Any]:
            found = gradient()
            # That of a result of which rows are taken is sparse.
            whole = [tf.convert_to_tensor(cotangents[number]) for number in found.wanted]
            inputs, variables = found.inputs(given[:count], whole, given[count:])
            pulled: list[Any] = [None] * len(given)
            if found.places:
                own = seeds if found.program.draws else []
                parts = operation(found.program, [*inputs, *variables], own, found.again)
                for place, one in zip(found.places, found.packed(parts), strict=True):
                    pulled[place] = one
            return pulled

        return made, backward

    return list(run(*given)) if dtypes else []
