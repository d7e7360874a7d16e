"""Joins reductions of rows and reductions of columns of one space: the gradients of a norm by its input, of a scale and
of a shift.

The group goes row by row. What it reduces over the *other* axes, those that its rows keep, is added up meanwhile, part
by part of the rows, and known when all parts are: so nothing that a row computes may need it.
"""

from __future__ import annotations

from collections.abc import Collection

from dyn.ir.core import Op
from dyn.ir.opdef import OpKind, ReductionLoops
from dyn.ops.scalar import Scalar
from dyn.stitch.drafts import Draft, Drafts, Fusion
from dyn.stitch.fusion import NoFusion, Verdict
from dyn.stitch.groups import GroupKind
from dyn.stitch.relations import Extent, GroupAxes, extent


def have_columns(drafts: Drafts, first: Draft, then: Draft) -> bool:
    """Whether of two groups one reduces rows and the other one columns, or has rows and columns already."""
    if first.columns or then.columns:
        return True
    rows, columns = (first, then) if first.axes.reduces_last else (then, first)
    return (
        rows.axes.reduces_last
        and drafts.same_shape(rows.space, columns.space)
        and columns.reduced == frozenset(rows.axes.kept)
    )


def rows_and_columns(drafts: Drafts, first: Draft, then: Draft) -> Verdict:
    """Form of two groups together that :func:`have_columns`, by their spaces and reductions alone."""
    rows = next(draft for draft in (first, then) if draft.columns or draft.axes.reduces_last)
    across = [axis for axis in rows.axes.kept if rows.space[axis] != 1]
    if not across or max(across) > min(rows.axes.reduced):
        return NoFusion("rows and columns go together where there are several rows, one behind the other")
    columns: set[Op] = set()
    for draft in (first, then):
        if draft.ordered or draft.inner or draft.kind not in (GroupKind.LOOP, GroupKind.STITCH):
            return NoFusion("what is folded in order, or by loops within loops, has no columns beside it")
        found = _columns(drafts, draft, rows)
        if isinstance(found, NoFusion):
            return found
        columns.update(found)
    return Fusion(GroupKind.STITCH, rows.space, rows.reduced, columns=tuple(columns))


def _columns(drafts: Drafts, draft: Draft, rows: Draft) -> Collection[Op] | NoFusion:
    """Those of a group's ops that are of columns, beside a group of rows."""
    if draft.columns or draft.reduced == rows.reduced:
        same = drafts.same_shape(draft.space, rows.space) and draft.reduced == rows.reduced
        return draft.columns if same else NoFusion("the two have rows of unlike axes")
    across = GroupAxes(rows.space, frozenset(rows.axes.kept))
    if draft.reduced is None:
        if drafts.same_shape(draft.space, rows.space):
            return ()
        if any(drafts.group_of.get(v) is rows and drafts.producers[v] in rows.columns for v in draft.sources):
            few = extent(drafts.facts, draft.space, across) is Extent.KEPT
            return draft.ops if few else NoFusion("it reads reductions of columns, and has other axes")
        few = extent(drafts.facts, draft.space, rows.axes) is Extent.KEPT
        return () if few else NoFusion("it has neither the group's rows nor its columns")
    if draft.reduced != across.reduced or not drafts.same_shape(draft.space, rows.space):
        mine, theirs = sorted(rows.reduced or ()), sorted(draft.reduced)
        return NoFusion(f"the group reduces axes {mine}, the other axes {theirs}")
    columns = [op for op in draft.ops if not drafts.same_shape(op.results[0].shape, rows.space)]
    columns = [op for op in draft.ops if op in columns or op.opdef.kind is OpKind.REDUCE]
    if not all(isinstance(op.opdef.loops, ReductionLoops) for op in columns if op.opdef.kind is OpKind.REDUCE):
        return NoFusion("columns are reduced by functions of several values")
    if any(_is_long_sum_of_widest(op) for op in columns):
        return NoFusion("sums of columns of float64 keep what they round away, which takes registers of their own")
    known_last = {result for op in columns for result in op.results}
    if any(source in known_last for op in draft.ops if op not in columns for source in drafts.op_sources(op)):
        return NoFusion("whole rows are computed of its columns, which are known last")
    return columns


def _is_long_sum_of_widest(op: Op) -> bool:
    """Whether an op adds up floats that no dtype is wider than."""
    loops, dtype = op.opdef.loops, op.results[0].dtype
    return (
        isinstance(loops, ReductionLoops)
        and dtype.is_float
        and dtype.accumulator is dtype
        and (loops.combine(op.attrs) is Scalar.ADD)
    )
