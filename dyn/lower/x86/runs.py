"""Folds by runs of elements: each run in the quicker monoid of a ``Block``, and the runs in the fold's own.

A run is made of shorter ones, and these of steps. Each level has a state: after so many steps a level's state is added
to the next level's and begins anew, and the longest run's is lifted and combined with the totals. All of it stands
behind a test in each step, so a short loop pays a test, and what it folds is joined before it is lifted.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from dyn.lower.x86.folds import Accumulator
from dyn.lower.x86.llvm_text import VType, vtype
from dyn.schedule.kernel import Loop

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

I64 = vtype("i64")
#: The values that an accumulator carries.
Values = list[str]


class Runs:
    """The levels of a loop's folds, beside the accumulators of their shortest runs."""

    def __init__(
        self,
        em: KernelEmitter,
        loop: Loop,
        runs: Sequence[Accumulator],
        totals: Sequence[Accumulator | None],
        step: int,
    ) -> None:
        self.em, self.runs, self.totals = em, runs, totals
        own = () if loop.order is None else loop.order.runs
        sizes = [step * size for size in accumulate(own, operator.mul)]
        assert all(size & (size - 1) == 0 for size in sizes), "runs are no powers of two"
        longest = loop.extent if isinstance(loop.extent, int) else None
        some = any(total is not None for total in totals)
        #: Iterations of a run of each level that the loop may have whole; and whether the last is among them.
        self.sizes = [size for size in sizes if some and (longest is None or longest >= size)]
        self.several = bool(self.sizes) and len(self.sizes) == len(sizes)
        #: What each fold carries beside its shortest run: the states of longer runs, and the total.
        self.kept: list[list[Values]] = [[] if t is None else self._start(a, t) for a, t in self._folds()]

    def _folds(self) -> list[tuple[Accumulator, Accumulator | None]]:
        return list(zip(self.runs, self.totals, strict=True))

    def _levels(self, run: Accumulator, total: Accumulator) -> list[Accumulator]:
        """The accumulators of levels above the first."""
        return [*[run] * (len(self.sizes) - self.several), *[total] * self.several]

    def _start(self, run: Accumulator, total: Accumulator) -> list[Values]:
        return [list(acc.initial) for acc in self._levels(run, total)]

    def carried(self) -> list[tuple[VType, str]]:
        """Types and initial values of the levels' states, which a loop carries."""
        return [
            pair
            for (run, total), kept in zip(self._folds(), self.kept, strict=True)
            if total is not None
            for acc, values in zip(self._levels(run, total), kept, strict=True)
            for pair in zip(acc.types, values, strict=True)
        ]

    def values(self) -> Values:
        """The levels' values, in a row."""
        return [value for kept in self.kept for values in kept for value in values]

    def take(self, names: Sequence[str]) -> None:
        """Let the levels' values be others."""
        names = list(names)
        for (run, total), kept in zip(self._folds(), self.kept, strict=True):
            if total is not None:
                for number, acc in enumerate(self._levels(run, total)):
                    kept[number], names = list(names[: len(acc.types)]), names[len(acc.types) :]

    def advance(self, following: str, states: list[Values], level: int = 0) -> list[Values]:
        """After the step before ``following``, add full runs' states to those above, and begin them anew."""
        if level == len(self.sizes):
            return states
        em, fn = self.em, self.em.fn
        before, old = fn.block, [value for state in states for value in state] + self.values()
        types = [ty for run in self.runs for ty in run.types] + [ty for ty, _ in self.carried()]
        full, on = fn.label("full"), fn.label("on")
        left = fn.op("and", I64, following, str(self.sizes[level] - 1))
        fn.branch_if(fn.op("icmp eq", I64, left, "0"), full, on)
        before = fn.block
        fn.start(full)
        with em.scope(guarded=True):
            for number, (run, total) in enumerate(self._folds()):
                if total is not None:
                    own = states[number] if level == 0 else self.kept[number][level - 1]
                    self.kept[number][level] = self._added(run, total, level, self.kept[number][level], own)
                    if level == 0:
                        states = [*states[:number], list(run.initial), *states[number + 1 :]]
                    else:
                        self.kept[number][level - 1] = list(run.initial)
            states = self.advance(following, states, level + 1)
        new, inside = [value for state in states for value in state] + self.values(), fn.block
        fn.branch(on)
        fn.start(on)
        joined = [
            a if a == b else fn.value(f"phi {ty} [ {a}, %{before} ], [ {b}, %{inside} ]")
            for ty, a, b in zip(types, old, new, strict=True)
        ]
        made: list[Values] = []
        for run in self.runs:
            made.append(joined[: len(run.types)])
            joined = joined[len(run.types) :]
        self.take(joined)
        return made

    def _added(self, run: Accumulator, total: Accumulator, level: int, to: Values, own: Values) -> Values:
        """A level's state with that of the level below."""
        found = run.results(own)
        if self.several and level == len(self.sizes) - 1:
            return total.step(to, total.lifted(found))
        return run.step(to, found)

    def joined(self, states: Sequence[Values]) -> list[Values]:
        """The shortest runs' states with those of longer ones: what is not in the totals."""
        made: list[Values] = []
        for (run, total), kept, state in zip(self._folds(), self.kept, states, strict=True):
            if total is not None:
                for values in kept[: len(self.sizes) - self.several]:
                    state = run.step(values, run.results(state))
            made.append(list(state))
        return made

    def added(self, states: Sequence[Values]) -> list[Values]:
        """The totals with what is not in them."""
        return [
            list(state)
            if total is None
            else total.step(kept[-1] if self.several else total.initial, total.lifted(run.results(state)))
            for (run, total), kept, state in zip(self._folds(), self.kept, states, strict=True)
        ]

    def horizontal(self, states: Sequence[Values], stop: str) -> Values:
        """The folds' states, their lanes joined: of the totals, or where the steps up to ``stop`` are no whole run, of
        what is left, which costs less."""
        em, fn = self.em, self.em.fn
        if not self.several:
            return self._of_run(states)
        if not stop.startswith("%"):
            return self._of_totals(states)
        totals, single, done = fn.label("totals"), fn.label("single"), fn.label("joined")
        fn.branch_if(fn.op("icmp sge", I64, stop, str(self.sizes[-1])), totals, single)
        found: list[tuple[Values, str]] = []
        for label, join in ((totals, self._of_totals), (single, self._of_run)):
            fn.start(label)
            with em.scope(guarded=True):
                found.append((join(states), fn.block))
            fn.branch(done)
        fn.start(done)
        (left, after_left), (right, after_right) = found
        types = [em.register(ref.dtype) for run, total in self._folds() for ref in (total or run).fold.refs]
        return [
            fn.value(f"phi {ty} [ {a}, %{after_left} ], [ {b}, %{after_right} ]")
            for ty, a, b in zip(types, left, right, strict=True)
        ]

    def _of_totals(self, states: Sequence[Values]) -> Values:
        return [
            value
            for (run, total), state in zip(self._folds(), self.added(states), strict=True)
            for value in (total or run).horizontal(state)
        ]

    def _of_run(self, states: Sequence[Values]) -> Values:
        results: Values = []
        for (run, total), state in zip(self._folds(), states, strict=True):
            joined = run.horizontal(state)
            if total is not None:
                scalar = Accumulator(self.em, total.fold, 1, 1, joined=False)
                joined = [part for (part,) in scalar.lifted([[part] for part in joined])]
            results += joined
        return results
