"""Joins contractions with what computes their operands, cheaply: each element is computed where it is packed, and is
never written to memory."""

from __future__ import annotations

from dyn.ir.core import Op, Value
from dyn.ir.opdef import Convolution, OpKind
from dyn.stitch.costs import is_heavy, is_widening
from dyn.stitch.drafts import Draft, Drafts
from dyn.stitch.groups import GroupKind
from dyn.stitch.inline import is_local
from dyn.stitch.siblings import MOST_OPS


def join_prologues(drafts: Drafts) -> None:
    """Join groups that compute operands of one contraction, and nothing else, with it."""
    for draft in list(drafts.groups.values()):
        if draft.kind is not GroupKind.CONTRACT:
            continue
        (op,) = [o for o in draft.ops if o.opdef.kind is OpKind.CONTRACT]
        space = draft.space
        for maker in dict.fromkeys(drafts.group_of[s] for s in drafts.op_sources(op) if s in drafts.group_of):
            if _is_prologue(drafts, maker, op, draft):
                said = f"{op.opdef.name} at {op.loc} stays outside: "
                maker.ends = {end: None for end in maker.ends if not end.startswith(said)}
                made = set(maker.ops)
                draft = drafts.merge(maker, draft)
                draft.prologue |= made
                draft.space = space


def _is_prologue(drafts: Drafts, maker: Draft, op: Op, draft: Draft) -> bool:
    if maker is draft or maker.kind is not GroupKind.LOOP or len(maker.ops) > MOST_OPS:
        return False
    if not _pays(maker, op) or any(_is_divided(drafts, operand) for operand in op.operands):
        return False
    for made in [result for o in maker.ops for result in o.results]:
        readers = drafts.readers.get(made, ())
        if made in drafts.pinned or made in drafts.shown:
            return False
        if any(reader is not op and drafts.draft_of[reader] is not maker for reader in readers):
            return False
    return not drafts.order.between(maker.number, draft.number)


def _is_divided(drafts: Drafts, operand: Value) -> bool:
    """Whether an operand is reshaped so that its elements' places are divisions: it is quicker read from memory."""
    while (op := drafts.producers.get(operand)) is not None and op.opdef.kind is OpKind.VIEW:
        if op.opdef.keeps_order and not is_local(op):
            return True
        operand = op.operands[0]
    return False


def _pays(maker: Draft, op: Op) -> bool:
    """Whether elements are computed again, each time that they are packed, for less than they are written and read.

    A packed element is multiplied hundreds of times, so what is cheap is nothing beside that. A convolution packs each
    element of an image once for each tap, and may have few features: there conversions alone are computed again.
    """
    if any(o.opdef.kind is not OpKind.POINTWISE or is_heavy(o) for o in maker.ops):
        return False
    return not isinstance(op.opdef.loops, Convolution) or all(map(is_widening, maker.ops))
