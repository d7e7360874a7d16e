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
    """Return True if one of two groups reduces rows and the other one columns, or one does both."""
    if first.columns or then.columns:
        return True
    rows, columns = (first, then) if first.axes.reduces_last else (then, first)
    return (
        rows.axes.reduces_last
        and drafts.same_shape(rows.space, columns.space)
        and columns.reduced == frozenset(rows.axes.kept)
    )


def rows_and_columns(drafts: Drafts, first: Draft, then: Draft) -> Verdict:
    """Form of two groups, of which :func:`have_columns` is true, by their kinds, spaces and reductions alone."""
    rows = next(draft for draft in (first, then) if draft.columns or draft.axes.reduces_last)
    across = [axis for axis in rows.axes.kept if rows.space[axis] != 1]
    if not across or max(across) > min(rows.axes.reduced):
        return NoFusion("rows and columns go together where there are several rows, one behind the other")
    if not any(_is_whole(drafts, op, rows) for draft in (first, then) for op in draft.ops):
        # Rows of few elements, and few long rows, are folded in other ways than rows that are computed.
        return NoFusion("nothing is computed of each element, and apart both are folded as it suits them")
    columns: set[Op] = set()
    for draft in (first, then):
        if draft.ordered or draft.inner or draft.kind not in (GroupKind.LOOP, GroupKind.STITCH):
            return NoFusion("what is folded in order, or by loops within loops, has no columns beside it")
        found = _columns(drafts, draft, rows)
        if isinstance(found, NoFusion):
            return found
        columns.update(found)
    return Fusion(GroupKind.STITCH, rows.space, rows.reduced, columns=tuple(columns))


def _is_whole(drafts: Drafts, op: Op, rows: Draft) -> bool:
    """Return True for an op that computes an element of each row and column."""
    return op.opdef.kind is not OpKind.REDUCE and drafts.same_shape(op.results[0].shape, rows.space)


def _columns(drafts: Drafts, draft: Draft, rows: Draft) -> Collection[Op] | NoFusion:
    """Those of a group's ops that are of columns, in one group with ``rows``: none, all or some."""
    if draft.columns or draft.reduced == rows.reduced:
        same = drafts.same_shape(draft.space, rows.space) and draft.reduced == rows.reduced
        return draft.columns if same else NoFusion("the two have rows of unlike axes")
    if draft.reduced is None:
        return _columns_of_loop(drafts, draft, rows)
    if draft.reduced != frozenset(rows.axes.kept) or not drafts.same_shape(draft.space, rows.space):
        mine, theirs = sorted(rows.reduced or ()), sorted(draft.reduced)
        return NoFusion(f"the group reduces axes {mine}, the other axes {theirs}")
    reductions = [op for op in draft.ops if op.opdef.kind is OpKind.REDUCE]
    if not all(isinstance(op.opdef.loops, ReductionLoops) for op in reductions):
        return NoFusion("columns are reduced by functions of several values")
    if any(_is_long_sum_of_widest(op) for op in reductions):
        return NoFusion("sums of columns of float64 keep what they round away, which takes registers of their own")
    # A view that is stored permutes the elements of the whole space, whatever its shape.
    whole = [op for op in draft.ops if op.opdef.kind is OpKind.VIEW or _is_whole(drafts, op, rows)]
    columns = [op for op in draft.ops if op not in whole]
    known_last = {result for op in columns for result in op.results}
    if any(source in known_last for op in (*whole, *reductions) for source in drafts.op_sources(op)):
        return NoFusion("whole rows are computed of its columns, which are known last")
    return columns


def _columns_of_loop(drafts: Drafts, draft: Draft, rows: Draft) -> Collection[Op] | NoFusion:
    """Those of a loop's ops that are of columns: all, where it reads any."""
    if drafts.same_shape(draft.space, rows.space):
        return ()
    if any(op.opdef.kind is OpKind.VIEW for op in draft.ops):
        return NoFusion("a view that is stored permutes whole values, not rows or columns")
    if any(drafts.group_of.get(v) is rows and drafts.producers[v] in rows.columns for v in draft.sources):
        across = GroupAxes(rows.space, frozenset(rows.axes.kept))
        fits = extent(drafts.facts, draft.space, across) is Extent.KEPT
        return draft.ops if fits else NoFusion("it reads reductions of columns, and has other axes")
    fits = extent(drafts.facts, draft.space, rows.axes) is Extent.KEPT
    return () if fits else NoFusion("it has neither the group's rows nor its columns")


def _is_long_sum_of_widest(op: Op) -> bool:
    """Return True for a sum of floats that no dtype is wider than."""
    loops, dtype = op.opdef.loops, op.results[0].dtype
    sums = isinstance(loops, ReductionLoops) and loops.combine(op.attrs) is Scalar.ADD
    return sums and dtype.is_float and dtype.accumulator is dtype
