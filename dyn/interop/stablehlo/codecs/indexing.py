"""Codecs of slices at computed places, gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.interop.stablehlo.codecs.elementwise import of_bools
from dyn.interop.stablehlo.hlo import Codec, HloNumbers, HloOp, HloRegion, HloType, HloValue, is_static
from dyn.shapes import Dim

_GREATEST = 2**63 - 1


def as_int64(e: Any, value: HloValue) -> HloValue:
    """Indices as int64. What int64 does not have is outside of any axis, on the same side."""
    if value.dtype is dtypes.int64:
        return value
    if value.dtype is dtypes.uint64:
        value = e.op("stablehlo.minimum", value, e.full(_GREATEST, value.type))
    return e.op("stablehlo.convert", value, type=HloType(dtypes.int64, value.shape))


# --- dynamic_slice, dynamic_update_slice ------------------------------------------------------------------------------


def window_at(e: Any, x: HloValue, starts: Sequence[HloValue], sizes: Sequence[Dim]) -> HloValue:
    """The window of ``sizes`` that starts at int64 scalars, moved inside."""
    type = HloType(x.dtype, tuple(sizes))
    if not starts:
        return x
    if is_static(sizes):
        return e.op("stablehlo.dynamic_slice", x, *starts, type=type, slice_sizes=tuple(sizes))
    vector = HloType(dtypes.int64, (len(sizes),))
    start = e.op("stablehlo.concatenate", *(e.reshaped(s, (1,)) for s in starts), type=vector, dimension=0)
    extent = e.dims(sizes)
    last = e.op("stablehlo.subtract", e.dims(x.shape), extent)
    start = e.op("stablehlo.clamp", e.full(0, vector), start, last, type=vector)
    limit = e.op("stablehlo.add", start, extent)
    return e.op("stablehlo.real_dynamic_slice", x, start, limit, e.full(1, vector), type=type)


def _encode_dynamic_slice(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    x, *starts = operands
    return [window_at(e, x, [as_int64(e, s) for s in starts], op.attrs["slice_sizes"])]


def _decode_dynamic_slice(d: Any, op: HloOp) -> Sequence[Any]:
    x, *starts = (d.value(v) for v in op.operands)
    return [d.b.op("dynamic_slice", x, *starts, slice_sizes=op.attrs["slice_sizes"])]


dynamic_slice = Codec(
    "stablehlo.dynamic_slice, real_dynamic_slice",
    _encode_dynamic_slice,
    {"stablehlo.dynamic_slice": _decode_dynamic_slice},
)


def _encode_update(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    x, update, *starts = operands
    return [e.op("stablehlo.dynamic_update_slice", x, update, *(as_int64(e, s) for s in starts))]


dynamic_update_slice = Codec(
    "stablehlo.dynamic_update_slice",
    _encode_update,
    {
        "stablehlo.dynamic_update_slice": lambda d, op: [
            d.b.op("dynamic_update_slice", *(d.value(v) for v in op.operands))
        ]
    },
)


# --- gather -----------------------------------------------------------------------------------------------------------


def _indices(
    e: Any, x: HloValue, starts: Sequence[HloValue], dim: int, axes: tuple[int, ...], wrap: bool
) -> tuple[HloValue, int]:
    """The start indices as one int64 array with an axis of components, and which axis that is.

    ``axes`` are those of ``x`` that the components are places on; with ``wrap`` they may count from its end.
    """
    signed = any(s.dtype.kind is Kind.INT for s in starts)
    whole = [as_int64(e, s) for s in starts]
    rank = len(whole[0].shape)
    if dim == rank:
        parts = [e.reshaped(w, (*w.shape, 1)) for w in whole]
        type = HloType(dtypes.int64, (*whole[0].shape, len(parts)))
        made = parts[0] if len(parts) == 1 else e.op("stablehlo.concatenate", *parts, type=type, dimension=rank)
    else:
        (made,) = whole
    if wrap and signed:
        negative = e.op(
            "stablehlo.compare", made, e.full(0, made.type), type=HloType(dtypes.bool_, made.shape),
            **e.direction("LT", "SIGNED"),
        )  # fmt: skip
        sizes = e.spread(e.dims([x.shape[a] for a in axes]), made.type, (dim,))
        made = e.op("stablehlo.select", negative, e.op("stablehlo.add", made, sizes), made, type=made.type)
    return made, dim


def _encode_gather(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    x, *starts = operands
    attrs, type = op.attrs, HloType.of(op.result.type)
    if 0 in type.shape:  # from nothing nothing can be taken, which StableHLO does not allow
        return [e.full(0, type)]
    axes = attrs["start_index_map"]
    indices, dim = _indices(e, x, starts, attrs["index_vector_dim"], axes, attrs.get("wrap", False))
    names = (
        "offset_dims",
        "collapsed_slice_dims",
        "operand_batching_dims",
        "start_indices_batching_dims",
        "start_index_map",
    )
    fields = {**{name: attrs[name] for name in names}, "index_vector_dim": dim}
    numbers, sizes = HloNumbers("gather", fields), attrs["slice_sizes"]
    if is_static(sizes):
        return [
            e.op(
                "stablehlo.gather", x, indices, type=type, dimension_numbers=numbers, slice_sizes=sizes,
                indices_are_sorted=False,
            )
        ]  # fmt: skip
    return [
        e.op(
            "stablehlo.dynamic_gather", x, indices, e.dims(sizes), type=type, dimension_numbers=numbers,
            indices_are_sorted=False,
        )
    ]  # fmt: skip


def _gather(d: Any, op: HloOp, sizes: tuple[Dim, ...]) -> Sequence[Any]:
    numbers = op.attrs["dimension_numbers"]
    return [
        d.b.op(
            "gather", d.value(op.operands[0]), d.value(op.operands[1]), slice_sizes=sizes,
            offset_dims=numbers.axes("offset_dims"), collapsed_slice_dims=numbers.axes("collapsed_slice_dims"),
            operand_batching_dims=numbers.axes("operand_batching_dims"),
            start_indices_batching_dims=numbers.axes("start_indices_batching_dims"),
            start_index_map=numbers.axes("start_index_map"),
            index_vector_dim=numbers.fields.get("index_vector_dim", 0), wrap=False,
        )
    ]  # fmt: skip


gather = Codec(
    "stablehlo.gather, dynamic_gather",
    _encode_gather,
    {
        "stablehlo.gather": lambda d, op: _gather(d, op, op.attrs["slice_sizes"]),
        "stablehlo.dynamic_gather": lambda d, op: _gather(d, op, d.dims(op.operands[2])),
    },
)


# --- scatter ----------------------------------------------------------------------------------------------------------

_SCATTER = (
    "update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims",
    "scatter_dims_to_operand_dims",
)  # fmt: skip


def monoid(e: Any, combine: str, dtype: Any) -> HloRegion:
    """The region of a monoid on scalars."""
    scalar = HloType(dtype, ())
    return e.block([scalar, scalar], lambda inner, p: [inner.op(f"stablehlo.{combine}", *p)])


def _encode_scatter(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    count, attrs, combine = len(op.results), op.attrs, op.attrs["combine"]
    arrays, starts, updates = operands[:count], operands[count:-count], operands[-count:]
    x = arrays[0]
    axes = attrs["scatter_dims_to_operand_dims"]
    indices, dim = _indices(e, x, starts, attrs["index_vector_dim"], axes, attrs.get("wrap", False))
    scalar = HloType(x.dtype, ())
    if combine == "replace":
        body = e.block([scalar, scalar], lambda inner, p: [p[1]])
    elif combine == "body":
        body = e.region(op.regions[0])
    else:
        body = monoid(e, combine, x.dtype)
    fields = {**{name: attrs[name] for name in _SCATTER}, "index_vector_dim": dim}

    def scattered(arrays: Sequence[HloValue], indices: HloValue) -> Sequence[HloValue]:
        return e.ops(
            "stablehlo.scatter", [*arrays, indices, *updates], [a.type for a in arrays], [body],
            indices_are_sorted=False, unique_indices=False, scatter_dimension_numbers=HloNumbers("scatter", fields),
        )  # fmt: skip

    margins = _margins(attrs, x, updates[0]) if e.for_xla else {}
    return _within_margins(e, arrays, indices, dim, axes, margins, scattered) if margins else scattered(arrays, indices)


def _margins(attrs: Any, x: HloValue, update: HloValue) -> dict[int, Dim]:
    """The axes that windows of more than one element are placed along, and how long the windows are there."""
    outer = {*attrs["inserted_window_dims"], *attrs["input_batching_dims"]}
    inner = [axis for axis in range(len(x.shape)) if axis not in outer]
    sizes: Any = {a: update.shape[u] for a, u in zip(inner, attrs["update_window_dims"], strict=True)}
    return {a: sizes[a] for a in attrs["scatter_dims_to_operand_dims"] if sizes.get(a, 1) != 1}


def _within_margins(
    e: Any, arrays: Sequence[HloValue], indices: HloValue, dim: int, axes: Sequence[int], margins: Mapping[int, Dim],
    scattered: Callable[[Sequence[HloValue], HloValue], Sequence[HloValue]],
) -> Sequence[HloValue]:  # fmt: skip
    """A scatter for XLA, which drops an update whose window lies partly outside, and not its outer elements alone.

    The arrays get margins as wide as a window. A place is moved to the nearest one at which the window is within array
    and margins: where that is another, no element of the window is in the array at either.
    """
    shape: Any = arrays[0].shape
    low = [-margins[a] if a in margins else -_GREATEST for a in axes]
    high = [shape[a] if a in margins else _GREATEST for a in axes]
    bounds = [e.spread(e.dims(n), indices.type, (dim,)) for n in (low, high, [margins.get(a, 0) for a in axes])]
    inside = e.op("stablehlo.clamp", bounds[0], indices, bounds[1], type=indices.type)
    wide = tuple(n + 2 * margins.get(a, 0) for a, n in enumerate(shape))
    sides, none = tuple(margins.get(a, 0) for a in range(len(shape))), (0,) * len(shape)
    padded = [
        e.padded(a, e.constant(0, a.dtype), (sides, sides, none), HloType(a.dtype, wide)) for a in arrays
    ]  # fmt: skip
    made = scattered(padded, e.op("stablehlo.add", inside, bounds[2]))
    limit = tuple(n + side for n, side in zip(shape, sides, strict=True))
    ones = (1,) * len(shape)
    return [e.sliced(v, sides, limit, ones, HloType(v.dtype, shape)) for v in made]


def combine_of(region: HloRegion) -> str | None:
    """Name of a region of two scalars: a monoid, ``replace`` or ``keep``; None for any other."""
    if len(region.params) != 2 or len(region.results) != 1:
        return None
    old, new = region.params
    (result,) = region.results
    if not region.ops:
        return "replace" if result is new else "keep" if result is old else None
    if (
        len(region.ops) != 1
        or region.ops[0].attrs
        or result is not region.ops[0].results[0]
        or set(region.ops[0].operands) != {old, new}
    ):
        return None
    name = region.ops[0].name.removeprefix("stablehlo.")
    if name not in ("add", "multiply", "maximum", "minimum", "and", "or", "xor"):
        return None
    if name in ("maximum", "minimum") and result.dtype.kind is Kind.COMPLEX:
        return None  # no monoid of dyn's
    return of_bools(name) if result.dtype.kind is Kind.BOOL else name


def _decode_scatter(d: Any, op: HloOp) -> Sequence[Any]:
    count, numbers = len(op.operands) // 2, op.attrs["scatter_dimension_numbers"]
    indices = d.value(op.operands[count])
    attrs: dict[str, Any] = {name: numbers.axes(name) for name in _SCATTER}
    attrs |= {"index_vector_dim": numbers.fields.get("index_vector_dim", 0), "wrap": False}
    (region,) = op.regions
    if count > 1:
        body = d.scalar_region(region)
        return d.b.op_all(
            "variadic_scatter", *(d.value(v) for v in op.operands), regions=(body,), combine="body", **attrs
        )
    x, updates = d.value(op.operands[0]), d.value(op.operands[-1])
    combine = combine_of(region)
    if combine == "keep":
        return [x]
    if combine is None or (x.dtype.kind is Kind.COMPLEX and combine not in ("add", "replace")):
        body = d.scalar_region(region)
        return d.b.op_all("scatter", x, indices, updates, regions=(body,), combine="body", **attrs)
    return [d.b.op("scatter", x, indices, updates, combine=combine, **attrs)]


scatter = Codec("stablehlo.scatter", _encode_scatter, {"stablehlo.scatter": _decode_scatter})


#: The same operation of several arrays, which is read by the codec above.
variadic_scatter = Codec("stablehlo.scatter", _encode_scatter)


# --- threefry2x32 -----------------------------------------------------------------------------------------------------


def threefry(cipher: Callable[..., Any], names: Mapping[Any, str]) -> Codec:
    """``cipher(word, number, key, words)`` enciphers two words with ``word(fn, a, b)``; ``names`` names the fns."""

    def encode(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
        keys, first = operands
        shape = op.result.shape
        leading = tuple(range(len(first.shape)))
        wide, half = HloType(dtypes.uint64, shape), HloType(dtypes.uint32, shape)
        inner = op.attrs["shape"]
        place = e.full(0, wide)
        for axis, size in enumerate(inner):
            along = HloType(dtypes.uint64, shape)
            number = e.iota(along, len(leading) + axis)
            place = e.op("stablehlo.add", e.op("stablehlo.multiply", place, e.number(size, along)), number)
        count = e.op("stablehlo.add", e.spread(first, wide, leading), place)
        upper = e.op("stablehlo.shift_right_logical", count, e.full(32, wide))
        words = tuple(e.op("stablehlo.convert", v, type=half) for v in (upper, count))
        key = tuple(e.spread(e.row(keys, i), half, leading) for i in (0, 1))

        def word(fn: Any, a: HloValue, b: HloValue) -> HloValue:
            return e.op(f"stablehlo.{names[fn]}", a, b)

        x, y = cipher(word, lambda n: e.full(np.uint32(n), half), key, words)
        high, low = (e.op("stablehlo.convert", v, type=wide) for v in (x, y))
        return [e.op("stablehlo.or", e.op("stablehlo.shift_left", high, e.full(32, wide)), low)]

    return Codec("decomposed: adds, shifts and exclusive ors", encode)
