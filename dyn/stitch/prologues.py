"""Joins contractions with what computes their operands, cheaply: each element is computed where it is packed, and is
never written to memory."""

from __future__ import annotations

from collections.abc import Sequence

from dyn.ir.core import Op, Value
from dyn.ir.opdef import Convolution, OpKind
from dyn.ops.contract import free_axes
from dyn.stitch.access import own_index
from dyn.stitch.beside import MOST_OPS
from dyn.stitch.drafts import Draft, Drafts, Fusion
from dyn.stitch.fusion import NoFusion, Verdict, waits_between
from dyn.stitch.groups import GroupKind
from dyn.stitch.inline import is_local
from dyn.stitch.scalar_work import is_heavy, is_widening


def prologue(drafts: Drafts, maker: Draft, root: Draft) -> Verdict:
    """Verdict on a contraction and a maker of operands of it, and of nothing else: a prologue."""
    if root.kind is not GroupKind.CONTRACT or maker.kind is not GroupKind.LOOP or len(maker.ops) > MOST_OPS:
        return NoFusion("only loops of few ops compute the operands of a contraction")
    (op,) = [o for o in root.ops if o.opdef.kind is OpKind.CONTRACT]
    if not drafts.hands_all_to(maker, (op, *root.prologue)):
        return NoFusion("others than the contraction read it")
    made = [v for v in op.operands if any(drafts.group_of.get(s) is maker for s in drafts.sources(v))]
    if any(_is_divided(drafts, operand) for operand in made):
        return NoFusion("the contraction reads it reshaped, at places that are divisions")
    if not _pays(drafts, maker, op, made):
        return NoFusion("it would be computed each time that the contraction reads it, which takes longer")
    return waits_between(drafts, maker, root) or Fusion(GroupKind.CONTRACT, root.space, prologue=True)


def _is_divided(drafts: Drafts, operand: Value) -> bool:
    """Whether an operand is reshaped so that its elements' places are divisions: it is quicker read from memory."""
    while (op := drafts.producers.get(operand)) is not None and op.opdef.kind is OpKind.VIEW:
        if op.opdef.keeps_order and not is_local(op):
            return True
        operand = op.operands[0]
    return False


def _pays(drafts: Drafts, maker: Draft, op: Op, made: Sequence[Value]) -> bool:
    """Whether elements are computed again, each time that they are packed, for less than they are written and read.

    They are where fewer bytes are read than would be written, as in conversions and dequantised weights; and in a right
    operand that lies along the columns, which is packed in any case and, for a few rows, multiplied as it is computed.
    A left operand is read where it lies instead, and one along the contracted axis by dot products: computed, they took
    1.05 to 1.7 times as long. A convolution packs each element of an image once for each tap, and may have few
    features: there conversions alone are computed again, and so in what the others are computed of, such as scales.
    """
    if any(o.opdef.kind is not OpKind.POINTWISE or is_heavy(o) for o in maker.ops):
        return False
    if isinstance(op.opdef.loops, Convolution) or not made:
        return all(map(is_widening, maker.ops))
    return all(_reads_less(drafts, maker, v) or _is_along_columns(drafts, op, v) for v in made)


def _reads_less(drafts: Drafts, maker: Draft, operand: Value) -> bool:
    """Whether a group reads fewer bytes than an operand has; what is spread over a larger array counts for nothing."""
    sources = {s for o in maker.ops for s in drafts.op_sources(o) if drafts.group_of.get(s) is not maker}
    size = operand.type.size
    return sum(source.dtype.itemsize for source in sources if source.type.size == size) < operand.dtype.itemsize


def _is_along_columns(drafts: Drafts, op: Op, operand: Value) -> bool:
    """Whether a right operand's neighbours in its maker's order are neighbours along the columns of a contraction."""
    right = op.operands[1]
    free = free_axes(len(right.shape), op.attrs["rhs_batch"], op.attrs["rhs_contracting"])
    if operand is not right or op.operands[0] is right or not free:
        return False
    own = own_index(len(operand.shape))
    _, index = drafts.views.chain(operand, own)
    last = next((d for d in reversed(index) if not isinstance(d, int)), None)
    return last is not None and any(last == own[axis] for axis in free)
