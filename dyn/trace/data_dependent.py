"""Sizes that depend on values: a number that the program computes becomes a dim."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from dyn import dtypes
from dyn.errors import ShapeError
from dyn.ir.core import Dense, Region, Value
from dyn.ir.data_dependent import bound_dim
from dyn.shapes import Dim, RelKind, as_dim, format_dim, free_symbols
from dyn.source import user_loc
from dyn.trace.context import Trace


def dim_from_value(trace: Trace, count: Value, name: str, origin: str, limit: Dim | None = None) -> Dim:
    """The dim that is what ``count``, an integer scalar, turns out to be: one for each such value.

    ``origin`` says in messages what it is: ``the number of nonzero elements``. A call fails where it is negative, or
    more than ``limit``.
    """

    def make() -> tuple[Value, Dim]:
        dim = as_dim(trace.builder.symbols.symbol(name, origin, data_dependent=True))
        trace.emit("measure", _as_int64(trace, count), dim=dim)
        if limit is not None:
            trace.demand(RelKind.GE, limit, dim, f"{origin} is at most {format_dim(limit)}")
        return count, dim

    return memoized_dim(trace, ("size", count, limit), make)[1]


def _as_int64(trace: Trace, count: Value) -> Value:
    """A count in int64, as sizes are; what that has not as its greatest, which is more than any memory has."""
    if count.dtype is dtypes.int64 and not count.type.weak:
        return count
    if count.dtype is dtypes.uint64:
        most = trace.emit("constant", value=Dense(np.asarray(2**63 - 1, np.uint64)))
        count = trace.emit("minimum", count, most)
    return trace.emit("convert", count, dtype=dtypes.int64)


def memoized_dim(trace: Trace, key: Hashable, make: Callable[[], tuple[Value, Dim]]) -> tuple[Value, Dim]:
    """Memo of a trace's measured sizes: ``make`` runs once a key, so that one mask has one number of true elements.

    A key has the values that it is about; those of enclosing traces are looked for there too, but from a region that
    does what is done around it once more, and has sizes of its own.
    """
    around: Trace | None = trace
    while around is not None and trace.may_read(around):
        found = around.data_dependent.get(key)
        if found is not None:
            return found
        around = None if around.builder.repeats else around.outer
    found = trace.data_dependent[key] = make()
    return found


def is_bound(trace: Trace, dim: Dim) -> bool:
    """Whether each size of data in a dim has been measured by now, in a trace or around it."""
    left = {symbol for symbol in free_symbols(dim) if symbol.data_dependent}
    around: Trace | None = trace
    while left and around is not None:
        left -= {bound_dim(op) for op in around.builder.ops}
        around = around.outer
    return not left


def refuse_escape(region: Region, name: str) -> None:
    """Raise ShapeError where a region gives an array whose shape is known in it alone."""
    bound = {s for op in region.ops if (s := bound_dim(op)) is not None}
    for value in region.results if bound else ():
        for axis, dim in enumerate(value.shape):
            inside = sorted(free_symbols(dim) & bound, key=lambda s: s.uid)
            if inside:
                raise ShapeError(
                    f"{name} gives {value.type}, and the size of axis {axis} is found out inside of it.",
                    loc=user_loc(),
                    notes=tuple(f"{s.name} is {s.origin}" for s in inside),
                    remedy="compute what is of one size from it inside, as a sum, or give it a size of your own "
                    "(size= of nonzero, unique and their kin).",
                )
