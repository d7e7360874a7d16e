"""Joins groups across broadcasts that are undecided: where an axis that is read may be stretched.

Almost always nothing is stretched, and an array less is written and read. Where something is, elements are computed
once for each that reads them: so they have to be cheap.
"""

from __future__ import annotations

from dyn.ir.core import Op, Value
from dyn.ir.opdef import OpKind
from dyn.shapes import SymExpr
from dyn.stitch.drafts import Draft, Drafts, Fusion
from dyn.stitch.fusion import NoFusion, Verdict, too_large, waits_between
from dyn.stitch.groups import GroupKind
from dyn.stitch.relations import Other, Shape, relation
from dyn.stitch.scalar_work import is_heavy


def stretched(drafts: Drafts, maker: Draft, reader: Draft) -> Verdict:
    """Verdict on a group and a reader of it whose space may stretch its own: one loop."""
    stitched = maker.kind is GroupKind.STITCH
    if reader.kind is not GroupKind.LOOP or not (stitched or maker.kind is GroupKind.LOOP):
        return NoFusion("only loops, and reductions before them, are joined where sizes may be stretched")
    if any(op.opdef.kind is not OpKind.POINTWISE for op in reader.ops):  # before the solver is asked
        return NoFusion("only elementwise functions are computed of what may be stretched")
    if stitched and (maker.ordered or maker.columns or not maker.axes.reduces_last):
        return NoFusion("the group does not go along the rows that may be stretched")
    if not _may_stretch(drafts, maker, reader.space):
        return NoFusion("its space is none that stretches the group's")
    full = [op for op in maker.ops if op.opdef.kind is not OpKind.REDUCE and not drafts.is_row(op, maker)]
    if any(op.opdef.kind is not OpKind.POINTWISE or is_heavy(op) for op in full):
        return NoFusion("what may be stretched is too dear to be computed for each element that it is stretched to")
    if not stitched and not drafts.hands_all_to(maker, reader.ops):
        return NoFusion("others read what may be stretched")
    refusal = too_large(maker, reader) or waits_between(drafts, maker, reader)
    if refusal is not None:
        return refusal
    if not all(_reads_stretched(drafts, op, v, maker) for op in reader.ops for v in op.operands):
        return NoFusion("it reads the group's values at other places than its own")
    return Fusion(maker.kind, maker.space if stitched else reader.space, maker.reduced)


def _may_stretch(drafts: Drafts, group: Draft, space: Shape) -> bool:
    """Whether a space is a group's but for axes that an undecided broadcast may stretch: of reductions only those
    that are reduced."""
    if len(space) != len(group.space):
        return False
    apart = [a for a, (s, t) in enumerate(zip(group.space, space, strict=True)) if not drafts.same_shape((s,), (t,))]
    if not apart or (group.reduced is not None and not group.reduced.issuperset(apart)):
        return False
    return all(
        isinstance(group.space[a], SymExpr) and drafts.facts.broadcasts_to(group.space[a], space[a]).proved
        for a in apart
    )


def _reads_stretched(drafts: Drafts, op: Op, operand: Value, maker: Draft) -> bool:
    """Whether what an op reads of a group, if anything, is read at the op's own index, stretched or not."""
    if not any(drafts.group_of.get(source) is maker for source in drafts.sources(operand)):
        return True
    read, rank = drafts.reading(operand), len(maker.space)
    if drafts.group_of.get(read.base) is not maker or read.base in drafts.pinned or len(operand.shape) != rank:
        return False
    lies = range(rank) if len(read.base.shape) == rank else maker.axes.kept
    return not isinstance(relation(read, range(rank), lies, rank), Other)
