"""Learning that sizes broadcast together."""

from __future__ import annotations

from dyn.shapes.joins import joined_from
from dyn.shapes.learn.learner import ContradictionError, Learner, join_why
from dyn.shapes.relation import RelKind
from dyn.shapes.retract import Fact
from dyn.shapes.simplify import Simplifier


def broadcasts(learner: Learner, s: Simplifier, fact: Fact) -> None:
    a, b, why = fact.dim, fact.other, fact.why
    if learner.is_refuted(s, fact):
        raise ContradictionError(join_why(why, s))
    if s.fits(a, b, as_parts=False):  # of a part of what fits more may follow
        return
    for joined, other in ((a, b), (b, a)):  # what is joined from sizes is 1 only where all are: each of them fits
        parts = joined_from(joined)
        for part in parts if len(parts) > 1 else ():
            # Elsewhere that is found when it is asked for, and nothing follows from it.
            if s.bounds.nonzero(other - 1) or s.bounds.nonzero(part - 1):
                learner.push(RelKind.BROADCASTS, part, join_why(why, s), other)
    if s.bounds.nonzero(a - 1) and s.bounds.nonzero(b - 1):
        learner.push(RelKind.EQ, a - b, join_why(why, s))
        return
    learner.state.add_broadcast(a, b, why)
    learner.note(a, b)
    learner.keep_bounds()
    for size, other in ((a, b), (b, a)):
        if s.bounds.at_least(other, 2):  # the size is 1 or the other
            learner.push(RelKind.GE, size - 1, join_why(why, s))
            learner.push(RelKind.GE, other - size, join_why(why, s))
        elif s.is_zero(other):
            learner.push(RelKind.GE, 1 - size, join_why(why, s))
