"""A region of scalar ops in a loop: what each iteration computes from what it was handed."""

from __future__ import annotations

from collections.abc import Sequence

from dyn.ir.core import Region
from dyn.ops.regions import region_values
from dyn.schedule.expressions import ExprBuilder
from dyn.schedule.kernel import Carry, Expr, Ref


def ordered_carries(k: ExprBuilder, body: Region, inits: Sequence[Expr], elements: Sequence[Expr]) -> tuple[Carry, ...]:
    """Carried values of a loop that folds ``elements`` from ``inits`` by a body of n states and n elements."""
    states = [Ref("state", init.dtype) for init in inits]
    values = region_values(k, body, [*states, *elements])
    return tuple(
        Carry(Ref("acc", state.dtype), state, init, value)
        for state, init, value in zip(states, inits, values, strict=True)
    )
