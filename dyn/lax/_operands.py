"""Operands of raw operations: users' arguments as values of one dtype.

Raw operations convert nothing: their operands have one dtype and one shape. Only Python numbers and dims are weak, as
everywhere, and take the dtype of the arrays beside them; and a 0-d array stands for one of any shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from dyn.dtypes import DType
from dyn.eager import eager_function
from dyn.errors import ShapeError, UnsupportedOpError
from dyn.ir.core import Value
from dyn.shapes import Dim
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.data_dependent import dim_from_value
from dyn.trace.dims import SymbolicDim, unwrap_dim
from dyn.trace.lift import converted, does_not_fit, is_liftable, lift, settled_dtype, yields_to
from dyn.trace.pytree import flatten
from dyn.trace.tracer import Tracer, active_trace

#: An array: a tracer inside of a trace, and what the caller's arrays are outside of one.
Array = Any
#: An array, a NumPy array or scalar, a Python number or a dimension.
ArrayLike = Any
#: A dtype in any spelling that NumPy or dyn has.
DTypeLike = Any
#: An int or a dimension such as ``x.shape[0]``.
Size = Any

F = TypeVar("F", bound=Callable[..., Any])


def raw(fn: F) -> F:
    """Record ``fn`` in the current trace; where there is none, compile and run it."""
    return eager_function(
        fn,
        lambda args, kwargs: active_trace(*flatten((args, kwargs))[0]),
        lambda args, kwargs: fn(*args, **kwargs),
    )


def trace_of(*values: Any) -> Trace:
    """The trace that a raw operation records in."""
    trace = active_trace(*flatten(values)[0])
    assert trace is not None, "only reached through `raw`"
    return trace


def size_of(what: str, size: Any) -> Dim:
    """A size that a user gives: an int, a dimension, or a traced integer, which is measured when the program runs."""
    if isinstance(size, Tracer) and size.ndim == 0 and size.element_type.is_integer:
        return dim_from_value(size._trace, size._value, "size", f"a size that {what} is given", None)
    found = unwrap_dim(size)
    if found is None:
        raise UnsupportedOpError(
            f"{what} does not take the {type(size).__name__} {size!r} for a size.",
            loc=user_loc(),
            remedy="use an int, or a dimension such as x.shape[0].",
        )
    return found


def sizes_of(what: str, sizes: Sequence[Any]) -> tuple[Dim, ...]:
    """Sizes that a user gives."""
    return tuple([size_of(what, size) for size in sizes])


def axis_of(what: str, axis: int, rank: int) -> int:
    """An axis counted from the front; ShapeError where there is none."""
    number = int(axis)
    if not -rank <= number < rank:
        raise ShapeError(
            f"{what}: {number} is no axis of an array with {rank} axes.",
            loc=user_loc(),
            remedy=f"use one from {-rank} to {rank - 1}." if rank else "a 0-d array has none.",
        )
    return number % rank


def lifted(what: str, trace: Trace, value: Any) -> Value:
    """An array of its own dtype; of numbers alone what they are where nothing meets them."""
    if not is_liftable(value):
        kind = type(value).__name__
        remedy = "make it an array with dyn.numpy.asarray." if isinstance(value, list | tuple) else "pass an array."
        raise UnsupportedOpError(f"{what} does not take a {kind} for an array.", loc=user_loc(), remedy=remedy)
    return lift(trace, value)


def lifted_each(what: str, trace: Trace, values: Sequence[Any]) -> list[Value]:
    """Operands, each of its own dtype and in its own shape."""
    return [lifted(what, trace, value) for value in values]


def lifted_all(what: str, trace: Trace, values: Sequence[Any]) -> list[Value]:
    """Operands of one dtype, each in its own shape: weak ones take the dtype of the others."""
    found = lifted_each(what, trace, values)
    strong = [v for v in found if not v.type.weak]
    if not strong:
        return found
    dtype = strong[0].dtype
    for v in strong:
        if v.dtype is not dtype:
            raise UnsupportedOpError(
                f"{what} takes operands of one dtype, not {dtype.name} and {v.dtype.name}.",
                loc=user_loc(),
                remedy="convert one of them with .astype, or use dyn.numpy's function, which converts.",
            )
    return [in_dtype(what, trace, v, dtype) if v.type.weak else v for v in found]


def in_dtype(what: str, trace: Trace, value: Value, dtype: DType) -> Value:
    """A weak value in the dtype of the arrays that it stands beside."""
    if value.dtype is not dtype and not yields_to(value, dtype):
        raise UnsupportedOpError(
            f"{what} does not take a Python number of dtype {value.dtype.name} beside {dtype.name}.",
            loc=user_loc(),
            remedy="convert the array with .astype first.",
        )
    number = trace.known_number(value)
    if number is None or value.shape:
        return converted(trace, value, dtype)
    return trace.number(number, _converted(number, dtype))


def _converted(number: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """A Python number in a dtype; an error where it does not fit."""
    try:
        with np.errstate(all="ignore"):
            return np.array(number, dtype.np)
    except OverflowError:
        raise does_not_fit(number, dtype) from None


def settled(trace: Trace, value: Value) -> Value:
    """A value that is not weak."""
    return trace.emit("convert", value, dtype=settled_dtype(value.dtype)) if value.type.weak else value


def one_shape(trace: Trace, values: Sequence[Value]) -> list[Value]:
    """0-d values in the shape of the others."""
    shape = next((v.shape for v in values if v.shape), ())
    return [v if v.shape or not shape else trace.emit("broadcast_in_dim", v, shape=shape, dims=()) for v in values]


def emitted(what: str, name: str, arrays: Sequence[Any], **attrs: Any) -> tuple[Tracer, ...]:
    """All results of the op ``name`` of arrays as they are; ``what`` is what errors call it."""
    trace = trace_of(*arrays)
    values = [lifted(what, trace, array) for array in arrays]
    return tuple([Tracer(trace, value) for value in trace.emit_all(name, *values, **attrs)])


def elementwise(name: str, what: str, *values: Any, **attrs: Any) -> Tracer:
    """The op ``name`` of operands of one dtype and shape; ``what`` is what errors call it."""
    trace = trace_of(*values)
    found = one_shape(trace, lifted_all(what, trace, values))
    return Tracer(trace, trace.emit(name, *found, **attrs))


def is_dim(value: Any) -> bool:
    """Whether a value is an int or a dimension, rather than an array."""
    return isinstance(value, SymbolicDim) or (isinstance(value, int) and not isinstance(value, bool))
