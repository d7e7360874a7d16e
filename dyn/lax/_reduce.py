"""Reductions with a function of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dyn import config, dtypes
from dyn.api import jit
from dyn.dtypes import DType
from dyn.errors import ArgumentError, ShapeError, UnsupportedOpError
from dyn.hosts import host_of
from dyn.ir.core import Value
from dyn.ir.types import TensorType
from dyn.ops.reduce import identity
from dyn.ops.regions import monoid_of
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.lift import is_liftable, lift
from dyn.trace.pytree import TreeSpec, flatten, leaf_names, tree_text, unflatten
from dyn.trace.region import Expected, TracedRegion, trace_region
from dyn.trace.tracer import Tracer, active_trace

#: A tree of arrays; a tracer inside of a trace, and what the caller's arrays are outside of one.
Tree = Any


def reduce(
    operands: Tree, init_values: Tree, computation: Callable[[Any, Any], Any], dimensions: Sequence[int]
) -> Tree:
    """The fold of ``operands`` along ``dimensions`` with ``computation``, as in ``jax.lax.reduce``.

    ``operands`` is an array, or a tree of arrays of one shape; ``init_values`` a tree of scalars like it.
    ``computation(a, b)`` takes two such trees of scalars, what the fold has come to and the next elements, and gives
    what it comes to then: each result is ``computation(…computation(init, x[0])…, x[n-1])``, in the order of the
    elements, and ``init`` where there are none. Where it is the sum, product, maximum, minimum, ``&``, ``|`` or ``^``
    of its arguments, leaf by leaf, the order is any.

    It computes with its arguments, Python numbers and dims: an array from outside is an UnsupportedOpError, as is an
    operation that gives no scalar. Trees that differ are an ArgumentError, shapes and dtypes that differ a ShapeError.
    """
    leaves, tree = flatten(operands)
    starts, start_tree = flatten(init_values)
    if tree != start_tree or not leaves:
        raise ArgumentError(
            f"reduce: the operands are {tree_text(tree)} and the initial values {tree_text(start_tree)}.",
            loc=user_loc(),
            remedy="give one initial value for each operand, in the same tree.",
        )
    trace = active_trace(*leaves, *starts)
    if trace is None:
        return _at_once(leaves, starts, tree, computation, tuple(dimensions))
    names = leaf_names(tree, "operands")
    arrays = [_lifted(trace, leaf, name) for leaf, name in zip(leaves, names, strict=True)]
    inits = [
        _initial(trace, leaf, array, name)
        for leaf, array, name in zip(starts, arrays, leaf_names(tree, "init_values"), strict=True)
    ]
    axes = _axes(dimensions, arrays[0].type.rank)
    body = scalar_body(trace, "reduce", computation, tree, [x.dtype for x in arrays])
    monoids = monoid_of(body.region)
    if monoids is None:
        results = trace.emit_all("variadic_reduce", *arrays, *inits, axes=axes, regions=(body.region,))
    else:
        results = [_joined(trace, m, x, init, axes) for m, x, init in zip(monoids, arrays, inits, strict=True)]
    return unflatten(tree, [Tracer(trace, value) for value in results])


def scalar_body(
    trace: Trace, what: str, computation: Callable[[Any, Any], Any], tree: TreeSpec, elements: Sequence[DType]
) -> TracedRegion:
    """``computation`` of two trees of scalars of these dtypes as a region: n and n of them in, n out."""
    count = len(elements)

    def call(*scalars: Tracer) -> Any:
        return computation(unflatten(tree, list(scalars[:count])), unflatten(tree, list(scalars[count:])))

    types = tuple(TensorType(dtype, ()) for dtype in elements)
    expected = Expected(tree, types, "its arguments")
    return trace_region(trace, call, [*types, *types], name=f"the body of {what}", expected=expected, closes=False)


def _at_once(
    leaves: list[Any], starts: list[Any], tree: TreeSpec, computation: Callable[[Any, Any], Any], axes: tuple[int, ...]
) -> Tree:
    """Outside of traces: compiled and run. Numbers are part of the program, arrays its arguments."""
    given = [*leaves, *starts]
    places = [i for i, leaf in enumerate(given) if isinstance(leaf, np.ndarray | np.generic) or host_of(leaf)]

    def program(*arrays: Any) -> Tree:
        filled = list(given)
        for place, array in zip(places, arrays, strict=True):
            filled[place] = array
        xs, inits = filled[: len(leaves)], filled[len(leaves) :]
        return reduce(unflatten(tree, xs), unflatten(tree, inits), computation, axes)

    program.__name__ = "reduce"
    return jit(program)(*[given[place] for place in places])


def _lifted(trace: Trace, leaf: Any, name: str) -> Value:
    if not is_liftable(leaf):
        raise UnsupportedOpError(
            f"reduce does not take a {type(leaf).__name__} ({name}) for an array.",
            loc=user_loc(),
            remedy="make it an array with dyn.numpy.asarray.",
        )
    value = lift(trace, leaf)
    return trace.emit("convert", value, dtype=value.dtype) if value.type.weak else value


def _initial(trace: Trace, leaf: Any, array: Value, name: str) -> Value:
    """An initial value in the dtype of its operand: only Python numbers change theirs."""
    value = lift(trace, leaf) if is_liftable(leaf) else _lifted(trace, leaf, name)
    default = dtypes.dtype(config.current().default_float)
    if value.type.weak and dtypes.weak_promote(value.dtype.kind, array.dtype, default) is array.dtype:
        number = trace.builder.uniform(value)
        if number is None:
            value = trace.emit("convert", value, dtype=array.dtype)
        else:  # a constant of that dtype at once: it may be an identity
            value = trace.constant(_in_dtype(number.item(), array.dtype, name))
    if value.type.rank or value.dtype is not array.dtype:
        raise ShapeError(
            f"reduce: the initial value {name} is {value.type}, and its operand {array.type}.",
            loc=user_loc(),
            remedy=f"give a scalar of dtype {array.dtype.name}.",
        )
    return value


def _in_dtype(number: complex, dtype: DType, name: str) -> np.ndarray[Any, Any]:
    try:
        with np.errstate(all="ignore"):
            return np.array(number, dtype.np)
    except OverflowError:
        raise UnsupportedOpError(
            f"reduce: the initial value {name} is {number}, which does not fit in {dtype.name}.",
            loc=user_loc(),
            remedy="convert the operand to a wider dtype with .astype.",
        ) from None


def _axes(dimensions: Sequence[int], rank: int) -> tuple[int, ...]:
    axes = [int(axis) for axis in dimensions]
    numbers = tuple(sorted(axis % rank if -rank <= axis < rank else axis for axis in axes))
    if len(set(numbers)) != len(numbers) or any(not 0 <= axis < rank for axis in numbers):
        raise ShapeError(
            f"reduce: the dimensions {tuple(axes)} are not different axes of an array with {rank} axes.",
            loc=user_loc(),
            remedy="name each axis once." if rank else "a 0-d array has none: pass dimensions=().",
        )
    return numbers


def _joined(trace: Trace, monoid: str, x: Value, init: Value, axes: tuple[int, ...]) -> Value:
    """The reduction with a monoid, joined with its initial value where that is more than the identity."""
    result = trace.emit("reduce", x, axes=axes, combine=monoid, nonempty=False)
    number = trace.builder.uniform(init)
    if number is not None and number == np.asarray(identity(monoid, x.dtype)).astype(x.dtype.np):
        return result
    start = trace.emit("broadcast_in_dim", init, shape=result.shape, dims=()) if result.shape else init
    return trace.emit(monoid, start, result)
