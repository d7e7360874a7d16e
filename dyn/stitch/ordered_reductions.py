"""Reductions whose order counts, and those of them that are monoids all the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dyn.dtypes import DType
from dyn.errors import IRError
from dyn.ir.core import Op, Value
from dyn.ir.opdef import ElementLoops, OrderedReductionLoops
from dyn.ops.choices import Choice, choice_of
from dyn.ops.scalar import Scalar
from dyn.shapes import Dim, linear_in
from dyn.stitch.access import as_index, axis_symbols


def is_ordered(op: Op, producers: Mapping[Value, Op]) -> bool:
    """Whether a reduction folds its elements in their order alone."""
    return isinstance(op.opdef.loops, OrderedReductionLoops) and choice(op, producers) is None


def choice(op: Op, producers: Mapping[Value, Op]) -> Choice | None:
    """The choice of a pair that a reduction with a region makes, where the places are known to increase: a monoid."""
    if not isinstance(op.opdef.loops, OrderedReductionLoops) or len(op.results) != 2 or len(op.attrs["axes"]) != 1:
        return None
    found = choice_of(op.regions[0])
    return found if found is not None and _increases(op.operands[1], op.attrs["axes"][0], producers) else None


def _increases(value: Value, axis: int, producers: Mapping[Value, Op]) -> bool:
    """Whether integers grow along an axis by a number, as those of an iota do."""
    symbols = axis_symbols(value.shape)
    try:
        place = _place(value, as_index(symbols), producers)
    except IRError:
        return False
    linear = linear_in(place, symbols[axis])
    return linear is not None and isinstance(linear[0], int) and linear[0] > 0


def _place(value: Value, index: tuple[Dim, ...], producers: Mapping[Value, Op]) -> Dim:
    op = producers.get(value)
    if op is None or not isinstance(op.opdef.loops, ElementLoops):
        raise IRError(f"{value!r} is not computed from its index")
    return op.opdef.loops.at(_INDICES, op, index, lambda i, at, *masked: _place(op.operands[i], at, producers))


class _IndexBuilder:
    """A ScalarBuilder of what an index is, in integers that hold every index of an array."""

    def index(self, dtype: DType, expr: Dim) -> Dim:
        if not dtype.is_integer or dtype.bits < 32:
            raise IRError(f"{dtype} does not hold every index")
        return expr

    def apply(self, fn: Scalar, args: Sequence[Dim], dtype: DType) -> Dim:
        if fn is not Scalar.CAST:
            raise IRError(f"{fn.text} of an index")
        return self.index(dtype, args[0])

    def _refuse(self, *args: Any) -> Any:
        raise IRError("no index")

    const = bind = pair = parts = _refuse


_INDICES: Any = _IndexBuilder()
