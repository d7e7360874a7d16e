"""Methods of NumPy's ufuncs for arrays that are being traced: ``np.add.reduce(x)``, ``accumulate``, ``outer``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dyn.errors import ArgumentError, ShapeError, UnsupportedOpError
from dyn.late_imports import import_whole
from dyn.numpy._binary import add, maximum, minimum, multiply
from dyn.numpy._creation import arange
from dyn.numpy._cumulative import cumprod, cumsum
from dyn.numpy._indexing.selection import where
from dyn.numpy._joining import concatenate
from dyn.numpy._logic import logical_and, logical_or, not_equal
from dyn.numpy._manipulation import astype, moveaxis, reshape
from dyn.numpy._operands import in_int64, operand
from dyn.numpy._reductions import all as all_
from dyn.numpy._reductions import any as any_
from dyn.numpy._reductions import max as max_
from dyn.numpy._reductions import min as min_
from dyn.numpy._reductions import prod
from dyn.numpy._reductions import sum as sum_
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

Function = Callable[..., Any]


class _Monoid(NamedTuple):
    """A ufunc of two arrays that is associative, and the functions that go with it."""

    combine: Function
    reduce: Function
    accumulate: Function | None = None


_MONOIDS: Mapping[str, _Monoid] = {
    "add": _Monoid(add, sum_, cumsum),
    "multiply": _Monoid(multiply, prod, cumprod),
    "maximum": _Monoid(maximum, max_, lambda x, axis: _lax().cummax(x, axis)),
    "minimum": _Monoid(minimum, min_, lambda x, axis: _lax().cummin(x, axis)),
    "logical_and": _Monoid(logical_and, all_),
    "logical_or": _Monoid(logical_or, any_),
}


def _lax() -> Any:
    """``dyn.lax``, which few programs need."""
    import_whole("dyn.lax")
    from dyn import lax

    return lax


def called(name: str, method: str, function: Function, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """The result of ``np.<name>.<method>(*args, **options)``, of a ufunc that is ``function`` here."""
    given = {key: value for key, value in options.items() if value is not None or key == "axis"}
    monoid = _MONOIDS.get(name)
    match method:
        case "reduce" if monoid is not None:
            return _reduce(name, *args, **given)
        case "accumulate" if monoid is not None and monoid.accumulate is not None:
            return _accumulate(name, monoid.accumulate, *args, **given)
        case "reduceat" if monoid is not None:
            return _reduceat(name, *args, **given)
        case "outer" if len(args) == 2 and not given:
            a, b = operand(f"{name}.outer", *args), operand(f"{name}.outer", args[1], args[0])
            return function(reshape(a, (*a.shape, *[1] * b.ndim)), b)
        case _:
            raise UnsupportedOpError(
                f"np.{name}.{method} is not there for arrays that are being traced.",
                loc=user_loc(),
                remedy="use a function such as dyn.numpy.sum, prod, max, min, any or all.",
            )


def _reduce(name: str, x: Any, axis: Any = 0, dtype: Any = None, **options: Any) -> Tracer:
    if name.startswith("logical") and "initial" in options:
        raise UnsupportedOpError(
            f"np.{name}.reduce does not take initial= for arrays that are being traced.",
            loc=user_loc(),
            remedy=f"write np.{name}(initial, np.{name}.reduce(x)).",
        )
    if dtype is not None and name not in ("add", "multiply"):
        x = astype(operand(f"{name}.reduce", x), dtype)
    elif dtype is not None:
        options["dtype"] = dtype
    if options.get("where") is True:
        del options["where"]
    return _MONOIDS[name].reduce(x, axis=axis, **options)


def _accumulate(name: str, function: Function, x: Any, axis: int = 0, dtype: Any = None) -> Tracer:
    value = operand(f"{name}.accumulate", x)
    value = value if dtype is None else astype(value, dtype)
    return function(value, axis=axis if axis >= 0 else axis + value.ndim)


def _reduceat(name: str, x: Any, indices: Any, axis: int = 0, dtype: Any = None) -> Any:
    """Parts of an axis, combined: from each index to the next, or of one element where that is not greater.

    Parts may be of any length and lie over each other, so each is put together of runs of 1, 2, 4, … elements, as its
    length in bits says; all runs of a length are made at once of those of half of it.
    """
    combine = _MONOIDS[name].combine
    if isinstance(indices, list | tuple | np.ndarray) and np.asarray(indices).dtype != object:
        if np.min(indices, initial=0) < 0:
            raise ShapeError(
                f"np.{name}.reduceat takes no index below 0, as {np.min(indices)} is.",
                loc=user_loc(),
                remedy="count from the front.",
            )
    whole = moveaxis(operand(f"{name}.reduceat", x, indices), axis, 0)
    first = in_int64(operand(f"{name}.reduceat", indices, x))
    if first.ndim != 1:
        raise ArgumentError(f"np.{name}.reduceat takes a vector of indices, not {first.ndim} axes.", loc=user_loc())
    if name in ("add", "multiply"):
        runs = astype(whole, _reduce(name, whole[:0], 0, dtype).dtype)
    else:
        runs = astype(whole, "bool") if name.startswith("logical") else whole
    size = runs.shape[0]
    last = concatenate([first[1:], reshape(in_int64(operand("reduceat", size, whole)), (1,))])
    length = where(last > first, last - first, 1)
    places = arange(size, dtype="int64")

    def wide(mask: Tracer) -> Tracer:
        return reshape(mask, (*mask.shape, *[1] * (runs.ndim - 1)))

    def more(carried: Any) -> Any:
        return carried[0] <= size

    def step(carried: Any) -> Any:
        count, runs, found, begun, at = carried
        takes = not_equal(length & count, 0)
        piece = runs[at]
        longer = where(wide(begun), combine(found, piece), piece)
        found = where(wide(takes), longer, found)
        # Runs that would go beyond the end are no part's.
        runs = combine(runs, runs[minimum(places + count, size - 1)])
        return count * 2, runs, found, logical_or(begun, takes), where(takes, at + count, at)

    begin = (in_int64(operand("reduceat", 1, whole)), runs, runs[first], not_equal(first, first), first)
    return moveaxis(_lax().while_loop(more, step, begin)[2], 0, axis)
