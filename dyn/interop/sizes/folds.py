"""Operations on tensors that are known while a program is read: arithmetic of sizes, and moves of them.

A function takes arrays of numbers, or of objects some of which are dims or conditions, and gives such arrays.
NotImplemented says that the operation is one of data after all: of floats, of too many elements, or of what would not
be in a call what it is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.interop.sizes import conditions, elements
from dyn.interop.sizes.values import Array, boxed, is_symbolic
from dyn.shapes import SymExpr, free_symbols
from dyn.trace.context import current_trace

ASKS_FOR_OTHERS = True

#: Larger constants are not computed with while a program is read.
MOST = 1 << 16

#: A size times a greater number than that may be beyond 32 bits, in which integers wrap.
_MOST_TIMES = 1 << 16


def is_integer(*arrays: Array) -> bool:
    """Whether all elements are integers, truth values, dims or conditions."""
    return all(array.dtype == object or array.dtype.kind in "iub" for array in arrays)


def has_conditions(array: Array) -> bool:
    """Whether an element is a truth value."""
    return array.dtype.kind == "b" or (
        array.dtype == object
        and any(isinstance(one, bool | conditions.Comparison | conditions.Junction) for one in array.flat)
    )


def plain(element: Any) -> Any:
    """An element as Python has it."""
    return element.item() if isinstance(element, np.generic) else element


def as_array(value: Any) -> Array:
    """An array as it is, and an element, which NumPy gives for some subscripts, as an array without axes."""
    return value if isinstance(value, np.ndarray) else boxed(value)


# ---- each element ----------------------------------------------------------------------------------------------------

_ARITHMETIC: Mapping[str, elements.ElementFunction] = {
    "add": elements.add, "subtract": elements.subtract, "multiply": elements.multiply, "negate": elements.negate,
    "floor_divide": elements.floor_divide, "remainder": elements.floor_remainder, "maximum": elements.maximum,
    "minimum": elements.minimum,
}  # fmt: skip


def _computed(function: elements.ElementFunction, *arrays: Array, dtype: DType) -> Any:
    """``function`` of the elements of arrays; NotImplemented where a result is no dim and no condition."""
    trace = current_trace()
    if trace is None or not is_integer(*arrays) or any(one.size > MOST for one in arrays):
        return NotImplemented
    try:
        made = elements.each_element(elements.SizeQuery(trace.facts, dtype, trace), function, *arrays)
    except elements.UnknownError:
        return NotImplemented
    is_left_open = any(isinstance(one, elements.Rounded | elements.Sign) for one in made.flat)
    return NotImplemented if is_left_open else made


def exact(name: str, *arrays: Array, dtype: Any) -> Any:
    """Arithmetic of integers, by NumPy's ``name``. Floats are left to the program, and what wraps in this call."""
    made = _computed(_ARITHMETIC[name], *arrays, dtype=dtypes.dtype(dtype))
    return made if made is not NotImplemented and all(_fits(one, dtype) for one in made.flat) else NotImplemented


def _fits(element: Any, dtype: Any) -> bool:
    """Whether a number, or a size in this call, is what it is in a dtype, too: guarded where that is a question.

    Products of sizes alone are taken for sizes: what has as many elements is no array.
    """
    if not isinstance(element, SymExpr):
        return True
    trace, limits = current_trace(), np.iinfo(dtype)
    number = elements.largest_number(element)
    if number > limits.max:
        return False
    if trace is None or limits.bits > 32 or number <= _MOST_TIMES:
        return True
    least, most = int(limits.min), int(limits.max)
    inside = conditions.joined(True, conditions.ordered("<=", element, most), conditions.ordered(">=", element, least))
    known = conditions.known(inside, trace)
    if known is not None:
        return known
    is_of_call = not any(symbol.data_dependent for symbol in free_symbols(element))
    return is_of_call and conditions.decide(inside, trace)


def is_at_least_0(*arrays: Array) -> bool:
    """Whether no element is negative in any call."""
    trace = current_trace()
    return trace is not None and all(trace.facts.ge(plain(dim), 0).proved for one in arrays for dim in one.flat)


def quotient(a: Array, b: Array) -> Any:
    """The quotient of integers, rounded to 0."""
    return _computed(elements.divide, a, b, dtype=dtypes.int64)


_CONDITIONS: Mapping[str, elements.ElementFunction] = {
    "equal": elements.comparing("=="), "not_equal": elements.comparing("!="), "less": elements.comparing("<"),
    "less_equal": elements.comparing("<="), "greater": elements.comparing(">"),
    "greater_equal": elements.comparing(">="), "logical_and": elements.both, "logical_or": elements.either,
    "logical_not": elements.opposite,
}  # fmt: skip


def condition(name: str, *arrays: Array) -> Any:
    """Truth values of sizes, by NumPy's ``name``: a comparison, or ``logical_and`` and its kin."""
    return _computed(_CONDITIONS[name], *arrays, dtype=dtypes.bool_)


def converted(a: Array, dtype: DType) -> Any:
    """Elements in another dtype, where they are the same numbers there; for bool, that they are not 0."""
    if a.dtype != object:
        kinds = a.dtype.kind, np.dtype(dtype.np).kind
        return a.astype(dtype.np) if all(kind in "iub" for kind in kinds) else NotImplemented
    if dtype == dtypes.bool_:
        return _computed(elements.convert, a, dtype=dtype)
    if not dtype.is_integer or has_conditions(a) or np.iinfo(dtype.np).bits < 32:  # there it may wrap
        return NotImplemented
    return a if np.dtype(dtype.np).kind == "i" or is_at_least_0(a) else NotImplemented


def selected(condition: Array, a: Array, b: Array) -> Any:
    """Elements of ``a`` where a truth value is true, and of ``b`` where it is false, as far as a dim is that."""
    if condition.dtype != object and is_integer(a, b):
        return as_array(np.where(condition, a, b))
    return _computed(elements.select, condition, a, b, dtype=dtypes.int64)


# ---- many elements ---------------------------------------------------------------------------------------------------

_REDUCTIONS: Mapping[str, elements.ElementFunction] = {
    "prod": elements.multiply, "sum": elements.add, "max": elements.maximum, "min": elements.minimum,
}  # fmt: skip


def reduced(name: str, a: Array, *, keepdims: bool) -> Any:
    """The elements of a vector as one, by NumPy's ``name``."""
    trace = current_trace()
    if trace is None or not is_integer(a) or has_conditions(a) or a.ndim != 1 or not a.size:
        return NotImplemented
    query = elements.SizeQuery(trace.facts, dtypes.int64, trace)
    made = elements.reduce_elements(query, _REDUCTIONS[name], a[1:], (0,), plain(a[0]))
    return made.reshape(1) if keepdims else made


def taken(a: Array, places: Array, axis: int) -> Any:
    """Elements at places that are numbers."""
    return NotImplemented if places.dtype == object else as_array(np.take(a, places, axis))


def reshaped(a: Array, shape: Array) -> Any:
    """Elements in a shape of numbers."""
    return NotImplemented if any(map(is_symbolic, shape.flat)) else np.reshape(a, shape.astype(int))


def filled(shape: Array, value: Array) -> Any:
    """One element everywhere."""
    if any(map(is_symbolic, shape.flat)) or np.prod(shape.astype(float)) > MOST:
        return NotImplemented
    return boxed(value.item(), shape.tolist()) if value.dtype == object else np.full(shape.astype(int), value)


def counted(start: Array, limit: Array, step: Array) -> Any:
    """Integers from ``start`` on, before ``limit``."""
    if any(one.dtype.kind not in "iu" for one in (start, limit, step)):
        return NotImplemented
    made = np.arange(int(start), int(limit), int(step))
    return made if made.size <= MOST else NotImplemented


def is_plain_integers(a: Array) -> bool:
    """Whether it is few integers, none of them a truth value."""
    return is_integer(a) and a.size <= MOST and not has_conditions(a)
