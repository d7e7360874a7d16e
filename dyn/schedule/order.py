"""Orders of reductions: the tree in which the floats of a reduction combine, chosen before its loops."""

from __future__ import annotations

from dyn.frozen import record


@record()
class Order:
    """The tree of a float reduction that lanes go along, for any number of elements.

    The elements come in parts of ``part``, or all in one where that is 0. In each part ``unroll`` vectors of ``lanes``
    states take the elements in turn, as often as all of them have one; then the vectors are joined two by two, what is
    left over goes into the one vector, and its halves are joined until there is one state. The parts' states are
    elements in turn.

    Where lanes go along what is kept, each folds elements of its own, one after the other. In the innermost of its
    loops they go to ``chains`` states in turn, as long as there is one for each of them; what is left over goes to the
    first state, and the states are joined two by two. A chain waits for each of its additions.

    It follows from the dtype of the states and the target alone. So all kernels of a launch have one, whatever else
    their loops do, and no stride, pointer or number of threads changes a bit.
    """

    part: int
    lanes: int
    unroll: int
    chains: int = 1
