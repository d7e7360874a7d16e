"""Adding facts to a state: each is brought into solved form, and what follows from it is added in turn.

A new value for an atom takes every stored fact that mentions the atom out of the state, and learns it again in terms of
what is left. The queue has a budget; facts that do not fit in it are dropped, which loses power and never soundness.

A fact about a minimum or maximum which only one of its arguments can satisfy says which one it is. Where opaque terms
become something simpler by what is learned, the facts about them become facts about that: little depends on the order
in which facts were learned.

``learner`` holds the state and the queue; ``equalities``, ``inequalities``, ``divisibility`` and ``broadcasts`` are the
rules; ``rules`` takes one fact after the other.
"""

from dyn.shapes.learn.learner import ContradictionError
from dyn.shapes.learn.rules import learn

__all__ = ["ContradictionError", "learn"]
