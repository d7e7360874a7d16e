"""Arithmetic of shapes: what operations do with integers that are known while the graph is read, dims among them.

The same operations on data are in the other modules. Each fold takes arrays of numbers or of dims and conditions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn.errors import ShapeError, UnsupportedOpError
from dyn.interop.converters import Typed
from dyn.interop.sizes.folds import (
    as_array,
    condition,
    converted,
    counted,
    exact,
    filled,
    is_plain_integers,
    plain,
    quotient,
    reduced,
    reshaped,
    selected,
    taken,
)
from dyn.interop.sizes.values import Array, boxed, elements_of, is_known, is_symbolic, settled, vector
from dyn.interop.tf.converter_registry import folds, takes_call
from dyn.interop.tf.subscripts import Subscripts
from dyn.interop.tf.values import Reductions, known_dtype
from dyn.shapes import (
    Dim,
    broadcast,
    product,
)
from dyn.source import user_loc

ASKS_FOR_OTHERS = True


def _exact(name: str, function: str) -> None:
    @folds(name)
    def fold(*arrays: Array, T: str) -> Any:  # TensorFlow's name
        return exact(function, *arrays, dtype=T)


for _name, _function in {
    "Add": "add", "AddV2": "add", "Sub": "subtract", "Mul": "multiply", "Neg": "negate", "FloorDiv": "floor_divide",
    "FloorMod": "remainder", "Maximum": "maximum", "Minimum": "minimum",
}.items():  # fmt: skip
    _exact(_name, _function)


def _condition(name: str, function: str) -> None:
    def fold(*arrays: Array) -> Any:
        return condition(function, *arrays)

    def compare(a: Array, b: Array, *, incompatible_shape_error: bool = True) -> Any:
        is_one = not incompatible_shape_error and not _broadcasts(a.shape, b.shape)
        return NotImplemented if is_one else fold(a, b)

    folds(name, dtype="bool")(compare if name in ("Equal", "NotEqual") else fold)


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(1 in {x, y} or x == y for x, y in pairs)


for _name, _function in {
    "Equal": "equal", "NotEqual": "not_equal", "Less": "less", "LessEqual": "less_equal", "Greater": "greater",
    "GreaterEqual": "greater_equal", "LogicalAnd": "logical_and", "LogicalOr": "logical_or",
    "LogicalNot": "logical_not",
}.items():  # fmt: skip
    _condition(_name, _function)


@folds("Div", "TruncateDiv")
def truncate_div(a: Array, b: Array) -> Any:
    return quotient(a, b)


@folds("Cast", dtype="DstT")
def cast(a: Array, *, DstT: str, Truncate: bool = False) -> Any:  # TensorFlow's names
    return NotImplemented if Truncate else converted(a, known_dtype(DstT))


@folds("Pack")
def pack(*arrays: Array, axis: int = 0) -> Array:
    return np.stack(arrays, axis)


@folds("ConcatV2")
def concat(*arrays: Array) -> Array:
    return np.concatenate(arrays[:-1], int(arrays[-1]))


@folds("Unpack")
def unpack(a: Array, *, num: int, axis: int = 0) -> Any:
    return [as_array(one) for one in np.moveaxis(a, axis, 0)] if a.shape[axis] == num else NotImplemented


@folds("StridedSlice")
def strided_slice(
    a: Array, begin: Array, end: Array, strides: Array, *, begin_mask: int = 0, end_mask: int = 0,
    ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0,
) -> Any:  # fmt: skip
    if any(map(is_symbolic, [*begin.flat, *end.flat, *strides.flat])):
        return NotImplemented
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    return as_array(a[Subscripts.of(begin.tolist(), end.tolist(), strides.tolist(), masks).as_index()])


@folds("Slice")
def slice_(a: Array, begin: Array, size: Array) -> Any:
    if any(map(is_symbolic, [*begin.flat, *size.flat])):
        return NotImplemented
    index = [slice(int(b), None if s < 0 else int(b + s)) for b, s in zip(begin, size, strict=True)]
    return as_array(a[tuple(index)])


@folds("GatherV2", dtype="Tparams")
def gather(a: Array, indices: Array, axis: Array, *, batch_dims: int = 0) -> Any:
    return NotImplemented if batch_dims else taken(a, indices, int(axis))


@folds("Reshape")
def reshape(a: Array, shape: Array) -> Any:
    return reshaped(a, shape)


@folds("ExpandDims")
def expand_dims(a: Array, axis: Array) -> Array:
    return np.expand_dims(a, int(axis.reshape(-1)[0]))


@folds("Squeeze")
def squeeze(a: Array, *, squeeze_dims: list[int] | None = None) -> Array:
    return as_array(np.squeeze(a, tuple(squeeze_dims) if squeeze_dims else None))


@folds("Split")
def split(axis: Array, a: Array, *, num_split: int) -> Any:
    return list(np.split(a, num_split, int(axis))) if a.shape[int(axis)] % num_split == 0 else NotImplemented


@folds("SplitV")
def split_v(a: Array, sizes: Array, axis: Array, *, num_split: int) -> Any:
    if any(map(is_symbolic, sizes.flat)) or any(n < 0 for n in sizes) or len(sizes) != num_split:
        return NotImplemented
    if sum(sizes) != a.shape[int(axis)]:
        return NotImplemented
    return list(np.split(a, np.cumsum(sizes.astype(int))[:-1], int(axis)))


@folds("Fill")
def fill(shape: Array, value: Array) -> Any:
    return filled(shape, value)


@folds("Tile")
def tile(a: Array, multiples: Array) -> Any:
    return NotImplemented if multiples.dtype == object else np.tile(a, multiples)


@folds("ZerosLike")
def zeros_like(a: Array) -> Any:
    return np.zeros(a.shape, np.int64) if is_plain_integers(a) else NotImplemented


@folds("OnesLike")
def ones_like(a: Array) -> Any:
    return np.ones(a.shape, np.int64) if is_plain_integers(a) else NotImplemented


@folds("DynamicStitch", "ParallelDynamicStitch")
def dynamic_stitch(*arrays: Array) -> Any:
    """Rows by their numbers: of several with one number the last."""
    places, values = arrays[: len(arrays) // 2], arrays[len(arrays) // 2 :]
    if any(one.dtype == object for one in places) or any(a.ndim != b.ndim for a, b in zip(places, values, strict=True)):
        return NotImplemented
    rows: dict[int, Any] = {}
    for numbers, elements in zip(places, values, strict=True):
        rows.update(zip(map(int, numbers.flat), elements.flat, strict=True))
    return vector([rows[number] for number in sorted(rows)])


@folds("Range", dtype="Tidx")
def range_(start: Array, limit: Array, delta: Array) -> Any:
    return counted(start, limit, delta)


@folds("ListDiff")
def list_diff(a: Array, b: Array, *, out_idx: str = "int32") -> Any:
    """The elements of a that are not in b, and their places."""
    if object in {a.dtype, b.dtype}:
        return NotImplemented
    places = np.flatnonzero(~np.isin(a, b))
    return [a[places], Typed(places, out_idx)]


def _reduced(name: str, function: str) -> None:
    @folds(name)
    def fold(a: Array, axes: Array, *, keep_dims: bool = False) -> Any:
        if a.ndim > 1 or axes.dtype == object or not is_plain_integers(a):
            return NotImplemented
        return reduced(function, a, keepdims=keep_dims) if axes.size else a


for _name, _function in {"Prod": "prod", "Sum": "sum", "Max": "max", "Min": "min"}.items():
    _reduced(_name, _function)


@folds("SelectV2", "Select")
def select(condition: Array, a: Array, b: Array) -> Any:
    return selected(condition, a, b)


# ---- shapes of data --------------------------------------------------------------------------------------------------


@takes_call("Shape", attrs=["out_type"])
def shape(call: Any) -> Any:
    return settled(vector(call.dims(0)), known_dtype(call.attr("out_type")))


@takes_call("ShapeN", attrs=["out_type"])
def shape_n(call: Any) -> Any:
    dtype = known_dtype(call.attr("out_type"))
    return [settled(vector(call.dims(number)), dtype) for number in range(len(call.inputs))]


@takes_call("Size", attrs=["out_type"])
def size(call: Any) -> Any:
    return settled(boxed(product(call.dims(0))), known_dtype(call.attr("out_type")))


@takes_call("Rank")
def rank(call: Any) -> Any:
    return np.array(len(call.dims(0)), np.int32)


def _shapes(call: Any) -> list[tuple[Dim, ...]] | None:
    """Inputs that are shapes; None where the program computes one."""
    if not all(map(is_known, call.inputs)):
        return None
    return [tuple([plain(one) for one in elements_of(value)]) for value in call.inputs]


@takes_call("BroadcastArgs")
def broadcast_args(call: Any) -> Any:
    a, b = _shapes(call) or ((), ())
    rank = max(len(a), len(b))
    wide = [(*[1] * (rank - len(one)), *one) for one in (a, b)]
    dims = [broadcast(x, y) for x, y in zip(*wide, strict=True)]
    return settled(vector(dims), known_dtype(call.attr("T")))


@takes_call("BroadcastGradientArgs")
def broadcast_gradient_args(call: Any) -> Any:
    """The axes that a gradient of a broadcast is summed over, for each operand, or what it takes to find them."""
    shapes = _shapes(call)
    if shapes is None:
        raise UnsupportedOpError("a broadcast whose shapes the program computes, in a gradient.")
    a, b = shapes
    return [Reductions(a, b), Reductions(b, a)]


@takes_call("InvertPermutation")
def invert_permutation(call: Any) -> Any:
    if not isinstance(call.inputs[0], np.ndarray):
        places = call.value(0)
        return dnp.argsort(places).astype(places.dtype)
    return np.argsort(call.numbers(0)).astype(call.attr("T"))


@takes_call("EnsureShape", attrs=["shape"])
def ensure_shape(call: Any) -> Any:
    asserted, value = call.attr("shape"), call.inputs[0]
    if asserted is not None:
        if len(asserted) != len(call.dims(0)):
            raise ShapeError(
                f"{call.node.name}: a tensor of rank {len(call.dims(0))}, and tf.ensure_shape says {asserted}.",
                loc=user_loc(),
            )
        call.evaluation.claim(value, asserted)
    return value


@folds("ConcatOffset", dtype="shape_type")
def concat_offset(axis: Array, *shapes: Array) -> list[Array]:
    """Where each array begins in what they are joined to."""
    offsets: list[Array] = []
    start: Any = 0
    for shape in shapes:
        offset = np.zeros(len(shape), object)
        offset[int(axis)] = start
        offsets.append(offset)
        start = start + plain(shape[int(axis)])
    return offsets
