"""Nests a reduction of few elements in the loops of what reads its results: ``sum_j f(sum_k g(x[i, k], y[j, k]))``.

Each element is folded where it is read, by a loop of its own, and the array of all pairs ``(i, j)`` is never written.
It is for sums of few terms, such as distances of points in space: each of the outer loop's lanes folds one by itself,
and in order.
"""

from __future__ import annotations

from dyn.ir.core import Op
from dyn.ir.opdef import OpKind, ReductionLoops
from dyn.shapes import product
from dyn.stitch.drafts import Draft, Drafts, Fusion
from dyn.stitch.fusion import NoFusion, Verdict, too_large, waits_between
from dyn.stitch.groups import GroupKind
from dyn.stitch.merging import misread
from dyn.stitch.relations import Shape

#: So many elements are folded in order at the most: as many as lanes of a reduction would each take in turn.
MOST_NESTED = 16


def nested(drafts: Drafts, maker: Draft, reader: Draft) -> Verdict:
    """What reductions over axes that the reader does not have become with it."""
    if maker.kind is not GroupKind.STITCH or reader.kind not in (GroupKind.LOOP, GroupKind.STITCH):
        return NoFusion("only loops and reductions take a reduction into their loops")
    if maker.ordered or reader.ordered or maker.inner:
        return NoFusion("it is folded in order, or has loops within its loops")
    axes = maker.axes
    kept = tuple([maker.space[axis] for axis in axes.kept])
    if not drafts.same_shape(kept, reader.space):
        return NoFusion("its space is not that of the group's results")
    _, most = drafts.facts.bounds(product([maker.space[axis] for axis in sorted(axes.reduced)]))
    if most is None or most > MOST_NESTED:
        return NoFusion(f"the group may fold more than {MOST_NESTED} elements for each that it reads")
    inner = [op for op in maker.ops if op.opdef.kind is OpKind.REDUCE or not drafts.same_shape(_shape(op), kept)]
    if any(op.opdef.kind not in (OpKind.POINTWISE, OpKind.REDUCE) for op in (*maker.ops, *reader.ops)):
        return NoFusion("only elementwise functions and reductions compute elements where they are read")
    if not all(isinstance(op.opdef.loops, ReductionLoops) for op in inner if op.opdef.kind is OpKind.REDUCE):
        return NoFusion("it folds several values at once")
    if not _is_one_sweep(drafts, maker, inner) or not _keeps_to_itself(drafts, maker, inner):
        return NoFusion("others need what the group folds")
    fusion = Fusion(reader.kind, reader.space, reader.reduced, inner=tuple(inner))
    refusal = too_large(maker, reader) or waits_between(drafts, maker, reader)
    return refusal or misread(drafts, maker, reader, fusion) or fusion


def _shape(op: Op) -> Shape:
    return op.results[0].shape


def _is_one_sweep(drafts: Drafts, maker: Draft, inner: list[Op]) -> bool:
    """Whether nothing that is folded is computed of results."""
    results = {op.result for op in maker.ops if op not in inner or op.opdef.kind is OpKind.REDUCE}
    return not any(source in results for op in inner for source in drafts.op_sources(op))


def _keeps_to_itself(drafts: Drafts, maker: Draft, inner: list[Op]) -> bool:
    """Whether nobody else reads what is folded."""
    return not any(
        op.result in drafts.pinned
        or op.result in drafts.shown
        or any(drafts.draft_of[reader] is not maker for reader in drafts.readers.get(op.result, ()))
        for op in inner
        if op.opdef.kind is not OpKind.REDUCE
    )
