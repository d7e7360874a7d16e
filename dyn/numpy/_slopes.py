"""Formulas whose derivative is stated, where following the formula gives another number, or NaN, at some points.

A formula that chooses between two (``select``), or that goes by the size of a number (``abs``), has the right value
everywhere, and often the right first derivative. Where the two meet, the second one is lost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from dyn.dtypes import Kind
from dyn.ir.differentiate import zeros
from dyn.numpy._operands import emit
from dyn.numpy._public import trace_of
from dyn.trace.custom import custom_jvp
from dyn.trace.tracer import Tracer

#: The derivatives of a formula by each of its operands, which are differentiable themselves: of a mask 1 and 0, and
#: None where all of it is 0.
Slopes = Callable[..., tuple[Tracer | None, ...]]


def with_slopes(formula: Callable[..., Tracer], slopes: Slopes, *values: Tracer) -> Tracer:
    """``formula(*values)`` of floats of one shape, with the derivatives ``slopes(*values)``.

    ``slopes`` is a function of a module, and not made anew at each call: programs are found by it.
    """

    def tangent(primals: tuple[Tracer, ...], tangents: tuple[Tracer, ...]) -> tuple[Tracer, Tracer | None]:
        pairs = zip(slopes(*primals), tangents, strict=True)
        parts = [_times(slope, t) for slope, t in pairs if slope is not None]
        return formula(*primals), functools.reduce(functools.partial(emit, "add"), parts) if parts else None

    return custom_jvp(trace_of(*values), slopes, formula, tangent, values, formula.__name__.strip("_"))


def _times(slope: Tracer, tangent: Tracer) -> Tracer:
    """The product, of which nothing comes through a mask: not of an infinite tangent either."""
    if slope.element_type.kind is Kind.BOOL:
        none = zeros(tangent._trace.builder, tangent._value.type)
        return emit("select", slope, tangent, Tracer(tangent._trace, none))
    return emit("multiply", slope, tangent)
