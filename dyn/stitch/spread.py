"""Values that are spread over more axes than the arrays that they are computed of: ``x[:, None] - y[None, :]``.

They cost their readers little to compute, from arrays that lie in the caches, and much to write: where all readers may,
they compute them, and nobody stores them.
"""

from __future__ import annotations

from dyn.ir.core import Value
from dyn.ir.opdef import OpKind
from dyn.stitch.drafts import Draft, Drafts
from dyn.stitch.groups import GroupKind
from dyn.stitch.relations import Same, relation
from dyn.stitch.scalar_work import is_heavy

#: A value is computed by so many functions at the most.
_MOST_OPS = 3
#: The kinds of ops that may compute what they read.
_READERS = (OpKind.POINTWISE, OpKind.REDUCE)


def is_spread(drafts: Drafts, value: Value) -> bool:
    """Whether a value is computed by a few cheap functions of arrays that are there from the beginning, each of which
    lacks an axis of it."""
    known = drafts.known_spread.get(value)
    if known is None:
        known = drafts.known_spread[value] = _is_spread(drafts, value, _MOST_OPS)
    return known


def _is_spread(drafts: Drafts, value: Value, most: int) -> bool:
    op = drafts.producers.get(value)
    if op is None or most == 0 or op.opdef.kind is not OpKind.POINTWISE or op.regions or is_heavy(op):
        return False
    for operand in op.operands:
        read = drafts.reading(operand)
        used = {place.axis for place in read.places if not place.single}
        whole = all(size == 1 or axis in used for axis, size in enumerate(operand.shape))
        if None in used or ((whole or read.base in drafts.group_of) and not _is_spread(drafts, read.base, most - 1)):
            return False
    return value.type.size != 1


def left_to_readers(drafts: Drafts, value: Value) -> bool:
    """Whether a value that is spread is read by elementwise functions and reductions alone, each at its own place: then
    they compute it, and it is not stored."""
    if value in drafts.pinned or value in drafts.shown or value in drafts.awaited or not is_spread(drafts, value):
        return False
    return all(
        _computes(drafts, drafts.draft_of[reader], value, operand)
        for reader in drafts.readers.get(value, ())
        if drafts.draft_of[reader] is not drafts.group_of[value]
        for operand in reader.operands
        if reader.opdef.kind not in _READERS or value in drafts.sources(operand)
    )


def _computes(drafts: Drafts, draft: Draft, value: Value, operand: Value) -> bool:
    if draft.kind not in (GroupKind.LOOP, GroupKind.STITCH) or value not in drafts.sources(operand):
        return False
    read, rank = drafts.reading(operand), len(value.shape)
    return (
        len(operand.shape) == rank and read.base is value and relation(read, range(rank), range(rank), rank) == Same()
    )
