"""Arithmetic of shapes: what operations do with integers that are known while the graph is read, dims among them.

The same operations on data are in the other modules. Each fold takes arrays of numbers or of dims and conditions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn.errors import ShapeError, UnsupportedOpError
from dyn.interop import conditions
from dyn.interop.tf.converter_registry import Typed, folds, takes_call
from dyn.interop.tf.subscripts import Subscripts
from dyn.interop.tf.values import (
    Array,
    Reductions,
    boxed,
    each,
    elements_of,
    is_known,
    is_symbolic,
    known_dtype,
    settled,
    vector,
)
from dyn.shapes import (
    Dim,
    Reason,
    Relation,
    RelKind,
    SymExpr,
    broadcast,
    dim_max,
    dim_min,
    floordiv,
    free_symbols,
    mod,
    product,
)
from dyn.source import user_loc
from dyn.trace.context import current_trace

ASKS_FOR_OTHERS = True

#: Larger constants are not computed with while a graph is read.
_MOST = 1 << 16


def _is_integer(*arrays: Array) -> bool:
    return all(array.dtype == object or array.dtype.kind in "iub" for array in arrays)


#: A size times a greater number than that may be beyond 32 bits, in which TensorFlow's integers wrap.
_MOST_TIMES = 1 << 16


def _exact(name: str, function: Callable[..., Any]) -> None:
    """A fold of integers, one element of each operand; floats are left to the program, and what wraps in this call."""
    run = each(function)

    @folds(name)
    def fold(*arrays: Array, T: str) -> Any:  # TensorFlow's name
        if not _is_integer(*arrays) or any(one.size > _MOST for one in arrays):
            return NotImplemented
        made = run(*arrays)
        return made if all(_fits(one, T) for one in made.flat) else NotImplemented


def _fits(element: Any, dtype: str) -> bool:
    """Whether a number, or a size in this call, is what it is in a dtype, too: guarded where that is a question.

    Products of sizes alone are taken for sizes: what has as many elements is no array of TensorFlow's.
    """
    if not isinstance(element, SymExpr):
        return True
    trace, limits = current_trace(), np.iinfo(dtype)
    numbers = [element.constant, *[coefficient for _, coefficient in element.terms]]
    if trace is None or limits.bits > 32 or max(map(abs, numbers)) <= _MOST_TIMES:
        return True
    least, most = int(limits.min), int(limits.max)
    inside = conditions.joined(True, conditions.ordered("<=", element, most), conditions.ordered(">=", element, least))
    known = conditions.known(inside, trace)
    if known is not None:
        return known
    is_of_call = not any(symbol.data_dependent for symbol in free_symbols(element))
    return is_of_call and conditions.decide(inside, trace)


def _nonzero(divisor: Dim) -> None:
    trace = current_trace()
    if isinstance(divisor, int):
        if divisor == 0:
            raise ShapeError("a size is divided by 0.", loc=user_loc())
    elif trace is not None:
        trace.require(Relation(RelKind.NONZERO, divisor, 0, Reason("a size is divided by it", user_loc())))


def _floordiv(a: Dim, b: Dim) -> Dim:
    _nonzero(b)
    return floordiv(a, b)


def _mod(a: Dim, b: Dim) -> Dim:
    _nonzero(b)
    return mod(a, b)


def _is_at_least_0(*dims: Dim) -> bool:
    trace = current_trace()
    return trace is not None and all(trace.facts.ge(dim, 0).proved for dim in dims)


for _name, _function in {
    "Add": lambda a, b: a + b, "AddV2": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
    "Neg": lambda a: -a, "FloorDiv": _floordiv, "FloorMod": _mod, "Maximum": dim_max, "Minimum": dim_min,
}.items():  # fmt: skip
    _exact(_name, _function)

_CONDITIONS: dict[str, Callable[..., Any]] = {
    "Equal": conditions.equal, "NotEqual": lambda a, b: conditions.negated(conditions.equal(a, b)),
    "Less": lambda a, b: conditions.ordered("<", a, b), "LessEqual": lambda a, b: conditions.ordered("<=", a, b),
    "Greater": lambda a, b: conditions.ordered(">", a, b), "GreaterEqual": lambda a, b: conditions.ordered(">=", a, b),
    "LogicalAnd": lambda a, b: conditions.joined(True, a, b), "LogicalOr": lambda a, b: conditions.joined(False, a, b),
    "LogicalNot": conditions.negated,
}  # fmt: skip


def _plain(element: Any) -> Any:
    return element.item() if isinstance(element, np.generic) else element


def _condition(name: str, function: Callable[..., Any]) -> None:
    def decided(*elements: Any) -> Any:
        made, trace = function(*map(_plain, elements)), current_trace()
        if isinstance(made, bool) or trace is None:
            return made
        known = conditions.known(made, trace)
        return made if known is None else known

    run = each(decided)

    def fold(*arrays: Array) -> Any:
        # A number of T "bool" is no dim.
        if not _is_integer(*arrays) or any(one.size > _MOST for one in arrays):
            return NotImplemented
        if not name.startswith("Logical") and any(_has_conditions(one) for one in arrays):
            return NotImplemented
        made = run(*arrays)
        return boxed(made.item()) if made.ndim == 0 else made

    def compare(a: Array, b: Array, *, incompatible_shape_error: bool = True) -> Any:
        is_one = not incompatible_shape_error and not _broadcasts(a.shape, b.shape)
        return NotImplemented if is_one else fold(a, b)

    folds(name, dtype="bool")(compare if name in ("Equal", "NotEqual") else fold)


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(1 in {x, y} or x == y for x, y in pairs)


def _has_conditions(array: Array) -> bool:
    return array.dtype.kind == "b" or (
        array.dtype == object
        and any(isinstance(one, bool | conditions.Comparison | conditions.Junction) for one in array.flat)
    )


for _name, _function in _CONDITIONS.items():
    _condition(_name, _function)


@folds("Div", "TruncateDiv")
def truncate_div(a: Array, b: Array) -> Any:
    if not _is_integer(a, b):
        return NotImplemented
    if all(_is_at_least_0(_plain(one)) for one in (*a.flat, *b.flat)):
        return each(_floordiv)(a, b)
    return NotImplemented


@folds("Cast", dtype="DstT")
def cast(a: Array, *, DstT: str, Truncate: bool = False) -> Any:  # TensorFlow's names
    if Truncate:
        return NotImplemented
    wanted = known_dtype(DstT)
    if a.dtype != object:
        kinds = a.dtype.kind, np.dtype(wanted.np).kind
        return a.astype(wanted.np) if all(kind in "iub" for kind in kinds) else NotImplemented
    if not wanted.is_integer or _has_conditions(a) or np.iinfo(wanted.np).bits < 32:  # there it may wrap
        return NotImplemented
    is_signed = np.dtype(wanted.np).kind == "i"
    return a if is_signed or _is_at_least_0(*map(_plain, a.flat)) else NotImplemented


@folds("Pack")
def pack(*arrays: Array, axis: int = 0) -> Array:
    return np.stack(arrays, axis)


@folds("ConcatV2")
def concat(*arrays: Array) -> Array:
    return np.concatenate(arrays[:-1], int(arrays[-1]))


@folds("Unpack")
def unpack(a: Array, *, num: int, axis: int = 0) -> Any:
    return [_array(one) for one in np.moveaxis(a, axis, 0)] if a.shape[axis] == num else NotImplemented


def _array(value: Any) -> Array:
    return value if isinstance(value, np.ndarray) else boxed(value)


@folds("StridedSlice")
def strided_slice(
    a: Array, begin: Array, end: Array, strides: Array, *, begin_mask: int = 0, end_mask: int = 0,
    ellipsis_mask: int = 0, new_axis_mask: int = 0, shrink_axis_mask: int = 0,
) -> Any:  # fmt: skip
    if any(map(is_symbolic, [*begin.flat, *end.flat, *strides.flat])):
        return NotImplemented
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    return _array(a[Subscripts.of(begin.tolist(), end.tolist(), strides.tolist(), masks).as_index()])


@folds("Slice")
def slice_(a: Array, begin: Array, size: Array) -> Any:
    if any(map(is_symbolic, [*begin.flat, *size.flat])):
        return NotImplemented
    index = [slice(int(b), None if s < 0 else int(b + s)) for b, s in zip(begin, size, strict=True)]
    return _array(a[tuple(index)])


@folds("GatherV2", dtype="Tparams")
def gather(a: Array, indices: Array, axis: Array, *, batch_dims: int = 0) -> Any:
    if batch_dims or indices.dtype == object:
        return NotImplemented
    return _array(np.take(a, indices, int(axis)))


@folds("Reshape")
def reshape(a: Array, shape: Array) -> Any:
    return NotImplemented if any(map(is_symbolic, shape.flat)) else np.reshape(a, shape.astype(int))


@folds("ExpandDims")
def expand_dims(a: Array, axis: Array) -> Array:
    return np.expand_dims(a, int(axis.reshape(-1)[0]))


@folds("Squeeze")
def squeeze(a: Array, *, squeeze_dims: list[int] | None = None) -> Array:
    return _array(np.squeeze(a, tuple(squeeze_dims) if squeeze_dims else None))


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
    if any(map(is_symbolic, shape.flat)) or np.prod(shape.astype(float)) > _MOST:
        return NotImplemented
    return boxed(value.item(), shape.tolist()) if value.dtype == object else np.full(shape.astype(int), value)


@folds("Tile")
def tile(a: Array, multiples: Array) -> Any:
    return NotImplemented if multiples.dtype == object else np.tile(a, multiples)


@folds("ZerosLike")
def zeros_like(a: Array) -> Any:
    return (
        np.zeros(a.shape, np.int64) if _is_integer(a) and a.size <= _MOST and not _has_conditions(a) else NotImplemented
    )


@folds("OnesLike")
def ones_like(a: Array) -> Any:
    return (
        np.ones(a.shape, np.int64) if _is_integer(a) and a.size <= _MOST and not _has_conditions(a) else NotImplemented
    )


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
    if any(one.dtype.kind not in "iu" for one in (start, limit, delta)):
        return NotImplemented
    made = np.arange(int(start), int(limit), int(delta))
    return made if made.size <= _MOST else NotImplemented


@folds("ListDiff")
def list_diff(a: Array, b: Array, *, out_idx: str = "int32") -> Any:
    """The elements of a that are not in b, and their places."""
    if object in {a.dtype, b.dtype}:
        return NotImplemented
    places = np.flatnonzero(~np.isin(a, b))
    return [a[places], Typed(places, out_idx)]


@folds("Prod")
def prod(a: Array, axes: Array, *, keep_dims: bool = False) -> Any:
    return _reduced(product, a, axes, keep_dims)


@folds("Sum")
def sum_(a: Array, axes: Array, *, keep_dims: bool = False) -> Any:
    return _reduced(lambda elements: sum(elements, 0), a, axes, keep_dims)


@folds("Max")
def max_(a: Array, axes: Array, *, keep_dims: bool = False) -> Any:
    return _reduced(lambda elements: dim_max(*elements), a, axes, keep_dims)


@folds("Min")
def min_(a: Array, axes: Array, *, keep_dims: bool = False) -> Any:
    return _reduced(lambda elements: dim_min(*elements), a, axes, keep_dims)


def _reduced(function: Callable[[list[Any]], Any], a: Array, axes: Array, keep_dims: bool) -> Any:
    """A fold of a vector, or of no axes at all."""
    if not _is_integer(a) or _has_conditions(a) or a.ndim > 1 or axes.dtype == object:
        return NotImplemented
    if not axes.size:
        return a
    if a.ndim != 1 or not a.size:
        return NotImplemented
    made = boxed(function([_plain(one) for one in a]))
    return made.reshape(1) if keep_dims else made


@folds("SelectV2", "Select")
def select(condition: Array, a: Array, b: Array) -> Any:
    if condition.dtype == object or not _is_integer(a, b):
        return NotImplemented
    return _array(np.where(condition, a, b))


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
    return [tuple([_plain(one) for one in elements_of(value)]) for value in call.inputs]


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
        start = start + _plain(shape[int(axis)])
    return offsets
