"""Joins concatenations with what computes their pieces."""

from __future__ import annotations

from dyn.ir.core import Op, Value
from dyn.ir.opdef import OpKind, Pieces
from dyn.stitch.costs import is_heavy
from dyn.stitch.drafts import Draft, Drafts
from dyn.stitch.groups import GroupKind
from dyn.stitch.siblings import MOST_OPS

#: Of more arrays that are joined each is copied by a loop of its own; of fewer an element is chosen from among all.
MOST_PIECES = 16


def join_pieces(drafts: Drafts) -> None:
    """Join what computes pieces of a concatenation, and nothing else, with it: each piece is computed where it
    belongs, and not copied there."""
    for draft in list(drafts.groups.values()):
        (op, *others) = draft.ops
        if others or not isinstance(op.opdef.loops, Pieces):
            continue
        for maker in dict.fromkeys(drafts.group_of[s] for s in drafts.op_sources(op) if s in drafts.group_of):
            if _is_of_pieces(drafts, maker, op, draft):
                draft = drafts.merge_behind(maker, draft, op)
                draft.kind, draft.space = GroupKind.JOIN, op.result.shape


def _is_of_pieces(drafts: Drafts, maker: Draft, op: Op, draft: Draft) -> bool:
    """Whether a group may be computed piece by piece of a concatenation: what is cheap, such as rows of a table, and
    reads no more than copies of the pieces would."""
    if maker.kind is not GroupKind.LOOP or len(maker.ops) > MOST_OPS:
        return False
    if not all(map(_is_cheap, maker.ops)):
        return False
    if not drafts.hands_all_to(maker, draft.ops):
        return False
    pieces = [piece for piece in op.operands if any(drafts.group_of.get(s) is maker for s in drafts.sources(piece))]
    reads = [_reads_of(drafts, piece, maker) for piece in pieces]
    if any(drafts.group_of.get(drafts.views.base(piece)) is not maker for piece in pieces):
        return False
    if len(set(pieces)) < len(pieces):
        return False
    if sum(map(len, reads)) > len(set[Value]().union(*reads)) + 2 * len(pieces):
        return False
    return not drafts.order.between(maker.number, draft.number)


def _is_cheap(op: Op) -> bool:
    """Whether an element is computed for about as much as a copy of it; or is one, from a place that was computed."""
    if op.opdef.kind is OpKind.INDEXED:
        return not isinstance(op.opdef.loops, Pieces)  # whose elements are chosen from among all
    return op.opdef.kind is OpKind.POINTWISE and not is_heavy(op)


def _reads_of(drafts: Drafts, piece: Value, maker: Draft) -> set[Value]:
    """The arrays that a piece is computed from."""
    found: set[Value] = set()
    seen = {piece}
    stack = [piece]
    while stack:
        for source in drafts.op_sources(drafts.producers[stack.pop()]):
            if drafts.group_of.get(source) is not maker:
                found.add(source)
            elif source not in seen:
                seen.add(source)
                stack.append(source)
    return found
