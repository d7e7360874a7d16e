"""Common parts of reductions with a function of one's own: trees of operands, initial values, the function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dyn.dtypes import DType
from dyn.eager import call_traced
from dyn.errors import ArgumentError, ShapeError, UnsupportedOpError
from dyn.ir.core import Region, Value
from dyn.ir.types import TensorType
from dyn.ops.reduce import identity
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.lift import converted, is_liftable, lift, yields_to
from dyn.trace.pytree import TreeSpec, flatten, leaf_names, tree_text, unflatten
from dyn.trace.region import Expected, TracedRegion, trace_region
from dyn.trace.tracer import Tracer, active_trace

#: A tree of arrays; a tracer inside of a trace, and what the caller's arrays are outside of one.
Tree = Any
#: ``computation(a, b)``: what a fold has come to and the next elements, in trees, to what it comes to then.
Computation = Callable[[Any, Any], Any]
#: Appends the ops of a fold: the trace, n arrays, n scalars, and the body, to n results.
Emit = Callable[[Trace, list[Value], list[Value], Region], Sequence[Value]]


def folded(what: str, operands: Tree, init_values: Tree, computation: Computation, emit: Emit) -> Tree:
    """The results of ``emit`` for trees of operands and initial values; outside of a trace, compiled and run."""
    leaves, tree = flatten(operands)
    starts, start_tree = flatten(init_values)
    if tree != start_tree or not leaves:
        raise ArgumentError(
            f"{what}: the operands are {tree_text(tree)} and the initial values {tree_text(start_tree)}.",
            loc=user_loc(),
            remedy="give one initial value for each operand, in the same tree.",
        )
    trace = active_trace(*leaves, *starts)
    if trace is None:
        # Numbers are part of the program: an initial value may be the identity.
        def again(operands: Tree, init_values: Tree) -> Tree:
            return folded(what, operands, init_values, computation, emit)

        again.__name__ = what
        # An initial value that is written in the code may be the identity.
        return call_traced(again, (operands, init_values), {}, numbers=False)
    arrays = [
        _array(what, trace, leaf, f"operands{path}") for leaf, path in zip(leaves, leaf_names(tree, ""), strict=True)
    ]
    inits = [
        _initial(what, trace, leaf, array, f"init_values{path}")
        for leaf, array, path in zip(starts, arrays, leaf_names(tree, ""), strict=True)
    ]
    body = scalar_body(trace, what, computation, tree, [x.dtype for x in arrays])
    results = emit(trace, arrays, inits, body.region)
    return unflatten(tree, [Tracer(trace, value) for value in results])


def scalar_body(
    trace: Trace, what: str, computation: Computation, tree: TreeSpec, elements: Sequence[DType]
) -> TracedRegion:
    """``computation`` of two trees of scalars of these dtypes as a region: n and n of them in, n out."""
    count = len(elements)

    def call(*scalars: Tracer) -> Any:
        return computation(unflatten(tree, list(scalars[:count])), unflatten(tree, list(scalars[count:])))

    types = tuple(TensorType(dtype, ()) for dtype in elements)
    expected = Expected(tree, types, "its arguments")
    return trace_region(trace, call, [*types, *types], name=f"the body of {what}", expected=expected, closes=False)


def is_identity(trace: Trace, init: Value, monoid: str) -> bool:
    """Whether an initial value is known to change nothing under a monoid."""
    number = trace.builder.uniform(init)
    return number is not None and bool(number == np.asarray(identity(monoid, init.dtype)).astype(init.dtype.np))


def _array(what: str, trace: Trace, leaf: Any, name: str) -> Value:
    if not is_liftable(leaf):
        raise UnsupportedOpError(
            f"{what} does not take a {type(leaf).__name__} ({name}) for an array.",
            loc=user_loc(),
            remedy="make it an array with dyn.numpy.asarray.",
        )
    value = lift(trace, leaf)
    return trace.emit("convert", value, dtype=value.dtype) if value.type.weak else value


def _initial(what: str, trace: Trace, leaf: Any, array: Value, name: str) -> Value:
    """An initial value in the dtype of its operand: only Python numbers change theirs."""
    value = lift(trace, leaf) if is_liftable(leaf) else _array(what, trace, leaf, name)
    if yields_to(value, array.dtype):
        number = trace.builder.uniform(value)
        if number is None:
            value = converted(trace, value, array.dtype)
        else:  # a constant of that dtype at once: it may be an identity
            value = trace.constant(_in_dtype(what, number.item(), array.dtype, name))
    if value.type.rank or value.dtype is not array.dtype:
        raise ShapeError(
            f"{what}: the initial value {name} is {value.type}, and its operand {array.type}.",
            loc=user_loc(),
            remedy=f"give a scalar of dtype {array.dtype.name}.",
        )
    return value


def _in_dtype(what: str, number: complex, dtype: DType, name: str) -> np.ndarray[Any, Any]:
    try:
        with np.errstate(all="ignore"):
            return np.array(number, dtype.np)
    except OverflowError:
        raise UnsupportedOpError(
            f"{what}: the initial value {name} is {number}, which does not fit in {dtype.name}.",
            loc=user_loc(),
            remedy="convert the operand to a wider dtype with .astype.",
        ) from None
