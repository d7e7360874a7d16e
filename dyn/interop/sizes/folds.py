"""Operations on tensors that are known while a program is read: arithmetic of sizes, and moves of them.

A function takes arrays of numbers, or of objects some of which are dims or conditions, and gives such arrays.
NotImplemented says that the operation is one of data after all: of floats, of too many elements, or of what would not
be in a call what it is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dyn.dtypes import DType
from dyn.errors import ShapeError
from dyn.interop.sizes import conditions
from dyn.interop.sizes.values import Array, boxed, each, is_symbolic
from dyn.shapes import (
    Dim,
    Reason,
    Relation,
    RelKind,
    SymExpr,
    dim_max,
    dim_min,
    floordiv,
    free_symbols,
    mod,
    product,
)
from dyn.source import user_loc
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


def _nonzero(divisor: Dim) -> None:
    trace = current_trace()
    if isinstance(divisor, int):
        if divisor == 0:
            raise ShapeError("a size is divided by 0.", loc=user_loc())
    elif trace is not None:
        trace.require(Relation(RelKind.NONZERO, divisor, 0, Reason("a size is divided by it", user_loc())))


def _floordiv(a: Dim, b: Dim) -> Dim:
    _nonzero(b)
    return floordiv(a, b)


def _mod(a: Dim, b: Dim) -> Dim:
    _nonzero(b)
    return mod(a, b)


_EXACT: Mapping[str, Callable[..., Any]] = {
    name: each(function)
    for name, function in {
        "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
        "negate": lambda a: -a, "floor_divide": _floordiv, "remainder": _mod, "maximum": dim_max, "minimum": dim_min,
    }.items()
}  # fmt: skip


def exact(name: str, *arrays: Array, dtype: Any) -> Any:
    """Arithmetic of integers, by NumPy's ``name``. Floats are left to the program, and what wraps in this call."""
    if not is_integer(*arrays) or any(one.size > MOST for one in arrays):
        return NotImplemented
    made = _EXACT[name](*arrays)
    return made if all(_fits(one, dtype) for one in made.flat) else NotImplemented


def _fits(element: Any, dtype: Any) -> bool:
    """Whether a number, or a size in this call, is what it is in a dtype, too: guarded where that is a question.

    Products of sizes alone are taken for sizes: what has as many elements is no array.
    """
    if not isinstance(element, SymExpr):
        return True
    trace, limits = current_trace(), np.iinfo(dtype)
    numbers = [element.constant, *[coefficient for _, coefficient in element.terms]]
    if trace is None or limits.bits > 32 or max(map(abs, numbers)) <= _MOST_TIMES:
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
    """The quotient of integers, rounded to 0: of sizes, which are not negative, that is down."""
    if not is_integer(a, b):
        return NotImplemented
    if object not in (a.dtype, b.dtype) and b.all():
        return np.asarray((np.abs(a) // np.abs(b)) * np.sign(a) * np.sign(b))
    return each(_floordiv)(a, b) if is_at_least_0(a, b) else NotImplemented


def _decided(function: Callable[..., Any]) -> Callable[..., Array]:
    def decided(*elements: Any) -> Any:
        made, trace = function(*map(plain, elements)), current_trace()
        if isinstance(made, bool) or trace is None:
            return made
        known = conditions.known(made, trace)
        return made if known is None else known

    return each(decided)


_COMPARISONS: Mapping[str, Callable[..., Array]] = {
    "equal": _decided(conditions.equal),
    "not_equal": _decided(lambda a, b: conditions.negated(conditions.equal(a, b))),
    "less": _decided(lambda a, b: conditions.ordered("<", a, b)),
    "less_equal": _decided(lambda a, b: conditions.ordered("<=", a, b)),
    "greater": _decided(lambda a, b: conditions.ordered(">", a, b)),
    "greater_equal": _decided(lambda a, b: conditions.ordered(">=", a, b)),
}
_LOGICAL: Mapping[str, Callable[..., Array]] = {
    "logical_and": _decided(lambda a, b: conditions.joined(True, a, b)),
    "logical_or": _decided(lambda a, b: conditions.joined(False, a, b)),
    "logical_not": _decided(conditions.negated),
}


def condition(name: str, *arrays: Array) -> Any:
    """Truth values of sizes, by NumPy's ``name``: a comparison, or ``logical_and`` and its kin."""
    if not is_integer(*arrays) or any(one.size > MOST for one in arrays):
        return NotImplemented
    if name in _COMPARISONS and any(map(has_conditions, arrays)):  # a truth value is no dim
        return NotImplemented
    made = (_COMPARISONS.get(name) or _LOGICAL[name])(*arrays)
    return boxed(made.item()) if made.ndim == 0 else made


def converted(a: Array, dtype: DType) -> Any:
    """Elements in another dtype, where they are the same numbers there."""
    if a.dtype != object:
        kinds = a.dtype.kind, np.dtype(dtype.np).kind
        return a.astype(dtype.np) if all(kind in "iub" for kind in kinds) else NotImplemented
    if not dtype.is_integer or has_conditions(a) or np.iinfo(dtype.np).bits < 32:  # there it may wrap
        return NotImplemented
    return a if np.dtype(dtype.np).kind == "i" or is_at_least_0(a) else NotImplemented


def selected(condition: Array, a: Array, b: Array) -> Any:
    """Elements of ``a`` where a truth value is known to be true, and of ``b`` where it is false."""
    if condition.dtype == object or not is_integer(a, b):
        return NotImplemented
    return as_array(np.where(condition, a, b))


# ---- many elements ---------------------------------------------------------------------------------------------------

_REDUCTIONS: Mapping[str, Callable[[list[Any]], Any]] = {
    "prod": product, "sum": lambda elements: sum(elements, 0), "max": lambda elements: dim_max(*elements),
    "min": lambda elements: dim_min(*elements),
}  # fmt: skip


def reduced(name: str, a: Array, *, keepdims: bool) -> Any:
    """The elements of a vector as one, by NumPy's ``name``."""
    if not is_integer(a) or has_conditions(a) or a.ndim != 1 or not a.size:
        return NotImplemented
    made = boxed(_REDUCTIONS[name]([plain(one) for one in a]))
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
