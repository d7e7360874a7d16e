"""Values that are spread over more axes than the arrays that they are computed of: ``x[:, None] - y[None, :]``.

They cost their readers little to compute, from arrays that lie in the caches, and much to write: where all readers may,
they compute them, and nobody stores them.
"""

from __future__ import annotations

from dyn.ir.core import Op, Value
from dyn.ir.opdef import OpKind
from dyn.stitch.drafts import Drafts
from dyn.stitch.groups import GroupKind
from dyn.stitch.relations import AT_RELATED_PLACES, Same, goes_along_all, relation
from dyn.stitch.scalar_work import is_heavy

#: A value is computed by so many functions at the most.
_MOST_OPS = 3


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
        if any(place.axis is None and not place.single for place in read.places):
            return False
        whole = goes_along_all(read, operand.shape) or read.base in drafts.group_of
        if whole and not _is_spread(drafts, read.base, most - 1):
            return False
    return any(size != 1 for size in value.shape)


def left_to_readers(drafts: Drafts, value: Value) -> bool:
    """Whether a value that is spread is read by elementwise functions and reductions alone, each at its own place: then
    they compute it, and it is not stored."""
    if value in drafts.pinned or value in drafts.shown or value in drafts.awaited or not is_spread(drafts, value):
        return False
    others = [r for r in drafts.readers.get(value, ()) if drafts.draft_of[r] is not drafts.group_of[value]]
    return all(_computes(drafts, reader, value) for reader in others)


def _computes(drafts: Drafts, reader: Op, value: Value) -> bool:
    """Return True if an op of a loop or a reduction reads a value at its own place alone."""
    kind, rank = drafts.draft_of[reader].kind, len(value.shape)
    if kind not in (GroupKind.LOOP, GroupKind.STITCH) or reader.opdef.kind not in AT_RELATED_PLACES:
        return False
    reads = [(v, drafts.reading(v)) for v in reader.operands if value in drafts.sources(v)]
    return all(
        len(v.shape) == rank and read.base is value and relation(read, range(rank), range(rank), rank) == Same()
        for v, read in reads
    )
