"""Nests a reduction of few elements in the loops of what reads its results: ``sum_j f(sum_k g(x[i, k], y[j, k]))``.

Each element is folded where it is read, by a loop of its own, and the array of all pairs ``(i, j)`` is never written.
It is for sums of few terms, such as distances of points in space: each of the outer loop's lanes folds one by itself,
and in order.
"""

from __future__ import annotations

from collections.abc import Sequence

from dyn.ir.core import Op, Value
from dyn.ir.opdef import OpKind, ReductionLoops
from dyn.shapes import product
from dyn.stitch.drafts import Draft, Drafts, Fusion
from dyn.stitch.fusion import NoFusion, Verdict, too_large, waits_between
from dyn.stitch.groups import GroupKind
from dyn.stitch.merging import misread
from dyn.stitch.relations import AT_RELATED_PLACES, Shape, goes_along_all
from dyn.stitch.spread import left_to_readers

#: So many elements are folded in order at the most: as many as lanes of a reduction would each take in turn.
MOST_NESTED = 16


def nested(drafts: Drafts, maker: Draft, reader: Draft) -> Verdict:
    """Verdict on reductions over axes that their reader does not have: loops within the reader's."""
    if maker.kind is not GroupKind.STITCH or reader.kind not in (GroupKind.LOOP, GroupKind.STITCH):
        return NoFusion("only loops and reductions take a reduction into their loops")
    if reader.ordered or reader.columns or any(op.opdef.kind not in AT_RELATED_PLACES for op in reader.ops):
        return NoFusion("only elementwise functions and reductions fold elements where they are read")
    if not drafts.same_shape(_kept(maker), reader.space):
        return NoFusion("its space is not that of the group's results")
    inner = _inner(drafts, maker)
    if isinstance(inner, NoFusion):
        return inner
    fusion = Fusion(reader.kind, reader.space, reader.reduced, inner=inner)
    refusal = too_large(maker, reader) or waits_between(drafts, maker, reader)
    return refusal or misread(drafts, maker, reader, fusion) or fusion


def fold_within(drafts: Drafts) -> None:
    """Make loops over their results of reductions of few elements that nothing else takes into its loops, of arrays
    that are spread over them: lanes go along the results, and what is computed of these is so for many at once."""
    for draft in drafts.groups.values():
        if draft.kind is GroupKind.STITCH and len(draft.axes.kept) > 0:
            inner = _inner(drafts, draft)
            if not isinstance(inner, NoFusion) and not _reads_whole(drafts, draft, inner):
                draft.inner.update(inner)
                draft.kind, draft.space, draft.reduced, draft.reductions = GroupKind.LOOP, _kept(draft), None, 0


def _reads_whole(drafts: Drafts, draft: Draft, inner: Sequence[Op]) -> bool:
    """Whether what is folded is computed of an array that has all axes of the space."""
    reads = [(drafts.reading(v), v.shape) for op in inner for v in op.operands]
    return any(goes_along_all(read, shape) for read, shape in reads if drafts.group_of.get(read.base) is not draft)


def _kept(draft: Draft) -> Shape:
    """The shape of a group's results."""
    return tuple([draft.space[axis] for axis in draft.axes.kept])


def _inner(drafts: Drafts, maker: Draft) -> tuple[Op, ...] | NoFusion:
    """The ops of a group that a loop over its results would have in loops of their own: reductions, and what these
    fold."""
    if maker.ordered or maker.inner or maker.columns:
        return NoFusion("it is folded in order, by columns too, or has loops within its loops")
    _, most = drafts.facts.bounds(product([maker.space[axis] for axis in sorted(maker.axes.reduced)]))
    if most is None or most > MOST_NESTED:
        return NoFusion(f"the group may fold more than {MOST_NESTED} elements for each that it reads")
    if any(op.opdef.kind not in AT_RELATED_PLACES for op in maker.ops):
        return NoFusion("only elementwise functions and reductions compute elements where they are read")
    kept = _kept(maker)
    rows = [op.opdef.kind is OpKind.POINTWISE and drafts.same_shape(op.result.shape, kept) for op in maker.ops]
    inner = tuple([op for op, row in zip(maker.ops, rows, strict=True) if not row])
    if any(op.opdef.kind is OpKind.POINTWISE and drafts.is_row(op, maker) for op in inner):
        return NoFusion("its results have axes of size 1 in place of those that are folded")
    if not all(isinstance(op.opdef.loops, ReductionLoops) for op in inner if op.opdef.kind is OpKind.REDUCE):
        return NoFusion("it folds several values at once")
    if not _is_one_sweep(drafts, maker, inner):
        return NoFusion("what it folds is computed of results of others")
    if not all(left_to_readers(drafts, value) for value in _read_by_others(drafts, maker, inner)):
        return NoFusion("others need what the group folds")
    return inner


def _is_one_sweep(drafts: Drafts, maker: Draft, inner: Sequence[Op]) -> bool:
    """Whether nothing that is folded is computed of results."""
    results = {op.result for op in maker.ops if op not in inner or op.opdef.kind is OpKind.REDUCE}
    return not any(source in results for op in inner for source in drafts.op_sources(op))


def _read_by_others(drafts: Drafts, maker: Draft, inner: Sequence[Op]) -> list[Value]:
    """The values that are folded, and that others need too."""
    return [
        op.result
        for op in inner
        if op.opdef.kind is not OpKind.REDUCE
        and (
            op.result in drafts.pinned
            or op.result in drafts.shown
            or any(drafts.draft_of[reader] is not maker for reader in drafts.readers.get(op.result, ()))
        )
    ]
