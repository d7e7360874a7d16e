"""Functions of elementwise ops and views over arrays of one rank."""

from __future__ import annotations

from dyn.ir.core import Function
from dyn.ir.opdef import OpKind

_KINDS = frozenset([OpKind.POINTWISE, OpKind.VIEW, OpKind.GENERATE, OpKind.CALL])


def elementwise_rank(function: Function) -> int:
    """The one rank, of two or more, of the arrays of a function of elementwise ops, views and calls; 0 for any other.

    Arguments and results without axes may be there beside them.
    """
    ranks = {value.type.rank for value in (*function.params, *function.results)} - {0}
    if len(ranks) != 1 or ranks == {1} or any(op.opdef.kind not in _KINDS for op in function.ops):
        return 0
    return ranks.pop()
