"""Tensors that are known while a program is read, dims among their elements, and the way of them into the program.

- a ``Tracer``: elements that the program computes;
- a NumPy array: a constant, and what folds of constants;
- :class:`SizeTensor`: integers and truth values made of dims. They stay dims as long as nothing but arithmetic of
  shapes is done with them, however they are packed, sliced and multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import dyn.numpy as dnp
from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import UnsupportedOpError
from dyn.interop.sizes.conditions import Comparison, Junction
from dyn.shapes import SymExpr, free_symbols
from dyn.trace.constants import captured_constant
from dyn.trace.context import Trace
from dyn.trace.tracer import Tracer

Array = np.ndarray[Any, Any]

#: Constants of more elements are buffers that the program reads, not literals in it.
MOST_LITERAL = 64


@dataclass(frozen=True, eq=False, slots=True)
class SizeTensor:
    """A tensor whose elements are dims, or conditions on dims: known while the program is read, other in each call."""

    elements: Array
    dtype: DType


def boxed(value: Any, shape: Sequence[int] = ()) -> Array:
    """An array of objects with this one everywhere."""
    made = np.empty(tuple(shape), object)
    made[...] = value
    return made


def vector(values: Sequence[Any]) -> Array:
    """An array of objects along one axis."""
    made = np.empty(len(values), object)
    for number, value in enumerate(values):
        made[number] = value
    return made


def is_symbolic(element: object) -> bool:
    """Whether an element differs from call to call."""
    return isinstance(element, SymExpr | Comparison | Junction)


def settled(elements: Any, dtype: DType) -> Any:
    """Elements as a constant, where all are numbers, and of a list each one's.

    Integers beyond those of the dtype wrap, as its sums do.
    """
    if isinstance(elements, list):
        return [settled(one, dtype) for one in elements]
    if elements.dtype != object:
        return elements if elements.dtype == dtype.np else elements.astype(dtype.np)
    if dtype.is_integer:
        least, most = int(np.iinfo(dtype.np).min), int(np.iinfo(dtype.np).max)
        elements = each(lambda element: _wrapped(element, least, most))(elements)
    if any(map(is_symbolic, elements.flat)):
        return SizeTensor(elements, dtype)
    return elements.astype(dtype.np)


def _wrapped(element: Any, least: int, most: int) -> Any:
    """An integer as one of those from ``least`` to ``most`` that is the same modulo their number."""
    is_inside = is_symbolic(element) or least <= element <= most
    return element if is_inside else (int(element) - least) % (most - least + 1) + least


def elements_of(value: Array | SizeTensor) -> Array:
    """The elements of a value that is known: numbers, or objects where some are dims."""
    return value.elements if isinstance(value, SizeTensor) else value


def is_same(a: Any, b: Any) -> bool:
    """Whether two known values are equal in each call."""
    first, second = elements_of(a), elements_of(b)
    return first.shape == second.shape and all(x == y for x, y in zip(first.flat, second.flat, strict=True))


def is_of_arguments(value: Any) -> bool:
    """Whether the sizes in a known value follow from those of arguments: no part of the program finds them out."""
    dims = [one for one in value.elements.flat if isinstance(one, SymExpr)] if isinstance(value, SizeTensor) else []
    return not any(symbol.data_dependent for dim in dims for symbol in free_symbols(dim)) and not _has_conditions(value)


def _has_conditions(value: Any) -> bool:
    return isinstance(value, SizeTensor) and any(isinstance(one, Comparison | Junction) for one in value.elements.flat)


def is_known(value: object) -> bool:
    return isinstance(value, np.ndarray | SizeTensor)


def data(trace: Trace, value: Any) -> Tracer:
    """Anything with elements as data of the program."""
    if isinstance(value, Tracer):
        return value
    if isinstance(value, SizeTensor):
        flat = [_element(trace, one, value.dtype) for one in value.elements.flat]
        return flat[0] if value.elements.ndim == 0 else dnp.reshape(dnp.stack(flat), value.elements.shape)
    if isinstance(value, np.ndarray):
        if value.size > MOST_LITERAL:
            return Tracer(trace, captured_constant(trace, value))
        return Tracer(trace, trace.constant(value.astype(dtypes.dtype(value.dtype).np, copy=False)))
    raise UnsupportedOpError(f"a {type(value).__name__} in the place of numbers.")


def _element(trace: Trace, element: Any, dtype: DType) -> Tracer:
    if isinstance(element, SymExpr):
        return trace.dim_value(element).astype(dtype.np)
    if isinstance(element, Comparison | Junction):
        return element.computed(trace).astype(dtype.np)
    return Tracer(trace, trace.constant(np.asarray(element, dtype.np)))


def each(function: Callable[..., Any]) -> Callable[..., Array]:
    """A function of elements as one of arrays of objects, broadcast together."""
    ufunc: Any = None

    def run(*arrays: Array) -> Array:
        nonlocal ufunc
        if ufunc is None:
            ufunc = np.frompyfunc(function, len(arrays), 1)
        made = ufunc(*[array.astype(object) for array in arrays])
        return made if isinstance(made, np.ndarray) else boxed(made)

    return run
