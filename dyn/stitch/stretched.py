"""Joins groups across broadcasts that are undecided: where an axis that is read may be stretched."""

from __future__ import annotations

from dyn.ir.core import Op, Value
from dyn.ir.opdef import OpKind
from dyn.shapes import Dim, SymExpr
from dyn.stitch.costs import is_heavy
from dyn.stitch.drafts import MOST_MEMBERS, Draft, Drafts
from dyn.stitch.groups import GroupKind
from dyn.stitch.relations import Other, reading, relation


def join_stretched(drafts: Drafts) -> None:
    """Join what computes an array with what reads it where an undecided broadcast may stretch it.

    Almost always nothing is stretched, and an array less is written and read. Where something is, elements are
    computed once for each that reads them: so they have to be cheap.
    """
    pending = [draft for draft in drafts.groups.values() if draft.kind is GroupKind.LOOP]
    while pending:
        consumer = pending.pop()
        if consumer.number not in drafts.groups or consumer.kind is not GroupKind.LOOP:
            continue
        sources = dict.fromkeys(s for op in consumer.ops for s in drafts.op_sources(op))
        makers = dict.fromkeys(drafts.group_of[s] for s in sources if s in drafts.group_of)
        for producer in makers:
            if producer is not consumer and _is_stretched(drafts, producer, consumer):
                space = producer.space if producer.kind is GroupKind.STITCH else consumer.space
                joined = drafts.merge(producer, consumer)
                joined.space = space
                pending.append(joined)
                break


def _is_stretched(drafts: Drafts, producer: Draft, consumer: Draft) -> bool:
    """Whether ``consumer`` may compute what it reads of ``producer``, whose space its own may stretch."""
    stitched = producer.kind is GroupKind.STITCH
    if not stitched and producer.kind is not GroupKind.LOOP:
        return False
    if any(op.opdef.kind is not OpKind.POINTWISE for op in consumer.ops):  # before the solver is asked
        return False
    if stitched and (producer.ordered or not producer.axes.reduces_last):
        return False
    if not _may_stretch(drafts, producer, consumer.space) or len(producer.ops) + len(consumer.ops) > MOST_MEMBERS:
        return False
    full = [
        op
        for op in producer.ops
        if op.opdef.kind is not OpKind.REDUCE and not drafts.is_row(op.results[0].shape, producer)
    ]
    if any(op.opdef.kind is not OpKind.POINTWISE or is_heavy(op) for op in full):
        return False
    if not stitched and any(
        _is_read_elsewhere(drafts, v, producer, consumer) for op in producer.ops for v in op.results
    ):
        return False
    if drafts.order.between(producer.number, consumer.number):
        return False
    return all(_reads_stretched(drafts, op, v, producer) for op in consumer.ops for v in op.operands)


def _may_stretch(drafts: Drafts, group: Draft, space: tuple[Dim, ...]) -> bool:
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


def _is_read_elsewhere(drafts: Drafts, value: Value, producer: Draft, consumer: Draft) -> bool:
    """Whether others than two groups need a value in memory."""
    if value in drafts.pinned or value in drafts.shown:
        return True
    return any(drafts.draft_of[reader] not in (producer, consumer) for reader in drafts.readers.get(value, ()))


def _reads_stretched(drafts: Drafts, op: Op, operand: Value, producer: Draft) -> bool:
    """Whether what an op reads of a group, if anything, is read at the op's own index, stretched or not."""
    if not any(drafts.group_of.get(source) is producer for source in drafts.sources(operand)):
        return True
    read, rank = reading(drafts.views, operand), len(producer.space)
    if drafts.group_of.get(read.base) is not producer or read.base in drafts.pinned or len(operand.shape) != rank:
        return False
    lies = range(rank) if len(read.base.shape) == rank else producer.axes.kept
    return not isinstance(relation(read, range(rank), lies, rank), Other)
