"""Whole Jacobians inside a trace: a pullback or a pushforward of every unit vector at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dyn import dtypes
from dyn.ir.core import Value
from dyn.ir.types import TensorType
from dyn.ir.vectorize import batched
from dyn.shapes import Dim
from dyn.trace.context import Trace
from dyn.trace.gradients import GradOptions, Leaves, Linearized, by_arguments
from dyn.trace.pytree import flatten, unflatten
from dyn.trace.region import trace_region
from dyn.trace.tracer import Tracer


def jacobian(
    trace: Trace, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], options: GradOptions,
    name: str, *, forward: bool,
) -> tuple[Any, Any]:  # fmt: skip
    """The Jacobian, and what is handed on beside the result.

    In the tree of the result each leaf is a tree of the arguments, of arrays whose shapes are the result's and then the
    argument's. ``forward`` takes a step for each element of the arguments, otherwise one for each of the results.
    """
    found = by_arguments(trace, function, args, kwargs, options, name)
    grid = _by_columns(found) if forward else _by_rows(found)
    rows: list[Any] = []
    for row in grid:
        tree = unflatten(found.primals.tree, [Tracer(trace, value) for value in row])
        rows.append(tree[0] if options.one() else tree)
    return unflatten(found.results.tree, rows), found.aux


def _by_rows(found: Linearized) -> list[list[Value]]:
    trace, wanted = found.trace, found.primals.values
    rows: list[list[Value]] = []
    for number, result in enumerate(found.results.values):
        made = _at_every_unit(trace, found.results, number, found.pulled)
        shapes = [(*result.shape, *v.shape) for v in wanted]
        rows.append([_reshaped(trace, value, shape) for value, shape in zip(made, shapes, strict=True)])
    return rows


def _by_columns(found: Linearized) -> list[list[Value]]:
    trace, results = found.trace, found.results.values
    columns: list[list[Value]] = []
    for number, wanted in enumerate(found.primals.values):
        made = _at_every_unit(trace, found.primals, number, found.pushed)
        column: list[Value] = []
        for value, result in zip(made, results, strict=True):
            rank = result.type.rank
            turned = trace.emit("transpose", value, permutation=(*range(1, rank + 1), 0)) if rank else value
            column.append(_reshaped(trace, turned, (*result.shape, *wanted.shape)))
        columns.append(column)
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in results]


def _at_every_unit(
    trace: Trace, leaves: Leaves, number: int, linear: Callable[[Sequence[Value | None]], Any]
) -> tuple[Value, ...]:
    """Values of a linear function of the leaves at every unit vector of one of them; the vectors' axis in front."""
    own = leaves.values[number]

    def of_one(unit: Tracer) -> Any:
        given: list[Value | None] = [None] * len(leaves.values)
        given[number] = unit._value
        return flatten(linear(given))[0]

    traced = trace_region(trace, of_one, [TensorType(own.dtype, own.shape)], name="a unit vector")
    size = own.type.size
    made, flags = batched(trace.builder, traced.region, [_units(trace, own, size)], [True], size)
    shapes = [(size, *v.shape) for v in traced.region.results]
    return tuple(
        v if flag else trace.emit("broadcast_in_dim", v, shape=shape, dims=tuple(range(1, len(shape))))
        for v, flag, shape in zip(made, flags, shapes, strict=True)
    )


def _units(trace: Trace, value: Value, size: Dim) -> Value:
    """Every unit vector of a value's type, one after another."""
    rows, columns = (trace.emit("iota", shape=(size, size), dimension=d, dtype=dtypes.int64) for d in (0, 1))
    diagonal = trace.emit("compare", rows, columns, direction="EQ")
    ones = trace.emit("convert", diagonal, dtype=value.dtype)
    return _reshaped(trace, ones, (size, *value.shape))


def _reshaped(trace: Trace, value: Value, shape: tuple[Dim, ...]) -> Value:
    return value if value.shape == shape else trace.emit("reshape", value, shape=shape)
