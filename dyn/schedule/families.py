"""Families of targets: of each its limits, and its table of schedules by class of nest.

:data:`SCHEDULES` is the only place of this room that knows families by name. ``dyn.backends.families`` adds to each
what renders, builds and loads its kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dyn.dtypes import DType
from dyn.frozen import record
from dyn.schedule.gpu import tables as gpu
from dyn.schedule.gpu.contractions import contract_schedules as gpu_contract_schedules
from dyn.schedule.gpu.scatter import lower_scatter as gpu_lower_scatter
from dyn.schedule.gpu.sorting import lower_sort as gpu_lower_sort
from dyn.schedule.launch import Launch
from dyn.schedule.orderings import Ordering
from dyn.schedule.sizes import ContractVariant, Limits, LoopSchedule, Reach
from dyn.schedule.specialized_kernels import Schedule
from dyn.schedule.target import Target
from dyn.schedule.x86 import tables as x86
from dyn.schedule.x86.contractions import contract_schedules as x86_contract_schedules
from dyn.shapes import Dim
from dyn.stitch.groups import Group, Plan

Lowering = Callable[[Plan, Group, Target], tuple[Launch, ...]]


@record()
class Schedules:
    """A family's schedules: what makes the launches of each class of nest, within ``limits`` of a target."""

    limits: Callable[[Target], Limits]
    #: One pass over a space: elementwise ops, copies, transposes, gathers.
    loops: Lowering
    #: One array after the other.
    join: Lowering
    #: Reductions over some axes, and what is stitched to them.
    reductions: Lowering
    #: Folds, each by a lane: those of windows, and contractions that leave tiles idle.
    folds: Callable[[Target], Schedule]
    #: Running reductions.
    running: Lowering
    #: A copy with updates in their order.
    scatter: Lowering
    #: Sizes that contractions are cut by, and their tiles.
    sizes: Callable[[], LoopSchedule]
    contractions: Callable[..., tuple[ContractVariant, ...]]
    #: Rows in order; None where a library sorts.
    sort: Callable[[Plan, Group, Target, Ordering], tuple[Launch, ...]] | None = None
    #: Up to so many launches of one kernel over different arrays are one launch.
    together: int = 1
    #: Whether a launch costs more than converting a parameter again in each row that it is spread over.
    converts_where_used: bool = False


_GPU = Schedules(
    limits=gpu.limits,
    loops=gpu.lower_loops,
    join=gpu.lower_join,
    reductions=gpu.lower_reductions,
    folds=gpu.folds,
    running=gpu.lower_running,
    scatter=gpu_lower_scatter,
    sizes=lambda: gpu.SIZES,
    contractions=gpu_contract_schedules,
    sort=gpu_lower_sort,
    together=4,
    converts_where_used=True,
)

#: By ``Target.family``.
SCHEDULES: Mapping[str, Schedules] = {
    "x86": Schedules(
        limits=x86.limits,
        loops=x86.lower_loops,
        join=x86.lower_join,
        reductions=x86.lower_reductions,
        folds=x86.folds,
        running=x86.lower_running,
        scatter=x86.lower_scatter,
        sizes=lambda: x86.SIZES,
        contractions=x86_contract_schedules,
    ),
    "cuda": _GPU,
    "rocm": _GPU,
}


def schedules_of(target: Target) -> Schedules:
    """The schedules of a target's family."""
    return SCHEDULES[target.family]


def contract_schedules(target: Target, dtype: DType, reach: Reach, rows: Dim, cols: Dim) -> tuple[ContractVariant, ...]:
    """The variants of a contraction whose accumulators have a dtype, by rows: disjoint, and covering.

    ``rows`` and ``cols`` are the sizes of the result.
    """
    return schedules_of(target).contractions(target, dtype, reach, cols=cols, result_rows=rows)


__all__ = ["SCHEDULES", "ContractVariant", "Reach", "Schedules", "contract_schedules", "schedules_of"]
