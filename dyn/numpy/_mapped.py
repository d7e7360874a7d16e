"""Functions of vectors and numbers applied along axes, and to all elements together: ``dyn.vmap`` in NumPy's words."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from dyn.errors import ArgumentError, ShapeError
from dyn.numpy._axes import one_axis, text_of
from dyn.numpy._broadcast import expand, join_shapes
from dyn.numpy._manipulation import expand_dims, moveaxis, ndim
from dyn.numpy._operands import operand, shape_of
from dyn.numpy._public import Array, ArrayLike
from dyn.shapes import Reason, Relation, RelKind
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.tracer import Tracer
from dyn.transforms import Transformed, vmap

__all__ = ["apply_along_axis", "apply_over_axes", "vectorize"]

Function = Callable[..., Any]


def apply_along_axis(func1d: Function, axis: int, arr: ArrayLike, *args: Any, **kwargs: Any) -> Array:
    """Function of vectors applied to each vector along an axis: ``dyn.vmap`` over all others.

    Args:
        func1d: function of a vector that gives an array of one shape, in functions of dyn.
        axis: axis of the vectors.
        arr: array of any dtype.
        *args: further arguments of the function.
        **kwargs: further arguments of the function, by name.

    Returns:
        An array with the axes of the function's result in the place of the axis.

    Raises:
        ShapeError: if ``axis`` is not one of ``arr``.

    Example:
        >>> dnp.apply_along_axis(lambda row: row.sum(), 1, np.array([[1, 2], [3, 4]]))
        array([3, 7])
    """

    def inside(trace: Trace, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        array, more = given
        value = operand("apply_along_axis", array, *more)
        number = one_axis("apply_along_axis", axis, value.ndim)
        function: Function = lambda row: func1d(row, *more, **named)  # noqa: E731
        for _ in range(value.ndim - 1):
            function = vmap(function)
        result = function(moveaxis(value, number, -1))
        own = ndim(result) - (value.ndim - 1)
        return moveaxis(result, _numbers(value.ndim - 1, own), _numbers(number, own))

    return Transformed("apply_along_axis", func1d, inside)(arr, args, **kwargs)


def _numbers(start: int, count: int) -> list[int]:
    """So many numbers from ``start`` on."""
    return list(range(start, start + count))


def apply_over_axes(func: Function, a: ArrayLike, axes: int | Sequence[int]) -> Array:
    """Function of an array and an axis applied for one axis after the other.

    Args:
        func: function of an array and the number of an axis, whose result has as many axes or one less.
        a: array of any dtype.
        axes: axis or axes.

    Returns:
        The last result; an axis that the function drops comes back with size 1.

    Raises:
        ShapeError: if the function gives another number of axes.

    Example:
        >>> dnp.apply_over_axes(dnp.sum, np.ones((2, 3)), [0, 1])
        array([[6.]])
    """
    result: Any = a
    for axis in [axes] if isinstance(axes, int) else list(axes):
        number = axis if axis >= 0 else axis + ndim(result)
        made = func(result, number)
        if ndim(made) not in (ndim(result), ndim(result) - 1):
            raise ShapeError(
                f"apply_over_axes: the function gives an array with {ndim(made)} axes of one with {ndim(result)}.",
                loc=user_loc(),
                remedy="return an array with as many axes, or without the one that was named.",
            )
        result = made if ndim(made) == ndim(result) else expand_dims(made, number)
    return result


# ---- vectorize -------------------------------------------------------------------------------------------------------

_CORE = re.compile(r"\(([^()]*)\)")


def _signature(text: str) -> tuple[list[list[str]], list[list[str]]]:
    """``"(n,m),(m)->(n)"`` as the names of the axes of arguments and of results."""
    sides = text.replace(" ", "").split("->")
    pattern = r"\([\w,]*\)(,\([\w,]*\))*"
    if len(sides) != 2 or not all(re.fullmatch(pattern, side) for side in sides):
        raise ArgumentError(
            f"vectorize: {text!r} is no signature.", loc=user_loc(), remedy="write one such as '(n,m),(m)->(n)'."
        )
    left, right = ([[n for n in core.split(",") if n] for core in _CORE.findall(side)] for side in sides)
    return left, right


def vectorize(
    pyfunc: Function, *, excluded: Collection[int | str] = frozenset(), signature: str | None = None
) -> Function:
    """Function of numbers as one of arrays that broadcast: no loop, but ``dyn.vmap`` over every axis.

    Args:
        pyfunc: function of scalars, or of arrays as ``signature`` says, in functions of dyn.
        excluded: positions and names of arguments that go to the function as they are; all that are passed by name do.
        signature: last axes of arguments and results that belong to the function itself, such as ``"(n,m),(m)->(n)"``;
            axes of one name have to be equal. None: the function is one of scalars.

    Returns:
        The function of arrays.

    Raises:
        ArgumentError: if ``signature`` is none, or an excluded position is negative; when called, if there are not as
            many arguments.

    Example:
        >>> dnp.vectorize(lambda x, y: x * y + 1)(np.array([1, 2]), np.array([[1], [2]]))
        array([[2, 3],
               [3, 5]])
    """
    cores = None if signature is None else _signature(signature)
    left_out = frozenset(excluded)
    if any(isinstance(e, int) and e < 0 for e in left_out):
        raise ArgumentError(
            "vectorize: an excluded position is negative.", loc=user_loc(), remedy="count from the first argument."
        )

    @functools.wraps(pyfunc)
    def vectorized(*args: Any, **kwargs: Any) -> Any:
        mapped = [number for number, _ in enumerate(args) if number not in left_out]
        kept = tuple((number, args[number]) for number, _ in enumerate(args) if number in left_out)

        def call(*numbers: Tracer) -> Any:
            whole = dict([*kept, *zip(mapped, numbers, strict=True)])
            return pyfunc(*(whole[number] for number, _ in enumerate(args)), **kwargs)

        def inside(trace: Trace, given: tuple[Any, ...], _: dict[str, Any]) -> Any:
            values = [operand("vectorize", x, *given) for x in given]
            return _over_all(trace, call, values, [[] for _ in values] if cores is None else cores[0], signature)

        return Transformed("vectorize", pyfunc, inside)(*(args[number] for number in mapped))

    return vectorized


def _over_all(
    trace: Trace, call: Function, values: Sequence[Tracer], inputs: Sequence[Sequence[str]], signature: str | None
) -> Any:
    """The function mapped over all axes but those of its own, ``inputs``."""
    if len(inputs) != len(values):
        raise ArgumentError(
            f"vectorize: the signature {signature!r} has {len(inputs)} arguments, and {len(values)} are given.",
            loc=user_loc(),
            remedy="pass as many as the signature has.",
        )
    _check_cores(values, inputs)
    lead = [shape_of(v)[: v.ndim - len(core)] for v, core in zip(values, inputs, strict=True)]
    batch = join_shapes("vectorize", trace, lead)
    function = call
    for _ in batch:
        function = vmap(function)
    return function(*(expand(v, (*batch, *shape_of(v)[len(own) :])) for v, own in zip(values, lead, strict=True)))


def _check_cores(values: Sequence[Tracer], inputs: Sequence[Sequence[str]]) -> None:
    """Demand that every argument has its own axes, and that axes of one name are as long as each other."""
    known: dict[str, Any] = {}
    for value, core in zip(values, inputs, strict=True):
        if value.ndim < len(core):
            raise ShapeError(
                f"vectorize: {text_of(value)} has {value.ndim} axes, and the signature gives it ({','.join(core)}).",
                loc=user_loc(),
                remedy="pass an array that has all of them.",
            )
        for name, size in zip(core, shape_of(value)[value.ndim - len(core) :], strict=True):
            first = known.setdefault(name, size)
            reason = Reason(f"the signature names two axes {name}", user_loc())
            value._trace.require(Relation(RelKind.EQ, first, size, reason))
