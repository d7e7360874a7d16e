"""Orders by several keys."""

from __future__ import annotations

from typing import Any

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import ArgumentError, UnsupportedOpError
from dyn.numpy._axes import one_axis
from dyn.numpy._broadcast import align
from dyn.numpy._indexing.take import take
from dyn.numpy._operands import emit_all, made, operand, shape_of, tracer
from dyn.numpy._public import Array, ArrayLike, public, trace_of
from dyn.source import user_loc

__all__ = ["lexsort"]


@public
def lexsort(keys: ArrayLike | tuple[ArrayLike, ...] | list[ArrayLike], axis: int = -1) -> Array:
    """Places that put several keys in order, of which the last one counts first.

    What is equal in all keys keeps its order, and NaN is more than any number.

    Args:
        keys: tuple or list of real arrays that broadcast, or an array whose rows they are: how many is known while
            tracing.
        axis: axis to sort along.

    Returns:
        An array of int64, of the shape of the keys.

    Raises:
        ArgumentError: if there are no keys.
        UnsupportedOpError: if a key is complex, or the number of rows is symbolic.

    Example:
        >>> dnp.lexsort((np.array([2, 1, 0]), np.array([0, 1, 0])))
        array([2, 0, 1])
    """
    given: list[Any] = [*keys] if isinstance(keys, tuple | list) else _rows(keys)
    if not given:
        raise ArgumentError("lexsort: there are no keys.", loc=user_loc(), remedy="give at least one array.")
    trace = trace_of(*given)
    arrays = [tracer(trace, key, "lexsort") for key in given]
    for x in arrays:
        if x.element_type.kind is Kind.COMPLEX:
            raise UnsupportedOpError(
                f"lexsort does not take {x.element_type.name}.",
                loc=user_loc(),
                remedy="give the imaginary and the real part as keys.",
            )
    arrays = align("lexsort", arrays)
    number = one_axis("lexsort", axis, arrays[0].ndim)
    places = made(trace, "iota", shape=shape_of(arrays[0]), dimension=number, dtype=dtypes.int64)
    many = {"num_keys": len(arrays)} if len(arrays) > 1 else {}
    return emit_all("sort", *reversed(arrays), places, dimension=number, descending=False, **many)[-1]


def _rows(keys: ArrayLike) -> list[Any]:
    value = operand("lexsort", keys)
    size = shape_of(value)[0] if value.ndim else 0
    if not isinstance(size, int):
        raise UnsupportedOpError(
            "lexsort takes a number of keys that is known while tracing.",
            loc=user_loc(),
            remedy="pass a tuple of arrays.",
        )
    return [take(value, i, axis=0) for i in range(size)]
