"""Loops whose carried arrays change their sizes from step to step.

A loop of a program carries arrays of one size each. Where the number of steps is known while tracing, such a loop is
written out step by step instead: the sizes are then expressions, or data-dependent sizes, like any others. Where it is
not known, decision 94 says why there is an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from dyn.ir.core import Region
from dyn.ir.data_dependent import bound_dim
from dyn.ir.types import TensorType
from dyn.shapes import Dim, Facts, Reason, Relation, RelKind, free_symbols
from dyn.trace.lift import yields_to

#: So many steps are written out: each is a copy of the body in the program.
MOST_STEPS = 64

#: What to do where a step gives an array another size, and the number of steps is not known.
ONE_SIZE = (
    "give the loop a number of steps that is known while tracing (at most 64), or carry an array of the greatest size "
    "and how much of it is filled."
)


def sizes_change(facts: Facts, body: Region, carried: Sequence[TensorType]) -> bool:
    """Tell whether a step gives a carried array another size: one found out in the step, or that is never the same.

    Two sizes that may be equal, such as those of two arguments, are not meant: that they are is checked at each call.
    """
    found = {symbol for op in body.ops if (symbol := bound_dim(op)) is not None}
    pairs = list(zip(body.results, carried, strict=False))
    if any(
        value.type.rank != type.rank or (value.dtype is not type.dtype and not yields_to(value, type.dtype))
        for value, type in pairs
    ):
        return False  # another type, of which the loop says what is wrong
    return any(
        free_symbols(new) & found or _differs(facts, new, old)
        for value, type in pairs
        for new, old in zip(value.shape, type.shape, strict=True)
    )


def _differs(facts: Facts, new: Dim, old: Dim) -> bool:
    """Whether two sizes differ wherever the old one is 1 or more."""
    if new is old or facts.eq(new, old).proved:
        return False
    if not facts.ge(old, 1).refuted:
        facts = facts.assume(Relation(RelKind.GE, old, 1, Reason("an axis has elements")))
    return facts.eq(new, old).refuted
