"""Codecs of reductions, of windows, and of what runs along an axis."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import NotYetError
from dyn.interop.stablehlo.codecs.indexing import combine_of, monoid
from dyn.interop.stablehlo.hlo import Codec, DecodeRule, HloEnum, HloOp, HloRegion, HloType, HloValue, is_static
from dyn.shapes import Dim, dim_max, dim_min

#: ``identity(combine, dtype)``: what changes nothing.
Identity = Callable[[str, DType], bool | int | float]
_IDEMPOTENT = ("maximum", "minimum", "and", "or")


# --- reduce -----------------------------------------------------------------------------------------------------------


#: ``reduced(b, arrays, inits, axes, body)``: the results of a reduction, whatever its body is.
Reduced = Callable[[Any, Sequence[Any], Sequence[Any], tuple[int, ...], Any], Sequence[Any]]


def _starts_at_identity(d: Any, init: Any, combine: str, identity: Identity) -> bool:
    found = d.b.uniform(init)
    return found is not None and bool(found == identity(combine, init.dtype))


def reduce(identity: Identity) -> Codec:
    """The codec of the op ``reduce``, which is read by that of ``variadic_reduce``."""

    def encode(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
        (x,), combine = operands, op.attrs["combine"]
        init = e.constant(identity(combine, x.dtype), x.dtype)
        return [
            e.op(
                "stablehlo.reduce", x, init, type=HloType.of(op.result.type), regions=[monoid(e, combine, x.dtype)],
                dimensions=tuple(sorted(op.attrs["axes"])),
            )
        ]  # fmt: skip

    return Codec("stablehlo.reduce", encode)


def variadic_reduce(reduced: Reduced) -> Codec:
    """The codec of the op ``variadic_reduce``, which reads all reductions."""

    def encode(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
        types = [HloType.of(v.type) for v in op.results]
        region, axes = e.region(op.regions[0]), tuple(sorted(op.attrs["axes"]))
        return e.ops("stablehlo.reduce", operands, types, [region], dimensions=axes)

    def decode(d: Any, op: HloOp) -> Sequence[Any]:
        values, count = [d.value(v) for v in op.operands], len(op.results)
        return reduced(d.b, values[:count], values[count:], op.attrs["dimensions"], d.scalar_region(op.regions[0]))

    return Codec("stablehlo.reduce", encode, {"stablehlo.reduce": decode})


# --- reduce_window ----------------------------------------------------------------------------------------------------

_GEOMETRY = (
    ("window", "window_dimensions"),
    ("strides", "window_strides"),
    ("base_dilations", "base_dilations"),
    ("window_dilations", "window_dilations"),
)
DYNAMIC = "custom_call.stablehlo.dynamic_reduce_window"


def _encode_windows(e: Any, op: Any, operands: Sequence[HloValue], region: Any, attrs: Any) -> Sequence[HloValue]:
    """Static windows are reduce_window; others the custom call that stands for it while it has no dynamic form."""
    types = [HloType.of(v.type) for v in op.results]
    numbers, padding = {hlo: tuple(attrs[own]) for own, hlo in _GEOMETRY}, tuple(map(tuple, attrs["padding"]))
    if all(is_static(n) for n in (*numbers.values(), *padding)):
        return e.ops("stablehlo.reduce_window", operands, types, [region], padding=padding or None, **numbers)
    body = e.function("reducer", region)
    vectors = [e.dims(n) for n in numbers.values()]
    return e.ops(
        "stablehlo.custom_call", [*operands, *vectors, e.dims(padding)], types,
        call_target_name="stablehlo.dynamic_reduce_window", called_computations=(body,),
    )  # fmt: skip


def _static_geometry(op: HloOp) -> dict[str, Any]:
    rank = len(op.results[0].shape)
    found: dict[str, Any] = {own: op.attrs.get(hlo, (1,) * rank) for own, hlo in _GEOMETRY}
    return {**found, "padding": tuple(op.attrs.get("padding", ((0, 0),) * rank))}


def _runs_along(d: Any, x: Any, at: dict[str, Any]) -> tuple[int, bool] | None:
    """The axis that a window is as long as, up to each element or, with True, from each on."""
    wide = [a for a, n in enumerate(at["window"]) if n != 1]
    plain = all(n == 1 for name in ("strides", "base_dilations", "window_dilations") for n in at[name])
    if len(wide) != 1 or not plain:
        return None
    (axis,) = wide
    size, window, (low, high) = x.shape[axis], at["window"][axis], at["padding"][axis]
    if any(pair != (0, 0) for a, pair in enumerate(at["padding"]) if a != axis):
        return None

    def same(a: Dim, b: Dim) -> bool:
        return bool(d.b.facts.eq(a, b).proved)

    if not (same(window, size) or same(window, dim_max(size, 1))):
        return None
    if same(low, window - 1) and same(high, 0):
        return axis, False
    return (axis, True) if same(high, window - 1) and same(low, 0) else None


def _decode_windows(
    d: Any, values: list[Any], region: HloRegion, at: dict[str, Any], identity: Identity, holes: bool
) -> Sequence[Any]:
    combine = combine_of(region) if len(values) == 2 else None
    x = values[0]
    if combine in (None, "replace", "keep") or (x.dtype.kind is Kind.COMPLEX and combine != "add"):
        if holes or not _has_holes(at):
            return d.b.op_all("variadic_reduce_window", *values, regions=(d.scalar_region(region),), **at)
        return _without_holes(d, values, region, at)
    neutral = _starts_at_identity(d, values[1], str(combine), identity)
    if holes and not neutral and combine not in _IDEMPOTENT:
        return d.b.op_all("variadic_reduce_window", *values, regions=(d.scalar_region(region),), **at)
    running = _runs_along(d, x, at)
    if (
        running is not None
        and combine in ("add", "multiply", "maximum", "minimum")
        and x.dtype.kind is not Kind.COMPLEX
    ):
        axis, backward = running
        made = d.b.op("cumulative", x, dimension=axis, combine=combine, reverse=backward)
    else:
        made = d.b.op("reduce_window", x, combine=combine, **at)
    if neutral:
        return [made]
    start = d.b.op("broadcast_in_dim", values[1], shape=made.shape, dims=()) if made.shape else values[1]
    return [d.b.op(str(combine), start, made)]


def _has_holes(at: dict[str, Any]) -> bool:
    """Whether windows may lie on places that are no elements: what is cut off leaves none."""
    dilated = any(n != 1 for n in at["base_dilations"])
    return dilated or not all(isinstance(n, int) and n <= 0 for pair in at["padding"] for n in pair)


def _without_holes(d: Any, values: list[Any], region: HloRegion, at: dict[str, Any]) -> Sequence[Any]:
    """Windows of elements alone: truths go with the elements, and where there is none the fold keeps what it has."""
    count = len(values) // 2
    truth = HloType(dtypes.bool_, ())
    kept, is_element = HloValue(truth), HloValue(truth)
    old, new = region.params[:count], region.params[count:]
    chosen = tuple([HloValue(r.type) for r in region.results])
    selects = [
        HloOp("stablehlo.select", (is_element, made, before), {}, (result,))
        for made, before, result in zip(region.results, old, chosen, strict=True)
    ]
    masked = HloRegion((*old, kept, *new, is_element), (*region.ops, *selects), (*chosen, kept))
    elements = d.b.op("broadcast_in_dim", d.constant(np.array(True)), shape=values[0].shape, dims=())
    given = [*values[:count], elements, *values[count:], d.constant(np.array(False))]
    return d.b.op_all("variadic_reduce_window", *given, regions=(d.scalar_region(masked),), **at)[:count]


def window_rules(identity: Identity, *, holes: bool) -> dict[str, DecodeRule]:
    """Decoders of windows: as the op ``reduce_window``, as ``cumulative``, or as ``variadic_reduce_window``.

    With ``holes`` the padding and what lies between dilated elements are elements equal to the initial value, as the
    specification says. Without, a window has the elements that are there, and the initial value once.
    """

    def decode(d: Any, op: HloOp) -> Sequence[Any]:
        values = [d.value(v) for v in op.operands]
        return _decode_windows(d, values, op.regions[0], _static_geometry(op), identity, holes)

    def decode_dynamic(d: Any, op: HloOp) -> Sequence[Any]:
        *arrays, window, strides, base, dilations, padding = op.operands
        numbers = (d.dims(v) for v in (window, strides, base, dilations))
        names = [own for own, _ in _GEOMETRY]
        at = {**dict(zip(names, numbers, strict=True)), "padding": d.matrix(padding)}
        (body,) = op.attrs["called_computations"]
        return _decode_windows(d, [d.value(v) for v in arrays], d.callee(body), at, identity, holes)

    return {"stablehlo.reduce_window": decode, DYNAMIC: decode_dynamic}


def reduce_window(identity: Identity) -> Codec:
    """The codec of the op ``reduce_window``."""

    def encode(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
        (x,), combine = operands, op.attrs["combine"]
        init = e.constant(identity(combine, x.dtype), x.dtype)
        return _encode_windows(e, op, [x, init], monoid(e, combine, x.dtype), op.attrs)

    return Codec("stablehlo.reduce_window, dynamic_reduce_window", encode, window_rules(identity, holes=True))


def _encode_variadic_window(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    """Write windows. For XLA, whose windows have no padding, the elements of the padding are written as such.

    Behind a barrier: XLA takes a pad by the initial value for a padding of the windows, and then leaves it out.
    """
    at = op.attrs
    if e.for_xla and _has_holes(at):
        count, ones = len(operands) // 2, (1,) * len(at["window"])
        filled = [_padded(e, x, init, at) for x, init in zip(operands[:count], operands[count:], strict=True)]
        filled = e.ops("stablehlo.optimization_barrier", filled, [x.type for x in filled])
        operands = (*filled, *operands[count:])
        at = {**at, "base_dilations": ones, "padding": ((0, 0),) * len(ones)}
    return _encode_windows(e, op, operands, e.region(op.regions[0]), at)


variadic_reduce_window = Codec("stablehlo.reduce_window, dynamic_reduce_window", _encode_variadic_window)


def cumulative(identity: Identity) -> Codec:
    """A running reduction is a window as long as the axis."""

    def encode(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
        (x,), axis, combine = operands, op.attrs["dimension"], op.attrs["combine"]
        init = e.constant(identity(combine, x.dtype), x.dtype)
        rank, ones = len(op.result.shape), (1,) * len(op.result.shape)
        window = dim_max(op.result.shape[axis], 1)  # a window has something in it, even where the array has not
        pair = (0, window - 1) if op.attrs["reverse"] else (window - 1, 0)
        attrs = {
            "window": tuple(window if a == axis else 1 for a in range(rank)),
            "strides": ones, "base_dilations": ones, "window_dilations": ones,
            "padding": tuple(pair if a == axis else (0, 0) for a in range(rank)),
        }  # fmt: skip
        return _encode_windows(e, op, [x, init], monoid(e, combine, x.dtype), attrs)

    return Codec("decomposed: reduce_window", encode)


# --- window_choice ----------------------------------------------------------------------------------------------------

_NOWHERE = 2**63 - 1


def _encode_choice(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    """Tap by tap: the number of the place under it where its element is the chosen one, and the least of these."""
    (x, chosen), at, type = operands, op.attrs, HloType.of(op.result.type)
    if not is_static(at["window"]):
        raise NotYetError(
            "the choice in a window whose size is symbolic has no StableHLO form.", loc=op.loc,
            remedy="make the window's sizes numbers.",
        )  # fmt: skip
    shape: Any = x.shape
    number = e.full(0, HloType(type.dtype, shape))
    for axis in at["axes"]:
        along = e.iota(number.type, axis)
        number = e.op("stablehlo.add", e.op("stablehlo.multiply", number, e.number(shape[axis], number.type)), along)
    number = _padded(e, number, e.constant(_NOWHERE, type.dtype), at)
    inside = _padded(e, e.full(True, HloType(dtypes.bool_, shape)), e.constant(False), at)
    values = _padded(e, x, e.constant(0, x.dtype), at)
    truth, nowhere = HloType(dtypes.bool_, type.shape), e.full(_NOWHERE, type)
    best = nowhere
    sort = e.direction("EQ", "FLOAT" if x.dtype.is_float else "SIGNED" if x.dtype.kind is Kind.INT else "UNSIGNED")
    other = {**sort, "comparison_direction": HloEnum("comparison_direction", "NE")}
    for taps in itertools.product(*(range(n) for n in at["window"])):
        value, place, there = (_under(e, v, type.shape, taps, at) for v in (values, number, inside))
        same = e.op("stablehlo.compare", value, chosen, type=truth, **sort)
        same = e.op("stablehlo.or", same, e.op("stablehlo.compare", value, value, type=truth, **other))
        found = e.op("stablehlo.select", e.op("stablehlo.and", same, there), place, nowhere, type=type)
        best = e.op("stablehlo.minimum", best, found)
    return [best]


def _padded(e: Any, x: HloValue, hole: HloValue, at: Any) -> HloValue:
    """Pad an array with the holes that windows slide over."""
    low, high = (tuple(pair[i] for pair in at["padding"]) for i in (0, 1))
    interior = tuple(n - 1 for n in at["base_dilations"])
    shape: Any = x.shape
    sizes = [
        n + (dim_max(n - 1, 0) * i if i != 0 else 0) + before + after
        for n, i, before, after in zip(shape, interior, low, high, strict=True)
    ]
    return e.padded(x, hole, (low, high, interior), HloType(x.dtype, tuple(sizes)))


def _under(e: Any, x: HloValue, counts: Any, taps: tuple[int, ...], at: Any) -> HloValue:
    """The element under one tap of each window."""
    start = tuple(t * d for t, d in zip(taps, at["window_dilations"], strict=True))
    steps = at["strides"]
    # As many as there are windows: where there is none, nothing from where the array starts.
    there = [dim_min(n, 1) for n in counts]
    first = tuple(s * t for s, t in zip(start, there, strict=True))
    limit = tuple(f + (dim_max(n - 1, 0) * k + 1) * t for f, n, k, t in zip(first, counts, steps, there, strict=True))
    return e.sliced(x, first, limit, tuple(steps), HloType(x.dtype, counts))


window_choice = Codec("decomposed: a comparison for each tap", _encode_choice)


# --- select_and_scatter -----------------------------------------------------------------------------------------------


def _encode_select_and_scatter(e: Any, op: Any, operands: tuple[HloValue, ...]) -> Sequence[HloValue]:
    window, strides, padding = (op.attrs[name] for name in ("window", "strides", "padding"))
    if not all(is_static(n) for n in (window, strides, *padding)):
        raise NotYetError(
            "select_and_scatter with windows whose sizes are symbolic has no StableHLO form.", loc=op.loc,
            remedy="make the window's sizes numbers.",
        )  # fmt: skip
    return [
        e.op(
            "stablehlo.select_and_scatter", *operands, type=HloType.of(op.result.type),
            regions=[e.region(r) for r in op.regions], window_dimensions=tuple(window) or None,
            window_strides=tuple(strides) or None, padding=tuple(map(tuple, padding)) or None,
        )
    ]  # fmt: skip


def _decode_select_and_scatter(d: Any, op: HloOp) -> Sequence[Any]:
    at = _static_geometry(op)
    attrs = {name: at[name] for name in ("window", "strides", "padding")}
    regions = tuple([d.scalar_region(r) for r in op.regions])
    return d.b.op_all("select_and_scatter", *(d.value(v) for v in op.operands), regions=regions, **attrs)


select_and_scatter = Codec(
    "stablehlo.select_and_scatter",
    _encode_select_and_scatter,
    {"stablehlo.select_and_scatter": _decode_select_and_scatter},
)
