"""``vmap`` inside a trace: a function of one example, written into the program for many."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dyn.errors import ArgumentError
from dyn.ir.core import Value
from dyn.ir.types import TensorType
from dyn.ir.vectorize import batched, spread
from dyn.shapes import Dim, RelKind
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.dims import unwrap_dim
from dyn.trace.lift import lift_leaves
from dyn.trace.pytree import Names, flatten, leaf_names, spread_prefix, unflatten
from dyn.trace.region import trace_region
from dyn.trace.tracer import Tracer


def vectorize(
    trace: Trace, function: Callable[..., Any], args: tuple[Any, ...], in_axes: Any, out_axes: Any, axis_size: Any,
    name: str,
) -> Any:  # fmt: skip
    """``function`` of every example along ``in_axes`` of ``args``, the results along ``out_axes``.

    ``args`` are the positional and the named arguments: a tuple and a dict.
    """
    leaves, tree = flatten(args)
    parts = zip(("args", "kwargs"), tree.children(), strict=True)
    names = Names(len(leaves), lambda: [name for root, part in parts for name in leaf_names(part, root)])
    axes = spread_prefix(in_axes, args, f"{name}: in_axes")
    values = lift_leaves(trace, leaves, names, name)
    own = [
        _axis(axis, value.type.rank, partial(_mapped, name, axis, names, number, value))
        for number, (value, axis) in enumerate(zip(values, axes, strict=True))
    ]
    size = _size(trace, values, own, names, axis_size, name)
    params = [_one_example(v.type, axis) for v, axis in zip(values, own, strict=True)]
    traced = trace_region(trace, lambda *tracers: function(*unflatten(tree, list(tracers))), params, name=name)
    given = [v if axis is None else _moved(trace, v, axis, 0) for v, axis in zip(values, own, strict=True)]
    made, flags = batched(trace.builder, traced.region, given, [axis is not None for axis in own], size)
    shape_of_results = unflatten(traced.out_tree, list(made))
    out = spread_prefix(out_axes, shape_of_results, f"{name}: out_axes")
    results: list[Tracer] = []
    names = leaf_names(traced.out_tree, "the result")
    for number, (value, flag, axis) in enumerate(zip(made, flags, out, strict=True)):
        called = partial(_called, name, names, number)
        results.append(Tracer(trace, _placed(trace, value, flag, axis, size, called)))
    return unflatten(traced.out_tree, list(results))


def _mapped(name: str, axis: Any, names: Names, number: int, value: Value) -> str:
    return f"{name}: in_axes={axis}, and {names[number]} is {value.type}"


def _called(name: str, names: Names, number: int) -> str:
    return f"{name}: {names[number]}"


def _axis(axis: Any, rank: int, what: Callable[[], str]) -> int | None:
    if axis is None:
        return None
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise ArgumentError(f"{what()}, which has no such axis.", loc=user_loc(), remedy="name an axis of it, or None.")
    return axis % rank


def _one_example(type: TensorType, axis: int | None) -> TensorType:
    return type if axis is None else type.with_shape((*type.shape[:axis], *type.shape[axis + 1 :]))


def _size(trace: Trace, values: list[Value], axes: list[int | None], names: Names, axis_size: Any, name: str) -> Dim:
    """Size of the mapped axes: all have the same, which is demanded of every call."""
    found = None if axis_size is None else unwrap_dim(axis_size)
    first: tuple[int, int] | None = None
    for number, (value, axis) in enumerate(zip(values, axes, strict=True)):
        if axis is None:
            continue
        own = value.shape[axis]
        if found is None:
            found, first = own, (number, axis)
        elif found is not own:
            origin = "axis_size" if first is None else f"{names[first[0]]}.shape[{first[1]}]"
            text = f"{name} maps {names[number]}.shape[{axis}] together with {origin}"
            trace.demand(RelKind.EQ, found, own, text)
    if found is None:
        raise ArgumentError(
            f"{name}: no argument has an axis that is mapped.",
            loc=user_loc(),
            remedy="give one an axis in in_axes, or pass axis_size.",
        )
    return found


def _moved(trace: Trace, value: Value, source: int, target: int) -> Value:
    """The value with an axis somewhere else."""
    if source == target:
        return value
    order = [axis for axis in range(value.type.rank) if axis != source]
    order.insert(target, source)
    return trace.emit("transpose", value, permutation=tuple(order))


def _placed(trace: Trace, value: Value, flag: bool, axis: Any, size: Dim, what: Callable[[], str]) -> Value:
    """A result with the axis of examples where the user wants it."""
    if axis is None:
        if flag:
            raise ArgumentError(
                f"{what()} differs from example to example, and out_axes is None for it.",
                loc=user_loc(),
                remedy="give it an axis, or reduce it over the examples inside.",
            )
        return value
    many = value if flag else spread(trace.builder, value, size)
    place = _axis(axis, many.type.rank, lambda: f"{what()} is {many.type} for all examples, and out_axes={axis}")
    return _moved(trace, many, 0, 0 if place is None else place)
