"""Merges what computes values with what reads them at the same places: one loop nest, or a contraction's epilogue.

* POINTWISE and INDEXED ops share a loop over one space;
* a REDUCE op shares one with what computes its operand, and with what is computed of its results, for whole rows or at
  each place of these, if the two reduce the same axes or one of them none;
* reductions of rows in order, which lanes sweep side by side, share a group with what they read and with row values,
  not with reductions along lanes or with what is computed of their results for a whole row;
* contractions and folds of windows take full-size POINTWISE ops behind them;
* a view that is stored belongs to what computes the elements that it permutes.
"""

from __future__ import annotations

from collections.abc import Iterator

from dyn.ir.core import Op, Value
from dyn.ir.opdef import OpKind
from dyn.shapes import format_shape
from dyn.stitch.columns import have_columns, rows_and_columns
from dyn.stitch.drafts import Draft, Drafts, Fusion
from dyn.stitch.fusion import EPILOGUES, NoFusion, Verdict, too_large, waits_between
from dyn.stitch.groups import GroupKind
from dyn.stitch.relations import (
    AT_RELATED_PLACES,
    Extent,
    GroupAxes,
    Kept,
    Same,
    extent,
    permutes,
    reading_of_view,
    relation,
)

#: The kinds of groups that take nothing else, in words.
_ALONE = {
    GroupKind.LIBRARY: "library",
    GroupKind.SCATTER: "scatter",
    GroupKind.JOIN: "join",
    GroupKind.RUNNING: "running reduction",
    GroupKind.CONTROL: "loop or a choice",
    GroupKind.DATA_DEPENDENT_SIZE: "measure",
}


def merging(drafts: Drafts, first: Draft, then: Draft) -> Verdict:
    """Verdict on two groups of which one reads the other: one loop nest, or a root and its epilogue."""
    for draft in (first, then):
        if draft.kind in _ALONE:
            return NoFusion(f"a {_ALONE[draft.kind]} takes nothing else")
    if then.kind is GroupKind.COPY:
        return _storing_a_view(drafts, first, then)
    if first.kind is GroupKind.COPY:
        return NoFusion("a copy takes nothing else")
    fusion = _as_one(drafts, first, then)
    if isinstance(fusion, NoFusion):
        return fusion
    refusal = too_large(first, then) or waits_between(drafts, first, then) or misread(drafts, first, then, fusion)
    return refusal or fusion


def _as_one(drafts: Drafts, first: Draft, then: Draft) -> Verdict:
    """Form of two groups together, by their kinds, spaces and reductions alone."""
    kinds = {first.kind, then.kind}
    for kind in kinds & EPILOGUES.keys():
        what = f"a {EPILOGUES[kind]}'s epilogue takes no"
        if first.inner or then.inner:
            return NoFusion(f"{what} loops within its loops")
        if len(kinds) == 1:
            return NoFusion(f"{what} second {EPILOGUES[kind]}")
        if kinds != {kind, GroupKind.LOOP}:
            return NoFusion(f"{what} {'window' if GroupKind.WINDOW in kinds - {kind} else 'reduction'}")
        if not drafts.same_shape(first.space, then.space):
            return _other_space(first, then)
        return Fusion(kind, (first if first.kind is kind else then).space)
    if have_columns(drafts, first, then):
        return rows_and_columns(drafts, first, then)
    wide = _wider(drafts, first, then)
    if wide is None:
        return _other_space(first, then)
    if None not in (first.reduced, then.reduced) and first.reduced != then.reduced:
        mine, theirs = sorted(first.reduced or ()), sorted(then.reduced or ())
        return NoFusion(f"the group reduces axes {mine}, the other axes {theirs}")
    reduced = first.reduced if first.reduced is not None else then.reduced
    if first.ordered != then.ordered and GroupAxes(wide.space, reduced or frozenset()).reduces_last:
        refusal = _out_of_order(drafts, first, then)
        if refusal is not None:
            return refusal
    return Fusion(GroupKind.LOOP if reduced is None else GroupKind.STITCH, wide.space, reduced)


def _other_space(first: Draft, then: Draft) -> NoFusion:
    mine, theirs = format_shape(first.space), format_shape(then.space)
    return NoFusion(f"its space {theirs} is not provably the group's {mine}")


def _wider(drafts: Drafts, first: Draft, then: Draft) -> Draft | None:
    """Of two groups over one space the first; of one that reduces and one over the axes that it keeps the former."""
    if drafts.same_shape(first.space, then.space):
        return first
    for wide, rows in ((first, then), (then, first)):
        if not wide.reduced or rows.reduced is not None or rows.inner:
            continue  # what has loops of its own would go through them for each element of a row
        if any(op.opdef.kind is OpKind.VIEW for op in rows.ops):
            continue  # a view that is stored permutes whole values, not rows
        if extent(drafts.facts, rows.space, wide.axes) is Extent.KEPT:
            return wide
    return None


def _out_of_order(drafts: Drafts, first: Draft, then: Draft) -> NoFusion | None:
    """Why a group that reduces rows in order, lanes side by side, does not take another that does not."""
    ordered, other = (first, then) if first.ordered else (then, first)
    if other.reduced is not None:
        return NoFusion("one of the two reduces rows in order, lanes side by side, and the other along lanes")
    if drafts.same_shape(ordered.space, other.space) and (other is then or not drafts.reads_of(ordered, other)):
        return NoFusion("the group's lanes lie side by side, each with a row, and the other's along rows")
    return None


# Reads --------------------------------------------------------------------------------------------------------------


def misread(drafts: Drafts, first: Draft, then: Draft, fusion: Fusion) -> NoFusion | None:
    """Why two groups are not one loop, if an op of one reads values of the other at other places than its own."""
    axes = GroupAxes(fusion.space, fusion.reduced or frozenset())
    across = GroupAxes(axes.space, frozenset(axes.kept))
    columns = first.columns.union(then.columns, fusion.columns)
    for op, other in _crossing(drafts, first, then):
        of_column = op in columns and op.opdef.kind is not OpKind.REDUCE
        for operand in op.operands:
            read = [source for source in drafts.sources(operand) if drafts.group_of.get(source) is other]
            if not read:
                continue
            if any((drafts.producers[source] in columns) is not of_column for source in read):
                return NoFusion("it reads what is computed of columns, which are known when all rows are", op)
            if not _is_aligned(drafts, op, operand, across if of_column else axes, other):
                return NoFusion("it reads the group's values at other places than its own", op)
    return None


def _crossing(drafts: Drafts, a: Draft, b: Draft) -> Iterator[tuple[Op, Draft]]:
    """The ops of two groups that may read values of the other one."""
    small, large = (a, b) if len(a.ops) <= len(b.ops) else (b, a)
    for op in small.ops:
        yield op, large
    for reader in dict.fromkeys(r for op in small.ops for v in op.results for r in drafts.readers.get(v, ())):
        if drafts.draft_of[reader] is large:
            yield reader, small


def _is_aligned(drafts: Drafts, op: Op, operand: Value, axes: GroupAxes, other: Draft) -> bool:
    """Whether an operand is read at the op's own index of a group's axes, or at those of its axes that it keeps."""
    if op.opdef.kind not in AT_RELATED_PLACES:
        return False
    read, rank = drafts.reading(operand), len(axes.space)
    if drafts.group_of.get(read.base) is not other or read.base in drafts.pinned:
        return False
    row = op.opdef.kind is not OpKind.REDUCE and not drafts.same_shape(op.results[0].shape, axes.space)
    # A row has no index of its own on a reduced axis: what it reads there is at some place that it chose.
    index = axes.kept if row and len(operand.shape) == len(axes.kept) else range(rank)
    if len(operand.shape) != len(index):
        return False
    full = not row and drafts.same_shape(read.base.shape, axes.space)
    lies = range(rank) if full or len(read.base.shape) == rank else axes.kept
    return isinstance(relation(read, index, lies, rank), Same | Kept)


def _storing_a_view(drafts: Drafts, maker: Draft, view: Draft) -> Verdict:
    """A view that must be stored: by the group that computes what it shows, if it only permutes it."""
    (op,) = view.ops
    read = reading_of_view(drafts.views, op)
    if drafts.group_of.get(read.base) is not maker or not drafts.same_shape(read.base.shape, maker.space):
        return NoFusion("it copies what is not the group's space")
    if drafts.waits.get(op) or not permutes(drafts.facts, op.result, read):
        return NoFusion("it does not only permute the group's values")
    return Fusion(maker.kind, maker.space, maker.reduced)
