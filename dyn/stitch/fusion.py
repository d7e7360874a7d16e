"""Verdicts on two groups: the ``Fusion`` that they may become, or a :class:`NoFusion` in words.

A kind of fusion is a function of two groups that says so from relations, kinds and dependences alone. Whether what is
possible pays is asked elsewhere (``dyn.stitch.search``, ``dyn.stitch.cost``).
"""

from __future__ import annotations

from collections.abc import Callable

from dyn.frozen import record
from dyn.ir.core import Op
from dyn.stitch.drafts import MOST_MEMBERS, MOST_REDUCTIONS, Draft, Drafts, Fusion
from dyn.stitch.groups import GroupKind

#: Groups that others join only as an epilogue, and what that is the epilogue of.
EPILOGUES = {GroupKind.CONTRACT: "contraction", GroupKind.WINDOW: "window"}


@record()
class NoFusion:
    """Why two groups stay apart, in words that go on from "stays outside: ", and the op that is the reason."""

    words: str
    op: Op | None = None
    #: Whether groups between the two are all that keeps them apart.
    by_others: bool = False


Verdict = Fusion | NoFusion
#: A verdict of two groups, of which the first does not wait for the second.
Rule = Callable[[Drafts, Draft, Draft], Verdict]


def too_large(a: Draft, b: Draft) -> NoFusion | None:
    """Whether two groups have more ops together than a kernel should."""
    if len(a.ops) + len(b.ops) > MOST_MEMBERS:
        return NoFusion(f"together they have more than {MOST_MEMBERS} ops, which would take too long to compile")
    if a.reductions + b.reductions > MOST_REDUCTIONS:
        many = f"more than {MOST_REDUCTIONS} reductions"
        return NoFusion(f"together they have {many}, which would take too long to compile")
    return None


def waits_between(drafts: Drafts, a: Draft, b: Draft) -> NoFusion | None:
    """Whether a third group waits for one and is waited for by the other, so that they cannot be one."""
    if drafts.order.between(a.number, b.number):
        return NoFusion("a group between the two waits for one and is waited for by the other", by_others=True)
    return None
