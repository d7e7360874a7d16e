"""The variables of a program: all are read by one operation, and many are assigned by one function of TensorFlow's."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dyn.interop.tf.internals import execute, function_pb2, pywrap_tfe, record, resource_variable_ops, tf
from dyn.interop.tf.values import dyn_dtype

#: So many assignments cost what the call of a function costs that makes them all.
_MOST_ASSIGNED_ALONE = 4
_numbers = itertools.count()


@dataclass(frozen=True, eq=False, slots=True)
class Variable:
    """A variable of TensorFlow's, by its handle, with the sizes that it has for good; None for those that change."""

    handle: Any
    dtype: Any
    shape: tuple[int | None, ...]

    @staticmethod
    def of(handle: Any) -> Variable | None:
        """The variable of a resource; None for one of another kind, and for a variable that dyn has no arrays for."""
        known = resource_variable_ops.get_eager_safe_handle_data(handle)
        if known is None or not known.is_set or len(known.shape_and_type) != 1:
            return None
        dtype = tf.as_dtype(known.shape_and_type[0].dtype)
        shape = tf.TensorShape(known.shape_and_type[0].shape)
        if dyn_dtype(dtype.name) is None or shape.rank is None:
            return None
        return Variable(handle, dtype, tuple(shape))

    def axes(self, number: int) -> tuple[int | str, ...]:
        """What is declared of its axes: those that change have a name of their own."""
        return tuple([f"v{number}_{axis}" if size is None else size for axis, size in enumerate(self.shape)])

    def assign(self, eager: Any, value: Any) -> None:
        pywrap_tfe.TFE_Py_FastPathExecute(
            eager, "AssignVariableOp", None, self.handle, value, "dtype", self.dtype, "validate_shape", False
        )


def _by_device(variables: Sequence[Variable]) -> list[list[int]]:
    """The numbers of variables that lie on one device, for each device: those of replicas have devices of their own."""
    found: dict[str, list[int]] = {}
    for number, one in enumerate(variables):
        found.setdefault(one.handle.device, []).append(number)
    return list(found.values())


class VariableReads:
    """The values of variables, which one operation reads, or one for each device: tensors in the variables' memory."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        self._handles = [one.handle for one in variables]
        self._groups = [
            (group, [self._handles[number] for number in group], _reading([variables[number] for number in group]))
            for group in _by_device(variables)
        ]

    def __call__(self, eager: Any) -> list[Any]:
        if len(self._groups) == 1:
            _, handles, attributes = self._groups[0]
            return execute.execute("_ReadVariablesOp", len(handles), handles, attributes, eager)
        values: list[Any] = [None] * len(self._handles)
        for group, handles, attributes in self._groups:
            made = execute.execute("_ReadVariablesOp", len(handles), handles, attributes, eager)
            for number, value in zip(group, made, strict=True):
                values[number] = value
        return values

    def recorded(self, eager: Any) -> list[Any]:
        """The values, of which tapes know whose they are."""
        values = self(eager)

        def backward(*cotangents: Any) -> Sequence[Any]:
            return cotangents

        if values:
            record.record_operation("Dyn", values, self._handles, backward)
        return values


def _reading(variables: Sequence[Variable]) -> tuple[Any, ...]:
    """The attributes of the operation that reads variables."""
    dtypes = tuple([one.dtype.as_datatype_enum for one in variables])
    return "N", len(dtypes), "dtypes", dtypes


class VariableAssignments:
    """The assignment of values to variables, in one call, or in one for each device."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        groups = _by_device(variables)
        self._groups = [(group, _Assignment([variables[number] for number in group])) for group in groups]

    def __call__(self, eager: Any, values: Sequence[Any]) -> None:
        for group, assignment in self._groups:
            assignment(eager, [values[number] for number in group])


class _Assignment:
    """The assignment of values to variables of one device."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        self._variables = variables
        self._handles = [one.handle for one in variables]
        #: The function, and the context that it is registered with.
        self._function: tuple[Any, bytes] | None = None

    def __call__(self, eager: Any, values: Sequence[Any]) -> None:
        if len(values) <= _MOST_ASSIGNED_ALONE:
            for variable, value in zip(self._variables, values, strict=True):
                variable.assign(eager, value)
            return
        known = self._function
        if known is None or known[0] is not eager:
            known = self._function = eager, self._register(eager)
        eager.call_function(known[1], [*self._handles, *values], 0)

    def _register(self, eager: Any) -> bytes:
        """The name of a function of handles and values, by which TensorFlow's runtime knows it from here on."""
        definition = function_pb2.FunctionDef()
        signature = definition.signature
        signature.name = f"__dyn_assign_{next(_numbers)}"
        signature.is_stateful = True
        for number in range(len(self._variables)):
            signature.input_arg.add(name=f"handle{number}", type=tf.resource.as_datatype_enum)
        for number, one in enumerate(self._variables):
            signature.input_arg.add(name=f"value{number}", type=one.dtype.as_datatype_enum)
            node = definition.node_def.add(name=f"assign{number}", op="AssignVariableOp")
            node.input.extend([f"handle{number}", f"value{number}"])
            node.attr["dtype"].type = one.dtype.as_datatype_enum
            node.attr["validate_shape"].b = False
            signature.control_output.append(f"assign{number}")
            definition.control_ret[f"assign{number}"] = f"assign{number}"
        eager.add_function_def(definition)
        weakref.finalize(self, _forget, eager, signature.name).atexit = False
        return signature.name.encode()


def _forget(eager: Any, name: str) -> None:
    if eager.has_function(name):
        eager.remove_function(name)
