"""Joins concatenations with what computes their pieces, and nothing else, cheaply: each piece is computed where it
belongs, and not copied there."""

from __future__ import annotations

from dyn.ir.core import Op, Value
from dyn.ir.opdef import OpKind, Pieces
from dyn.stitch.beside import MOST_OPS
from dyn.stitch.drafts import Draft, Drafts, Fusion
from dyn.stitch.fusion import NoFusion, Verdict, waits_between
from dyn.stitch.groups import GroupKind
from dyn.stitch.scalar_work import is_heavy

#: Of more arrays that are joined each is copied by a loop of its own; of fewer an element is chosen from among all.
MOST_PIECES = 16


def pieces(drafts: Drafts, maker: Draft, joined: Draft) -> Verdict:
    """Verdict on a concatenation and a maker of pieces of it, which is computed piece by piece if it is cheap, such as
    rows of a table, and reads no more than copies of the pieces would."""
    op = _concatenation(joined)
    if op is None or maker.kind is not GroupKind.LOOP or len(maker.ops) > MOST_OPS:
        return NoFusion("it is no concatenation alone")
    if not all(map(_is_cheap, maker.ops)):
        return NoFusion("pieces are dear to compute, beside a copy of them")
    if not drafts.hands_all_to(maker, joined.ops):
        return NoFusion("others read the pieces")
    made = [piece for piece in op.operands if any(drafts.group_of.get(s) is maker for s in drafts.sources(piece))]
    if any(drafts.group_of.get(drafts.views.base(piece)) is not maker for piece in made):
        return NoFusion("a piece is computed of the group's values by the concatenation")
    reads = [_reads_of(drafts, piece, maker) for piece in made]
    if len(set(made)) < len(made) or sum(map(len, reads)) > len(set[Value]().union(*reads)) + 2 * len(made):
        return NoFusion("several pieces are computed of the same arrays, which are read once as it is")
    return waits_between(drafts, maker, joined) or Fusion(GroupKind.JOIN, op.result.shape)


def _concatenation(draft: Draft) -> Op | None:
    """The concatenation of a group that has it alone, or with what computes pieces of it."""
    found = [op for op in draft.ops if isinstance(op.opdef.loops, Pieces)]
    return found[0] if len(found) == 1 and (draft.kind is GroupKind.JOIN or len(draft.ops) == 1) else None


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
