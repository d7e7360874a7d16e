"""Joins groups side by side that read the same array (horizontal fusion)."""

from __future__ import annotations

from dyn.ir.core import Value
from dyn.ir.opdef import OpKind
from dyn.shapes import product
from dyn.stitch.drafts import Draft, Drafts
from dyn.stitch.groups import GroupKind

#: Groups that were joined because they read the same array have at most so many ops: registers are few.
MOST_OPS = 24
#: Of so many readers of one array siblings are looked for.
_MOST_SIBLINGS = 16


def join_siblings(drafts: Drafts) -> None:
    """Join groups that read an array of their whole space: it is then read once (horizontal fusion)."""
    for source, readers in drafts.readers.items():
        if len(readers) == 1 or source.type.size == 1:
            continue
        numbers = dict.fromkeys(drafts.draft_of[reader].number for reader in readers)
        siblings = [drafts.groups[n] for n in numbers if _may_have_sibling(drafts, drafts.groups[n], source)]
        joined: list[Draft] = []
        for draft in siblings[:_MOST_SIBLINGS]:
            partner = next((other for other in joined if _are_siblings(drafts, other, draft)), None)
            if partner is None:
                joined.append(draft)
            else:
                joined[joined.index(partner)] = drafts.merge(partner, draft)


def _may_have_sibling(drafts: Drafts, draft: Draft, source: Value) -> bool:
    """Whether a group reads ``source`` element by element, and writes in the order in which it reads.

    What is stretched is small, what is gathered or permuted has an order of its own.
    """
    if draft.kind not in (GroupKind.LOOP, GroupKind.STITCH) or len(draft.ops) > MOST_OPS:
        return False
    if any(op.opdef.kind in (OpKind.INDEXED, OpKind.VIEW) for op in draft.ops):
        return False
    return drafts.facts.eq(source.type.size, product(draft.space)).proved


def _are_siblings(drafts: Drafts, a: Draft, b: Draft) -> bool:
    if len(a.ops) + len(b.ops) > MOST_OPS:
        return False
    apart = not drafts.order.reaches(a.number, b.number) and not drafts.order.reaches(b.number, a.number)
    return apart and drafts.merge_refusal(a, b) is None
