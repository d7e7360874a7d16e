"""Reads and writes of ``x.at[index]`` in a trace: places, modes, masks, and functions of the elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import InvalidValueError, ShapeError, UnsupportedOpError
from dyn.frozen import record
from dyn.ir.types import TensorType
from dyn.numpy._axes import text_of
from dyn.numpy._binary import add, clip, maximum, minimum, multiply, power, subtract, true_divide
from dyn.numpy._broadcast import expand
from dyn.numpy._creation import asarray
from dyn.numpy._indexing.getitem import read, write
from dyn.numpy._indexing.index import Selection, select, with_axes_for_booleans
from dyn.numpy._indexing.selection import where
from dyn.numpy._indexing.take import fill_of, size_of
from dyn.numpy._logic import greater_equal, less, logical_and
from dyn.numpy._manipulation import put_values, view
from dyn.numpy._operands import cast, constant, emit, in_int64, number, operand, shape_of, to_float, tracer
from dyn.numpy._public import ArrayLike
from dyn.numpy._unary import filled, negative
from dyn.shapes import RelKind
from dyn.source import user_loc
from dyn.trace.dims import SymbolicDim
from dyn.trace.lift import is_liftable
from dyn.trace.pytree import flatten
from dyn.trace.region import Expected, trace_region
from dyn.trace.tracer import Tracer

#: What becomes of an element and its update; the ones that a scatter does.
_COMBINES = {"set": "replace", "add": "add", "multiply": "multiply", "min": "minimum", "max": "maximum"}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "subtract": subtract, "multiply": multiply, "min": minimum, "max": maximum, "divide": true_divide, "power": power,
}  # fmt: skip


@record()
class IndexOptions:
    """Options of indexing: see the module. ``unique`` promises that no place is named twice."""

    mode: str | None = None
    wrap: bool = True
    unique: bool = False

    @property
    def checked(self) -> bool:
        """Tell whether numbers too may be out of range."""
        return self.mode in ("clip", "drop", "fill")


def items_of(index: Any) -> tuple[Any, ...]:
    """The parts of an index."""
    return index if isinstance(index, tuple) else (index,)


# ---- reading ---------------------------------------------------------------------------------------------------------


def taken(x: ArrayLike, index: Any, options: IndexOptions, fill_value: Any = None) -> Tracer:
    """``x.at[index].get(…)`` in a trace."""
    value, index, _ = with_axes_for_booleans(operand("x.at[...]", x, *items_of(index)), index)
    chosen = select(value, _with_arrays(value, index) if options.checked else index)
    result = read(value, chosen, wrap=options.wrap)
    if options.mode not in ("drop", "fill") or not chosen.arrays:
        return view(result, chosen.shape)
    fill = fill_of(value) if fill_value is None else fill_value
    other = expand(_scalar(value, fill), shape_of(result))
    dims = tuple(range(chosen.place, chosen.place + len(chosen.batch)))
    inside = _inside(value, chosen, options)
    mask = emit("broadcast_in_dim", inside, shape=shape_of(result), dims=dims) if result.ndim else inside
    return view(emit("select", mask, result, other), chosen.shape)


def _inside(x: Tracer, chosen: Selection, options: IndexOptions) -> Tracer:
    """Mask of the index arrays' places that are in the array."""
    found: Tracer | None = None
    for axis, array in chosen.arrays:
        size, places = shape_of(x)[axis], in_int64(array)
        high = less(places, size_of(x, size))
        low = greater_equal(places, size_of(x, -size if options.wrap else 0))
        found = logical_and(low, high) if found is None else logical_and(found, logical_and(low, high))
    assert found is not None
    return found


def _with_arrays(x: Tracer, index: Any) -> tuple[Any, ...]:
    """The index with its numbers as arrays, which may be out of range."""
    trace = x._trace

    def item(given: Any) -> Any:
        if isinstance(given, SymbolicDim):
            return in_int64(tracer(trace, given, "x.at[...]"))
        number = isinstance(given, int | np.integer) and not isinstance(given, bool)
        return constant(trace, int(given), dtypes.int64) if number else given

    return tuple(item(given) for given in items_of(index))


# ---- writing ---------------------------------------------------------------------------------------------------------


def assigned(x: Tracer, index: Any, values: ArrayLike) -> Tracer:
    """``x`` after ``x[index] = values``."""
    return updated(x, index, values, "set", IndexOptions())


def updated(x: ArrayLike, index: Any, values: Any, how: str, options: IndexOptions) -> Tracer:
    """``x.at[index].<how>(values)`` in a trace; of "apply" the values are the function."""
    whole = operand("x.at[...]", x, *items_of(index))
    value, index, axes = with_axes_for_booleans(whole, index)
    if axes:
        return view(updated(value, index, values, how, options), shape_of(whole))
    mask = _mask(value, index)
    if how == "apply":
        return _masked_apply(value, mask, values) if mask is not None else _applied(value, index, values, options)
    if how == "divide":
        value = cast(value, to_float(value.element_type))
    if isinstance(values, float) and value.element_type.is_integer and not math.isfinite(values):
        raise InvalidValueError(
            f"{values} cannot be an element of an array of {value.element_type.name}.",
            loc=user_loc(),
            remedy="convert the array with .astype('float32').",
        )
    new = _scalar(value, values)
    if how in ("divide", "power"):
        # Of the places that the index does not name the other operand is 1, so that derivatives are finite there.
        ones = filled(new, 1) if new.ndim == 0 and not value.ndim else filled(value, 1)
        return _FUNCTIONS[how](value, updated(ones, index, new, "multiply", options))
    rows = None if mask is None else _for_all_rows(value, mask, new)
    if mask is not None and rows is not None:
        return _masked(value, mask, rows, how)
    if how == "subtract":
        new, how = negative(new), "add"
    return _put_in(value, index, new, _COMBINES[how], options)


def _put_in(
    x: Tracer, index: Any, new: Tracer, combine: str, options: IndexOptions, regions: tuple[Any, ...] = ()
) -> Tracer:
    chosen = select(x, _with_arrays(x, index) if options.checked else index)
    if options.mode == "clip":
        chosen = replace(
            chosen, arrays=tuple((axis, _clipped(x, axis, array, options)) for axis, array in chosen.arrays)
        )
    return write(x, chosen, new, combine, wrap=options.wrap, regions=regions)


def _clipped(x: Tracer, axis: int, array: Tracer, options: IndexOptions) -> Tracer:
    """Places moved inside. In an empty axis there is none, and they stay outside."""
    places, size = in_int64(array), shape_of(x)[axis]
    if options.wrap:
        places = where(less(places, 0), add(places, size_of(x, size)), places)
    return clip(minimum(places, size_of(x, size - 1)), 0, None)


def _scalar(x: Tracer, values: Any) -> Tracer:
    """Values in the dtype of ``x``. An error for a Python integer that does not fit, and for complex ones in reals."""
    if type(values) is int and x.element_type.is_integer:
        return number(x._trace, values, x.element_type)
    if isinstance(values, list | tuple):
        values = asarray(values)
    new = tracer(x._trace, values, "x.at[...]")
    if new.element_type.kind is Kind.COMPLEX and x.element_type.kind is not Kind.COMPLEX:
        raise UnsupportedOpError(
            f"x.at[...]: {new.element_type.name} cannot be put into {text_of(x)}.",
            loc=user_loc(),
            remedy="take their real parts, or convert the array with .astype.",
        )
    return cast(new, x.element_type)


# ---- a function of the elements --------------------------------------------------------------------------------------


def _applied(x: Tracer, index: Any, func: Callable[[Any], Any], options: IndexOptions) -> Tracer:
    chosen = select(x, _with_arrays(x, index) if options.checked else index)
    if options.unique or not chosen.arrays:
        old = view(read(x, chosen, wrap=options.wrap), chosen.shape)
        return _put_in(x, index, _kept(x, func(old)), "replace", options)
    scalar = TensorType(x.element_type, ())
    expected = Expected(flatten(x)[1], (scalar,), "the elements")
    traced = trace_region(
        x._trace, lambda old, _: func(old), (scalar, scalar), name="the function of x.at[...].apply", expected=expected,
        closes=False,
    )  # fmt: skip
    return _put_in(x, index, filled(_zero(x), 0), "body", options, (traced.region,))


def _zero(x: Tracer) -> Tracer:
    return constant(x._trace, 0, x.element_type)


def _kept(x: Tracer, result: Any) -> Tracer:
    new = tracer(x._trace, result, "x.at[...].apply")
    if new.element_type is not x.element_type and not new.weak:
        raise UnsupportedOpError(
            f"x.at[...].apply: the function gives {new.element_type.name}, and {text_of(x)} stays "
            f"{x.element_type.name}.",
            loc=user_loc(),
            remedy="convert its result with .astype.",
        )
    return cast(new, x.element_type)


# ---- masks -----------------------------------------------------------------------------------------------------------


def _mask(x: Tracer, index: Any) -> Tracer | None:
    """The mask that an index is: of the leading axes, with nothing but full slices behind it."""
    first, *rest = items_of(index) or (None,)
    if isinstance(first, list) and first:
        first = np.array(first)
    if not isinstance(first, bool) and (
        not is_liftable(first) or isinstance(first, int | float | complex | SymbolicDim)
    ):
        return None
    if getattr(first, "dtype", np.dtype(bool)) != np.bool_:
        return None
    if not all(item is Ellipsis or (isinstance(item, slice) and item == slice(None)) for item in rest):
        return None
    mask = tracer(x._trace, first, "x.at[...]")
    if mask.element_type.kind is not Kind.BOOL:
        return None
    if mask.ndim > x.ndim:
        raise ShapeError(
            f"x.at[mask]: a mask with {mask.ndim} axes for {text_of(x)}, which has {x.ndim}.",
            loc=user_loc(),
            remedy="give a mask of its leading axes.",
        )
    for axis, (size, wanted) in enumerate(zip(shape_of(mask), shape_of(x), strict=False)):
        x._trace.demand(RelKind.EQ, size, wanted, f"axis {axis} of a mask is as long as that of the array")
    return mask


def _spread(x: Tracer, mask: Tracer) -> Tracer:
    if mask.ndim == x.ndim:
        return expand(mask, shape_of(x)) if not mask.ndim else mask
    return emit("broadcast_in_dim", mask, shape=shape_of(x), dims=tuple(range(mask.ndim)))


def _for_all_rows(x: Tracer, mask: Tracer, new: Tracer) -> Tracer | None:
    """Values that are the same for all that a mask takes, without that axis; None where each has its own."""
    rank = x.ndim - mask.ndim
    if new.ndim == rank + 1 and x._trace.facts.eq(shape_of(new)[0], 1).proved:
        return view(new, shape_of(new)[1:])
    return new if new.ndim <= rank else None


def _masked(x: Tracer, mask: Tracer, new: Tracer, how: str) -> Tracer:
    """A choice between the old and the new elements, all of them computed."""
    rest = shape_of(x)[mask.ndim :]
    new = expand(put_values(new, rest), shape_of(x))
    if how == "add":
        new = emit("add", x, new)
    elif how != "set":
        new = _FUNCTIONS[how](x, new)
    return emit("select", _spread(x, mask), new, x)


def _masked_apply(x: Tracer, mask: Tracer, func: Callable[[Any], Any]) -> Tracer:
    # Where the mask is not set the function has an element that it is applied to in vain: what it gives is not taken.
    return emit("select", _spread(x, mask), expand(_kept(x, func(x)), shape_of(x)), x)
