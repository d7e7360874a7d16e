"""Elements chosen by a condition."""

from __future__ import annotations

from typing import Any

from dyn import dtypes
from dyn.errors import UnsupportedOpError
from dyn.numpy._axes import one_axis
from dyn.numpy._broadcast import align
from dyn.numpy._indexing import getitem
from dyn.numpy._logic import truth
from dyn.numpy._nonzero import nonzero
from dyn.numpy._operands import cast, default_float, emit, operand, promote, tracer
from dyn.numpy._public import Array, ArrayLike, Size, public, trace_of
from dyn.numpy._unary import filled
from dyn.source import user_loc

__all__ = ["diff", "nan_to_num", "select", "where"]


@public
def where(
    condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None, /, *, size: Size | None = None,
    fill_value: Any = None,
) -> Array:  # fmt: skip
    """``x`` where the condition is not 0, else ``y``; all three broadcast together.

    With the condition alone the places where it is not 0, as :func:`nonzero` gives them.
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise UnsupportedOpError(
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
    """The choice whose condition is the first to be true, else ``default``."""
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        result = where(condition, choice, result)
    return result


@public
def nan_to_num(x: ArrayLike, /, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Array:
    """``x`` with NaN replaced by ``nan``, and infinities by the greatest and least numbers unless others are given."""
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
def diff(x: ArrayLike, /, n: int = 1, axis: int = -1) -> Array:
    """Each element less the one before it, ``n`` times over."""
    value = operand("diff", x)
    number = one_axis("diff", axis, value.ndim)
    for _ in range(n):
        lead = (slice(None),) * number
        later, sooner = getitem(value, (*lead, slice(1, None))), getitem(value, (*lead, slice(None, -1)))
        name = "xor" if value.element_type is dtypes.bool_ else "subtract"
        value = emit(name, *align("diff", [later, sooner]))
    return value
