"""Operations that move elements: shapes, slices, joins, padding."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import lax
from dyn.errors import ShapeError, UnsupportedOpError
from dyn.interop.converters import Data, axis_of, rank_of
from dyn.interop.onnx.evaluation import converts, takes_call
from dyn.interop.onnx.graphs import dtype_of
from dyn.interop.reshaping import reshaped
from dyn.interop.sizes.values import is_known
from dyn.shapes import Dim, RelKind, broadcast
from dyn.trace.dims import max_dim, unwrap_dim, wrap_dim


@takes_call("Reshape", attrs=["allowzero"])
def reshape(call: Any) -> Any:
    a, copies = call.value(0), not call.attribute("allowzero", 0)
    if not is_known(call.inputs[1]):
        return dnp.reshape(a, _found_out(call, a, copies))
    shape = call.sizes(1)
    if copies and any(isinstance(size, int) and size == 0 for size in shape[rank_of(a) :]):
        raise ShapeError(f"Reshape copies a size that {a.element_type.short}[…] of {rank_of(a)} axes has not.")
    return reshaped(a, [a.shape[n] if copies and isinstance(s, int) and s == 0 else s for n, s in enumerate(shape)])


def _found_out(call: Any, a: Data, copies: bool) -> tuple[Any, ...]:
    """A shape that the program computes: 0 is the size that is there, and -1 what is left for it."""
    shape = call.value(1).astype("int64")
    count = shape.dims[0]
    if not isinstance(count, int):
        raise UnsupportedOpError("Reshape to an unknown number of axes.")
    own = [dnp.asarray(size).astype("int64") for size in (*a.shape[:count], *[0] * (count - rank_of(a)))]
    sizes = [dnp.where(shape[n] == 0, own[n], shape[n]) if copies else shape[n] for n in range(count)]
    others = functools.reduce(dnp.multiply, [dnp.where(size == -1, 1, size) for size in sizes], dnp.asarray(1))
    left = dnp.asarray(a.size).astype("int64") // dnp.maximum(others, 1)
    return tuple([lax.as_dim(dnp.where(size == -1, left, size)) for size in sizes])


@converts("Flatten")
def flatten(a: Data, *, axis: int = 1) -> Any:
    at = axis + rank_of(a) if axis < 0 else axis
    return dnp.reshape(a, (math.prod(a.shape[:at]), math.prod(a.shape[at:])))


@converts("Squeeze", numbers=(1,))
def squeeze(a: Data, axes: Any = None) -> Any:
    if axes is not None:
        return dnp.squeeze(a, axis=tuple(map(int, axes)))
    sizes = [a._trace.facts.simplify(dim) for dim in a.dims]
    if any(not isinstance(size, int) for size in sizes):
        raise UnsupportedOpError("Squeeze without axes of a tensor of unknown sizes.", remedy="name the axes.")
    return dnp.squeeze(a, axis=tuple([axis for axis, size in enumerate(sizes) if size == 1]))


@converts("Unsqueeze", numbers=(1,))
def unsqueeze(a: Data, axes: Any) -> Any:
    return dnp.expand_dims(a, tuple(map(int, axes.reshape(-1))))


@converts("Transpose")
def transpose(a: Data, *, perm: Sequence[int] | None = None) -> Any:
    return dnp.transpose(a, perm)


@converts("Concat")
def concat(*values: Data, axis: int) -> Any:
    return dnp.concatenate(values, axis=axis)


@takes_call("Split", attrs=["axis", "num_outputs", "split"])
def split(call: Any) -> Any:
    """Parts of the sizes that are said, or as many of one size as there are results, of which the last may be less."""
    a = call.value(0)
    axis = axis_of(call.attribute("axis", 0), a)
    whole = a.shape[axis]
    sizes = call.sizes(1) if call.has(1) else call.attribute("split")
    if sizes is None:
        count = call.attribute("num_outputs", call.count)
        each = (whole + count - 1) // count
        sizes = [each] * (count - 1)
        sizes.append(whole - each * (count - 1))
    total = unwrap_dim(sum(sizes))
    text = f"the parts that Split cuts axis {axis} into are all of it"
    call.trace.demand(RelKind.EQ, a.dims[axis], 0 if total is None else total, text)
    return lax.split(a, sizes, axis)


#: An end beyond all axes: producers write the least integer, of 32 bits or of 64.
_FAR = (1 << 31) - 1


@takes_call("Slice")
def slice_(call: Any) -> Any:
    a, starts, ends = call.value(0), _places(call, 1), _places(call, 2)
    axes = [axis_of(int(n), a) for n in call.numbers(3).reshape(-1)] if call.has(3) else range(len(starts))
    steps = [int(n) for n in call.numbers(4).reshape(-1)] if call.has(4) else [1] * len(starts)
    index: list[Any] = [slice(None)] * rank_of(a)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step < 0 and isinstance(start, int) and start < -1:  # before the first element it is that one
            size = a.shape[axis]
            start = max(start + size, 0) if isinstance(size, int) else max_dim(max(start, -_FAR) + size, 0)
        is_last = step < 0 and isinstance(end, int) and end <= -_FAR
        index[axis] = slice(start, None if is_last else end, step)
    return a[tuple(index)]


def _places(call: Any, number: int) -> list[Any]:
    """Bounds of a slice: numbers and sizes, or scalars that the program computes."""
    value: Any = call.inputs[number]
    if is_known(value):
        found = call.sizes(number)
        return found if isinstance(found, list) else [found]
    count = value.dims[0]
    if not isinstance(count, int):
        raise UnsupportedOpError(f"{call.op} by an unknown number of bounds.")
    return [value[n] for n in range(count)]


@takes_call("Expand")
def expand(call: Any) -> Any:
    """Broadcast with a shape: sizes of either may be 1."""
    a, shape = call.value(0), call.sizes(1)
    rank = max(rank_of(a), len(shape))
    own, other = ([*[1] * (rank - len(one)), *one] for one in (a.shape, shape))
    sizes = [wrap_dim(call.trace, broadcast(as_dim(x), as_dim(y))) for x, y in zip(own, other, strict=True)]
    return dnp.broadcast_to(a, tuple(sizes))


def as_dim(size: Any) -> Dim:
    """The dim that a size of the trace stands for."""
    dim = unwrap_dim(size)
    assert dim is not None, "sizes are dims"
    return dim


@converts("Tile", sizes=(1,))
def tile(a: Data, repeats: Sequence[Any]) -> Any:
    return lax.tile(a, repeats)


@takes_call("Pad", attrs=["mode"])
def pad(call: Any) -> Any:
    """Elements before and behind, of axes that are counted in the fourth input or of all; negative ones are cut off."""
    a, mode = call.value(0), call.attribute("mode", "constant")
    given = call.sizes(1)
    axes = [axis_of(int(n), a) for n in call.numbers(3)] if call.has(3) else range(rank_of(a))
    pairs: list[tuple[Any, Any]] = [(0, 0)] * rank_of(a)
    for number, axis in enumerate(axes):
        pairs[axis] = given[number], given[number + len(given) // 2]
    if mode == "constant":
        value = dnp.reshape(call.value(2), ()) if call.has(2) else dnp.zeros((), dtype=a.dtype)
        return lax.pad(a, value.astype(a.dtype), [(low, high, 0) for low, high in pairs])
    if any(isinstance(n, int) and n < 0 for pair in pairs for n in pair):
        a = lax.pad(a, dnp.zeros((), dtype=a.dtype), [(_less(low), _less(high), 0) for low, high in pairs])
        pairs = [(_more(low), _more(high)) for low, high in pairs]
    return dnp.pad(a, pairs, mode=mode)


def _less(count: Any) -> Any:
    return min(count, 0) if isinstance(count, int) else 0


def _more(count: Any) -> Any:
    return max(count, 0) if isinstance(count, int) else count


@converts("DepthToSpace")
def depth_to_space(a: Data, *, blocksize: int, mode: str = "DCR") -> Any:
    n, channels, height, width = a.shape
    rest = channels // blocksize**2
    if mode == "DCR":
        made = dnp.reshape(a, (n, blocksize, blocksize, rest, height, width))
        made = dnp.transpose(made, (0, 3, 4, 1, 5, 2))
    else:
        made = dnp.reshape(a, (n, rest, blocksize, blocksize, height, width))
        made = dnp.transpose(made, (0, 1, 4, 2, 5, 3))
    return dnp.reshape(made, (n, rest, height * blocksize, width * blocksize))


@converts("SpaceToDepth")
def space_to_depth(a: Data, *, blocksize: int, mode: str = "DCR") -> Any:
    n, channels, height, width = a.shape
    rows, columns = height // blocksize, width // blocksize
    made = dnp.reshape(a, (n, channels, rows, blocksize, columns, blocksize))
    made = dnp.transpose(made, (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return dnp.reshape(made, (n, channels * blocksize**2, rows, columns))


@takes_call("Range")
def range_(call: Any) -> Any:
    if call.dtype(0).kind in "iu" and all(map(is_known, call.inputs)):
        start, limit, step = map(call.sizes, range(3))
        if isinstance(step, int):
            return dnp.arange(start, limit, step, dtype=call.dtype(0))
    start, limit, step = [dnp.reshape(one, ()) for one in call.values()]
    if call.dtype(0).kind in "iu":
        return dnp.arange(start, limit, step, dtype=call.dtype(0))
    count = lax.as_dim(dnp.maximum(dnp.ceil((limit - start) / step), 0).astype("int64"))
    return dnp.arange(count).astype(call.dtype(0)) * step + start


@takes_call("ConstantOfShape", attrs=["value"])
def constant_of_shape(call: Any) -> Any:
    value = call.attribute("value", np.zeros(1, np.float32))
    return dnp.broadcast_to(dnp.asarray(value.reshape(())), tuple(call.sizes(0)))


@takes_call("EyeLike", attrs=["dtype", "k"])
def eye_like(call: Any) -> Any:
    rows, columns = call.value(0).shape
    dtype = dtype_of(call.attribute("dtype")).np if call.attribute("dtype") else call.dtype(0)
    return dnp.eye(rows, columns, k=call.attribute("k", 0), dtype=dtype)


@takes_call("Trilu", attrs=["upper"])
def trilu(call: Any) -> Any:
    a, upper = call.value(0), call.attribute("upper", 1)
    if not call.has(1):
        return dnp.triu(a) if upper else dnp.tril(a)
    k = call.inputs[1]
    if isinstance(k, np.ndarray):
        return dnp.triu(a, int(k.reshape(()))) if upper else dnp.tril(a, int(k.reshape(())))
    diagonal = dnp.reshape(call.value(1), ())
    rows, columns = (lax.broadcasted_iota("int64", a.shape, axis) for axis in (rank_of(a) - 2, rank_of(a) - 1))
    keeps = columns - rows >= diagonal if upper else columns - rows <= diagonal
    return dnp.where(keeps, a, dnp.zeros_like(a))


@converts("ReverseSequence")
def reverse_sequence(a: Data, lengths: Data, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    """The first elements along one axis turned around, as many as the other axis says."""
    places = lax.broadcasted_iota("int64", a.shape, time_axis)
    shape: list[Any] = [1] * rank_of(a)
    shape[batch_axis] = a.shape[batch_axis]
    own = dnp.reshape(lengths.astype("int64"), tuple(shape))
    at = dnp.where(places < own, own - 1 - places, places)
    return dnp.take_along_axis(a, at, axis=time_axis)


@converts("CenterCropPad", sizes=(1,))
def center_crop_pad(a: Data, sizes: Sequence[Any], *, axes: Sequence[int] | None = None) -> Any:
    pads: list[tuple[Any, Any, int]] = [(0, 0, 0)] * rank_of(a)
    for axis, size in zip(range(rank_of(a)) if axes is None else axes, sizes, strict=True):
        own = a.shape[axis]
        if not isinstance(own, int) or not isinstance(size, int):
            more = max_dim(size - own, 0)
            less = max_dim(own - size, 0)
            pads[axis] = more // 2 - less // 2, more - more // 2 - (less - less // 2), 0
        elif size >= own:
            pads[axis] = (size - own) // 2, size - own - (size - own) // 2, 0
        else:
            pads[axis] = -((own - size) // 2), -(own - size - (own - size) // 2), 0
    return lax.pad(a, dnp.zeros((), dtype=a.dtype), pads)
