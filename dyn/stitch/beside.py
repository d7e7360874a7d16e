"""Joins groups side by side that read the same array, which is then read once (horizontal fusion)."""

from __future__ import annotations

from dyn.ir.core import Value
from dyn.ir.opdef import OpKind
from dyn.shapes import product
from dyn.stitch.drafts import Draft, Drafts
from dyn.stitch.fusion import NoFusion, Verdict
from dyn.stitch.groups import GroupKind
from dyn.stitch.merging import merging

#: Groups that were joined because they read the same array have at most so many ops, where one of them has more than
#: one: registers are few.
MOST_OPS = 24


def beside(drafts: Drafts, first: Draft, then: Draft) -> Verdict:
    """Verdict on two groups that read the same array, neither of which waits for the other: one loop over it."""
    if min(len(first.ops), len(then.ops)) > 1 and len(first.ops) + len(then.ops) > MOST_OPS:
        return NoFusion(f"the groups have more than {MOST_OPS} ops together, and registers are few")
    if drafts.order.reaches(first.number, then.number):
        return NoFusion("one of the two waits for the other")
    if not drafts.same_shape(first.space, then.space) or first.ordered != then.ordered:
        return NoFusion("they do not go through the array in one order")
    return merging(drafts, first, then)


def reads_whole(drafts: Drafts, draft: Draft, source: Value) -> bool:
    """Whether a group reads an array element by element, and writes in the order in which it reads.

    What is stretched is small, what is gathered or permuted has an order of its own.
    """
    if draft.kind not in (GroupKind.LOOP, GroupKind.STITCH):
        return False
    if any(op.opdef.kind in (OpKind.INDEXED, OpKind.VIEW) for op in draft.ops):
        return False
    own, read = (tuple([size for size in shape if size != 1]) for shape in (draft.space, source.shape))
    if len(own) == len(read):  # of unlike ranks it is reshaped
        return drafts.same_shape(own, read)
    return drafts.facts.same(source.type.size, product(draft.space))
