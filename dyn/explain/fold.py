"""Finds the layers of a model: runs of kernels that repeat, each reading what the one before it made.

A run is folded only where nothing is lost by it: every repetition has the same kernels, reads the same of itself, of
the repetition before and of the outside, and only the last one is read from outside.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from dyn.frozen import record

#: A layer has at most this many kernels; a run of longer ones is left as it is.
_LONGEST = 96
#: Candidates are tried in order of the kernels that they fold; a few are enough.
_MOST_TRIES = 200


@record()
class Repetition:
    """``count`` repetitions of ``period`` steps, from step ``start`` on."""

    start: int
    period: int
    count: int

    @property
    def stop(self) -> int:
        return self.start + self.period * self.count


class StepOutput(NamedTuple):
    """An array that a step makes: the number of the step, and which of its outputs."""

    step: int
    output: int


@record()
class KernelStep:
    """A kernel: what it is, and where each array that it reads comes from.

    What is given, and not made, may be anything that is equal for equal arrays.
    """

    label: Hashable
    sources: tuple[StepOutput | Hashable, ...]


def find_folds(steps: Sequence[KernelStep], shown: frozenset[int]) -> list[Repetition]:
    """Runs that do not overlap, in order. ``shown`` are the steps whose outputs are results of the whole program."""
    readers: list[set[int]] = [set() for _ in steps]
    for number, step in enumerate(steps):
        for source in step.sources:
            if isinstance(source, StepOutput):
                readers[source.step].add(number)
    return _find(steps, readers, shown, 0, len(steps))


def best_order(steps: Sequence[KernelStep], shown: frozenset[int]) -> tuple[list[int], list[Repetition]]:
    """An order of execution in which most is folded, and its runs, numbered by it.

    Something that all layers read, computed between two kernels of the first one, hides that layer. So the steps are
    also tried in the order that goes on with what has just become possible.
    """
    best: tuple[list[int], list[Repetition]] = ([], [])
    most = -1
    for order in (list(range(len(steps))), _depth_first(steps)):
        place = {number: i for i, number in enumerate(order)}
        moved = [KernelStep(steps[n].label, tuple(_moved(source, place) for source in steps[n].sources)) for n in order]
        folds = find_folds(moved, frozenset(place[n] for n in shown))
        folded = sum((fold.count - 1) * fold.period for fold in folds)
        if folded > most:
            most, best = folded, (order, folds)
    return best


def _moved(source: StepOutput | Hashable, place: dict[int, int]) -> StepOutput | Hashable:
    return StepOutput(place[source.step], source.output) if isinstance(source, StepOutput) else source


def _depth_first(steps: Sequence[KernelStep]) -> list[int]:
    """An order of execution that goes on with what has just become possible."""
    waits = [{source.step for source in step.sources if isinstance(source, StepOutput)} for step in steps]
    readers: list[list[int]] = [[] for _ in steps]
    for number, sources in enumerate(waits):
        for source in sources:
            readers[source].append(number)
    ready = [number for number in reversed(range(len(steps))) if not waits[number]]
    order: list[int] = []
    while ready:
        number = ready.pop()
        order.append(number)
        for reader in reversed(readers[number]):
            waits[reader].discard(number)
            if not waits[reader]:
                ready.append(reader)
    return order


def _find(
    steps: Sequence[KernelStep], readers: list[set[int]], shown: frozenset[int], start: int, stop: int
) -> list[Repetition]:
    for tries, fold in enumerate(_candidates(steps, start, stop)):
        if tries >= _MOST_TRIES:
            break
        if _folds(steps, readers, shown, fold):
            before = _find(steps, readers, shown, start, fold.start)
            return [*before, fold, *_find(steps, readers, shown, fold.stop, stop)]
    return []


def _candidates(steps: Sequence[KernelStep], start: int, stop: int) -> Iterator[Repetition]:
    """Runs of equal labels, those that fold most kernels first, and of those the ones that begin early."""
    found: list[Repetition] = []
    for period in range(1, min(_LONGEST, (stop - start) // 2) + 1):
        equal = 0
        for i in reversed(range(start, stop - period)):
            equal = equal + 1 if steps[i].label == steps[i + period].label else 0
            if equal >= period:
                found.append(Repetition(i, period, equal // period + 1))
    found.sort(key=lambda f: (-(f.count - 1) * f.period, f.period, f.start))
    yield from found


def _folds(steps: Sequence[KernelStep], readers: list[set[int]], shown: frozenset[int], fold: Repetition) -> bool:
    last = fold.stop - fold.period
    inner = range(fold.start, last)
    if any(i in shown for i in inner):
        return False
    if any(not fold.start <= reader < min(i + 2 * fold.period, fold.stop) for i in inner for reader in readers[i]):
        return False
    chained = False
    for place in range(fold.period):
        first, *others = [_wiring(steps, fold, turn, place) for turn in range(fold.count)]
        if any(other != others[0] for other in others) or len(first) != len(others[0]):
            return False
        for here, there in zip(first, others[0], strict=True):
            if there[0] == "before":
                chained = True
                if here[0] != "outside":
                    return False
            elif here != there:
                return False
    return chained


def _wiring(steps: Sequence[KernelStep], fold: Repetition, turn: int, place: int) -> list[tuple[str, Hashable]]:
    """The reads of a step: of its own repetition, of the one before, or from outside."""
    begin = fold.start + turn * fold.period
    found: list[tuple[str, Hashable]] = []
    for source in steps[begin + place].sources:
        if isinstance(source, StepOutput) and source.step >= begin:
            found.append(("own", (source.step - begin, source.output)))
        elif isinstance(source, StepOutput) and turn and source.step >= begin - fold.period:
            found.append(("before", (source.step - begin, source.output)))
        else:
            found.append(("outside", source))
    return found
