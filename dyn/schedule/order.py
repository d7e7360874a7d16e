"""Orders of reductions: the tree in which the floats of a reduction combine, chosen before its loops."""

from __future__ import annotations

from dyn.frozen import record


@record()
class Order:
    """The tree of a float reduction that lanes go along, for any number of elements.

    Elements come in parts of ``part``, or all in one where that is 0, and the parts' states are elements in turn. In
    each part steps of ``unroll`` vectors of ``lanes`` elements follow one another, as often as all of them have one.
    Then come single vectors, and the halves of the vector of states that there is are joined until there is one.

    Folds with a ``Block`` have one vector of states, to which each step's vectors go, joined two by two. They go by
    runs: after ``runs[0]`` steps the states are added to those of the next level and begin anew, after ``runs[1]`` of
    these runs the next level's, and so on; the last level's are lifted and combined with the totals. In the end the
    levels are joined, the lowest first, lifted, and combined with the totals. Of less than a run of the last level the
    lanes are joined before they are lifted. Other folds have a vector of states for each vector of a step, and these
    are joined two by two at the end.

    Where lanes go along what is kept, each folds elements of its own: in the innermost of its loops by steps of
    ``step`` elements, joined two by two, then one by one; with a ``Block`` by runs of steps as above.

    Short runs keep errors small at the price of an addition in some: four equal numbers are added up without an error,
    and four such sums (a run of eight has one). A run's state waits for no other run's.

    It follows from the dtype of the states and the target alone. So all kernels of a launch have one, whatever else
    their loops do, and no stride, pointer or number of threads changes a bit.
    """

    part: int
    lanes: int
    unroll: int
    step: int = 1
    runs: tuple[int, ...] = (1,)
