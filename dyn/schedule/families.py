"""The sizes that a target family's schedules are made of: one table a family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dyn.dtypes import DType
from dyn.errors import NotYetError
from dyn.schedule.target import Target
from dyn.schedule.x86.contractions import ContractVariant
from dyn.schedule.x86.contractions import contract_schedules as x86_contract_schedules
from dyn.shapes import Dim


@dataclass(frozen=True, slots=True)
class LoopSchedule:
    """Sizes that a family's loop nests are cut into.

    ``elements`` is how many elements of a one-dimensional nest make a GRID iteration, ``columns`` how many columns of a
    reduction over rows, ``scattered`` how many columns of a scatter of rows: pieces of fewer make a copy slow.

    A reduction of more than ``part`` elements into one is cut into parts of that many, whose results are reduced in
    turn: so it runs on all cores, and its error grows with the length of a part. Columns are cut into parts of
    ``part_rows`` rows where there are at least ``many_rows``, and no more than ``few_columns`` results. With a ``part``
    of 0 nothing is cut.

    Rows that are reduced in order go side by side in lanes, each lane picking its elements from far apart; fewer than
    ``few_rows`` go one by one.

    Where some accesses lie in order along one axis and others along another, both are cut into ``tile`` bytes, and
    into ``tile_side`` elements at most; with a ``tile`` of 0 there are no tiles.
    """

    elements: int
    columns: int
    scattered: int
    part: int = 0
    part_rows: int = 0
    many_rows: int = 0
    few_columns: int = 0
    few_rows: int = 0
    tile: int = 0
    tile_side: int = 0


#: x86 wants iterations long enough to hide a loop's start; a GPU wants a block's worth of threads, a few elements each.
_LOOPS = {
    "x86": LoopSchedule(
        elements=8192,
        columns=256,
        scattered=2048,
        part=32768,
        part_rows=512,
        many_rows=4096,
        few_columns=4096,
        few_rows=8,
        tile=512,
        tile_side=256,
    ),
    "cuda": LoopSchedule(elements=1024, columns=128, scattered=128),
    "rocm": LoopSchedule(elements=1024, columns=128, scattered=128),
}


def loop_schedule(target: Target) -> LoopSchedule:
    """The cuts of a target's loop nests."""
    return _LOOPS[target.family]


#: How a family tiles contractions.
_CONTRACTIONS: dict[str, Callable[..., tuple[ContractVariant, ...]]] = {"x86": x86_contract_schedules}


@dataclass(frozen=True, slots=True)
class Reach:
    """Contiguity of a contraction's operands: whether neighbours along an axis lie next to each other, in a plain load
    of the accumulators' dtype."""

    #: The left operand along the reduced dimension.
    lhs_reduced: bool
    #: The right operand along the columns, and along the reduced dimension.
    rhs_columns: bool
    rhs_reduced: bool


def contract_schedules(target: Target, dtype: DType, reach: Reach, cols: Dim) -> tuple[ContractVariant, ...]:
    """The variants of a contraction whose accumulators have a dtype, by rows: disjoint, and covering.

    ``cols`` is the number of columns.
    """
    schedules = _CONTRACTIONS.get(target.family)
    if schedules is None:
        raise NotYetError(f"contractions for {target.family} come later.", remedy="compile for x86.")
    return schedules(
        target, dtype, col_contiguous=reach.rhs_columns, red_contiguous=reach.rhs_reduced,
        lhs_contiguous=reach.lhs_reduced, cols=cols,
    )  # fmt: skip


__all__ = ["ContractVariant", "LoopSchedule", "Reach", "contract_schedules", "loop_schedule"]
