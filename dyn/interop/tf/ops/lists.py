"""Operations of lists of tensors: what ``tf.TensorArray`` and loops write to and read from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import lax
from dyn.errors import UnsupportedOpError
from dyn.interop.tf.converter_registry import takes_call
from dyn.interop.tf.lists import TensorList
from dyn.interop.tf.values import (
    boxed,
    data,
    elements_of,
    is_known,
    is_of_arguments,
    is_same,
    is_symbolic,
    known_dtype,
    settled,
)
from dyn.trace.dims import unwrap_dim, wrap_dim


def _list(call: Any, number: int = 0) -> TensorList:
    found = call.inputs[number]
    if not isinstance(found, TensorList):
        raise UnsupportedOpError(f"{call.node.op} of a {type(found).__name__}.")
    return found


def _element_shape(call: Any, number: int) -> tuple[Any, ...] | None:
    """A shape with None for open sizes; None for an open rank."""
    value = call.inputs[number]
    if not is_known(value):
        return None
    found = elements_of(value)
    if found.ndim == 0:
        return None
    sizes = [wrap_dim(call.trace, one) if is_symbolic(one) else int(one) for one in found]
    return tuple([None if isinstance(size, int) and size < 0 else size for size in sizes])


@takes_call("TensorListReserve")
def reserve(call: Any) -> Any:
    dtype = known_dtype(call.attr("element_dtype"))
    return TensorList(None, call.sizes(1), _element_shape(call, 0), dtype).known()


@takes_call("EmptyTensorList")
def empty(call: Any) -> Any:
    most = call.sizes(1)
    capacity = None if isinstance(most, int) and most < 0 else most
    count = dnp.zeros((), dtype="int32")
    return TensorList(None, capacity, _element_shape(call, 0), known_dtype(call.attr("element_dtype")), count)


@takes_call("TensorListFromTensor")
def from_tensor(call: Any) -> Any:
    elements = call.value(0)
    return TensorList(elements, elements.shape[0], tuple(elements.shape[1:]), elements.element_type)


@takes_call("TensorListSetItem")
def set_item(call: Any) -> Any:
    item, found = call.value(2), _list(call)
    resizes = call.attributes(["resize_if_index_out_of_bounds"]).get("resize_if_index_out_of_bounds")
    if resizes and not found.has_room:
        found = _with_place(call, found)
    found = found.of(item.shape)
    place = call.value(1)
    count = found.count if found.count is None else dnp.maximum(found.count, place + np.int32(1))
    return replace(found, elements=lax.dynamic_update_index_in_dim(found.elements, item, place, 0), count=count)


def _with_place(call: Any, found: TensorList) -> TensorList:
    """A list that has a place of a number that is known."""
    place, own = call.inputs[1], unwrap_dim(found.capacity)
    if not isinstance(place, np.ndarray) or not isinstance(own, int) or found.count is not None:
        raise UnsupportedOpError("an element written beyond the end of a list, at a place that the program computes.")
    return found if int(place) < own else resized(found, int(place) + 1)


def resized(found: TensorList, size: Any) -> TensorList:
    """A list of another length: its first elements, or zeros after them."""
    if found.elements is None:
        return replace(found, capacity=size)
    own = found.elements.shape[0]
    pads = [(0, size - own, 0), *[(0, 0, 0)] * (len(found.elements.dims) - 1)]
    return replace(found, capacity=size, elements=lax.pad(found.elements, dnp.zeros((), dtype=found.dtype.np), pads))


@takes_call("TensorListResize")
def resize(call: Any) -> Any:
    found, size = _list(call), call.inputs[1]
    own = unwrap_dim(found.capacity) if found.capacity is not None else None
    if found.count is None and is_known(size) and elements_of(size).item() == own:
        return found
    if found.count is None and is_known(size):
        return resized(found, call.sizes(1))
    if found.count is None:
        raise UnsupportedOpError("a list of a fixed length, resized to what the program computes.")
    return replace(found, count=data(call.trace, size).astype("int32"))


@takes_call("TensorListGetItem")
def get_item(call: Any) -> Any:
    return lax.dynamic_index_in_dim(_list(call).filled(), call.value(1), 0, keepdims=False)


@takes_call("TensorListGather")
def gather(call: Any) -> Any:
    return dnp.take(_list(call).filled(), call.value(1), axis=0)


@takes_call("TensorListScatterIntoExistingList")
def scatter_into(call: Any) -> Any:
    found, items = _list(call), call.value(1)
    found = found.of(items.shape[1:])
    elements: Any = found.elements
    return replace(found, elements=elements.at[call.value(2)].set(items))


@takes_call("TensorListScatterV2")
def scatter(call: Any) -> Any:
    items, size = call.value(0), call.sizes(3)
    if isinstance(size, int) and size < 0:
        raise UnsupportedOpError("tensors scattered to a list whose length follows from their places.")
    made = dnp.zeros((size, *items.shape[1:]), dtype=items.dtype)
    return TensorList(made.at[call.value(1)].set(items), size, tuple(items.shape[1:]), items.element_type)


@takes_call("TensorListStack")
def stack(call: Any) -> Any:
    found, shape = _list(call), _element_shape(call, 1)
    if found.elements is None and shape is not None and all(size is not None for size in shape):
        found = found.of(shape)
    if found.count is not None:
        return found.filled()[: lax.as_dim(found.count, name="length")]
    return found.filled()


@takes_call("TensorListLength")
def length(call: Any) -> Any:
    found = _list(call)
    if found.count is not None:
        return found.count
    return settled(boxed(unwrap_dim(found.capacity)), known_dtype("int32"))


@takes_call("TensorListPushBack")
def push_back(call: Any) -> Any:
    found, value = _list(call), call.inputs[1]
    if found.count is None:
        raise UnsupportedOpError("an element added to a list of a fixed length.")
    count: Any = found.count + np.int32(1)  # pyright: ignore[reportOperatorIssue]  # tracers have NumPy's operators
    if found.elements is None and is_known(value) and is_of_arguments(value):
        if found.item is None or is_same(found.item, value):
            return replace(found, count=count, item=value)
    item = call.value(1)
    before = found.item
    found = found.of(item.shape)
    elements: Any = found.elements
    if before is not None:
        elements = dnp.broadcast_to(data(call.trace, before), elements.shape)
    elements = lax.dynamic_update_index_in_dim(elements, item, found.count, 0)
    return replace(found, elements=elements, count=count)


@takes_call("TensorListPopBack")
def pop_back(call: Any) -> Any:
    found = _list(call)
    count: Any = found.count
    if count is None:
        count = data(call.trace, settled(boxed(unwrap_dim(found.capacity)), known_dtype("int32")))
    if found.item is not None:
        return [replace(found, count=count - np.int32(1)), found.item]
    item = lax.dynamic_index_in_dim(found.filled(), count - np.int32(1), 0, keepdims=False)
    return [replace(found, count=count - np.int32(1)), item]


@takes_call("TensorListElementShape")
def element_shape(call: Any) -> Any:
    dims = _list(call).filled().dims[1:]
    made = np.empty(len(dims), object)
    made[:] = dims
    return settled(made, known_dtype(call.attr("shape_type")))


@takes_call("TensorListConcatV2")
def concat(call: Any) -> Any:
    elements = _list(call).filled()
    count, size = elements.shape[:2]
    lengths = dnp.broadcast_to(dnp.asarray(size).astype("int64"), (count,))
    return [dnp.reshape(elements, (count * size, *elements.shape[2:])), lengths]
