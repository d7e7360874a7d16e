"""Passes in the regions of loops and choices, which are programs as the whole is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from dyn.ir.core import Function, Op, ParamInfo, Region
from dyn.ir.opdef import Control

Pass = Callable[[Function], Function]


def region_function(function: Function, region: Region) -> Function:
    """The region as a function over the dims of the function that it stands in, with the facts that hold in it."""
    infos = tuple([ParamInfo(param.name or f"value{number}") for number, param in enumerate(region.params)])
    facts = function.facts.within(region.demands)
    return Function(function.name, region.params, region.ops, region.results, facts, infos)


def with_regions(function: Function, change: Callable[[Function, Op], tuple[Region, ...]]) -> Function:
    """The function with the regions of loops and choices changed; the same function where it has none."""
    if not any(isinstance(op.opdef.loops, Control) for op in function.ops):
        return function
    ops = tuple(
        [
            replace(op, regions=change(function, op)) if isinstance(op.opdef.loops, Control) else op
            for op in function.ops
        ]
    )
    return function.with_ops(ops)


def in_regions(step: Pass) -> Pass:
    """The pass on a function, and then on the regions of its loops and choices, where it makes no new demands."""

    def of_regions(function: Function, op: Op) -> tuple[Region, ...]:
        made = [whole(region_function(function, region)) for region in op.regions]
        return tuple([Region(f.params, f.ops, f.results, old.demands) for f, old in zip(made, op.regions, strict=True)])

    @functools.wraps(step)
    def whole(function: Function) -> Function:
        return with_regions(step(function), of_regions)

    return whole


def is_loop(op: Op) -> bool:
    """Whether an op is a loop, rather than a choice."""
    return op.opdef.loops in (Control.WHILE, Control.SCAN)


def carries(op: Op) -> int:
    """Number of values that a loop carries from step to step; 0 of what is no loop."""
    if op.opdef.loops is Control.WHILE:
        return len(op.operands)
    return op.attrs["carries"] if op.opdef.loops is Control.SCAN else 0


def body_of(op: Op) -> Region:
    """The region of a loop that makes the next step's values."""
    return op.regions[-1]


def unchanged(op: Op) -> tuple[bool, ...]:
    """Flags of a loop's carried values: whether every step hands the value on as it is."""
    count = carries(op)
    if not count:
        return ()
    body = body_of(op)
    return tuple([body.results[i] is body.params[i] for i in range(count)])
