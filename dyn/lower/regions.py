"""A region of scalar ops as kernel expressions: what a loop computes from what it was handed."""

from __future__ import annotations

from collections.abc import Sequence

from dyn.errors import IRError
from dyn.ir.core import Op, Region, Value
from dyn.ir.opdef import Elements
from dyn.lower.expressions import ExprBuilder
from dyn.lower.kernel import Carry, Expr, Ref


def region_values(k: ExprBuilder, region: Region, arguments: Sequence[Expr]) -> tuple[Expr, ...]:
    """The results of a region of scalars for these arguments, which have its parameters' dtypes.

    Needs a region whose ops have element loops, that reads nothing from outside and has no complex numbers
    (``dyn.ops.regions.check_scalar_region``, ``split_complex``).
    """
    values: dict[Value, Expr] = dict(zip(region.params, arguments, strict=True))
    for op in region.ops:
        loops = op.opdef.loops
        if not isinstance(loops, Elements):
            raise IRError(f"{op.opdef.name} in a region of scalars has no element loops", loc=op.loc)
        values[op.result] = loops.at(k, op, (), _Getter(values, op))
    return tuple(values[v] for v in region.results)


def ordered_carries(k: ExprBuilder, body: Region, inits: Sequence[Expr], elements: Sequence[Expr]) -> tuple[Carry, ...]:
    """What a loop carries that folds ``elements`` with a body, n states and n elements to n states, from ``inits``."""
    states = [Ref("state", init.dtype) for init in inits]
    values = region_values(k, body, [*states, *elements])
    return tuple(
        Carry(Ref("acc", state.dtype), state, init, value)
        for state, init, value in zip(states, inits, values, strict=True)
    )


class _Getter:
    """How the rule of an op in a region reads its operands. There is one element, and it is there."""

    def __init__(self, values: dict[Value, Expr], op: Op) -> None:
        self.values, self.op = values, op

    def __call__(self, i: int, index: object, mask: Expr | None = None, other: Expr | None = None) -> Expr:
        return self.values[self.op.operands[i]]
