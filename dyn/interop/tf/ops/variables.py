"""Variables: what operations read of them and assign to them, in the order that the graph says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn.errors import UnsupportedOpError
from dyn.interop.sizes.values import settled, vector
from dyn.interop.tf.converter_registry import takes_call
from dyn.interop.tf.ops.indexing import check_policy, gather, gather_nd, in_range, parts_in_range
from dyn.interop.tf.ops.shapes import MASKS, subscript
from dyn.interop.tf.values import Resource, known_dtype

ASKS_FOR_OTHERS = True


def _variable(call: Any, number: int = 0) -> Resource:
    found = call.inputs[number]
    if not isinstance(found, Resource):
        raise UnsupportedOpError(f"{call.node.op} of what is no variable of the function.")
    return found


def _read(call: Any, number: int = 0) -> Any:
    """The value of a variable, which has to be of the dtype that an operation says."""
    value = call.evaluation.state.get(_variable(call, number))
    asked = call.attributes(["dtype"]).get("dtype", value.element_type.name)
    if known_dtype(asked) is not value.element_type:
        raise UnsupportedOpError(f"{call.node.op} of {asked} of a variable of {value.element_type.name}.")
    return value


@takes_call("ReadVariableOp", attrs=["dtype"])
def read(call: Any) -> Any:
    return _read(call)


@takes_call("DisableCopyOnRead")
def disable_copy_on_read(call: Any) -> Any:
    return ()


@takes_call("VarIsInitializedOp")
def is_initialized(call: Any) -> Any:
    _variable(call)
    return np.array(True)


@takes_call("VariableShape", attrs=["out_type"])
def variable_shape(call: Any) -> Any:
    return settled(vector(_read(call).dims), known_dtype(call.attr("out_type")))


@takes_call("AssignVariableOp")
def assign(call: Any) -> Any:
    variable, new = _variable(call), call.value(1)
    call.evaluation.claim(new, variable.shape)
    shape = [own if size is None else size for own, size in zip(new.shape, variable.shape, strict=True)]
    call.evaluation.state.set(variable, dnp.broadcast_to(new, shape))
    return ()


def _update(name: str, function: Callable[[Any, Any], Any]) -> None:
    @takes_call(name)
    def update(call: Any) -> Any:
        old, new = _read(call), call.value(1)
        call.evaluation.claim(new, old.dims)
        call.evaluation.state.set(_variable(call), dnp.broadcast_to(function(old, new), old.shape))
        return ()


_update("AssignAddVariableOp", dnp.add)
_update("AssignSubVariableOp", dnp.subtract)


@takes_call("ResourceGather", attrs=["batch_dims", "dtype"])
def gather_rows(call: Any) -> Any:
    batch_dims = call.attr("batch_dims")
    return gather(_read(call), call.value(1), batch_dims, batch_dims=batch_dims)


@takes_call("ResourceGatherNd", attrs=["dtype"])
def gather_elements(call: Any) -> Any:
    return gather_nd(_read(call), call.value(1))


def _scatter(name: str, method: str) -> None:
    @takes_call(name)
    def scatter(call: Any) -> Any:
        old = _read(call)
        made = getattr(old.at[in_range(call.value(1), old.shape[0], 0)], method)(call.value(2))
        call.evaluation.state.set(_variable(call), made)
        return ()


for _name, _method in {
    "ResourceScatterUpdate": "set", "ResourceScatterAdd": "add", "ResourceScatterMul": "multiply",
    "ResourceScatterMax": "max", "ResourceScatterMin": "min",
}.items():  # fmt: skip
    _scatter(_name, _method)


def _scatter_nd(name: str, method: str) -> None:
    @takes_call(name, attrs=["bad_indices_policy"])
    def scatter(call: Any) -> Any:
        check_policy(call.attributes(["bad_indices_policy"]).get("bad_indices_policy", ""))
        old = _read(call)
        made = getattr(old.at[parts_in_range(call.value(1), old.shape)], method)(call.value(2))
        call.evaluation.state.set(_variable(call), made)
        return ()


for _name, _method in {
    "ResourceScatterNdUpdate": "set", "ResourceScatterNdAdd": "add", "ResourceScatterNdMax": "max",
    "ResourceScatterNdMin": "min",
}.items():  # fmt: skip
    _scatter_nd(_name, _method)


@takes_call("ResourceScatterSub")
def scatter_sub(call: Any) -> Any:
    old = _read(call)
    made = old.at[in_range(call.value(1), old.shape[0], 0)].add(-call.value(2))
    call.evaluation.state.set(_variable(call), made)
    return ()


@takes_call("ResourceStridedSliceAssign", attrs=MASKS)
def strided_slice_assign(call: Any) -> Any:
    call.evaluation.state.set(_variable(call), _read(call).at[subscript(call)].set(call.value(4)))
    return ()
