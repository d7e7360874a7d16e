"""``x[...]``, and arrays with some elements changed: numbers, slices, None, Ellipsis, dimensions, integer arrays.

Elements of index arrays count from the end where they are negative. Where they are out of range, reading takes the
nearest element there is, and writing leaves the update out.
"""

from __future__ import annotations

from typing import Any

from dyn import dtypes
from dyn.ir.core import Region
from dyn.numpy._broadcast import expand
from dyn.numpy._indexing.index import Selection, SliceRange, merged, select, with_axes_for_booleans
from dyn.numpy._manipulation import put_values, view
from dyn.numpy._operands import cast, constant, emit, made, operand, shape_of, tracer
from dyn.ops.indexing.gather import gather_attrs
from dyn.ops.indexing.scatter import scatter_attrs
from dyn.shapes import Dim, dim_max
from dyn.trace.tracer import Tracer


def getitem(x: Any, index: Any) -> Tracer:
    """``x[index]``."""
    value, index, _ = with_axes_for_booleans(operand("x[...]", x), index)
    value, index = merged(value, index)
    chosen = select(value, index)
    return view(read(value, chosen), chosen.shape)


def scatter_update(x: Any, index: Any, updates: Any, combine: str = "replace") -> Tracer:
    """``x`` with ``updates`` combined into what ``x[index]`` takes: the ``x.at[index].set(updates)`` of JAX.

    ``combine`` is "replace", or a monoid that is applied to what is there and the update: "add", "multiply", "maximum",
    "minimum", "and", "or". ``updates`` broadcast to the shape of ``x[index]`` and are converted to the dtype of ``x``.
    Where index arrays name a place several times, its updates are taken in their order, and the last of those that
    replace stays; what they name outside of ``x`` is left out. Raises ShapeError where the shapes do not fit.
    """
    whole = operand("x.at[...]", x)
    value, index = merged(whole, index)
    chosen = select(value, index)
    new = cast(tracer(value._trace, updates, "x.at[...]"), value.element_type)
    return view(write(value, chosen, new, combine), shape_of(whole))


# ---- reading ---------------------------------------------------------------------------------------------------------


def read(x: Tracer, chosen: Selection, *, wrap: bool = True) -> Tracer:
    """The elements of a selection, in its layout. With ``wrap`` negative places of index arrays count from the end."""
    return _gathered(_cut(x, chosen.ranges), chosen, wrap)


def _cut(x: Tracer, ranges: tuple[SliceRange, ...]) -> Tracer:
    """The box of a selection."""
    backwards = _backwards(ranges)
    if backwards:
        x = emit("reverse", x, dimensions=backwards)
    if all(r.start == 0 and r.length is d and r.step == 1 for r, d in zip(ranges, shape_of(x), strict=True)):
        return x
    limits = tuple(x._trace.facts.simplify(r.start + r.length) for r in ranges)
    return emit("slice", x, start=tuple(r.start for r in ranges), limit=limits, strides=tuple(r.step for r in ranges))


def _backwards(ranges: tuple[SliceRange, ...]) -> tuple[int, ...]:
    return tuple(axis for axis, r in enumerate(ranges) if r.backwards)


def _gathered(box: Tracer, chosen: Selection, wrap: bool) -> Tracer:
    """The elements that index arrays take of the box, in the selection's layout."""
    if not chosen.arrays:
        return box
    axes = chosen.looked_up
    attrs = gather_attrs(
        tuple(1 if axis in axes else d for axis, d in enumerate(shape_of(box))), offset_dims=chosen.window_dims(),
        start_index_map=axes, index_vector_dim=len(chosen.batch), collapsed_slice_dims=axes, wrap=wrap,
    )  # fmt: skip
    return emit("gather", box, *[array for _, array in chosen.arrays], **attrs)


# ---- writing ---------------------------------------------------------------------------------------------------------


def write(
    x: Tracer, chosen: Selection, new: Tracer, combine: str, *, wrap: bool = True, regions: tuple[Region, ...] = ()
) -> Tracer:
    """``x`` with ``new``, which broadcasts to the selection's shape, combined into what it takes.

    ``regions`` are those of a scatter with ``combine="body"``, which needs index arrays.
    """
    trace = x._trace
    new = put_values(new, chosen.shape)
    new = view(new, tuple(trace.facts.simplify(d) for d in chosen.layout()))
    return _scattered(x, chosen, new, combine, wrap, regions) if chosen.arrays else _replaced(x, chosen, new, combine)


#: The elementwise op of each way to combine.
_OPS = {name: name for name in ("add", "multiply", "maximum", "minimum", "and", "or")}


def _replaced(x: Tracer, chosen: Selection, new: Tracer, combine: str) -> Tracer:
    """A box of the array, no place of which is named twice."""
    backwards, ranges = _backwards(chosen.ranges), chosen.ranges
    if combine != "replace":
        new = emit(_OPS[combine], _cut(x, ranges), new)
    if backwards:
        x = emit("reverse", x, dimensions=backwards)
    if shape_of(new) == shape_of(x):
        result = new
    elif all(r.step == 1 for r in ranges):
        starts = [made(x._trace, "dim_size", size=r.start, dtype=dtypes.int64) for r in ranges]
        result = emit("dynamic_update_slice", x, new, *starts)
    else:
        # Spread out to the size of the array, with the array in between.
        spread = _spread(x, ranges, new, like=0)
        there = constant(x._trace, True, dtypes.bool_)
        result = emit("select", _spread(x, ranges, expand(there, shape_of(new)), like=0), spread, x)
    return emit("reverse", result, dimensions=backwards) if backwards else result


def _spread(x: Tracer, ranges: tuple[SliceRange, ...], new: Tracer, *, like: int) -> Tracer:
    """``new`` at its places in an array of the shape of ``x`` that is ``like`` elsewhere."""
    high: list[Dim] = []
    for r, size, count in zip(ranges, shape_of(x), shape_of(new), strict=True):
        high.append(size - r.start - count - dim_max(count - 1, 0) * (r.step - 1))
    fill = constant(x._trace, like, new.element_type)
    return emit(
        "pad", new, fill, edge_padding_low=tuple(r.start for r in ranges), edge_padding_high=tuple(high),
        interior_padding=tuple(r.step - 1 for r in ranges),
    )  # fmt: skip


def _scattered(
    x: Tracer, chosen: Selection, new: Tracer, combine: str, wrap: bool, regions: tuple[Region, ...]
) -> Tracer:
    """Windows of the array, at places that index arrays say; ``new`` has the selection's layout."""
    axes, rank = chosen.looked_up, len(shape_of(new))
    dims = dict(zip([a for a in range(x.ndim) if a not in axes], chosen.window_dims(), strict=True))
    # An axis that is taken in steps is no window; each of its places is one for itself.
    stepped = {a: d for a, d in dims.items() if chosen.ranges[a].step != 1 or chosen.ranges[a].backwards}
    windows = {a: d for a, d in dims.items() if a not in stepped}
    batch = [d for d in range(rank) if d not in windows.values()]
    shape = tuple(shape_of(new)[d] for d in batch)
    own = [batch.index(d) for d in range(chosen.place, chosen.place + len(chosen.batch))]
    starts: dict[int, Tracer] = {
        axis: emit("broadcast_in_dim", array, shape=shape, dims=tuple(own)) for axis, array in chosen.arrays
    }
    for axis, dim in stepped.items():
        starts[axis] = _stepped(x, axis, chosen.ranges[axis], shape, batch.index(dim))
    for axis in windows:
        r = chosen.ranges[axis]
        if r.start != 0 or r.length is not shape_of(x)[axis]:
            start = made(x._trace, "dim_size", size=r.start, dtype=dtypes.int64)
            starts[axis] = emit("broadcast_in_dim", start, shape=shape, dims=())
    mapped = tuple(sorted(starts))
    attrs = scatter_attrs(
        combine, update_window_dims=tuple(sorted(windows.values())), scatter_dims_to_operand_dims=mapped,
        index_vector_dim=len(shape), inserted_window_dims=tuple(sorted((*axes, *stepped))), wrap=wrap,
    )  # fmt: skip
    return emit("scatter", x, *[starts[axis] for axis in mapped], new, regions=regions, **attrs)


def _stepped(x: Tracer, axis: int, r: SliceRange, shape: tuple[Dim, ...], dim: int) -> Tracer:
    """The places that a range takes, along one axis of ``shape``."""
    trace, size = x._trace, shape_of(x)[axis]
    numbers = made(trace, "iota", shape=shape, dimension=dim, dtype=dtypes.int64)
    first = size - 1 - r.start if r.backwards else r.start
    step = constant(trace, -r.step if r.backwards else r.step, dtypes.int64)
    start = made(trace, "dim_size", size=first, dtype=dtypes.int64)
    offsets = emit("multiply", numbers, expand(step, shape))
    return emit("add", offsets, expand(cast(start, dtypes.int64), shape))
