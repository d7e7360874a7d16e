"""Operations that move elements: shapes, slices, joins, padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ShapeError, UndecidedDimError, UnsupportedOpError
from dyn.interop.converters import Data, rank_of
from dyn.interop.reshaping import reshaped
from dyn.interop.sizes import conditions
from dyn.interop.sizes.conditions import Comparison
from dyn.interop.sizes.values import elements_of, is_known, is_symbolic
from dyn.interop.tf.converter_registry import converts, takes_call
from dyn.interop.tf.subscripts import Subscripts
from dyn.interop.tf.values import ConstantChoice, known_dtype
from dyn.shapes import RelKind, SymExpr, dim_min, mod
from dyn.source import user_loc
from dyn.trace.context import current_trace
from dyn.trace.dims import max_dim, unwrap_dim, wrap_dim
from dyn.trace.tracer import Tracer
from dyn.transforms import vjp

#: The attributes of a subscript.
MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


@converts("Reshape", sizes=(1,))
def reshape(a: Data, shape: Sequence[Any]) -> Any:
    return reshaped(a, shape)


@converts("Squeeze")
def squeeze(a: Data, *, squeeze_dims: Sequence[int] | None = None) -> Any:
    if not squeeze_dims:
        axes = [axis for axis, dim in enumerate(a.dims) if a._trace.facts.simplify(dim) == 1]
        if any(a._trace.facts.simplify(dim) != 1 and not isinstance(dim, int) for dim in a.dims):
            raise UnsupportedOpError("tf.squeeze without axes of a tensor of unknown sizes.", remedy="name the axes.")
        return dnp.squeeze(a, axis=tuple(axes))
    return dnp.squeeze(a, axis=tuple(squeeze_dims))


@converts("ExpandDims", numbers=(1,))
def expand_dims(a: Data, axis: Any) -> Any:
    return dnp.expand_dims(a, int(axis.reshape(-1)[0]))


@takes_call("Transpose")
def transpose(call: Any) -> Any:
    a = call.value(0)
    given = call.inputs[1]
    choice = call.evaluation.choices.get(given._value) if isinstance(given, Tracer) else None
    order = call.numbers(1) if choice is None else _chosen(call, a, choice)
    return dnp.transpose(a, tuple(map(int, order)))


def _chosen(call: Any, a: Data, choice: ConstantChoice) -> Any:
    """One of two orders of axes, by sizes: a guard, unless the order does not matter to what is made of it.

    ``parallel_for`` leaves two axes as they are where one has a single element, and reshapes the result.
    """
    moved = [axis for axis, (x, y) in enumerate(zip(choice.yes, choice.no, strict=True)) if x != y]
    if len(moved) == 2 and moved[1] - moved[0] == 1 and _is_reshaped(call):
        sizes = [a.dims[int(choice.no[axis])] for axis in moved]
        is_one, own = conditions.equal(dim_min(*sizes), 1), choice.condition
        if isinstance(is_one, Comparison) and isinstance(own, Comparison) and is_one.asked == own.asked:
            return choice.yes if own.is_negated else choice.no
    try:
        is_first = conditions.decide(choice.condition, call.trace.here)
    except UndecidedDimError as error:
        raise UnsupportedOpError("axes in an order that the program computes.", loc=error.loc) from error
    return choice.yes if is_first else choice.no


def _is_reshaped(call: Any) -> bool:
    """Return True if a tensor is reshaped by all that it is given to."""
    own, graph = (call.node.name, 0), call.graph
    users = [node for node in graph.needed if own in node.inputs]
    return own not in graph.outputs and all(node.op == "Reshape" and node.inputs.index(own) == 0 for node in users)


@converts("BroadcastTo", sizes=(1,))
def broadcast_to(a: Data, shape: Sequence[Any]) -> Any:
    return dnp.broadcast_to(a, tuple(shape))


@converts("Fill", sizes=(0,))
def fill(shape: Sequence[Any], value: Data) -> Any:
    return dnp.broadcast_to(value, tuple(shape))


@converts("Tile", sizes=(1,))
def tile(a: Data, multiples: Sequence[Any]) -> Any:
    return lax.tile(a, multiples)


@converts("Pack")
def pack(*values: Data, axis: int = 0) -> Any:
    return dnp.stack(values, axis=axis)


@converts("Unpack")
def unpack(a: Data, *, num: int, axis: int = 0) -> Any:
    a._trace.here.demand(RelKind.EQ, a.dims[axis], num, f"tf.unstack gives {num} parts of axis {axis}")
    return [lax.index_in_dim(a, number, axis % rank_of(a), keepdims=False) for number in range(num)]


@converts("ConcatV2", numbers=(-1,))
def concat(*values: Any) -> Any:
    return dnp.concatenate(values[:-1], axis=int(values[-1]))


@converts("Split", numbers=(0,))
def split(axis: Any, a: Data, *, num_split: int) -> Any:
    axis = int(axis) % rank_of(a)
    text = f"tf.split cuts axis {axis} into {num_split} parts of one size"
    a._trace.here.demand(RelKind.EQ, mod(a.dims[axis], num_split), 0, text)
    return lax.split(a, [a.shape[axis] // num_split] * num_split, axis)


@converts("SplitV", sizes=(1,), numbers=(2,))
def split_v(a: Data, sizes: Sequence[Any], axis: Any, *, num_split: int) -> Any:
    axis = int(axis) % rank_of(a)
    if len(sizes) != num_split:
        raise ShapeError(f"tf.split into {num_split} parts by {len(sizes)} sizes.", loc=user_loc())
    known = [size for size in sizes if not (isinstance(size, int) and size < 0)]
    total = unwrap_dim(sum(known))
    text = f"the parts that tf.split cuts axis {axis} into are all of it"
    kind = RelKind.EQ if len(known) == len(sizes) else RelKind.GE
    a._trace.here.demand(kind, a.dims[axis], 0 if total is None else total, text)
    if len(known) < len(sizes):
        rest = a.shape[axis] - sum(known)
        sizes = [rest if isinstance(size, int) and size < 0 else size for size in sizes]
    return lax.split(a, sizes, axis)


@takes_call("Pad", "PadV2")
def pad(call: Any) -> Any:
    a = call.value(0)
    value = call.value(2) if len(call.inputs) > 2 else dnp.zeros((), dtype=a.dtype)
    return lax.pad(a, value, [(low, high, 0) for low, high in pairs_of(call, 1)])


def pairs_of(call: Any, number: int) -> list[tuple[Any, Any]]:
    """An input of two columns, as pairs of sizes."""
    value: Any = call.inputs[number]
    if not is_known(value):
        rows = value.dims[0]
        if not isinstance(rows, int):
            raise UnsupportedOpError(f"input {number} of {call.node.op} does not say how many sizes it has.")
        return [(lax.as_dim(value[row, 0]), lax.as_dim(value[row, 1])) for row in range(rows)]
    found = elements_of(value)
    faces = [wrap_dim(call.trace, one.item() if isinstance(one, np.generic) else one) for one in found.flat]
    return list(zip(faces[::2], faces[1::2], strict=True))


@takes_call("MirrorPad", attrs=["mode"])
def mirror_pad(call: Any) -> Any:
    mode = {"REFLECT": "reflect", "SYMMETRIC": "symmetric"}[call.attr("mode")]
    return dnp.pad(call.value(0), pairs_of(call, 1), mode=mode)


@takes_call("MirrorPadGrad", attrs=["mode"])
def mirror_pad_grad(call: Any) -> Any:
    cotangent, pairs = call.value(0), pairs_of(call, 1)
    mode = {"REFLECT": "reflect", "SYMMETRIC": "symmetric"}[call.attr("mode")]
    sizes = [size - low - high for size, (low, high) in zip(cotangent.shape, pairs, strict=True)]
    zeros = dnp.zeros(tuple(sizes), dtype=cotangent.dtype)
    return vjp(lambda a: dnp.pad(a, pairs, mode=mode), zeros)[1](cotangent)[0]


@converts("ReverseV2", numbers=(1,))
def reverse(a: Data, axes: Any) -> Any:
    return dnp.flip(a, axis=tuple(map(int, axes))) if axes.size else a


@takes_call("Slice")
def slice_of(call: Any) -> Any:
    """A size below 0 is what is left from the start on, also where either is computed by the program."""
    a = call.value(0)
    starts, sizes = _vector(call, 1), _vector(call, 2)
    for axis, (whole, start, size) in enumerate(zip(a.shape, starts, sizes, strict=True)):
        if isinstance(size, Tracer):
            sizes[axis] = lax.as_dim(dnp.where(dnp.less(size, 0), dnp.asarray(whole) - start, size))
        elif isinstance(size, int) and size == -1:
            starts[axis] = lax.as_dim(start) if isinstance(start, Tracer) else start
            sizes[axis] = whole - starts[axis]
    if any(isinstance(start, Tracer) for start in starts):
        return lax.dynamic_slice(a, starts, sizes)
    return lax.slice(a, starts, [start + size for start, size in zip(starts, sizes, strict=True)])


@takes_call("StridedSlice", attrs=MASKS)
def strided_slice(call: Any) -> Any:
    return call.value(0)[subscript(call)]


def subscript(call: Any, first: int = 1) -> tuple[Any, ...]:
    """The subscript of an operation whose vectors are the inputs from ``first`` on."""
    masks = [call.attr(name) for name in MASKS]
    begin, end, strides = [_vector(call, first + number) for number in range(3)]
    return Subscripts.of(begin, end, strides, masks).as_index()


def _vector(call: Any, number: int) -> list[Any]:
    """Places of a subscript: numbers and dims, or scalars that the program computes."""
    value: Any = call.inputs[number]
    if is_known(value):
        return [wrap_dim(call.trace, one) if is_symbolic(one) else int(one) for one in elements_of(value)]
    count = value.dims[0]
    if not isinstance(count, int):
        raise UnsupportedOpError(f"{call.node.op} with a subscript of an unknown number of parts.")
    return [value[axis] for axis in range(count)]


@takes_call("Range")
def range_(call: Any) -> Any:
    dtype = known_dtype(call.attr("Tidx")).np
    if dtype.kind not in "iu" and not all(map(is_known, call.inputs)):
        start, limit, delta = call.values()
        count = lax.as_dim(dnp.ceil(dnp.abs((limit - start) / delta)).astype("int64"))
        return dnp.arange(count).astype(dtype) * delta + start
    if not (is_known(call.inputs[0]) and is_known(call.inputs[2])):  # which may be negative, as no size is
        start, limit, delta = call.values()
        moves = lax.as_dim((delta != 0).astype("int64"))
        call.trace.demand(RelKind.EQ, unwrap_dim(moves), 1, "tf.range goes in steps other than 0")
        away = lax.as_dim((dnp.where(delta > 0, start > limit, start < limit)).astype("int64"))
        call.trace.demand(RelKind.EQ, unwrap_dim(away), 0, "the steps of tf.range lead from its start to its limit")
        return dnp.arange(start, limit, delta, dtype=dtype)
    start, limit, delta = map(call.sizes, range(3))
    step = unwrap_dim(delta)
    trace = current_trace()
    if isinstance(step, SymExpr) and trace is not None and trace.facts.ge(step, 0).proved:
        count = (limit - start + delta - 1) // max_dim(delta, 1)
        return (dnp.arange(max_dim(count, 0)) * delta + start).astype(dtype)
    return dnp.arange(start, limit, delta, dtype=dtype)


@takes_call("Roll")
def roll(call: Any) -> Any:
    """Elements moved along axes, those that leave at one end to the other; how far may be computed."""
    a, axes = call.value(0), [int(axis) for axis in call.numbers(2).reshape(-1)]
    if isinstance(call.inputs[1], np.ndarray):
        return dnp.roll(a, tuple(map(int, call.numbers(1).reshape(-1))), axis=tuple(axes))
    moves = dnp.reshape(call.value(1), (-1,)).astype("int64")
    for number, axis in enumerate(axes):
        size = a.shape[axis]
        a = dnp.take(a, dnp.remainder(dnp.arange(size) - moves[number], max_dim(size, 1)), axis=axis)
    return a


@converts("Empty", sizes=(0,))
def empty(shape: Any, *, dtype: str) -> Any:
    """Elements of any value: zeros, whether they are asked for or not."""
    return dnp.zeros(tuple(shape), dtype=known_dtype(dtype).np)
