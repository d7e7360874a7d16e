"""Arithmetic of shapes: what operations do with integers that are known while the graph is read, dims among them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import dtypes
from dyn.errors import UnsupportedOpError
from dyn.interop.onnx.evaluation import folds, takes_call
from dyn.interop.onnx.graphs import dtype_of
from dyn.interop.sizes.folds import (
    as_array,
    condition,
    converted,
    counted,
    exact,
    filled,
    is_integer,
    is_plain_integers,
    quotient,
    reduced,
    reshaped,
    selected,
    taken,
)
from dyn.interop.sizes.values import Array, boxed, is_symbolic, settled, vector
from dyn.shapes import product

_INT64 = "int64"


def _exact(name: str, function: str) -> None:
    @folds(name)
    def fold(*arrays: Array, dtype: Any) -> Any:
        made = exact(function, arrays[0], dtype=dtype) if function == "negate" else arrays[0]
        for other in arrays[1:]:
            made = made if made is NotImplemented else exact(function, made, other, dtype=dtype)
        return made


for _name, _function in {
    "Add": "add", "Sub": "subtract", "Mul": "multiply", "Neg": "negate", "Max": "maximum", "Min": "minimum",
    "Sum": "add",
}.items():  # fmt: skip
    _exact(_name, _function)


@folds("Mod")
def modulo(a: Array, b: Array, *, dtype: Any, fmod: int = 0) -> Any:
    return NotImplemented if fmod else exact("remainder", a, b, dtype=dtype)


@folds("Clip")
def clip(a: Array, low: Array | None = None, high: Array | None = None, *, dtype: Any) -> Any:
    made = a if low is None else exact("maximum", a, low, dtype=dtype)
    return made if high is None or made is NotImplemented else exact("minimum", made, high, dtype=dtype)


@folds("Abs")
def absolute(a: Array, *, dtype: Any) -> Any:
    negative = exact("negate", a, dtype=dtype)
    return negative if negative is NotImplemented else exact("maximum", a, negative, dtype=dtype)


@folds("Split")
def split(a: Array, sizes: Array | None = None, *, axis: int = 0, num_outputs: int | None = None) -> Any:
    if sizes is None or any(map(is_symbolic, sizes.flat)) or sizes.sum() != a.shape[axis]:
        return NotImplemented
    return list(np.split(a, np.cumsum(sizes.astype(int))[:-1], axis))


@folds("Div")
def divide(a: Array, b: Array) -> Any:
    return quotient(a, b)


def _condition(name: str, function: str) -> None:
    @folds(name, dtype="bool")
    def fold(*arrays: Array) -> Any:
        return condition(function, *arrays)


for _name, _function in {
    "Equal": "equal", "Less": "less", "LessOrEqual": "less_equal", "Greater": "greater",
    "GreaterOrEqual": "greater_equal", "And": "logical_and", "Or": "logical_or", "Not": "logical_not",
}.items():  # fmt: skip
    _condition(_name, _function)


@folds("Cast", dtype="to")
def cast(a: Array, *, to: int) -> Any:
    return converted(a, dtype_of(to))


@folds("Identity")
def identity(a: Array) -> Any:
    return a


@folds("Where", dtype="T1")
def where(condition: Array, a: Array, b: Array) -> Any:
    return selected(condition, a, b)


@folds("Concat")
def concat(*arrays: Array, axis: int) -> Any:
    return np.concatenate(arrays, axis)


@folds("Unsqueeze")
def unsqueeze(a: Array, axes: Array) -> Any:
    return np.expand_dims(a, tuple(map(int, axes.reshape(-1))))


@folds("Squeeze")
def squeeze(a: Array, axes: Array | None = None) -> Any:
    return as_array(np.squeeze(a, None if axes is None else tuple(map(int, axes))))


@folds("Reshape")
def reshape(a: Array, shape: Array, *, allowzero: int = 0) -> Any:
    if any(map(is_symbolic, shape.flat)):
        return NotImplemented
    sizes = [a.shape[n] if size == 0 and not allowzero else size for n, size in enumerate(shape.tolist())]
    return reshaped(a, np.array(sizes, np.int64))


@folds("Transpose")
def transpose(a: Array, *, perm: list[int] | None = None) -> Any:
    return np.transpose(a, perm)


@folds("Gather")
def gather(a: Array, places: Array, *, axis: int = 0) -> Any:
    return taken(a, places, axis)


@folds("Slice")
def slice_(a: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None) -> Any:
    given = [starts, ends, *[one for one in (axes, steps) if one is not None]]
    if any(is_symbolic(one) for array in given for one in array.flat):
        return NotImplemented
    index: list[Any] = [slice(None)] * a.ndim
    numbers = range(len(starts)) if axes is None else axes.tolist()
    strides = [1] * len(starts) if steps is None else steps.tolist()
    for axis, start, end, step in zip(numbers, starts.tolist(), ends.tolist(), strides, strict=True):
        size = a.shape[axis]
        if step < 0:  # unlike Python, ONNX begins at the first element where the start lies before it
            start = max(start, -size)
            index[axis] = slice(start, None if end < -size else end, step)
        else:
            index[axis] = slice(start, end, step)
    return as_array(a[tuple(index)])


@takes_call("Constant", attrs=["value", "value_float", "value_floats", "value_int", "value_ints"])
def constant(call: Any) -> Any:
    for name, dtype in {
        "value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64,
    }.items():  # fmt: skip
        if (found := call.attribute(name)) is not None:
            return np.asarray(found, dtype)
    found = call.attribute("value")
    if found is None:
        raise UnsupportedOpError("a Constant of another kind than tensors, numbers and lists of numbers.")
    return found


@folds("ConstantOfShape", dtype=_INT64)
def constant_of_shape(shape: Array, *, value: Array | None = None) -> Any:
    """Of integers alone: other constants are data."""
    if value is None or value.dtype != np.int64:
        return NotImplemented
    return filled(shape, value.reshape(()))


@folds("Expand")
def expand(a: Array, shape: Array) -> Any:
    if not is_integer(a) or any(map(is_symbolic, shape.flat)):
        return NotImplemented
    return np.broadcast_to(a, np.broadcast_shapes(a.shape, tuple(map(int, shape))))


@folds("Tile")
def tile(a: Array, repeats: Array) -> Any:
    return NotImplemented if repeats.dtype == object or not is_integer(a) else np.tile(a, repeats)


@folds("Range")
def range_(start: Array, limit: Array, step: Array) -> Any:
    return counted(start, limit, step)


def _reduced(name: str, function: str) -> None:
    @folds(name)
    def fold(
        a: Array, given: Array | None = None, *, axes: list[int] | None = None, keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Any:  # fmt: skip
        named = axes if given is None else given.tolist()
        if not is_plain_integers(a) or not (named or not noop_with_empty_axes):
            return NotImplemented
        return reduced(function, a, keepdims=bool(keepdims))


for _name, _function in {"ReduceProd": "prod", "ReduceSum": "sum", "ReduceMax": "max", "ReduceMin": "min"}.items():
    _reduced(_name, _function)


# ---- shapes of data --------------------------------------------------------------------------------------------------


@takes_call("Shape", attrs=["start", "end"])
def shape(call: Any) -> Any:
    dims = call.dims(0)[slice(call.attribute("start", 0), call.attribute("end"))]
    return settled(vector(dims), dtypes.int64)


@takes_call("Size")
def size(call: Any) -> Any:
    return settled(boxed(product(call.dims(0))), dtypes.int64)
