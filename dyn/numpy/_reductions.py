"""Reductions: many elements to one, over some axes or all.

``axis`` is a number, a tuple or None for all. ``keepdims`` keeps reduced axes with size 1. Sums and products of
integers are computed in int64 (uint64), as NumPy does on 64-bit machines; those of 16-bit floats are accumulated in
float32. ``max`` and ``min`` of nothing are a ShapeError when called, unless ``initial`` is given.
"""

from __future__ import annotations

from typing import Any

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import ShapeError, UnsupportedOpError
from dyn.numpy._axes import all_axes, one_axis
from dyn.numpy._binary import maximum, minimum, multiply, subtract, true_divide
from dyn.numpy._broadcast import align, expand
from dyn.numpy._logic import truth
from dyn.numpy._manipulation import view
from dyn.numpy._operands import cast, dtype_of, emit, made, operand, promote, shape_of, to_float
from dyn.numpy._public import Array, ArrayLike, Axis, DTypeLike, public
from dyn.numpy._unary import filled, sqrt
from dyn.ops.reduce import identity
from dyn.shapes import Dim, dim_max, product
from dyn.source import user_loc
from dyn.trace.dims import wrap_dim
from dyn.trace.tracer import Tracer

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "average", "count_nonzero", "max", "mean", "min", "prod", "ptp",
    "std", "sum", "var",
]  # fmt: skip


def fold(x: Tracer, combine: str, axes: tuple[int, ...], keepdims: bool, *, nonempty: bool = False) -> Tracer:
    """``x`` with ``axes`` folded."""
    result = emit("reduce", x, axes=axes, combine=combine, nonempty=nonempty) if axes else x
    if keepdims:
        result = view(result, tuple(1 if a in axes else d for a, d in enumerate(shape_of(x))))
    return result


def _masked(x: Tracer, where: ArrayLike | None, combine: str, what: str) -> Tracer:
    """``x`` with what ``where`` leaves out replaced by the value that changes nothing."""
    if where is None:
        return x
    mask, value = align(what, [truth(operand(what, where, x)), x])
    return emit("select", mask, value, filled(value, identity(combine, value.element_type)))


def sum_dtype(dtype: DType) -> DType:
    """The dtype that integers are added up in: NumPy's own on 64-bit machines."""
    if dtype.kind is Kind.UINT:
        return dtypes.uint64
    return dtypes.int64 if dtype.kind in (Kind.BOOL, Kind.INT) else dtype


def _accumulate(
    what: str, combine: str, x: ArrayLike, axis: Axis, dtype: DTypeLike, keepdims: bool, initial: Any, where: Any
) -> Tracer:
    value = operand(what, x, where, initial)
    value = cast(value, sum_dtype(value.element_type) if dtype is None else dtype_of(dtype), weak=value.weak)
    axes = all_axes(what, axis, value.ndim)
    result = fold(_masked(value, where, combine, what), combine, axes, keepdims)
    if initial is None:
        return result
    return emit(combine, *align(what, [result, cast(operand(what, initial, value), result.element_type)]))


@public
def sum(
    x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, keepdims: bool = False, *,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The sum; 0 of nothing."""
    return _accumulate("sum", "add", x, axis, dtype, keepdims, initial, where)


@public
def prod(
    x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, keepdims: bool = False, *,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The product; 1 of nothing."""
    return _accumulate("prod", "multiply", x, axis, dtype, keepdims, initial, where)


@public
def count_nonzero(x: ArrayLike, /, axis: Axis = None, keepdims: bool = False) -> Array:
    """How many elements are not 0, as int64."""
    return sum(truth(operand("count_nonzero", x)), axis, None, keepdims)


# ---- extremes --------------------------------------------------------------------------------------------------------


def _extreme(
    what: str, combine: str, x: ArrayLike, axis: Axis, keepdims: bool, initial: Any, where: ArrayLike | None
) -> Tracer:
    value = operand(what, x, where, initial)
    axes = all_axes(what, axis, value.ndim)
    if where is not None and initial is None:
        raise UnsupportedOpError(
            f"{what} with where= needs initial=: it may leave nothing over.",
            loc=user_loc(),
            remedy=f"pass initial=, for example {'-' if combine == 'maximum' else ''}dyn.numpy.inf.",
        )
    if value.element_type.kind is Kind.BOOL:
        combine = "or" if combine == "maximum" else "and"
    result = fold(_masked(value, where, combine, what), combine, axes, keepdims, nonempty=initial is None)
    if initial is None:
        return result
    if isinstance(initial, float) and initial == identity(combine, result.element_type):
        return result
    return (maximum if combine in ("maximum", "or") else minimum)(result, initial)


@public
def max(
    x: ArrayLike, /, axis: Axis = None, keepdims: bool = False, *,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The greatest element; NaN where there is one."""
    return _extreme("max", "maximum", x, axis, keepdims, initial, where)


@public
def min(
    x: ArrayLike, /, axis: Axis = None, keepdims: bool = False, *,
    initial: ArrayLike | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The least element; NaN where there is one."""
    return _extreme("min", "minimum", x, axis, keepdims, initial, where)


amax = max
amin = min


@public
def ptp(x: ArrayLike, /, axis: Axis = None, keepdims: bool = False) -> Array:
    """The greatest less the least element."""
    return subtract(max(x, axis, keepdims), min(x, axis, keepdims))


def _arg_extreme(what: str, combine: str, x: ArrayLike, axis: int | None, keepdims: bool) -> Tracer:
    """The first place where an element is the extreme, or NaN where the extreme is."""
    value = operand(what, x)
    rank = value.ndim
    if value.element_type.kind is Kind.BOOL:
        value = cast(value, dtypes.int8)
    if axis is None:
        value = view(value, (product(shape_of(value)),))
    number = 0 if axis is None else one_axis(what, axis, rank)
    extreme = expand(fold(value, combine, (number,), True, nonempty=True), shape_of(value))
    found = emit("compare", value, extreme, direction="EQ")
    if value.element_type.is_float:
        found = emit("or", found, emit("compare", value, value, direction="NE"))
    places = made(value._trace, "iota", shape=shape_of(value), dimension=number, dtype=dtypes.int64)
    nowhere = filled(places, identity("minimum", dtypes.int64))
    result = fold(emit("select", found, places, nowhere), "minimum", (number,), keepdims)
    return view(result, (1,) * rank) if axis is None and keepdims else result


@public
def argmax(x: ArrayLike, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """The first place of the greatest element, as int64; without ``axis`` among all elements in their order."""
    return _arg_extreme("argmax", "maximum", x, axis, keepdims)


@public
def argmin(x: ArrayLike, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """The first place of the least element, as int64; without ``axis`` among all elements in their order."""
    return _arg_extreme("argmin", "minimum", x, axis, keepdims)


# ---- truth -----------------------------------------------------------------------------------------------------------


@public
def all(x: ArrayLike, /, axis: Axis = None, keepdims: bool = False, *, where: ArrayLike | None = None) -> Array:
    """Tell whether no element is 0; true of nothing."""
    value = truth(operand("all", x, where))
    return fold(_masked(value, where, "and", "all"), "and", all_axes("all", axis, value.ndim), keepdims)


@public
def any(x: ArrayLike, /, axis: Axis = None, keepdims: bool = False, *, where: ArrayLike | None = None) -> Array:
    """Tell whether some element is not 0; false of nothing."""
    value = truth(operand("any", x, where))
    return fold(_masked(value, where, "or", "any"), "or", all_axes("any", axis, value.ndim), keepdims)


# ---- moments ---------------------------------------------------------------------------------------------------------


def folded_size(x: Tracer, axes: tuple[int, ...]) -> Dim:
    """How many elements a reduction folds into one."""
    return product([shape_of(x)[a] for a in axes])


def _wide(dtype: DType) -> DType:
    """The dtype that moments are computed in: sums of 16-bit floats may not fit in 16 bits."""
    return to_float(dtype).wide


def _mean(x: Tracer, axes: tuple[int, ...], where: ArrayLike | None, keepdims: bool, less: Any = 0) -> Tracer:
    """The sum over the number of elements less ``less``, in the dtype of ``x``."""
    total = fold(_masked(x, where, "add", "mean"), "add", axes, keepdims)
    if where is not None:
        mask = expand(truth(operand("mean", where, x)), shape_of(x))
        count: Any = fold(cast(mask, x.element_type), "add", axes, keepdims)
        return true_divide(total, maximum(subtract(count, less), 0))
    size = folded_size(x, axes)
    if isinstance(less, int):
        return true_divide(total, wrap_dim(x._trace, dim_max(size - less, 0) if less else size))
    return true_divide(total, maximum(subtract(wrap_dim(x._trace, size), less), 0.0))


@public
def mean(
    x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, keepdims: bool = False, *,
    where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The sum over the number of elements; NaN of nothing. 16-bit floats are computed in float32."""
    value = operand("mean", x, where)
    target = to_float(value.element_type) if dtype is None else dtype_of(dtype)
    result = _mean(cast(value, _wide(target)), all_axes("mean", axis, value.ndim), where, keepdims)
    return cast(result, target)


@public
def average(
    x: ArrayLike, /, axis: Axis = None, weights: ArrayLike | None = None, returned: bool = False, *,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """The mean with weights: of the shape of ``x``, or one for each element of the one axis.

    With ``returned`` also the sum of the weights, in the shape of the mean. NaN where that sum is 0 (NumPy raises).
    """
    value = operand("average", x, weights)
    if weights is None:
        found = mean(value, axis, None, keepdims)
        total = filled(found, 1) if not returned else multiply(filled(found, 1), _count(value, axis))
        return (found, total) if returned else found
    own = operand("average", weights, value)
    if own.ndim == 1 and value.ndim > 1:
        if axis is None or isinstance(axis, tuple | list):
            raise ShapeError(
                "average: weights of one axis need the number of that axis of the array.",
                loc=user_loc(),
                remedy="pass axis=.",
            )
        number = one_axis("average", axis, value.ndim)
        own = view(own, tuple(shape_of(own)[0] if a == number else 1 for a in range(value.ndim)))
    (scaled,) = promote("average", multiply(value, own), choose=to_float)
    spread = align("average", [cast(own, scaled.element_type), scaled])[0]
    total = sum(spread, axis, None, keepdims)
    found = true_divide(sum(scaled, axis, None, keepdims), total)
    return (found, total) if returned else found


def _count(x: Tracer, axis: Axis) -> Any:
    return wrap_dim(x._trace, folded_size(x, all_axes("average", axis, x.ndim)))


@public
def var(
    x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, ddof: float = 0, keepdims: bool = False, *,
    correction: float | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The mean of squared distances from the mean, in two passes, over ``n - ddof`` (or ``correction``)."""
    value = operand("var", x, where)
    target = to_float(value.element_type) if dtype is None else dtype_of(dtype)
    wide = cast(value, _wide(target))
    axes = all_axes("var", axis, value.ndim)
    less: float = ddof if correction is None else correction
    centred = subtract(wide, _mean(wide, axes, where, True))
    less = int(less) if less == int(less) else less
    return cast(_mean(multiply(centred, centred), axes, where, keepdims, less), target)


@public
def std(
    x: ArrayLike, /, axis: Axis = None, dtype: DTypeLike = None, ddof: float = 0, keepdims: bool = False, *,
    correction: float | None = None, where: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """The square root of the variance."""
    return sqrt(var(x, axis, dtype, ddof, keepdims, correction=correction, where=where))
