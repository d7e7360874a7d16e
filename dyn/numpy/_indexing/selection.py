"""Elements chosen by a condition."""

from __future__ import annotations

from typing import Any

from dyn import dtypes
from dyn.errors import ArgumentError, InvalidValueError
from dyn.numpy._axes import one_axis
from dyn.numpy._broadcast import align, expand
from dyn.numpy._indexing.getitem import getitem
from dyn.numpy._indexing.nonzero import nonzero
from dyn.numpy._joining import concatenate
from dyn.numpy._logic import truth
from dyn.numpy._operands import cast, default_float, emit, operand, promote, shape_of, tracer
from dyn.numpy._options import whole_number
from dyn.numpy._public import Array, ArrayLike, Size, public, trace_of
from dyn.numpy._unary import filled
from dyn.source import user_loc
from dyn.trace.lift import WEAK_DTYPES
from dyn.trace.tracer import Tracer

__all__ = ["diff", "nan_to_num", "select", "where"]


@public
def where(
    condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, /, *, size: Size | None = None,
    fill_value: Any = None,
) -> Array:  # fmt: skip
    """Elements of ``x`` where a condition is true, and of ``y`` elsewhere; or the places where it is true.

    Args:
        condition: array of any dtype; other than 0 is true.
        x: array that broadcasts with the others, or a Python number; None: places are asked for, as :func:`nonzero`
            gives them.
        y: array that broadcasts with the others, or a Python number.
        size: number of places, for the condition alone: see :func:`nonzero`.
        fill_value: places behind the last one, where ``size`` is more than there are.

    Returns:
        An array of the shape that all three broadcast to, in the dtype that ``x`` and ``y`` promote to; or the tuple of
        :func:`nonzero`.

    Raises:
        InvalidValueError: if one of ``x`` and ``y`` is given alone.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.

    Example:
        >>> dnp.where(np.array([True, False]), np.array([1, 2]), 0)
        array([1, 0])
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise InvalidValueError(
            "where takes both values or none.", loc=user_loc(), remedy="write where(condition, x, y)."
        )
    trace = trace_of(condition, x, y)
    mask = truth(tracer(trace, condition, "where"))
    a, b = promote("where", x, y)
    if a.weak and b.weak and mask.ndim and a.element_type.is_inexact:
        # Python floats that meet no array, in more than one element.
        a, b = (cast(v, default_float(), weak=True) if v.element_type.is_float else v for v in (a, b))
    return emit("select", *align("where", [mask, a, b]))


@public
def select(condlist: list[ArrayLike], choicelist: list[ArrayLike], default: ArrayLike = 0) -> Array:
    """Elements of the first choice whose condition is true.

    Args:
        condlist: list of arrays of booleans.
        choicelist: list of as many arrays, which broadcast with the conditions.
        default: array or number for where no condition is true.

    Returns:
        An array of the shape that all broadcast to, in the dtype that choices and default promote to.

    Raises:
        InvalidValueError: if there is no condition, or not one choice for each.
        ArgumentError: if a condition is not of booleans.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.

    Example:
        >>> dnp.select([np.array([True, False, False]), np.array([True, True, False])], [1, 2], 3)
        array([1, 2, 3])
    """
    if not condlist or len(condlist) != len(choicelist):
        raise InvalidValueError(
            f"select: there are {len(condlist)} conditions and {len(choicelist)} choices.",
            loc=user_loc(),
            remedy="give one choice for each condition, and one condition at least.",
        )
    for place, condition in enumerate(condlist):
        dtype = operand("select", condition, *choicelist).element_type
        if dtype is not dtypes.bool_:
            raise ArgumentError(
                f"select: condition {place} is {dtype.name}, not bool.",
                loc=user_loc(),
                remedy="compare, for example with != 0.",
            )
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = where(condition, choice, result)
    return result


@public
def nan_to_num(x: ArrayLike, /, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Array:
    """Elements with numbers for NaN and infinities.

    Args:
        x: array of any dtype, of any shape. Only floats are changed: complex numbers stay as they are.
        nan: number for NaN.
        posinf: number for infinity; None: the greatest of the dtype.
        neginf: number for negative infinity; None: the least of the dtype.

    Returns:
        An array of the shape and dtype of ``x``.

    Example:
        >>> dnp.nan_to_num(np.array([np.nan, 1.0, np.inf]), posinf=9.0)
        array([0., 1., 9.])
    """
    (value,) = promote("nan_to_num", x)
    if not value.element_type.is_float:
        return value
    limit = float(_finfo_max(value.element_type))
    result = emit("select", emit("compare", value, value, direction="NE"), filled(value, nan), value)
    for infinity, given, default in ((float("inf"), posinf, limit), (float("-inf"), neginf, -limit)):
        hit = emit("compare", value, filled(value, infinity), direction="EQ")
        result = emit("select", hit, filled(value, default if given is None else given), result)
    return result


def _finfo_max(dtype: dtypes.DType) -> Any:
    import ml_dtypes

    return ml_dtypes.finfo(dtype.np).max


@public
def diff(
    x: ArrayLike, /, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None, append: ArrayLike | None = None
) -> Array:
    """Differences of neighbours along an axis, ``n`` times over.

    Args:
        x: array of any dtype, of one axis or more; of booleans whether they differ.
        n: how often, an int; 0 gives ``x`` itself.
        axis: axis to go along.
        prepend: elements to put before those of ``x`` first: an array, or a number.
        append: elements to put behind them.

    Returns:
        An array of the dtype of ``x``, whose axis has ``n`` elements less, and 0 where there are no more.

    Raises:
        InvalidValueError: if ``n`` is negative.
        ArgumentError: if ``n`` is no int.
        ShapeError: if ``axis`` is not one of ``x``.

    Example:
        >>> dnp.diff(np.array([1, 4, 9, 16]), 2)
        array([2, 2])
    """
    value = operand("diff", x, prepend, append)
    number = one_axis("diff", axis, value.ndim)
    n = whole_number("diff", "n", n, 0)
    if n and (prepend is not None or append is not None):
        value = concatenate([_edge(v, value, number) for v in (prepend, value, append) if v is not None], axis=number)
    for _ in range(n):
        lead = (slice(None),) * number
        later, sooner = getitem(value, (*lead, slice(1, None))), getitem(value, (*lead, slice(None, -1)))
        name = "xor" if value.element_type is dtypes.bool_ else "subtract"
        value = emit(name, *align("diff", [later, sooner]))
    return value


def _edge(edge: ArrayLike, x: Tracer, axis: int) -> Any:
    """The array that is put at an end of ``x``: a number once along the axis."""
    if edge is x or getattr(edge, "ndim", 0):
        return edge
    shape = tuple(1 if a == axis else d for a, d in enumerate(shape_of(x)))
    return expand(
        tracer(x._trace, edge, "diff") if type(edge) not in WEAK_DTYPES else promote("diff", edge, x)[0], shape
    )
