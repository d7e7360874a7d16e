"""Loops over all elements of arrays at once, each of which is done after a number of steps of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dyn.ir.builder import Builder
from dyn.ir.core import Value
from dyn.ir.inline_regions import build_region
from dyn.ir.types import TensorType

#: ``step(b, open, state, fixed)``: who goes on after a step, and the state then.
Step = Callable[[Any, Value, list[Value], list[Value]], tuple[Value, Sequence[Value]]]


def while_any(b: Builder, open_: Value, state: Sequence[Value], fixed: Sequence[Value], step: Step) -> list[Value]:
    """The state after as many steps as it takes until no element of the booleans ``open_`` is left.

    Regions read nothing from outside: ``fixed`` is what a step reads beside the state. That of elements that are done
    stays only if the step keeps it.
    """
    carried = (open_, *state, *fixed)
    types = [TensorType(v.dtype, v.shape) for v in carried]
    count = 1 + len(state)

    def going(inner: Builder, values: tuple[Value, ...]) -> tuple[Value]:
        axes = tuple(range(len(open_.shape)))
        if not axes:
            return (inner.op("copy", values[0]),)
        return (inner.op("reduce", values[0], axes=axes, combine="or", nonempty=False),)

    def stepped(inner: Builder, values: tuple[Value, ...]) -> tuple[Value, ...]:
        left, made = step(inner, values[0], list(values[1:count]), list(values[count:]))
        return (left, *made, *values[count:])

    regions = (build_region(b, types, going), build_region(b, types, stepped))
    return list(b.op_all("while", *carried, regions=regions)[1:count])
