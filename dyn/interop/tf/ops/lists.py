"""Operations of lists of tensors: what ``tf.TensorArray`` and loops write to and read from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import lax
from dyn.errors import OutOfRangeError, ShapeError, TraceError, UnsupportedOpError
from dyn.interop.index_ranges import require_in_range
from dyn.interop.sizes.values import (
    boxed,
    data,
    elements_of,
    is_known,
    is_of_arguments,
    is_same,
    is_symbolic,
    settled,
    vector,
)
from dyn.interop.tf.converter_registry import takes_call
from dyn.interop.tf.lists import NestedList, TensorList
from dyn.interop.tf.loop_values import CountedList
from dyn.interop.tf.ops.assertions import refuse
from dyn.interop.tf.values import known_dtype
from dyn.shapes import RelKind, dim_max
from dyn.source import user_loc
from dyn.trace import control
from dyn.trace.branch_sizes import Unequal
from dyn.trace.dims import unwrap_dim, wrap_dim

_REMEDY = "use a place that the list has."


def _list(call: Any, number: int = 0) -> TensorList:
    found = call.inputs[number]
    if isinstance(found, CountedList):
        raise UnsupportedOpError(
            "elements read of a list that grows without a greatest length, in the loop that it grows in.",
            remedy="give tf.while_loop maximum_iterations, or a tf.range to go over.",
        )
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


@takes_call("TensorListReserve", attrs=["element_dtype"])
def reserve(call: Any) -> Any:
    dtype = known_dtype(call.attr("element_dtype"))
    return TensorList(None, call.sizes(1), _element_shape(call, 0), dtype).known()


@takes_call("EmptyTensorList", attrs=["element_dtype"])
def empty(call: Any) -> Any:
    most = call.sizes(1)
    capacity = None if isinstance(most, int) and most < 0 else most
    count = dnp.zeros((), dtype="int32")
    if call.attr("element_dtype") == "variant":
        return NestedList(capacity, count)
    return TensorList(None, capacity, _element_shape(call, 0), known_dtype(call.attr("element_dtype")), count)


@takes_call("TensorListFromTensor")
def from_tensor(call: Any) -> Any:
    elements = call.value(0)
    return TensorList(elements, elements.shape[0], tuple(elements.shape[1:]), elements.element_type)


@takes_call("TensorListSetItem", attrs=["resize_if_index_out_of_bounds"])
def set_item(call: Any) -> Any:
    resizes = call.attributes(["resize_if_index_out_of_bounds"]).get("resize_if_index_out_of_bounds")
    if isinstance(call.inputs[0], CountedList):
        return call.inputs[0].written(call.value(1)) if resizes else call.inputs[0]
    item, found = call.value(2), _list(call)
    if resizes and not found.has_room:
        found = _with_place(call, found)
    if resizes and not isinstance(call.inputs[1], np.ndarray):
        refuse(
            call, call.value(1) < 0, "modify an element of a list that is before its first", _REMEDY, OutOfRangeError
        )
    known = _known_place(call, found)
    if known is not None and found.elements is None and found.count is None and not found.has_room:
        return found.with_row(known, item)
    if not found.has_room and not resizes:
        _check_has(call, found, "modify")
    found = found.of(item.shape)
    place = call.value(1)
    count = found.count if found.count is None else dnp.maximum(found.count, place + np.int32(1))
    return replace(found, elements=lax.dynamic_update_index_in_dim(found.elements, item, place, 0), count=count)


def _check_has(call: Any, found: TensorList, verb: str) -> None:
    """Have an error where a list has no element at a place that the program computes: with both where nothing waits."""
    place, size = call.value(1), found.capacity
    if place._trace.here.outer is None and found.count is None:
        require_in_range(place, size, f"trying to {verb} element {{}} in a list with {{}} elements")
        return
    most = size if found.count is None else found.count
    is_outside = (place < 0) | (place >= dnp.asarray(most).astype(place.dtype))
    refuse(call, is_outside, f"trying to {verb} an element that a list does not have", _REMEDY, OutOfRangeError)


#: A list of more elements is one array, also where each place is known.
_MOST_ROWS = 256


def _known_place(call: Any, found: TensorList) -> int | None:
    """The number of an element, where it and the length of the list are known. ShapeError for one that is not there."""
    place, size = call.inputs[1], None if found.capacity is None else unwrap_dim(found.capacity)
    if not isinstance(place, np.ndarray) or not isinstance(size, int) or found.count is not None:
        return None
    if not 0 <= int(place) < size:
        raise ShapeError(f"element {int(place)} of a list of {size} elements.", loc=user_loc())
    return int(place) if size <= _MOST_ROWS else None


def _with_place(call: Any, found: TensorList) -> TensorList:
    """A list that has the place that is written to, where it is not as long as that."""
    place, own = call.inputs[1], unwrap_dim(found.capacity)
    if own is None:
        raise UnsupportedOpError("an element written to a list without a length.")
    if isinstance(place, np.ndarray) and isinstance(own, int) and found.count is None:
        return found if int(place) < own else resized(found, int(place) + 1)
    if is_known(place) and found.count is None:
        return resized(found, wrap_dim(call.trace, dim_max(own, elements_of(place).item() + 1)))
    even = (found if found.rows is None else found.stacked()).counted()
    most = dnp.maximum(dnp.asarray(found.capacity).astype("int64"), call.value(1).astype("int64") + 1)
    return resized(even, lax.as_dim(most, name="length"))


def resized(found: TensorList, size: Any) -> TensorList:
    """A list of another length: its first elements, or zeros after them."""
    if found.rows is not None:
        own = unwrap_dim(size)
        if isinstance(own, int):
            return replace(found, capacity=size, rows=(*found.rows[:own], *(None,) * (own - len(found.rows))))
        found = found.stacked()
    if found.elements is None:
        return replace(found, capacity=size)
    own = found.elements.shape[0]
    pads = [(0, size - own, 0), *[(0, 0, 0)] * (len(found.elements.dims) - 1)]
    return replace(found, capacity=size, elements=lax.pad(found.elements, dnp.zeros((), dtype=found.dtype.np), pads))


@takes_call("TensorListResize")
def resize(call: Any) -> Any:
    if isinstance(call.inputs[0], CountedList):
        return call.inputs[0].resized(call.value(1))
    found, size = _list(call), call.inputs[1]
    own = unwrap_dim(found.capacity) if found.capacity is not None else None
    if found.count is None and is_known(size) and elements_of(size).item() == own:
        return found
    if found.count is None and is_known(size):
        return resized(found, call.sizes(1))
    # That of a gradient, which a value that was added has been taken from.
    even = found.counted() if found.rows is None else found.stacked().counted()
    return replace(even, count=data(call.trace, size).astype("int32"))


@takes_call("TensorListGetItem", attrs=["element_dtype"])
def get_item(call: Any) -> Any:
    found = _list(call)
    place = _known_place(call, found)
    row = None if found.rows is None or place is None else found.rows[place]
    if row is not None:
        return row
    if found.rows is not None and not found.is_even:
        return _one_of(call, found)
    if call.evaluation.state.outer is None and not isinstance(call.inputs[1], np.ndarray):
        _check_has(call, found, "access")
    return lax.dynamic_index_in_dim(found.filled(), call.value(1), 0, keepdims=False)


def _one_of(call: Any, found: TensorList) -> Any:
    """One of rows of other sizes, at a place that the program computes: its size is found out."""
    rows: Any = found.rows
    if any(row is None for row in rows):
        raise UnsupportedOpError("an element of a list, to some of which nothing is written.")
    ways = [lambda row=row: row for row in rows]
    try:
        return control.switch(call.trace, call.value(1), ways, (), "switch", Unequal.MEASURED)
    except (TraceError, ShapeError) as error:
        raise UnsupportedOpError(f"an element of a list: {error.problem}", loc=error.loc) from error


@takes_call("TensorListGather", attrs=["element_dtype"])
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


@takes_call("TensorListStack", attrs=["element_dtype", "num_elements"])
def stack(call: Any) -> Any:
    found, shape = _list(call), _element_shape(call, 1)
    if found.rows is not None:
        return found.stack()
    if found.elements is None and shape is not None and all(size is not None for size in shape):
        found = found.of(shape)
    made = found.filled() if found.count is None else found.filled()[: lax.as_dim(found.count, name="length")]
    asked = call.attributes(["num_elements"]).get("num_elements", -1)
    if asked >= 0:
        call.trace.demand(RelKind.EQ, made.dims[0], asked, f"tf.stack of a list of {asked} elements")
    return made


@takes_call("TensorListLength")
def length(call: Any) -> Any:
    if isinstance(call.inputs[0], CountedList | NestedList):
        return call.inputs[0].count
    found = _list(call)
    if found.count is not None:
        return found.count
    return settled(boxed(unwrap_dim(found.capacity)), known_dtype("int32"))


@takes_call("TensorListPushBack")
def push_back(call: Any) -> Any:
    if isinstance(call.inputs[0], CountedList):
        return call.inputs[0].resized(call.inputs[0].count + np.int32(1))
    if isinstance(call.inputs[0], NestedList):
        return call.inputs[0].pushed(call.inputs[1])
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


@takes_call("TensorListPopBack", attrs=["element_dtype"])
def pop_back(call: Any) -> Any:
    if isinstance(call.inputs[0], NestedList):
        return list(call.inputs[0].popped())
    found = _list(call)
    count: Any = found.count
    if count is None:
        count = data(call.trace, settled(boxed(unwrap_dim(found.capacity)), known_dtype("int32")))
    if found.item is not None:
        return [replace(found, count=count - np.int32(1)), found.item]
    item = lax.dynamic_index_in_dim(found.filled(), count - np.int32(1), 0, keepdims=False)
    return [replace(found, count=count - np.int32(1)), item]


@takes_call("TensorListElementShape", attrs=["shape_type"])
def element_shape(call: Any) -> Any:
    found, dtype = _list(call), known_dtype(call.attr("shape_type"))
    if found.rows is None:
        return settled(vector(found.filled().dims[1:]), dtype)
    first, *rest = [row.dims for row in found.rows if row is not None]
    facts = call.trace.facts
    same = [all(facts.eq(dim, dims[axis]).proved for dims in rest) for axis, dim in enumerate(first)]
    return settled(vector([dim if is_one else -1 for dim, is_one in zip(first, same, strict=True)]), dtype)


@takes_call("TensorListConcatV2", attrs=["element_dtype"])
def concat(call: Any) -> Any:
    found = _list(call)
    if found.rows is not None:
        made, lengths = found.concat()
        return [made, settled(vector(lengths), known_dtype("int64"))]
    elements = found.filled()
    count, size = elements.shape[:2]
    lengths = dnp.broadcast_to(dnp.asarray(size).astype("int64"), (count,))
    return [dnp.reshape(elements, (count * size, *elements.shape[2:])), lengths]


@takes_call("TensorListSplit")
def split(call: Any) -> Any:
    """Rows of the lengths that a vector says, whose number is known."""
    value, lengths = call.value(0), call.sizes(2)
    rows, start = list[Any](), 0
    for length in lengths:
        rows.append(lax.slice_in_dim(value, start, start + length))
        start = start + length
    end = unwrap_dim(start)
    call.trace.demand(RelKind.EQ, value.dims[0], 0 if end is None else end, "the rows of a list are all of a tensor")
    return TensorList(None, len(rows), _element_shape(call, 1), value.element_type, rows=tuple(rows))
