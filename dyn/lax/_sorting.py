"""Sorting: several arrays in the order of the first ones, in any order that a function decides; the greatest elements.

Names and arguments are JAX's; ``sort_by`` is StableHLO's sort in its general form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import ArgumentError, UnsupportedOpError
from dyn.ir.core import Value
from dyn.ir.types import TensorType
from dyn.lax._operands import Array, ArrayLike, Size, axis_of, lifted, raw, settled, size_of, trace_of
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.pytree import flatten
from dyn.trace.region import Expected, trace_region
from dyn.trace.tracer import Tracer
from dyn.transforms import Transformed

#: ``comparator(left, right, …)``: scalars of each operand, two and two; whether the left ones go before the right ones.
Comparator = Callable[..., Any]


@raw
def sort(
    operand: ArrayLike | Sequence[ArrayLike], dimension: int = -1, is_stable: bool = True, num_keys: int = 1
) -> Array | tuple[Array, ...]:
    """Elements in order along an axis, of one array or of several in the order of the first, as in ``jax.lax.sort``.

    NaN is more than any number, and zeros of both signs are equal. Complex numbers are ordered by their real parts, and
    equal ones by their imaginary parts.

    Args:
        operand: array, or a sequence of arrays of one shape; its size along the axis may be symbolic, or 0.
        dimension: axis to sort along.
        is_stable: whether equal elements keep their order, which they do in any case.
        num_keys: how many of several arrays are keys, the first the most significant; the others go along.

    Returns:
        An array, or a tuple of them where a sequence is given, of their shapes and dtypes.

    Raises:
        ArgumentError: if there is no array, or not one for each key.
        ShapeError: if shapes differ, at the call at the latest, or the axis is not there.

    Example:
        >>> lax.sort((np.array([2, 1, 2]), np.array([3, 2, 1])), num_keys=2)
        (array([1, 2, 2]), array([2, 1, 3]))
    """
    several = isinstance(operand, tuple | list)
    given: list[Any] = [*operand] if isinstance(operand, tuple | list) else [operand]
    if not given or not 1 <= num_keys <= len(given):
        raise ArgumentError(
            f"sort: there are {len(given)} operands and {num_keys} keys.",
            loc=user_loc(),
            remedy="give at least one operand, and at least one of them for a key.",
        )
    trace = trace_of(*given)
    values = _arrays("sort", trace, given)
    made = [
        Tracer(trace, v) for v in _sorted(trace, values, axis_of("sort", dimension, len(values[0].shape)), num_keys)
    ]
    return tuple(made) if several else made[0]


def _arrays(what: str, trace: Trace, given: Sequence[Any]) -> list[Value]:
    return [settled(trace, lifted(what, trace, x)) for x in given]


def _sorted(trace: Trace, values: list[Value], axis: int, num_keys: int) -> list[Value]:
    """Values in the order of the first ones. Complex ones are taken apart, and put together again."""
    parts: list[Value] = []
    keys, places = 0, list[int]()
    for number, v in enumerate(values):
        places.append(len(parts))
        whole = v.dtype.kind is not Kind.COMPLEX
        parts += [v] if whole else [trace.emit("real", v), trace.emit("imag", v)]
        keys = len(parts) if number < num_keys else keys
    more: dict[str, Any] = {"num_keys": keys} if keys > 1 else {}
    made = trace.emit_all("sort", *parts, dimension=axis, descending=False, **more)
    return [
        made[i] if v.dtype.kind is not Kind.COMPLEX else trace.emit("complex", made[i], made[i + 1])
        for i, v in zip(places, values, strict=True)
    ]


def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Array, Array]:
    """Keys in order along an axis, and values in the order of the keys.

    Args:
        keys: array of any dtype.
        values: array of the same shape, of any dtype.
        dimension: axis to sort along.
        is_stable: whether equal elements keep their order, which they do in any case.

    Returns:
        A pair of arrays.

    Raises:
        ShapeError: if shapes differ, at the call at the latest, or the axis is not there.

    Example:
        >>> lax.sort_key_val(np.array([3, 1, 2]), np.array([10, 20, 30]))
        (array([1, 2, 3]), array([20, 30, 10]))
    """
    ordered, carried = sort((keys, values), dimension=dimension, is_stable=is_stable, num_keys=1)
    return ordered, carried


def sort_by(
    operands: ArrayLike | Sequence[ArrayLike], comparator: Comparator, dimension: int = -1, is_stable: bool = True
) -> Array | tuple[Array, ...]:
    """Elements in an order of one's own along an axis: StableHLO's sort.

    A comparator that compares one expression of both sides, and of equal ones another, is recognised, and costs what
    :func:`sort` does; any other is called some log(n)**2 / 2 times for each element.

    Args:
        operands: array, or a sequence of arrays of one shape.
        comparator: function of scalars, two of each array, ``comparator(l0, r0, l1, r1, …)``: whether the left ones go
            before the right ones. It computes with its arguments, Python numbers and dims. What goes before neither way
            is equal.
        dimension: axis to sort along.
        is_stable: whether equal elements keep their order, which they do in any case.

    Returns:
        An array, or a tuple of them where a sequence is given, of their shapes and dtypes.

    Raises:
        ArgumentError: if there is no array.
        UnsupportedOpError: if the comparator reads an array from outside.
        ShapeError: if shapes differ, at the call at the latest, or the axis is not there.

    Example:
        >>> lax.sort_by(np.array([3, -5, 1]), lambda a, b: abs(a) < abs(b))
        array([ 1,  3, -5])
    """
    several = isinstance(operands, tuple | list)

    def inside(trace: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = _arrays("sort_by", trace, flatten(args[0])[0])
        if not values:
            raise ArgumentError("sort_by: there are no operands.", loc=user_loc(), remedy="give at least one array.")
        axis = axis_of("sort_by", dimension, len(values[0].shape))
        types = [TensorType(v.dtype, ()) for v in values for _ in range(2)]
        _, tree = flatten(0)
        expected = Expected(tree, (TensorType(dtypes.bool_, ()),), "comparisons")
        body = trace_region(trace, comparator, types, name="the comparator of sort_by", expected=expected, closes=False)
        made = trace.emit_all("sort_by", *values, dimension=axis, is_stable=is_stable, regions=(body.region,))
        results = [Tracer(trace, v) for v in made]
        return tuple(results) if several else results[0]

    return Transformed("sort_by", comparator, inside)(operands)


@raw
def top_k(operand: ArrayLike, k: Size, *, axis: int = -1) -> tuple[Array, Array]:
    """Greatest elements along an axis and their places, as in ``jax.lax.top_k``.

    Floats are ordered as by IEEE 754's totalOrder: NaN is more than inf, 0.0 more than -0.0.

    Args:
        operand: array of any real dtype.
        k: how many: an int, a dimension, or a traced integer, whose size is found out when the program runs.
        axis: axis to go along.

    Returns:
        The elements, the greatest first and of equal ones the first, and their places, int32; the axis has ``k``
        elements.

    Raises:
        ShapeError: if ``k`` is more than there are, at the call at the latest.
        UnsupportedOpError: if ``operand`` is complex.

    Example:
        >>> lax.top_k(np.array([1, 5, 3]), 2)
        (array([5, 3]), array([1, 2], dtype=int32))
    """
    trace = trace_of(operand, k)
    (x,) = _arrays("top_k", trace, [operand])
    if x.dtype.kind is Kind.COMPLEX:
        raise UnsupportedOpError(
            f"top_k does not take {x.dtype.name}, which has no order.",
            loc=user_loc(),
            remedy="take the absolute values, or a part.",
        )
    number, count = axis_of("top_k", axis, len(x.shape)), size_of("top_k", k)
    values, places = trace.emit_all("top_k", x, k=count, dimension=number)
    return Tracer(trace, values), Tracer(trace, places)
