"""Shape arithmetic read back: small integer tensors whose elements are sizes, computed while a program is read.

Producers compute sizes with tensors: ``get_dimension_size``, products, divisions that round down, a concatenation that
a ``dynamic_reshape`` takes. Where the elements of an operation's operands are known (``elements``), so are those of its
result. Integers are those of their dtype; sizes are taken to fit. The operations are StableHLO's, and those of the
dialects ``arith``, ``tensor`` and ``shape`` that other producers compute sizes with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyn.dtypes import DType, Kind
from dyn.interop.sizes import elements
from dyn.interop.sizes.elements import ElementFunction, SizeQuery, UnknownError, each_element, reduce_elements
from dyn.interop.sizes.values import Array, boxed, each, vector
from dyn.interop.stablehlo.codecs.indexing import combine_of
from dyn.interop.stablehlo.hlo import HloOp
from dyn.shapes import Facts, product
from dyn.shapes import broadcast as broadcast_dims

#: What is not worth following.
LARGEST = 64


@dataclass(frozen=True, slots=True)
class FoldedOp:
    """An operation that is computed on sizes, what is known, and the shape of its result.

    A size is None where nobody wrote down how long a vector of sizes is.
    """

    op: HloOp
    query: SizeQuery
    written: tuple[int | None, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result; UnknownError where it was not written down."""
        found = tuple([d for d in self.written if d is not None])
        if len(found) != len(self.written):
            raise UnknownError
        return found


def followed(dtype: DType) -> bool:
    """Tell whether tensors of a dtype may hold sizes."""
    return dtype.kind is Kind.BOOL or (dtype.kind is Kind.INT and dtype.bits >= 32)


def computed(op: HloOp, operands: Sequence[Array], facts: Facts) -> Array | None:
    """The elements of the result of an operation on sizes; None where they are none."""
    rule = _RULES.get(op.name)
    if rule is None:
        return None
    result = op.results[0].type
    shape = tuple([d if isinstance(d, int) else None for d in result.shape])
    if not followed(result.dtype) or math.prod([d or 1 for d in shape]) > LARGEST:
        return None
    try:
        made = np.asarray(rule(FoldedOp(op, SizeQuery(facts, result.dtype), shape), *operands), object)
        if len(shape) != made.ndim or made.size > LARGEST:
            made = np.broadcast_to(made, [1 if d is None else d for d in shape])
        return np.broadcast_to(made, [n if d is None else d for d, n in zip(shape, made.shape, strict=True)])
    except (UnknownError, TypeError, KeyError, IndexError, ValueError):
        return None


Rule = Callable[..., Any]


def _each(fn: ElementFunction) -> Rule:
    """A rule for each element."""
    return lambda a, *operands: each(a.query.wrapped)(each_element(a.query, fn, *operands))


# --- shapes of the tensors --------------------------------------------------------------------------------------------


def _slice(a: FoldedOp, x: Array) -> Array:
    at = a.op.attrs
    numbers = zip(at["start_indices"], at["limit_indices"], at["strides"], strict=True)
    return x[tuple([slice(*n) for n in numbers])]


def _concatenate(a: FoldedOp, *parts: Array) -> Array:
    return np.concatenate(parts, axis=a.op.attrs["dimension"])


def _broadcast(a: FoldedOp, x: Array, *sizes: Array) -> Array:
    dims = a.op.attrs["broadcast_dimensions"]
    shape = [1] * len(a.shape)
    for axis, dim in enumerate(dims):
        shape[dim] = x.shape[axis]
    return np.broadcast_to(x.reshape(shape), a.shape)


def _iota(a: FoldedOp) -> Array:
    dimension = a.op.attrs["iota_dimension"]
    return np.indices(a.shape)[dimension].astype(object)


def _gather(a: FoldedOp, x: Array, places: Array) -> Any:
    """One element of a vector, or some of them."""
    numbers = a.op.attrs["dimension_numbers"]
    if x.ndim != 1 or a.op.attrs["slice_sizes"] != (1,) or not all(isinstance(p, int) for p in places.ravel()):
        raise UnknownError
    if numbers.axes("operand_batching_dims"):
        raise UnknownError
    return x[np.clip(places.astype(np.int64).ravel(), 0, len(x) - 1)].reshape(a.shape)


def _dynamic_slice(a: FoldedOp, x: Array, *starts: Array) -> Any:
    sizes = a.op.attrs["slice_sizes"]
    firsts = [int(s[()]) for s in starts if isinstance(s[()], int)]
    if len(firsts) != len(starts):
        raise UnknownError
    places = [max(min(s, n - k), 0) for s, n, k in zip(firsts, x.shape, sizes, strict=True)]
    return x[tuple([slice(p, p + k) for p, k in zip(places, sizes, strict=True)])]


_COMBINES: Mapping[str, ElementFunction] = {
    "add": elements.add,
    "multiply": elements.multiply,
    "maximum": elements.maximum,
    "minimum": elements.minimum,
    "and": elements.both,
    "or": elements.either,
}


def _reduce(a: FoldedOp, x: Array, init: Array) -> Any:
    fn = _COMBINES.get(combine_of(a.op.regions[0]) or "")
    if fn is None:
        raise UnknownError
    return reduce_elements(a.query, lambda q, *xs: q.wrapped(fn(q, *xs)), x, a.op.attrs["dimensions"], init[()])


_SYMBOLS: Mapping[str, elements.Symbol] = {"EQ": "==", "NE": "!=", "GE": ">=", "GT": ">", "LE": "<=", "LT": "<"}


def _compare(a: FoldedOp, x: Array, y: Array) -> Any:
    symbol = _SYMBOLS[a.op.attrs["comparison_direction"].value]
    return each_element(a.query, elements.comparing(symbol), x, y)


#: The same numbers, as another type has them.
_SAME = ("from_extent_tensor", "to_extent_tensor", "index_to_size", "size_to_index", "value_as_shape", "value_of")


def _broadcast_extents(a: FoldedOp, *shapes: Array) -> Array:
    """NumPy's broadcasting of shapes; that they broadcast is what :mod:`~dyn.interop.stablehlo.dialects` demands."""
    rank = max((len(s) for s in shapes), default=0)
    rows = [[1] * (rank - len(s)) + s.tolist() for s in shapes]
    return vector([broadcast_dims(*dims) for dims in zip(*rows, strict=True)])


_RULES: Mapping[str, Rule] = {
    "stablehlo.add": _each(elements.add),
    "stablehlo.subtract": _each(elements.subtract),
    "stablehlo.multiply": _each(elements.multiply),
    "stablehlo.divide": _each(elements.divide),
    "stablehlo.remainder": _each(elements.remainder),
    "stablehlo.maximum": _each(elements.maximum),
    "stablehlo.minimum": _each(elements.minimum),
    "stablehlo.negate": _each(elements.negate),
    "stablehlo.abs": _each(elements.absolute),
    "stablehlo.sign": _each(elements.sign),
    "stablehlo.clamp": _each(elements.clamp),
    "stablehlo.compare": _compare,
    "stablehlo.and": _each(elements.bitwise(elements.both, lambda x, y: x & y)),
    "stablehlo.or": _each(elements.bitwise(elements.either, lambda x, y: x | y)),
    "stablehlo.xor": _each(elements.xor),
    "stablehlo.not": _each(elements.opposite),
    "stablehlo.select": _each(elements.select),
    "stablehlo.convert": _each(elements.convert),
    "stablehlo.constant": lambda a: a.op.attrs["value"].astype(object),
    "stablehlo.iota": _iota,
    "stablehlo.reshape": lambda a, x: x.reshape(a.shape),
    "stablehlo.dynamic_reshape": lambda a, x, sizes: x.reshape(a.shape),
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.dynamic_broadcast_in_dim": _broadcast,
    "stablehlo.transpose": lambda a, x: x.transpose(a.op.attrs["permutation"]),
    "stablehlo.concatenate": _concatenate,
    "stablehlo.slice": _slice,
    "stablehlo.gather": _gather,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.reduce": _reduce,
    "arith.constant": lambda a: np.asarray(a.op.attrs["value"], object),
    "arith.floordivsi": _each(elements.floor_divide),
    "arith.ceildivsi": _each(elements.ceil_divide),
    "arith.ceildivui": _each(elements.ceil_divide),
    "arith.divui": _each(elements.floor_divide),
    "arith.remui": _each(elements.floor_remainder),
    "arith.maxui": _each(elements.maximum),
    "arith.minui": _each(elements.minimum),
    "tensor.from_elements": lambda a, *parts: np.array([p[()] for p in parts], object).reshape(a.shape),
    "tensor.splat": lambda a, x: np.broadcast_to(x, a.shape),
    "tensor.extract": lambda a, x, *places: x[tuple([int(p[()]) for p in places])],
    "tensor.cast": lambda a, x: x,
    "shape.const_shape": lambda a: np.asarray(a.op.attrs["shape"], object).reshape(-1),
    "shape.const_size": lambda a: np.asarray(a.op.attrs["value"], object),
    "shape.num_elements": lambda a, x: boxed(product(x.ravel().tolist())),
    "shape.rank": lambda a, x: np.asarray(x.size, object),
    "shape.get_extent": lambda a, x, place: x[int(place[()])],
    "shape.from_extents": lambda a, *parts: np.array([p[()] for p in parts], object),
    "shape.concat": lambda a, x, y: np.concatenate([x, y]),
    "shape.broadcast": _broadcast_extents,
    "shape.add": _each(elements.add),
    "shape.mul": _each(elements.multiply),
    "shape.div": _each(elements.floor_divide),
    "shape.max": _each(elements.maximum),
    "shape.min": _each(elements.minimum),
    **{f"shape.{name}": lambda a, x: x for name in _SAME},
}
